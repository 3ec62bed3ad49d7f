#include "sixfold/quantize/search.h"

#include <algorithm>
#include <cmath>

#include "sixfold/ops/cost.h"
#include "sixfold/quantize/price.h"

namespace sixfold {
namespace {

bool follows(Op op) {
  const QuantizeRule rule = quantize_rule(op);
  return rule == QuantizeRule::move || rule == QuantizeRule::select || rule == QuantizeRule::join ||
         rule == QuantizeRule::resample;
}

class Searcher {
 public:
  Searcher(const Graph& graph, const SearchOptions& options,
           const std::function<Result<double>(const SchemeOf&)>& loss)
      : graph_(graph), options_(options), loss_(loss), order_(graph.order()) {}

  Result<Search> run() {
    find_layers();
    for (size_t i = 0; i < out_.layers.size(); ++i) {
      SF_TRY(measure(out_.layers[i]));
      if (options_.progress) options_.progress(i + 1, out_.layers.size());
    }
    // Noises of layers add up, roughly: where the whole is worse than their sum, the sum must be less.
    double allowed = options_.max_loss;
    for (;;) {
      SF_TRY(refine_to(allowed));
      SF_ASSIGN(out_.measured, loss_of(schemes_of_all()));
      if (out_.measured <= options_.max_loss) break;
      if (all_refined())
        return unsupported("--max-loss is ", options_.max_loss, ", and with ",
                           to_text(options_.schemes.back()), " in all ", out_.layers.size(),
                           " layers the loss is ", out_.measured);
      allowed = std::min(allowed, sum_) * std::min(options_.max_loss / out_.measured, 0.7);
    }
    out_.predicted = sum_;
    out_.schemes = schemes_of_all();
    for (const SearchedLayer& l : out_.layers) {
      out_.micros += l.micros[l.chosen];
      out_.least_micros += l.micros.front();
      out_.most_micros += l.micros.back();
    }
    return std::move(out_);
  }

 private:
  void find_layers() {
    std::map<std::string, size_t> index;
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (quantize_rule(node.op) == QuantizeRule::none || follows(node.op) || node.outputs.empty()) continue;
      const auto real = [&](ValueId v) { return v.valid() && is_float(graph_.dtype(v)); };
      if (!real(node.output()) && !std::any_of(node.inputs.begin(), node.inputs.end(), real)) continue;
      const std::string& name = graph_.origin(node).name;
      const auto [it, fresh] = index.try_emplace(name, out_.layers.size());
      if (fresh) out_.layers.push_back({.name = name, .op = node.op});
      SearchedLayer& layer = out_.layers[it->second];
      if (!layer.nodes.empty() &&
          cost_of(graph_, node).macs > cost_of(graph_, graph_.node(layer.nodes[0])).macs)
        layer.op = node.op;
      layer.nodes.push_back(id);
    }
    for (SearchedLayer& layer : out_.layers)
      for (const Scheme& scheme : options_.schemes) {
        double micros = 0;
        for (const NodeId id : layer.nodes) micros += predicted_micros(graph_, graph_.node(id), scheme);
        layer.micros.push_back(micros);
      }
  }

  // What only moves elements is on the grid that they are on.
  SchemeOf with_followers(SchemeOf schemes) const {
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      if (!follows(node.op)) continue;
      for (const ValueId v : node.inputs) {
        const Node* before = v.valid() ? graph_.producer(v) : nullptr;
        const auto it = before ? schemes.find(before->id.index) : schemes.end();
        if (it == schemes.end()) continue;
        schemes.emplace(id.index, it->second);
        break;
      }
    }
    return schemes;
  }
  SchemeOf schemes_of_all() const {
    SchemeOf out;
    for (const SearchedLayer& l : out_.layers)
      for (const NodeId id : l.nodes) out[id.index] = options_.schemes[l.chosen];
    out = with_followers(std::move(out));
    // Inputs that are moved first.
    for (const NodeId id : order_)
      if (follows(graph_.node(id).op)) out.emplace(id.index, options_.schemes.front());
    return out;
  }
  Result<double> loss_of(const SchemeOf& schemes) {
    ++out_.tries;
    return loss_(schemes);
  }
  // Alone, in the scheme that it has now.
  Status measure(SearchedLayer& layer) {
    if (layer.loss.size() > layer.chosen) return {};
    SchemeOf only;
    for (const NodeId id : layer.nodes) only[id.index] = options_.schemes[layer.chosen];
    SF_ASSIGN(const double loss, loss_of(with_followers(std::move(only))));
    layer.loss.push_back(loss);
    return {};
  }
  bool all_refined() const {
    return std::all_of(out_.layers.begin(), out_.layers.end(),
                       [&](const SearchedLayer& l) { return l.chosen + 1 == options_.schemes.size(); });
  }

  // The next scheme for layers, first where most noise goes for least time.
  Status refine_to(double allowed) {
    const auto sum = [&] {
      double s = 0;
      for (const SearchedLayer& l : out_.layers) s += l.loss[l.chosen];
      return s;
    };
    for (sum_ = sum(); sum_ > allowed && !all_refined(); sum_ = sum()) {
      SearchedLayer* best = nullptr;
      double most = -1;
      for (SearchedLayer& l : out_.layers) {
        if (l.chosen + 1 == options_.schemes.size()) continue;
        const double gain = l.loss[l.chosen] / std::max(l.micros[l.chosen + 1] - l.micros[l.chosen], 1e-3);
        if (gain > most) most = gain, best = &l;
      }
      ++best->chosen;
      SF_TRY(measure(*best));
    }
    return {};
  }

  const Graph& graph_;
  const SearchOptions& options_;
  const std::function<Result<double>(const SchemeOf&)>& loss_;
  std::vector<NodeId> order_;
  double sum_ = 0;
  Search out_;
};

}  // namespace

Result<Search> search_precisions(const Graph& graph, const SearchOptions& options,
                                 const std::function<Result<double>(const SchemeOf&)>& loss) {
  if (options.schemes.empty()) return invalid_argument("a search needs precisions to choose from");
  return Searcher(graph, options, loss).run();
}

}  // namespace sixfold
