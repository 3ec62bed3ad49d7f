// Fixed-point products whose second operand is packed when the op runs.
//
// The matrix unit multiplies by signed bytes. A column of the second operand that reaches beyond them is
// scaled (cpu::ByteScale), and its factor grows. 16-bit numbers are two bytes, w = 256 high + low with a
// signed low byte, so what is above 32639 is cut; sums are then cut to 65536 rather than 256.
#include <cstring>

#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/quant_matrix.h"
#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/product.h"
#include "sixfold/ops/matmul/emulate.h"

namespace sixfold::emulator {
namespace {

constexpr int64_t kBlock = cpu::kQuantBlock;

struct Late {
  MatrixShape shape;
  DataType x_type, w_type;
  cpu::Stored w_stored = cpu::Stored::u8;
  bool wide_weights = false;
  int64_t offset_w = 0;
  float factor = 1;
  std::vector<float> shares;  // of the factor, by column; empty: all of it
  cpu::QuantInput input;
  cpu::QuantOutput output;
  const int32_t* bias = nullptr;  // [columns]; null: none
  size_t element = 1;
  // Offsets of scratch, in bytes.
  size_t low_weights = 0, planes = 0, sums = 0, window_scratch = 0;

  cpu::QuantWindow window() const {
    cpu::QuantWindow w;
    w.in_width = w.out_width = shape.rows;
    w.in_channels = shape.inner;
    w.out_channels = shape.columns;
    return w;
  }

  void absorb(Clamp clamp) { cut(output, clamp); }

  // One block of columns into the packed high (or only) and low bytes.
  void pack_block(const std::byte* w, int64_t block, const cpu::QuantLayout& l, std::byte* high,
                  std::byte* low) const {
    const int64_t first = block * kBlock, count = std::min(kBlock, shape.columns - first);
    auto& channels = reinterpret_cast<cpu::QuantChannels*>(high + l.weight_bytes)[block];
    channels = {};
    cpu::QuantChannels unused = {};
    auto& low_channels =
        wide_weights ? reinterpret_cast<cpu::QuantChannels*>(low + l.weight_bytes)[block] : unused;
    low_channels = {};
    const cpu::QuantMatrix matrix{w,           w_stored,      static_cast<int32_t>(offset_w),
                                  shape.inner, shape.columns, shape.transposed_w};
    const cpu::PackedColumns columns =
        pack_matrix_block(matrix, block, reinterpret_cast<int8_t*>(high) + block * l.block_bytes,
                          reinterpret_cast<int8_t*>(low) + block * l.block_bytes, channels, low_channels);
    for (int64_t c = 0; c < count; ++c)
      finish_channel(channels, c, first + c, columns.sum[c], columns.scale[c].factor());
  }

  void finish_channel(cpu::QuantChannels& channels, int64_t c, int64_t column, int64_t sum,
                      float grow) const {
    const auto b =
        static_cast<int64_t>(bias ? static_cast<double>(bias[column]) / static_cast<double>(grow) : 0);
    const float share = shares.empty() ? 1 : shares[static_cast<size_t>(column)];
    const auto all = static_cast<double>(factor * share * grow);
    if (!wide_weights) {
      channels.bias[c] = cpu::fold_bias(output.rounding, b, input.zero_point, sum);
      cpu::set_factor(channels, c, output.rounding, all);
      return;
    }
    channels.bias[c] = static_cast<int32_t>(fold_pair_bias(input.wide, b, input.zero_point * sum));
    cpu::set_factor(channels, c, cpu::Rounding::matrix16, all * (input.wide ? 256 : 1));
  }

  void pack(const std::byte* w, std::byte* high, std::byte* low, cpu::Pool& pool) const {
    const cpu::QuantLayout l = quant_layout(window());
    // Tasks of some 4,096 numbers.
    const int64_t grain = std::max<int64_t>(1, 4096 / (kBlock * shape.inner));
    pool.for_ranges(l.blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) pack_block(w, block, l, high, low);
    });
  }

