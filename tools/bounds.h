// --bound SYMBOL=N: sizes that a model leaves open.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sixfold/graph/graph.h"

namespace sixfold::tools {

Result<Bindings> parse_bounds(const std::vector<std::string>& texts);
// The most that each may be; names must be the model's, numbers within its ranges.
Status apply_bounds(Graph& graph, const Bindings& bounds);

// Numbers for all symbols that the inputs decide, with which the model can be read: the most that its ranges
// allow, or else a few usual ones. Nothing where there are none, or no number fits.
std::optional<Bindings> choose_static_sizes(const Graph& imported);

}  // namespace sixfold::tools
