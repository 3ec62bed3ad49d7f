#include "sixfold/rewrite/patch.h"

namespace sixfold {

ValueId Patch::new_value(Type type) {
  const ValueId id{static_cast<uint32_t>(graph_->value_count() + values_.size())};
  values_.push_back(NewValue{std::move(type), {}, false});
  return id;
}

Result<std::vector<ValueId>> Patch::try_add(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  std::vector<Type> in;
  in.reserve(inputs.size());
  for (const ValueId v : inputs) in.push_back(type(v));
  SF_ASSIGN(std::vector<Type> types, infer_types(op, in, attrs));
  NewNode node{op, {}, std::move(inputs), std::move(attrs), {}};
  for (Type& t : types) node.outputs.push_back(new_value(std::move(t)));
  std::vector<ValueId> out = node.outputs;
  nodes_.push_back(std::move(node));
  return out;
}

std::vector<ValueId> Patch::add_all(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  if (!status_.ok()) return {kNoValue, kNoValue, kNoValue};
  auto out = try_add(op, std::move(inputs), std::move(attrs));
  if (out.ok()) return std::move(out).value();
  status_ = out.take_error().during(cat("making ", op));
  return {kNoValue, kNoValue, kNoValue};
}

ValueId Patch::add(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  return add_all(op, std::move(inputs), std::move(attrs))[0];
}

std::vector<ValueId> Patch::add_call(std::string target, std::vector<ValueId> inputs, Attrs attrs,
                                     const std::vector<Type>& types) {
  if (!status_.ok()) return std::vector<ValueId>(types.size(), kNoValue);
  NewNode node{Op::call, std::move(target), std::move(inputs), std::move(attrs), {}};
  for (const Type& t : types) node.outputs.push_back(new_value(t));
  std::vector<ValueId> out = node.outputs;
  nodes_.push_back(std::move(node));
  return out;
}

ValueId Patch::constant(Tensor data, std::optional<Encoding> encoding) {
  const ValueId id = new_value(Type{data.dtype, to_dims(data.shape)});
  values_.back().constant = std::move(data);
  values_.back().is_constant = true;
  values_.back().encoding = std::move(encoding);
  return id;
}

void Patch::replace(ValueId old_value, ValueId new_value) {
  replacements_.emplace_back(old_value, new_value);
}

const Type& Patch::type(ValueId id) const {
  if (id.valid() && id.index >= graph_->value_count()) return values_[id.index - graph_->value_count()].type;
  return graph_->type(id);
}

const Tensor* Patch::constant_data(ValueId id) const {
  if (id.valid() && id.index >= graph_->value_count()) {
    const NewValue& v = values_[id.index - graph_->value_count()];
    return v.is_constant ? &v.constant : nullptr;
  }
  return graph_->constant(id);
}

}  // namespace sixfold
