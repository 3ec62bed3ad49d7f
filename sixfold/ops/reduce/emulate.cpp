// Reductions, cumulative sums and the place of the largest on the emulator.
//
// Fixed point: integers are summed exactly and scaled by a multiplier of 15 bits (a mean by its count too).
// Floats: summed in double, rounded to half once.
#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

enum class Kind : uint8_t { sum, mean, max, min };

// Outputs are [rows][inner]: an output's elements are those at offsets[k], `inner` of them beside each other.
struct Reduce {
  Kind kind;
  std::vector<int64_t> rows;     // where each row of outputs begins
  std::vector<int64_t> offsets;  // of the elements that are reduced
  int64_t inner;
  Codec x, y;
  double ratio;  // steps of the output for a step of the sum
  // Of sums in fixed point: that ratio as multiplier * 2^-shift, and what is added before the shift. The zero
  // points' part may be scaled on its own, of numbers without a sign, and cut to whole steps. A shift of 0:
  // the ratio itself.
  int64_t multiplier = 0;
  int shift = 0;
  int64_t half = 0;
  bool cuts_zero = false;
  bool ieee = false;  // floats are the matrix unit's

  // Of n numbers. Saturated later: what a product with the ratio cannot hold is far outside.
  int64_t scaled(int64_t sum, int64_t n) const {
    const int64_t first = x.limits.min * n, zeros = -(x.offset + x.limits.min) * n;
    if (shift == 0)
      return static_cast<int64_t>(std::floor(static_cast<double>(sum + x.offset * n) * ratio + 0.5));
    if (!cuts_zero) return ((sum - first - zeros) * multiplier + half) >> shift;
    return (((sum - first) * multiplier + half) >> shift) - ((zeros * multiplier) >> shift);
  }

  template <typename T>
  void integers(const Run& run) const {
    constexpr int64_t kChunk = 64;
    const int64_t chunks = (inner + kChunk - 1) / kChunk;
    const auto tasks = static_cast<int64_t>(rows.size()) * chunks;
    const int64_t work = static_cast<int64_t>(offsets.size()) * std::min(inner, kChunk);
    run.pool.for_ranges(tasks, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task / chunks, from = task % chunks * kChunk;
        const int64_t n = std::min(kChunk, inner - from);
        const T* base = run.in<T>(0) + rows[static_cast<size_t>(row)] + from;
        int64_t acc[kChunk];
        for (int64_t i = 0; i < n; ++i)
          acc[i] = kind == Kind::max ? INT64_MIN : kind == Kind::min ? INT64_MAX : 0;
        for (const int64_t at : offsets) {
          const T* p = base + at;
          if (kind == Kind::max)
            for (int64_t i = 0; i < n; ++i) acc[i] = std::max(acc[i], static_cast<int64_t>(p[i]));
          else if (kind == Kind::min)
            for (int64_t i = 0; i < n; ++i) acc[i] = std::min(acc[i], static_cast<int64_t>(p[i]));
          else
            for (int64_t i = 0; i < n; ++i) acc[i] += static_cast<int64_t>(p[i]);
        }
        T* out = run.out<T>() + row * inner + from;
        const bool sums = kind == Kind::sum || kind == Kind::mean;
        const int64_t count = sums ? static_cast<int64_t>(offsets.size()) : 1;
        for (int64_t i = 0; i < n; ++i) {
          if (!qnn::is_fixed(y.dtype)) {  // plain integers
            out[i] =
                static_cast<T>(kind == Kind::mean ? acc[i] / static_cast<int64_t>(offsets.size()) : acc[i]);
            continue;
          }
          out[i] = static_cast<T>(std::clamp(scaled(acc[i], count) - y.offset, y.limits.min, y.limits.max));
        }
      }
    });
  }

  template <typename T>
  void floats(const Run& run) const {
    run.pool.for_ranges(static_cast<int64_t>(rows.size()) * inner,
                        std::max<int64_t>(1, 8192 / static_cast<int64_t>(offsets.size())),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t o = begin; o < end; ++o) {
                            const T* base = run.in<T>(0) + rows[static_cast<size_t>(o / inner)] + o % inner;
                            double acc = static_cast<double>(static_cast<float>(base[offsets[0]]));
                            for (size_t k = 1; k < offsets.size(); ++k) {
                              const auto v = static_cast<double>(static_cast<float>(base[offsets[k]]));
                              if (kind == Kind::max)
                                acc = v > acc || v != v ? v : acc;
                              else if (kind == Kind::min)
                                acc = v < acc || v != v ? v : acc;
                              else
                                acc += v;
                            }
                            if (kind == Kind::mean) acc /= static_cast<double>(offsets.size());
                            run.out<T>()[o] = ieee ? y.encode_ieee<T>(acc) : y.encode<T>(acc);
                          }
                        });
  }

  void run(const Run& run) const {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      if constexpr (std::is_integral_v<T>)
        integers<T>(run);
      else
        floats<T>(run);
    });
  }
};

