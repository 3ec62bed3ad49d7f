#include "sixfold/quantize/statistics.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/quantize/statistics.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void extremes(const float* x, int64_t n, Extremes* out) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto low0 = hn::Set(d, out->min), low1 = low0, high0 = hn::Set(d, out->max), high1 = high0;
  auto zero0 = hn::Zero(d), zero1 = zero0;  // times 0 only what is not finite leaves a NaN
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + lanes);
    low0 = hn::Min(low0, a);
    low1 = hn::Min(low1, b);
    high0 = hn::Max(high0, a);
    high1 = hn::Max(high1, b);
    zero0 = hn::MulAdd(a, hn::Zero(d), zero0);
    zero1 = hn::MulAdd(b, hn::Zero(d), zero1);
  }
  float rest = 0;
  out->min = hn::GetLane(hn::MinOfLanes(d, hn::Min(low0, low1)));
  out->max = hn::GetLane(hn::MaxOfLanes(d, hn::Max(high0, high1)));
  for (; i < n; ++i) {
    out->min = std::min(out->min, x[i]);
    out->max = std::max(out->max, x[i]);
    rest += x[i] * 0.0f;
  }
  out->finite = hn::GetLane(hn::SumOfLanes(d, hn::Add(zero0, zero1))) + rest == 0.0f;
}

// Infinities and NaN reach the sums: comparisons leave what is neither below nor above as it is.
void add_errors(const float* want, const float* got, int64_t n, float low, float high, ErrorSums* out) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> f;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto least = hn::Set(f, low), most = hn::Set(f, high);
  const auto within = [&](auto x) {
    x = hn::IfThenElse(hn::Lt(x, least), least, x);
    return hn::PromoteTo(d, hn::IfThenElse(hn::Gt(x, most), most, x));
  };
  auto power0 = hn::Zero(d), power1 = power0, error0 = power0, error1 = power0;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto a = hn::LoadU(f, want + i), b = hn::LoadU(f, want + i + lanes);
    const auto x = hn::PromoteTo(d, a), y = hn::PromoteTo(d, b);
    const auto p = hn::Sub(within(a), within(hn::LoadU(f, got + i)));
    const auto q = hn::Sub(within(b), within(hn::LoadU(f, got + i + lanes)));
    power0 = hn::MulAdd(x, x, power0);
    power1 = hn::MulAdd(y, y, power1);
    error0 = hn::MulAdd(p, p, error0);
    error1 = hn::MulAdd(q, q, error1);
  }
  out->power += hn::GetLane(hn::SumOfLanes(d, hn::Add(power0, power1)));
  out->error += hn::GetLane(hn::SumOfLanes(d, hn::Add(error0, error1)));
  const auto cut = [&](float x) { return static_cast<double>(x < low ? low : x > high ? high : x); };
  for (; i < n; ++i) {
    const double e = cut(want[i]) - cut(got[i]);
    out->power += static_cast<double>(want[i]) * want[i];
    out->error += e * e;
  }
}

}  // namespace sixfold::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold {

HWY_EXPORT(extremes);
HWY_EXPORT(add_errors);

Extremes extremes_of(const float* x, int64_t n) {
  Extremes out;
  HWY_DYNAMIC_DISPATCH(extremes)(x, n, &out);
  return out;
}

ErrorSums error_sums(const float* want, const float* got, int64_t n, float low, float high) {
  ErrorSums out;
  HWY_DYNAMIC_DISPATCH(add_errors)(want, got, n, low, high, &out);
  return out;
}

double Histogram::low() const { return std::ldexp(static_cast<double>(first_), exponent_); }
double Histogram::high() const {
  return std::ldexp(static_cast<double>(first_ + static_cast<int64_t>(counts_.size())), exponent_);
}

