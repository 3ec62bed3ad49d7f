#include "sixfold/quantize/simulate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sixfold/engine/session.h"
#include "sixfold/quantize/calibrate.h"
#include "sixfold/quantize/live.h"
#include "sixfold/quantize/masks.h"
#include "sixfold/quantize/round.h"

namespace sixfold {
namespace {

// The elements of a value of one sample, with the layout that they are in.
struct Kept {
  Shape shape, strides;
  std::vector<float> data;
};

// The powers of what was wanted and of its distance from what came, both within the range that counts.
struct Sums {
  double power = 0, error = 0;
  void add(float a, float b, Range seen) {
    const auto within = [&](float x) { return x < seen.min ? seen.min : x > seen.max ? seen.max : x; };
    const double d = static_cast<double>(within(a)) - within(b);
    power += static_cast<double>(a) * a;
    error += d * d;
  }
};

// Elements at the same place, whatever the layouts.
void add_pairs(const Kept& a, const cpu::TensorDesc& desc, const float* b, Range seen, LayerError& to) {
  constexpr size_t kLanes = 16;  // sums beside each other, so that they are vector code
  Sums sums[kLanes];
  const float* x = a.data.data();
  const size_t n = a.data.size();
  if (a.strides == desc.strides) {
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane].add(x[i + lane], b[i + lane], seen);
    for (; i < n; ++i) sums[0].add(x[i], b[i], seen);
  } else {
    Shape at(a.shape.size(), 0);
    for (size_t i = 0; i < n; ++i) {
      int64_t p = 0, q = 0;
      for (size_t d = 0; d < at.size(); ++d) p += at[d] * a.strides[d], q += at[d] * desc.strides[d];
      sums[0].add(x[p], b[q], seen);
      for (size_t d = at.size(); d-- > 0 && ++at[d] == a.shape[d];) at[d] = 0;
    }
  }
  for (const Sums& s : sums) to.power += s.power, to.error += s.error;
}

// A result that is no number, or infinite where the model's is not, is as wrong as can be.
double decibel(double power, double error) {
  if (!std::isfinite(error)) return -200;
  if (error == 0) return 200;
  return std::clamp(10 * std::log10(std::max(power, 1e-300) / error), -200.0, 200.0);
}

struct Worker {
  std::unique_ptr<cpu::Pool> pool;
  std::unique_ptr<Watched> real;
  std::unique_ptr<Simulation> quantized;
  std::vector<Kept> kept;          // by value
  std::vector<LayerError> sample;  // by value
  std::vector<LayerError> outputs;
  Status status;
};

}  // namespace

