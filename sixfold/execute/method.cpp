#include "sixfold/execute/method.h"

#include <chrono>
#include <cmath>
#include <cstring>

#include "sixfold/base/tensor.h"
#include "sixfold/execute/turn.h"
#include "sixfold/pte/verify.h"

namespace sixfold {
namespace {

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1); }

// Copies elements between memory of different dim orders; sizes are those of both.
void reorder(const Shape& sizes, const Shape& from_strides, const std::byte* from, const Shape& to_strides,
             std::byte* to, size_t element) {
  const int64_t count = numel(sizes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0, out = 0;
    for (size_t d = sizes.size(); d-- > 0;) {
      at += rest % sizes[d] * from_strides[d];
      out += rest % sizes[d] * to_strides[d];
      rest /= sizes[d];
    }
    std::memcpy(to + static_cast<size_t>(out) * element, from + static_cast<size_t>(at) * element, element);
  }
}

bool fits(std::span<const int64_t> sizes, std::span<const int32_t> declared, bool smaller_too) {
  if (sizes.size() != declared.size()) return false;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] < 0 || (smaller_too ? sizes[d] > declared[d] : sizes[d] != declared[d])) return false;
  return true;
}

bool is_permutation(std::span<const uint8_t> dim_order, size_t rank) {
  uint32_t seen = 0;
  for (const uint8_t d : dim_order)
    if (d < rank && d < 32) seen |= 1u << d;
  return dim_order.size() == rank && seen == (1u << rank) - 1;
}

Shape given_strides(const TensorView& t) {
  return t.dim_order.empty() ? contiguous_strides(Shape(t.sizes.begin(), t.sizes.end()))
                             : strides_of(t.sizes, t.dim_order);
}

// Whether its elements lie as dim_order says; extents of 1 may be anywhere.
bool in_order(const TensorView& t, const std::vector<uint8_t>& dim_order) {
  if (t.dim_order.empty()
          ? is_plain_order(dim_order)
          : std::equal(dim_order.begin(), dim_order.end(), t.dim_order.begin(), t.dim_order.end()))
    return true;
  const Shape strides = given_strides(t), wanted = strides_of(t.sizes, dim_order);
  for (size_t d = 0; d < strides.size(); ++d)
    if (t.sizes[d] > 1 && strides[d] != wanted[d]) return false;
  return true;
}

}  // namespace

size_t TensorView::size_bytes() const {
  size_t bytes = size_of(dtype);
  for (const int64_t s : sizes) bytes *= static_cast<size_t>(s);
  return bytes;
}

std::string Method::describe(size_t chain, size_t step) const {
  const std::string at = cat("instruction ", step, plan_->chains.size() > 1 ? cat(" of chain ", chain) : "");
  const pte::Instruction& instruction = plan_->chains[chain][step];
  if (const auto* call = std::get_if<pte::KernelCall>(&instruction))
    return cat(at, " (", pte::kernel_name(plan_->operators[call->operator_index]), ")");
  if (const auto* call = std::get_if<pte::DelegateCall>(&instruction))
    return cat(at, " (delegate ", plan_->delegates[call->delegate_index].id, ")");
  return at;
}

