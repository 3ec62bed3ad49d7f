// What quantizing does for accuracy, by the command line's words, and what it tells of it.
#pragma once

#include <nlohmann/json.hpp>

#include "sixfold/quantize/improve.h"
#include "tools/command.h"

namespace sixfold::tools {

Result<ImproveOptions> improvements(const HtpChoice& choice, int activation_bits);

// A bar on a terminal; nothing elsewhere.
std::function<void(size_t done, size_t total)> progress_of(const char* what);
void end_progress();

// At once on a terminal, where somebody waits; nothing elsewhere, since it is in the report too.
void warn(std::string_view what);

// What was chosen. graph: the float one.
nlohmann::ordered_json describe_choice(const Graph& graph, const Improved& improved);
// What it loses, layers worst first.
nlohmann::ordered_json describe_accuracy(const Graph& graph, const Accuracy& accuracy);
// The whole and the worst layers, for people.
void print_accuracy(const nlohmann::ordered_json& accuracy);

}  // namespace sixfold::tools
