#include "sixfold/quantize/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sixfold/base/recycled.h"
#include "sixfold/engine/session.h"
#include "sixfold/quantize/calibrate.h"
#include "sixfold/quantize/live.h"
#include "sixfold/quantize/masks.h"
#include "sixfold/quantize/round.h"
#include "sixfold/quantize/statistics.h"

namespace sixfold {
namespace {

constexpr int64_t kGrain = 1 << 16;  // elements worth a thread

// The elements of a value of one sample, with the layout that they are in.
struct Kept {
  Shape shape, strides;
  OwnedBlock memory;
  int64_t count = 0;  // 0: not seen

  const float* data() const { return reinterpret_cast<const float*>(memory.data()); }
  Status keep(const cpu::TensorDesc& desc, const float* x, cpu::Pool& pool) {
    shape = desc.shape;
    strides = desc.strides;
    count = desc.count();
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    if (memory.size_bytes() < bytes) {
      memory = {};
      SF_ASSIGN(memory, OwnedBlock::take(recycled_memory(), bytes, "a layer's result"));
    }
    auto* to = reinterpret_cast<float*>(memory.data());
    pool.for_ranges(count, kGrain,
                    [&](int64_t begin, int64_t end) { std::copy(x + begin, x + end, to + begin); });
    return {};
  }
};

// Elements at the same place, whatever the layouts.
void add_pairs(const Kept& a, const cpu::TensorDesc& desc, const float* b, Range seen, cpu::Pool& pool,
               LayerError& to) {
  std::vector<ErrorSums> parts;
  if (a.strides == desc.strides) {
    parts.resize(static_cast<size_t>((a.count + kGrain - 1) / kGrain));
    pool.for_ranges(a.count, kGrain, [&](int64_t begin, int64_t end) {
      parts[static_cast<size_t>(begin / kGrain)] =
          error_sums(a.data() + begin, b + begin, end - begin, seen.min, seen.max);
    });
  } else {
    Shape at(a.shape.size(), 0);
    for (int64_t i = 0; i < a.count; ++i) {
      int64_t p = 0, q = 0;
      for (size_t d = 0; d < at.size(); ++d) p += at[d] * a.strides[d], q += at[d] * desc.strides[d];
      const ErrorSums one = error_sums(a.data() + p, b + q, 1, seen.min, seen.max);
      to.power += one.power, to.error += one.error;
      for (size_t d = at.size(); d-- > 0 && ++at[d] == a.shape[d];) at[d] = 0;
    }
  }
  for (const ErrorSums& s : parts) to.power += s.power, to.error += s.error;
}

// A result that is no number, or infinite where the model's is not, is as wrong as can be.
double decibel(double power, double error) {
  if (!std::isfinite(error)) return -200;
  if (error == 0) return 200;
  return std::clamp(10 * std::log10(std::max(power, 1e-300) / error), -200.0, 200.0);
}

}  // namespace

Result<std::unique_ptr<Simulation>> Simulation::create(Graph quantized, cpu::Pool& pool, bool inside,
                                                       bool rounded, bool bf16) {
  auto out = std::make_unique<Simulation>();
  Graph graph = rounded ? std::move(quantized) : with_rounded_constants(quantized, pool);
  out->take_grids(graph);
  SF_ASSIGN(out->model_, Watched::create(std::move(graph), pool, inside, bf16));
  out->model_->set_watch(
      [self = out.get(), &pool](ValueId v, const cpu::TensorDesc& desc, void* data) -> Status {
        if (self->before_) SF_TRY(self->before_(v, desc, data));
        if (const auto& e = self->values_[v.index])
          round_to(*e, static_cast<float*>(data), desc.count(), pool);
        return self->watch_ ? self->watch_(v, desc, data) : ok_status();
      });
  return out;
}

void Simulation::take_grids(const Graph& graph) {
  const auto encoding_of = [&](ValueId v) -> std::optional<Encoding> {
    const Value& value = graph.value(v);
    if (!value.encoding || value.type.dtype != DType::f32 || value.encoding->axis >= 0) return std::nullopt;
    return value.encoding;
  };
  inputs_.clear();
  for (const Leaf& leaf : graph.inputs)
    if (leaf.value.valid()) inputs_.push_back(encoding_of(leaf.value));
  values_.assign(graph.value_count(), std::nullopt);
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::node && !is_inside_product(graph, v.id)) values_[v.id.index] = encoding_of(v.id);
}

