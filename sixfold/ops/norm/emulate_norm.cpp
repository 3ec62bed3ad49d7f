// Normalizations on the emulator.
//
// They are defined over reals: rows are read as reals, normalized in double and rounded once to the output's
// type. Layer and RMS norms are the device's own (cpu::device_norm_row). Batchnorm, which is
// a product and a sum for each channel, is computed in integers: a 31-bit multiplier and an offset of the
// same shift for each channel, halves up.
#include <cmath>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

// What kernels see of gain and offset: reals; numbers; or numbers in steps of the result, with its zero
// point, as floats of which every operation is rounded, or whole, ties away from zero.
struct Meaning {
  enum class As : uint8_t { reals, numbers, floats, steps } as = As::reals;
  float per = 1, zero = 0;
  float scale = 1;  // of the numbers

  double operator()(double v) const {
    if (as == As::floats) return static_cast<double>(static_cast<float>(v) * scale / per + zero);
    if (as == As::steps)
      return std::round(v * static_cast<double>(scale) / static_cast<double>(per)) +
             static_cast<double>(zero);
    return v;
  }
};

// gain or offset: packed when constant, read at every run when not.
struct Parameter {
  const double* packed = nullptr;
  Meaning meaning;
  Codec codec;
  size_t input = 0;
  size_t count = 0;  // 0: left out

  std::span<const double> values(const Run& run, std::vector<double>& room) const {
    if (packed || count == 0) return {packed, count};
    room.resize(count);
    codec.read(run.ins[input], 0, 1, room);
    for (double& v : room) v = meaning(v);
    return room;
  }
};

Result<Parameter> parameter(const OpView& op, size_t i, Prepare& prepare, const Meaning& meaning = {}) {
  const TensorDef& t = op.in(i);
  Parameter p{.meaning = meaning};
  if (!t.is_present()) return p;
  p.codec = Codec::of(t);
  p.input = i;
  p.count = static_cast<size_t>(t.count());
  if (meaning.as != Meaning::As::reals && !t.is_per_channel() && qnn::is_fixed(t.dtype)) {
    p.meaning.scale = t.encoding().scale;
    p.codec.scale = 1;
  }
  if (!t.is_constant()) return p;
  SF_ASSIGN(p.packed, prepare.pack_values<double>(p.count, [&](std::span<double> out) {
    t.is_per_channel() ? void(std::ranges::copy(read_constant(t), out.begin()))
                       : p.codec.read(t.data, 0, 1, out);
    for (double& v : out) v = p.meaning(v);
  }));
  return p;
}
enum class Norm : uint8_t { layer, rms, group, instance, l2 };

// Element k of group g is at starts[g] + offsets[k]. Its gain and offset have index k, or with channels that
// of its channel.
struct Normalize {
  Norm kind;
  std::vector<int64_t> starts, offsets;
  double epsilon;
  Parameter gain, offset;
  int64_t channel_step = 1;  // channels of a group; the first of group g is g % groups * channel_step
  int64_t groups = 1;
  Codec x, y;
  bool by_rows = false;  // fixed point whose groups lie together
  bool device = false;   // by_rows of DeviceNormRow
  float step = 1;        // DeviceNormRow::step

  // With 8 bits the result and its zero point are a half, which is cut, or rounded for groups of channels.
  bool in_halves() const {
    return (kind == Norm::rms || kind == Norm::group || kind == Norm::instance) && is_narrow_fixed(y.dtype) &&
           qnn::size_of(y.dtype) == 1;
  }

