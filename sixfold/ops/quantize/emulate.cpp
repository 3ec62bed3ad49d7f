// Between types and encodings on the emulator.
//
// Quantize: the nearest step, ties away from zero (cpu::quantize_row).
// Dequantize: a float where it leaves the graph (cpu::dequantize_row); a half where ops go on with it, of 8
// bits the number times the scale's half, ties away from zero, of 16 that of the float. Convert: integers
// scaled by a 31-bit multiplier, halves up. Cast: floats are cut towards zero, integers saturate, anything
// but 0 is true.
#include <bit>
#include <cmath>

#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/qfloat.h"
#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"

namespace sixfold::emulator {
namespace {

Status check_alike(const OpView& op) {
  if (op.in(0).count() != op.out().count())
    return unsupported("in[0] has dims ", op.in(0).dims, ", out[0] ", op.out().dims);
  return {};
}

struct Convert {
  Recode recode;
  DataType in, out;
  int64_t count;
  // Of numbers that are converted before they are transposed: which rows of the last axis begin at an odd
  // place, and whether its places are odd and even in turn. Else empty.
  std::vector<uint8_t> odd_rows = {};
  bool in_turn = true;

  void run_rows(const Run& run) const {
    const auto rows = static_cast<int64_t>(odd_rows.size()), n = count / rows;
    const auto step_in = n * static_cast<int64_t>(qnn::size_of(in)),
               step_out = n * static_cast<int64_t>(qnn::size_of(out));
    run.pool.for_ranges(
        rows, std::max<int64_t>(1, cpu::kElementwiseGrain / n), [&](int64_t begin, int64_t end) {
          cpu::FixedRecode kinds[] = {recode.rows(in, out), recode.rows(in, out)};
          if (!in_turn) kinds[0].add[1] = kinds[0].add[0], kinds[1].add[0] = kinds[1].add[1];
          for (int64_t r = begin; r < end; ++r) {
            const uint8_t odd = odd_rows[static_cast<size_t>(r)];
            cpu::recode_row(kinds[odd], run.ins[0] + r * step_in, run.outs[0] + r * step_out, n, odd);
          }
        });
  }

  void run(const Run& run) const {
    if (!odd_rows.empty()) return run_rows(run);
    if (!recode.same && is_narrow_fixed(in) && is_narrow_fixed(out) && recode.fits_rows())
      return run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
        cpu::recode_row(recode.rows(in, out), run.ins[0] + begin * static_cast<int64_t>(qnn::size_of(in)),
                        run.outs[0] + begin * static_cast<int64_t>(qnn::size_of(out)), end - begin, begin);
      });
    with_type(in, [&](auto t) {
      with_type(out, [&](auto u) {
        using T = decltype(t);
        using U = decltype(u);
        if constexpr (std::is_integral_v<T> && std::is_integral_v<U>) {
          const T* x = run.in<T>(0);
          U* y = run.out<U>();
          run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
              y[i] = static_cast<U>(recode.same ? static_cast<int64_t>(x[i])
                                                : recode(static_cast<int64_t>(x[i]), i % 2 != 0));
          });
        }
      });
    });
  }
};

struct Quantize {
  Codec codec;
  DataType in;
  cpu::RealType type;
  int64_t count;

  void run(const Run& run) const {
    if (is_narrow_fixed(codec.dtype))
      return run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
        float room[256];
        for (int64_t at = begin; at < end;) {
          const int64_t n = in == DataType::f16 ? std::min<int64_t>(256, end - at) : end - at;
          if (in == DataType::f16) std::copy_n(run.in<DeviceHalf>(0) + at, n, room);
          cpu::quantize_row(in == DataType::f16 ? room : run.in<float>(0) + at, type, stored_as(codec.dtype),
                            codec.rows(), run.outs[0] + at * static_cast<int64_t>(qnn::size_of(codec.dtype)),
                            n);
          at += n;
        }
      });
    with_type(codec.dtype, [&](auto u) {
      using U = decltype(u);
      if constexpr (std::is_integral_v<U>) {
        U* y = run.out<U>();
        run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i)
            y[i] = codec.encode<U>(static_cast<double>(
                in == DataType::f16 ? static_cast<float>(run.in<DeviceHalf>(0)[i]) : run.in<float>(0)[i]));
        });
      }
    });
  }
};