struct ArgExtreme {
  AroundAxis around;
  bool largest;
  DataType dtype;

  void run(const Run& run) const {
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      run.pool.for_ranges(around.before * around.after, std::max<int64_t>(1, 8192 / around.extent),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t o = begin; o < end; ++o) {
                              const T* x = run.in<T>(0) + o / around.after * around.extent * around.after +
                                           o % around.after;
                              int64_t best = 0;
                              for (int64_t i = 1; i < around.extent; ++i) {
                                const auto a = static_cast<double>(x[i * around.after]),
                                           b = static_cast<double>(x[best * around.after]);
                                if (b != b) break;  // the first NaN is it
                                if (a != a || (largest ? a > b : a < b)) best = i;
                              }
                              run.out<int32_t>()[o] = static_cast<int32_t>(best);
                            }
                          });
    });
  }
};

struct Cumulate {
  AroundAxis around;
  bool exclusive, reverse;
  Codec x, y;

  // Fixed point: of operands that were rounded to steps of the output, halves up, and a sum stays within
  // what the output can say.
  template <typename T>
  double term(T q) const {
    const double v = x.decode(q);
    return qnn::is_fixed(y.dtype) ? std::floor(v / y.scale + 0.5) * y.scale : v;
  }
  double add(double sum, double v) const {
    if (!qnn::is_fixed(y.dtype)) return sum + v;
    return std::clamp(sum + v, y.decode(y.limits.min), y.decode(y.limits.max));
  }

  void run(const Run& run) const {
    with_type(x.dtype, [&](auto t) {
      using T = decltype(t);
      run.pool.for_ranges(
          around.before * around.after, std::max<int64_t>(1, 8192 / around.extent),
          [&](int64_t begin, int64_t end) {
            for (int64_t o = begin; o < end; ++o) {
              const int64_t base = o / around.after * around.extent * around.after + o % around.after;
              double sum = 0;
              for (int64_t i = 0; i < around.extent; ++i) {
                const int64_t at = base + (reverse ? around.extent - 1 - i : i) * around.after;
                const double v = term(run.in<T>(0)[at]);
                if (!exclusive) sum = add(sum, v);
                run.out<T>()[at] = y.encode<T>(sum);
                if (exclusive) sum = add(sum, v);
              }
            }
          });
    });
  }
};

std::vector<bool> reduced_axes(const OpView& op) {
  std::vector<bool> out(op.in(0).rank());
  for (const uint32_t a : op.words("axes"))
    if (a < out.size()) out[a] = true;
  return out;
}

// The dims of a result without, or with 1 for, the axes that are gone; a result of none is [1] or [].
Status check_result(const OpView& op, const std::vector<bool>& gone, bool keep) {
  std::vector<uint32_t> want;
  for (size_t d = 0; d < gone.size(); ++d) {
    if (!gone[d])
      want.push_back(op.in(0).dims[d]);
    else if (keep)
      want.push_back(1);
  }
  if (op.out().dims == want || (want.empty() && op.out().count() == 1)) return {};
  return unsupported("out[0] has dims ", op.out().dims, ", expected ", want);
}

// Sums whose multiplier is the nearest: means over all pixels of images [N, H, W, C], with 8 bits also of
// rows of up to four numbers.
bool is_nearest(const OpView& op, const std::vector<bool>& gone) {
  const TensorDef& x = op.in(0);
  if (x.rank() == 0) return true;
  const size_t last = x.rank() - 1;
  bool pixels = op.type == "ReduceMean" && !gone[last];
  bool row = qnn::size_of(x.dtype) == 1 && gone[last] && x.dims[last] <= 4;
  for (size_t a = 0; a < last; ++a) {
    const bool is_pixel = a + 3 >= x.rank();
    pixels = pixels && (x.dims[a] == 1 || gone[a] == is_pixel);
    row = row && (!gone[a] || x.dims[a] == 1);
  }
  return pixels || row;
}

}  // namespace