  // x as [rows][inner] where it lies transposed.
  const std::byte* straight(const std::byte* x, std::byte* to) const {
    if (!shape.transposed_x) return x;
    with_type(x_type, [&](auto t) {
      using T = decltype(t);
      for (int64_t r = 0; r < shape.rows; ++r)
        for (int64_t k = 0; k < shape.inner; ++k)
          reinterpret_cast<T*>(to)[r * shape.inner + k] = reinterpret_cast<const T*>(x)[k * shape.rows + r];
    });
    return to;
  }

  void run_wide(const std::byte* x, std::byte* y, const std::byte* high, const std::byte* low,
                const Run& run) const {
    // Bytes of x apart, low ones first.
    const int64_t n = shape.rows * shape.inner, results = shape.rows * shape.columns;
    auto* bytes = reinterpret_cast<uint8_t*>(run.scratch + planes) + (shape.transposed_x ? n * 2 : 0);
    run.pool.for_ranges(n, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      if (input.wide)
        return cpu::split_bytes(reinterpret_cast<const uint16_t*>(x) + begin, end - begin, input.flip,
                                bytes + begin, bytes + n + begin);
      const uint8_t flip = input.flip ? 0x80 : 0;
      for (int64_t i = begin; i < end; ++i) bytes[i] = reinterpret_cast<const uint8_t*>(x)[i] ^ flip;
    });
    auto* s = reinterpret_cast<int32_t*>(run.scratch + sums);
    cpu::QuantOutput none;
    none.rounding = cpu::Rounding::none;
    const auto product = [&](int64_t plane, const std::byte* weights, int64_t to) {
      cpu::QuantInput in;
      in.data = reinterpret_cast<const std::byte*>(bytes + plane * n);
      const int64_t step = shape.columns * 4;
      const cpu::QuantResult result{reinterpret_cast<std::byte*>(s + to * results), step, 0, 0};
      // Their biases are those of the whole: taken out again below.
      run_quant(window(), weights, in, none, result, run.scratch + window_scratch, run.pool);
    };
    product(0, high, 0), product(0, low, 1);
    if (input.wide) product(1, high, 2), product(1, low, 3);
    const cpu::QuantLayout l = quant_layout(window());
    const auto* channels = reinterpret_cast<const cpu::QuantChannels*>(high + l.weight_bytes);
    run.pool.for_ranges(shape.rows, std::max<int64_t>(1, 8192 / shape.columns),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r) {
                            const int32_t* row = s + r * shape.columns;
                            finish_pairs(row, row + results, input.wide ? row + 2 * results : nullptr,
                                         row + 3 * results, shape.columns, channels, output,
                                         y + r * shape.columns * static_cast<int64_t>(element));
                          }
                        });
  }

  void run(const Run& run) const {
    std::byte *high = run.scratch, *low = run.scratch + low_weights;
    const auto x_bytes = static_cast<int64_t>(qnn::size_of(x_type)) * shape.rows * shape.inner;
    const auto w_bytes = static_cast<int64_t>(qnn::size_of(w_type)) * shape.inner * shape.columns;
    const int64_t row = shape.columns * static_cast<int64_t>(element);
    int64_t packed = -1;
    for (size_t b = 0; b < shape.batches.size(); ++b) {
      const MatrixShape::Batch& batch = shape.batches[b];
      if (packed != batch.w) pack(run.ins[1] + batch.w * w_bytes, high, low, run.pool);
      packed = batch.w;
      const std::byte* x = straight(run.ins[0] + batch.x * x_bytes, run.scratch + planes);
      std::byte* y = run.outs[0] + static_cast<int64_t>(b) * row * shape.rows;
      if (wide_weights) {
        run_wide(x, y, high, low, run);
        continue;
      }
      cpu::QuantInput in = input;
      in.data = x;
      run_quant(window(), high, in, output, {y, row, 0, 0}, run.scratch + window_scratch, run.pool);
    }
  }
};

}  // namespace

