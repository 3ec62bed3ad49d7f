#include "sixfold/package/storage.h"

#include <algorithm>

#include "sixfold/package/bounds.h"
#include "sixfold/plan/arena.h"

namespace sixfold {
namespace {

constexpr std::string_view kView = "aten.view_copy.default";

class Placer {
 public:
  Placer(const Graph& graph, const PackageOptions& options) : graph_(graph), options_(options) {
    out_.storage.assign(graph.value_count(), Placement::kNone);
    lasting_.assign(graph.value_count(), false);
    returned_.assign(graph.value_count(), false);
    for (const Leaf& leaf : graph.outputs)
      if (leaf.value.valid()) lasting_[leaf.value.index] = returned_[leaf.value.index] = true;
    for (const Graph::Mutation& m : graph.mutations) {
      lasting_[m.next.index] = true;
      mutated_.insert(m.state);
    }
  }

  Result<Placement> place() {
    for (const Leaf& leaf : graph_.inputs)
      if (leaf.value.valid()) SF_TRY(own(leaf.value, -1));
    for (const Graph::Mutation& m : graph_.mutations) SF_TRY(own(m.state, -1));
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) SF_TRY(place_node(graph_.node(id)));
    const int end = static_cast<int>(out_.steps.size());
    for (uint32_t v = 0; v < graph_.value_count(); ++v)
      if (lasting_[v]) {
        SF_TRY(own(ValueId{v}, end));  // an input or constant that is an output as it is
        extend(out_.storage[v], end);
      }
    for (const ValueId state : mutated_) extend(out_.storage[state.index], end);
    if (options_.in_place) share_in_place();
    return finish();
  }

 private:
  // A storage of its own for a value that has none yet.
  Status own(ValueId id, int first) {
    uint32_t& at = out_.storage[id.index];
    if (at != Placement::kNone) return {};
    const Value& v = graph_.value(id);
    SF_ASSIGN(const Shape bound, bound_of(v.type.dims, graph_.symbols));
    for (const int64_t n : bound)
      if (n > INT32_MAX) return unsupported("value ", v.name, " is ", v.type, ": an extent is above 2^31");
    Storage s;
    s.bytes = static_cast<uint64_t>(numel(bound)) * size_of(v.type.dtype);
    if (s.bytes > uint64_t{1} << 46)
      return unsupported("value ", v.name, " is ", v.type, ": too large to place");
    const bool mutated = mutated_.contains(id);
    s.kind = Storage::planned;
    if (v.kind == ValueKind::constant || (v.kind == ValueKind::state && !mutated)) s.kind = Storage::constant;
    if (v.kind == ValueKind::input && !options_.plan_inputs) s.kind = Storage::caller;
    if (v.kind == ValueKind::node && returned_[id.index] && !options_.plan_outputs) s.kind = Storage::caller;
    s.first = s.last = first;
    s.owner = id;
    at = static_cast<uint32_t>(out_.storages.size());
    out_.storages.push_back(s);
    return {};
  }

  void extend(uint32_t storage, int step) {
    Storage& s = out_.storages[find(storage)];
    s.last = std::max(s.last, step);
  }

  bool is_view(const Node& node) {
    if (node.target != kView) return false;
    const ValueId from = node.input(0), to = node.output();
    if (!is_static(graph_.dims(from)) || !is_static(graph_.dims(to))) return false;
    const Storage& s = out_.storages[find(out_.storage[from.index])];
    if (s.kind == Storage::caller) return false;
    // What leaves the method has memory of its own when the caller brings it, and when a state is
    // overwritten.
    if (lasting_[to.index] && (!options_.plan_outputs || mutated_.contains(s.owner))) return false;
    return true;
  }

  Status place_node(const Node& node) {
    for (const ValueId v : node.inputs)
      if (v.valid()) SF_TRY(own(v, -1));
    if (is_view(node)) {
      out_.storage[node.output().index] = out_.storage[node.input(0).index];
      ++out_.views;
      return {};
    }
    const int step = static_cast<int>(out_.steps.size());
    for (const ValueId v : node.inputs)
      if (v.valid()) extend(out_.storage[v.index], step);
    for (const ValueId v : node.outputs) SF_TRY(own(v, step));
    out_.steps.push_back(node.id);
    return {};
  }

  uint32_t find(uint32_t s) {
    while (s < merged_.size() && merged_[s] != s) s = merged_[s];
    return s;
  }

