// Type: what is known of a tensor before it has data.
#pragma once

#include "sixfold/base/dim.h"
#include "sixfold/base/dtype.h"

namespace sixfold {

struct Type {
  DType dtype = DType::none;  // none: an optional operand that is absent
  Dims dims;

  size_t rank() const { return dims.size(); }
  bool present() const { return dtype != DType::none; }
  friend bool operator==(const Type&, const Type&) = default;
};
inline std::string to_text(const Type& type) { return cat(type.dtype, type.dims); }

}  // namespace sixfold
