// The values of a method while it runs. Numbers and the sizes of tensors may change; kinds, ranks and dtypes
// do not.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sixfold/base/dim.h"
#include "sixfold/base/dtype.h"
#include "sixfold/pte/program.h"

namespace sixfold {

struct TensorState {
  DType dtype = DType::none;
  Shape sizes;                     // now
  std::vector<uint8_t> dim_order;  // axes from outermost to innermost
  int64_t most = 0;                // elements that its memory holds
  bool resizable = false;          // sizes may change, up to `most` elements
  bool constant = false;
  bool planned = false;       // its memory is the method's
  std::byte* data = nullptr;  // null: nobody gave it memory yet

  int64_t count() const { return numel(sizes); }
  size_t size_bytes() const { return static_cast<size_t>(count()) * size_of(dtype); }
};

struct IntItems {
  std::vector<pte::Index> items;  // values that are integers
};
struct TensorItems {
  std::vector<pte::Index> items;  // -1: None
};

using MethodValue = std::variant<std::monostate, int64_t, bool, double, TensorState, std::string, IntItems,
                                 std::vector<double>, std::vector<bool>, TensorItems>;
std::string_view kind_name(const MethodValue& value);

class Values {
 public:
  // Without memory: tensors have sizes, but no data.
  explicit Values(std::span<const pte::Value> values);

  size_t size() const { return values_.size(); }
  MethodValue& operator[](pte::Index i) { return values_[static_cast<size_t>(i)]; }
  const MethodValue& operator[](pte::Index i) const { return values_[static_cast<size_t>(i)]; }
  // Null where the value is of another kind.
  TensorState* tensor(pte::Index i) { return std::get_if<TensorState>(&(*this)[i]); }
  const TensorState* tensor(pte::Index i) const { return std::get_if<TensorState>(&(*this)[i]); }

  // The number that a value is; an error names the value otherwise.
  Result<int64_t> integer(pte::Index i) const;
  Result<double> real(pte::Index i) const;  // from an integer or bool too
  bool is_real(pte::Index i) const { return std::holds_alternative<double>((*this)[i]); }

 private:
  std::vector<MethodValue> values_;
};

// New sizes for a tensor, if it may have them: not fixed, of the same rank, no larger than its memory.
// Allocates nothing.
Status resize(TensorState& tensor, std::span<const int64_t> sizes);

}  // namespace sixfold
