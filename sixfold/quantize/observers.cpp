#include <algorithm>
#include <cmath>

#include "sixfold/quantize/observations.h"

namespace sixfold {

std::string_view to_text(Observer observer) {
  switch (observer) {
    case Observer::min_max:
      return "min-max";
    case Observer::moving_average:
      return "moving-average";
    case Observer::mse:
      return "mse";
    case Observer::entropy:
      return "entropy";
    case Observer::percentile:
      return "percentile";
  }
  return "?";
}

std::optional<Observer> observer_of(std::string_view text) {
  for (const Observer o :
       {Observer::min_max, Observer::moving_average, Observer::mse, Observer::entropy, Observer::percentile})
    if (to_text(o) == text) return o;
  return {};
}

namespace {

// How far values may go beyond what samples showed: 16 bits have steps enough, clipping is what hurts.
// Where one sample goes as far beyond the mean one, another may go as far beyond that.
constexpr float kHeadroom = 1.5f, kMostHeadroom = 6;
// Few numbers, as a gate's for each channel or those of one answer, say less of what others will be.
constexpr float kHeadroomOfFew = 3;
constexpr uint64_t kFewNumbers = 512;

// Masks left out.
float least_of(const Observation& seen) {
  return std::isfinite(seen.unmasked_min) ? std::max(seen.min, seen.unmasked_min) : seen.min;
}

float headroom_of(const Observation& seen) {
  if (!(seen.mean_reach > 0)) return kHeadroom;
  return std::clamp(std::max(seen.max, -least_of(seen)) / seen.mean_reach, kHeadroom, kMostHeadroom);
}

// seen with room on either side. What few numbers showed on one side of zero may lie on the other one.
Range with_room(const Observation& seen, Range range, const Range* can_be) {
  const float room = headroom_of(seen);
  if (!can_be || seen.count == 0 || seen.count >= kFewNumbers) return {range.min * room, range.max * room};
  const float least = least_of(seen), span = seen.max - least, most = std::max(room, kHeadroomOfFew);
  const Range wide{std::min(range.min * most, least - span), std::max(range.max * most, seen.max + span)};
  return {std::min(range.min, std::max(wide.min, can_be->min)),
          std::max(range.max, std::min(wide.max, can_be->max))};
}

// Sums over the bins below or above a place, so that what a range costs is known at once.
class Error2 {
 public:
  explicit Error2(const Observation& seen, Range live = kEverything) {
    const size_t n = seen.histogram.size();
    width_ = (static_cast<double>(seen.high) - seen.low) / static_cast<double>(n);
    for (auto* s : {&count_, &sum_, &square_}) s->assign(n + 1, 0.0);
    for (size_t i = 0; i < n; ++i) {
      const double c = seen.histogram[i];
      const double x =
          std::clamp<double>(seen.low + (static_cast<double>(i) + 0.5) * width_, live.min, live.max);
      count_[i + 1] = count_[i] + c;
      sum_[i + 1] = sum_[i] + c * x;
      square_[i + 1] = square_[i] + c * x * x;
    }
  }
  // Squared error of elements that are clipped to [bin first, bin last) and rounded to `steps` steps in it.
  double operator()(size_t first, size_t last, double low, double high, double steps) const {
    const size_t n = count_.size() - 1;
    const double step = (high - low) / steps;
    const double below = square_[first] - 2 * low * sum_[first] + low * low * count_[first];
    const double c = count_[n] - count_[last], s = sum_[n] - sum_[last], q = square_[n] - square_[last];
    const double above = q - 2 * high * s + high * high * c;
    return below + above + (count_[last] - count_[first]) * step * step / 12;
  }
  double width() const { return width_; }
  double count(size_t i) const { return count_[i]; }

