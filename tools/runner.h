// What `sixfold run` runs: a model of either file kind, fed with arrays and timed.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sixfold/base/tensor.h"
#include "tools/command.h"

namespace sixfold::tools {

struct ProfiledStep {
  std::string op, node;
  Shape output;
  int64_t ns = 0;
  std::vector<std::pair<std::string, uint64_t>> events;  // of a delegate, in its own units
};

class Runner {
 public:
  explicit Runner(bool profiling) : profiling_(profiling) {}
  virtual ~Runner() = default;

  // Inputs in order, tensors and numbers. prepare once, before anything else; then feed for other inputs.
  virtual Status prepare(std::span<const Tensor> fed) = 0;
  virtual Status feed(std::span<const Tensor> fed) = 0;
  virtual Status reset_state() = 0;  // mutated buffers go back
  virtual size_t output_count() const = 0;
  virtual Tensor output(size_t i) const = 0;  // row-major, valid until the next run
  virtual size_t threads() const = 0;
  virtual bool uses_npu() const { return false; }

  Status run_once() {
    const auto begin = std::chrono::steady_clock::now();
    SF_TRY(run());
    times_ms_.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    if (!profiling_) return {};
    std::vector<ProfiledStep> now = steps();
    for (size_t i = 0; i < profile_.size() && i < now.size(); ++i) {
      now[i].ns += profile_[i].ns;
      for (size_t e = 0; e < now[i].events.size() && e < profile_[i].events.size(); ++e)
        now[i].events[e].second += profile_[i].events[e].second;
    }
    profile_ = std::move(now);
    return {};
  }
  // Warm-up runs leave no trace: mutated buffers go back and times are forgotten.
  Status run_all(size_t warmup, size_t iterations) {
    for (size_t i = 0; i < warmup; ++i) SF_TRY(run_once());
    if (warmup) SF_TRY(forget());
    for (size_t i = 0; i < iterations; ++i) SF_TRY(run_once());
    return {};
  }
  virtual void forget_events() {}
  virtual Status write_events() const { return {}; }  // files beside the outputs
  Status forget() {
    forget_events();
    times_ms_.clear();
    profile_.clear();
    return reset_state();
  }

  bool profiling() const { return profiling_; }
  const std::vector<double>& times_ms() const { return times_ms_; }
  const std::vector<ProfiledStep>& profile() const { return profile_; }  // summed over the runs

 private:
  virtual Status run() = 0;
  virtual std::vector<ProfiledStep> steps() const = 0;  // of the last run

  bool profiling_;
  std::vector<double> times_ms_;
  std::vector<ProfiledStep> profile_;
};

enum class FileKind : uint8_t { pt2, pte, bpte };
Result<FileKind> file_kind(
    const std::string& path);  // by its first bytes; what is neither is taken for a .pt2

// A .pte on our runtime.
Result<std::unique_ptr<Runner>> make_program_runner(const RunOptions& options);
// A .bpte: all its cases, compared with the outputs that it expects.
Status check_bundle(const RunOptions& options);

}  // namespace sixfold::tools
