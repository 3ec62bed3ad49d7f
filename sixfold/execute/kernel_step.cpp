#include "sixfold/execute/kernel_step.h"

#include <algorithm>
#include <cstring>

#include "sixfold/pte/scalar_type.h"

namespace sixfold {
namespace {

bool overlap(const std::byte* a, size_t a_bytes, const std::byte* b, size_t b_bytes) {
  return a && b && a_bytes && b_bytes && a < b + b_bytes && b < a + a_bytes;
}

int64_t bits_of(double x) {
  int64_t out;
  std::memcpy(&out, &x, sizeof out);
  return out;
}

}  // namespace

Status Scratch::reserve(size_t bytes) {
  if (block.size_bytes() >= bytes) return {};
  block = OwnedBlock();  // nobody runs: what it holds is of no use, and may be what makes room
  SF_ASSIGN(block, OwnedBlock::take(*allocator, bytes, "scratch for kernels"));
  return {};
}

void KernelStep::collect_operand(pte::Index index, const Values& values) {
  if (values.tensor(index))
    operands_.push_back(index);
  else if (const auto* list = std::get_if<TensorItems>(&values[index]))
    operands_.insert(operands_.end(), list->items.begin(), list->items.end());
}

Result<KernelStep> KernelStep::create(const KernelRow& row, const AtenRule& rule,
                                      std::span<const pte::Index> args, const Values& values,
                                      const Facts& facts, int64_t seed) {
  KernelStep out;
  out.row_ = &row;
  out.rule_ = &rule;
  out.seed_ = seed;
  out.args_.assign(args.begin(), args.end() - 1);
  KernelArguments arguments(row);
  for (const pte::Index index : out.args_) {
    const auto a = arguments.next();
    if (!a || a->kind == KernelArgument::out_dtype)
      return Error(Code::Internal, cat(row.name, " has ", args.size(), " arguments"));
    const bool written = a->kind == KernelArgument::result || a->kind == KernelArgument::in_out;
    if (a->kind != KernelArgument::result && a->kind != KernelArgument::silent)
      out.collect_operand(index, values);
    if (!written) continue;
    const auto add_result = [&](pte::Index i) -> Status {
      if (i < 0 || !values.tensor(i))
        return invalid_model("argument ", a->name, " (value ", i, ") is ",
                             i < 0 ? "None" : kind_name(values[i]), ", expected a tensor to write");
      out.results_.push_back(i);
      return {};
    };
    if (const auto* list = std::get_if<TensorItems>(&values[index])) {
      for (const pte::Index i : list->items) SF_TRY(add_result(i));
    } else {
      SF_TRY(add_result(index));
    }
  }
  const auto varying = [&](pte::Index i) { return i >= 0 && facts.varies[static_cast<size_t>(i)]; };
  for (const pte::Index i : out.args_) {
    out.varies_ = out.varies_ || varying(i);
    if (const auto* ints = std::get_if<IntItems>(&values[i]))
      out.varies_ = out.varies_ || std::any_of(ints->items.begin(), ints->items.end(), varying);
  }
  for (const auto* list : {&out.operands_, &out.results_})
    out.varies_ = out.varies_ || std::any_of(list->begin(), list->end(), varying);
  for (const pte::Index i : out.operands_)
    if (i >= 0 && values.tensor(i)->dtype == DType::boolean && !values.tensor(i)->constant)
      out.bools_.push_back(i);
  for (const pte::Index i : out.results_) out.used_.push_back(facts.read[static_cast<size_t>(i)]);
  out.operand_data_.resize(out.operands_.size());
  out.result_data_.resize(out.results_.size());
  return out;
}

// Kernels read bools as such, and a plan may have laid other values over them: only what lies there tells.
Status KernelStep::check_bools(const Values& values) const {
  for (const pte::Index i : bools_) {
    const TensorState& t = *values.tensor(i);
    if (!t.data) continue;  // refused elsewhere
    auto all = std::byte{0};
    const auto n = static_cast<size_t>(t.count());
    for (size_t k = 0; k < n; ++k) all |= t.data[k];
    if (all > std::byte{1}) return invalid_model("value ", i, " of bools has other bytes than 0 and 1");
  }
  return {};
}

// The arguments as import gives them to rules.
Result<Attrs> KernelStep::read_attrs(const Values& values) const {
  Attrs attrs;
  uint32_t operand = 0;
  KernelArguments arguments(*row_);
  size_t next = 0;
  while (const auto a = arguments.next()) {
    if (a->kind == KernelArgument::out_dtype) {
      attrs.set(a->name, values.tensor(results_[0])->dtype);
      continue;
    }
    const pte::Index index = args_[next++];
    if (a->kind == KernelArgument::result || a->kind == KernelArgument::silent) continue;
    const MethodValue& v = values[index];
    if (a->kind == KernelArgument::dtype && !std::holds_alternative<std::monostate>(v)) {
      SF_ASSIGN(const int64_t number, values.integer(index));
      SF_ASSIGN(const DType dtype, pte::dtype_of(number));
      attrs.set(a->name, dtype);
      continue;
    }
    Attr attr;
    if (const auto* n = std::get_if<int64_t>(&v)) {
      attr = Dim(*n);
    } else if (const auto* b = std::get_if<bool>(&v)) {
      attr = *b;
    } else if (const auto* x = std::get_if<double>(&v)) {
      attr = *x;
    } else if (const auto* s = std::get_if<std::string>(&v)) {
      attr = *s;
    } else if (const auto* xs = std::get_if<std::vector<double>>(&v)) {
      attr = *xs;
    } else if (const auto* bs = std::get_if<std::vector<bool>>(&v)) {
      Dims dims;
      for (const bool b : *bs) dims.emplace_back(b ? 1 : 0);
      attr = std::move(dims);
    } else if (const auto* ints = std::get_if<IntItems>(&v)) {
      Dims dims;
      for (const pte::Index i : ints->items) {
        SF_ASSIGN(const int64_t n, values.integer(i));
        dims.emplace_back(n);
      }
      attr = std::move(dims);
    } else if (std::holds_alternative<TensorState>(v)) {
      attr = Operands{operand++, 1, false};
    } else if (const auto* list = std::get_if<TensorItems>(&v)) {
      const auto count = static_cast<uint32_t>(list->items.size());
      if (count == 0)
        attr = Dims{};
      else
        attr = Operands{operand, count, true};
      operand += count;
    }
    attrs.set(a->name, std::move(attr));
  }
  return attrs;
}

Status KernelStep::read_addresses(Values& values) {
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i] < 0) continue;
    const TensorState* t = values.tensor(operands_[i]);
    if (!t->data && t->count() > 0) return invalid_argument("value ", operands_[i], " has no data yet");
    moved_ = moved_ || operand_data_[i] != t->data;
    operand_data_[i] = t->data;
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    const TensorState* t = values.tensor(results_[i]);
    if (!used_[i]) continue;
    if (!t->data && t->most > 0) return invalid_argument("value ", results_[i], " has no memory to write to");
    if (t->constant) return invalid_model("value ", results_[i], " is constant, and the call writes it");
    moved_ = moved_ || result_data_[i] != t->data;
    result_data_[i] = t->data;
  }
  return {};
}

