// What quantizing does for accuracy, by the command line's words, and what it tells of it.
#pragma once

#include <nlohmann/json.hpp>

#include "sixfold/quantize/improve.h"
#include "tools/command.h"

namespace sixfold::tools {

Result<ImproveOptions> improvements(const HtpChoice& choice, int activation_bits);

// A bar on a terminal; nothing elsewhere.
std::function<void(size_t done, size_t total)> progress_of(const char* what);

// At once on a terminal, where somebody waits; nothing elsewhere, since it is in the report too.
void warn(std::string_view what);

// graph: the float one. Layers worst first.
nlohmann::ordered_json describe_accuracy(const Graph& graph, const Improved& improved);
// The whole and the worst layers, for people.
void print_accuracy(const nlohmann::ordered_json& accuracy);

}  // namespace sixfold::tools
