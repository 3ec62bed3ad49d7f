// sixfold run: executes a model on an engine and writes what it gives.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sixfold/base/npy.h"
#include "sixfold/emulator/emulator.h"
#include "sixfold/engine/session.h"
#include "sixfold/execute/qnn_delegate.h"
#include "sixfold/import/import.h"
#include "tools/command.h"
#include "tools/runner.h"
#include "tools/soc_file.h"

namespace sixfold::tools {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

RunOptions options;

// numpy has no bf16: such outputs are written as f32, which holds every one of their values.
Tensor for_numpy(const Tensor& t) {
  if (t.dtype != DType::bf16) return t;
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(DType::f32, t.shape, &bytes);
  const auto in = t.values<BFloat16>();
  for (size_t i = 0; i < in.size(); ++i) {
    const float f = in[i];
    std::memcpy(bytes + i * sizeof f, &f, sizeof f);
  }
  return out;
}

// A .pt2 through import and the CPU engine. Sessions are made for the shapes of the first inputs.
class GraphRunner final : public Runner {
 public:
  GraphRunner(Graph graph, const RunOptions& options)
      : Runner(options.profile), graph_(std::move(graph)), pool_(options.threads), options_(options) {}

  Status prepare(std::span<const Tensor> fed) override {
    SF_ASSIGN(feed_, match_inputs(graph_, fed));
    RewriteOptions rewrite;
    rewrite.disabled.insert(options_.disabled.begin(), options_.disabled.end());
    rewrite.stop_after = options_.stop_after;
    SF_ASSIGN(session_, Session::create(graph_, feed_.bindings, pool_, rewrite));
    session_->executor().set_profiling(profiling());
    return {};
  }
  Status feed(std::span<const Tensor> fed) override {
    SF_ASSIGN(Feed feed, match_inputs(graph_, fed));
    feed_.tensors = std::move(feed.tensors);
    return {};
  }
  Status reset_state() override {
    session_->executor().reset_state();
    return {};
  }
  size_t output_count() const override { return session_->output_count(); }
  Tensor output(size_t i) const override { return session_->output(i); }
  size_t threads() const override { return pool_.threads(); }

 private:
  Status run() override { return session_->run(feed_.tensors); }
  std::vector<ProfiledStep> steps() const override {
    const Plan& plan = session_->executor().plan();
    const auto& times = session_->executor().step_times_ns();
    std::vector<ProfiledStep> out;
    for (size_t i = 0; i < times.size(); ++i)
      out.push_back({std::string(to_text(plan.steps[i].op)),
                     plan.steps[i].name,
                     plan.values[plan.steps[i].outputs[0]].desc.shape,
                     times[i],
                     {}});
    return out;
  }

