#include "sixfold/quantize/meter.h"

#include <algorithm>

#include "sixfold/engine/session.h"
#include "sixfold/quantize/round.h"

namespace sixfold {
namespace {

// Whether only grids of values that are computed differ: two copies of one graph with encodings.
bool same_but_for_grids(const Graph& a, const Graph& b) {
  if (a.value_count() != b.value_count() || a.node_count() != b.node_count()) return false;
  const std::vector<NodeId> order = a.order();
  if (order != b.order()) return false;
  for (const NodeId id : order) {
    const Node &x = a.node(id), &y = b.node(id);
    if (x.op != y.op || x.inputs != y.inputs || x.outputs != y.outputs) return false;
  }
  for (const Value& v : a.values()) {
    if (v.kind != ValueKind::constant || v.users.empty()) continue;
    const Value& w = b.value(v.id);
    if (w.kind != v.kind || v.constant.data != w.constant.data || v.encoding != w.encoding) return false;
  }
  return true;
}

void add_outputs(Graph& graph, std::span<const ValueId> values) {
  for (const ValueId v : values) graph.outputs.push_back({.value = v});
}

}  // namespace

Meter::Meter(const Lanes& lanes) : pool_(lanes.count), lanes_(lanes.count) {
  for (Lane& lane : lanes_) lane.pool = std::make_unique<cpu::Pool>(lanes.threads);
}

Result<std::unique_ptr<Meter>> Meter::create(const Graph& real, const Samples& all, size_t count,
                                             size_t threads, std::vector<std::vector<Tensor>> outputs,
                                             bool bf16, std::vector<ValueId> parts) {
  if (!parts.empty()) {
    Graph with_parts = real;
    add_outputs(with_parts, parts);
    SF_ASSIGN(auto out, create(with_parts, all, count, threads, {}, bf16));
    out->parts_ = std::move(parts);
    return out;
  }
  const auto samples = spread_samples(all, count);
  auto out = std::make_unique<Meter>(lanes_for(real, samples->count(), threads));
  out->bf16_ = bf16;
  for (const Leaf& leaf : real.outputs)
    if (leaf.value.valid()) out->judged_.push_back(is_float(real.dtype(leaf.value)));
  out->samples_.resize(samples->count());
  std::vector<std::unique_ptr<Watched>> models(out->lanes_.size());
  SF_TRY(run_in_lanes(out->pool_, out->lanes_, out->samples_.size(), [&](Lane& lane, size_t i) -> Status {
    SF_ASSIGN(const std::vector<Tensor> fed, samples->read(i));
    SF_ASSIGN(const Feed feed, match_inputs(real, fed));
    Sample& sample = out->samples_[i];
    sample.inputs = feed.tensors;
    if (i < outputs.size() && !outputs[i].empty()) {
      sample.outputs = std::move(outputs[i]);
      return {};
    }
    auto& model = models[static_cast<size_t>(&lane - out->lanes_.data())];
    if (!model) {
      SF_ASSIGN(model, Watched::create(real, *lane.pool, /*inside=*/false, bf16));
    }
    SF_TRY(model->run(feed.tensors));
    sample.outputs = model->copy_outputs();
    return {};
  }));
  return out;
}

void Meter::rest() {
  for (Lane& lane : lanes_) lane.model.reset();
}

Status Meter::prepare(const Graph& quantized, bool real_weights) {
  if (lanes_[0].model && made_real_ == real_weights && same_but_for_grids(made_of_, quantized)) {
    for (Lane& lane : lanes_) lane.model->take_grids(quantized);
    return {};
  }
  rest();  // their memory serves the next ones
  made_of_ = quantized;
  made_real_ = real_weights;
  cpu::Pool all(lanes_.size() * lanes_[0].pool->threads());
  // Biases are rounded to so fine a grid that nothing is seen of it.
  Graph rounded = with_rounded_constants(quantized, all, {.weights = !real_weights, .biases = false});
  add_outputs(rounded, parts_);
  pool_.for_each(lanes_.size(), [&](size_t k) {
    lanes_[k].status = [&]() -> Status {
      SF_ASSIGN(lanes_[k].model,
                Simulation::create(lanes_.size() == 1 ? std::move(rounded) : rounded, *lanes_[k].pool,
                                   /*inside=*/false, /*rounded=*/true, bf16_));
      return {};
    }();
  });
  for (Lane& lane : lanes_)
    if (!lane.status.ok()) return lane.status.take_error();
  return {};
}

Result<double> Meter::operator()(std::span<const Graph> by_part, bool real_weights) {
  std::vector<std::vector<LayerError>> errors(samples_.size());
  const size_t parts = std::min(by_part.size(), samples_.size());
  for (size_t part = 0; part < parts; ++part) {
    SF_TRY(prepare(by_part[part], real_weights));
    const size_t count = (samples_.size() - part + parts - 1) / parts;
    SF_TRY(run_in_lanes(pool_, lanes_, count, [&](Lane& lane, size_t n) -> Status {
      const size_t i = part + n * parts;
      SF_TRY(lane.model->run(samples_[i].inputs));
      errors[i].resize(judged_.size());
      for (size_t k = 0; k < judged_.size(); ++k) {
        if (judged_[k]) errors[i][k].add(samples_[i].outputs[k], lane.model->output(k));
      }
      return {};
    }));
  }
  std::vector<LayerError> outputs;
  worst_ = 200;
  for (size_t k = 0; k < judged_.size(); ++k) {
    if (!judged_[k]) continue;
    LayerError sum;
    for (const std::vector<LayerError>& e : errors) sum.add(e[k]);
    outputs.push_back(sum);
    worst_ = std::min(worst_, sum.sqnr_db());
  }
  return decibels_of(outputs);
}

}  // namespace sixfold
