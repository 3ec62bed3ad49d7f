#include <algorithm>
#include <cmath>
#include <tuple>

#include "sixfold/graph/precision.h"
#include "sixfold/quantize/bounds.h"
#include "sixfold/quantize/fit_device.h"
#include "sixfold/quantize/live.h"
#include "sixfold/quantize/plan.h"
#include "sixfold/quantize/statistics.h"
#include "sixfold/quantize/weights.h"

namespace sixfold {
namespace {

Range range_of(const Tensor& constant) {
  const Tensor flat = to_contiguous(constant);
  Range r{};
  bool any = false;
  const auto see = [&](double x) {
    if (!std::isfinite(x)) return;
    const auto f = static_cast<float>(x);
    r.min = any ? std::min(r.min, f) : f;
    r.max = any ? std::max(r.max, f) : f;
    any = true;
  };
  if (flat.dtype == DType::f32) {
    const auto all = flat.values<float>();
    if (const Extremes e = extremes_of(all.data(), flat.count()); e.finite && flat.count() > 0)
      return {e.min, e.max};
    for (const float x : all) see(x);
  }
  if (flat.dtype != DType::f32)
    for (int64_t i = 0; i < flat.count(); ++i) see(element_real(flat, i));
  return r;
}

// All that a grid holds: what a value on it can be, whoever chose it.
Range range_of(const Encoding& e) {
  const double scale = e.scales[0], zero = e.zero_points.empty() ? 0 : e.zero_points[0];
  return {static_cast<float>((static_cast<double>(e.quant_min) - zero) * scale),
          static_cast<float>((static_cast<double>(e.quant_max) - zero) * scale)};
}

Range united(Range a, Range b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

class Quantizer {
 public:
  // seen: null for a trial
  Quantizer(Graph& graph, const QuantizePlan& plan, const Observations* seen)
      : graph_(graph), plan_(plan), seen_(seen) {}

  Result<QuantizeReport> run() {
    grids_.resize(plan_.groups.size());
    if (seen_) find_ranges();
    for (size_t g = 0; g < plan_.groups.size(); ++g) choose(g);
    for (size_t g = 0; g < plan_.groups.size(); ++g)
      for (const ValueId v : plan_.groups[g].members) graph_.value(v).encoding = grids_[g];
    for (const OperandGrid& o : plan_.operands) place(o);
    for (const NodeId id : plan_.in_float) graph_.node(id).attrs.set(kCompute, std::string("float"));
    if (seen_) fit_norm_offsets(graph_);
    weigh_all();
    SF_TRY(verify(graph_));
    return std::move(report_);
  }

 private:
  void find_ranges() {
    live_ = find_live_ranges(graph_, [&](ValueId v) { return likely_step(v); });
    // Values of 8 bits have no room themselves: what lies in others' was cut by them.
    const bool all_wide = std::none_of(plan_.groups.begin(), plan_.groups.end(),
                                       [](const GridGroup& g) { return g.bits == 8 && !g.fixed; });
    if (all_wide) can_be_ = find_bounds(graph_);
  }
  Range chosen(ValueId v, Observer observer, int bits, bool symmetric) const {
    return choose_range(seen_->values[v.index], observer, bits, symmetric, live_[v.index],
                        can_be_.empty() || !graph_.producer(v) ? nullptr : &can_be_[v.index]);
  }
  Range range_of_constant(ValueId v) const {
    const Range r = range_of(*graph_.constant(v));
    if (!seen_ || v.index >= seen_->values.size() || !seen_->values[v.index].seen()) return r;
    // A mask reaches as far as calibration found that it must.
    return r.min > kMask ? r : Range{std::max(r.min, seen_->values[v.index].min), r.max};
  }
  // Of a value's grid, if that covers all that was seen.
  double likely_step(ValueId v) const {
    if (plan_.group[v.index] == UINT32_MAX || v.index >= seen_->values.size()) return 0;
    const GridGroup& g = plan_.groups[plan_.group[v.index]];
    const Observation& o = seen_->values[v.index];
    if (g.fixed) return g.fixed->scales[0];
    return o.seen() ? encoding_for({o.min, o.max}, g.bits, g.symmetric).scales[0] : 0;
  }
  Range range_of_value(ValueId v, const GridGroup& g) const {
    if (graph_.constant(v)) return range_of_constant(v);
    if (!seen_) return Range{-1, 1};
    if (v.index >= seen_->values.size()) return Range{};
    const Observation& o = seen_->values[v.index];
    if (!o.seen()) return Range{};
    return chosen(v, g.observer, g.bits, g.symmetric);
  }

  void choose(size_t i) {
    const GridGroup& g = plan_.groups[i];
    Range range{};
    for (const ValueId v : g.ranged) range = united(range, range_of_value(v, g));
    range = {range.min * g.part, range.max * g.part};
    grids_[i] = g.fixed ? *g.fixed : encoding_for(range, g.bits, g.symmetric);
    if (g.fixed) return;
    if (g.bits == 16 && g.log_result) grids_[i] = fit_log_result(grids_[i]);
    if (g.arc_operand && seen_) grids_[i] = fit_arc_operand(grids_[i]);
    if (g.bits != 8) return;
    if (g.softmax_result)
      grids_[i] = fit_softmax_result(grids_[i]);
    else if (g.softmax_operand)
      grids_[i] = fit_softmax_operand(grids_[i]);
  }

  void place(const OperandGrid& o) {
    const ValueId v = graph_.node(o.node).input(o.operand);
    if (graph_.constant(v)) {
      Encoding e =
          o.group != UINT32_MAX ? grids_[o.group] : encoding_for(range_of_constant(v), o.bits, o.symmetric);
      if (o.group == UINT32_MAX && o.bits == 16) e = fit_constant(graph_.node(o.node), std::move(e));
      set_constant(o.node, o.operand, e);
      return;
    }
    const Encoding e =
        o.group != UINT32_MAX ? grids_[o.group] : encoding_for(range_read(v, o), o.bits, o.symmetric);
    if (graph_.value(v).encoding == e) return;
    graph_.set_input(o.node, o.operand, converted(v, e, o.node));
  }

  // All that the value's grid holds; with fewer bits than that has, what is worth holding.
  Range range_read(ValueId v, const OperandGrid& o) const {
    const GridGroup& own = plan_.groups[plan_.group[v.index]];
    const bool known = seen_ && v.index < seen_->values.size() && seen_->values[v.index].seen();
    if (!known || own.fixed || o.bits >= own.bits) return range_of(grids_[plan_.group[v.index]]);
    return chosen(v, o.observer, o.bits, o.symmetric);
  }

  Encoding fit_constant(const Node& node, Encoding e) const {
    if ((node.op != Op::add && node.op != Op::sub) || e.quant_min < 0) return e;
    const uint32_t sum = plan_.group[node.output().index];
    return sum != UINT32_MAX && grids_[sum].storage == e.storage ? fit_addend(e, grids_[sum]) : e;
  }

  // A constant may have other grids elsewhere: then it is another constant with the same bytes.
  void set_constant(NodeId node, size_t operand, const Encoding& e) {
    const ValueId v = graph_.node(node).input(operand);
    Value& value = graph_.value(v);
    if (value.encoding == e) return;
    for (const ValueId other : copies_[v])
      if (graph_.value(other).encoding == e) return graph_.set_input(node, operand, other);
    if (!value.encoding && value.users.size() == 1) {
      value.encoding = e;
      return;
    }
    const ValueId copy = graph_.add_constant(value.name, value.constant);
    graph_.value(copy).encoding = e;
    copies_[v].push_back(copy);
    graph_.set_input(node, operand, copy);
  }

  ValueId converted(ValueId v, const Encoding& e, NodeId user) {
    for (const ValueId other : converts_[v])
      if (graph_.value(other).encoding == e) return other;
    // Right after the value, so that all who read it may read this.
    const Value& value = graph_.value(v);
    NodeId before = value.kind == ValueKind::node ? graph_.next(value.producer) : graph_.first();
    const uint32_t origin =
        value.kind == ValueKind::node ? graph_.node(value.producer).origin : graph_.node(user).origin;
    const Type type = value.type;
    const NodeId id = graph_.add_node(Op::convert, "", {v}, {}, {type}, origin, before);
    const ValueId out = graph_.node(id).output();
    graph_.value(out).encoding = e;
    graph_.value(out).name = cat(graph_.value(v).name, "_convert");
    converts_[v].push_back(out);
    const std::string from =
        graph_.value(v).encoding ? std::string(to_text(graph_.value(v).encoding->storage)) : "float";
    report_.converts.push_back(cat(graph_.origin(graph_.node(user)).name, " reads ", told_name(v), ": ", from,
                                   " to ", to_text(e.storage)));
    return out;
  }

  // What lies inside an op of the model has no name: the op's kind, as in encodings (`OP.KIND`).
  std::string told_name(ValueId v) const {
    const Value& value = graph_.value(v);
    if (!value.name.empty() || value.kind != ValueKind::node) return value.name;
    const Node& node = graph_.node(value.producer);
    return cat(graph_.origin(node).name, ".", to_text(node.op));
  }

  // Steps of a recurrent layer read one weight: it has one encoding, with room for the biases of all.
  void weigh_all() {
    std::map<std::tuple<ValueId, int, int32_t, int64_t>, std::vector<const WeightGrid*>> readers;
    for (const WeightGrid& w : plan_.weights)
      readers[{graph_.node(w.node).input(w.operand), w.bits, w.axis, w.block}].push_back(&w);
    for (const auto& [weight, all] : readers)
      if (const Tensor* data = graph_.constant(std::get<ValueId>(weight))) weigh(*data, all);
  }

  void weigh(const Tensor& data, const std::vector<const WeightGrid*>& readers) {
    const WeightGrid& w = *readers[0];
    Encoding e = !seen_        ? any_encoding(data, w)
                 : w.block > 0 ? block_encoding(data, w.axis, w.block, w.bits)
                               : weight_encoding(data, w.axis, w.bits);
    for (const WeightGrid* r : readers)
      if (seen_ && r->operand == 1 && r->block == 0) make_room_for_bias(graph_.node(r->node), e);
    Value& value = graph_.value(graph_.node(w.node).input(w.operand));
    if (!value.encoding && value.users.size() == readers.size()) value.encoding = e;
    for (const WeightGrid* r : readers) set_constant(r->node, r->operand, e);
    report_.weights += readers.size();
  }

  // Of the right form; for a trial nobody looks through the weights.
  static Encoding any_encoding(const Tensor& weight, const WeightGrid& w) {
    Encoding e = encoding_for({-1, 1}, w.bits, /*symmetric=*/true);
    e.axis = w.axis;
    e.block = w.block;
    if (w.axis < 0) return e;
    const auto channels = static_cast<size_t>(weight.shape[static_cast<size_t>(w.axis)]);
    const int64_t width = w.block > 0 ? weight.shape[w.axis == 0 ? 1 : 0] / w.block : 1;
    e.scales.assign(channels * static_cast<size_t>(width), e.scales[0]);
    e.zero_points.assign(channels, 0);
    return e;
  }

  // 32 bits hold a bias on the grid of operand times weight, if the weight's steps are not too small for it.
  void make_room_for_bias(const Node& node, Encoding& e) const {
    const Tensor* bias = node.inputs.size() > 2 ? graph_.constant(node.input(2)) : nullptr;
    const auto& x = graph_.value(node.input(0)).encoding;
    if (!bias || !x) return;
    const Tensor flat = to_contiguous(*bias);
    for (int64_t i = 0; i < flat.count(); ++i) {
      const double least = std::fabs(element_real(flat, i)) / (x->scales[0] * 2.0e9);
      float& scale = e.scales[static_cast<size_t>(i) % e.scales.size()];
      scale = std::max(scale, static_cast<float>(least));
    }
  }

  Graph& graph_;
  const QuantizePlan& plan_;
  const Observations* seen_;
  std::vector<Range> live_;    // by value
  std::vector<Range> can_be_;  // by value; empty: some have 8 bits
  std::vector<Encoding> grids_;
  std::map<ValueId, std::vector<ValueId>> copies_, converts_;
  QuantizeReport report_;
};

}  // namespace

Result<QuantizeReport> quantize(Graph& graph, const QuantizePlan& plan, const Observations& seen) {
  return Quantizer(graph, plan, &seen).run();
}

Status quantize_for_trial(Graph& graph, const QuantizePlan& plan) {
  SF_TRY(Quantizer(graph, plan, nullptr).run());
  return {};
}

}  // namespace sixfold