// All that the prepared code depends on and that may have changed.
void KernelStep::write_key(const Values& values) {
  new_key_.clear();
  const auto add_tensor = [&](const TensorState& t) {
    new_key_.push_back(t.constant ? static_cast<int64_t>(reinterpret_cast<intptr_t>(t.data)) : -1);
    for (const uint8_t d : t.dim_order) new_key_.push_back(d);
    new_key_.insert(new_key_.end(), t.sizes.begin(), t.sizes.end());
  };
  for (const pte::Index i : operands_)
    if (i >= 0) add_tensor(*values.tensor(i));
  for (const pte::Index i : results_) {
    const TensorState& t = *values.tensor(i);
    new_key_.push_back(t.most);
    for (const uint8_t d : t.dim_order) new_key_.push_back(d);
    if (!t.resizable) new_key_.insert(new_key_.end(), t.sizes.begin(), t.sizes.end());
  }
  const auto add_number = [&](const MethodValue& v) {
    new_key_.push_back(static_cast<int64_t>(v.index()));
    if (const auto* n = std::get_if<int64_t>(&v)) new_key_.push_back(*n);
    if (const auto* b = std::get_if<bool>(&v)) new_key_.push_back(*b);
    if (const auto* x = std::get_if<double>(&v)) new_key_.push_back(bits_of(*x));
  };
  for (const pte::Index i : args_) {
    add_number(values[i]);
    if (const auto* ints = std::get_if<IntItems>(&values[i]))
      for (const pte::Index item : ints->items) add_number(values[item]);
  }
}

bool KernelStep::overlaps(const Values& values) const {
  for (size_t r = 0; r < results_.size(); ++r) {
    const TensorState& result = *values.tensor(results_[r]);
    if (!used_[r]) continue;
    const size_t bytes = static_cast<size_t>(result.most) * size_of(result.dtype);
    for (const pte::Index o : operands_)
      if (const TensorState* t = o < 0 ? nullptr : values.tensor(o);
          t && overlap(t->data, t->size_bytes(), result.data, bytes))
        return true;
  }
  return false;
}

Result<std::unique_ptr<PreparedCall>> KernelStep::make(const Values& values, const Attrs& attrs,
                                                       bool with_data, bool direct, Scratch& scratch,
                                                       bool* missed_data) {
  std::vector<OperandDesc> operands(operands_.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands_[i] < 0) continue;
    const TensorState& t = *values.tensor(operands_[i]);
    operands[i] = {t.dtype, t.sizes, t.dim_order, t.constant ? t.data : nullptr,
                   with_data ? t.data : nullptr};
  }
  std::vector<ResultDesc> results(results_.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const TensorState& t = *values.tensor(results_[i]);
    results[i] = {t.dtype, t.sizes, t.dim_order, t.most, t.resizable, used_[i]};
  }
  PreparedCall::Request request{rule_,  operands,          &attrs,         results, seed_,
                                direct, scratch.allocator, &scratch.shared};
  return PreparedCall::create(request, missed_data);
}

