// Products of floats: exact sums, rounded to 32 bits before the bias, results rounded to halves.
#include "sixfold/cpu/sgemm.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/emulator/product.h"
#include "sixfold/ops/matmul/emulate.h"

namespace sixfold::emulator {
namespace {

constexpr int64_t kRows = 32;

// [rows][columns] of floats from elements that may lie transposed.
template <typename T>
void copy_matrix(const T* from, bool transposed, int64_t rows, int64_t columns, float* to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      to[r * columns + c] = from[transposed ? c * rows + r : r * columns + c];
}

struct FloatMatrices {
  MatrixShape shape;
  bool half = false;
  const float* weights = nullptr;  // packed: [matrix][inner][columns]; null: in(1)
  const float* bias = nullptr;
  bool keeps_sums = false;  // for an op that rounds them

  template <typename T>
  void run_as(const Run& run) const {
    const MatrixShape& s = shape;
    auto* scratch = reinterpret_cast<float*>(run.scratch);
    int64_t packed = -1;
    for (size_t b = 0; b < s.batches.size(); ++b) {
      const MatrixShape::Batch& batch = s.batches[b];
      const float* w = weights ? weights + batch.w * s.inner * s.columns : scratch;
      if (!weights && packed != batch.w)
        copy_matrix(run.in<T>(1) + batch.w * s.inner * s.columns, s.transposed_w, s.inner, s.columns,
                    scratch);
      packed = batch.w;
      const T* x = run.in<T>(0) + batch.x * s.rows * s.inner;
      T* y = run.out<T>() + static_cast<int64_t>(b) * s.rows * s.columns;
      run.pool.for_ranges(s.rows, kRows, [&](int64_t begin, int64_t end) {
        const int64_t n = end - begin;
        std::vector<float> in(static_cast<size_t>(n * s.inner)), sums(static_cast<size_t>(n * s.columns));
        for (int64_t r = 0; r < n; ++r)
          for (int64_t k = 0; k < s.inner; ++k)
            in[static_cast<size_t>(r * s.inner + k)] =
                s.transposed_x ? x[k * s.rows + begin + r] : x[(begin + r) * s.inner + k];
        cpu::sgemm_simd(
            {n, s.columns, s.inner, false, in.data(), s.inner, w, s.columns, sums.data(), s.columns});
        for (int64_t r = 0; r < n; ++r) {
          const float* sum = sums.data() + r * s.columns;
          T* to = y + (begin + r) * s.columns;
          if constexpr (std::is_same_v<T, float>) {
            if (keeps_sums)
              for (int64_t c = 0; c < s.columns; ++c) to[c] = sum[c] + (bias ? bias[c] : 0.0f);
            else
              cpu::add_to_halves(sum, bias, s.columns, to);
          } else {
            for (int64_t c = 0; c < s.columns; ++c) to[c] = to_ieee_half(sum[c] + (bias ? bias[c] : 0.0f));
          }
        }
      });
    }
  }
  void run(const Run& run) const { half ? run_as<DeviceHalf>(run) : run_as<float>(run); }
};

}  // namespace

Result<Step> prepare_float_matrices(const OpView& op, const MatrixShape& s, Prepare& prepare) {
  const TensorDef &x = op.in(0), &w = op.in(1), &b = op.in(2);
  FloatMatrices state{.shape = s, .half = x.dtype == DataType::f16, .keeps_sums = op.out().keeps_sums};
  if (w.is_constant()) {
    const int64_t size = s.inner * s.columns;
    const FixedWeights fixed(w, s.inner);
    const auto fill = [&](std::span<float> out) {
      for (size_t at = 0; at < out.size(); ++at) {
        const auto i = static_cast<int64_t>(at);
        const int64_t k = i % size / s.columns, column = i % s.columns;
        const int64_t from =
            i / size * size + (s.transposed_w ? column * s.inner + k : k * s.columns + column);
        if (w.dtype == DataType::f32)
          out[at] = to_half(w.values<float>()[static_cast<size_t>(from)]);
        else if (w.dtype == DataType::f16)
          out[at] = w.values<DeviceHalf>()[static_cast<size_t>(from)];
        else
          out[at] = fixed.real_at(from, column, k);
      }
    };
    SF_ASSIGN(state.weights, prepare.pack_values<float>(static_cast<size_t>(w.count()), fill));
  } else {
    if (w.dtype != x.dtype)
      return unsupported("in[0] is ", qnn::to_text(x.dtype), ", in[1] ", qnn::to_text(w.dtype));
    prepare.need_scratch(static_cast<size_t>(s.inner * s.columns) * sizeof(float));
  }
  if (x.is_constant()) prepare.use_constant(0);
  if (b.is_present()) {
    if (!b.is_float()) return unsupported("in[2] is ", qnn::to_text(b.dtype), ", in[0] a float");
    const auto fill = [&](std::span<float> out) {
      for (size_t i = 0; i < out.size(); ++i) out[i] = float_bias_of(b, i);
    };
    SF_ASSIGN(state.bias, prepare.pack_values<float>(static_cast<size_t>(b.count()), fill));
  }
  return prepare.step(std::move(state), s.macs());
}

}  // namespace sixfold::emulator
