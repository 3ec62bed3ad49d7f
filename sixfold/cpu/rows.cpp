#include "sixfold/cpu/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/rows.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// The first n < Lanes floats at x, the rest zero. Where masked loads may touch the bytes beyond, through a
// buffer.
HWY_INLINE V load_some(D d, const float* x, int64_t n) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy_n(x, n, buffer);
  return hn::Load(d, buffer);
#else
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, x);
#endif
}
HWY_INLINE void store_some(D d, V v, float* y, int64_t n) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, buffer);
  std::copy_n(buffer, n, y);
#else
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, y);
#endif
}

// ---- sums along a row. `valid` marks the lanes before the end; the others hold 0.

// Floats between additions in double: at most 64 in each of the four chains of each lane, so that narrow
// vectors lose no more digits than wide ones.
HWY_INLINE int64_t block_size() {
  return std::min<int64_t>(2048, 64 * 4 * static_cast<int64_t>(hn::Lanes(D())));
}

template <typename Add>
HWY_INLINE void for_vectors(const float* x, int64_t n, const Add& add) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto all = hn::FirstN(d, static_cast<size_t>(lanes));
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    add(0, hn::LoadU(d, x + i), all, /*whole=*/true);
    add(1, hn::LoadU(d, x + i + lanes), all, true);
    add(2, hn::LoadU(d, x + i + 2 * lanes), all, true);
    add(3, hn::LoadU(d, x + i + 3 * lanes), all, true);
  }
  for (; i + lanes <= n; i += lanes) add(0, hn::LoadU(d, x + i), all, true);
  if (i < n) add(1, load_some(d, x + i, n - i), hn::FirstN(d, static_cast<size_t>(n - i)), false);
}

HWY_INLINE double total(D d, V a, V b, V c, V e) {
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e)))));
}

double SumRow(const float* x, int64_t n) {
  const D d;
  double sum = 0;
  const int64_t step = block_size();
  for (int64_t begin = 0; begin < n; begin += step) {
    V s[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for_vectors(x + begin, std::min(step, n - begin),
                [&](int k, V v, auto, bool) HWY_ATTR { s[k] = hn::Add(s[k], v); });
    sum += total(d, s[0], s[1], s[2], s[3]);
  }
  return sum;
}

double SumSquaresRow(const float* x, int64_t n) {
  const D d;
  double sum = 0;
  const int64_t step = block_size();
  for (int64_t begin = 0; begin < n; begin += step) {
    V s[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for_vectors(x + begin, std::min(step, n - begin),
                [&](int k, V v, auto, bool) HWY_ATTR { s[k] = hn::MulAdd(v, v, s[k]); });
    sum += total(d, s[0], s[1], s[2], s[3]);
  }
  return sum;
}

Moments MomentsRow(const float* x, int64_t n, float shift) {
  const D d;
  const V m = hn::Set(d, shift);
  Moments sum;
  const int64_t step = block_size();
  for (int64_t begin = 0; begin < n; begin += step) {
    V s[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    V q[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for_vectors(x + begin, std::min(step, n - begin), [&](int k, V v, auto valid, bool whole) HWY_ATTR {
      V c = hn::Sub(v, m);
      if (!whole) c = hn::IfThenElseZero(valid, c);
      s[k] = hn::Add(s[k], c);
      q[k] = hn::MulAdd(c, c, q[k]);
    });
    sum.first += total(d, s[0], s[1], s[2], s[3]);
    sum.second += total(d, q[0], q[1], q[2], q[3]);
  }
  return sum;
}

// ---- extremes: a NaN, once taken, stays

struct Greater {
  static constexpr float kWorst = -std::numeric_limits<float>::infinity();
  static HWY_INLINE hn::Mask<D> wins(V x, V best) { return hn::Gt(x, best); }
  HWY_INLINE V operator()(V best, V x) const {
    return hn::IfThenElse(hn::Or(wins(x, best), hn::IsNaN(x)), x, best);
  }
};
struct Less {
  static constexpr float kWorst = std::numeric_limits<float>::infinity();
  static HWY_INLINE hn::Mask<D> wins(V x, V best) { return hn::Lt(x, best); }
  HWY_INLINE V operator()(V best, V x) const {
    return hn::IfThenElse(hn::Or(wins(x, best), hn::IsNaN(x)), x, best);
  }
};

template <typename Better>
HWY_INLINE float extreme_row(const float* x, int64_t n, const Better& better) {
  const D d;
  const V worst = hn::Set(d, Better::kWorst);
  V b[4] = {worst, worst, worst, worst};
  for_vectors(x, n, [&](int k, V v, auto valid, bool whole) HWY_ATTR {
    b[k] = better(b[k], whole ? v : hn::IfThenElse(valid, v, worst));
  });
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(better(better(b[0], b[1]), better(b[2], b[3])), d, lanes);
  float best = lanes[0];
  for (size_t i = 1; i < hn::Lanes(d); ++i) {
    const bool take = std::isnan(lanes[i]) || (Better::kWorst < 0 ? lanes[i] > best : lanes[i] < best);
    if (take) best = lanes[i];
  }
  return best;
}
float MaxRow(const float* x, int64_t n) { return extreme_row(x, n, Greater()); }
float MinRow(const float* x, int64_t n) { return extreme_row(x, n, Less()); }

int64_t FindRow(const float* x, int64_t n, float value) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V wanted = hn::Set(d, value);
  const bool nan = std::isnan(value);
  const auto hits = [&](V v) HWY_ATTR { return nan ? hn::IsNaN(v) : hn::Eq(v, wanted); };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto place = hn::FindFirstTrue(d, hits(hn::LoadU(d, x + i)));
    if (place >= 0) return i + place;
  }
  for (; i < n; ++i)
    if (nan ? std::isnan(x[i]) : x[i] == value) return i;
  return n;
}

// ---- columns: up to kWide vectors side by side stay in registers while the rows go by

constexpr int kWide = 4;
constexpr int64_t kRowBlock = 32;  // rows between additions in double

// step(begin, count) for pieces of `width`: kWide whole vectors, one whole vector, or less than one.
template <typename Step>
HWY_INLINE void for_pieces(int64_t width, const Step& step) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + kWide * lanes <= width; i += kWide * lanes) step(i, kWide * lanes);
  for (; i < width; i += lanes) step(i, std::min(lanes, width - i));
}

