// sixfold run FILE.pte, FILE.bpte
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "sixfold/base/mapped_file.h"
#include "sixfold/execute/method.h"
#include "sixfold/profile/etdump_log.h"
#include "sixfold/pte/bpte.h"
#include "sixfold/pte/qnn_options.h"
#include "tools/runner.h"

namespace sixfold::tools {
namespace {

constexpr size_t kMostValueBytes = size_t{1} << 36;

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

// The value as an array: a tensor in row-major order, a number without axes; dtype none for anything else.
Tensor to_array(const MethodValue& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) return Tensor::scalar(*n, DType::i64);
  if (const auto* b = std::get_if<bool>(&value))
    return Tensor::scalar(static_cast<int64_t>(*b), DType::boolean);
  if (const auto* x = std::get_if<double>(&value)) return Tensor::scalar(*x, DType::f64);
  const auto* t = std::get_if<TensorState>(&value);
  if (!t) return {};
  Tensor out{t->dtype, t->sizes, {}, t->data, nullptr};
  if (!is_plain_order(t->dim_order)) out.strides = strides_of(t->sizes, t->dim_order);
  return to_contiguous(out);
}

Status set_value(Method& method, size_t i, const Tensor& given) {
  const MethodValue& value = method.input(i);
  if (std::holds_alternative<TensorState>(value))
    return method.set_input(i, {given.dtype, given.shape, {}, given.data});
  if (given.count() != 1)
    return invalid_argument("input ", i, " is ", kind_name(value), ", ", given.dtype, given.shape,
                            " was given");
  if (given.dtype == DType::boolean) return method.set_input(i, element_integer(given, 0) != 0);
  if (is_float(given.dtype)) return method.set_input(i, element_real(given, 0));
  return method.set_input(i, element_integer(given, 0));
}

class ProgramRunner final : public Runner {
 public:
  explicit ProgramRunner(const RunOptions& options) : Runner(options.profile), options_(options) {}

  Status load(const Program& program) {
    if (!options_.values.empty()) log_.keep_values(kMostValueBytes);
    MethodOptions method_options;
    method_options.threads = options_.threads;
    if (!options_.values.empty()) method_options.observer = &log_;
    const int64_t begin = now_ns();
    SF_ASSIGN(method_, Method::load(program, options_.method, method_options));
    const auto& delegates = program.find_method(options_.method)->delegates;
    uses_npu_ = std::any_of(delegates.begin(), delegates.end(),
                            [](const pte::Delegate& d) { return d.id == pte::kQnnBackend; });
    log_.add_load(begin, now_ns());
    method_->set_profiling(profiling() || logging());
    for (size_t i = 0; i < method_->output_count(); ++i)
      if (to_array(method_->output(i)).dtype != DType::none) outputs_.push_back(i);
    return {};
  }

  Status prepare(std::span<const Tensor> fed) override { return feed(fed); }

  Status feed(std::span<const Tensor> fed) override {
    std::vector<size_t> tensors, all;
    for (size_t i = 0; i < method_->input_count(); ++i) {
      const MethodValue& v = method_->input(i);
      const bool number = std::holds_alternative<int64_t>(v) || std::holds_alternative<double>(v) ||
                          std::holds_alternative<bool>(v);
      if (std::holds_alternative<TensorState>(v)) tensors.push_back(i);
      if (std::holds_alternative<TensorState>(v) || number) all.push_back(i);
    }
    // Numbers are part of the program, and may be left out.
    if (fed.size() != all.size() && fed.size() != tensors.size())
      return invalid_argument("the method has ", all.size(), " inputs, of which ", tensors.size(),
                              " are tensors, and ", fed.size(), " were given");
    places_ = fed.size() == all.size() ? all : tensors;
    ++feeds_;
    fed_.clear();
    for (const Tensor& t : fed) fed_.push_back(to_contiguous(t));
    return {};
  }

  Status reset_state() override { return method_->reset_state(); }
  size_t output_count() const override { return outputs_.size(); }
  Tensor output(size_t i) const override { return to_array(method_->output(outputs_[i])); }
  size_t threads() const override { return method_->threads(); }
  bool uses_npu() const override { return uses_npu_; }
  void forget_events() override { log_.forget_runs(); }
  Status write_events() const override {
    if (!options_.values.empty()) SF_TRY(log_.write_values(options_.values));
    return options_.etdump.empty() ? Status() : log_.write(options_.etdump);
  }

 private:
  // Setting inputs is part of a run: they are copied to where the program wants them.
  Status run() override {
    for (size_t k = 0; k < fed_.size(); ++k) SF_TRY(set_value(*method_, places_[k], fed_[k]));
    if (!logging()) return method_->execute();
    log_.begin_run(options_.values.empty() ? -1 : feeds_);
    const int64_t begin = now_ns();
    SF_TRY(method_->execute());
    log_.add_run(*method_, begin, now_ns());
    return {};
  }
  bool logging() const { return !options_.etdump.empty() || !options_.values.empty(); }
  std::vector<ProfiledStep> steps() const override {
    std::vector<ProfiledStep> out;
    for (const Method::Profile& p : method_->profile()) {
      out.push_back({std::string(p.name), cat("instruction ", p.instruction), {}, p.end_ns - p.start_ns, {}});
      if (p.delegate)
        for (const DelegateEvent& e : p.delegate->events) out.back().events.emplace_back(e.name, e.value);
    }
    return out;
  }