Status check_reduce(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &y = op.out();
  if (x.dtype != y.dtype)
    return unsupported("in[0] is ", qnn::to_text(x.dtype), ", out[0] ", qnn::to_text(y.dtype));
  if (x.count() == 0) return unsupported("in[0] is empty");
  for (const uint32_t a : op.words("axes"))
    if (a >= x.rank()) return unsupported("axes has ", a, ", in[0] rank ", x.rank());
  return check_result(op, reduced_axes(op), op.boolean("keep_dims", false));
}

Result<Step> prepare_reduce(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &y = op.out();
  const std::vector<bool> gone = reduced_axes(op);
  Reduce step{.kind = op.type == "ReduceSum"    ? Kind::sum
                      : op.type == "ReduceMean" ? Kind::mean
                      : op.type == "ReduceMax"  ? Kind::max
                                                : Kind::min,
              .rows = {},
              .offsets = {},
              .inner = 1,
              .x = Codec::of(x),
              .y = Codec::of(y),
              .ratio = 1};
  // Trailing axes that stay are one run.
  size_t rank = x.rank();
  while (rank > 0 && !gone[rank - 1]) step.inner *= x.dims[--rank];
  std::vector<bool> kept(x.rank());
  for (size_t a = 0; a < rank; ++a) kept[a] = !gone[a];
  step.rows = offsets_along(x, kept);
  step.offsets = offsets_along(x, gone);
  // In floats.
  const float share = x.encoding().scale * (1 / y.encoding().scale);
  const auto count = static_cast<float>(step.kind == Kind::mean ? step.offsets.size() : 1);
  step.ratio = static_cast<double>(share * (1 / count));
  // Sums of floats along few channels are the matrix unit's.
  step.ieee = step.kind == Kind::sum && step.inner == 1 && step.offsets.size() <= 4;
  const bool sums = step.kind == Kind::sum || step.kind == Kind::mean;
  int exponent = 0;
  const double mantissa = std::frexp(step.ratio, &exponent);
  if (sums && is_narrow_fixed(y.dtype) && exponent < 15 && exponent > -40) {
    const bool wide = qnn::size_of(x.dtype) == 2, nearest = is_nearest(op, gone);
    const double units = mantissa * (nearest ? 32768 : wide ? 32768 * 0.99999 : 32767);
    step.multiplier = static_cast<int64_t>(nearest ? std::floor(units + 0.5) : std::ceil(units - 0.5));
    step.shift = 15 - exponent;
    step.cuts_zero = !nearest && exponent >= 0;
    step.half = int64_t{1} << (step.shift - (wide && !nearest && exponent < 0 ? 0 : 1));
  }
  return prepare.step(std::move(step));
}

Status check_arg(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &y = op.out();
  const uint32_t axis = op.u32("axis", 0);
  if (axis >= x.rank() || x.count() == 0) return unsupported("axis is ", axis, " of dims ", x.dims);
  if (qnn::size_of(y.dtype) != 4 || y.is_float()) return unsupported("out[0] is ", qnn::to_text(y.dtype));
  std::vector<bool> gone(x.rank());
  gone[axis] = true;
  return check_result(op, gone, op.boolean("keep_dims", false));
}

Result<Step> prepare_arg(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  return prepare.step(
      ArgExtreme{AroundAxis(op.in(0).dims, op.u32("axis", 0)), op.type == "Argmax", op.in(0).dtype});
}

Status check_cumulate(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &y = op.out();
  if (x.dtype != y.dtype || x.dims != y.dims)
    return unsupported("in[0] is ", qnn::to_text(x.dtype), " ", x.dims, ", out[0] ", qnn::to_text(y.dtype),
                       " ", y.dims);
  if (op.u32("axis", 0) >= x.rank()) return unsupported("axis is ", op.u32("axis", 0), " of ", x.rank());
  return {};
}

Result<Step> prepare_cumulate(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  return prepare.step(Cumulate{AroundAxis(op.in(0).dims, op.u32("axis", 0)), op.boolean("exclusive", false),
                               op.boolean("reverse", false), Codec::of(op.in(0)), Codec::of(op.out())});
}

}  // namespace sixfold::emulator