HWY_INLINE void add_lanes(D d, V v, double* sums, int64_t n) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, lanes);
  for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(lanes[i]);
}

void SumColumns(const float* x, int64_t rows, int64_t stride, int64_t width, double* sums) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_pieces(width, [&](int64_t begin, int64_t count) HWY_ATTR {
    for (int64_t r0 = 0; r0 < rows; r0 += kRowBlock) {
      const float* row = x + r0 * stride + begin;
      const int64_t block = std::min(kRowBlock, rows - r0);
      if (count == kWide * lanes) {
        V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
        for (int64_t r = 0; r < block; ++r, row += stride) {
          s0 = hn::Add(s0, hn::LoadU(d, row));
          s1 = hn::Add(s1, hn::LoadU(d, row + lanes));
          s2 = hn::Add(s2, hn::LoadU(d, row + 2 * lanes));
          s3 = hn::Add(s3, hn::LoadU(d, row + 3 * lanes));
        }
        add_lanes(d, s0, sums + begin, lanes);
        add_lanes(d, s1, sums + begin + lanes, lanes);
        add_lanes(d, s2, sums + begin + 2 * lanes, lanes);
        add_lanes(d, s3, sums + begin + 3 * lanes, lanes);
      } else {
        V s0 = hn::Zero(d);
        for (int64_t r = 0; r < block; ++r, row += stride)
          s0 = hn::Add(s0, count == lanes ? hn::LoadU(d, row) : load_some(d, row, count));
        add_lanes(d, s0, sums + begin, count);
      }
    }
  });
}

void MomentsColumns(const float* x, int64_t rows, int64_t stride, int64_t width, const float* shift,
                    double* first, double* second) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t begin = 0; begin < width; begin += lanes) {
    const int64_t count = std::min(lanes, width - begin);
    const V m = count == lanes ? hn::LoadU(d, shift + begin) : load_some(d, shift + begin, count);
    for (int64_t r0 = 0; r0 < rows; r0 += kRowBlock) {
      const float* row = x + r0 * stride + begin;
      const int64_t block = std::min(kRowBlock, rows - r0);
      V s = hn::Zero(d), q = s;
      for (int64_t r = 0; r < block; ++r, row += stride) {
        const V c = hn::Sub(count == lanes ? hn::LoadU(d, row) : load_some(d, row, count), m);
        s = hn::Add(s, c);
        q = hn::MulAdd(c, c, q);
      }
      add_lanes(d, s, first + begin, count);
      add_lanes(d, q, second + begin, count);
    }
  }
}