struct Dequantize {
  Codec codec;
  DataType out;
  bool leaves;
  int64_t count;
  std::vector<float> tiled = {};  // of 8 bits in tiles: all results

  // In tiles numbers become the vector unit's own floats, 0 the least of them, and are multiplied by a scale
  // of 11 bits; the last bit of the product is always 1, too.
  static float in_tile(int64_t q, float scale) {
    int exponent = 0;
    const auto mantissa = 8 * static_cast<int64_t>(std::nearbyint(std::frexp(scale, &exponent) * 2048));
    const cpu::QFloat number = q == 0 ? cpu::QFloat{1, -2} : cpu::QFloat::rounded(static_cast<double>(q), 23);
    return std::ldexp(static_cast<float>((number.significand * mantissa) | 1),
                      exponent + number.exponent - 37);
  }

  bool is_float() const { return out == DataType::f32 && leaves; }

  // Elements that ops go on with, before they are halves.
  void reals(const std::byte* x, float* y, int64_t n) const {
    if (qnn::size_of(codec.dtype) == 2)
      return cpu::dequantize_row(stored_as(codec.dtype), codec.rows(), x, y, n);
    const bool byte = qnn::size_of(codec.dtype) == 1;
    const double scale = byte ? to_ieee_half(static_cast<float>(codec.scale)) : codec.scale;
    with_type(codec.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>)
        for (int64_t i = 0; i < n; ++i) {
          const auto q = static_cast<int64_t>(reinterpret_cast<const T*>(x)[i]) + codec.offset;
          y[i] = static_cast<float>(static_cast<double>(q) * scale);
        }
    });
  }
  void run(const Run& run) const {
    const auto size = static_cast<int64_t>(qnn::size_of(codec.dtype));
    run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
      if (!tiled.empty()) {
        for (int64_t i = begin; i < end; ++i) run.out<float>()[i] = tiled[run.in<uint8_t>(0)[i]];
        return;
      }
      if (is_float() && is_narrow_fixed(codec.dtype))
        return cpu::dequantize_row(stored_as(codec.dtype), codec.rows(), run.ins[0] + begin * size,
                                   run.out<float>() + begin, end - begin);
      float room[256];
      for (int64_t at = begin; at < end; at += 256) {
        const int64_t n = std::min<int64_t>(256, end - at);
        reals(run.ins[0] + at * size, room, n);
        for (int64_t i = 0; i < n; ++i)
          if (out == DataType::f16)
            run.out<DeviceHalf>()[at + i] = DeviceHalf(room[i]);
          else
            run.out<float>()[at + i] = is_float() ? room[i] : to_half(room[i]);
      }
    });
  }
};

struct Cast {
  Codec from, to;
  int64_t count;
  bool leaves = false;  // the graph: floats of 32-bit integers are no halves there

  // Of more than 24 bits the first ones.
  static float cut_float(int64_t q) {
    const int more = std::max(0, 40 - std::countl_zero(static_cast<uint64_t>(std::abs(q))));
    return static_cast<float>(q < 0 ? -(-q >> more << more) : q >> more << more);
  }
  template <typename T, typename U>
  U convert(T q) const {
    if constexpr (std::is_integral_v<T> && std::is_integral_v<U>) {
      if (to.dtype == DataType::boolean) return static_cast<U>(q != 0);
      const auto v = static_cast<int64_t>(q);
      return static_cast<U>(sizeof(U) == 8 ? v : std::clamp(v, to.limits.min, to.limits.max));
    } else {
      if constexpr (std::is_integral_v<T> && sizeof(T) == 4 && std::is_same_v<U, float>)
        if (leaves) return cut_float(static_cast<int64_t>(q));
      const double x = from.decode(q);
      if constexpr (std::is_integral_v<U>) {
        if (to.dtype == DataType::boolean) return static_cast<U>(x != 0);
        const double cut = std::trunc(x);
        if (cut != cut) return 0;
        constexpr double kLow = static_cast<double>(std::numeric_limits<U>::min());
        constexpr double kHigh = static_cast<double>(std::numeric_limits<U>::max());
        if (cut <= kLow) return std::numeric_limits<U>::min();
        if (cut >= kHigh) return std::numeric_limits<U>::max();
        return static_cast<U>(cut);
      } else {
        return to.encode<U>(x);
      }
    }
  }
  void run(const Run& run) const {
    with_type(from.dtype, [&](auto t) {
      with_type(to.dtype, [&](auto u) {
        using T = decltype(t);
        using U = decltype(u);
        const T* x = run.in<T>(0);
        U* y = run.out<U>();
        run.pool.for_ranges(count, cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) y[i] = convert<T, U>(x[i]);
        });
      });
    });
  }
};

}  // namespace

