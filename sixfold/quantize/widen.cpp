#include "sixfold/quantize/widen.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

constexpr double kOutliers = 0.005;   // so many of a value's elements may be far from the others
constexpr double kLeastRatio = 30.0;  // of what the others are, squared, to what rounding adds: 15 dB

// The mean square of all elements but the largest ones. Zero: nobody counted.
double body_of(const Observation& o) {
  if (o.histogram.empty() || !(o.high > o.low)) return 0;
  const size_t n = o.histogram.size();
  const double width = (static_cast<double>(o.high) - o.low) / static_cast<double>(n);
  const auto place = [&](size_t i) { return o.low + (static_cast<double>(i) + 0.5) * width; };
  double count = 0, left = 0;
  for (const double c : o.histogram) count += c;
  left = count * kOutliers;
  // From both ends inwards, whichever is further from zero.
  size_t first = 0, last = n;
  while (first < last) {
    const bool low = std::fabs(place(first)) > std::fabs(place(last - 1));
    const double c = o.histogram[low ? first : last - 1];
    if (c > left) break;
    left -= c;
    low ? ++first : --last;
  }
  double sum = 0, kept = 0;
  for (size_t i = first; i < last; ++i) {
    sum += o.histogram[i] * place(i) * place(i);
    kept += o.histogram[i];
  }
  return kept > 0 ? sum / kept : 0;
}

}  // namespace

std::set<uint32_t> find_wide_nodes(const Graph& graph, const QuantizePlan& plan, const Observations& seen) {
  std::set<uint32_t> out;
  for (const GridGroup& g : plan.groups) {
    if (g.bits != 8 || g.fixed) continue;
    Range range{};
    double body = 0;
    for (const ValueId v : g.ranged) {
      if (v.index >= seen.values.size() || !seen.values[v.index].seen()) continue;
      const Observation& o = seen.values[v.index];
      const Range r = choose_range(o, Observer::min_max, g.bits, g.symmetric);
      range = {std::min(range.min, r.min), std::max(range.max, r.max)};
      const double b = body_of(o);
      if (b > 0) body = body > 0 ? std::min(body, b) : b;
    }
    const double step = (static_cast<double>(range.max) - range.min) / 255;
    if (!(body > 0) || body >= kLeastRatio * step * step / 12) continue;
    for (const ValueId v : g.members) {
      if (const Node* p = graph.producer(v)) out.insert(p->id.index);
      for (const NodeId u : graph.value(v).users) out.insert(u.index);
    }
  }
  return out;
}

}  // namespace sixfold
