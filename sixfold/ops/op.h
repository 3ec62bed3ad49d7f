// The canonical ops. ops/aten.def is their table; a row names every part of an op, and each library expands
// only the columns that it owns, so a part not yet written is a link error with the op's name.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "sixfold/base/attr.h"
#include "sixfold/base/result.h"
#include "sixfold/base/type.h"

namespace sixfold {

enum class Op : uint16_t {
  call,  // not canonical yet: an ATen overload, named by Node::target
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) id,
#include "sixfold/ops/aten.def"
#undef OP
};
inline constexpr size_t kOpCount = 1
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) +1
#include "sixfold/ops/aten.def"
#undef OP
    ;

// Whether this build has the op's kernel; a selective build has those that its programs use.
constexpr bool keeps(Op op) {
  switch (op) {
    case Op::call:
      break;
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) \
  case Op::id:                                     \
    return keeps(Part::op, #id);
#include "sixfold/ops/aten.def"
#undef OP
  }
  return false;
}

// Whether op is `one`, in a build that keeps that: code for others is not even compiled.
template <Op one>
constexpr bool is(Op op) {
  return keeps(one) && op == one;
}

std::string_view to_text(Op op);
std::optional<Op> find_op(std::string_view name);

// What shape inference sees of a node. An absent optional operand has dtype none.
struct InferCall {
  Op op;
  std::span<const Type> in;
  const Attrs& attrs;
};
using InferResult = Result<std::vector<Type>>;

namespace infer {
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) InferResult infer_fn(const InferCall& call);
#include "sixfold/ops/aten.def"
#undef OP
}  // namespace infer

// The output types of a canonical op; an error says what is wrong with the operands.
InferResult infer_types(Op op, std::span<const Type> in, const Attrs& attrs);

// For tools: what the ops of this thread are, while one looks. Null when nobody does.
struct Usage {
  std::set<Op> ops;
  std::set<DType> dtypes;  // of operands and results
};
Usage*& usage_of_this_thread();

// Which memory layouts the CPU kernel of an op takes and gives (see plan/).
enum class Layout : uint8_t {
  plain,   // row-major only
  follow,  // elementwise: any dense layout that all full-shape operands share
  image,   // [N, C, ...spatial]: operand 0 and the outputs row-major or channels-last
};
Layout layout_of(Op op);

}  // namespace sixfold
