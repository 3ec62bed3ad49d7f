// What the subcommands of `sixfold` take and do. Tools print; libraries below never do. Only main.cpp sees
// the parser.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold::tools {

// sixfold run
struct RunOptions {
  std::string model;
  std::string engine;  // empty: cpu, and the emulator for the NPU's parts of a .pte
  std::vector<std::string> inputs;
  std::string output_dir, npz, npz_out, labels;
  size_t rows = 0, threads = 0, iterations = 1, warmup = 0;
  bool json = false, profile = false;
  std::vector<std::string> disabled;
  size_t stop_after = SIZE_MAX;
  std::string method = "forward", input_list;  // of a .pte
  std::vector<std::string> data_files;         // .ptd
  bool verify_data = false;
  std::string etdump, values;                             // files to write
  std::string qnn_lib_dir, soc, soc_file, profile_level;  // of the NPU's engine
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

// What an NPU is asked for.
struct HtpChoice {
  std::string soc = "SM8650", soc_file, engine = "emulator", qnn_lib_dir, precision = "fp16";
  std::vector<std::string> skip_nodes, skip_ops, disabled_rules;
  int optimization = 3, hvx_threads = 0, vtcm_mb = 0;  // 0: the SoC's own
  std::string priority = "normal";
  bool weight_sharing = false, dlbc = false;
  bool single_heads = false;
  bool apply_fixes = false;
  std::string cache;  // folder of contexts that were compiled before
  bool per_channel_conv = true, per_channel_embedding = false;
  bool per_channel_linear = true;
  bool widen = true;                     // 16 bits where 8 tell too little
  std::vector<std::string> block_sizes;  // NODE=1,32
  std::string calib;                     // samples; 8-bit weights need none
  bool assume_ranges = false;            // no samples: ask with ranges that nobody saw
  std::string preprocess;                // of images
  std::string observer = "auto", rounding = "auto";
  bool search_scales = false, correct_biases = true, equalize = false, tell_accuracy = true;
  float smooth = 0;  // SmoothQuant's exponent; 0: not
  std::string balance = "auto";
  bool f32_runs = false;  // no bfloat16 while ranges are found
  std::string recipe, encodings, export_encodings, simulated;
  double max_loss = 0.01;  // of the precision auto
  bool strict = false;
};

// sixfold kernels
struct KernelsOptions {
  std::vector<std::string> programs, data_files;
  std::string output;  // empty: stdout
};
Status kernels_command(const KernelsOptions& options);

// sixfold compile
struct CompileOptions {
  std::vector<std::string> models;  // MODEL.pt2, or NAME=MODEL.pt2 for each of several methods
  std::string output, backend = "htp";
  std::string npu_option;  // one that was given and that only the NPU has
  HtpChoice htp;
  uint64_t alignment = 64, segment_alignment = 128, constant_alignment = 16;
  bool page_align = false, plan_inputs = true, plan_outputs = true, in_place = true, json = false;
  bool keep_batch_norm = false;  // as calls on the CPU; the NPU's graphs always fold them
  bool fail_on_fallback = false;
  std::vector<std::string> bounds;  // SYMBOL=N
  std::vector<std::string> disabled;
};
Status compile_command(const CompileOptions& options);

// sixfold audit
struct AuditOptions {
  std::string model;
  HtpChoice htp;
  std::vector<std::string> bounds;  // SYMBOL=N
  bool json = false, fail_on_fallback = false;
};
Status audit_command(const AuditOptions& options);

// sixfold doctor
struct DoctorOptions {
  std::string qnn_lib_dir, soc, soc_file;
  bool json = false;
};
Status doctor_command(const DoctorOptions& options);

// sixfold compare
struct CompareOptions {
  std::vector<std::string> models;
  std::string soc = "SM8650", qnn_lib_dir, precision = "fp16", only;
  uint64_t seed = 1;
  size_t mutations = 0;
  uint32_t fixed_bits = 0;  // 8 or 16: float ops in fixed point; 0: as they are
  bool no_run = false, json = false;
};
Status compare_command(const CompareOptions& options);

// Writes the text to stdout at once, with a line end.
void print_line(const std::string& text);

}  // namespace sixfold::tools
