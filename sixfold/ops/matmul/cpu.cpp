// matmul and linear.
#include <algorithm>
#include <type_traits>

#include "sixfold/cpu/sgemm.h"
#include "sixfold/ops/conv/conv.h"
#include "sixfold/ops/matmul/linear.h"

namespace sixfold::cpu {
namespace {

// y[rows, columns] = a[rows, inner] b, for each batch; b is [inner, columns], or [columns, inner] when
// transposed.
struct Product {
  int64_t rows = 0, columns = 0, inner = 0;
  bool transposed = false;
  std::vector<std::pair<int64_t, int64_t>> batches;  // element offsets of a and b; y is dense
  bool bias = false;
};

// Offsets of every batch of the result in operands that may have batch extents of 1.
std::vector<std::pair<int64_t, int64_t>> batch_offsets(const TensorDesc& a, const TensorDesc& b,
                                                       const Shape& out) {
  const size_t axes = out.size() - 2;
  std::vector<std::pair<int64_t, int64_t>> offsets{{0, 0}};
  const auto step = [&](const TensorDesc& t, size_t axis) {
    const size_t missing = out.size() - t.rank();
    return axis < missing || t.shape[axis - missing] == 1 ? 0 : contiguous_strides(t.shape)[axis - missing];
  };
  for (size_t axis = 0; axis < axes; ++axis) {
    const int64_t sa = step(a, axis), sb = step(b, axis);
    std::vector<std::pair<int64_t, int64_t>> next;
    next.reserve(offsets.size() * static_cast<size_t>(out[axis]));
    for (const auto& [oa, ob] : offsets)
      for (int64_t i = 0; i < out[axis]; ++i) next.emplace_back(oa + i * sa, ob + i * sb);
    offsets = std::move(next);
  }
  return offsets;
}

// How many blocks of an extent, none smaller than `least`, for `wanted` tasks.
int64_t blocks_of(int64_t extent, int64_t least, int64_t wanted) {
  int64_t blocks = 1;
  while (blocks * 2 <= wanted && extent / (blocks * 2) >= least) blocks *= 2;
  return blocks;
}

KernelResult make_f32(Product product, UnaryF32 activation) {
  constexpr int64_t kTaskWork = 1 << 20, kMostTasks = 16;
  const auto many = static_cast<int64_t>(product.batches.size());
  const int64_t work = product.rows * product.columns * product.inner;
  int64_t wanted = std::min(std::max<int64_t>(kMostTasks / std::max<int64_t>(many, 1), 1), work / kTaskWork);
  const int64_t row_blocks = blocks_of(product.rows, 48, wanted);
  const int64_t column_blocks = blocks_of(product.columns, 64, wanted / row_blocks);
  const int64_t cuts = row_blocks * column_blocks;
  // Small products of a batch share a task.
  const int64_t grain = std::max<int64_t>(1, kTaskWork / std::max<int64_t>(work / cuts, 1));
  return make_kernel(
      [p = std::move(product), activation, many, row_blocks, column_blocks, cuts, grain](const Buffers& b) {
        const float* a = b.input<float>(0);
        const float* w = b.input<float>(1);
        const float* bias = p.bias ? b.input<float>(2) : nullptr;
        float* y = b.output<float>();
        const auto one = [&](int64_t i) {
          const int64_t batch = i / cuts, r = i % cuts / column_blocks, c = i % cuts % column_blocks;
          const int64_t row = r * p.rows / row_blocks, rows = (r + 1) * p.rows / row_blocks - row;
          const int64_t column = c * p.columns / column_blocks,
                        columns = (c + 1) * p.columns / column_blocks - column;
          const auto& [offset_a, offset_b] = p.batches[static_cast<size_t>(batch)];
          const float* left = a + offset_a + row * p.inner;
          const float* right = w + offset_b + column * (p.transposed ? p.inner : 1);
          float* out = y + (batch * p.rows + row) * p.columns + column;
          if (p.inner == 0) {
            for (int64_t q = 0; q < rows; ++q) std::fill_n(out + q * p.columns, columns, 0.0f);
          } else {
            sgemm({.rows = rows,
                   .columns = columns,
                   .inner = p.inner,
                   .transposed = p.transposed,
                   .a = left,
                   .a_step = p.inner,
                   .b = right,
                   .b_step = p.transposed ? p.inner : p.columns,
                   .c = out,
                   .c_step = p.columns});
          }
          if (!bias && !activation) return;
          for (int64_t q = 0; q < rows; ++q) {
            float* line = out + q * p.columns;
            if (bias)
              for (int64_t k = 0; k < columns; ++k) line[k] += bias[column + k];
            activation(line, line, static_cast<size_t>(columns));
          }
        };
        b.pool.for_ranges(many * cuts, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) one(i);
        });
        return ok_status();
      });
}

