#include "sixfold/quantize/rounding.h"

#include <algorithm>
#include <cmath>

#include "sixfold/engine/session.h"
#include "sixfold/quantize/round.h"
#include "sixfold/quantize/watched.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/quantize/rounding.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y += a * x
void add_scaled(float a, const float* x, float* y, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto va = hn::Set(d, a);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::MulAdd(va, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  for (; i < n; ++i) y[i] += a * x[i];
}

}  // namespace sixfold::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold {

HWY_EXPORT(add_scaled);

namespace {

void add(float a, const float* x, float* y, size_t n) { HWY_DYNAMIC_DISPATCH(add_scaled)(a, x, y, n); }

// A layer whose weights are looked at: [channels][inputs] for each group.
struct Layer {
  NodeId node;
  ValueId source;                                // whose elements, seen as `shape`, the layer reads
  Shape shape;                                   // of the operand
  int64_t groups = 1, channels = 0, inputs = 0;  // of a group
  std::vector<float> rows;                       // [row][group][inputs]
  size_t count = 0, seen = 0;
};

// A value that a reshape only renames is shown under the name of its operand.
ValueId shown_as(const Graph& graph, ValueId v) {
  while (const Node* node = graph.producer(v)) {
    if (node->op != Op::reshape) break;
    v = node->input(0);
  }
  return v;
}

std::vector<Layer> layers_of(const Graph& real, const Graph& quantized, double most_work) {
  std::vector<Layer> out;
  for (const NodeId id : real.order()) {
    const Node& node = real.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) continue;
    const Value& w = quantized.value(quantized.node(id).input(1));
    if (w.kind != ValueKind::constant || w.type.dtype != DType::f32 || !w.encoding || w.users.size() != 1)
      continue;
    if (w.encoding->axis > 0 || w.encoding->quant_max > 127 || w.constant.count() == 0) continue;
    if (node.op == Op::convolution && node.attrs.flag("transposed")) continue;
    Layer l;
    l.node = id;
    l.source = shown_as(real, node.input(0));
    l.shape = static_shape(real.dims(node.input(0)));
    const Shape& ws = w.constant.shape;
    l.groups = node.op == Op::convolution ? node.attrs.integer("groups") : 1;
    l.channels = ws[0] / l.groups;
    l.inputs = numel(ws) / ws[0];
    if (l.inputs < 2 || l.inputs > 8192 || l.groups * l.inputs > 32768) continue;
    const double work = static_cast<double>(l.groups * l.channels) * static_cast<double>(l.inputs * l.inputs);
    if (most_work > 0 && work > most_work) continue;
    out.push_back(std::move(l));
  }
  return out;
}

// Some of the places where the layer multiplies, as rows of what its weights meet.
void take_rows(const Graph& graph, Layer& l, const cpu::TensorDesc& desc, const float* x, size_t most) {
  const Node& node = graph.node(l.node);
  const bool same = desc.shape == l.shape;
  if (!same && !cpu::is_row_major(desc)) return;
  const Shape strides = same ? desc.strides : contiguous_strides(l.shape);
  const auto width = static_cast<size_t>(l.groups * l.inputs);
  uint32_t place = static_cast<uint32_t>(l.seen++) * 2654435761u + 1;
  const auto next = [&](int64_t n) {
    place = place * 1664525u + 1013904223u;
    return static_cast<int64_t>((place >> 8) % static_cast<uint32_t>(n));
  };
  if (node.op == Op::linear) {
    const int64_t all = numel(l.shape) / l.inputs;
    for (size_t k = 0; k < most && static_cast<int64_t>(k) < all; ++k) {
      int64_t r = all <= static_cast<int64_t>(most) ? static_cast<int64_t>(k) : next(all), at = 0;
      for (size_t d = l.shape.size() - 1; d-- > 0;) {
        at += r % l.shape[d] * strides[d];
        r /= l.shape[d];
      }
      for (int64_t i = 0; i < l.inputs; ++i) l.rows.push_back(x[at + i * strides.back()]);
      ++l.count;
    }
    return;
  }
  const Shape out = static_shape(graph.dims(node.output())), w = static_shape(graph.dims(node.input(1)));
  const Shape stride = node.attrs.ints("stride"), padding = node.attrs.ints("padding"),
              dilation = node.attrs.ints("dilation");
  const size_t axes = out.size() - 2;
  int64_t taps = 1;
  for (size_t a = 0; a < axes; ++a) taps *= w[a + 2];
  const int64_t all = numel(out) / out[1];
  for (size_t k = 0; k < most && static_cast<int64_t>(k) < all; ++k) {
    int64_t r = all <= static_cast<int64_t>(most) ? static_cast<int64_t>(k) : next(all);
    Shape at(axes);
    for (size_t a = axes; a-- > 0;) {
      at[a] = r % out[a + 2];
      r /= out[a + 2];
    }
    const size_t begin = l.rows.size();
    l.rows.resize(begin + width, 0.0f);
    for (int64_t t = 0; t < taps; ++t) {
      int64_t rest = t, offset = r * strides[0];
      bool inside = true;
      for (size_t a = axes; a-- > 0;) {
        const int64_t p = at[a] * stride[a] - padding[a] + rest % w[a + 2] * dilation[a];
        rest /= w[a + 2];
        inside = inside && p >= 0 && p < l.shape[a + 2];
        offset += p * strides[a + 2];
      }
      if (!inside) continue;
      for (int64_t c = 0; c < l.shape[1]; ++c)  // [group][channel of the group][tap]
        l.rows[begin + static_cast<size_t>(c * taps + t)] = x[offset + c * strides[1]];
    }
    ++l.count;
  }
}