Result<std::unique_ptr<Simulation>> Simulation::create(const Graph& quantized, cpu::Pool& pool, bool inside,
                                                       bool rounded, bool bf16) {
  auto out = std::make_unique<Simulation>();
  const Graph graph = rounded ? quantized : with_rounded_constants(quantized, pool);
  out->take_grids(graph);
  SF_ASSIGN(out->model_, Watched::create(graph, pool, inside, bf16));
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

Result<Accuracy> measure(const Graph& real, const Graph& quantized, const Samples& samples, size_t threads) {
  SF_TRY(check_samples(real, samples));
  const Lanes lanes = lanes_for(real, std::min<size_t>(samples.count(), 4), threads);
  const size_t width = lanes.count;
  cpu::Pool pool(threads);
  const Graph rounded = with_rounded_constants(quantized, pool);
  const std::vector<bool> masked = find_masked(real);
  // What nobody tells apart is no error.
  const std::vector<Range> live = find_live_ranges(real, [&](ValueId v) -> double {
    const auto& e = quantized.value(v).encoding;
    return e && e->axis < 0 ? e->scales[0] : 0;
  });
  std::vector<Worker> workers(width);
  for (Worker& w : workers) w.pool = std::make_unique<cpu::Pool>(lanes.threads);
  std::vector<Status> made(2 * width);  // a float model and a quantized one for each
  pool.for_each(made.size(), [&](size_t i) {
    Worker& w = workers[i / 2];
    made[i] = [&]() -> Status {
      if (i % 2 == 0) {
        SF_ASSIGN(w.real, Watched::create(real, *w.pool));
      } else {
        SF_ASSIGN(w.quantized, Simulation::create(rounded, *w.pool, /*inside=*/false, /*rounded=*/true));
      }
      return {};
    }();
  });
  for (Status& s : made) SF_TRY(std::move(s));
  for (Worker& w : workers) {
    w.kept.resize(real.value_count());
    w.sample.resize(real.value_count());
    w.real->set_watch([&w](ValueId v, const cpu::TensorDesc& desc, void* data) {
      if (desc.dtype != DType::f32) return ok_status();
      const auto* x = static_cast<const float*>(data);
      Kept& kept = w.kept[v.index];
      kept.shape = desc.shape;
      kept.strides = desc.strides;
      kept.data.assign(x, x + desc.count());
      return ok_status();
    });
    w.quantized->set_watch([&](ValueId v, const cpu::TensorDesc& desc, void* data) {
      if (v.index >= w.kept.size() || desc.dtype != DType::f32 || w.kept[v.index].data.empty() ||
          w.kept[v.index].shape != desc.shape || masked[v.index])
        return ok_status();
      add_pairs(w.kept[v.index], desc, static_cast<const float*>(data), live[v.index], w.sample[v.index]);
      return ok_status();
    });
  }
  const auto run_one = [&](Worker& w, size_t i) -> Status {
    for (Kept& k : w.kept) k.data.clear();  // memory is touched once
    w.sample.assign(w.sample.size(), {});
    SF_ASSIGN(const std::vector<Tensor> fed, samples.read(i));
    SF_ASSIGN(const Feed feed, match_inputs(real, fed));
    SF_TRY(w.real->run(feed.tensors));
    SF_TRY(w.quantized->run(feed.tensors));
    w.outputs.assign(w.real->output_count(), {});
    for (size_t k = 0; k < w.outputs.size(); ++k) {
      w.outputs[k].add(w.real->output(k), w.quantized->output(k));
    }
    return {};
  };
  Accuracy out;
  out.samples = samples.count();
  std::vector<LayerError> all(real.value_count());
  for (size_t first = 0; first < samples.count(); first += width) {
    const size_t now = std::min(width, samples.count() - first);
    pool.for_each(now, [&](size_t k) { workers[k].status = run_one(workers[k], first + k); });
    for (size_t k = 0; k < now; ++k) {  // in the order of the samples, so that sums do not depend on threads
      Worker& w = workers[k];
      if (!w.status.ok()) return w.status.take_error().during(cat("running ", samples.name(first + k)));
      for (size_t i = 0; i < all.size(); ++i) {
        all[i].power += w.sample[i].power;
        all[i].error += w.sample[i].error;
      }
      if (out.outputs.empty()) out.outputs.resize(w.outputs.size());
      for (size_t i = 0; i < w.outputs.size(); ++i) {
        out.outputs[i].power += w.outputs[i].power;
        out.outputs[i].error += w.outputs[i].error;
      }
    }
  }
  out.sqnr_db = 200;
  size_t k = 0;
  for (const Leaf& leaf : real.outputs) {
    if (!leaf.value.valid()) continue;
    out.outputs[k].value = leaf.value;
    if (is_float(real.dtype(leaf.value))) out.sqnr_db = std::min(out.sqnr_db, out.outputs[k].sqnr_db());
    ++k;
  }
  for (const NodeId id : real.order())
    for (const ValueId v : real.node(id).outputs)
      if (all[v.index].power > 0 || all[v.index].error > 0) {
        all[v.index].value = v;
        out.layers.push_back(all[v.index]);
      }
  return out;
}

}  // namespace sixfold
