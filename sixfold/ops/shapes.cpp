#include "sixfold/ops/shapes.h"

#include <algorithm>

namespace sixfold {

Result<Dims> broadcast(const Dims& a, const Dims& b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims out(rank);
  for (size_t i = 0; i < rank; ++i) {  // from the last axis
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    Dim& z = out[rank - 1 - i];
    if (x == Dim(1))
      z = y;
    else if (y == Dim(1) || x == y)
      z = x;
    else if (x.is_static() && y.is_static())
      return invalid_model("shapes ", a, " and ", b, " do not broadcast");
    else
      z = x.is_static() ? x : y.is_static() ? y : x;  // a symbol meeting a number must be that number
  }
  return out;
}

Dim window_extent(const Dim& in, int64_t kernel, int64_t stride, int64_t before, int64_t after,
                  int64_t dilation, bool ceil_mode) {
  const Dim room = in + Dim(before + after - dilation * (kernel - 1) - 1);
  if (!ceil_mode) return floordiv(room, Dim(stride)) + Dim(1);
  Dim out = floordiv(room + Dim(stride - 1), Dim(stride)) + Dim(1);
  if (out.is_static() && in.is_static() && (out.value() - 1) * stride >= in.value() + before)
    out = out - Dim(1);
  return out;
}

Result<Dim> slice_length(const Attrs& attrs, const Dim& extent) {
  const Attr* first = attrs.find("start");
  const Attr* last = attrs.find("end");
  const Dim* start = first ? std::get_if<Dim>(first) : nullptr;
  const Dim* end = last ? std::get_if<Dim>(last) : nullptr;
  const int64_t step = attrs.integer("step");
  if (!start || !end || step < 1) return invalid_model("slice without bounds, or of step ", step);
  if (start->value_or(0) < 0 || start->value_or(0) > end->value_or(kMaxDim) ||
      end->value_or(0) > extent.value_or(kMaxDim))
    return invalid_model("slice ", *start, ":", *end, ":", step, " of an axis of ", extent);
  return floordiv(*end - *start + Dim(step - 1), Dim(step));
}

}  // namespace sixfold
