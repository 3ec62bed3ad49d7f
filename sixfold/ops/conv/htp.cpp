// Convolutions as those that the NPU has.
#include "sixfold/rewrite/htp.h"

#include <algorithm>
#include <cstring>

#include "sixfold/graph/stuffed.h"

namespace sixfold::htp {
namespace {

// Numbers of the spatial axes behind those of a filter's other two.
Shape of_taps(int64_t others, Shape taps) {
  taps.insert(taps.begin(), 2, others);
  return taps;
}

// The transposed filter [C, O / groups, ...] as one of a single group: [C, O, ...], zeros between groups.
Tensor ungrouped(const Tensor& weight, int64_t groups) {
  const Tensor w = to_contiguous(weight);
  Shape shape = w.shape;
  shape[1] *= groups;
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(w.dtype, shape, &bytes);
  const auto part = static_cast<size_t>(w.count() / w.shape[0]) * size_of(w.dtype);
  for (int64_t c = 0; c < w.shape[0]; ++c) {
    const auto at = static_cast<size_t>(c), group = static_cast<size_t>(c / (w.shape[0] / groups));
    std::memcpy(bytes + (at * static_cast<size_t>(groups) + group) * part, w.data + at * part, part);
  }
  return out;
}

// Whether whole windows lie in the padding, which is right for single taps.  [htp.pad.3]
bool holds_windows(const Htp& h) {
  const Attrs& a = h.attrs();
  const Dims& weight = h.graph.type(h.node().input(1)).dims;
  const Shape before = a.ints("padding"), after = a.ints("padding_end"), dilation = a.ints("dilation");
  bool beyond = false, several = false;
  for (size_t i = 0; i < before.size() && !a.flag("transposed"); ++i) {
    const int64_t taps = weight[i + 2].value_or(1);
    several = several || taps > 1;
    beyond = beyond || std::max(before[i], after[i]) > (taps - 1) * dilation[i];
  }
  return beyond && several;
}

// Of one tap along an axis the dilation says nothing, and the device does not take it with strides.
std::optional<Shape> needed_dilation(const Htp& h) {
  const Shape given = h.attrs().ints("dilation");
  Shape needed = given;
  const Dims& weight = h.graph.type(h.node().input(1)).dims;
  for (size_t i = 0; i < needed.size(); ++i)
    if (weight[i + 2].value_or(2) == 1) needed[i] = 1;
  return needed == given ? std::nullopt : std::optional(needed);
}

// How many places at the end of a transposed convolution no tap reaches, where steps are as wide as the
// filter: the library gives anything there.  [htp.conv.9]
std::optional<Shape> unreached(const Htp& h, const Tensor& weight) {
  const Attrs& a = h.attrs();
  const Shape extra = a.ints("output_padding"), padding = a.ints("padding"), stride = a.ints("stride");
  Shape places(extra.size(), 0);
  bool any = false;
  for (size_t i = 0; i < extra.size(); ++i) {
    if (extra[i] <= padding[i] || weight.shape[i + 2] > stride[i]) continue;
    places[i] = extra[i];
    any = true;
  }
  return any ? std::optional(places) : std::nullopt;
}

// The padding as an op of its own.
Match padded_before(Htp& h) {
  Shape before = h.attrs().ints("padding"), after = h.attrs().ints("padding_end");
  Attrs attrs = h.attrs();
  for (const char* name : {"padding", "padding_end"}) attrs.set(name, to_dims(Shape(before.size(), 0)));
  before.insert(before.begin(), 2, 0);
  after.insert(after.begin(), 2, 0);
  std::vector<ValueId> inputs = h.node().inputs;
  inputs[0] =
      h.add(Op::pad, {inputs[0]},
            {{"before", to_dims(before)}, {"after", to_dims(after)}, {"mode", "constant"}, {"value", 0.0}});
  return h.result(h.add(Op::convolution, std::move(inputs), std::move(attrs)));
}

}  // namespace

Match convolution(Htp& h) {
  const Attrs& a = h.attrs();
  if (holds_windows(h)) return padded_before(h);
  if (const auto needed = needed_dilation(h)) {
    Attrs attrs = a;
    attrs.set("dilation", to_dims(*needed));
    return h.result(h.add(Op::convolution, h.node().inputs, std::move(attrs)));
  }
  const Shape dilation = a.ints("dilation");
  bool dilated = false, strided = false;
  for (const int64_t d : dilation) dilated = dilated || d != 1;
  for (const int64_t s : a.ints("stride")) strided = strided || s != 1;
  // Nor do filters for each channel have both.
  const Tensor* filter = h.constant_data(h.in(1));
  const bool depthwise = filter && a.integer("groups") > 1 && filter->shape[1] == 1;
  if (dilated && (a.flag("transposed") || dilation.size() == 3 || (strided && depthwise))) {
    const Tensor* w = h.constant_data(h.in(1));
    if (!w) return h.unsupported("the device has no dilation in a transposed convolution or in a volume");
    std::vector<ValueId> inputs = h.node().inputs;
    inputs[1] = h.patch.constant(stuffed(*w, of_taps(1, dilation), Shape(w->shape.size(), 0)),
                                 h.graph.value(h.in(1)).encoding);
    Attrs attrs = a;
    attrs.set("dilation", to_dims(Shape(dilation.size(), 1)));
    return h.result(h.add(Op::convolution, std::move(inputs), std::move(attrs)));
  }
  if (filter && a.flag("transposed")) {
    if (const auto places = unreached(h, *filter)) {
      std::vector<ValueId> inputs = h.node().inputs;
      inputs[1] = h.patch.constant(stuffed(*filter, Shape(filter->shape.size(), 1), of_taps(0, *places)),
                                   h.graph.value(h.in(1)).encoding);
      Attrs attrs = a;
      Shape extra = a.ints("output_padding");
      for (size_t i = 0; i < extra.size(); ++i) extra[i] -= (*places)[i];
      attrs.set("output_padding", to_dims(extra));
      return h.result(h.add(Op::convolution, std::move(inputs), std::move(attrs)));
    }
  }
  // What the library computes wrongly (lower.cpp).
  const int64_t groups = a.integer("groups");
  if (const Tensor* w = h.constant_data(h.in(1)); w && a.flag("transposed") && groups > 1) {
    const Shape padding = a.ints("padding"), extra = a.ints("output_padding");
    bool beyond = false;
    for (size_t i = 0; i < padding.size(); ++i) beyond = beyond || extra[i] > padding[i];
    const bool depthwise = groups == w->shape[0] && w->shape[1] == 1;
    const auto& scales = h.graph.value(h.in(1)).encoding;
    const bool shared_scales = h.target.quantizes || (scales && scales->axis >= 0);
    if (padding.size() == 3 || (depthwise && beyond) || shared_scales) {
      std::vector<ValueId> inputs = h.node().inputs;
      std::optional<Encoding> e = h.graph.value(h.in(1)).encoding;
      if (e && e->block > 0) return h.unsupported("groups of a transposed convolution with block scales");
      for (int64_t g = 1; e && e->axis == 1 && g < groups; ++g)  // every group has the same
        for (int64_t i = 0; i < w->shape[1]; ++i) {
          e->scales.push_back(e->scales[static_cast<size_t>(i)]);
          e->zero_points.push_back(e->zero_points[static_cast<size_t>(i)]);
        }
      inputs[1] = h.patch.constant(ungrouped(*w, groups), std::move(e));
      Attrs attrs = a;
      attrs.set("groups", Dim(1));
      return h.result(h.add(Op::convolution, std::move(inputs), std::move(attrs)));
    }
  }
  return no_match("the device has it");
}

}  // namespace sixfold::htp