  const RunOptions& options_;
  EtDumpLog log_;  // before the method, which observes into it
  std::unique_ptr<Method> method_;
  int32_t feeds_ = -1;
  bool uses_npu_ = false;
  std::vector<size_t> outputs_, places_;
  std::vector<Tensor> fed_;
};

LoadOptions load_options(const RunOptions& options) {
  LoadOptions out;
  out.data_files = options.data_files;
  if (options.verify_data) out.check_data = pte::CheckData::all;
  return out;
}

Tensor to_array(const pte::BundledValue& value) {
  if (const auto* n = std::get_if<int64_t>(&value)) return Tensor::scalar(*n, DType::i64);
  if (const auto* b = std::get_if<bool>(&value))
    return Tensor::scalar(static_cast<int64_t>(*b), DType::boolean);
  if (const auto* x = std::get_if<double>(&value)) return Tensor::scalar(*x, DType::f64);
  const auto& t = std::get<pte::BundledTensor>(value);
  Tensor out{t.dtype, Shape(t.sizes.begin(), t.sizes.end()), {}, t.data.data(), nullptr};
  if (!is_plain_order(t.dim_order)) out.strides = strides_of(out.shape, t.dim_order);
  return to_contiguous(out);
}

// 1e-4 relative, or 1e-5 of the largest expected value (at least 1e-5).
Status compare(const Tensor& got, const Tensor& want) {
  if (got.dtype != want.dtype || got.shape != want.shape)
    return fail(Code::InvalidModel, "is ", got.dtype, got.shape, ", expected ", want.dtype, want.shape);
  double largest = 1.0, worst = 0.0;
  for (int64_t i = 0; i < want.count(); ++i)
    if (const double w = std::fabs(element_real(want, i)); std::isfinite(w)) largest = std::max(largest, w);
  for (int64_t i = 0; i < want.count(); ++i) {
    const double g = element_real(got, i), w = element_real(want, i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    const double off = std::fabs(g - w);
    if (!(off <= 1e-5 * largest + 1e-4 * std::fabs(w)))
      worst = std::isnan(off) ? INFINITY : std::max(worst, off);
  }
  if (worst > 0) return fail(Code::InvalidModel, "differs from the expected values by up to ", worst);
  return {};
}

}  // namespace

Result<FileKind> file_kind(const std::string& path) {
  SF_ASSIGN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  const auto has = [&](const char* id) {
    return bytes.size() >= 8 && std::memcmp(bytes.data() + 4, id, 4) == 0;
  };
  return has("ET12") ? FileKind::pte : has("BP08") ? FileKind::bpte : FileKind::pt2;
}

Result<std::unique_ptr<Runner>> make_program_runner(const RunOptions& options) {
  SF_ASSIGN(const Program program, Program::open(options.model, load_options(options)));
  auto runner = std::make_unique<ProgramRunner>(options);
  SF_TRY(runner->load(program));
  return std::unique_ptr<Runner>(std::move(runner));
}

Status check_bundle(const RunOptions& options) {
  SF_ASSIGN(const auto file, MappedFile::open(options.model));
  SF_ASSIGN(const pte::Bundle bundle, pte::read_bpte(file->bytes()));
  SF_ASSIGN(const Program program, Program::from_memory(bundle.program, load_options(options), file));
  size_t cases = 0, compared = 0;
  for (const pte::BundledSuite& suite : bundle.suites) {
    MethodOptions method_options;
    method_options.threads = options.threads;
    SF_ASSIGN(const auto method, Method::load(program, suite.method, method_options));
    for (size_t c = 0; c < suite.cases.size(); ++c) {
      const pte::BundledCase& test = suite.cases[c];
      const std::string where = cat("running case ", c, " of method ", suite.method);
      if (test.inputs.size() != method->input_count())
        return invalid_model("the case has ", test.inputs.size(), " inputs, the method ",
                             method->input_count())
            .during(where);
      SF_TRY(method->reset_state());
      for (size_t i = 0; i < test.inputs.size(); ++i)
        if (Status s = set_value(*method, i, to_array(test.inputs[i])); !s.ok())
          return s.take_error().during(where);
      if (Status s = method->execute(); !s.ok()) return s.take_error().during(where);
      if (!test.expected.empty() && test.expected.size() != method->output_count())
        return invalid_model("the case expects ", test.expected.size(), " outputs, the method has ",
                             method->output_count())
            .during(where);
      for (size_t i = 0; i < test.expected.size(); ++i, ++compared)
        if (Status s = compare(to_array(method->output(i)), to_array(test.expected[i])); !s.ok())
          return fail(Code::InvalidModel, "output ", i, " ", s.error().message()).during(where);
      ++cases;
    }
  }
  if (options.json)
    print_line(
        nlohmann::ordered_json{{"model", options.model}, {"cases", cases}, {"compared", compared}}.dump());
  else
    print_line(cat(cases, " cases, ", compared, " outputs as expected"));
  return {};
}

}  // namespace sixfold::tools
