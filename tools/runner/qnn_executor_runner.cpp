// qnn_executor_runner: runs a .pte as ExecuTorch's runner of this name does, with the same flags and the same
// files, so that scripts written for it work with this one. It links the runtime alone.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sixfold/base/cat.h"
#include "sixfold/base/mapped_file.h"
#include "sixfold/execute/method.h"
#include "sixfold/execute/qnn_delegate.h"
#include "sixfold/profile/etdump_log.h"
#include "tools/runner/flags.h"

namespace sixfold::tools {
namespace {

struct Settings {
  std::string model_path = "model.pte";
  std::string output_folder_path = "outputs";
  std::string input_list_path = "input_list.txt";
  int64_t iteration = 1, warm_up = 0, method_index = 0, threads = 0;
  std::string etdump_path = "etdump.etdp";
  std::string input_shape_path, output_shape_path;
  std::string performance_output_path = "inference_speed.txt";
  bool help = false;
  bool dump_intermediate_outputs = false;
  std::string debug_output_path = "debug_output.bin";
  int64_t debug_buffer_size = 100'000'000;
  std::string qnn_lib_dir;
  // What the QNN delegate takes.
  bool shared_buffer = false;
  std::string heap_profiling_path;
  int64_t log_level = 0, htp_performance_mode = 0, profile_level = 0;
  int64_t lpai_fps = 0, lpai_ftrt_ratio = 0, lpai_client_perf_type = 0, lpai_affinity = 0,
          lpai_core_selection = 0;
};

constexpr std::string_view kDelegateOnly = "for a device; has no effect on the engines of this host";
constexpr std::string_view kProfileLevel =
    "what a QNN delegate reports of each call: 0 nothing, 1 totals, 2 and 3 op by op; absent: as the program "
    "says";

std::vector<Flag> flags_of(Settings& s) {
  return {
      {"model_path", &s.model_path, "the program"},
      {"output_folder_path", &s.output_folder_path, "folder for output_<inference>_<index>.raw"},
      {"output_path", &s.output_folder_path, "the same"},
      {"input_list_path", &s.input_list_path,
       "one inference a line, raw files with blanks between; absent: ones"},
      {"input_path", &s.input_list_path, "the same"},
      {"iteration", &s.iteration, "executes of each line"},
      {"num_inference_iterations", &s.iteration, "the same"},
      {"warm_up", &s.warm_up, "executes before those that are timed"},
      {"warmup_iterations", &s.warm_up, "the same"},
      {"method_index", &s.method_index, "which method"},
      {"threads", &s.threads, "threads; 0: one for each core"},
      {"etdump_path", &s.etdump_path, "ETDump of the runs; empty: none"},
      {"profile_output", &s.etdump_path, "the same"},
      {"input_shape_path", &s.input_shape_path,
       "one shape a line, commas between, for inputs of dynamic shape"},
      {"output_shape_path", &s.output_shape_path, "shapes that the outputs must have, as above"},
      {"performance_output_path", &s.performance_output_path, "file for the mean time of an execute in ms"},
      {"dump_intermediate_outputs", &s.dump_intermediate_outputs,
       "what every instruction gave: events in the ETDump, bytes in the debug buffer"},
      {"debug_output_path", &s.debug_output_path, "file for the debug buffer"},
      {"debug_buffer_size", &s.debug_buffer_size, "bytes of the debug buffer, for all executes together"},
      {"qnn_lib_dir", &s.qnn_lib_dir, "folder of Qualcomm's libraries; absent: looked for"},
      {"shared_buffer", &s.shared_buffer, kDelegateOnly},
      {"log_level", &s.log_level, kDelegateOnly},
      {"htp_performance_mode", &s.htp_performance_mode, kDelegateOnly},
      {"profile_level", &s.profile_level, kProfileLevel},
      {"lpai_fps", &s.lpai_fps, kDelegateOnly},
      {"lpai_ftrt_ratio", &s.lpai_ftrt_ratio, kDelegateOnly},
      {"lpai_client_perf_type", &s.lpai_client_perf_type, kDelegateOnly},
      {"lpai_affinity", &s.lpai_affinity, kDelegateOnly},
      {"lpai_core_selection", &s.lpai_core_selection, kDelegateOnly},
      {"heap_profiling_path", &s.heap_profiling_path, kDelegateOnly},
      {"help", &s.help, "this list"},
  };
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Result<std::vector<std::string>> read_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(Code::NotFound, "cannot read ", path);
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos) out.push_back(line);
  return out;
}

Result<std::vector<Shape>> read_shapes(const std::string& path) {
  std::vector<Shape> out;
  if (path.empty()) return out;
  SF_ASSIGN(const auto lines, read_lines(path));
  for (const std::string& line : lines) {
    std::istringstream text(line);
    Shape shape;
    for (std::string item; std::getline(text, item, ',');) {
      char* end = nullptr;
      const long long extent = std::strtoll(item.c_str(), &end, 10);
      if (end == item.c_str() || extent < 0)
        return invalid_argument(path, ": ", line, " is no shape: numbers with commas between are expected");
      shape.push_back(extent);
    }
    out.push_back(std::move(shape));
  }
  return out;
}

class Runner {
 public:
  explicit Runner(const Settings& settings) : settings_(settings) {}

