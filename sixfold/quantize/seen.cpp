#include "sixfold/quantize/seen.h"

#include <algorithm>
#include <cmath>

#include "sixfold/quantize/masks.h"

namespace sixfold {
namespace {

// Of a value in one sample, a histogram takes so many elements at most, in short runs spread over all of
// them.
constexpr int64_t kRun = 16, kMostRuns = 256;

// The least of the rows' largest elements, rows that are masked as a whole left out.
void look_at_rows(Seen& seen, const cpu::TensorDesc& desc, const float* x) {
  if (desc.rank() == 0 || !cpu::is_row_major(desc)) return;
  const int64_t width = desc.shape.back();
  for (int64_t r = 0; r < desc.count(); r += width) {
    const float most = extremes_of(x + r, width).max;
    if (most > kMask) seen.row_max = std::min(seen.row_max, most);
  }
}

void count(const Seen& seen, bool masked, const float* x, int64_t n, Histogram& h) {
  const float low = masked ? seen.unmasked_min : seen.min;
  if (!(low <= seen.max)) return;
  h.cover(low, seen.max);
  const int64_t step = n / (kRun * kMostRuns);
  if (step <= 1) return h.add(x, n);
  uint32_t place = 1;  // runs at places that no layout lines up with
  for (int64_t i = 0; i + kRun * step <= n; i += kRun * step) {
    place = place * 1664525u + 1013904223u;
    h.add(x + i + (place >> 8) % static_cast<uint32_t>(kRun * (step - 1)), kRun);
  }
}

void look_at_channels(const cpu::TensorDesc& desc, const float* x, std::vector<Range>& ranges) {
  const size_t axis = channel_axis(desc.rank());
  const int64_t channels = desc.shape[axis], inner = desc.strides[axis];
  if (ranges.empty())
    ranges.assign(static_cast<size_t>(channels),
                  {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()});
  const auto widen = [](Range& r, float min, float max) {
    r.min = std::min(r.min, min);
    r.max = std::max(r.max, max);
  };
  const int64_t n = desc.count();
  if (inner == 1) {
    for (int64_t i = 0; i < n; i += channels)
      for (int64_t c = 0; c < channels; ++c) widen(ranges[static_cast<size_t>(c)], x[i + c], x[i + c]);
    return;
  }
  for (int64_t i = 0; i < n; i += inner) {
    const Extremes e = extremes_of(x + i, inner);
    widen(ranges[static_cast<size_t>(i / inner % channels)], e.min, e.max);
  }
}

}  // namespace

size_t channel_axis(size_t rank) { return rank >= 4 ? 1 : rank - 1; }

void Seen::merge(const Seen& o) {
  min = std::min(min, o.min);
  max = std::max(max, o.max);
  unmasked_min = std::min(unmasked_min, o.unmasked_min);
  row_max = std::min(row_max, o.row_max);
  non_finite = non_finite || o.non_finite;
  count += o.count;
}

void SeenValues::merge(const SeenValues& other) {
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].merge(other.all[i]);
    histograms[i].merge(other.histograms[i]);
    auto& mine = channels[i];
    const auto& theirs = other.channels[i];
    if (mine.empty()) mine = theirs;
    for (size_t c = 0; c < theirs.size(); ++c)
      mine[c] = {std::min(mine[c].min, theirs[c].min), std::max(mine[c].max, theirs[c].max)};
  }
}

void SeenValues::pack(Packer& to) const {
  for (size_t i = 0; i < all.size(); ++i) {
    to.add(all[i]);
    histograms[i].pack(to);
    to.add_list(channels[i]);
  }
}

SeenValues SeenValues::unpack(Unpacker& from, size_t values) {
  SeenValues out(values);
  for (size_t i = 0; i < values; ++i) {
    out.all[i] = from.take<Seen>();
    out.histograms[i] = Histogram::unpack(from);
    out.channels[i] = from.take_list<Range>();
  }
  return out;
}

Looker::Looker(const Graph& graph, bool histograms)
    : graph_(graph),
      histograms_(histograms),
      masked_(find_masked(graph)),
      rows_(find_softmax_operands(graph)) {}

Status Looker::look(ValueId v, const cpu::TensorDesc& desc, const float* x, bool channels,
                    SeenValues& to) const {
  const int64_t n = desc.count();
  Seen& seen = to.sample[v.index];
  seen.count += static_cast<uint64_t>(n);
  const Extremes e = extremes_of(x, n);
  seen.min = seen.unmasked_min = e.min;
  seen.max = e.max;
  if (!e.finite) SF_TRY(look_closely(seen, v, x, n));
  const bool masked = masked_[v.index] && seen.min <= kMask;
  if (masked || !e.finite) {
    seen.unmasked_min = std::numeric_limits<float>::infinity();
    for (int64_t i = 0; i < n; ++i)
      if (x[i] > kMask) seen.unmasked_min = std::min(seen.unmasked_min, x[i]);
  }
  if (rows_[v.index]) look_at_rows(seen, desc, x);
  if (histograms_) count(seen, masked, x, n, to.histograms[v.index]);
  if (channels && desc.rank() >= 2) look_at_channels(desc, x, to.channels[v.index]);
  return {};
}

Error Looker::not_finite(ValueId v, const char* what) const {
  const Node* node = graph_.producer(v);
  const std::string who = node ? describe(graph_, *node) : cat("input ", graph_.value(v).name);
  return invalid_argument(who, " has ", what, " among its values, and no range covers that");
}

// Something is not finite: a mask, or an error.
Status Looker::look_closely(Seen& seen, ValueId v, const float* x, int64_t n) const {
  seen.non_finite = true;
  seen.min = std::numeric_limits<float>::infinity();
  seen.max = -seen.min;
  for (int64_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) return not_finite(v, "a NaN");
    if (x[i] == std::numeric_limits<float>::infinity()) return not_finite(v, "an infinity");
    if (std::isinf(x[i])) {
      if (!masked_[v.index]) return not_finite(v, "an infinity");
      continue;
    }
    seen.min = std::min(seen.min, x[i]);
    seen.max = std::max(seen.max, x[i]);
  }
  if (seen.max < seen.min) seen.min = seen.max = kMask;  // a mask of nothing but infinities
  return {};
}

}  // namespace sixfold