Status Method::set_input(size_t i, const TensorView& given) {
  Turn turn(busy_);
  if (!turn.ok()) return turn.refusal();
  if (i >= input_count()) return invalid_argument("input ", i, " was set, the method has ", input_count());
  TensorState* t = values_.tensor(plan_->inputs[i]);
  if (!t) return invalid_argument("input ", i, " is ", kind_name(input(i)), ", a tensor was given");
  const auto refuse = [&](std::string_view why) {
    const auto& declared = std::get<pte::Tensor>(plan_->values[static_cast<size_t>(plan_->inputs[i])]).sizes;
    return invalid_argument("input ", i, " must be ", t->dtype, Shape(declared.begin(), declared.end()), why,
                            ", ", given.dtype, Shape(given.sizes.begin(), given.sizes.end()), " was given");
  };
  if (given.dtype != t->dtype) return refuse("");
  if (!fits(given.sizes, std::get<pte::Tensor>(plan_->values[static_cast<size_t>(plan_->inputs[i])]).sizes,
            t->resizable))
    return refuse(t->resizable ? " at most" : "");
  if (!given.dim_order.empty() && !is_permutation(given.dim_order, given.sizes.size()))
    return invalid_argument("the dim order of input ", i, " is no permutation of its ", given.sizes.size(),
                            " axes");
  const bool same_order = in_order(given, t->dim_order);
  const size_t bytes = given.size_bytes();
  if (bytes > 0 && !given.data) return invalid_argument("input ", i, " has no data");
  if (t->constant) return invalid_argument("input ", i, " is a constant of the program");
  if (t->planned) {
    SF_TRY(resize(*t, given.sizes));
    if (same_order)
      std::memmove(t->data, given.data, bytes);
    else
      reorder(t->sizes, given_strides(given), given.data, strides_of(t->sizes, t->dim_order), t->data,
              size_of(t->dtype));
  } else {
    if (!same_order && bytes > 0)
      return invalid_argument("input ", i,
                              " is read where it is, and must have the dim order of the program");
    if (reinterpret_cast<uintptr_t>(given.data) % size_of(t->dtype) != 0)
      return invalid_argument("input ", i, " is not aligned to its ", size_of(t->dtype), " bytes");
    SF_TRY(resize(*t, given.sizes));
    t->data = const_cast<std::byte*>(given.data);  // only read: verify() knows what instructions write
  }
  input_set_[i] = true;
  return {};
}

// ExecuTorch's tolerance for reals; integers and bools are exact.
Status Method::check_number(size_t i, double value, std::string_view kind) {
  if (i >= input_count()) return invalid_argument("input ", i, " was set, the method has ", input_count());
  auto traced = values_.real(plan_->inputs[i]);
  if (!traced.ok())
    return invalid_argument("input ", i, " is ", kind_name(input(i)), ", ", kind, " was given");
  const bool real = values_.is_real(plan_->inputs[i]);
  const double tolerance = real ? 1e-4 + 1e-5 * std::fabs(*traced) : 0.0;
  const bool same =
      std::isnan(*traced) ? std::isnan(value) : value == *traced || std::fabs(value - *traced) <= tolerance;
  if (!same) return invalid_argument("input ", i, " is ", *traced, " in the program, and cannot be ", value);
  return {};
}
Status Method::set_input(size_t i, int64_t value) {
  return check_number(i, static_cast<double>(value), "an integer");
}
Status Method::set_input(size_t i, double value) { return check_number(i, value, "a real"); }
Status Method::set_input(size_t i, bool value) { return check_number(i, value ? 1.0 : 0.0, "a bool"); }

Status Method::set_output(size_t i, std::span<std::byte> memory) {
  Turn turn(busy_);
  if (!turn.ok()) return turn.refusal();
  if (i >= output_count()) return invalid_argument("output ", i, " was set, the method has ", output_count());
  TensorState* t = values_.tensor(plan_->outputs[i]);
  if (!t || t->planned || t->constant)
    return invalid_argument("output ", i, " is ", t ? "in the method's own memory" : kind_name(output(i)));
  const size_t bytes = static_cast<size_t>(t->most) * size_of(t->dtype);
  if (memory.size() < bytes)
    return fail(Code::OutOfMemory, "output ", i, " needs ", bytes, " bytes, and has ", memory.size());
  if (reinterpret_cast<uintptr_t>(memory.data()) % size_of(t->dtype) != 0)
    return invalid_argument("output ", i, " is not aligned to its ", size_of(t->dtype), " bytes");
  t->data = memory.data();
  return {};
}

Result<TensorView> Method::output_tensor(size_t i) const {
  if (i >= output_count())
    return invalid_argument("output ", i, " was read, the method has ", output_count());
  const TensorState* t = values_.tensor(plan_->outputs[i]);
  if (!t) return invalid_argument("output ", i, " is ", kind_name(output(i)), ", no tensor");
  return TensorView{t->dtype, t->sizes, t->dim_order, t->data};
}

Result<bool> Method::is_true(pte::Index condition) const {
  const MethodValue& v = values_[condition];
  if (const bool* b = std::get_if<bool>(&v)) return *b;
  const auto* t = std::get_if<TensorState>(&v);
  if (!t || t->dtype != DType::boolean || !t->data)
    return invalid_model("value ", condition, " is ", kind_name(v), ", expected a bool");
  for (int64_t i = 0; i < t->count(); ++i)
    if (t->data[i] == std::byte{0}) return false;
  return true;
}