template <typename Better>
HWY_INLINE void extreme_columns(const float* x, int64_t rows, int64_t stride, int64_t width, float* best,
                                const Better& better) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_pieces(width, [&](int64_t begin, int64_t count) HWY_ATTR {
    const float* row = x + begin;
    float* b = best + begin;
    if (count == kWide * lanes) {
      V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + lanes), b2 = hn::LoadU(d, b + 2 * lanes),
        b3 = hn::LoadU(d, b + 3 * lanes);
      for (int64_t r = 0; r < rows; ++r, row += stride) {
        b0 = better(b0, hn::LoadU(d, row));
        b1 = better(b1, hn::LoadU(d, row + lanes));
        b2 = better(b2, hn::LoadU(d, row + 2 * lanes));
        b3 = better(b3, hn::LoadU(d, row + 3 * lanes));
      }
      hn::StoreU(b0, d, b);
      hn::StoreU(b1, d, b + lanes);
      hn::StoreU(b2, d, b + 2 * lanes);
      hn::StoreU(b3, d, b + 3 * lanes);
    } else {
      V b0 = count == lanes ? hn::LoadU(d, b) : load_some(d, b, count);
      for (int64_t r = 0; r < rows; ++r, row += stride)
        b0 = better(b0, count == lanes ? hn::LoadU(d, row) : load_some(d, row, count));
      store_some(d, b0, b, count);
    }
  });
}
void MaxColumns(const float* x, int64_t rows, int64_t stride, int64_t width, float* best) {
  extreme_columns(x, rows, stride, width, best, Greater());
}
void MinColumns(const float* x, int64_t rows, int64_t stride, int64_t width, float* best) {
  extreme_columns(x, rows, stride, width, best, Less());
}

// Row numbers ride along in 32-bit lanes; longer columns are cut.
template <typename Better>
HWY_INLINE void arg_columns(const float* x, int64_t rows, int64_t stride, int64_t width, int64_t* at) {
  const D d;
  const hn::RebindToSigned<D> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kCut = int64_t{1} << 30;
  for (int64_t begin = 0; begin < width; begin += lanes) {
    const int64_t count = std::min(lanes, width - begin);
    const auto row = [&](int64_t r) HWY_ATTR {
      const float* p = x + r * stride + begin;
      return count == lanes ? hn::LoadU(d, p) : load_some(d, p, count);
    };
    V best = row(0);
    HWY_ALIGN int32_t found[HWY_MAX_BYTES / sizeof(int32_t)];
    std::fill_n(at + begin, count, 0);
    for (int64_t cut = 0; cut < rows; cut += kCut) {
      auto place = hn::Set(di, -1);
      const int64_t end = std::min(rows, cut + kCut);
      for (int64_t r = cut; r < end; ++r) {
        const V v = row(r);
        const auto take = hn::Or(Better::wins(v, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(v)));
        best = hn::IfThenElse(take, v, best);
        place = hn::IfThenElse(hn::RebindMask(di, take), hn::Set(di, static_cast<int32_t>(r - cut)), place);
      }
      hn::Store(place, di, found);
      for (int64_t i = 0; i < count; ++i)
        if (found[i] >= 0) at[begin + i] = cut + found[i];
    }
  }
}
void ArgmaxColumns(const float* x, int64_t rows, int64_t stride, int64_t width, int64_t* at) {
  arg_columns<Greater>(x, rows, stride, width, at);
}
void ArgminColumns(const float* x, int64_t rows, int64_t stride, int64_t width, int64_t* at) {
  arg_columns<Less>(x, rows, stride, width, at);
}

// ---- maps. f(i, v) gives the result for the vector v at place i; rest is how many of its lanes count.