Result<Step> prepare_packed_late(const OpView& op, const MatrixShape& s, Prepare& prepare) {
  const TensorDef &x = op.in(0), &w = op.in(1), &b = op.in(2), &y = op.out();
  if (!qnn::is_fixed(w.dtype) || qnn::size_of(w.dtype) > 2)
    return unsupported("in[0] is ", qnn::to_text(x.dtype), ", in[1] ", qnn::to_text(w.dtype));
  // One matrix of 16 bits may have a scale for each column.
  const auto* axis = std::get_if<qnn::AxisScaleOffset>(&w.quantization);
  const bool by_column = axis && qnn::size_of(w.dtype) == 2 && w.rank() == 2 &&
                         axis->axis == (s.transposed_w ? 0 : 1) &&
                         static_cast<int64_t>(axis->channels.size()) == s.columns;
  if ((w.is_per_channel() && !by_column) || w.bits() < 8)
    return unsupported("the emulator has no ", op.type, " with several matrices of encodings by channel");
  Late state;
  state.shape = s;
  state.x_type = x.dtype, state.w_type = w.dtype;
  state.w_stored = stored_as(w.dtype);
  state.wide_weights = qnn::size_of(w.dtype) == 2;
  // Sums of three products of bytes are added in 32 bits.
  constexpr int64_t kMostInner = 16384;
  if (state.wide_weights && s.inner > kMostInner)
    return unsupported("the emulator has no products of 16-bit rows of ", s.inner, ", at most ", kMostInner);
  const ScaleOffset first = by_column ? w.channel_encoding(0) : w.encoding();
  state.offset_w = first.offset;
  state.factor = x.encoding().scale * first.scale / y.encoding().scale;
  for (int64_t c = 0; by_column && c < s.columns; ++c) {
    const ScaleOffset e = w.channel_encoding(static_cast<size_t>(c));
    state.shares.push_back(e.scale / first.scale);
    cpu::QuantChannels one;
    if (e.offset != first.offset ||
        !cpu::set_factor(one, 0, cpu::Rounding::matrix16,
                         static_cast<double>(state.factor * state.shares.back()) * 256))
      return unsupported("in[1], channel ", c, ", has scale ", e.scale, " and offset ", e.offset);
  }
  cpu::QuantChannels one;
  if (!cpu::set_factor(one, 0, cpu::Rounding::matrix16, static_cast<double>(state.factor) * 256))
    return unsupported("in[0]'s scale times in[1]'s is ", state.factor, " of out[0]'s");
  state.input = quant_input(x);
  state.output = quant_output(y, state.wide_weights ? cpu::Rounding::matrix16 : matrix_rounding(x));
  state.output.lefts = true;
  state.element = qnn::size_of(y.dtype);
  if (b.is_present()) {
    SF_ASSIGN(state.bias,
              prepare.pack_values<int32_t>(static_cast<size_t>(s.columns), [&](std::span<int32_t> out) {
                const std::vector<int64_t> biases = biases_of(b, x, w, s.columns, state.output.rounding);
                for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int32_t>(biases[i]);
              }));
  }
  if (w.is_constant()) prepare.use_constant(1);
  if (x.is_constant()) prepare.use_constant(0);
  const auto up = [](int64_t n) { return static_cast<size_t>((n + 63) / 64 * 64); };
  const auto packed = up(quant_layout(state.window()).bytes);
  const int64_t numbers = s.rows * s.inner;
  state.low_weights = packed;
  state.planes = packed * (state.wide_weights ? 2 : 1);
  state.sums = state.planes + up((s.transposed_x ? numbers * 2 : 0) + (state.wide_weights ? numbers * 2 : 0));
  state.window_scratch = state.sums + (state.wide_weights ? up(s.rows * s.columns * 16) : 0);
  const int64_t beside =
      std::max(quant_scratch(state.window(), state.input), quant_scratch(state.window(), {}));
  prepare.need_scratch(state.window_scratch + up(beside));
  return prepare.step(std::move(state), s.macs());
}

}  // namespace sixfold::emulator