Status KernelStep::prepare(Values& values, Scratch& scratch, bool with_data, bool* missed_data) {
  SF_ASSIGN(const Attrs attrs, read_attrs(values));
  bound_ = moved_ = false;
  SF_ASSIGN(call_, make(values, attrs, with_data, /*direct=*/true, scratch, missed_data));
  if (!overlaps(values)) return {};
  // A result may be where its operand is only if the kernel works element by element.
  const int k = call_->in_place_operand();
  if (k >= 0 && results_.size() == 1 && operand_data_[static_cast<size_t>(k)] == result_data_[0]) {
    const TensorState& result = *values.tensor(results_[0]);
    bool others = false;
    for (size_t i = 0; i < operands_.size(); ++i)
      if (const TensorState* t = operands_[i] < 0 ? nullptr : values.tensor(operands_[i]);
          t && static_cast<int>(i) != k)
        others = others || overlap(t->data, t->size_bytes(), result.data,
                                   static_cast<size_t>(result.most) * size_of(result.dtype));
    if (!others) return {};
  }
  SF_ASSIGN(call_, make(values, attrs, with_data, /*direct=*/false, scratch, missed_data));
  return {};
}

std::vector<std::span<const std::byte>> KernelStep::unread_constants(const Values& values) const {
  std::vector<std::span<const std::byte>> out;
  for (const pte::Index i : operands_) {
    const TensorState* t = i < 0 ? nullptr : values.tensor(i);
    if (!call_ || !t || !t->constant) continue;
    const std::span<const std::byte> data(t->data, t->size_bytes());
    if (!call_->reads(data)) out.push_back(data);
  }
  return out;
}

Status KernelStep::prepare_static(Values& values, Scratch& scratch, bool varying) {
  // Rooms for the key, so that later comparisons allocate nothing.
  size_t room = 0;
  for (const auto* list : {&operands_, &results_})
    for (const pte::Index i : *list)
      if (i >= 0) room += 2 + 2 * values.tensor(i)->sizes.size();
  for (const pte::Index i : args_) {
    room += 2;
    if (const auto* ints = std::get_if<IntItems>(&values[i])) room += 2 * ints->items.size();
  }
  new_key_.reserve(room);
  key_.reserve(room);
  if (varies_ && !varying) return {};
  // Inputs and outputs that the caller gives have no address yet.
  for (size_t i = 0; i < operands_.size(); ++i)
    operand_data_[i] = operands_[i] < 0 ? nullptr : values.tensor(operands_[i])->data;
  for (size_t i = 0; i < results_.size(); ++i) result_data_[i] = values.tensor(results_[i])->data;
  bool missed = false;
  if (varies_) {
    Status ignored = prepare(values, scratch, /*with_data=*/false, &missed);
    call_.reset();
    return {};
  }
  if (Status s = prepare(values, scratch, /*with_data=*/false, &missed); !s.ok()) {
    if (!missed || s.error().code() != Code::Unsupported) return s;
    needs_data_ = true;  // its answer depends on data, which there is only when it runs
    return {};
  }
  return scratch.reserve(call_->scratch_bytes());
}

Status KernelStep::resize_results(Values& values) {
  for (size_t i = 0; i < results_.size(); ++i)
    if (TensorState& t = *values.tensor(results_[i]); t.resizable && used_[i])
      SF_TRY(resize(t, call_->shapes()[i]));
  return {};
}

Status KernelStep::run(Values& values, Scratch& scratch, cpu::Pool& pool) {
  SF_TRY(read_addresses(values));
  if (!bools_.empty()) SF_TRY(check_bools(values));
  bool stale = !call_ || needs_data_;
  if (varies_ || stale) {
    write_key(values);
    stale = stale || new_key_ != key_;
  }
  // Memory that moved and lies over other memory now: ask again what may be computed in place.
  stale = stale || (moved_ && overlaps(values));
  if (stale) {
    bool missed = false;
    Status s = needs_data_ ? ok_status() : prepare(values, scratch, /*with_data=*/false, &missed);
    if (needs_data_ || (!s.ok() && missed && s.error().code() == Code::Unsupported)) {
      needs_data_ = true;
      s = prepare(values, scratch, /*with_data=*/true, nullptr);
    }
    if (!s.ok()) {
      call_.reset();
      return s;
    }
    std::swap(key_, new_key_);
  }
  SF_TRY(scratch.reserve(call_->scratch_bytes()));
  SF_TRY(resize_results(values));
  if (moved_ || !bound_ || bound_scratch_ != scratch.block.data()) {
    call_->bind(operand_data_, result_data_, scratch.block.data());
    bound_scratch_ = scratch.block.data();
    bound_ = true;
    moved_ = false;
  }
  return call_->run(pool);
}

}  // namespace sixfold