template <typename F>
HWY_INLINE void map_row(const float* x, float* y, int64_t n, const F& f) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(f(hn::LoadU(d, x + i), [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d,
               y + i);
  if (i < n) {
    const auto load = [&](const float* p) HWY_ATTR { return load_some(d, p + i, n - i); };
    store_some(d, f(load(x), load), y + i, n - i);
  }
}

void AffineRow(const float* x, float* y, int64_t n, float center, float scale, float shift) {
  const D d;
  const V m = hn::Set(d, center), a = hn::Set(d, scale), b = hn::Set(d, shift);
  map_row(x, y, n, [&](V v, const auto&) HWY_ATTR { return hn::MulAdd(hn::Sub(v, m), a, b); });
}

void AffineEach(const float* x, float* y, int64_t n, const float* scale, const float* shift) {
  map_row(x, y, n, [&](V v, const auto& load) HWY_ATTR { return hn::MulAdd(v, load(scale), load(shift)); });
}

void NormalizeRow(const float* x, float* y, int64_t n, float mean, float factor, const float* weight,
                  const float* bias) {
  const D d;
  const V m = hn::Set(d, mean), f = hn::Set(d, factor);
  const auto centered = [&](V v) HWY_ATTR { return hn::Mul(hn::Sub(v, m), f); };
  if (weight && bias) {
    map_row(x, y, n, [&](V v, const auto& load) HWY_ATTR {
      return hn::MulAdd(centered(v), load(weight), load(bias));
    });
  } else if (weight) {
    map_row(x, y, n, [&](V v, const auto& load) HWY_ATTR { return hn::Mul(centered(v), load(weight)); });
  } else if (bias) {
    map_row(x, y, n, [&](V v, const auto& load) HWY_ATTR { return hn::Add(centered(v), load(bias)); });
  } else {
    map_row(x, y, n, [&](V v, const auto&) HWY_ATTR { return centered(v); });
  }
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(SumRow);
HWY_EXPORT(SumSquaresRow);
HWY_EXPORT(MomentsRow);
HWY_EXPORT(MaxRow);
HWY_EXPORT(MinRow);
HWY_EXPORT(FindRow);
HWY_EXPORT(SumColumns);
HWY_EXPORT(MomentsColumns);
HWY_EXPORT(MaxColumns);
HWY_EXPORT(MinColumns);
HWY_EXPORT(ArgmaxColumns);
HWY_EXPORT(ArgminColumns);
HWY_EXPORT(AffineRow);
HWY_EXPORT(AffineEach);
HWY_EXPORT(NormalizeRow);

double sum_row(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(SumRow)(x, n); }
double sum_squares_row(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(SumSquaresRow)(x, n); }
Moments moments_row(const float* x, int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(MomentsRow)(x, n, shift);
}
float max_row(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(MaxRow)(x, n); }
float min_row(const float* x, int64_t n) { return HWY_DYNAMIC_DISPATCH(MinRow)(x, n); }
int64_t find_row(const float* x, int64_t n, float value) {
  return HWY_DYNAMIC_DISPATCH(FindRow)(x, n, value);
}
void sum_columns(const float* x, int64_t rows, int64_t stride, int64_t width, double* sums) {
  HWY_DYNAMIC_DISPATCH(SumColumns)(x, rows, stride, width, sums);
}
void moments_columns(const float* x, int64_t rows, int64_t stride, int64_t width, const float* shift,
                     double* first, double* second) {
  HWY_DYNAMIC_DISPATCH(MomentsColumns)(x, rows, stride, width, shift, first, second);
}
void max_columns(const float* x, int64_t rows, int64_t stride, int64_t width, float* best) {
  HWY_DYNAMIC_DISPATCH(MaxColumns)(x, rows, stride, width, best);
}
void min_columns(const float* x, int64_t rows, int64_t stride, int64_t width, float* best) {
  HWY_DYNAMIC_DISPATCH(MinColumns)(x, rows, stride, width, best);
}
void argmax_columns(const float* x, int64_t rows, int64_t stride, int64_t width, int64_t* at) {
  HWY_DYNAMIC_DISPATCH(ArgmaxColumns)(x, rows, stride, width, at);
}
void argmin_columns(const float* x, int64_t rows, int64_t stride, int64_t width, int64_t* at) {
  HWY_DYNAMIC_DISPATCH(ArgminColumns)(x, rows, stride, width, at);
}
void affine_row(const float* x, float* y, int64_t n, float center, float scale, float shift) {
  HWY_DYNAMIC_DISPATCH(AffineRow)(x, y, n, center, scale, shift);
}
void affine_each(const float* x, float* y, int64_t n, const float* scale, const float* shift) {
  HWY_DYNAMIC_DISPATCH(AffineEach)(x, y, n, scale, shift);
}
void normalize_row(const float* x, float* y, int64_t n, float mean, float factor, const float* weight,
                   const float* bias) {
  HWY_DYNAMIC_DISPATCH(NormalizeRow)(x, y, n, mean, factor, weight, bias);
}

}  // namespace sixfold::cpu
#endif  // HWY_ONCE
