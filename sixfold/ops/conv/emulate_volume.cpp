// Convolutions of volumes by plain loops: of 16 bits, and by computed weights.
//
// Fixed point: exact sums, bias in steps of input times weight, scaled once, halves up. Floats: summed in
// double, rounded to 32 bits and then to half.
#include "sixfold/ops/conv/emulate_volume.h"

#include <cmath>
#include <tuple>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/product.h"

namespace sixfold::emulator {
namespace {

Result<Volume> read_volume(const OpView& op) {
  const TensorDef &x = op.in(0), &f = op.in(1), &y = op.out();
  for (const TensorDef* t : {&x, &f, &y})
    if (t->rank() != 5 || t->count() == 0)
      return unsupported("a tensor has dims ", t->dims, ", expected five");
  Volume v{};
  v.transposed = op.type == "TransposeConv3d";
  v.batch = x.dims[0], v.in_channels = x.dims[4], v.out_channels = y.dims[4], v.groups = op.u32("group", 1);
  if (y.dims[0] != x.dims[0])
    return unsupported("in[0] has a batch of ", x.dims[0], ", out[0] of ", y.dims[0]);
  if (v.groups < 1 || v.in_channels % v.groups != 0 || v.out_channels % v.groups != 0)
    return unsupported("group is ", v.groups, " for ", v.in_channels, " channels in and ", v.out_channels,
                       " out");
  const int64_t in = v.transposed ? v.in_channels : v.inputs(),
                out = v.transposed ? v.outputs() : v.out_channels;
  if (f.dims[3] != in || f.dims[4] != out)
    return unsupported("in[1] has ", f.dims[3], " channels in and ", f.dims[4], " out, not ", in, " and ",
                       out);
  if (const TensorDef& b = op.in(2); b.is_present() && b.count() != v.out_channels)
    return unsupported("in[2] has ", b.count(), " elements for ", v.out_channels, " channels");
  const auto stride = op.words("stride"), pads = op.words("pad_amount"), dilation = op.words("dilation"),
             extra = op.words("output_padding");
  for (const auto& [words, count, name] : {std::tuple{stride, size_t{3}, "stride"},
                                           {pads, size_t{6}, "pad_amount"},
                                           {dilation, size_t{3}, "dilation"},
                                           {extra, size_t{3}, "output_padding"}}) {
    if (!words.empty() && words.size() != count)
      return unsupported(name, " has ", words.size(), " numbers, not ", count);
    for (const uint32_t w : words)
      if (w > 1 << 24) return unsupported(name, " is ", w);
  }
  const auto word = [](std::span<const uint32_t> w, size_t i, uint32_t otherwise) {
    return static_cast<int64_t>(w.empty() ? otherwise : w[i]);
  };
  for (size_t a = 0; a < 3; ++a) {
    v.in[a] = x.dims[a + 1], v.out[a] = y.dims[a + 1], v.taps[a] = f.dims[a];
    v.stride[a] = word(stride, a, 1), v.dilation[a] = word(dilation, a, 1), v.pad[a] = word(pads, 2 * a, 0);
    if (v.stride[a] < 1 || v.dilation[a] < 1) return unsupported("stride or dilation is 0");
    if (v.transposed && v.dilation[a] != 1)
      return unsupported("a transposed convolution has a dilation of ", v.dilation[a]);
    const int64_t around = v.pad[a] + word(pads, 2 * a + 1, 0);
    const int64_t want = v.transposed
                             ? (v.in[a] - 1) * v.stride[a] + v.taps[a] - around + word(extra, a, 0)
                             : (v.in[a] + around - v.dilation[a] * (v.taps[a] - 1) - 1) / v.stride[a] + 1;
    if (want != v.out[a])
      return unsupported("out[0] has ", v.out[a], " along axis ", a + 1, ", expected ", want);
  }
  return v;
}

struct VolumeConv {
  Volume v;
  Codec x, f, y;
  const double* factors;  // fixed point: steps of the output for one of the sum, by channel
  const double* bias;     // fixed point: steps of the sum; floats: reals. Null: none