  Graph graph_;
  cpu::Pool pool_;
  const RunOptions& options_;
  Feed feed_;
  std::unique_ptr<Session> session_;
};

Json profile_json(const Runner& runner) {
  Json steps = Json::array();
  const auto runs = static_cast<double>(runner.times_ms().size());
  for (const ProfiledStep& s : runner.profile()) {
    steps.push_back({{"op", s.op},
                     {"node", s.node},
                     {"us", static_cast<double>(s.ns) / runs / 1e3},
                     {"output", s.output}});
    for (const auto& [name, value] : s.events)
      steps.back()["events"].push_back({{"name", name}, {"value", static_cast<double>(value) / runs}});
  }
  return steps;
}

void print_profile(const Json& steps) {
  std::map<std::string, std::pair<double, size_t>> by_op;
  double total = 0;
  for (const Json& s : steps) {
    auto& [us, count] = by_op[s["op"].get<std::string>()];
    us += s["us"].get<double>();
    total += s["us"].get<double>();
    ++count;
  }
  std::vector<std::pair<std::string, std::pair<double, size_t>>> rows(by_op.begin(), by_op.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  std::printf("%-28s %6s %10s %6s\n", "op", "count", "us", "%");
  for (const auto& [op, row] : rows)
    std::printf("%-28s %6zu %10.1f %6.1f\n", op.c_str(), row.second, row.first, 100 * row.first / total);
  for (const Json& s : steps) {
    if (!s.contains("events")) continue;
    std::printf("%s of %s\n", s["node"].get<std::string>().c_str(), s["op"].get<std::string>().c_str());
    for (const Json& e : s["events"])
      std::printf("  %-60s %12.0f\n", e["name"].get<std::string>().c_str(), e["value"].get<double>());
  }
}

// Row r of an array stacked over samples, in place.
Tensor row_of(const Tensor& stacked, size_t r) {
  Tensor out = stacked;
  out.shape.erase(out.shape.begin());
  out.data += r * out.size_bytes();
  return out;
}

// in0, in1, ... of an .npz, all stacked over the same number of rows.
struct Stack {
  std::vector<Tensor> arrays;
  size_t rows = 0;
};
Result<Stack> read_stack(const NpzReader& npz) {
  Stack out;
  for (size_t i = 0;; ++i) {
    const std::string name = cat("in", i);
    if (std::find(npz.names().begin(), npz.names().end(), name) == npz.names().end()) break;
    SF_ASSIGN(Tensor t, npz.read(name));
    if (t.shape.empty())
      return invalid_argument(options.npz, ": ", name, " is a scalar, and its first axis must count samples");
    const auto rows = static_cast<size_t>(t.shape[0]);
    if (i && rows != out.rows)
      return invalid_argument(options.npz, ": ", name, " has ", rows, " rows, in0 has ", out.rows);
    out.rows = rows;
    out.arrays.push_back(to_contiguous(t));
  }
  if (out.arrays.empty()) return invalid_argument(options.npz, " has no array in0");
  if (out.rows == 0) return invalid_argument(options.npz, " has no rows");
  return out;
}

size_t argmax(const Tensor& t) {
  size_t best = 0;
  for (int64_t i = 1; i < t.count(); ++i)
    if (element_real(t, i) > element_real(t, static_cast<int64_t>(best))) best = static_cast<size_t>(i);
  return best;
}

// Who runs the NPU's parts, if any: without --engine ours.
bool is_emulated() { return options.engine.empty() || options.engine == "emulator"; }

const char* engine_name(const Runner& runner) {
  if (!options.engine.empty()) return options.engine.c_str();
  return runner.uses_npu() ? "emulator" : "cpu";
}

double mean(const std::vector<double>& xs) {
  double sum = 0;
  for (const double x : xs) sum += x;
  return xs.empty() ? 0.0 : sum / static_cast<double>(xs.size());
}

Json times_json(const Runner& runner) {
  std::vector<double> sorted = runner.times_ms();
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double q) {
    return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
  };
  return {{"model", options.model},      {"engine", engine_name(runner)},
          {"threads", runner.threads()}, {"runs", sorted.size()},
          {"mean_ms", mean(sorted)},     {"min_ms", sorted.front()},
          {"p50_ms", at(0.5)},           {"p90_ms", at(0.9)}};
}

Json outputs_json(const Runner& session) {
  Json out = Json::array();
  for (size_t i = 0; i < session.output_count(); ++i) {
    const Tensor t = session.output(i);
    out.push_back({{"dtype", to_text(t.dtype)}, {"shape", t.shape}});
  }
  return out;
}

Status check_output_dir() {
  std::error_code error;
  std::filesystem::create_directories(options.output_dir, error);
  if (error) return invalid_argument("the folder ", options.output_dir, " cannot be made: ", error.message());
  return {};
}

Status run_files(Runner& runner, Json& summary) {
  std::vector<Tensor> fed;
  for (const std::string& path : options.inputs) {
    SF_ASSIGN(Tensor t, read_npy(path));
    fed.push_back(std::move(t));
  }
  SF_TRY(runner.prepare(fed));
  SF_TRY(runner.run_all(options.warmup, options.iterations));
  summary = times_json(runner);
  summary["outputs"] = outputs_json(runner);
  if (options.output_dir.empty()) return {};
  SF_TRY(check_output_dir());
  for (size_t i = 0; i < runner.output_count(); ++i)
    SF_TRY(write_npy(cat(options.output_dir, "/output_", i, ".npy"), for_numpy(runner.output(i))));
  return {};
}

// A line of the list has the .npy files of one call; buffers that the program mutates live on from call to
// call.
Status run_list(Runner& runner, Json& summary) {
  std::ifstream list(options.input_list);
  if (!list) return fail(Code::NotFound, "cannot open ", options.input_list);
  if (!options.output_dir.empty()) SF_TRY(check_output_dir());
  Json calls = Json::array();
  std::string line;
  for (size_t n = 0; std::getline(list, line); ++n) {
    std::istringstream words(line);
    std::vector<Tensor> fed;
    for (std::string path; words >> path;) {
      SF_ASSIGN(Tensor t, read_npy(path));
      fed.push_back(std::move(t));
    }
    Status s = n == 0 ? runner.prepare(fed) : runner.feed(fed);
    if (s.ok()) s = runner.run_once();
    if (!s.ok()) return s.take_error().during(cat("running line ", n + 1, " of ", options.input_list));
    calls.push_back(outputs_json(runner));
    for (size_t i = 0; i < runner.output_count() && !options.output_dir.empty(); ++i)
      SF_TRY(write_npy(cat(options.output_dir, "/output_", n, "_", i, ".npy"), for_numpy(runner.output(i))));
  }
  if (runner.times_ms().empty()) return invalid_argument(options.input_list, " has no lines");
  summary = times_json(runner);
  summary["calls"] = calls;
  return {};
}

// All rows of the outputs, stacked.
class Collector {
 public:
  explicit Collector(size_t rows) : rows_(rows) {}
  Status add(const Runner& session, size_t row) {
    if (row == 0) {
      for (size_t i = 0; i < session.output_count(); ++i) {
        const Tensor t = for_numpy(session.output(i));
        Shape shape = t.shape;
        shape.insert(shape.begin(), static_cast<int64_t>(rows_));
        std::byte* bytes = nullptr;
        arrays_.push_back(Tensor::allocate(t.dtype, shape, &bytes));
        bytes_.push_back(bytes);
      }
    }
    for (size_t i = 0; i < session.output_count(); ++i) {
      const Tensor t = for_numpy(session.output(i));
      std::memcpy(bytes_[i] + row * t.size_bytes(), t.data, t.size_bytes());
    }
    return {};
  }
  Status write(const std::string& path) const {
    NpzWriter writer;
    for (size_t i = 0; i < arrays_.size(); ++i) SF_TRY(writer.add(cat("out", i), arrays_[i]));
    return writer.write(path);
  }

