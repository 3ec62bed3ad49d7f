// Instructions on numbers and on the places of tensors, which a .pte calls like kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sixfold/base/selection.h"

namespace sixfold {

enum class Prim : uint8_t {
  add,
  sub,
  mul,
  floordiv,
  truediv,
  mod,
  eq,
  gt,
  lt,
  ge,
  le,
  neg,
  ceil,
  round,
  trunc,  //
  sym_float,
  sym_int,
  sym_max,
  sym_min,
  sym_not,
  sym_ite,
  sym_size,
  sym_numel,
  item,        // of a tensor
  view,        // out takes the memory of self
  copy_index,  // out[index] = x
};

struct PrimRow {
  std::string_view name;
  Prim prim;
  uint8_t arity;  // the returned one counted
};

inline constexpr PrimRow kPrims[] = {
    {"executorch_prim::add.Scalar", Prim::add, 3},
    {"executorch_prim::sub.Scalar", Prim::sub, 3},
    {"executorch_prim::mul.Scalar", Prim::mul, 3},
    {"executorch_prim::floordiv.Scalar", Prim::floordiv, 3},
    {"executorch_prim::floordiv.int", Prim::floordiv, 3},
    {"executorch_prim::truediv.Scalar", Prim::truediv, 3},
    {"executorch_prim::mod.Scalar", Prim::mod, 3},
    {"executorch_prim::mod.int", Prim::mod, 3},
    {"executorch_prim::eq.Scalar", Prim::eq, 3},
    {"executorch_prim::gt.Scalar", Prim::gt, 3},
    {"executorch_prim::lt.Scalar", Prim::lt, 3},
    {"executorch_prim::ge.Scalar", Prim::ge, 3},
    {"executorch_prim::le.Scalar", Prim::le, 3},
    {"executorch_prim::neg.Scalar", Prim::neg, 2},
    {"executorch_prim::ceil.Scalar", Prim::ceil, 2},
    {"executorch_prim::round.Scalar", Prim::round, 2},
    {"executorch_prim::trunc.Scalar", Prim::trunc, 2},
    {"executorch_prim::sym_float.Scalar", Prim::sym_float, 2},
    {"executorch_prim::sym_int.Scalar", Prim::sym_int, 2},
    {"executorch_prim::sym_max.Scalar", Prim::sym_max, 3},
    {"executorch_prim::sym_min.Scalar", Prim::sym_min, 3},
    {"executorch_prim::sym_not.Scalar", Prim::sym_not, 2},
    {"executorch_prim::sym_ite.Scalar", Prim::sym_ite, 4},
    {"executorch_prim::et_view.default", Prim::view, 3},
    {"executorch_prim::et_copy_index.tensor", Prim::copy_index, 3},
    {"aten::sym_size.int", Prim::sym_size, 3},
    {"aten::sym_numel", Prim::sym_numel, 2},
    {"aten::_local_scalar_dense", Prim::item, 2},
};

// Whether this build has it; a selective build has those that its programs call.
consteval bool keeps(Prim prim) {
  for (const PrimRow& row : kPrims)
    if (row.prim == prim && keeps(Part::kernel, row.name)) return true;
  return false;
}

consteval bool keeps_any_prim() {
  for (const PrimRow& row : kPrims)
    if (keeps(row.prim)) return true;
  return false;
}

const PrimRow* find_prim(
    std::string_view name);  // null for another, and for one that this build does not keep

}  // namespace sixfold
