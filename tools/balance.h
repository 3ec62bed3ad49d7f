// Channels of like ranges (quantize/balance.h), as --balance says.
#pragma once

#include "sixfold/quantize/improve.h"
#include "tools/htp.h"

namespace sixfold::tools {

// By a number.
Status balance_as_told(Graph& graph, const Samples& samples, const HtpChoice& choice, HtpMethod& method);

// By itself: the model is quantized with it and without, and what gives more decibels stays. Not for
// encodings from or for elsewhere, which are of the model as it is.
bool balances_by_itself(const HtpChoice& choice, const QuantizeOptions& options);
// Nothing where channels are alike, by the first sample that quantizing it saw.
Result<std::optional<Graph>> balanced_copy(const Graph& graph, const Observations& first,
                                           const Samples& samples, bool bf16);
// Decibels of both.
bool is_gain(double plain, double balanced);
std::string told_balance(double plain, double balanced);

}  // namespace sixfold::tools