  void run_rows(const Run& run, std::span<const double> w, std::span<const double> b) const {
    const auto n = static_cast<int64_t>(offsets.size());
    const auto size_in = static_cast<int64_t>(qnn::size_of(x.dtype)),
               size_out = static_cast<int64_t>(qnn::size_of(y.dtype));
    const cpu::NormRow row{.in = stored_as(x.dtype),
                           .out = stored_as(y.dtype),
                           .from = x.rows(),
                           .to = y.rows(),
                           .epsilon = epsilon,
                           .rms = kind == Norm::rms,
                           .gain = w.empty() ? nullptr : w.data(),
                           .bias = b.empty() ? nullptr : b.data()};
    const auto scale = static_cast<float>(x.scale);
    const cpu::DeviceNormRow device_row{.in = row.in,
                                        .out = row.out,
                                        .rms = row.rms,
                                        .offset = row.from.offset,
                                        .epsilon = static_cast<float>(epsilon) / (scale * scale),
                                        .step = step,
                                        .gain = row.gain,
                                        .bias = row.bias};
    run.pool.for_ranges(static_cast<int64_t>(starts.size()), std::max<int64_t>(1, 8192 / n),
                        [&](int64_t begin, int64_t end) {
                          const auto here = std::span<const int64_t>(starts).subspan(
                              static_cast<size_t>(begin), static_cast<size_t>(end - begin));
                          if (device)
                            return cpu::device_norm_rows(device_row, run.ins[0], run.outs[0], n, here);
                          for (const int64_t at : here)
                            cpu::norm_row(row, run.ins[0] + at * size_in, run.outs[0] + at * size_out, n);
                        });
  }

  void run(const Run& run) const {
    std::vector<double> gain_room, offset_room;
    const std::span<const double> w = gain.values(run, gain_room), b = offset.values(run, offset_room);
    const auto n = offsets.size();
    if (by_rows) return run_rows(run, w, b);
    run.pool.for_ranges(
        static_cast<int64_t>(starts.size()), std::max<int64_t>(1, 4096 / static_cast<int64_t>(n)),
        [&](int64_t begin, int64_t end) {
          std::vector<double> row(n);
          for (int64_t g = begin; g < end; ++g) {
            const int64_t start = starts[static_cast<size_t>(g)];
            read(run, start, row);
            double mean = 0, square = 0;
            if (kind != Norm::rms && kind != Norm::l2) {
              for (const double v : row) mean += v;
              mean /= static_cast<double>(n);
            }
            for (const double v : row) square += (v - mean) * (v - mean);
            const double inverse = kind == Norm::l2
                                       ? 1 / std::max(std::sqrt(square), epsilon)
                                       : 1 / std::sqrt(square / static_cast<double>(n) + epsilon);
            const int64_t first = g % groups * channel_step;
            for (size_t k = 0; k < n; ++k) {
              const auto c = static_cast<size_t>(kind == Norm::group || kind == Norm::instance
                                                     ? first + static_cast<int64_t>(k) % channel_step
                                                     : static_cast<int64_t>(k));
              double v = (row[k] - mean) * inverse;
              if (!w.empty()) v *= w[c];
              if (!b.empty()) v += b[c];
              row[k] = v;
            }
            write(run, start, row);
          }
        });
  }
  void read(const Run& run, int64_t start, std::span<double> row) const {
    with_type(x.dtype, [&](auto t) {
      const auto* p = run.in<decltype(t)>(0) + start;
      for (size_t k = 0; k < row.size(); ++k) row[k] = x.decode(p[offsets[k]]);
    });
  }
  void write(const Run& run, int64_t start, std::span<const double> row) const {
    with_type(y.dtype, [&](auto t) {
      using T = decltype(t);
      T* p = run.out<T>() + start;
      const double more = kind == Norm::rms ? 0 : 0.5;
      for (size_t k = 0; k < row.size(); ++k) {
        double v = row[k];
        if (in_halves()) {
          const double q = v / y.scale - static_cast<double>(y.offset);
          v = (std::floor(static_cast<double>(to_half(static_cast<float>(q))) + more) +
               static_cast<double>(y.offset)) *
              y.scale;
        }
        p[offsets[k]] = y.encode<T>(v);
      }
    });
  }
};

