// What a Program says, checked: after this nobody needs to check an index, a size or a kind again.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "sixfold/base/result.h"
#include "sixfold/pte/limits.h"
#include "sixfold/pte/program.h"

namespace sixfold::pte {

inline constexpr size_t kMaxOperatorName = 100;  // "aten::add.out", one less at most

struct VerifyOptions {
  Limits limits;
  // How many arguments a kernel's calls have ("aten::add.out": 5, the returned one counted), or nothing for a
  // kernel that is not known here; who binds kernels refuses that one by name. Null: not checked.
  std::optional<size_t> (*arity)(std::string_view kernel) = nullptr;
};

// Holds afterwards, for every method:
//   - values that lists, instructions, inputs and outputs name exist and are of the right kind; lists of
//   tensors
//     name values before them, so that nothing contains itself;
//   - tensors have at most 16 sizes, none negative, a dim_order that is a permutation, and at most 2^63
//     bytes; their memory lies inside the method's buffers, their data inside constants or mutable_data, and
//     both are aligned to the element;
//   - no kernel's result, and no input, is in constant memory, also by way of moves and views; what a
//   delegate
//     writes only the delegate knows;
//   - jumps stay in their chain, moves keep kind, dtype and rank;
//   - names of methods, named data and external tensors are there, those of methods and named data unique.
// Messages name the method and the value or instruction, and have both numbers.
Status verify(const Program& program, const VerifyOptions& options = {});

// "aten::add.out"; the name alone when there is no overload.
std::string kernel_name(const Operator& op);

}  // namespace sixfold::pte
