// Attributes of an op: ordered, named, small values. Both sides of the .pte seam read them: compiler and
// kernels.
//
// Integers are Dims, so that a symbolic size may stand wherever a number may; kernels see only numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sixfold/base/dim.h"
#include "sixfold/base/dtype.h"

namespace sixfold {

// A tensor argument of an imported call: inputs[first, first + count) of its node.
struct Operands {
  uint32_t first = 0;
  uint32_t count = 1;
  bool list = false;
  friend bool operator==(const Operands&, const Operands&) = default;
};

using Attr =
    std::variant<std::monostate, bool, Dim, double, std::string, DType, Dims, std::vector<double>, Operands>;
std::string to_text(const Attr& attr);

class Attrs {
 public:
  using Entry = std::pair<std::string, Attr>;
  Attrs() = default;
  Attrs(std::initializer_list<Entry> entries) : entries_(entries) {}

  void set(std::string_view name, Attr value);
  void erase(std::string_view name);
  const Attr* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool is_given(std::string_view name) const;  // and is not none

  // Typed access to an attribute that the op's definition promises. Absent or of another type is our bug, not
  // the model's: asserted, and in release a default value.
  bool flag(std::string_view name) const;
  int64_t integer(std::string_view name) const;  // static
  Shape ints(std::string_view name) const;       // static
  Dims dims(std::string_view name) const;
  double real(std::string_view name) const;  // from an integer too
  std::vector<double> reals(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  DType dtype(std::string_view name) const;

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  std::vector<Entry> entries_;
};

}  // namespace sixfold
