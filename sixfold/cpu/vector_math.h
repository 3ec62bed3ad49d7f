// Elementwise float functions over spans: SIMD, a few ulp from libm. All take in == out; none allocates.
//
// A value's result does not depend on its place in the span, so splitting work differently gives the same
// bits.
#pragma once

#include <cstddef>

#include "sixfold/base/attr.h"
#include "sixfold/base/result.h"
#include "sixfold/cpu/scalar_math.h"
#include "sixfold/ops/op.h"

namespace sixfold::cpu {

// A unary op of ops/aten.def (result f32) with its attributes, ready to run.
class UnaryF32 {
 public:
  using Function = void (*)(const float* in, float* out, size_t n, const UnaryParams& params);

  UnaryF32() = default;  // no op at all: false, and calls do nothing
  UnaryF32(Function function, UnaryParams params) : function_(function), params_(params) {}

  explicit operator bool() const { return function_ != nullptr; }
  void operator()(const float* in, float* out, size_t n) const {
    if (function_) function_(in, out, n, params_);
  }

 private:
  Function function_ = nullptr;
  UnaryParams params_;
};

// Unsupported for ops that are not f32 -> f32.
Result<UnaryF32> unary_f32(Op op, const Attrs& attrs);
// The `activation` attribute of convolution and linear: "none" or a unary op's name, its attributes
// alongside.
Result<UnaryF32> activation_f32(const Attrs& attrs);

void exp_f32(const float* in, float* out, size_t n);
void log_f32(const float* in, float* out, size_t n);
void tanh_f32(const float* in, float* out, size_t n);
void sigmoid_f32(const float* in, float* out, size_t n);
// out = exp(scale * in - shift); returns the sum, added in an order that depends on n alone.
float exp_sum_f32(const float* in, float scale, float shift, float* out, size_t n);

// out[i] = f(a[i * a_stride], b[i * b_stride]); strides 0 and 1 are the fast ones. out may be a (at stride 1)
// or b.
using BinaryF32 = void (*)(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* out,
                           size_t n);
// For the rows of ops/aten.def that take two f32 to an f32, and prelu (a where positive, else a * b). Null
// for others.
BinaryF32 binary_f32(Op op, const Attrs& attrs);

}  // namespace sixfold::cpu
