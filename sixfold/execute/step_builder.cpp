#include "sixfold/execute/step_builder.h"

#include <algorithm>

#include "sixfold/execute/evaluate.h"

namespace sixfold {
namespace {

const Type kNoType;

// What is computed from constants stays a computation when it is much larger than they are.
constexpr size_t kMaxGrownBytes = size_t{1} << 20;

Shape memory_shape(std::span<const int64_t> sizes, std::span<const uint8_t> dim_order) {
  Shape out;
  for (const uint8_t d : dim_order) out.push_back(sizes[d]);
  return out;
}

}  // namespace

Shape strides_of(std::span<const int64_t> sizes, std::span<const uint8_t> dim_order) {
  Shape out(sizes.size());
  int64_t step = 1;
  for (size_t i = dim_order.size(); i-- > 0;) {
    out[dim_order[i]] = step;
    step *= std::max<int64_t>(sizes[dim_order[i]], 1);
  }
  return out;
}

bool is_plain_order(std::span<const uint8_t> dim_order) {
  return std::is_sorted(dim_order.begin(), dim_order.end());
}

StepBuilder::StepBuilder(std::span<const ResultDesc> results, int64_t seed, Allocator& allocator)
    : results_(results), seed_(seed), allocator_(allocator) {
  for (const ResultDesc& r : results)
    result_types_.push_back({r.dtype, to_dims(Shape(r.sizes.begin(), r.sizes.end()))});
}

ValueId StepBuilder::new_value(Value value) {
  values_.push_back(std::move(value));
  return {static_cast<uint32_t>(values_.size() - 1)};
}

Slot StepBuilder::add_input(DType dtype, Shape shape, uint32_t operand) {
  const auto slot = static_cast<Slot>(program_.values.size());
  program_.values.push_back({ProgramValue::input, dtype, std::move(shape), {}, {}});
  program_.inputs.push_back(slot);
  inputs_.push_back(operand);
  return slot;
}

ValueId StepBuilder::operand(const OperandDesc& desc) {
  const uint32_t index = operands_++;
  const Shape sizes(desc.sizes.begin(), desc.sizes.end());
  Value value;
  value.type = {desc.dtype, to_dims(sizes)};
  const bool plain = is_plain_order(desc.dim_order);
  const auto view_of = [&](const std::byte* data) {
    return Tensor{desc.dtype, sizes, plain ? Shape{} : strides_of(desc.sizes, desc.dim_order), data, nullptr};
  };
  if (desc.constant) {
    value.is_constant = true;
    value.data = view_of(desc.constant);
    return new_value(std::move(value));
  }
  if (desc.known) value.known = view_of(desc.known);
  if (plain) {
    value.slot = add_input(desc.dtype, sizes, index);
    return new_value(std::move(value));
  }
  Value memory;
  const Shape shape = memory_shape(desc.sizes, desc.dim_order);
  memory.type = {desc.dtype, to_dims(shape)};
  memory.slot = add_input(desc.dtype, shape, index);
  Dims dims(sizes.size());
  for (size_t i = 0; i < desc.dim_order.size(); ++i) dims[desc.dim_order[i]] = Dim(static_cast<int64_t>(i));
  const ValueId from = new_value(std::move(memory));
  auto logical = add(Op::permute, {from}, {{"dims", dims}});
  assert(logical.ok());  // dim_order is a permutation: the file was verified
  values_[(*logical)[0].index].known = value.known;
  return (*logical)[0];
}

ValueId StepBuilder::constant(Tensor data) {
  // A view of a view may be the original again.
  if (!data.strides.empty() && data.strides == contiguous_strides(data.shape)) data.strides.clear();
  Value value;
  value.type = {data.dtype, to_dims(data.shape)};
  value.is_constant = true;
  value.data = std::move(data);
  return new_value(std::move(value));
}

const Type& StepBuilder::type(ValueId id) const { return id.valid() ? values_[id.index].type : kNoType; }

const Tensor* StepBuilder::constant_data(ValueId id) const {
  const Value& v = values_[id.index];
  return v.is_constant ? &v.data : nullptr;
}

std::optional<Tensor> StepBuilder::known(ValueId id) const {
  const Value& v = values_[id.index];
  if (!v.is_constant && v.known.dtype == DType::none) {
    missed_data_ = true;
    return std::nullopt;
  }
  used_data_ = used_data_ || !v.is_constant;
  auto out = to_contiguous(allocator_, v.is_constant ? v.data : v.known);
  if (out.ok()) return std::move(out).value();
  if (status_.ok()) status_ = out.take_error();
  return std::nullopt;
}

Slot StepBuilder::slot_of(ValueId id) {
  if (!id.valid()) return kNoSlot;
  Value& v = values_[id.index];
  if (v.slot == kNoSlot) {
    assert(v.is_constant);
    v.slot = static_cast<Slot>(program_.values.size());
    program_.values.push_back({ProgramValue::constant, v.type.dtype, v.data.shape, v.data, {}});
  }
  return v.slot;
}

Result<std::vector<ValueId>> StepBuilder::add(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  std::vector<Type> in;
  std::vector<Tensor> constants;
  bool foldable = !inputs.empty() && op != Op::rand && op != Op::randn && op != Op::dequantize;
  size_t bytes_in = 0;
  for (const ValueId v : inputs) {
    in.push_back(type(v));
    const Tensor* t = v.valid() ? constant_data(v) : nullptr;
    if (v.valid() && !t) foldable = false;
    if (t) bytes_in += t->size_bytes();
    constants.push_back(t ? *t : Tensor{});
  }
  SF_ASSIGN(const std::vector<Type> types, infer_types(op, in, attrs));
  size_t bytes_out = 0;
  for (const Type& t : types)
    bytes_out += static_cast<size_t>(numel(static_shape(t.dims))) * size_of(t.dtype);
  std::vector<ValueId> out;
  if (foldable && (bytes_out <= bytes_in || bytes_out <= kMaxGrownBytes)) {
    auto folded = evaluate(op, constants, attrs, allocator_);
    if (folded.ok()) {
      for (Tensor& t : *folded) out.push_back(constant(std::move(t)));
      return out;
    }
    if (folded.error().code() == Code::OutOfMemory) return folded.take_error();
  }
  ProgramStep step{op, {}, {}, std::move(attrs), std::string(to_text(op))};
  for (const ValueId v : inputs) step.inputs.push_back(slot_of(v));
  for (const Type& t : types) {
    const auto slot = static_cast<Slot>(program_.values.size());
    program_.values.push_back({ProgramValue::temporary, t.dtype, static_shape(t.dims), {}, {}});
    step.outputs.push_back(slot);
    Value value;
    value.type = t;
    value.slot = slot;
    out.push_back(new_value(std::move(value)));
  }
  program_.steps.push_back(std::move(step));
  return out;
}

Result<FlatProgram> StepBuilder::finish(const std::vector<ValueId>& results, std::vector<Shape>* shapes) {
  shapes->clear();
  for (size_t i = 0; i < results_.size(); ++i) {
    const ResultDesc& want = results_[i];
    if (!results[i].valid() || !want.used) {
      shapes->emplace_back(want.sizes.begin(), want.sizes.end());
      continue;
    }
    ValueId v = results[i];
    const Shape shape = static_shape(type(v).dims);
    const Shape had(want.sizes.begin(), want.sizes.end());
    if (!want.resizable && shape != had)
      return invalid_model("result ", i, " is ", type(v), ", its tensor ", want.dtype, had);
    if (want.resizable && (shape.size() != had.size() || numel(shape) > want.most))
      return invalid_model("result ", i, " is ", type(v), ", its tensor has rank ", had.size(),
                           " and room for ", want.most, " elements");
    if (type(v).dtype != want.dtype) {
      SF_ASSIGN(const auto converted, add(Op::to, {v}, {{"dtype", want.dtype}}));
      v = converted[0];
    }
    if (!is_plain_order(want.dim_order)) {
      Dims dims;
      for (const uint8_t d : want.dim_order) dims.emplace_back(static_cast<int64_t>(d));
      SF_ASSIGN(const auto moved, add(Op::permute, {v}, {{"dims", dims}}));
      v = moved[0];
    }
    program_.outputs.push_back(slot_of(v));
    shapes->push_back(shape);
  }
  return std::move(program_);
}

}  // namespace sixfold