class Improver {
 public:
  Improver(const Graph& real, Graph& quantized, const RoundingOptions& options)
      : real_(real), quantized_(quantized), options_(options), pool_(options.threads) {}

  Result<RoundingReport> run(const Samples& all) {
    std::vector<Layer> layers = layers_of(real_, quantized_, options_.most_work);
    if (layers.empty()) return RoundingReport{};
    SF_TRY(collect(layers, all));
    // A layer at a time in each thread: no layer waits for another.
    std::vector<RoundingReport> reports(layers.size());
    pool_.for_each(layers.size(), [&](size_t i) {
      if (layers[i].count > 0) improve(layers[i], reports[i]);
      layers[i].rows = {};
    });
    RoundingReport report;
    for (const RoundingReport& r : reports) {
      report.layers += r.layers;
      report.before += r.before;
      report.after += r.after;
    }
    return report;
  }

 private:
  Status collect(std::vector<Layer>& layers, const Samples& all) {
    const auto samples = some_samples(all, 0, options_.samples);
    const size_t most = std::max<size_t>(options_.rows / samples->count(), 1);
    std::vector<std::vector<Layer*>> readers(real_.value_count());
    for (Layer& l : layers) readers[l.source.index].push_back(&l);
    cpu::Pool one(1);
    SF_ASSIGN(const auto model, Watched::create(real_, one));
    const auto look = [&](ValueId v, const cpu::TensorDesc& desc, const void* data) {
      for (Layer* l : readers[v.index])
        if (desc.dtype == DType::f32) take_rows(real_, *l, desc, static_cast<const float*>(data), most);
      return ok_status();
    };
    model->set_watch(look);
    for (size_t i = 0; i < samples->count(); ++i) {
      SF_ASSIGN(const std::vector<Tensor> fed, samples->read(i));
      SF_ASSIGN(const Feed feed, match_inputs(real_, fed));
      size_t k = 0;
      for (const Leaf& leaf : real_.inputs) {
        if (!leaf.value.valid()) continue;
        const Tensor& t = feed.tensors[k++];
        SF_TRY(look(leaf.value, {t.dtype, t.shape, contiguous_strides(t.shape), nullptr}, t.data));
      }
      SF_TRY(model->run(feed.tensors));
    }
    return {};
  }