Status Simulation::run(std::span<const Tensor> inputs) {
  fed_.assign(inputs.begin(), inputs.end());
  for (size_t i = 0; i < fed_.size(); ++i)
    if (inputs_[i]) fed_[i] = rounded(fed_[i], *inputs_[i]);
  return model_->run(fed_);
}

void LayerError::add(const LayerError& other) {
  power += other.power;
  error += other.error;
}

void LayerError::add(const Tensor& want, const Tensor& got) {
  const int64_t n = want.count();
  const bool floats = want.dtype == DType::f32 && got.dtype == DType::f32;
  const auto *a = reinterpret_cast<const float*>(want.data), *b = reinterpret_cast<const float*>(got.data);
  for (int64_t i = 0; i < n; ++i) {
    const double x = floats ? a[i] : element_real(want, i), y = floats ? b[i] : element_real(got, i);
    const double d = x == y || (std::isnan(x) && std::isnan(y)) ? 0 : x - y;  // infinities too
    if (std::isfinite(x)) power += x * x;
    error += d * d;
  }
}

double LayerError::sqnr_db() const { return decibel(power, error); }

double decibels_of(std::span<const LayerError> outputs) {
  if (outputs.empty()) return 200;
  if (outputs.size() == 1) return outputs[0].sqnr_db();
  double sum = 0;
  for (const LayerError& o : outputs) sum += std::min(o.sqnr_db(), 60.0);
  return sum / static_cast<double>(outputs.size());
}

std::vector<size_t> Accuracy::worst() const {
  std::vector<size_t> order(layers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return layers[a].sqnr_db() < layers[b].sqnr_db(); });
  return order;
}

namespace {

// Runs a batch of samples through the float model, keeping its values, then through the quantized one.
class Measurer {
 public:
  Measurer(const Graph& real, const Graph& quantized, const Samples& samples, const MeasureOptions& options)
      : real_(real),
        quantized_(quantized),
        samples_(samples),
        pool_(options.threads),
        masked_(find_masked(real)),
        // What nobody tells apart is no error.
        live_(find_live_ranges(real,
                               [&](ValueId v) -> double {
                                 const auto& e = quantized.value(v).encoding;
                                 return e && e->axis < 0 ? e->scales[0] : 0;
                               })),
        heavy_(constant_bytes(real) > options.most_bytes),
        bf16_(options.bf16) {
    const Lanes lanes = lanes_for(real, std::min<size_t>(samples.count(), 4), options.threads);
    workers_.resize(lanes.count);
    for (Worker& w : workers_) w.pool = std::make_unique<cpu::Pool>(lanes.threads);
    batch_.resize(heavy_ ? samples.count() : lanes.count);
    for (Judged& j : batch_) j.kept.resize(real.value_count());
  }

  Result<Accuracy> run() {
    Accuracy out;
    out.samples = samples_.count();
    out.bf16 = bf16_;
    std::vector<LayerError> all(real_.value_count());
    if (!heavy_) SF_TRY(make_models({Which::real, Which::quantized}));
    for (size_t first = 0; first < samples_.count(); first += batch_.size()) {
      const size_t now = std::min(batch_.size(), samples_.count() - first);
      if (heavy_) SF_TRY(make_models({Which::real}));
      SF_TRY(for_samples(first, now,
                         [this](Worker& w, Judged& j, size_t sample) { return run_real(w, j, sample); }));
      if (heavy_) {
        for (Worker& w : workers_) w.real.reset();
        SF_TRY(make_models({Which::quantized}));
      }
      SF_TRY(for_samples(first, now, [this](Worker& w, Judged& j, size_t) { return run_quantized(w, j); }));
      for (size_t k = 0; k < now; ++k) {  // in the order of the samples: sums do not depend on threads
        add(batch_[k].layers, all);
        add(batch_[k].outputs, out.outputs);
      }
    }
    out.sqnr_db = 200;
    size_t k = 0;
    for (const Leaf& leaf : real_.outputs) {
      if (!leaf.value.valid()) continue;
      out.outputs[k].value = leaf.value;
      if (is_float(real_.dtype(leaf.value))) out.sqnr_db = std::min(out.sqnr_db, out.outputs[k].sqnr_db());
      ++k;
    }
    for (const NodeId id : real_.order())
      for (const ValueId v : real_.node(id).outputs)
        if (all[v.index].power > 0 || all[v.index].error > 0) {
          all[v.index].value = v;
          out.layers.push_back(all[v.index]);
        }
    return out;
  }

