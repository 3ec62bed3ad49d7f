#include "sixfold/quantize/rounding.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "sixfold/quantize/bias.h"
#include "sixfold/quantize/choose.h"
#include "sixfold/quantize/plan.h"
#include "sixfold/quantize/round.h"

namespace sixfold {
namespace {

constexpr size_t kChannels = 64;   // of a task
constexpr size_t kLeastRows = 32;  // fewer tell nothing
// With few weights another scale is another throw of the dice, and the best of some throws is far better.
constexpr size_t kFewInputs = 32;
constexpr int kThrows = 12;
constexpr size_t kSharedRows = 512;  // of layers that share a weight

size_t size(int64_t n) { return static_cast<size_t>(n); }
int64_t length(size_t n) { return static_cast<int64_t>(n); }

// The scale, from the given one down to half of it, whose squared error weighs least.
float search(const float* w, const std::vector<double>& diagonal, const Encoding& e, float scale) {
  double best = std::numeric_limits<double>::infinity();
  float found = scale;
  for (int k = 0; k <= 50; ++k) {
    const float s = scale * (1 - 0.01f * static_cast<float>(k));
    double cost = 0;
    for (size_t i = 0; i < diagonal.size() && cost < best; ++i) {
      const float q =
          std::clamp(nearest(w[i] / s), static_cast<float>(e.quant_min), static_cast<float>(e.quant_max));
      const double d = static_cast<double>(w[i]) - static_cast<double>(q) * s;
      cost += d * d * diagonal[i];
    }
    if (cost < best) best = cost, found = s;
  }
  return found;
}

class Improver {
 public:
  Improver(Graph& quantized, const RoundingOptions& options)
      : quantized_(quantized),
        options_(options),
        last_(find_last_values(quantized)),
        pool_(options.threads) {}

  RoundingReport run(std::span<const LayerInputs> all) {
    std::map<ValueId, std::vector<const LayerInputs*>> readers;  // by weight
    for (const LayerInputs& l : all) readers[quantized_.node(l.node).input(1)].push_back(&l);
    std::deque<LayerInputs> together;
    std::vector<const LayerInputs*> layers;
    for (const LayerInputs& l : all) {
      const auto& sharing = readers[quantized_.node(l.node).input(1)];
      if (sharing[0] != &l ||
          quantized_.value(quantized_.node(l.node).input(1)).users.size() != sharing.size())
        continue;
      const LayerInputs* one = &l;
      if (sharing.size() > 1) one = &together.emplace_back(merged(sharing));
      if (fits(*one)) layers.push_back(one);
    }
    if (options_.only_last)
      std::erase_if(layers,
                    [&](const LayerInputs* l) { return !gives_answer(*l, quantized_.node(l->node)); });
    if (options_.most_work > 0) leave_out_dearest(layers);
    RoundingReport report;
    for (const LayerInputs* l : layers) improve(*l, report);
    return report;
  }

 private:
  // Layers that share a weight, as the steps of a recurrent one do: some rows of each, from all over them.
  static LayerInputs merged(const std::vector<const LayerInputs*>& sharing) {
    LayerInputs out = *sharing[0];
    size_t rows = 0;
    for (const LayerInputs* l : sharing) rows += l->rows();
    const size_t step = std::max<size_t>(rows / kSharedRows, 1);
    for (size_t i = step; i < sharing.size(); i += step)
      out.samples.insert(out.samples.end(), sharing[i]->samples.begin(), sharing[i]->samples.end());
    return out;
  }

  bool fits(const LayerInputs& l) const {
    if (l.rows() < kLeastRows) return false;
    const Value& w = quantized_.value(quantized_.node(l.node).input(1));
    return w.kind == ValueKind::constant && w.type.dtype == DType::f32 && w.encoding &&
           (w.encoding->axis == (l.transposed ? 1 : 0) || w.encoding->axis < 0) &&
           !(l.transposed && w.encoding->block) && w.encoding->quant_max <= 127;
  }

  static double work_of(const LayerInputs& l, int passes) {
    const auto n = static_cast<double>(l.inputs), rows = static_cast<double>(l.rows());
    const double weights = n * static_cast<double>(l.channels * l.groups);
    return weights * std::min(n, 2 * rows) * (passes + 1) +
           static_cast<double>(l.groups) * n * std::min(n, 64.0) * rows;
  }
  void leave_out_dearest(std::vector<const LayerInputs*>& layers) const {
    std::vector<const LayerInputs*> order = layers;
    const auto work = [&](const LayerInputs* l) { return work_of(*l, options_.passes); };
    std::stable_sort(order.begin(), order.end(), [&](auto* a, auto* b) { return work(a) < work(b); });
    double sum = 0;
    for (const LayerInputs* l : order) {
      sum += work(l);
      if (sum > options_.most_work) std::erase(layers, l);
    }
  }

