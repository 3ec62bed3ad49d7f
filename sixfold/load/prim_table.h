// Instructions on numbers and on the places of tensors, which a .pte calls like kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

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

const PrimRow* find_prim(std::string_view name);

}  // namespace sixfold
