// Batches of matrices times as many, one or both of signed bytes and none transposed: Qualcomm's library
// leaves its matrix unit here and multiplies reals. Both operands become floats, products are added one by
// one in the order of rows, beginning with the bias, each rounded; the sum times the reciprocal of the
// output's scale and the zero point are rounded to the nearest, ties to the even number.
#include <cmath>

#include "sixfold/cpu/broadcast.h"
#include "sixfold/emulator/elements.h"
#include "sixfold/ops/matmul/emulate.h"

namespace sixfold::emulator {
namespace {

// Numbers as the floats that they mean.
void decode(const Codec& code, const std::byte* data, int64_t begin, int64_t end, float* to) {
  with_type(code.dtype, [&](auto t) {
    using T = decltype(t);
    const T* from = reinterpret_cast<const T*>(data);
    const auto scale = static_cast<float>(code.scale);
    if constexpr (std::is_integral_v<T>)
      for (int64_t i = begin; i < end; ++i)
        to[i] = static_cast<float>(static_cast<int64_t>(from[i]) + code.offset) * scale;
  });
}

struct RealMatrices {
  MatrixShape shape;
  Codec x, w, y;
  const float* bias = nullptr;  // [columns]; null: none
  size_t sums = 0;              // where in scratch, in floats

  void encode(const float* from, int64_t n, std::byte* data, int64_t at) const {
    const float steps = 1.0f / static_cast<float>(y.scale), zero = static_cast<float>(-y.offset);
    with_type(y.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>) {
        T* to = reinterpret_cast<T*>(data) + at;
        for (int64_t i = 0; i < n; ++i)
          to[i] = y.saturated<T>(static_cast<double>(std::nearbyint(from[i] * steps + zero)));
      }
    });
  }
  void row(const float* from, const float* weights, float* sum) const {
    if (bias)
      std::copy_n(bias, shape.columns, sum);
    else
      std::fill_n(sum, shape.columns, 0.0f);
    for (int64_t k = 0; k < shape.inner; ++k, weights += shape.columns)
      for (int64_t c = 0; c < shape.columns; ++c) sum[c] += from[k] * weights[c];
  }
  void run(const Run& run) const {
    const MatrixShape& s = shape;
    const int64_t numbers = s.rows * s.inner, weights = s.inner * s.columns;
    auto* reals = reinterpret_cast<float*>(run.scratch);
    float *xs = reals, *ws = reals + numbers;
    for (size_t b = 0; b < s.batches.size(); ++b) {
      const auto [i, j] = s.batches[b];
      const std::byte* from = run.ins[0] + i * numbers * static_cast<int64_t>(qnn::size_of(x.dtype));
      run.pool.for_ranges(numbers, cpu::kElementwiseGrain,
                          [&](int64_t begin, int64_t end) { decode(x, from, begin, end, xs); });
      decode(w, run.ins[1] + j * weights * static_cast<int64_t>(qnn::size_of(w.dtype)), 0, weights, ws);
      run.pool.for_ranges(s.rows, std::max<int64_t>(1, 65536 / weights), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          float* sum = reals + sums + r * s.columns;
          row(xs + r * s.inner, ws, sum);
          encode(sum, s.columns, run.outs[0], (static_cast<int64_t>(b) * s.rows + r) * s.columns);
        }
      });
    }
  }
};

}  // namespace

bool takes_reals(const OpView& op, const MatrixShape& s) {
  const TensorDef &x = op.in(0), &w = op.in(1);
  const bool is_signed = x.dtype == DataType::sfixed8 || w.dtype == DataType::sfixed8;
  return is_signed && !w.is_constant() && !s.transposed_x && !s.transposed_w && x.rank() == w.rank() &&
         (w.rank() == 3 || w.rank() == 4) && w.dims[w.rank() - 3] > 1 &&
         std::equal(w.dims.begin(), w.dims.end() - 2, x.dims.begin());
}

Result<Step> prepare_real_matrices(const OpView& op, const MatrixShape& s, Prepare& prepare) {
  const TensorDef &x = op.in(0), &w = op.in(1), &b = op.in(2);
  RealMatrices state{.shape = s, .x = Codec::of(x), .w = Codec::of(w), .y = Codec::of(op.out())};
  if (b.is_present()) {
    const auto fill = [&](std::span<float> out) {
      const auto scale = static_cast<float>(Codec::of(b).scale);
      for (size_t c = 0; c < out.size(); ++c) out[c] = static_cast<float>(b.values<int32_t>()[c]) * scale;
    };
    if (b.dtype != DataType::sfixed32) return unsupported("in[2] is ", qnn::to_text(b.dtype));
    SF_ASSIGN(state.bias, prepare.pack_values<float>(static_cast<size_t>(s.columns), fill));
  }
  if (x.is_constant()) prepare.use_constant(0);
  state.sums = static_cast<size_t>(s.rows * s.inner + s.inner * s.columns);
  prepare.need_scratch((state.sums + static_cast<size_t>(s.rows * s.columns)) * sizeof(float));
  return prepare.step(std::move(state), s.macs());
}

}  // namespace sixfold::emulator