Status check_convert(const OpView& op, const DeviceModel&) {
  SF_TRY(check_alike(op));
  const DataType x = op.in(0).dtype, y = op.out().dtype;
  if (qnn::is_fixed(x) || qnn::is_fixed(y) || x == y) return {};
  return unsupported("in[0] is ", qnn::to_text(x), ", out[0] ", qnn::to_text(y));
}

Result<Step> prepare_convert(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &y = op.out();
  if (x.is_float() && qnn::is_fixed(y.dtype)) {
    const bool given = x.dtype == DataType::f32 && x.kind == TensorKind::app_write;
    return prepare.step(
        Quantize{Codec::of(y), x.dtype, given ? cpu::RealType::f32 : cpu::RealType::f16, x.count()});
  }
  if (qnn::is_fixed(x.dtype) && y.is_float()) {
    Dequantize step{Codec::of(x), y.dtype, y.kind == TensorKind::app_read, x.count()};
    const auto [scale, offset] = x.encoding();
    if (x.in_tiles && qnn::size_of(x.dtype) == 1 && step.is_float() && scale < 1)
      for (int64_t q = 0; q < 256; ++q) step.tiled.push_back(Dequantize::in_tile(q + offset, scale));
    return prepare.step(std::move(step));
  }
  if (x.is_float() || y.is_float()) return prepare.step(Cast{Codec::of(x), Codec::of(y), x.count()});
  Convert step{Recode::between(x, y, x.in_tiles), x.dtype, y.dtype, x.count()};
  if (step.recode.odd_is_cut && !step.recode.same && step.recode.fits_rows() && !x.places.empty()) {
    step.in_turn = x.places.back() % 2 != 0;
    step.odd_rows.assign(1, 0);
    for (size_t d = 0; d + 1 < x.rank(); ++d) {
      std::vector<uint8_t> rows;
      for (const uint8_t first : step.odd_rows)
        for (uint32_t i = 0; i < x.dims[d]; ++i) rows.push_back((first + i * x.places[d]) % 2);
      step.odd_rows = std::move(rows);
    }
  }
  return prepare.step(std::move(step));
}

Status check_quantize(const OpView& op, const DeviceModel&) {
  SF_TRY(check_alike(op));
  if (op.in(0).is_float() && qnn::is_fixed(op.out().dtype)) return {};
  return unsupported("in[0] is ", qnn::to_text(op.in(0).dtype), ", out[0] ", qnn::to_text(op.out().dtype));
}
Status check_dequantize(const OpView& op, const DeviceModel&) {
  SF_TRY(check_alike(op));
  if (qnn::is_fixed(op.in(0).dtype) && op.out().is_float()) return {};
  return unsupported("in[0] is ", qnn::to_text(op.in(0).dtype), ", out[0] ", qnn::to_text(op.out().dtype));
}
Status check_cast(const OpView& op, const DeviceModel&) { return check_alike(op); }

Result<Step> prepare_cast(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  return prepare.step(Cast{Codec::of(op.in(0)), Codec::of(op.out()), op.in(0).count(),
                           op.out().kind == TensorKind::app_read});
}

}  // namespace sixfold::emulator