 private:
  enum class Which : uint8_t { real, quantized };
  struct Judged {  // a sample of the batch
    std::vector<Tensor> inputs, want;
    std::vector<Kept> kept;          // by value
    std::vector<LayerError> layers;  // by value
    std::vector<LayerError> outputs;
  };
  struct Worker {
    std::unique_ptr<cpu::Pool> pool;
    std::unique_ptr<Watched> real;
    std::unique_ptr<Simulation> quantized;
    Judged* now = nullptr;  // what it runs
    Status status;
  };

  static void add(const std::vector<LayerError>& from, std::vector<LayerError>& to) {
    to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i].add(from[i]);
  }

  Status make_models(std::initializer_list<Which> which) {
    Graph rounded;
    if (std::find(which.begin(), which.end(), Which::quantized) != which.end())
      rounded = with_rounded_constants(quantized_, pool_);
    std::vector<Status> made(which.size() * workers_.size());
    pool_.for_each(made.size(), [&](size_t i) {
      Worker& w = workers_[i / which.size()];
      made[i] = which.begin()[i % which.size()] == Which::real
                    ? make_real(w)
                    : make_quantized(w, workers_.size() == 1 ? std::move(rounded) : rounded);
    });
    for (Status& s : made) SF_TRY(std::move(s));
    return {};
  }

  Status make_real(Worker& w) {
    SF_ASSIGN(w.real, Watched::create(real_, *w.pool, /*inside=*/false, bf16_));
    w.real->set_watch([&w](ValueId v, const cpu::TensorDesc& desc, void* data) {
      if (desc.dtype != DType::f32) return ok_status();
      return w.now->kept[v.index].keep(desc, static_cast<const float*>(data), *w.pool);
    });
    return {};
  }

  Status make_quantized(Worker& w, Graph rounded) {
    SF_ASSIGN(w.quantized,
              Simulation::create(std::move(rounded), *w.pool, /*inside=*/false, /*rounded=*/true, bf16_));
    w.quantized->set_watch([this, &w](ValueId v, const cpu::TensorDesc& desc, void* data) {
      const std::vector<Kept>& kept = w.now->kept;
      if (v.index >= kept.size() || desc.dtype != DType::f32 || kept[v.index].count == 0 ||
          kept[v.index].shape != desc.shape || masked_[v.index])
        return ok_status();
      add_pairs(kept[v.index], desc, static_cast<const float*>(data), live_[v.index], *w.pool,
                w.now->layers[v.index]);
      return ok_status();
    });
    return {};
  }

  template <typename Run>
  Status for_samples(size_t first, size_t count, const Run& run) {
    return run_in_lanes(pool_, workers_, count, [&](Worker& w, size_t i) -> Status {
      w.now = &batch_[i];
      if (Status s = run(w, batch_[i], first + i); !s.ok())
        return s.take_error().during(cat("running ", samples_.name(first + i)));
      return {};
    });
  }

  Status run_real(Worker& w, Judged& j, size_t sample) {
    for (Kept& k : j.kept) k.count = 0;  // its memory stays
    SF_ASSIGN(const std::vector<Tensor> fed, samples_.read(sample));
    SF_ASSIGN(Feed feed, match_inputs(real_, fed));
    j.inputs = std::move(feed.tensors);
    SF_TRY(w.real->run(j.inputs));
    j.want = w.real->copy_outputs();
    return {};
  }

  Status run_quantized(Worker& w, Judged& j) {
    j.layers.assign(real_.value_count(), {});
    SF_TRY(w.quantized->run(j.inputs));
    j.outputs.assign(j.want.size(), {});
    for (size_t k = 0; k < j.want.size(); ++k) j.outputs[k].add(j.want[k], w.quantized->output(k));
    return {};
  }

  const Graph &real_, &quantized_;
  const Samples& samples_;
  cpu::Pool pool_;
  const std::vector<bool> masked_;
  const std::vector<Range> live_;
  const bool heavy_, bf16_;
  std::vector<Worker> workers_;
  std::vector<Judged> batch_;
};

}  // namespace

Result<Accuracy> measure(const Graph& real, const Graph& quantized, const Samples& samples,
                         const MeasureOptions& options) {
  SF_TRY(check_samples(real, samples));
  return Measurer(real, quantized, samples, options).run();
}

}  // namespace sixfold