// As the device has them. An offset has the zero point of the result, of numbers without a sign.
Status prepare_device(const OpView& op, Normalize& step, Prepare& prepare) {
  using As = Meaning::As;
  const bool rms = step.kind == Norm::rms;
  const float per = op.out().encoding().scale;
  const Meaning offset{.as = rms ? As::floats : As::steps,
                       .per = per,
                       .zero = static_cast<float>(-step.y.offset - step.y.limits.min)};
  step.device = true;
  step.step = rms ? 1 : op.in(1).encoding().scale / per;
  SF_ASSIGN(step.gain, parameter(op, 1, prepare, {.as = rms ? As::floats : As::numbers, .per = per}));
  if (op.in(2).is_present()) {
    SF_ASSIGN(step.offset, parameter(op, 2, prepare, offset));
    return {};
  }
  step.offset.count = step.offsets.size();
  SF_ASSIGN(step.offset.packed, prepare.pack_values<double>(step.offset.count, [&](std::span<double> out) {
    std::ranges::fill(out, static_cast<double>(offset.zero));
  }));
  return {};
}

// y = (x + ox) m[c] + a[c], all of one shift for a channel
struct ScaleChannel {
  int64_t multiplier, addend;
  int64_t shift;
};
struct BatchNorm {
  const ScaleChannel* scales;                       // fixed point
  const double *gain = nullptr, *offset = nullptr;  // floats
  int64_t rows, channels;
  Codec x, y;

  void run(const Run& run) const {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      const int64_t grain = std::max<int64_t>(1, 16384 / channels);
      run.pool.for_ranges(rows, grain, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T* p = run.in<T>(0) + r * channels;
          T* q = run.out<T>() + r * channels;
          for (int64_t c = 0; c < channels; ++c) {
            if constexpr (std::is_integral_v<T>) {
              const ScaleChannel& s = scales[c];
              const int64_t v =
                  ((static_cast<int64_t>(p[c]) + x.offset) * s.multiplier + s.addend) >> s.shift;
              q[c] = static_cast<T>(std::clamp(v - y.offset, y.limits.min, y.limits.max));
            } else {
              q[c] = y.encode<T>(static_cast<double>(static_cast<float>(p[c])) * gain[c] + offset[c]);
            }
          }
        }
      });
    });
  }
};

struct LogSoftmax {
  AroundAxis around;
  double beta;
  Codec x, y;

  void run(const Run& run) const {
    run.pool.for_ranges(around.before * around.after, std::max<int64_t>(1, 4096 / around.extent),
                        [&](int64_t begin, int64_t end) {
                          std::vector<double> row(static_cast<size_t>(around.extent));
                          for (int64_t r = begin; r < end; ++r) {
                            const int64_t at =
                                r / around.after * around.extent * around.after + r % around.after;
                            x.read(run.ins[0], at, around.after, row);
                            double largest = row[0], sum = 0;
                            for (double& v : row) largest = std::max(largest, v *= beta);
                            for (const double v : row) sum += std::exp(v - largest);
                            const double all = largest + std::log(sum);
                            for (double& v : row) v -= all;
                            y.write(row, run.outs[0], at, around.after);
                          }
                        });
  }
};

Status check_channels(const OpView& op, size_t i, int64_t count) {
  if (!op.in(i).is_present() || op.in(i).count() == count) return {};
  return unsupported("in[", i, "] has ", op.in(i).count(), " elements, expected ", count);
}
Status check_norm_result(const OpView& op) {
  const TensorDef &x = op.in(0), &y = op.out();
  if (x.dims != y.dims) return unsupported("in[0] has dims ", x.dims, ", out[0] ", y.dims);
  if (x.rank() == 0 || x.count() == 0) return unsupported("in[0] has dims ", x.dims);
  if (x.dtype == y.dtype || (qnn::is_fixed(x.dtype) && qnn::is_fixed(y.dtype) && qnn::size_of(x.dtype) <= 2 &&
                             qnn::size_of(y.dtype) <= 2))
    return {};
  return unsupported("in[0] is ", qnn::to_text(x.dtype), ", out[0] ", qnn::to_text(y.dtype));
}

