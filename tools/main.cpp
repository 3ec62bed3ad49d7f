// sixfold: the command line. Exit 0 only when what was asked happened; otherwise one sentence on stderr.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>

#include "sixfold/quantize/ranks.h"
#include "tools/command.h"
#include "tools/supervise.h"

namespace sixfold::tools {

void print_line(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

namespace {

using Command = std::function<Status()>;

void add_run(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* run = app.add_subcommand("run", "Run a model on an engine");
  run->add_option("model", options->model, "A .pt2 or .pte file, or a .bpte: its cases, checked")->required();
  run->add_option("--engine", options->engine,
                  "Engine to run on: cpu; for the NPU's parts of a .pte emulator (as without it), or qnn");
  run->add_option("--qnn-lib-dir", options->qnn_lib_dir, "Folder of Qualcomm's libraries");
  run->add_option("--soc", options->soc, "The chip that a .pte is to run on; else the one that it is for");
  run->add_option("--soc-file", options->soc_file, "JSON file that adds a chip");
  run->add_option("--profile-level", options->profile_level,
                  "What the NPU reports of each call: off, basic or detailed (op by op); without it what the "
                  ".pte says, and detailed for --profile and --etdump");
  run->add_option("--input", options->inputs,
                  "An input as .npy, once for each input in order (tensors and numbers)")
      ->allow_extra_args(false);
  run->add_option("--output-dir", options->output_dir, "Folder for output_0.npy, output_1.npy, ...");
  run->add_option("--npz", options->npz,
                  "Inputs in0, in1, ... stacked over samples: row i of each is one call");
  run->add_option("--npz-out", options->npz_out, "File for out0, out1, ... stacked over the rows");
  run->add_option("--rows", options->rows, "Run only the first N rows of --npz");
  run->add_option("--labels", options->labels,
                  "Array of --npz with class numbers: prints the accuracy of out0's argmax");
  run->add_option("--threads", options->threads, "Threads; 0 means one for each core")->capture_default_str();
  run->add_option("--iterations", options->iterations, "Timed runs of each call")->capture_default_str();
  run->add_option("--warmup", options->warmup, "Runs before the timed ones")->capture_default_str();
  run->add_option("--input-list", options->input_list,
                  "File with a line for each call of a .pte: the .npy files of its inputs");
  run->add_option("--method", options->method, "Method of a .pte")->capture_default_str();
  run->add_option("--data", options->data_files, "A .ptd with constants of a .pte")->allow_extra_args(false);
  run->add_flag("--verify-data", options->verify_data,
                "Compare the hash of every segment of a .pte, not only of small ones");
  run->add_option("--etdump", options->etdump,
                  "File for an ETDump of the runs of a .pte, which ExecuTorch's Inspector opens");
  run->add_option("--etdump-values", options->values,
                  "File for what every instruction gave, the Inspector's debug buffer");
  run->add_flag("--profile", options->profile, "Time spent in each op");
  run->add_option("--disable-rule", options->disabled, "Rewrite rule to leave out, by name");
  run->add_option("--stop-after", options->stop_after, "Apply at most N rewrites");
  run->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  run->callback([=, &chosen] { chosen = [=] { return run_command(*options); }; });
}

void add_show(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* show = app.add_subcommand(
      "show",
      "Show a model: inputs, outputs, ops, costs, parameters, graph; of a .pte also memory and segments");
  show->add_option("model", options->model, "A .pt2, .pte, .ptd or .bpte file")->required();
  show->add_option("--stage", options->stage,
                   "Graph to show: imported (as in the file), canonical, or cpu (as the CPU engine runs it)")
      ->capture_default_str();
  show->add_flag("--summary", options->summary, "Leave out the graph");
  show->add_flag("--text", options->text, "Only the graph, in the text form that reads back");
  show->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  show->callback([=, &chosen] { chosen = [=] { return show_command(*options); }; });
}

void add_ops(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<OpsOptions>();
  CLI::App* ops = app.add_subcommand("ops", "List the ATen overloads that are read, by family");
  ops->add_flag("--markdown", options->markdown, "The page docs/ops.md");
  ops->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  ops->callback([=, &chosen] { chosen = [=] { return ops_command(*options); }; });
}

void add_htp(CLI::App& command, HtpChoice& htp) {
  command.add_option("--soc", htp.soc, "Chip to compile for, as SM8650")->capture_default_str();
  command.add_option("--soc-file", htp.soc_file, "JSON file that adds a chip");
  command.add_option("--engine", htp.engine, "Who compiles: emulator (ours), or qnn (Qualcomm's libraries)")
      ->capture_default_str();
  command.add_option("--qnn-lib-dir", htp.qnn_lib_dir, "Folder of Qualcomm's libraries");
  CLI::Option* precision = command.add_option("--precision", htp.precision,
                                              "Of what the model does not say itself: fp16, fp16a8w (8-bit "
                                              "weights), 8a8w, 8a4w, 16a16w, 16a8w, 16a4w, "
                                              "16a4w_block or 16a2w (bits of activations and weights); auto: "
                                              "by layer. Default: 8a8w with --calib, fp16 "
                                              "without");
  command.parse_complete_callback([precision, &htp] {
    if (precision->count() == 0 && !htp.calib.empty()) htp.precision = "8a8w";
  });
  command
      .add_option("--max-loss", htp.max_loss,
                  "With --precision auto: how much of the outputs' power may be noise, as 0.01 (20 dB)")
      ->capture_default_str();
  command.add_option("--calib", htp.calib, "Samples to choose ranges by: .npz, list of .npy files, folder");
  command.add_option(
      "--preprocess", htp.preprocess,
      "Of images: resize=256,crop=224,mean=0.485:0.456:0.406,std=0.229:0.224:0.225,layout=nchw");
  command
      .add_option(
          "--observer", htp.observer,
          "How ranges are chosen: auto (by trying), min-max, moving-average, mse, entropy, percentile")
      ->capture_default_str();
  command
      .add_option(
          "--rounding", htp.rounding,
          "Of weights: nearest, adaround (by what layers read), auto (that for layers where it is quick)")
      ->capture_default_str();
  command.add_flag("--search-scales", htp.search_scales, "Weights: the scale of a channel that errs least");
  command.add_flag("!--no-bias-correction", htp.correct_biases, "Biases stay as they are");
  command.add_flag("--equalize", htp.equalize, "Channels of like ranges in pairs of convolutions, first");
  command
      .add_option(
          "--balance", htp.balance,
          "Channels between convolutions get like ranges: auto (where a trial gains), off, or how much "
          "of what activations differ by weights take, 0 to 1")
      ->capture_default_str();
  command.add_option("--smooth", htp.smooth,
                     "SmoothQuant: how much of the activations' ranges weights take, 0 to 1; 0: nothing");
  command.add_flag("!--no-widen", htp.widen, "All activations in 8 bits, even where they tell too little");
  command.add_flag(
      "--f32-runs", htp.f32_runs,
      "Large models: calibration and tries multiply f32 also where the CPU is faster with bfloat16");
  command.add_flag("!--no-accuracy", htp.tell_accuracy, "Do not compare with float on samples held back");
  command.add_flag("--per-channel-linear,!--no-per-channel-linear", htp.per_channel_linear,
                   "A scale for each output of a linear layer, or one for all");
  command.add_flag("--per-channel-conv,!--no-per-channel-conv", htp.per_channel_conv,
                   "A scale for each output of a convolution, or one for all");
  command.add_flag("--per-channel-embedding", htp.per_channel_embedding,
                   "A scale for each row of an embedding's table");
  command
      .add_option("--block-size", htp.block_sizes,
                  "NODE=1,32: with 16a4w_block, scales for blocks of 32 input channels of this node's weight")
      ->allow_extra_args(false);
  command.add_option("--recipe", htp.recipe, "JSON file: other precisions for ops, nodes and modules");
  command.add_option("--encodings", htp.encodings, "JSON file with encodings to use, in AIMET's form");
  command.add_option("--export-encodings", htp.export_encodings, "JSON file to write the encodings to");
  command.add_option("--simulated", htp.simulated,
                     "Folder for what the first sample gives in ideal arithmetic: output_0.npy, ...");
  command.add_flag("--strict", htp.strict, "What the chip has not as asked for is an error, not a note");
  command.add_option("--skip-node", htp.skip_nodes, "Node to keep on the CPU, by name")
      ->allow_extra_args(false);
  command.add_option("--skip-op", htp.skip_ops, "Op to keep on the CPU, as aten.add.Tensor")
      ->allow_extra_args(false);
  command.add_option("--optimization", htp.optimization, "Optimization level of the NPU's compiler, 1 to 3")
      ->capture_default_str();
  command.add_option("--hvx-threads", htp.hvx_threads, "HVX threads of a graph; 0: the chip's");
  command.add_option("--vtcm-mb", htp.vtcm_mb, "Fast memory for a graph in MB; 0: the chip's");
  command
      .add_option("--priority", htp.priority, "Of the graphs on the device: low, normal, normal_high or high")
      ->capture_default_str();
  command.add_flag("--dlbc", htp.dlbc, "Values that leave the fast memory are compressed");
  command.add_flag(
      "--weight-sharing", htp.weight_sharing,
      "Methods keep equal weights once; such a file runs on a device, not on Qualcomm's host library");
  command.add_flag("--apply-fixes", htp.apply_fixes,
                   "Change the model where a tried fix brings a node onto the NPU, and say each change");
  command.add_flag("--single-heads", htp.single_heads, "Attention head by head");
}

void add_kernels(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<KernelsOptions>();
  CLI::App* kernels = app.add_subcommand(
      "kernels", "What .pte files need of the runtime, as the header of a build with nothing else");
  kernels->add_option("programs", options->programs, "The .pte files")->required();
  kernels->add_option("--data", options->data_files, ".ptd files with their constants");
  kernels->add_option("-o,--output", options->output, "The header to write, instead of stdout");
  kernels->callback([=, &chosen] { chosen = [=] { return kernels_command(*options); }; });
}

void add_compile(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<CompileOptions>();
  CLI::App* compile = app.add_subcommand("compile", "Compile a model to a .pte that ExecuTorch runs");
  compile->add_option("model", options->models, "A .pt2 file; or NAME=FILE for each of several methods")
      ->required();
  compile->add_option("-o,--output", options->output, "The .pte to write")->required();
  compile
      ->add_option("--backend", options->backend,
                   "What computes: htp (the NPU), or cpu (ExecuTorch's own kernels)")
      ->capture_default_str();
  compile->add_option("--alignment", options->alignment, "Alignment of tensors in the arena, in bytes")
      ->capture_default_str();
  compile->add_option("--segment-alignment", options->segment_alignment, "Alignment of segments, in bytes")
      ->capture_default_str();
  compile->add_option("--constant-alignment", options->constant_alignment, "Alignment of constants, in bytes")
      ->capture_default_str();
  compile->add_flag("--page-align", options->page_align,
                    "Segments start at pages, so that each can be mapped");
  compile->add_option("--bound,--bounds", options->bounds,
                      "SYMBOL=N: the most that a symbolic size may be; for the NPU, what it is");
  compile->add_flag("!--no-plan-inputs", options->plan_inputs, "Inputs stay in the caller's memory");
  compile->add_flag("!--no-plan-outputs", options->plan_outputs, "The caller brings memory for outputs");
  compile->add_flag("!--no-in-place", options->in_place, "No kernel writes over its operand");
  compile->add_flag("--keep-batch-norm", options->keep_batch_norm,
                    "On the CPU, batch norms stay calls instead of going into weights: torch's own rounding");
  compile->add_option("--disable-rule", options->disabled, "Rewrite rule to leave out, by name");
  compile->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  CLI::App* npu = compile->add_option_group("NPU");
  add_htp(*npu, options->htp);
  npu->add_option("--cache", options->htp.cache,
                  "Folder that keeps the NPU's parts by content: what did not change is not compiled again");
  npu->add_flag("--fail-on-fallback", options->fail_on_fallback,
                "Write nothing and exit 1 when a node would run on the CPU");
  compile->callback([=, &chosen] {
    for (const CLI::Option* option : npu->get_options())
      if (option->count() > 0) options->npu_option = option->get_name();
    chosen = [=] { return compile_command(*options); };
  });
}

void add_audit(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<AuditOptions>();
  CLI::App* audit = app.add_subcommand(
      "audit",
      "What of a model the NPU would run, what not and why, at what cost, and fixes that were tried");
  audit->add_option("model", options->model, "A .pt2 file")->required();
  add_htp(*audit, options->htp);
  audit->add_option("--bound,--bounds", options->bounds, "SYMBOL=N: what a symbolic size is");
  audit->add_flag("--fail-on-fallback", options->fail_on_fallback, "Exit 1 when a node would run on the CPU");
  audit->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  audit->callback([=, &chosen] { chosen = [=] { return audit_command(*options); }; });
}

void add_doctor(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor = app.add_subcommand(
      "doctor", "What this machine has: QNN libraries with versions, CPU, Python packages; what is missing");
  doctor->add_option("--qnn-lib-dir", options->qnn_lib_dir, "Folder of libQnnHtp.so and libQnnSystem.so");
  doctor->add_option("--soc", options->soc,
                     "Chip to prepare a graph for, as a trial; SM8650 when none is named");
  doctor->add_option("--soc-file", options->soc_file, "JSON of a chip that is not in the table");
  doctor->add_flag("--json", options->json, "One JSON object on stdout instead of text");
  doctor->callback([=, &chosen] { chosen = [=] { return doctor_command(*options); }; });
}

void add_compare(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* compare = app.add_subcommand(
      "compare",
      "Each op of models on the emulator and on Qualcomm's library, with random inputs: distances");
  compare->add_option("models", options->models, ".pt2 files")->required();
  compare->add_option("--soc", options->soc, "Chip, as SM8650")->capture_default_str();
  compare->add_option("--qnn-lib-dir", options->qnn_lib_dir, "Folder of Qualcomm's libraries");
  compare->add_option("--precision", options->precision, "fp16 or fp16a8w")->capture_default_str();
  compare->add_option("--only", options->only, "Only ops of this type, as Conv2d");
  compare->add_option("--seed", options->seed, "Of the inputs")->capture_default_str();
  compare->add_option("--mutate", options->mutations,
                      "Ask about N ops, each changed in one way, instead: do both refuse the same");
  compare->add_option("--fixed", options->fixed_bits, "Float ops in fixed point of 8 or 16 bits instead");
  compare->add_flag("--no-run", options->no_run, "Only ask whether the device takes them");
  compare->add_flag("--json", options->json, "One JSON array on stdout instead of text");
  compare->callback([=, &chosen] { chosen = [=] { return compare_command(*options); }; });
}

int report(const Error& error) {
  std::fprintf(stderr, "sixfold: %s\n", error.message().c_str());
  return error.code() == Code::InvalidArgument ? 2 : 1;
}

int run(int argc, char** argv) {
  CLI::App app{
      "sixfold: PyTorch models (.pt2, saved with torch.export.save) to Qualcomm NPUs, and what they do there",
      "sixfold"};
  app.set_version_flag("--version", "sixfold " SIXFOLD_VERSION);
  app.require_subcommand(1);
  Command chosen;
  add_run(app, chosen);
  add_show(app, chosen);
  add_ops(app, chosen);
  add_kernels(app, chosen);
  add_compile(app, chosen);
  add_audit(app, chosen);
  add_doctor(app, chosen);
  add_compare(app, chosen);
  CLI11_PARSE(app, argc, argv);
  const auto work = [&chosen] {
    if (Status s = chosen(); !s.ok()) {
      const int code = report(s.error());
      Ranks::give_up();
      return code;
    }
    if (std::fflush(stdout) != 0)
      return report(Error(Code::InvalidArgument, "standard output cannot be written"));
    return 0;
  };
  const auto* engine = app.get_subcommands().front()->get_option_no_throw("--engine");
  return engine && engine->count() > 0 && engine->as<std::string>() == "qnn" ? supervise(work) : work();
}

}  // namespace
}  // namespace sixfold::tools

int main(int argc, char** argv) {
  try {
    return sixfold::tools::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return sixfold::tools::report(
        sixfold::fail(sixfold::Code::OutOfMemory, "not enough memory for this model"));
  }
}
