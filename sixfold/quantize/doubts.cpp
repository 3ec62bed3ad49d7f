#include "sixfold/quantize/doubts.h"

#include <algorithm>
#include <cmath>

#include "sixfold/ops/op.h"

namespace sixfold {
namespace {

// Beyond it no trained model computes, and halves end long before it.
constexpr float kHuge = 1e8f;
// Below it every element is, for any grid that a trained model has.
constexpr float kTiny = 1e-12f;
constexpr size_t kMostNames = 5;

bool is_constant(const Observation& o) { return o.seen() && o.count > 1 && o.min == o.max && !o.non_finite; }
float reach(const Observation& o) {
  if (!o.seen()) return 0;
  const float low =
      std::isfinite(o.unmasked_min) ? o.unmasked_min : o.max;  // masks may be as low as they like
  return std::max(std::fabs(low), std::fabs(o.max));
}
bool is_huge(const Observation& o) { return reach(o) > kHuge; }
bool is_tiny(const Observation& o) { return reach(o) > 0 && reach(o) < kTiny; }

class Doubts {
 public:
  Doubts(const Graph& graph, const Observations& seen) : graph_(graph), seen_(seen) {}

  std::vector<std::string> run() {
    const std::string samples = cat(seen_.samples, seen_.samples == 1 ? " sample" : " samples");
    tell(is_constant, cat("one number throughout the ", samples),
         "no sample shows what else it can be, and its range is a guess");
    tell(is_huge, "values beyond 1e8", "are the samples scaled as the model wants them?");
    tell(is_tiny, "no value beyond 1e-12", "are the samples scaled as the model wants them?");
    return std::move(out_);
  }

 private:
  using Test = bool (*)(const Observation&);

  bool holds(Test test, ValueId v) const {
    return graph_.dtype(v) == DType::f32 && v.index < seen_.values.size() && test(seen_.values[v.index]);
  }

  // Zeros of the model's own, such as the state that a recurrent layer begins with: no sample changes them.
  bool is_nothing(ValueId v) const {
    return graph_.constant(v) && v.index < seen_.values.size() && reach(seen_.values[v.index]) == 0;
  }

  // Inputs, and the layers where it begins: what follows from them says nothing new.
  void tell(Test test, std::string_view what, std::string_view so) {
    std::vector<std::string> names;
    std::vector<bool> follows(graph_.value_count(), false);
    for (const Leaf& leaf : graph_.inputs) {
      if (!leaf.value.valid() || !holds(test, leaf.value)) continue;
      follows[leaf.value.index] = true;
      names.push_back(named("input ", graph_.value(leaf.value).name, leaf.value));
    }
    for (const NodeId id : graph_.order()) {
      const Node& node = graph_.node(id);
      const bool told = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) {
        return v.valid() && (follows[v.index] || (node.op == Op::mul && is_nothing(v)));
      });
      for (const ValueId v : node.outputs) {
        const bool seen = v.index < seen_.values.size() && seen_.values[v.index].seen();
        const bool is = holds(test, v);
        follows[v.index] = is || (told && !seen);  // inside a product nobody looked
        if (is && !told) names.push_back(named("", graph_.origin(node).name, v));
      }
    }
    if (names.empty()) return;
    std::string text;
    for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
      text += cat(text.empty() ? "" : ", ", names[i]);
    if (names.size() > kMostNames) text += cat(" and ", names.size() - kMostNames, " more");
    out_.push_back(cat(text, names.size() == 1 ? " has " : " have ", what, ": ", so));
  }

  std::string named(std::string_view kind, std::string_view name, ValueId v) const {
    const Observation& o = seen_.values[v.index];
    return cat(kind, name, " (", o.min == o.max ? cat(o.min) : cat(o.min, " to ", o.max), ")");
  }

  const Graph& graph_;
  const Observations& seen_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> doubts_about(const Graph& graph, const Observations& seen) {
  return Doubts(graph, seen).run();
}

}  // namespace sixfold