  void improve(const LayerInputs& l, RoundingReport& report) {
    const Node& node = quantized_.node(l.node);
    Value& value = quantized_.value(node.input(1));
    Encoding e = *value.encoding;
    double noise = 0;  // of an operand that is rounded
    if (const auto& x = quantized_.value(node.input(0)).encoding; x && x->axis < 0)
      noise = static_cast<double>(x->scales[0]) * x->scales[0] / 12;
    const Tensor w = to_contiguous(value.constant);
    const std::vector<float> rows = rows_of(l, w);
    std::vector<float> chosen(rows.size());
    std::vector<double> shift(size(l.groups * l.channels), 0.0);
    const std::vector<float> importance = importance_of(l, node, rows);
    const bool shifts =
        options_.shift_biases && value.users.size() == 1 && takes_shift(node, !importance.empty());
    const Task task{l, w.shape, rows.data(), chosen.data(), e, shift};
    std::vector<RoundingCosts> costs(size(l.groups * l.channels));
    // Taps that share a scale are chosen together.
    const size_t channels = size(l.channels), taps = size(l.taps);
    const size_t step = std::max<size_t>(kChannels / taps, 1) * taps;
    if (l.groups > 1) {
      pool_.for_each(size(l.groups), [&](size_t g) {
        const RoundingInputs in = rounding_inputs(l, g, noise, shifts, {}, nullptr);
        for (size_t c = 0; c < channels; c += step)
          choose(task, in, g * channels + c, std::min(step, channels - c), costs);
      });
    } else {
      const RoundingInputs in = rounding_inputs(l, 0, noise, shifts, importance, &pool_);
      pool_.for_each((channels + step - 1) / step, [&](size_t t) {
        choose(task, in, t * step, std::min(step, channels - t * step), costs);
      });
    }
    for (const RoundingCosts& c : costs) {
      report.before += c.before / std::max(c.power, 1e-30);
      report.after += c.after / std::max(c.power, 1e-30);
    }
    value.constant = weight_of(l, w.shape, chosen);
    value.encoding = std::move(e);
    if (shifts) {
      const BiasCorrection correction{.node = l.node, .shift = shift_of(l, node, shift)};
      correct_biases(quantized_, {&correction, 1});
    }
    ++report.layers;
    report.weights.push_back(node.input(1));
  }

  // Whether a sigmoid makes the model's answer of the layer's result.
  bool gives_answer(const LayerInputs& l, const Node& node) const {
    ValueId v = node.output();
    const Node* next = nullptr;
    while (quantized_.value(v).users.size() == 1) {
      next = &quantized_.node(quantized_.value(v).users[0]);
      if (quantize_rule(next->op) != QuantizeRule::move && next->op != Op::convert) break;
      v = next->output();
    }
    return next && next->op == Op::sigmoid && last_[node.output().index] && l.groups == 1;
  }

  // Of rows before such a sigmoid: how much the answer follows them, since those far from any decision have
  // most of the power.
  std::vector<float> importance_of(const LayerInputs& l, const Node& node,
                                   const std::vector<float>& w) const {
    if (!gives_answer(l, node)) return {};
    const Tensor* b = node.input(2).valid() ? quantized_.constant(node.input(2)) : nullptr;
    const size_t n = size(l.inputs), channels = size(l.channels), taps = size(l.taps);
    std::vector<double> bias(channels, 0.0);
    for (size_t c = 0; b && c < channels; ++c) bias[c] = element_real(*b, length(c / taps));
    std::vector<float> out;
    out.reserve(l.rows());
    for (const std::span<const float> sample : l.samples)
      for (size_t at = 0; at < sample.size(); at += n) {
        double sum = 0;
        for (size_t c = 0; c < channels; ++c) {
          double z = bias[c];
          for (size_t i = 0; i < n; ++i) z += static_cast<double>(w[c * n + i]) * sample[at + i];
          const double y = 1 / (1 + std::exp(-z)), slope = 4 * y * (1 - y);
          sum += slope * slope;
        }
        out.push_back(static_cast<float>(std::sqrt(sum / static_cast<double>(channels))));
      }
    return out;
  }

  // Not where nothing follows (see BiasCorrection::last), unless rows count by what follows from them.
  bool takes_shift(const Node& node, bool weighed) const {
    const ValueId b = node.input(2);
    if (last_[node.output().index] && !weighed) return false;
    return !b.valid() || (quantized_.value(b).kind == ValueKind::constant && !quantized_.value(b).encoding &&
                          quantized_.dtype(b) == DType::f32);
  }

  struct Task {
    const LayerInputs& layer;
    const Shape& shape;
    const float* w;
    float* q;
    Encoding& e;                 // each channel's scale belongs to one task
    std::vector<double>& shift;  // of the bias, by channel
  };