  // The result takes the memory of an operand that dies in this step.
  void share_in_place() {
    merged_.resize(out_.storages.size());
    for (uint32_t i = 0; i < merged_.size(); ++i) merged_[i] = i;
    for (size_t i = 0; i < out_.steps.size(); ++i) {
      const Node& node = graph_.node(out_.steps[i]);
      if (!works_in_place(node.target)) continue;
      const uint32_t to = out_.storage[node.output().index];
      if (out_.storages[to].kind != Storage::planned) continue;
      for (const ValueId operand : node.inputs) {
        if (!operand.valid() || !may_overwrite(node, operand, static_cast<int>(i))) continue;
        const uint32_t from = find(out_.storage[operand.index]);
        merged_[to] = from;
        out_.storages[from].last = out_.storages[to].last;
        ++out_.in_place;
        break;
      }
    }
  }

  bool may_overwrite(const Node& node, ValueId operand, int step) {
    const Storage& s = out_.storages[find(out_.storage[operand.index])];
    if (s.kind != Storage::planned || s.last != step || mutated_.contains(s.owner)) return false;
    if (!(graph_.type(operand) == graph_.type(node.output()))) return false;
    // Another operand may be the same memory in another shape: a view that is broadcast.
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId other) {
      return !other.valid() || find(out_.storage[other.index]) != find(out_.storage[operand.index]) ||
             graph_.type(other) == graph_.type(operand);
    });
  }

  Result<Placement> finish() {
    std::vector<Block> blocks;
    std::vector<uint32_t> owners;
    const int end = static_cast<int>(out_.steps.size());
    for (uint32_t i = 0; i < out_.storages.size(); ++i) {
      const Storage& s = out_.storages[i];
      if (s.kind != Storage::planned || s.bytes == 0) continue;
      out_.naive_bytes += (s.bytes + options_.alignment - 1) / options_.alignment * options_.alignment;
      if (find(i) != i) continue;
      const bool state = mutated_.contains(s.owner);  // keeps its value between runs
      blocks.push_back({s.bytes, state ? -1 : s.first, state ? end : s.last});
      owners.push_back(i);
    }
    const Arena arena = plan_arena(blocks, options_.alignment);
    for (size_t k = 0; k < owners.size(); ++k) out_.storages[owners[k]].offset = arena.offsets[k];
    out_.arena_bytes = arena.size_bytes;
    for (uint32_t& s : out_.storage)
      if (s != Placement::kNone) s = find(s);
    return std::move(out_);
  }

  const Graph& graph_;
  const PackageOptions& options_;
  Placement out_;
  std::vector<bool> lasting_, returned_;  // by value: an output or the next value of a state; an output
  std::set<ValueId> mutated_;             // states and inputs that are overwritten at the end
  std::vector<uint32_t> merged_;          // by storage: whose memory it took
};

}  // namespace

Result<Placement> place_values(const Graph& graph, const PackageOptions& options) {
  return Placer(graph, options).place();
}

bool works_in_place(std::string_view target) {
  static const std::set<std::string_view> targets = {
      "aten.abs.default",        "aten.acos.default",        "aten.acosh.default",
      "aten.add.Tensor",         "aten.asin.default",        "aten.asinh.default",
      "aten.atan.default",       "aten.atan2.default",       "aten.atanh.default",
      "aten.bitwise_and.Tensor", "aten.bitwise_not.default", "aten.bitwise_or.Tensor",
      "aten.bitwise_xor.Tensor", "aten.ceil.default",        "aten.clamp.default",
      "aten.cos.default",        "aten.cosh.default",        "aten.div.Tensor",
      "aten.elu.default",        "aten.erf.default",         "aten.exp.default",
      "aten.expm1.default",      "aten.floor.default",       "aten.fmod.Tensor",
      "aten.gelu.default",       "aten.leaky_relu.default",  "aten.log.default",
      "aten.log10.default",      "aten.log1p.default",       "aten.log2.default",
      "aten.maximum.default",    "aten.minimum.default",     "aten.mul.Tensor",
      "aten.neg.default",        "aten.pow.Tensor_Tensor",   "aten.reciprocal.default",
      "aten.relu.default",       "aten.remainder.Tensor",    "aten.round.default",
      "aten.rsqrt.default",      "aten.sigmoid.default",     "aten.sign.default",
      "aten.sin.default",        "aten.sinh.default",        "aten.sqrt.default",
      "aten.sub.Tensor",         "aten.tan.default",         "aten.tanh.default",
      "aten.trunc.default",      "aten.where.self",
  };
  return targets.contains(target);
}

}  // namespace sixfold