  Status load() {
    SF_ASSIGN(const Program program, Program::open(settings_.model_path));
    const auto& methods = program.methods();
    if (settings_.method_index >= static_cast<int64_t>(methods.size()))
      return invalid_argument("--method_index is ", settings_.method_index, ", the program has ",
                              methods.size(), " methods");
    const std::string& name = methods[static_cast<size_t>(settings_.method_index)].name;
    MethodOptions options;
    options.threads = static_cast<size_t>(settings_.threads);
    if (settings_.dump_intermediate_outputs) {
      log_.keep_values(static_cast<size_t>(settings_.debug_buffer_size));
      options.observer = &log_;
    }
    const int64_t begin = now_ns();
    SF_ASSIGN(method_, Method::load(program, name, options));
    log_.add_load(begin, now_ns());
    method_->set_profiling(logging());
    SF_ASSIGN(input_shapes_, read_shapes(settings_.input_shape_path));
    SF_ASSIGN(output_shapes_, read_shapes(settings_.output_shape_path));
    return {};
  }

  Status run() {
    if (!std::filesystem::exists(settings_.input_list_path)) {
      std::fprintf(stderr, "qnn_executor_runner: no %s: inputs are filled with ones\n",
                   settings_.input_list_path.c_str());
      SF_TRY(run_line("", 0));
      ++lines_;
    } else {
      SF_ASSIGN(const auto lines, read_lines(settings_.input_list_path));
      for (; lines_ < lines.size(); ++lines_) SF_TRY(run_line(lines[lines_], lines_));
    }
    return report();
  }

 private:
  bool logging() const { return !settings_.etdump_path.empty() || settings_.dump_intermediate_outputs; }

  Result<std::vector<std::byte>> input_bytes(size_t i, const TensorState& t, const Shape& shape,
                                             const std::string& path) const {
    const size_t wanted = static_cast<size_t>(numel(shape)) * size_of(t.dtype);
    if (path.empty()) {
      std::vector<std::byte> ones(wanted);
      const Tensor one = Tensor::scalar(int64_t{1}, t.dtype);
      for (size_t at = 0; at < wanted; at += size_of(t.dtype))
        std::memcpy(ones.data() + at, one.data, size_of(t.dtype));
      return ones;
    }
    SF_ASSIGN(const auto file, MappedFile::open(path));
    if (file->bytes().size() != wanted)
      return invalid_argument(path, " has ", file->bytes().size(), " bytes, input ", i, " of ", t.dtype,
                              shape, " needs ", wanted);
    return std::vector<std::byte>(file->bytes().begin(), file->bytes().end());
  }

  Status run_line(const std::string& line, size_t inference) {
    std::istringstream text(line);
    std::vector<std::string> paths;
    for (std::string path; text >> path;) paths.push_back(path);
    std::vector<size_t> tensors;
    for (size_t i = 0; i < method_->input_count(); ++i)
      if (std::holds_alternative<TensorState>(method_->input(i))) tensors.push_back(i);
    if (!line.empty() && paths.size() != tensors.size())
      return invalid_argument("line ", inference + 1, " of ", settings_.input_list_path, " names ",
                              paths.size(), " files, the method takes ", tensors.size(), " tensors");
    std::vector<std::vector<std::byte>> data;
    std::vector<Shape> shapes;
    for (size_t k = 0; k < tensors.size(); ++k) {
      const auto& t = std::get<TensorState>(method_->input(tensors[k]));
      shapes.push_back(k < input_shapes_.size() ? input_shapes_[k] : t.sizes);
      SF_ASSIGN(auto bytes, input_bytes(tensors[k], t, shapes[k], paths.empty() ? "" : paths[k]));
      data.push_back(std::move(bytes));
    }
    for (int64_t n = -settings_.warm_up; n < settings_.iteration; ++n) {
      for (size_t k = 0; k < tensors.size(); ++k) {
        const auto& t = std::get<TensorState>(method_->input(tensors[k]));
        SF_TRY(method_->set_input(tensors[k], {t.dtype, shapes[k], {}, data[k].data()}));
      }
      // The Inspector wants equal outputs of runs that it takes for the same.
      if (n >= 0) log_.begin_run(settings_.dump_intermediate_outputs ? static_cast<int32_t>(inference) : -1);
      const int64_t begin = now_ns();
      SF_TRY(method_->execute());
      const int64_t end = now_ns();
      if (n < 0) continue;
      total_ns_ += end - begin;
      ++runs_;
      if (logging()) log_.add_run(*method_, begin, end);
    }
    return write_outputs(inference);
  }

