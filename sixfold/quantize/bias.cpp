#include "sixfold/quantize/bias.h"

#include <algorithm>
#include <cmath>

#include "sixfold/engine/session.h"
#include "sixfold/quantize/product.h"
#include "sixfold/quantize/round.h"
#include "sixfold/quantize/simulate.h"

namespace sixfold {
namespace {

struct Product {
  NodeId node;
  ValueId result;
  size_t axis = 0;
  double count = 0;  // elements of a channel in one sample
};

std::vector<Product> products_of(const Graph& graph) {
  std::vector<Product> out;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::convolution && node.op != Op::linear) continue;
    const Value& weight = graph.value(node.input(1));
    const ValueId bias = node.input(2);
    if (weight.kind != ValueKind::constant || !weight.encoding || graph.dtype(node.output()) != DType::f32)
      continue;
    if (bias.valid() && (graph.value(bias).kind != ValueKind::constant || graph.dtype(bias) != DType::f32))
      continue;
    const Shape shape = static_shape(graph.dims(node.output()));
    const size_t axis = node.op == Op::convolution ? 1 : shape.size() - 1;
    if (numel(shape) == 0) continue;
    out.push_back({id, node.output(), axis, static_cast<double>(numel(shape) / shape[axis])});
  }
  return out;
}

void add_channels(const cpu::TensorDesc& desc, size_t axis, const float* x, std::vector<double>& sums) {
  const int64_t channels = desc.shape[axis], inner = desc.strides[axis], n = desc.count();
  sums.resize(static_cast<size_t>(channels), 0.0);
  if (inner == 1) {  // rows of channels: short sums in float, so that they are vector code
    std::vector<float> part(static_cast<size_t>(channels), 0.0f);
    for (int64_t i = 0, rows = 0; i < n; i += channels) {
      for (int64_t c = 0; c < channels; ++c) part[static_cast<size_t>(c)] += x[i + c];
      if (++rows % 64 && i + channels < n) continue;
      for (size_t c = 0; c < part.size(); ++c) sums[c] += part[c], part[c] = 0;
    }
    return;
  }
  for (int64_t i = 0; i < n; i += inner) {
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k) sum += x[i + k];
    sums[static_cast<size_t>(i / inner % channels)] += sum;
  }
}

void add_to_channels(const cpu::TensorDesc& desc, size_t axis, const std::vector<double>& shift, float* x) {
  const int64_t channels = desc.shape[axis], inner = desc.strides[axis], n = desc.count();
  if (inner == 1) {
    const std::vector<float> s(shift.begin(), shift.end());
    for (int64_t i = 0; i < n; i += channels)
      for (int64_t c = 0; c < channels; ++c) x[i + c] += s[static_cast<size_t>(c)];
    return;
  }
  for (int64_t i = 0; i < n; i += inner) {
    const auto s = static_cast<float>(shift[static_cast<size_t>(i / inner % channels)]);
    for (int64_t k = 0; k < inner; ++k) x[i + k] += s;
  }
}

// Samples in groups; groups one after the other. A product's result is shifted where it is computed, by the
// mean of what the groups before and the sample itself ask for: so what follows sees it corrected, and its
// own error is all that it measures. The group's size does not depend on threads, so neither does the result.
constexpr size_t kGroup = 4;
constexpr double kLeastNumbers = 8;  // of a channel in all samples: of fewer the mean is those samples' alone

class Corrector {
 public:
  Corrector(const Graph& real, const Graph& quantized, const Samples& samples, const BiasOptions& options)
      : real_(real),
        quantized_(quantized),
        samples_(spread_samples(samples, options.samples)),
        products_(products_of(quantized)),
        pool_(options.threads) {
    std::erase_if(products_, [&](const Product& p) { return p.result.index >= real_.value_count(); });
    product_of_.assign(quantized.value_count(), nullptr);
    for (const Product& p : products_) product_of_[p.result.index] = &p;
    sum_.resize(quantized.value_count());
    squares_.resize(quantized.value_count());
    for (auto& a : asked_) a.resize(quantized.value_count());
    want_.assign(samples_->count(), std::vector<std::vector<double>>(quantized.value_count()));
    const Lanes lanes = lanes_for(real, std::min(kGroup, samples_->count()), options.threads);
    workers_.resize(lanes.count);
    for (Worker& w : workers_) w.pool = std::make_unique<cpu::Pool>(lanes.threads);
  }