std::vector<uint32_t> norm_axes(const OpView& op) {
  const std::span<const uint32_t> axes = op.words("axes");
  if (!axes.empty()) return {axes.begin(), axes.end()};
  if (op.find("axis")) return {op.u32("axis", 0)};
  return {static_cast<uint32_t>(op.in(0).rank() - 1)};
}

}  // namespace

// LayerNorm, RmsNorm and L2Norm: over the axes that are named.
Status check_axes_norm(const OpView& op, const DeviceModel&) {
  SF_TRY(check_norm_result(op));
  int64_t count = 1;
  for (const uint32_t a : norm_axes(op)) {
    if (a >= op.in(0).rank()) return unsupported("axes has ", a, ", in[0] rank ", op.in(0).rank());
    count *= op.in(0).dims[a];
  }
  if (op.type == "L2Norm") return {};
  SF_TRY(check_channels(op, 1, count));
  return check_channels(op, 2, count);
}

Result<Step> prepare_axes_norm(const OpView& op, Prepare& prepare) {
  prepare.use_constant(0);
  const TensorDef& x = op.in(0);
  std::vector<bool> over(x.rank()), rest(x.rank(), true);
  for (const uint32_t a : norm_axes(op)) over[a] = true, rest[a] = false;
  Normalize step{.kind = op.type == "LayerNorm" ? Norm::layer
                         : op.type == "RmsNorm" ? Norm::rms
                                                : Norm::l2,
                 .starts = offsets_along(x, rest),
                 .offsets = offsets_along(x, over),
                 .epsilon = static_cast<double>(op.f32("epsilon", op.type == "L2Norm" ? 1e-12f : 1e-6f)),
                 .gain = {},
                 .offset = {},
                 .x = Codec::of(x),
                 .y = Codec::of(op.out())};
  const auto together = [&step] {
    for (size_t i = 0; i < step.offsets.size(); ++i)
      if (step.offsets[i] != static_cast<int64_t>(i)) return false;
    return true;
  };
  const TensorDef& gain = op.in(1);
  step.by_rows =
      step.kind != Norm::l2 && is_narrow_fixed(x.dtype) && is_narrow_fixed(op.out().dtype) && together();
  const bool even_gain = gain.is_present() && is_narrow_fixed(gain.dtype) && !gain.is_per_channel();
  if (step.by_rows && even_gain) {
    SF_TRY(prepare_device(op, step, prepare));
  } else if (step.kind != Norm::l2) {
    SF_ASSIGN(step.gain, parameter(op, 1, prepare));
    SF_ASSIGN(step.offset, parameter(op, 2, prepare));
  }
  return prepare.step(std::move(step));
}

// [N, ..., C]: GroupNorm over pixels and the channels of a group, InstanceNorm over pixels.
Status check_channel_norm(const OpView& op, const DeviceModel&) {
  SF_TRY(check_norm_result(op));
  const TensorDef& x = op.in(0);
  if (x.rank() < 3) return unsupported("in[0] has rank ", x.rank(), ", expected 3 or more");
  const uint32_t channels = x.dims.back(), groups = op.type == "GroupNorm" ? op.u32("group", 1) : channels;
  if (groups == 0 || channels % groups != 0)
    return unsupported("group is ", groups, " of ", channels, " channels");
  SF_TRY(check_channels(op, 1, channels));
  return check_channels(op, 2, channels);
}

