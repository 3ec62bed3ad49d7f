// What the convolution kernels share: the geometry, and who makes which kernel.
#pragma once

#include "sixfold/cpu/kernel.h"
#include "sixfold/cpu/vector_math.h"

namespace sixfold::cpu {

// Attribute of convolution and linear, for who runs a model to learn about its values, never for its results:
// "bf16" where factors may be rounded to bfloat16 (sums stay f32), on CPUs that multiply those faster.
inline constexpr const char* kFactors = "factors";
bool has_bf16_products();

struct ConvShape {
  int64_t batch = 1, in_channels = 0, out_channels = 0, groups = 1;
  Shape in, out;  // spatial extents, one to three
  Shape kernel, stride, padding, padding_end, dilation;
  bool transposed = false;

  int64_t in_points() const { return numel(in); }  // per image
  int64_t out_points() const { return numel(out); }
  int64_t multiplications() const {
    return batch *
           (transposed ? in_points() * in_channels * (out_channels / groups)
                       : out_points() * out_channels * (in_channels / groups)) *
           numel(kernel);
  }
  // Each output point reads one input point.
  bool reads_single_points() const;
  // And all input points are read: a matrix product over points.
  bool is_pointwise() const;
};

// What is done with one f32 convolution besides the sum itself.
struct ConvCall {
  ConvShape shape;
  bool row_major_in = false, row_major_out = false, row_major_residual = false;  // else channels-last
  bool bias = false, residual = false;
  bool norm = false;               // scale and shift
  bool bf16 = false;               // factors may be rounded to it (kFactors)
  const float* weights = nullptr;  // row-major, as ops/aten.def has them; null: they come with each run
  Allocator* allocator = &system_allocator();  // of packed weights
  SharedParts* shared = nullptr;
  UnaryF32 activation;  // over each task's results while they are in the cache
};

// f32 by oneDNN: channels-last inside, split over images, rows and output channels. Unsupported where oneDNN
// has no fast code. Operands of the kernel: x, weights, bias, residual, scale, shift.
KernelResult make_blocked_conv(const ConvCall& call);

// f32 by our own SIMD code, for builds without oneDNN. Unsupported for more than 128 taps.
KernelResult make_direct_conv(const ConvCall& call);

// Any dtype, from the definition.
KernelResult make_plain_conv(const KernelCall& call, const ConvShape& shape);

// Transposes of images: [batch][channels][points] <-> [batch][points][channels].
void to_channels_last(Pool& pool, const float* in, float* out, int64_t batch, int64_t channels,
                      int64_t points);
void to_row_major(Pool& pool, const float* in, float* out, int64_t batch, int64_t channels, int64_t points);

}  // namespace sixfold::cpu