  Result<std::vector<BiasCorrection>> run() {
    std::vector<BiasCorrection> out;
    if (products_.empty()) return out;
    SF_TRY(see_what_is_wanted());
    SF_TRY(correct_in_groups());
    const std::vector<bool> last = find_last_values(quantized_);
    for (const Product& p : products_) {
      if (sum_[p.result.index].empty() || done_ * p.count < kLeastNumbers) continue;
      out.push_back({p.node, shift_of(p), last[p.result.index]});
    }
    return out;
  }

 private:
  struct Worker {
    std::unique_ptr<cpu::Pool> pool;
    std::unique_ptr<Watched> real;
    std::unique_ptr<Simulation> quantized;
    size_t sample = 0;  // that it runs
    Status status;
  };

  template <typename Run>
  Status for_samples(size_t first, size_t count, const Run& run) {
    return run_in_lanes(pool_, workers_, count, [&](Worker& w, size_t i) -> Status {
      w.sample = first + i;
      SF_ASSIGN(const std::vector<Tensor> fed, samples_->read(w.sample));
      SF_ASSIGN(const Feed feed, match_inputs(real_, fed));
      return run(w, feed.tensors);
    });
  }

  // First, so that the two models' weights need not be in memory at once.
  Status see_what_is_wanted() {
    SF_TRY(for_samples(0, samples_->count(), [&](Worker& w, std::span<const Tensor> inputs) -> Status {
      if (!w.real) {
        SF_ASSIGN(w.real, Watched::create(real_, *w.pool, /*inside=*/true));
        w.real->set_watch([this, &w](ValueId v, const cpu::TensorDesc& desc, void* data) {
          if (const Product* p = product_of_[v.index])
            add_channels(desc, p->axis, static_cast<const float*>(data), want_[w.sample][v.index]);
          return ok_status();
        });
      }
      return w.real->run(inputs);
    }));
    for (Worker& w : workers_) w.real.reset();
    return {};
  }

  Status correct_in_groups() {
    Graph rounded = with_rounded_constants(quantized_, pool_);
    pool_.for_each(workers_.size(), [&](size_t k) {
      workers_[k].status = prepare(workers_[k], workers_.size() == 1 ? std::move(rounded) : rounded);
    });
    for (Worker& w : workers_) SF_TRY(std::move(w.status));
    for (size_t first = 0; first < samples_->count(); first += kGroup) {
      const size_t now = std::min(kGroup, samples_->count() - first);
      SF_TRY(for_samples(first, now,
                         [](Worker& w, std::span<const Tensor> inputs) { return w.quantized->run(inputs); }));
      for (size_t k = first; k < first + now; ++k)
        for (const Product& p : products_) add_asked(p, asked_[k % kGroup][p.result.index]);
      done_ += static_cast<double>(now);
    }
    return {};
  }

  Status prepare(Worker& w, Graph rounded) {
    SF_ASSIGN(w.quantized,
              Simulation::create(std::move(rounded), *w.pool, /*inside=*/true, /*rounded=*/true));
    w.quantized->set_before([this, &w](ValueId v, const cpu::TensorDesc& desc, void* data) {
      shift(w.sample, v, desc, static_cast<float*>(data));
      return ok_status();
    });
    return {};
  }

  void shift(size_t sample, ValueId v, const cpu::TensorDesc& desc, float* x) {
    const Product* p = product_of_[v.index];
    if (!p || want_[sample][v.index].empty()) return;
    std::vector<double>& asked = asked_[sample % kGroup][v.index];
    asked.clear();
    add_channels(desc, p->axis, x, asked);
    const std::vector<double>&want = want_[sample][v.index], &sum = sum_[v.index];
    std::vector<double> shift(asked.size());
    for (size_t c = 0; c < asked.size(); ++c) {
      asked[c] = (want[c] - asked[c]) / p->count;
      shift[c] = (asked[c] + (sum.empty() ? 0.0 : sum[c])) / (done_ + 1);
    }
    add_to_channels(desc, p->axis, shift, x);
  }

