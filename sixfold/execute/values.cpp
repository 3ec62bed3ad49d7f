#include "sixfold/execute/values.h"

#include <algorithm>

namespace sixfold {
namespace {

TensorState state_of(const pte::Tensor& t) {
  TensorState out;
  out.dtype = t.dtype;
  out.sizes.assign(t.sizes.begin(), t.sizes.end());
  out.dim_order = t.dim_order;
  out.most = numel(out.sizes);
  out.resizable = t.dynamism != pte::Dynamism::fixed;
  out.planned = t.allocation.has_value();
  out.constant = !t.allocation && (t.data_index != 0 || t.location == pte::Location::external);
  return out;
}

MethodValue value_of(const pte::Value& value) {
  struct {
    MethodValue operator()(pte::None) const { return {}; }
    MethodValue operator()(int64_t v) const { return v; }
    MethodValue operator()(bool v) const { return v; }
    MethodValue operator()(double v) const { return v; }
    MethodValue operator()(const pte::Tensor& t) const { return state_of(t); }
    MethodValue operator()(const std::string& s) const { return s; }
    MethodValue operator()(const pte::IntList& l) const {
      return IntItems{std::vector<pte::Index>(l.items.begin(), l.items.end())};
    }
    MethodValue operator()(const std::vector<double>& l) const { return l; }
    MethodValue operator()(const std::vector<bool>& l) const { return l; }
    MethodValue operator()(const pte::TensorList& l) const { return TensorItems{l.items}; }
  } make;
  return std::visit(make, value);
}

}  // namespace

std::string_view kind_name(const MethodValue& value) {
  static constexpr std::string_view kNames[] = {
      "None", "an integer", "a bool", "a real", "a tensor",
      "text", "integers",   "reals",  "bools",  "a list of tensors"};
  return kNames[value.index()];
}

Values::Values(std::span<const pte::Value> values) {
  values_.reserve(values.size());
  for (const pte::Value& v : values) values_.push_back(value_of(v));
}

Result<int64_t> Values::integer(pte::Index i) const {
  const MethodValue& v = (*this)[i];
  if (const auto* n = std::get_if<int64_t>(&v)) return *n;
  if (const auto* b = std::get_if<bool>(&v)) return static_cast<int64_t>(*b);
  return invalid_model("value ", i, " is ", kind_name(v), ", expected an integer");
}

Result<double> Values::real(pte::Index i) const {
  const MethodValue& v = (*this)[i];
  if (const auto* x = std::get_if<double>(&v)) return *x;
  if (const auto* n = std::get_if<int64_t>(&v)) return static_cast<double>(*n);
  if (const auto* b = std::get_if<bool>(&v)) return *b ? 1.0 : 0.0;
  return invalid_model("value ", i, " is ", kind_name(v), ", expected a number");
}

Status resize(TensorState& tensor, std::span<const int64_t> sizes) {
  if (std::equal(sizes.begin(), sizes.end(), tensor.sizes.begin(), tensor.sizes.end())) return {};
  const Shape wanted(sizes.begin(), sizes.end());
  if (!tensor.resizable)
    return invalid_argument("the tensor is ", tensor.dtype, tensor.sizes, ", and cannot be ", wanted);
  if (sizes.size() != tensor.sizes.size())
    return invalid_argument("the tensor has rank ", tensor.sizes.size(), ", and cannot be ", wanted);
  int64_t count = 1;
  for (const int64_t s : sizes)
    if (s < 0 || __builtin_mul_overflow(count, s, &count)) return invalid_argument("sizes ", wanted);
  if (count > tensor.most)
    return invalid_argument("sizes ", wanted, " are ", count, " elements, and the tensor holds at most ",
                            tensor.most);
  std::copy(sizes.begin(), sizes.end(), tensor.sizes.begin());
  return {};
}

}  // namespace sixfold