  template <typename T, typename W>
  void pixel(const Run& run, int64_t o, std::span<double> acc) const {
    std::fill(acc.begin(), acc.end(), 0.0);
    const W* weights = run.in<W>(1);
    v.for_taps(o, [&](int64_t tap, int64_t at) {
      if (at < 0) return;
      const T* in = run.in<T>(0) + at;
      for (int64_t g = 0; g < v.groups; ++g)
        for (int64_t c = 0; c < v.inputs(); ++c) {
          const double a = number(x, in[g * v.inputs() + c]);
          for (int64_t out = 0; out < v.outputs(); ++out)
            acc[static_cast<size_t>(g * v.outputs() + out)] +=
                a * number(f, weights[v.weight_index(tap, g, c, out)]);
        }
    });
  }
  // Integers below 2^53: doubles hold their sums exactly.
  template <typename T>
  static double number(const Codec& codec, T q) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<double>(static_cast<int64_t>(q) + codec.offset);
    else
      return static_cast<double>(static_cast<float>(q));
  }
  template <typename T, typename W>
  void run_as(const Run& run) const {
    const int64_t pixels = v.batch * v.out[0] * v.out[1] * v.out[2];
    run.pool.for_ranges(pixels, 8, [&](int64_t begin, int64_t end) {
      std::vector<double> acc(static_cast<size_t>(v.out_channels));
      for (int64_t o = begin; o < end; ++o) {
        pixel<T, W>(run, o, acc);
        T* out = run.out<T>() + o * v.out_channels;
        for (size_t c = 0; c < acc.size(); ++c) {
          if constexpr (std::is_integral_v<T>) {
            const double sum = acc[c] + (bias ? bias[c] : 0);
            const double q = std::floor(sum * factors[c] + 0.5) - static_cast<double>(y.offset);
            out[c] = static_cast<T>(
                std::clamp(q, static_cast<double>(y.limits.min), static_cast<double>(y.limits.max)));
          } else {
            const float whole = static_cast<float>(acc[c]) + (bias ? static_cast<float>(bias[c]) : 0.0f);
            out[c] = y.encode_ieee<T>(static_cast<double>(whole));
          }
        }
      }
    });
  }
  void run(const Run& run) const {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>) {
        if constexpr (sizeof(T) <= 2)
          with_type(f.dtype, [&](auto u) {
            using W = decltype(u);
            if constexpr (std::is_integral_v<W> && sizeof(W) <= 2) run_as<T, W>(run);
          });
      } else {
        run_as<T, T>(run);
      }
    });
  }
};

}  // namespace

Status check_volume_conv(const OpView& op, const DeviceModel&) {
  SF_TRY(read_volume(op));
  const TensorDef &x = op.in(0), &f = op.in(1), &y = op.out();
  const auto narrow = [](DataType t) { return qnn::is_fixed(t) && qnn::size_of(t) <= 2; };
  if (x.dtype != y.dtype || (x.dtype != f.dtype && !(narrow(x.dtype) && narrow(f.dtype))))
    return unsupported("in[0] is ", qnn::to_text(x.dtype), ", in[1] ", qnn::to_text(f.dtype), ", out[0] ",
                       qnn::to_text(y.dtype));
  if (op.in(2).is_present() && !op.in(2).is_constant()) return unsupported("in[2] is not constant");
  return {};
}

Result<Step> prepare_volume_conv(const OpView& op, Prepare& prepare) {
  SF_ASSIGN(const Volume v, read_volume(op));
  const TensorDef &x = op.in(0), &f = op.in(1), &b = op.in(2);
  if (f.is_constant() && qnn::is_fixed(x.dtype) && qnn::size_of(x.dtype) == 1)
    return prepare_volume_products(op, v, prepare);
  if (f.is_constant() && x.dtype == DataType::f32) return prepare_volume_floats(op, v, prepare);
  prepare.use_constant(0);
  prepare.use_constant(1);
  VolumeConv step{.v = v,
                  .x = Codec::of(x),
                  .f = Codec::of(f),
                  .y = Codec::of(op.out()),
                  .factors = nullptr,
                  .bias = nullptr};
  const auto channels = static_cast<size_t>(v.out_channels);
  const bool fixed = qnn::is_fixed(x.dtype);
  if (f.is_per_channel()) step.f.offset = 0;  // such weights are symmetric
  if (fixed) {
    SF_ASSIGN(step.factors, prepare.pack_values<double>(channels, [&](std::span<double> out) {
      for (size_t c = 0; c < out.size(); ++c)
        out[c] = step.x.scale * static_cast<double>(f.channel_encoding(c).scale) / step.y.scale;
    }));
  }
  if (b.is_present()) {
    SF_ASSIGN(step.bias, prepare.pack_values<double>(channels, [&](std::span<double> out) {
      for (size_t c = 0; c < out.size(); ++c)
        out[c] = fixed ? b.values<int32_t>()[c] : static_cast<double>(float_bias_of(b, c));
    }));
  }
  uint64_t macs = static_cast<uint64_t>(op.out().count()) *
                  static_cast<uint64_t>(v.inputs() * v.taps[0] * v.taps[1] * v.taps[2]);
  return prepare.step(step, macs);
}

}  // namespace sixfold::emulator