  void add_asked(const Product& p, const std::vector<double>& asked) {
    std::vector<double>&sum = sum_[p.result.index], &squares = squares_[p.result.index];
    sum.resize(asked.size(), 0.0);
    squares.resize(asked.size(), 0.0);
    for (size_t c = 0; c < asked.size(); ++c) {
      sum[c] += asked[c];
      squares[c] += asked[c] * asked[c];
    }
  }

  std::vector<double> shift_of(const Product& p) const {
    std::vector<double> out = sum_[p.result.index];
    for (size_t c = 0; c < out.size(); ++c) {
      const double mean = out[c] / done_;
      const double spread = std::max(squares_[p.result.index][c] / done_ - mean * mean, 0.0);
      const double doubt = done_ > 1 ? spread / (done_ - 1) : 0.0;  // what the mean varies by
      out[c] = mean * std::max(1 - doubt / std::max(mean * mean, 1e-60), 0.0);
    }
    return out;
  }

  const Graph &real_, &quantized_;
  std::unique_ptr<Samples> samples_;
  std::vector<Product> products_;
  cpu::Pool pool_;
  std::vector<Worker> workers_;
  std::vector<const Product*> product_of_;  // by value
  // By sample, by value: sums of the float model.
  std::vector<std::vector<std::vector<double>>> want_;
  std::vector<std::vector<double>> asked_[kGroup];  // by sample of the group, by value: its correction
  std::vector<std::vector<double>> sum_, squares_;  // by value: of the corrections so far
  double done_ = 0;                                 // samples
};

bool correct(Graph& graph, const BiasCorrection& correction) {
  const ValueId old = graph.node(correction.node).input(2);
  const auto channels = static_cast<int64_t>(correction.shift.size());
  std::byte* bytes = nullptr;
  Tensor data = Tensor::allocate(DType::f32, {channels}, &bytes);
  auto* b = reinterpret_cast<float*>(bytes);
  if (old.valid()) {
    const Tensor before = to_contiguous(graph.value(old).constant);
    if (before.count() != channels) return false;
    std::copy_n(before.values<float>().data(), channels, b);
    data.shape = before.shape;
  }
  for (size_t c = 0; c < correction.shift.size(); ++c) b[c] += static_cast<float>(correction.shift[c]);
  if (old.valid() && graph.value(old).users.size() == 1) {
    graph.value(old).constant = std::move(data);
    return true;
  }
  const std::string name = cat(graph.value(graph.node(correction.node).output()).name, "_bias");
  const ValueId fresh = graph.add_constant(name, std::move(data));
  if (old.valid()) graph.value(fresh).encoding = graph.value(old).encoding;
  Node& node = graph.node(correction.node);
  if (node.inputs.size() < 3) node.inputs.resize(3, kNoValue);
  graph.set_input(correction.node, 2, fresh);
  return true;
}

}  // namespace

std::vector<bool> find_last_values(const Graph& graph) {
  std::vector<bool> reaches(graph.value_count(), false);  // by value
  for (const Leaf& leaf : graph.outputs)
    if (leaf.value.valid()) reaches[leaf.value.index] = true;
  const std::vector<NodeId> order = graph.order();
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = graph.node(order[i]);
    if (is_product(node)) continue;
    const bool any = std::any_of(node.outputs.begin(), node.outputs.end(),
                                 [&](ValueId v) { return static_cast<bool>(reaches[v.index]); });
    for (const ValueId v : node.inputs)
      if (any && v.valid()) reaches[v.index] = true;
  }
  return reaches;
}

Result<std::vector<BiasCorrection>> find_bias_corrections(const Graph& real, const Graph& quantized,
                                                          const Samples& samples,
                                                          const BiasOptions& options) {
  return Corrector(real, quantized, samples, options).run();
}

size_t correct_biases(Graph& quantized, std::span<const BiasCorrection> corrections, bool last) {
  size_t count = 0;
  for (const BiasCorrection& c : corrections)
    if (last || !c.last) count += correct(quantized, c);
  return count;
}

}  // namespace sixfold