  // Place of a transposed weight [input][output channel][tap] among rows of inputs.
  static size_t place_of(const LayerInputs& l, size_t at) {
    const size_t channels = size(l.channels), inputs = size(l.inputs);
    const size_t channel = at % channels, input = at / channels;  // channel: with its tap
    return (input / inputs * channels + channel) * inputs + input % inputs;
  }
  static std::vector<float> rows_of(const LayerInputs& l, const Tensor& w) {
    const auto all = w.values<float>();
    std::vector<float> out(all.begin(), all.end());
    for (size_t i = 0; l.transposed && i < out.size(); ++i) out[place_of(l, i)] = all[i];
    return out;
  }
  static Tensor weight_of(const LayerInputs& l, const Shape& shape, const std::vector<float>& rows) {
    std::byte* bytes = nullptr;
    Tensor out = Tensor::allocate(DType::f32, shape, &bytes);
    auto* to = reinterpret_cast<float*>(bytes);
    for (size_t i = 0; i < rows.size(); ++i) to[i] = rows[l.transposed ? place_of(l, i) : i];
    return out;
  }
  // An element of the result has a tap of each of as many places as fit between strides.
  static std::vector<double> shift_of(const LayerInputs& l, const Node& node,
                                      const std::vector<double>& shift) {
    if (!l.transposed) return shift;
    double places = 1;
    for (const int64_t s : node.attrs.ints("stride")) places *= static_cast<double>(s);
    std::vector<double> out(shift.size() / size(l.taps), 0.0);
    for (size_t i = 0; i < shift.size(); ++i) out[i / size(l.taps)] += shift[i] / places;
    return out;
  }

  // The scale of a row's weight.
  static size_t scale_of(const Task& t, const ScaleIndex& index, size_t row, size_t i, size_t n) {
    if (t.e.axis < 0) return 0;
    if (t.e.block) return index(length(row * n + i));
    return t.layer.transposed ? row % size(t.layer.channels) / size(t.layer.taps) : row;
  }

  void choose(const Task& t, const RoundingInputs& in, size_t first, size_t count,
              std::vector<RoundingCosts>& costs) const {
    const size_t n = in.n;
    if (options_.search_scales && t.e.axis == 0 && !t.e.block && !t.layer.given)
      for (size_t c = first; c < first + count; ++c)
        t.e.scales[c] = search(t.w + c * n, in.diagonal, t.e, t.e.scales[c]);
    const float* w = t.w + first * n;
    float* q = t.q + first * n;
    round(t, in, first, count, 1, q, &costs[first]);
    const bool own_scales = t.e.axis == 0 || (t.layer.transposed && t.e.axis == 1 && t.layer.groups == 1);
    if (options_.choose_rounding && n <= kFewInputs && own_scales && !t.e.block && !t.layer.given)
      throw_again(t, in, first, count, costs);
    if (in.mean.empty()) return;
    for (size_t c = 0; c < count; ++c)
      for (size_t i = 0; i < n; ++i)
        t.shift[first + c] -= (static_cast<double>(q[c * n + i]) - w[c * n + i]) * in.mean[i];
  }

  // Scales are those of the encoding times a factor.
  void round(const Task& t, const RoundingInputs& in, size_t first, size_t count, float factor, float* q,
             RoundingCosts* costs) const {
    const size_t n = in.n;
    std::vector<float> scales(count * n);
    const ScaleIndex index(t.shape, t.e);
    for (size_t c = 0; c < count; ++c)
      for (size_t i = 0; i < n; ++i)
        scales[c * n + i] = factor * t.e.scales[scale_of(t, index, first + c, i, n)];
    std::vector<RoundingCosts> all;
    choose_rounding(in, t.e, scales, options_.choose_rounding ? options_.passes : 0, t.w + first * n, q, all);
    std::copy(all.begin(), all.end(), costs);
  }

  // Larger scales only: a bias may need the one that there is.
  void throw_again(const Task& t, const RoundingInputs& in, size_t first, size_t count,
                   std::vector<RoundingCosts>& costs) const {
    const size_t taps = size(t.layer.taps), n = in.n;
    std::vector<float> q(count * n), best(count / taps, 1.0f);
    for (int again = 1; again <= kThrows; ++again) {
      std::vector<RoundingCosts> now(count);
      const float factor = 1 + 0.01f * static_cast<float>(again);
      round(t, in, first, count, factor, q.data(), now.data());
      for (size_t c = 0; c < count; c += taps) {
        double was = 0, is = 0;
        for (size_t k = c; k < c + taps; ++k) was += costs[first + k].after, is += now[k].after;
        if (!(is < was)) continue;
        for (size_t k = c; k < c + taps; ++k) costs[first + k].after = now[k].after;
        best[c / taps] = factor;
        std::copy_n(&q[c * n], taps * n, t.q + (first + c) * n);
      }
    }
    for (size_t c = 0; c < best.size(); ++c) t.e.scales[first / taps + c] *= best[c];
  }

  Graph& quantized_;
  const RoundingOptions& options_;
  std::vector<bool> last_;  // by value
  cpu::Pool pool_;
};

}  // namespace

Result<RoundingReport> improve_weights(Graph& quantized, const LayerRows& rows,
                                       const RoundingOptions& options) {
  return Improver(quantized, options).run(rows.layers());
}

}  // namespace sixfold