  Status write_outputs(size_t inference) const {
    std::error_code error;
    std::filesystem::create_directories(settings_.output_folder_path, error);
    if (error)
      return invalid_argument("cannot make the folder ", settings_.output_folder_path, ": ", error.message());
    for (size_t i = 0; i < method_->output_count(); ++i) {
      if (!std::holds_alternative<TensorState>(method_->output(i))) continue;
      SF_ASSIGN(const TensorView t, method_->output_tensor(i));
      const Shape shape(t.sizes.begin(), t.sizes.end());
      if (i < output_shapes_.size() && output_shapes_[i] != shape)
        return fail(Code::InvalidModel, "output ", i, " has shape ", shape, ", ", settings_.output_shape_path,
                    " expects ", output_shapes_[i]);
      const std::span<const std::byte> parts[] = {{t.data, t.size_bytes()}};
      SF_TRY(write_file(cat(settings_.output_folder_path, "/output_", inference, "_", i, ".raw"), parts));
    }
    return {};
  }

  Status report() const {
    const double mean_ms = runs_ ? static_cast<double>(total_ns_) / 1e6 / static_cast<double>(runs_) : 0.0;
    std::printf("%zu inferences, %lld executes, mean %.3f ms\n", lines_, static_cast<long long>(runs_),
                mean_ms);
    if (!settings_.performance_output_path.empty()) {
      const std::string text = cat(mean_ms, "\n");
      const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text))};
      SF_TRY(write_file(settings_.performance_output_path, parts));
    }
    if (settings_.dump_intermediate_outputs)
      SF_TRY(
          log_.write_values(settings_.debug_output_path, static_cast<size_t>(settings_.debug_buffer_size)));
    if (!settings_.etdump_path.empty()) SF_TRY(log_.write(settings_.etdump_path));
    return {};
  }

  const Settings& settings_;
  EtDumpLog log_;  // before the method, which observes into it
  std::unique_ptr<Method> method_;
  std::vector<Shape> input_shapes_, output_shapes_;
  size_t lines_ = 0;
  int64_t runs_ = 0, total_ns_ = 0;
};

Status run(int argc, char** argv) {
  Settings settings;
  std::vector<Flag> flags = flags_of(settings);
  const std::string help = describe_flags(flags);  // before the defaults change
  SF_TRY(parse_flags(argc, argv, flags));
  if (settings.help) {
    std::printf("qnn_executor_runner: runs a .pte on raw input files\n\n%s", help.c_str());
    return {};
  }
  if (settings.iteration == 0) return invalid_argument("--iteration must be at least 1");
  QnnDelegateOptions npu{.lib_dir = settings.qnn_lib_dir};
  for (const Flag& flag : flags) {
    if (flag.given && flag.meaning == kDelegateOnly)
      std::fprintf(stderr, "qnn_executor_runner: --%s has no effect on this host\n",
                   std::string(flag.name).c_str());
    if (flag.given && flag.name == "profile_level") {
      if (settings.profile_level > 3)
        return invalid_argument("--profile_level is ", settings.profile_level, ", expected 0 to 3");
      npu.profile_level = settings.profile_level == 0   ? qnn::ProfileLevel::off
                          : settings.profile_level == 1 ? qnn::ProfileLevel::basic
                                                        : qnn::ProfileLevel::detailed;
    }
  }
  SF_TRY(register_qnn_delegate(std::move(npu)));
  Runner runner(settings);
  SF_TRY(runner.load());
  return runner.run();
}

}  // namespace
}  // namespace sixfold::tools

int main(int argc, char** argv) {
  const sixfold::Status status = sixfold::tools::run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "qnn_executor_runner: %s\n", status.error().message().c_str());
  return 1;
}