 private:
  size_t rows_;
  std::vector<Tensor> arrays_;
  std::vector<std::byte*> bytes_;
};

Status run_rows(Runner& runner, Json& summary) {
  SF_ASSIGN(const NpzReader npz, NpzReader::open(options.npz));
  SF_ASSIGN(const Stack stack, read_stack(npz));
  const size_t rows = options.rows ? std::min(options.rows, stack.rows) : stack.rows;
  Tensor labels;
  if (!options.labels.empty()) {
    SF_ASSIGN(labels, npz.read(options.labels));
    if (labels.shape.empty() || static_cast<size_t>(labels.count()) < rows)
      return invalid_argument(options.npz, ": ", options.labels, " has ", labels.count(), " entries, ", rows,
                              " rows run");
  }
  const auto fed_row = [&](size_t r) {
    std::vector<Tensor> fed;
    for (const Tensor& a : stack.arrays) fed.push_back(row_of(a, r));
    return fed;
  };
  SF_TRY(runner.prepare(fed_row(0)));
  for (size_t i = 0; i < options.warmup; ++i) SF_TRY(runner.run_once());
  if (options.warmup) SF_TRY(runner.forget());
  Collector collector(rows);
  size_t right = 0;
  for (size_t r = 0; r < rows; ++r) {
    SF_TRY(runner.feed(fed_row(r)));
    // A row is one call of the model as it was saved: buffers that it mutates start anew.
    SF_TRY(runner.reset_state());
    for (size_t i = 0; i < options.iterations; ++i) SF_TRY(runner.run_once());
    if (!options.npz_out.empty()) SF_TRY(collector.add(runner, r));
    if (labels.dtype != DType::none)
      right +=
          argmax(runner.output(0)) == static_cast<size_t>(element_integer(labels, static_cast<int64_t>(r)));
  }
  summary = times_json(runner);
  summary["rows"] = rows;
  summary["outputs"] = outputs_json(runner);
  if (labels.dtype != DType::none) {
    summary["accuracy"] = static_cast<double>(right) / static_cast<double>(rows);
    if (!options.json)
      std::printf("accuracy %.2f %% (%zu of %zu rows)\n",
                  100.0 * static_cast<double>(right) / static_cast<double>(rows), right, rows);
  }
  if (!options.npz_out.empty()) SF_TRY(collector.write(options.npz_out));
  return {};
}

// What each call of a delegate reports. Asked for times, and not told how closely: op by op.
Result<std::optional<qnn::ProfileLevel>> profile_level() {
  const bool asked = options.profile || !options.etdump.empty();
  if (options.profile_level.empty())
    return asked ? std::optional(qnn::ProfileLevel::detailed) : std::optional<qnn::ProfileLevel>();
  if (options.profile_level == "off") return std::optional(qnn::ProfileLevel::off);
  if (options.profile_level == "basic") return std::optional(qnn::ProfileLevel::basic);
  if (options.profile_level == "detailed") return std::optional(qnn::ProfileLevel::detailed);
  return invalid_argument("--profile-level is ", options.profile_level, ", expected off, basic or detailed");
}

Status open_npu() {
  QnnDelegateOptions npu{.lib_dir = options.qnn_lib_dir};
  SF_ASSIGN(npu.profile_level, profile_level());
  if (!options.soc.empty()) {
    SF_ASSIGN(const qnn::Soc soc, choose_soc(options.soc, options.soc_file));
    npu.soc = soc.id;
  }
  if (is_emulated()) {
    if (!options.qnn_lib_dir.empty())
      return invalid_argument("--qnn-lib-dir is for --engine qnn: the emulator is part of sixfold");
    emulator::set_threads(options.threads);
    npu.library = emulator::library();
    npu.system = emulator::system_library();
  }
  return register_qnn_delegate(std::move(npu));
}

Status run_it() {
  const bool is_npu = options.engine == "qnn" || options.engine == "emulator";
  if (!options.engine.empty() && options.engine != "cpu" && !is_npu)
    return invalid_argument("engine ", options.engine, " is not known: engines are cpu, emulator and qnn");
  if (!options.npz.empty() + !options.inputs.empty() + !options.input_list.empty() > 1)
    return invalid_argument("--input, --npz and --input-list exclude each other");
  if (options.iterations == 0) return invalid_argument("--iterations must be at least 1");
  SF_ASSIGN(const FileKind kind, file_kind(options.model));
  const bool program = kind == FileKind::pte || kind == FileKind::bpte;
  if (is_npu && !program)
    return invalid_argument("engine ", options.engine, " runs compiled programs: compile ", options.model,
                            " with --backend htp first");
  if (program && options.engine != "cpu") SF_TRY(open_npu());
  if (kind == FileKind::bpte) return check_bundle(options);
  std::unique_ptr<Runner> made;
  if (kind == FileKind::pte) {
    SF_ASSIGN(made, make_program_runner(options));
  } else {
    if (!options.input_list.empty())
      return invalid_argument("--input-list is for .pte files: a .pt2 is planned for the shapes of one call");
    if (!options.etdump.empty() || !options.values.empty())
      return invalid_argument("--etdump and --etdump-values are for .pte files: a .pt2 has no instructions");
    SF_ASSIGN(Graph graph, import_pt2(options.model, {.check_crc = true}));
    made = std::make_unique<GraphRunner>(std::move(graph), options);
  }
  Runner& runner = *made;
  Json summary;
  SF_TRY(!options.input_list.empty() ? run_list(runner, summary)
         : options.npz.empty()       ? run_files(runner, summary)
                                     : run_rows(runner, summary));
  SF_TRY(runner.write_events());
  if (options.profile) summary["steps"] = profile_json(runner);
  if (options.json) {
    print_line(summary.dump());
    return {};
  }
  if (options.profile) print_profile(summary["steps"]);
  std::printf("%zu runs on %s, %zu threads: mean %.3f ms, min %.3f ms\n", summary["runs"].get<size_t>(),
              engine_name(runner), runner.threads(), summary["mean_ms"].get<double>(),
              summary["min_ms"].get<double>());
  return {};
}

}  // namespace

Status run_command(const RunOptions& given) {
  options = given;
  return run_it();
}

}  // namespace sixfold::tools
