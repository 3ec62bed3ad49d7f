// What the subcommands of `sixfold` take and do. Tools print; libraries below never do. Only main.cpp sees
// the parser.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold::tools {

// sixfold run
struct RunOptions {
  std::string model, engine = "cpu";
  std::vector<std::string> inputs;
  std::string output_dir, npz, npz_out, labels;
  size_t rows = 0, threads = 0, iterations = 1, warmup = 0;
  bool json = false, profile = false;
  std::vector<std::string> disabled;
  size_t stop_after = SIZE_MAX;
  std::string method = "forward", input_list;  // of a .pte
  std::vector<std::string> data_files;  // .ptd
  bool verify_data = false;
};
Status run_command(const RunOptions& options);

// sixfold show
struct ShowOptions {
  std::string model, stage = "canonical";
  bool json = false, text = false, summary = false;
};
Status show_command(const ShowOptions& options);

// sixfold ops
struct OpsOptions {
  bool json = false, markdown = false;
};
Status ops_command(const OpsOptions& options);

// Writes the text to stdout at once, with a line end.
void print_line(const std::string& text);

}  // namespace sixfold::tools
