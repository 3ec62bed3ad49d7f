// Dim: one extent, either a number or an expression over symbols ("4*s0 + 1"). Dims: a shape.
//
// An expression is kept as a polynomial: a sum of terms, each a coefficient times atoms; an atom is a symbol
// or floordiv/mod/max/min of two Dims. Equal polynomials print the same text, which is also what equality
// compares. Arithmetic on numbers saturates at kMaxDim instead of overflowing, so that sizes from a file
// cannot wrap around; verify() rejects anything near that bound.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold {

inline constexpr int64_t kMaxDim = int64_t{1} << 60;

using Bindings = std::map<std::string, int64_t, std::less<>>;

class Dim {
 public:
  Dim(int64_t value = 0) : value_(value) {}  // NOLINT(google-explicit-constructor)
  static Dim symbol(std::string name);

  bool is_static() const { return poly_ == nullptr; }
  int64_t value() const {
    assert(is_static());
    return value_;
  }
  // The number, or `otherwise` for an expression.
  int64_t value_or(int64_t otherwise) const { return is_static() ? value_ : otherwise; }

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);
  Dim& operator+=(const Dim& b) { return *this = *this + b; }
  Dim& operator*=(const Dim& b) { return *this = *this * b; }

  friend Dim floordiv(const Dim& a, const Dim& b);  // rounds to minus infinity; by zero gives 0
  friend Dim mod(const Dim& a, const Dim& b);       // sign of the divisor, as Python
  friend Dim max(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);

  // With every symbol that bindings has replaced by its number.
  Dim substitute(const Bindings& bindings) const;
  void collect_symbols(std::vector<std::string>& names) const;

  // Walks the expression: every part becomes a handle of the visitor's own.
  class Visitor {
   public:
    enum class Function : uint8_t { add, mul, floordiv, mod, max, min };
    virtual ~Visitor() = default;
    virtual int number(int64_t value) = 0;
    virtual int symbol(const std::string& name) = 0;
    virtual int apply(Function function, int a, int b) = 0;
  };
  int visit(Visitor& visitor) const;

 private:
  struct Atom;
  struct Poly;
  friend std::string to_text(const Dim& dim);
  friend struct DimAlgebra;
  int64_t value_ = 0;
#ifdef SIXFOLD_SELECTION
  // Symbols are the compiler's. A runtime alone meets numbers, and a Dim is no more than its number there.
  struct NoPoly {
    NoPoly& operator=(const std::shared_ptr<const Poly>&) { std::abort(); }
    const Poly* operator->() const { std::abort(); }
    explicit operator bool() const { return false; }
    friend bool operator==(NoPoly, NoPoly) { return true; }
    friend bool operator==(NoPoly, std::nullptr_t) { return true; }
  };
  [[no_unique_address]] NoPoly poly_;
#else
  std::shared_ptr<const Poly> poly_;
#endif
};

std::string to_text(const Dim& dim);
Result<Dim> parse_dim(std::string_view text);

// True when a and b are the same expression, or agree for every value we tried of their symbols: relations
// between symbols ("s1 is 2*s0") live in guards that we do not solve.
bool equivalent(const Dim& a, const Dim& b);

using Dims = std::vector<Dim>;
using Shape = std::vector<int64_t>;  // a static shape, or strides in elements

bool is_static(const Dims& dims);
Shape static_shape(const Dims& dims);  // asserts is_static
Dims to_dims(const Shape& shape);
Dim numel(const Dims& dims);
int64_t numel(const Shape& shape);
bool equivalent(const Dims& a, const Dims& b);

// Row-major strides in elements.
Shape contiguous_strides(const Shape& shape);

// dim of a tensor of this rank, negative from the end; rank 0 accepts 0 and -1 as torch does.
Result<int64_t> normalize_axis(int64_t axis, size_t rank);

}  // namespace sixfold