  // E[x x'] of a group, and a little more on the diagonal: what few rows do not tell must not be believed.
  static std::vector<float> moments(const Layer& l, int64_t group) {
    const auto n = static_cast<size_t>(l.inputs);
    std::vector<float> h(n * n, 0.0f);
    constexpr size_t kBlock = 32;  // a row of inputs is used for so many rows of h while it is in the cache
    for (size_t begin = 0; begin < n; begin += kBlock)
      for (size_t r = 0; r < l.count; ++r) {
        const float* x = &l.rows[(r * static_cast<size_t>(l.groups) + static_cast<size_t>(group)) * n];
        for (size_t i = begin; i < std::min(begin + kBlock, n); ++i)
          if (x[i] != 0) add(x[i] / static_cast<float>(l.count), x + i, &h[i * n + i], n - i);
      }
    for (size_t i = 0; i < n; ++i)
      for (size_t k = 0; k < i; ++k) h[i * n + k] = h[k * n + i];
    double mean = 0;
    for (size_t i = 0; i < n; ++i) mean += h[i * n + i] / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) h[i * n + i] += static_cast<float>(0.05 * mean + 1e-12);
    return h;
  }

  void improve(const Layer& l, RoundingReport& report) {
    Value& value = quantized_.value(quantized_.node(l.node).input(1));
    Encoding e = *value.encoding;
    const bool searched = options_.search_scales && e.axis == 0 && !e.block;
    const Tensor w = to_contiguous(value.constant);
    std::byte* bytes = nullptr;
    Tensor out = Tensor::allocate(DType::f32, w.shape, &bytes);
    auto* q = reinterpret_cast<float*>(bytes);
    const float* from = w.values<float>().data();
    const auto n = static_cast<size_t>(l.inputs);
    for (int64_t g = 0; g < l.groups; ++g) {
      const std::vector<float> h = moments(l, g);
      std::vector<double> costs(static_cast<size_t>(l.channels) * 3);
      for (size_t c = 0; c < static_cast<size_t>(l.channels); ++c) {
        const size_t channel = static_cast<size_t>(g * l.channels) + c, first = channel * n;
        if (searched) e.scales[channel] = search(from + first, h, e, e.scales[channel]);
        round_row(l, from + first, q + first, first, h, e, w.shape, &costs[c * 3]);
      }
      for (size_t c = 0; c < costs.size(); c += 3) {
        report.before += costs[c] / std::max(costs[c + 2], 1e-30);
        report.after += costs[c + 1] / std::max(costs[c + 2], 1e-30);
      }
    }
    value.constant = std::move(out);
    value.encoding = std::move(e);
    ++report.layers;
  }

  // The scale, from the given one down to half of it, whose squared error weighs least.
  static float search(const float* w, const std::vector<float>& h, const Encoding& e, float scale) {
    const auto n = static_cast<size_t>(std::sqrt(static_cast<double>(h.size())) + 0.5);
    double best = std::numeric_limits<double>::infinity();
    float found = scale;
    for (int k = 0; k <= 50; ++k) {
      const float s = scale * (1 - 0.01f * static_cast<float>(k));
      double cost = 0;
      for (size_t i = 0; i < n && cost < best; ++i) {
        const float q = std::clamp(std::nearbyint(w[i] / s), static_cast<float>(e.quant_min),
                                   static_cast<float>(e.quant_max));
        const double d = static_cast<double>(w[i]) - static_cast<double>(q) * s;
        cost += d * d * h[i * n + i];
      }
      if (cost < best) best = cost, found = s;
    }
    return found;
  }

  void round_row(const Layer& l, const float* w, float* q, size_t first, const std::vector<float>& h,
                 const Encoding& e, const Shape& shape, double* costs) const {
    const auto n = static_cast<size_t>(l.inputs);
    const ScaleIndex index(shape, e);
    std::vector<float> scale(n), error(n), slope(n, 0.0f), level(n);
    for (size_t i = 0; i < n; ++i) {
      const size_t s = index(static_cast<int64_t>(first + i));
      scale[i] = e.scales[s];
      level[i] = std::clamp(std::nearbyint(w[i] / scale[i]), static_cast<float>(e.quant_min),
                            static_cast<float>(e.quant_max));
      error[i] = level[i] * scale[i] - w[i];
      add(error[i], &h[i * n], slope.data(), n);
    }
    const auto cost = [&] {
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += static_cast<double>(error[i]) * slope[i];
      return sum;
    };
    costs[0] = cost();
    for (size_t i = 0; i < n; ++i) costs[2] += static_cast<double>(w[i]) * w[i] * h[i * n + i];
    for (int pass = 0; options_.choose_rounding && pass < 8; ++pass) {
      bool moved = false;
      for (size_t i = 0; i < n; ++i) {
        // One step up or down, if the other side of the weight is meant and the whole gets better.
        const float step = error[i] > 0 ? -scale[i] : scale[i];
        const float gain = 2 * step * slope[i] + step * step * h[i * n + i];
        const float to = level[i] + (error[i] > 0 ? -1.0f : 1.0f);
        if (!(gain < 0) || to < static_cast<float>(e.quant_min) || to > static_cast<float>(e.quant_max))
          continue;
        if (std::fabs(error[i] + step) > scale[i]) continue;
        level[i] = to;
        error[i] += step;
        add(step, &h[i * n], slope.data(), n);
        moved = true;
      }
      if (!moved) break;
    }
    costs[1] = cost();
    for (size_t i = 0; i < n; ++i) q[i] = level[i] * scale[i];
  }

  const Graph& real_;
  Graph& quantized_;
  const RoundingOptions& options_;
  cpu::Pool pool_;
};

}  // namespace

Result<RoundingReport> improve_weights(const Graph& real, Graph& quantized, const Samples& samples,
                                       const RoundingOptions& options) {
  return Improver(real, quantized, options).run(samples);
}

}  // namespace sixfold
#endif
