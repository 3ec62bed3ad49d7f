#include "sixfold/quantize/layer_rows.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "sixfold/base/recycled.h"

namespace sixfold {
namespace {

constexpr int64_t kMostInputs = 32768;
constexpr size_t kMostFloats = size_t{1} << 26;  // that are kept of all layers
// Rows times weights: fewer rows tell nearly as much, and what is done with them takes as long as that.
constexpr size_t kMostProducts = size_t{6} << 30;

// A value that a reshape only renames is shown under the name of its operand.
ValueId shown_as(const Graph& graph, ValueId v) {
  while (const Node* node = graph.producer(v)) {
    if (node->op != Op::reshape) break;
    v = node->input(0);
  }
  return v;
}

// Numbers that look random and are the same every time.
class Places {
 public:
  explicit Places(size_t sample) : state_(static_cast<uint32_t>(sample) * 2654435761u + 1) {}
  int64_t operator()(int64_t n) {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<int64_t>((state_ >> 8) % static_cast<uint32_t>(n));
  }

 private:
  uint32_t state_;
};

}  // namespace

size_t LayerInputs::rows() const {
  size_t n = 0;
  for (const auto& s : samples) n += s.size();
  return n / static_cast<size_t>(groups * inputs);
}

LayerRows::LayerRows(const Graph& graph, size_t samples, size_t rows)
    : graph_(graph), readers_(graph.value_count()), samples_(std::max<size_t>(samples, 1)) {
  size_t width = 1, weights = 1;
  std::set<ValueId> counted;  // weights: steps of a recurrent layer share theirs
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) continue;
    const Tensor* w = graph.constant(node.input(1));
    if (!w || w->dtype != DType::f32 || w->count() == 0 || graph.dtype(node.input(0)) != DType::f32) continue;
    LayerInputs l{.node = id, .source = shown_as(graph, node.input(0))};
    l.transposed = node.op == Op::convolution && node.attrs.flag("transposed");
    l.given = graph.value(node.input(1)).encoding.has_value();
    l.shape = static_shape(graph.dims(node.input(0)));
    l.groups = node.op == Op::convolution ? node.attrs.integer("groups") : 1;
    const int64_t out_channels = l.transposed ? w->shape[1] * l.groups : w->shape[0];
    for (size_t a = 2; l.transposed && a < w->shape.size(); ++a) l.taps *= w->shape[a];
    l.channels = out_channels / l.groups * l.taps;
    l.inputs = l.transposed ? w->shape[0] / l.groups : w->count() / w->shape[0];
    if (l.inputs < 2 || l.groups * l.inputs > kMostInputs || numel(l.shape) == 0) continue;
    l.samples.resize(samples_);
    width += static_cast<size_t>(l.groups * l.inputs);
    if (counted.insert(node.input(1)).second) weights += static_cast<size_t>(w->count());
    readers_[l.source.index].push_back(layers_.size());
    layers_.push_back(std::move(l));
  }
  most_ = std::max<size_t>(std::min({rows, kMostFloats / width, kMostProducts / weights}) / samples_, 1);
  memory_.resize(layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) {  // a layer without memory is one that nothing is known of
    auto block = OwnedBlock::take(recycled_memory(), samples_ * floats_of(layers_[i]) * sizeof(float),
                                  "what a layer reads");
    if (block.ok()) memory_[i] = std::move(block).value();
  }
}

int64_t LayerRows::rows_of(const LayerInputs& l) const {
  const Node& node = graph_.node(l.node);
  int64_t all = numel(l.shape) / l.inputs;
  if (node.op != Op::linear) {
    const Shape places = l.transposed ? l.shape : static_shape(graph_.dims(node.output()));
    all = numel(places) / std::max<int64_t>(places[1], 1);
  }
  return std::min(all, static_cast<int64_t>(most_));
}

size_t LayerRows::floats_of(const LayerInputs& l) const {
  return static_cast<size_t>(rows_of(l) * l.groups * l.inputs);
}

void LayerRows::look(size_t sample, ValueId value, const cpu::TensorDesc& desc, const void* data) {
  if (sample >= samples_ || desc.dtype != DType::f32) return;
  for (const size_t i : readers_[value.index])
    if (memory_[i]) take(layers_[i], sample, desc, static_cast<const float*>(data), room_of(i, sample));
}

