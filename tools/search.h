// --precision auto: precisions by layer, and the table that they were chosen from.
#pragma once

#include <nlohmann/json.hpp>

#include "sixfold/quantize/samples.h"
#include "sixfold/quantize/search.h"

namespace sixfold::tools {

// The cheapest of 8a8w, 16a8w and fp16 for each layer of a prepared graph that together lose no more.
Result<Search> search_for(const Graph& graph, const QuantizeOptions& options, const Samples& samples,
                          double max_loss);

nlohmann::ordered_json describe_search(const Search& search, double max_loss);
void print_search(const nlohmann::ordered_json& search);

}  // namespace sixfold::tools