 private:
  double width_ = 0;
  std::vector<double> count_, sum_, square_;
};

// The range that leaves the least squared error: each end in turn, the other one fixed.
Range least_error(const Observation& seen, Range range, int bits, bool symmetric, Range live) {
  const Error2 error(seen, live);
  const size_t n = seen.histogram.size();
  const double steps = std::ldexp(1.0, bits) - 1;
  const auto edge = [&](size_t i) { return seen.low + static_cast<double>(i) * error.width(); };
  const auto zero =
      static_cast<size_t>(std::clamp(std::round(-seen.low / error.width()), 0.0, static_cast<double>(n)));
  size_t first = 0, last = n;
  const auto low_of = [&](size_t i) { return i == 0 ? range.min : edge(i); };
  const auto high_of = [&](size_t i) { return i == n ? range.max : edge(i); };
  const auto cost = [&](size_t f, size_t l) {
    double low = low_of(f), high = high_of(l);
    if (symmetric) high = std::max(high, -low), low = -high;
    if (!(high > low)) return std::numeric_limits<double>::infinity();
    return error(f, l, low, high, steps);
  };
  if (symmetric) {
    double best = cost(0, n);
    const size_t most = std::max(zero, n - zero);
    for (size_t k = 1; k < most; ++k) {
      const size_t f = zero > k ? zero - k : 0, l = std::min(n, zero + k);
      if (const double e = cost(f, l); e < best) best = e, first = f, last = l;
    }
    return {static_cast<float>(low_of(first)), static_cast<float>(high_of(last))};
  }
  double best = cost(first, last);
  for (int round = 0; round < 4; ++round) {
    const double before = best;
    for (size_t l = zero; l <= n; ++l)
      if (const double e = cost(first, l); e < best) best = e, last = l;
    for (size_t f = 0; f <= zero; ++f)
      if (const double e = cost(f, last); e < best) best = e, first = f;
    if (!(best < before)) break;
  }
  return {static_cast<float>(low_of(first)), static_cast<float>(high_of(last))};
}

// All but a ten-thousandth of the elements on either side.
Range most_elements(const Observation& seen, Range range) {
  constexpr double kLeftOut = 1e-4;
  const Error2 error(seen);
  const size_t n = seen.histogram.size();
  const double all = error.count(n);
  size_t first = 0, last = n;
  while (first < n && error.count(first + 1) < all * kLeftOut) ++first;
  while (last > 0 && all - error.count(last - 1) < all * kLeftOut) --last;
  const auto edge = [&](size_t i) {
    return static_cast<float>(seen.low + static_cast<double>(i) * error.width());
  };
  return {first == 0 ? range.min : std::max(range.min, edge(first)),
          last == n ? range.max : std::min(range.max, edge(last))};
}

// The range whose rounded distribution tells most about the true one (Kullback-Leibler), grown around zero.
Range least_divergence(const Observation& seen, Range range, int bits) {
  const size_t n = seen.histogram.size();
  const auto levels = static_cast<size_t>(1) << std::min(bits, 8);  // more than bins tell nothing
  const double width = (static_cast<double>(seen.high) - seen.low) / static_cast<double>(n);
  const double zero = std::clamp(-seen.low / width, 0.0, static_cast<double>(n));
  double best = std::numeric_limits<double>::infinity();
  Range out = range;
  for (int k = 32; k <= 128; ++k) {  // ends at k/128 of the way from zero
    const auto first = static_cast<size_t>(zero - zero * k / 128);
    const auto last = static_cast<size_t>(std::ceil(zero + (static_cast<double>(n) - zero) * k / 128));
    if (last - first < levels) continue;
    std::vector<double> p(seen.histogram.begin() + static_cast<ptrdiff_t>(first),
                          seen.histogram.begin() + static_cast<ptrdiff_t>(last));
    for (size_t i = 0; i < first; ++i) p.front() += seen.histogram[i];
    for (size_t i = last; i < n; ++i) p.back() += seen.histogram[i];
    double divergence = 0, total = 0;
    for (const double x : p) total += x;
    for (size_t level = 0; level < levels; ++level) {
      const size_t b = level * p.size() / levels, e = (level + 1) * p.size() / levels;
      double kept = 0;  // kept: without what was clipped into the ends
      size_t used = 0;
      for (size_t i = b; i < e; ++i) {
        kept += seen.histogram[first + i];
        used += p[i] > 0;
      }
      const double q = used ? std::max(kept, 1e-3) / static_cast<double>(used) : 0;
      for (size_t i = b; i < e; ++i)
        if (p[i] > 0) divergence += p[i] / total * std::log(p[i] / q);
    }
    if (divergence < best) {
      best = divergence;
      out = {k == 128 ? range.min : static_cast<float>(seen.low + static_cast<double>(first) * width),
             k == 128 ? range.max : static_cast<float>(seen.low + static_cast<double>(last) * width)};
    }
  }
  return out;
}

}  // namespace

Range choose_range(const Observation& seen, Observer observer, int bits, bool symmetric, Range live,
                   const Range* can_be) {
  if (!seen.seen()) return {0, 1};
  Range out{seen.min, seen.max};
  if (observer == Observer::moving_average) out = {seen.average_min, seen.average_max};
  out = {std::min(out.min, 0.0f), std::max(out.max, 0.0f)};
  const bool counted = !seen.histogram.empty() && seen.high > seen.low;
  const bool rows = std::isfinite(seen.row_max);
  // A softmax forgets what is far below the largest of its row; masked elements must be that far.
  float floor = 0;
  if (rows) {
    floor = seen.row_max - (bits <= 8 ? 8 : kForgotten);
    out.min = std::min(0.0f, seen.min <= kMask || seen.non_finite ? floor : std::max(out.min, floor));
  }
  if (observer == Observer::mse && bits >= 12) {
    const Range wide = with_room(seen, out, can_be);
    out = {rows ? out.min : wide.min, wide.max};
  } else if (counted && observer == Observer::mse) {
    const Range r = least_error(seen, out, bits, symmetric, live);
    out = {rows ? out.min : std::max(out.min, std::min(r.min, 0.0f)), std::max(r.max, 0.0f)};
  } else if (counted && observer == Observer::percentile) {
    const Range r = most_elements(seen, out);
    out = {rows ? out.min : std::min(r.min, 0.0f), std::max(r.max, 0.0f)};
  } else if (counted && observer == Observer::entropy) {
    const Range r = least_divergence(seen, out, bits);
    out = {rows ? out.min : std::min(r.min, 0.0f), std::max(r.max, 0.0f)};
  }
  out = {std::max(out.min, std::min(live.min, 0.0f)), std::min(out.max, std::max(live.max, 0.0f))};
  if (!(out.max > out.min)) out.max = 1;  // nothing but zeros, which any scale has
  return out;
}

}  // namespace sixfold
