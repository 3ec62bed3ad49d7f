#include "sixfold/quantize/bias.h"

#include <algorithm>
#include <cmath>

#include "sixfold/engine/session.h"
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

// Samples in groups that run at the same time; groups one after the other. A product's result is shifted
// where it is computed, by the mean of what the groups before and the sample itself ask for: so what follows
// sees it corrected, and its own error is all that it measures. The group's size does not depend on threads,
// so neither does the result.
constexpr size_t kGroup = 4;

class Corrector {
 public:
  Corrector(const Graph& real, Graph& quantized, const Samples& samples, const BiasOptions& options)
      : real_(real),
        quantized_(quantized),
        samples_(some_samples(samples, 0, options.samples)),
        products_(products_of(quantized)),
        threads_(options.threads) {
    std::erase_if(products_, [&](const Product& p) { return p.result.index >= real_.value_count(); });
    product_of_.assign(quantized.value_count(), nullptr);
    for (const Product& p : products_) product_of_[p.result.index] = &p;
    sum_.resize(quantized.value_count());
  }

  Result<size_t> run() {
    if (products_.empty()) return size_t{0};
    std::vector<Worker> workers(std::min(kGroup, samples_->count()));
    for (Worker& w : workers) SF_TRY(prepare(w));
    cpu::Pool pool(threads_);
    for (size_t first = 0; first < samples_->count(); first += kGroup) {
      const size_t now = std::min(workers.size(), samples_->count() - first);
      pool.for_each(now, [&](size_t k) { workers[k].status = run_one(workers[k], first + k); });
      for (size_t k = 0; k < now; ++k) {
        if (!workers[k].status.ok()) return workers[k].status.take_error();
        for (const Product& p : products_) {
          const std::vector<double>& asked = workers[k].asked[p.result.index];
          std::vector<double>& sum = sum_[p.result.index];
          sum.resize(asked.size(), 0.0);
          for (size_t c = 0; c < asked.size(); ++c) sum[c] += asked[c];
        }
      }
      done_ += static_cast<double>(now);
    }
    for (const Product& p : products_) apply(p);
    return products_.size();
  }

 private:
  struct Worker {
    cpu::Pool pool{1};
    std::unique_ptr<Watched> real;
    std::unique_ptr<Simulation> quantized;
    std::vector<std::vector<double>> want, asked;  // by value: sums of the sample, its correction
    Status status;
  };

  Status prepare(Worker& w) {
    w.want.resize(product_of_.size());
    w.asked.resize(product_of_.size());
    SF_ASSIGN(w.real, Watched::create(real_, w.pool, /*inside=*/true));
    SF_ASSIGN(w.quantized, Simulation::create(quantized_, w.pool, /*inside=*/true));
    w.real->set_watch([this, &w](ValueId v, const cpu::TensorDesc& desc, void* data) {
      w.want[v.index].clear();
      if (const Product* p = product_of_[v.index])
        add_channels(desc, p->axis, static_cast<const float*>(data), w.want[v.index]);
      return ok_status();
    });
    w.quantized->set_before([this, &w](ValueId v, const cpu::TensorDesc& desc, void* data) {
      const Product* p = product_of_[v.index];
      if (!p || w.want[v.index].empty()) return ok_status();
      std::vector<double>& asked = w.asked[v.index];
      asked.clear();
      add_channels(desc, p->axis, static_cast<const float*>(data), asked);
      const std::vector<double>& sum = sum_[v.index];
      std::vector<double> shift(asked.size());
      for (size_t c = 0; c < asked.size(); ++c) {
        asked[c] = (w.want[v.index][c] - asked[c]) / p->count;
        shift[c] = (asked[c] + (sum.empty() ? 0.0 : sum[c])) / (done_ + 1);
      }
      add_to_channels(desc, p->axis, shift, static_cast<float*>(data));
      return ok_status();
    });
    return {};
  }

  Status run_one(Worker& w, size_t i) {
    SF_ASSIGN(const std::vector<Tensor> fed, samples_->read(i));
    SF_ASSIGN(const Feed feed, match_inputs(real_, fed));
    SF_TRY(w.real->run(feed.tensors));
    return w.quantized->run(feed.tensors);
  }

  void apply(const Product& p) {
    std::vector<double> shift = sum_[p.result.index];
    if (shift.empty()) return;
    for (double& x : shift) x /= done_;
    const ValueId old = quantized_.node(p.node).input(2);
    const auto channels = static_cast<int64_t>(shift.size());
    std::byte* bytes = nullptr;
    Tensor data = Tensor::allocate(DType::f32, {channels}, &bytes);
    auto* b = reinterpret_cast<float*>(bytes);
    if (old.valid()) {
      const Tensor before = to_contiguous(quantized_.value(old).constant);
      if (before.count() != channels) return;
      std::copy_n(before.values<float>().data(), channels, b);
      data.shape = before.shape;
    }
    for (size_t c = 0; c < shift.size(); ++c) b[c] += static_cast<float>(shift[c]);
    if (old.valid() && quantized_.value(old).users.size() == 1) {
      quantized_.value(old).constant = std::move(data);
      return;
    }
    const ValueId fresh =
        quantized_.add_constant(cat(quantized_.value(p.result).name, "_bias"), std::move(data));
    if (old.valid()) quantized_.value(fresh).encoding = quantized_.value(old).encoding;
    Node& node = quantized_.node(p.node);
    if (node.inputs.size() < 3) node.inputs.resize(3, kNoValue);
    quantized_.set_input(p.node, 2, fresh);
  }

  const Graph& real_;
  Graph& quantized_;
  std::unique_ptr<Samples> samples_;
  std::vector<Product> products_;
  size_t threads_;
  std::vector<const Product*> product_of_;  // by value
  std::vector<std::vector<double>> sum_;    // by value: of the corrections so far
  double done_ = 0;                         // samples
};

}  // namespace

Result<size_t> correct_biases(const Graph& real, Graph& quantized, const Samples& samples,
                              const BiasOptions& options) {
  return Corrector(real, quantized, samples, options).run();
}

}  // namespace sixfold