void Histogram::coarsen(int exponent) {
  if (exponent <= exponent_) return;
  if (counts_.empty()) {
    exponent_ = exponent;
    return;
  }
  const int shift = std::min(exponent - exponent_, 62);
  const int64_t first = first_ >> shift;  // rounds down, as bins do
  const int64_t last = (first_ + static_cast<int64_t>(counts_.size()) - 1) >> shift;
  std::vector<uint64_t> counts(static_cast<size_t>(last - first + 1));
  for (size_t i = 0; i < counts_.size(); ++i)
    counts[static_cast<size_t>(((first_ + static_cast<int64_t>(i)) >> shift) - first)] += counts_[i];
  counts_ = std::move(counts);
  first_ = first;
  exponent_ = exponent;
}

void Histogram::widen(int64_t first, int64_t last) {
  if (!counts_.empty()) {
    first = std::min(first, first_);
    last = std::max(last, first_ + static_cast<int64_t>(counts_.size()) - 1);
  }
  std::vector<uint64_t> counts(static_cast<size_t>(last - first + 1));
  if (!counts_.empty()) std::copy(counts_.begin(), counts_.end(), counts.begin() + (first_ - first));
  counts_ = std::move(counts);
  first_ = first;
}

void Histogram::cover(float low, float high) {
  const double lo = std::min({0.0, static_cast<double>(low), counts_.empty() ? 0.0 : this->low()});
  // The last bin is half open: what is covered already ends just before high().
  double hi = std::max(0.0, static_cast<double>(high));
  int64_t last_now = 0;
  if (!counts_.empty()) last_now = first_ + static_cast<int64_t>(counts_.size()) - 1;
  if (!counts_.empty() && last_now > 0)
    hi = std::max(hi, std::ldexp(static_cast<double>(last_now), exponent_));
  if (!counts_.empty() && lo >= this->low() && hi < this->high()) return;
  const double span = std::max(hi - lo, 1e-30);
  int exponent = std::max(exponent_, std::ilogb(span / static_cast<double>(kMostBins)));
  const auto bin = [&](double x) { return static_cast<int64_t>(std::floor(std::ldexp(x, -exponent))); };
  while (bin(hi) - bin(lo) >= kMostBins) ++exponent;
  coarsen(exponent);
  widen(bin(lo), bin(hi));
}

void Histogram::add(const float* x, int64_t n) {
  // A power of two: the product is exact, so an element's bin does not depend on when the bins were made.
  const double inverse = std::ldexp(1.0, -exponent_);
  const auto first = static_cast<double>(first_);
  const double end = first + static_cast<double>(counts_.size());
  for (int64_t i = 0; i < n; ++i) {
    const double y = static_cast<double>(x[i]) * inverse;
    if (!(y >= first && y < end)) continue;
    auto b = static_cast<int64_t>(y);  // towards zero; std::floor is a call
    b -= static_cast<double>(b) > y;
    ++counts_[static_cast<size_t>(b - first_)];
  }
}

void Histogram::merge(const Histogram& other) {
  if (other.empty()) return;
  Histogram theirs = other;
  const int exponent = std::max(exponent_, theirs.exponent_);
  coarsen(exponent);
  theirs.coarsen(exponent);
  while (true) {
    const int64_t last = theirs.first_ + static_cast<int64_t>(theirs.counts_.size()) - 1;
    const int64_t mine = counts_.empty() ? last : first_ + static_cast<int64_t>(counts_.size()) - 1;
    const int64_t first = counts_.empty() ? theirs.first_ : std::min(first_, theirs.first_);
    if (std::max(last, mine) - first < kMostBins) break;
    coarsen(exponent_ + 1);
    theirs.coarsen(exponent_);
  }
  widen(theirs.first_, theirs.first_ + static_cast<int64_t>(theirs.counts_.size()) - 1);
  for (size_t i = 0; i < theirs.counts_.size(); ++i)
    counts_[static_cast<size_t>(theirs.first_ - first_) + i] += theirs.counts_[i];
}

void Histogram::pack(Packer& to) const {
  to.add(exponent_);
  to.add(first_);
  to.add_list(counts_);
}

Histogram Histogram::unpack(Unpacker& from) {
  Histogram out;
  out.exponent_ = from.take<int>();
  out.first_ = from.take<int64_t>();
  out.counts_ = from.take_list<uint64_t>();
  return out;
}

}  // namespace sixfold
#endif