Result<Step> prepare_channel_norm(const OpView& op, Prepare& prepare) {
  prepare.use_constant(0);
  const TensorDef& x = op.in(0);
  const auto channels = static_cast<int64_t>(x.dims.back());
  const bool group = op.type == "GroupNorm";
  const int64_t groups = group ? int64_t{op.u32("group", 1)} : channels;
  Normalize step{.kind = group ? Norm::group : Norm::instance,
                 .starts = {},
                 .offsets = {},
                 .epsilon = static_cast<double>(op.f32("epsilon", 1e-6f)),
                 .gain = {},
                 .offset = {},
                 .channel_step = channels / groups,
                 .groups = groups,
                 .x = Codec::of(x),
                 .y = Codec::of(op.out())};
  const int64_t pixels = x.count() / channels / x.dims[0];
  for (int64_t n = 0; n < static_cast<int64_t>(x.dims[0]); ++n)
    for (int64_t g = 0; g < groups; ++g) step.starts.push_back(n * pixels * channels + g * step.channel_step);
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < step.channel_step; ++c) step.offsets.push_back(p * channels + c);
  SF_ASSIGN(step.gain, parameter(op, 1, prepare));
  SF_ASSIGN(step.offset, parameter(op, 2, prepare));
  return prepare.step(std::move(step));
}

Status check_batch_norm(const OpView& op, const DeviceModel&) {
  SF_TRY(check_norm_result(op));
  if (op.in(0).dtype != op.out().dtype)
    return unsupported("in[0] is ", qnn::to_text(op.in(0).dtype), ", out[0] ", qnn::to_text(op.out().dtype));
  for (size_t i = 1; i < 3; ++i) {
    if (!op.in(i).is_present() || !op.in(i).is_constant()) return unsupported("in[", i, "] is not constant");
    SF_TRY(check_channels(op, i, op.in(0).dims.back()));
  }
  return {};
}

Result<Step> prepare_batch_norm(const OpView& op, Prepare& prepare) {
  prepare.use_constant(0);
  const TensorDef& x = op.in(0);
  const size_t channels = x.dims.back();
  BatchNorm step{.scales = nullptr,
                 .rows = x.count() / static_cast<int64_t>(channels),
                 .channels = static_cast<int64_t>(channels),
                 .x = Codec::of(x),
                 .y = Codec::of(op.out())};
  if (x.is_float()) {
    SF_ASSIGN(const Parameter gain, parameter(op, 1, prepare));
    SF_ASSIGN(const Parameter offset, parameter(op, 2, prepare));
    step.gain = gain.packed;
    step.offset = offset.packed;
    return prepare.step(step);
  }
  SF_ASSIGN(step.scales, prepare.pack_values<ScaleChannel>(channels, [&](std::span<ScaleChannel> out) {
    const std::vector<double> w = read_constant(op.in(1)), b = read_constant(op.in(2));
    for (size_t c = 0; c < channels; ++c) {
      const double ratio = step.x.scale / step.y.scale * w[c], add = b[c] / step.y.scale;
      int exponent = 0;
      // The product of 17 bits and the sum must both fit 62.
      std::frexp(std::max({std::abs(ratio), std::abs(add) / 65536, 1e-12}), &exponent);
      const int64_t shift = std::clamp(30 - exponent, 1, 44);
      out[c] = {std::llround(std::ldexp(ratio, static_cast<int>(shift))),
                std::llround(std::ldexp(add, static_cast<int>(shift))) + (int64_t{1} << (shift - 1)), shift};
    }
  }));
  return prepare.step(step);
}

Status check_log_softmax(const OpView& op, const DeviceModel&) {
  SF_TRY(check_norm_result(op));
  const uint32_t axis = op.u32("axis", static_cast<uint32_t>(op.in(0).rank() - 1));
  if (axis >= op.in(0).rank()) return unsupported("axis is ", axis, " of ", op.in(0).rank());
  return {};
}

Result<Step> prepare_log_softmax(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const uint32_t axis = op.u32("axis", static_cast<uint32_t>(op.in(0).rank() - 1));
  return prepare.step(LogSoftmax{AroundAxis(op.in(0).dims, axis), static_cast<double>(op.f32("beta", 1)),
                                 Codec::of(op.in(0)), Codec::of(op.out())});
}

}  // namespace sixfold::emulator