// Integers wrap around: sums are unsigned.
template <typename T>
using Sum =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <typename T>
void plain_row(const Product& p, const T* a, const T* b, const T* bias, T* y) {
  if (p.transposed) {
    for (int64_t c = 0; c < p.columns; ++c) {
      Sum<T> sum = bias ? static_cast<Sum<T>>(bias[c]) : Sum<T>{};
      for (int64_t k = 0; k < p.inner; ++k)
        sum += static_cast<Sum<T>>(a[k]) * static_cast<Sum<T>>(b[c * p.inner + k]);
      y[c] = static_cast<T>(sum);
    }
    return;
  }
  std::fill_n(y, p.columns, T{});
  for (int64_t k = 0; k < p.inner; ++k) {
    const auto x = static_cast<Sum<T>>(a[k]);
    const T* line = b + k * p.columns;
    for (int64_t c = 0; c < p.columns; ++c)
      y[c] = static_cast<T>(static_cast<Sum<T>>(y[c]) + x * static_cast<Sum<T>>(line[c]));
  }
}

template <typename T>
KernelResult make_plain(Product product, Op activation, UnaryParams params) {
  return make_kernel([p = std::move(product), activation, params](const Buffers& b) {
    const T* bias = p.bias ? b.input<T>(2) : nullptr;
    b.pool.for_ranges(static_cast<int64_t>(p.batches.size()) * p.rows,
                      std::max<int64_t>(1, 16384 / std::max<int64_t>(1, p.columns * p.inner)),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) {
                          const auto& [a, w] = p.batches[static_cast<size_t>(i / p.rows)];
                          T* y = b.output<T>() + i * p.columns;
                          plain_row<T>(p, b.input<T>(0) + a + i % p.rows * p.inner, b.input<T>(1) + w, bias,
                                       y);
                          if constexpr (std::is_floating_point_v<T>) {
                            if (activation == Op::call) continue;
                            for (int64_t c = 0; c < p.columns; ++c)
                              y[c] = apply_unary(activation, y[c], params);
                          }
                        }
                      });
    return ok_status();
  });
}

KernelResult make_plain(DType dtype, Product product, Op activation, UnaryParams params) {
#define SF_TYPE(id, T)                                                                            \
  case DType::id:                                                                                 \
    if constexpr (keeps(DType::id)) return make_plain<T>(std::move(product), activation, params); \
    break;
  switch (dtype) {
    SF_TYPE(f64, double)
    SF_TYPE(i64, int64_t)
    SF_TYPE(i32, int32_t)
    SF_TYPE(i16, int16_t)
    SF_TYPE(i8, int8_t)
    SF_TYPE(u8, uint8_t)
    default:
      break;
  }
#undef SF_TYPE
  return unsupported("product of ", dtype);
}

}  // namespace

KernelResult matmul(const KernelCall& call) {
  const TensorDesc &a = call.in[0], &b = call.in[1], &y = call.out[0];
  if (y.count() == 0) return make_kernel([](const Buffers&) { return ok_status(); });
  Product p;
  p.rows = a.shape[a.rank() - 2];
  p.inner = a.shape.back();
  p.columns = b.shape.back();
  if (b.count() == p.inner * p.columns && a.count() == y.count() / p.columns * p.inner) {
    p.rows = y.count() / p.columns;  // one b for all: a's batch axes are more rows
    p.batches = {{0, 0}};
  } else {
    p.batches = batch_offsets(a, b, y.shape);
  }
  if (a.dtype != DType::f32) return make_plain(a.dtype, std::move(p), Op::call, {});
  if (p.columns == 1) p.transposed = true;  // a column is a row as well; sgemm is quicker so
  return make_f32(std::move(p), {});
}

KernelResult linear(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &w = call.in[1], &y = call.out[0];
  if (y.count() == 0) return make_kernel([](const Buffers&) { return ok_status(); });
  Product p;
  p.inner = w.shape[1];
  p.columns = w.shape[0];
  p.rows = y.count() / p.columns;
  p.transposed = true;
  p.bias = call.input(2).present();
  p.batches = {{0, 0}};

  Op activation = Op::call;
  UnaryParams params;
  if (const std::string& name = call.attrs.text("activation"); name != "none") {
    const auto op = find_op(name);
    if (!op || !keeps(*op) || !is_float(x.dtype)) return unsupported("activation ", name, " on ", x.dtype);
    activation = *op;
    params = unary_params(*op, call.attrs);
  }
  if (x.dtype != DType::f32) return make_plain(x.dtype, std::move(p), activation, params);
  SF_ASSIGN(const UnaryF32 function, activation_f32(call.attrs));
  if (p.rows <= kSkinnyRows) {
    return make_skinny_linear(
        {.rows = p.rows, .inner = p.inner, .columns = p.columns, .bias = p.bias, .activation = function});
  }
  if (!w.constant || p.inner == 0) return make_f32(std::move(p), function);

#ifdef SIXFOLD_ONEDNN
  // Packed weights: a convolution over points.
  ConvCall conv;
  conv.shape = {.batch = 1,
                .in_channels = p.inner,
                .out_channels = p.columns,
                .groups = 1,
                .in = {p.rows},
                .out = {p.rows},
                .kernel = {1},
                .stride = {1},
                .padding = {0},
                .padding_end = {0},
                .dilation = {1},
                .transposed = false};
  conv.bias = p.bias;
  conv.bf16 = call.attrs.has(kFactors);
  conv.weights = static_cast<const float*>(w.constant);
  conv.allocator = &call.allocator;
  conv.activation = function;
  auto packed = make_blocked_conv(conv);
  if (packed.ok() || packed.error().code() != Code::Unsupported) return packed;
#endif
  return make_f32(std::move(p), function);
}

}  // namespace sixfold::cpu