float* LayerRows::room_of(size_t layer, size_t sample) const {
  return reinterpret_cast<float*>(memory_[layer].data()) + sample * floats_of(layers_[layer]);
}

void LayerRows::exchange(const Ranks& ranks) {
  if (ranks.count() == 1) return;
  for (size_t i = 0; i < layers_.size(); ++i) {
    LayerInputs& l = layers_[i];
    Packer mine;
    for (size_t s = 0; s < l.samples.size(); ++s) {
      if (l.samples[s].empty()) continue;
      mine.add(static_cast<uint64_t>(s));
      mine.bytes.append(reinterpret_cast<const char*>(l.samples[s].data()), l.samples[s].size_bytes());
    }
    const std::vector<std::string> all = ranks.gather(mine.bytes);
    const size_t floats = floats_of(l), bytes = sizeof(uint64_t) + floats * sizeof(float);
    for (size_t r = 0; r < all.size() && memory_[i]; ++r)
      for (size_t at = 0; r != ranks.rank() && at + bytes <= all[r].size(); at += bytes) {
        uint64_t s = 0;
        std::memcpy(&s, all[r].data() + at, sizeof s);
        if (s >= l.samples.size()) continue;
        std::memcpy(room_of(i, s), all[r].data() + at + sizeof s, floats * sizeof(float));
        l.samples[s] = {room_of(i, s), floats};
      }
  }
}

void LayerRows::take(LayerInputs& l, size_t sample, const cpu::TensorDesc& desc, const float* x,
                     float* to) const {
  const bool same = desc.shape == l.shape;
  if (!same && !cpu::is_row_major(desc)) return;
  const Shape strides = same ? desc.strides : contiguous_strides(l.shape);
  l.samples[sample] = {to, floats_of(l)};
  if (graph_.node(l.node).op != Op::linear) return take_windows(l, sample, strides, x, to);
  Places place(sample);
  const int64_t all = numel(l.shape) / l.inputs, most = rows_of(l);
  for (int64_t k = 0; k < most; ++k) {
    int64_t r = all == most ? k : place(all), at = 0;
    for (size_t d = l.shape.size() - 1; d-- > 0;) {
      at += r % l.shape[d] * strides[d];
      r /= l.shape[d];
    }
    for (int64_t i = 0; i < l.inputs; ++i) *to++ = x[at + i * strides.back()];
  }
}

void LayerRows::take_windows(const LayerInputs& l, size_t sample, const Shape& strides, const float* x,
                             float* to) const {
  const Node& node = graph_.node(l.node);
  Shape out = static_shape(graph_.dims(node.output())), w = static_shape(graph_.dims(node.input(1)));
  Shape stride = node.attrs.ints("stride"), padding = node.attrs.ints("padding"),
        dilation = node.attrs.ints("dilation");
  if (l.transposed) {  // each of its taps reads one place
    out = l.shape;
    std::fill(w.begin() + 2, w.end(), 1);
    std::fill(stride.begin(), stride.end(), 1);
    std::fill(padding.begin(), padding.end(), 0);
  }
  const size_t axes = out.size() - 2;
  int64_t taps = 1;
  for (size_t a = 0; a < axes; ++a) taps *= w[a + 2];
  Places place(sample);
  const int64_t all = numel(out) / out[1], most = rows_of(l);
  const int64_t width = l.groups * l.inputs, channels = l.shape[1];
  for (int64_t k = 0; k < most; ++k) {
    int64_t r = all == most ? k : place(all);
    Shape at(axes);
    for (size_t a = axes; a-- > 0;) {
      at[a] = r % out[a + 2];
      r /= out[a + 2];
    }
    float* row = to + k * width;
    for (int64_t t = 0; t < taps; ++t) {
      int64_t rest = t, offset = r * strides[0];
      bool inside = true;
      for (size_t a = axes; a-- > 0;) {
        const int64_t p = at[a] * stride[a] - padding[a] + rest % w[a + 2] * dilation[a];
        rest /= w[a + 2];
        inside = inside && p >= 0 && p < l.shape[a + 2];
        offset += p * strides[a + 2];
      }
      for (int64_t c = 0; c < channels; ++c)  // [group][channel of the group][tap]
        row[c * taps + t] = inside ? x[offset + c * strides[1]] : 0.0f;
    }
  }
}

}  // namespace sixfold