Status Method::run_chain(size_t chain, uint64_t& budget) {
  std::vector<Step>& steps = chains_[chain];
  for (size_t i = 0; i < steps.size();) {
    if (budget-- == 0)
      return invalid_model("the method has not ended after ", max_instructions_, " instructions");
    const int64_t begin = profiling_ ? now_ns() : 0;
    size_t next = i + 1;
    Status status;
    if (auto* kernel = std::get_if<KernelStep>(&steps[i])) {
      status = kernel->run(values_, scratch_, *pool_);
    } else if (auto* prim = std::get_if<PrimStep>(&steps[i])) {
      status = run_prim(prim->prim, prim->args, values_);
    } else if (auto* delegate = std::get_if<DelegateStep>(&steps[i])) {
      const BoundDelegate& d = delegates_[delegate->index];
      status = d.functions->execute(d.handle, delegate->args);
      if (profiling_ && status.ok() && d.functions->report) {
        auto report = d.functions->report(d.handle);
        if (report.ok())
          reports_[{chain, i}] = std::move(report).value();
        else
          status = report.take_error();
      }
    } else if (const auto* move = std::get_if<pte::Move>(&steps[i])) {
      values_[move->to] = values_[move->from];
    } else if (const auto* jump = std::get_if<pte::JumpFalse>(&steps[i])) {
      auto condition = is_true(jump->condition);
      if (!condition.ok())
        status = condition.take_error();
      else if (!*condition)
        next = jump->destination;
    } else if (const auto* free = std::get_if<pte::Free>(&steps[i])) {
      if (TensorState* t = values_.tensor(free->value); t && !t->planned && !t->constant) t->data = nullptr;
    }
    if (!status.ok()) [[unlikely]]
      return status.take_error().during(cat("running ", describe(chain, i)));
    if (profiling_) times_[chain][i] = {begin, now_ns()};
    if (observer_)
      observer_->ran(static_cast<uint32_t>(chain), static_cast<uint32_t>(i), observed_[chain][i]);
    i = next;
  }
  return {};
}

Status Method::execute() {
  Turn turn(busy_);
  if (!turn.ok()) return turn.refusal();
  for (size_t i = 0; i < input_count(); ++i)
    if (const TensorState* t = values_.tensor(plan_->inputs[i]);
        t && !input_set_[i] && !t->constant && t->count() > 0)
      return invalid_argument("input ", i,
                              " was not set since the last run, and its memory has other values now");
  uint64_t budget = max_instructions_;
  reports_.clear();
  for (size_t c = 0; c < chains_.size(); ++c) {
    if (profiling_) std::fill(times_[c].begin(), times_[c].end(), std::pair<int64_t, int64_t>());
    SF_TRY(run_chain(c, budget));
  }
  for (size_t i = 0; i < input_count(); ++i)
    if (const TensorState* t = values_.tensor(plan_->inputs[i]); t && t->planned) input_set_[i] = false;
  return {};
}

std::vector<Method::Profile> Method::profile() const {
  std::vector<Profile> out;
  for (size_t c = 0; c < chains_.size(); ++c) {
    for (size_t i = 0; i < chains_[c].size(); ++i) {
      // ExecuTorch's words for them
      static constexpr std::string_view kKinds[] = {"OPERATOR_CALL", "DELEGATE_CALL", "MOVE_CALL", "JF_CALL",
                                                    "FREE_CALL"};
      const pte::Instruction& instruction = plan_->chains[c][i];
      const std::string_view kind = kKinds[instruction.index()];
      std::string name(kind);
      if (const auto* call = std::get_if<pte::KernelCall>(&instruction))
        name = pte::kernel_name(plan_->operators[call->operator_index]);
      if (const auto* call = std::get_if<pte::DelegateCall>(&instruction))
        name = plan_->delegates[call->delegate_index].id;
      out.push_back({std::move(name), kind, static_cast<uint32_t>(c), static_cast<uint32_t>(i),
                     times_[c][i].first, times_[c][i].second});
      if (const auto it = reports_.find({c, i}); it != reports_.end()) out.back().delegate = &it->second;
    }
  }
  return out;
}

}  // namespace sixfold
