#include "sixfold/import/functionalize.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace sixfold {
namespace {

using Names = std::pair<std::string_view, std::string_view>;

// Where the functional op is not the in-place name without its underscore.
constexpr Names kRenamed[] = {
    {"aten.floor_divide_.Tensor", "aten.floor_divide.default"},
    {"aten.pow_.Scalar", "aten.pow.Tensor_Scalar"},
    {"aten.pow_.Tensor", "aten.pow.Tensor_Tensor"},
    {"aten.float_power_.Scalar", "aten.float_power.Tensor_Scalar"},
    {"aten.float_power_.Tensor", "aten.float_power.Tensor_Tensor"},
    {"aten.ldexp_.default", "aten.ldexp.Tensor"},
    {"aten._native_batch_norm_legit.default", "aten._native_batch_norm_legit_functional.default"},
    {"aten._batch_norm_with_update.default", "aten._batch_norm_with_update_functional.default"},
};
constexpr Names kMetadata[] = {
    {"aten.detach_.default", "aten.detach.default"},
    {"aten.requires_grad_.default", "aten.detach.default"},
    {"aten.squeeze_.default", "aten.squeeze.default"},
    {"aten.squeeze_.dim", "aten.squeeze.dim"},
    {"aten.squeeze_.dims", "aten.squeeze.dims"},
    {"aten.unsqueeze_.default", "aten.unsqueeze.default"},
    {"aten.transpose_.default", "aten.transpose.int"},
    {"aten.swapaxes_.default", "aten.swapaxes.default"},
    {"aten.swapdims_.default", "aten.swapdims.default"},
    {"aten.t_.default", "aten.t.default"},
    {"aten.as_strided_.default", "aten.as_strided.default"},
};
constexpr std::string_view kBoolean[] = {
    "eq",        "ne",          "lt",         "le",          "gt",
    "ge",        "less",        "less_equal", "greater",     "greater_equal",
    "not_equal", "logical_and", "logical_or", "logical_xor", "logical_not"};
constexpr std::string_view kPromoting[] = {
    "add",         "sub",          "subtract",    "mul",        "multiply",    "div",     "divide",
    "true_divide", "floor_divide", "remainder",   "fmod",       "pow",         "atan2",   "arctan2",
    "hypot",       "copysign",     "addcmul",     "addcdiv",    "lerp",        "xlogy",   "ldexp",
    "gcd",         "lcm",          "bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__",
    "__xor__",     "clamp",        "clip",        "clamp_min",  "clamp_max"};

std::optional<std::string> lookup(std::span<const Names> table, std::string_view name) {
  for (const auto& [from, to] : table)
    if (from == name) return std::string(to);
  return std::nullopt;
}

bool same_arguments(const Schema& a, const Schema& b) {
  return std::equal(a.args.begin(), a.args.end(), b.args.begin(), b.args.end(),
                    [](const SchemaArg& x, const SchemaArg& y) {
                      return x.type == y.type &&
                             x.list == y.list;  // their names may differ: dropout_(self), dropout(input)
                    });
}

std::string_view op_name(std::string_view target) {
  const size_t begin = target.find('.') + 1;
  return target.substr(begin, target.rfind('.') - begin);
}

template <size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

std::optional<std::string> metadata_target(const Schema& in_place) {
  return lookup(kMetadata, in_place.target);
}

std::optional<std::string> functional_target(const Schema& in_place) {
  std::optional<std::string> out = lookup(kRenamed, in_place.target);
  if (!out) {
    const std::string_view target = in_place.target;
    const std::string_view op = op_name(target);
    const size_t begin = target.find('.') + 1;
    const std::string_view rest = target.substr(begin + op.size());
    if (op.starts_with("__i"))
      out = cat(target.substr(0, begin), "__", op.substr(3), rest);
    else if (op.ends_with('_'))
      out = cat(target.substr(0, begin), op.substr(0, op.size() - 1), rest);
    else
      return std::nullopt;
  }
  const Schema* functional = find_schema(*out);
  if (!functional || !same_arguments(in_place, *functional)) return std::nullopt;
  if (std::any_of(functional->args.begin(), functional->args.end(),
                  [](const SchemaArg& a) { return a.mutates; }))
    return std::nullopt;
  return out;
}

DType functional_dtype(const std::string& functional, const Type& self, std::span<const Type> tensors) {
  const std::string_view op = op_name(functional);
  if (contains(kBoolean, op)) return DType::boolean;
  if (op == "float_power") return DType::f64;
  if (!contains(kPromoting, op)) return self.dtype;
  DType out = self.dtype;
  const auto category = [](DType d) { return d == DType::boolean ? 0 : is_float(d) ? 2 : 1; };
  for (const Type& t : tensors) {
    // A 0-d operand counts only by its category, unless self is 0-d too.
    if (t.rank() == 0 && self.rank() > 0 && category(t.dtype) <= category(out)) continue;
    if (self.rank() == 0 && t.rank() > 0 && category(self.dtype) <= category(t.dtype))
      continue;  // torch refuses to grow self
    out = promote(out, t.dtype);
  }
  return out;
}

}  // namespace sixfold
