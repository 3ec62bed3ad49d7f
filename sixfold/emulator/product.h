// Fixed-point sums of products for the emulator's convolutions and linear layers: weights as whole numbers,
// packed at finalize, run by cpu/quant_conv.h.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "sixfold/cpu/quant_conv.h"
#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {

// The constant weights of an op as whole numbers times a scale for each output channel. Numbers of fewer bits
// are sign-extended; the scales of blocks of 4-bit numbers are multiplied in.
class FixedWeights {
 public:
  // inputs: of one output channel, which blocks divide.
  FixedWeights(const TensorDef& tensor, int64_t inputs)
      : tensor_(tensor),
        inputs_(inputs),
        bits_(tensor.bits()),
        offset_(tensor.channel_encoding(0).offset),
        one_offset_(tensor.has_one_offset()) {}
  int64_t at(int64_t index, int64_t output, int64_t input) const;
  // Of the outputs from `first` on, whose numbers begin at `index` and lie `step` elements apart.
  void read(int64_t index, int64_t step, int64_t first, int64_t input, std::span<int64_t> to) const;
  double scale(int64_t output) const {
    return static_cast<double>(tensor_.channel_encoding(static_cast<size_t>(output)).scale);
  }
  // A number times its scale, for products with floats. Scales of several channels are halves, and so are
  // these products, ties away from zero; with one scale sums are scaled after, and nothing is rounded.
  float real_at(int64_t index, int64_t output, int64_t input) const;
  // Whether every number is in [-128, 127], by its type alone.
  bool are_bytes() const;
  // The numbers where they are signed bytes as they lie in memory; null where they are not.
  const int8_t* bytes() const;

 private:
  const TensorDef& tensor_;
  int64_t inputs_;
  uint32_t bits_;
  int32_t offset_;  // of the first channel
  bool one_offset_;
};

// The biases of all outputs in units of (input scale * weight scale), of which there may be one for each
// channel; zeros when there are none. As the device prepares 32-bit ones, in floats: where channels have
// scales of their own they are rounded to 2^-28 of the largest, and all are cut back to whole units.
std::vector<int64_t> biases_of(const TensorDef& bias, const TensorDef& x, const TensorDef& weights,
                               int64_t outputs, cpu::Rounding rounding);

// An output's bias of floats or halves, as the matrix unit adds it (to_bias).
float float_bias_of(const TensorDef& bias, size_t output);

// (input scale * weight scale / output scale) for each output, in floats as the matrix unit's are prepared:
// that of the largest weight scale, times a channel's share of it.
class Factors {
 public:
  Factors(const TensorDef& x, const TensorDef& weights, const TensorDef& y, int64_t outputs);
  float operator()(int64_t output) const;

 private:
  const TensorDef& weights_;
  float largest_, all_;
};

// The input's and the output's side of a product, from their encodings.
cpu::QuantInput quant_input(const TensorDef& x);
cpu::QuantOutput quant_output(const TensorDef& y, cpu::Rounding rounding);
// The vector unit adds the output's zero point to the sum before it scales; quant_output leaves it out then.
// Channels that the vector unit shifts alike.
inline constexpr int64_t kShiftedTogether = 32;

int64_t zero_point_in_sums(const TensorDef& y, double factor);
// The matrix unit's rounding for an input.
cpu::Rounding matrix_rounding(const TensorDef& x);

// What a bias, less the zero point's part, is beside sums by 16-bit weights, which are cut to 65536: each
// rounded to it, a bias halves away from zero. With 8-bit activations they are cut to 256, and so is the
// bias.
inline int64_t fold_pair_bias(bool wide, int64_t bias, int64_t part) {
  if (!wide) return bias / 256 - ((part + 128) >> 8);
  return (bias + (bias < 0 ? -32768 : 32768)) / 65536 - ((part + 32768) >> 16);
}

inline void cut(cpu::QuantOutput& out, Clamp clamp) {
  out.min = std::max(out.min, clamp.min);
  out.max = std::min(out.max, clamp.max);
}

// One window with its weights, ready to run.
struct FixedProduct {
  cpu::QuantWindow window;
  const std::byte* packed = nullptr;
  cpu::QuantInput input;
  cpu::QuantOutput output;
  cpu::QuantResult steps;   // without data
  int64_t offset = 0;       // bytes from the output's begin
  int64_t even_inputs = 0;  // inputs whose weights are equally far apart in their tensor; 0: all

  void run(const std::byte* x, std::byte* y, std::byte* scratch, cpu::Pool& pool) const;
  void absorb(Clamp clamp) { cut(output, clamp); }
};

// The tensors of an op; bias may be absent.
struct ProductSpec {
  const TensorDef &x, &weights, &bias, &y;
};
// Packs one or several windows (the phases of a transposed convolution) of the same op. index says where a
// window's weight is in the weights' tensor; -1: it is zero.
Status prepare_products(
    const ProductSpec& spec, std::span<FixedProduct> products, cpu::Rounding rounding,
    const std::function<int64_t(size_t phase, int64_t tap, int64_t input, int64_t output)>& index,
    Prepare& prepare);

}  // namespace sixfold::emulator
