// Arithmetic on values of a Call, so that a decomposition reads as its formula: mean(abs(x - y), dims).
//
// Operands of one operator have equal dtypes and broadcast; a number takes the other side's dtype.
#pragma once

#include <limits>

#include "sixfold/ops/call.h"

namespace sixfold {

class Expr {
 public:
  Expr(Call& call, ValueId id) : call_(&call), id_(id) {}
  operator ValueId() const { return id_; }  // NOLINT(google-explicit-constructor)

  Call& call() const { return *call_; }
  DType dtype() const { return call_->dtype_of(id_); }
  int64_t rank() const { return call_->rank(id_); }
  const Dims& dims() const { return call_->dims_of(id_); }

  Expr number(double value) const { return {*call_, call_->scalar(value, dtype())}; }
  Expr apply(Op op, Attrs attrs = {}) const { return {*call_, call_->op(op, {id_}, std::move(attrs))}; }
  Expr apply(Op op, const Expr& other, Attrs attrs = {}) const {
    return {*call_, call_->op(op, {id_, other.id_}, std::move(attrs))};
  }
  Expr to(DType dtype) const { return {*call_, call_->to(id_, dtype)}; }
  Expr unsqueeze(int64_t axis) const {
    return call_->ok() ? Expr(*call_, call_->unsqueeze(id_, axis)) : *this;
  }
  Expr reshape(const Dims& shape) const { return {*call_, call_->reshape(id_, shape)}; }

  friend Expr operator+(const Expr& a, const Expr& b) { return a.apply(Op::add, b); }
  friend Expr operator-(const Expr& a, const Expr& b) { return a.apply(Op::sub, b); }
  friend Expr operator*(const Expr& a, const Expr& b) { return a.apply(Op::mul, b); }
  friend Expr operator/(const Expr& a, const Expr& b) { return a.apply(Op::div, b, {{"rounding", "none"}}); }
  friend Expr operator+(const Expr& a, double b) { return b == 0 ? a : a + a.number(b); }
  friend Expr operator-(const Expr& a, double b) { return b == 0 ? a : a - a.number(b); }
  friend Expr operator*(const Expr& a, double b) { return b == 1 ? a : a * a.number(b); }
  friend Expr operator/(const Expr& a, double b) { return b == 1 ? a : a / a.number(b); }
  friend Expr operator+(double a, const Expr& b) { return b + a; }
  friend Expr operator-(double a, const Expr& b) { return b.number(a) - b; }
  friend Expr operator*(double a, const Expr& b) { return b * a; }
  Expr operator-() const { return apply(Op::neg); }

  // -> bool
  Expr equals(double value) const { return apply(Op::eq, number(value)); }
  Expr less(const Expr& b) const { return apply(Op::lt, b); }
  Expr less_equal(double value) const { return apply(Op::le, number(value)); }

 private:
  Call* call_;
  ValueId id_;
};

inline Expr abs(const Expr& x) { return x.apply(Op::abs); }
inline Expr exp(const Expr& x) { return x.apply(Op::exp); }
inline Expr log(const Expr& x) { return x.apply(Op::log); }
inline Expr log1p(const Expr& x) { return x.apply(Op::log1p); }
inline Expr sqrt(const Expr& x) { return x.apply(Op::sqrt); }
inline Expr rsqrt(const Expr& x) { return x.apply(Op::rsqrt); }
inline Expr isnan(const Expr& x) { return x.apply(Op::isnan); }
inline Expr logical_not(const Expr& x) { return x.apply(Op::logical_not); }
inline Expr pow(const Expr& x, double p) { return x.apply(Op::pow, x.number(p)); }
inline Expr minimum(const Expr& a, const Expr& b) { return a.apply(Op::minimum, b); }
inline Expr maximum(const Expr& a, const Expr& b) { return a.apply(Op::maximum, b); }
inline Expr at_least(const Expr& x, double min) {
  return x.apply(Op::clamp, {{"min", min}, {"max", Attr()}});
}
inline Expr where(const Expr& condition, const Expr& a, const Expr& b) {
  return {a.call(), a.call().op(Op::where, {condition, a, b})};
}
inline Expr where(const Expr& condition, const Expr& a, double b) { return where(condition, a, a.number(b)); }
inline Expr where(const Expr& condition, double a, const Expr& b) { return where(condition, b.number(a), b); }
inline Expr reduce(Op op, const Expr& x, const Shape& dims, bool keepdim = false) {
  return x.apply(op, {{"dims", to_dims(dims)}, {"keepdim", keepdim}});
}
inline Expr sum(const Expr& x, const Shape& dims, bool keepdim = false) {
  return reduce(Op::sum, x, dims, keepdim);
}
inline Expr mean(const Expr& x, const Shape& dims, bool keepdim = false) {
  return reduce(Op::mean, x, dims, keepdim);
}
inline Expr var(const Expr& x, const Shape& dims, double correction, bool keepdim = false) {
  return x.apply(Op::var, {{"dims", to_dims(dims)}, {"keepdim", keepdim}, {"correction", correction}});
}

// All axes of x.
inline Shape every_axis(const Expr& x) {
  Shape out;
  for (int64_t i = 0; i < x.rank(); ++i) out.push_back(i);
  return out;
}

// The dtype that torch computes in inside one fused op: halves in float.
inline DType compute_type(DType d) { return is_half(d) ? DType::f32 : d; }

}  // namespace sixfold
