#include <algorithm>

#include "sixfold/graph/encoding.h"
#include "sixfold/quantize/given.h"
#include "sixfold/quantize/plan.h"

namespace sixfold {

QuantizeRule quantize_rule(Op op) {
  switch (op) {
#define QUANTIZE(id, rule) \
  case Op::id:             \
    return QuantizeRule::rule;
#include "sixfold/quantize/rules.def"
#undef QUANTIZE
    default:
      return QuantizeRule::none;
  }
}

QuantizeRule quantize_rule(const Node& node) {
  const QuantizeRule rule = quantize_rule(node.op);
  if (rule != QuantizeRule::resample) return rule;
  return node.attrs.text("mode") == "cubic" ? QuantizeRule::compute : QuantizeRule::move;
}

namespace {

constexpr uint32_t kNone = UINT32_MAX;

class Annotator {
 public:
  Annotator(const Graph& graph, const QuantizeOptions& options)
      : graph_(graph), options_(options), info_(graph.value_count()), order_(graph.order()) {
    for (size_t i = 0; i < info_.size(); ++i) info_[i].parent = static_cast<uint32_t>(i);
  }

  Result<QuantizePlan> run() {
    SF_TRY(choose());
    give_grids();
    for (const NodeId id : order_)
      if (is_quantized(id)) share(graph_.node(id));
    for (const Graph::Mutation& m : graph_.mutations)
      if (has_grid(m.state) && has_grid(m.next)) unite(m.next, m.state);
    make_groups();
    for (const NodeId id : order_)
      if (is_quantized(id)) demand(graph_.node(id));
    for (const NodeId id : order_)
      if (!is_quantized(id) && touches_grid(graph_.node(id))) plan_.in_float.push_back(id);
    for (const auto& [id, choice] : quantized_) tell_given(graph_, graph_.node(id), plan_);
    for (const auto& [node, reason] : options_.in_float)
      violate(reason, graph_.node({node}), cat("(", graph_.node({node}).op, ") computes in float"));
    return std::move(plan_);
  }

 private:
  struct Info {
    uint32_t parent = kNone;
    int bits = 0;  // 0: no grid
    bool symmetric = false;
    Observer observer = Observer::min_max;
    std::optional<Encoding> fixed;
    bool ignored = false;  // the values that it has before it is cut off to its group's range
  };

  bool real(ValueId v) const { return v.valid() && is_float(graph_.dtype(v)); }
  bool is_data(ValueId v) const { return real(v) && !is_constant(v); }
  bool is_constant(ValueId v) const { return graph_.constant(v) || stored_integers(graph_, v); }
  bool has_grid(ValueId v) const { return is_data(v) && info_[v.index].bits != 0; }
  bool is_quantized(NodeId id) const { return quantized_.contains(id); }
  bool touches_grid(const Node& node) const {
    const auto grid = [&](ValueId v) { return has_grid(v); };
    return std::any_of(node.inputs.begin(), node.inputs.end(), grid) ||
           std::any_of(node.outputs.begin(), node.outputs.end(), grid);
  }

  // Which nodes compute on grids, and how.
  Status choose() {
    std::set<std::string> blocks_used;
    std::vector<bool> rules_used(options_.recipe.size(), false);
    for (const NodeId id : order_) {
      const Node& node = graph_.node(id);
      const auto is_real = [&](ValueId v) { return real(v); };
      if (!std::any_of(node.inputs.begin(), node.inputs.end(), is_real) &&
          !std::any_of(node.outputs.begin(), node.outputs.end(), is_real))
        continue;
      if (is_stored_weight(graph_, node)) continue;
      const QuantizeRule rule = quantize_rule(node.op);
      const Origin& origin = graph_.origin(node);
      SF_ASSIGN(const RecipeChoice asked, options_.recipe.choice_for(graph_, node, rules_used));
      const auto own = options_.schemes.find(id.index);
      const Scheme& usual = own != options_.schemes.end() ? own->second : options_.scheme;
      const auto by_op = options_.ranges.of_ops.find(node.op);
      const Observer observer =
          by_op != options_.ranges.of_ops.end() ? by_op->second : options_.ranges.observer;
      NodeChoice c{.scheme = asked.scheme.value_or(usual), .observer = asked.observer.value_or(observer)};
      if (options_.wide.contains(id.index) && c.scheme.activation_bits == 8) c.scheme.activation_bits = 16;
      // What has more bits than the others has them so that nothing need be cut off.
      if (c.scheme.activation_bits > options_.scheme.activation_bits && !asked.observer)
        c.observer = Observer::mse;
      c.per_channel = asked.per_channel.value_or(node.op == Op::convolution ? options_.per_channel_conv
                                                 : node.op == Op::linear    ? options_.per_channel_linear
                                                                            : options_.per_channel_embedding);
      std::vector<int64_t> block = asked.block;
      if (rule == QuantizeRule::weights)
        for (const std::string& name : names_of(origin))
          if (const auto it = options_.block_sizes.find(name); it != options_.block_sizes.end()) {
            blocks_used.insert(name);
            block = it->second;
          }
      if (rule == QuantizeRule::weights && c.scheme.blocks && !block.empty())
        SF_TRY(set_block(node, block, c));
      if (rule == QuantizeRule::none || c.scheme.computes_in_float() || options_.in_float.contains(id.index))
        continue;
      quantized_.emplace(id, c);
    }
    if (!options_.whole_model) return {};
    for (const auto& [name, size] : options_.block_sizes)
      if (!blocks_used.contains(name))
        return invalid_argument("--block-size names ", name, ", which is no convolution or linear layer");
    return options_.recipe.check_used(rules_used);
  }

  // From the least exact on: what was folded in has the module that has the weight.
  static std::vector<std::string> names_of(const Origin& origin) {
    std::vector<std::string> out{origin.module_path};
    for (const Origin& f : origin.folded) out.push_back(f.module_path);
    out.push_back(origin.name);
    for (const Origin& f : origin.folded) out.push_back(f.name);
    return out;
  }

  Status set_block(const Node& node, const std::vector<int64_t>& size, NodeChoice& c) {
    const Tensor* w = graph_.constant(node.input(1));
    if (!w) return invalid_argument(graph_.origin(node).name, " has blocks, and a weight that is computed");
    const Shape& shape = w->shape;
    const bool transposed = node.op == Op::convolution && node.attrs.flag("transposed");
    const size_t in_axis = transposed ? 0 : 1;
    bool right = size.size() == shape.size();
    for (size_t i = 0; i < size.size() && right; ++i)
      right = i == in_axis ? size[i] > 0 && shape[i] % size[i] == 0 : size[i] == 1 || i > 1;
    if (!right)
      return invalid_argument("--block-size of ", graph_.origin(node).name, " does not divide its weight ",
                              to_text(to_dims(shape)), ", as 1,32 does with 64 input channels");
    const bool taps = shape.size() > 2 && numel(shape) != shape[0] * shape[1];
    if (options_.arch < 69 || taps) {
      violate(taps ? "weights in blocks need a filter of one tap [htp.conv.3]"
                   : "weights in blocks need HTP V69 or later [htp.block.1]",
              node, "has a scale for each channel");
      c.per_channel = true;
      return {};
    }
    c.block = size[in_axis];
    return {};
  }
  void violate(const std::string& reason, const Node& node, std::string_view instead) {
    plan_.violations[reason].push_back(cat(graph_.origin(node).name, " ", instead));
  }

  // A grid for every value that a node on a grid reads or writes.
  void give_grids() {
    for (const Value& v : graph_.values()) {
      if (!is_data(v.id) || (v.kind == ValueKind::node && !graph_.node(v.producer).alive)) continue;
      Info& info = info_[v.id.index];
      if (v.encoding) {
        info.fixed = v.encoding;
        const int64_t range = v.encoding->quant_max - v.encoding->quant_min;
        info.bits = range <= 255 ? 8 : range <= 65535 ? 16 : 32;
        continue;
      }
      if (v.kind == ValueKind::node)
        if (const auto it = quantized_.find(v.producer); it != quantized_.end()) {
          info.bits = it->second.scheme.activation_bits;
          info.observer = it->second.observer;
          continue;
        }
      for (const NodeId u : v.users)
        if (const auto it = quantized_.find(u); it != quantized_.end() && is_read_as_data(v.id, u)) {
          info.bits = std::max(info.bits, it->second.scheme.activation_bits);
          info.observer = it->second.observer;
        }
    }
  }
  static bool is_read_as_data(ValueId, NodeId) { return true; }

  uint32_t root(ValueId v) {
    uint32_t i = v.index;
    while (info_[i].parent != i) i = info_[i].parent = info_[info_[i].parent].parent;
    return i;
  }
  const Info& of(ValueId v) { return info_[root(v)]; }
  // b joins a's grid, with a's properties.
  void unite(ValueId a, ValueId b) {
    const uint32_t ra = root(a), rb = root(b);
    if (ra == rb) return;
    info_[rb].parent = ra;
    sizes_[ra] += 1 + sizes_[rb];
  }
  bool is_alone(ValueId v) { return sizes_[root(v)] == 0; }
  bool is_free(ValueId v) { return !of(v).fixed; }
  bool is_result(ValueId v) const {
    for (const Leaf& leaf : graph_.outputs)
      if (leaf.value == v) return true;
    for (const Graph::Mutation& m : graph_.mutations)
      if (m.next == v) return true;
    return false;
  }

  void share(const Node& node) {
    const ValueId x = node.input(0), y = node.outputs.empty() ? kNoValue : node.output();
    switch (quantize_rule(node)) {
      case QuantizeRule::move:
        if (has_grid(x) && has_grid(y) && is_free(y)) unite(x, y);
        break;
      case QuantizeRule::select:
        if (!has_grid(x) || !has_grid(y) || !is_free(y)) break;
        // What the op cuts off needs no place on the grid before it. Not so for what comes in as floats.
        if (graph_.producer(x) && is_quantized(graph_.producer(x)->id) && is_free(x) && is_alone(x) &&
            graph_.value(x).users.size() == 1 && !is_result(x))
          info_[x.index].ignored = true;
        unite(x, y);
        break;
      case QuantizeRule::join:
        join(node);
        break;
      case QuantizeRule::unit:
        if (has_grid(y) && is_free(y)) info_[y.index].fixed = unit_grid(info_[y.index].bits);
        break;
      case QuantizeRule::signed_unit:
        if (has_grid(y) && is_free(y) && info_[y.index].bits == 16) info_[y.index].fixed = signed_unit_grid();
        break;
      default:
        break;
    }
  }

  // Operands on grids that nobody fixed share the result's; when all are fixed alike, so is the result.
  void join(const Node& node) {
    const ValueId y = node.output();
    if (!has_grid(y)) return;
    std::optional<Encoding> fixed;
    bool alike = true, any = false;
    for (const ValueId v : node.inputs) {
      if (!real(v)) continue;
      const std::optional<Encoding> e = has_grid(v) ? of(v).fixed : std::nullopt;
      alike = alike && e && (!any || *e == *fixed);
      if (!any) fixed = e;
      any = true;
    }
    if (any && alike && is_free(y)) info_[root(y)].fixed = fixed;
    for (const ValueId v : node.inputs) {
      if (!has_grid(v) || of(v).bits != of(y).bits) continue;
      if (of(v).fixed == of(y).fixed) unite(y, v);
    }
  }

  void make_groups() {
    plan_.group.assign(info_.size(), kNone);
    std::map<uint32_t, uint32_t> index;
    for (const Value& v : graph_.values()) {
      if (!has_grid(v.id)) continue;
      const uint32_t r = root(v.id);
      const auto [it, fresh] = index.try_emplace(r, static_cast<uint32_t>(plan_.groups.size()));
      if (fresh)
        plan_.groups.push_back({.bits = info_[r].bits,
                                .symmetric = info_[r].symmetric,
                                .observer = info_[r].observer,
                                .fixed = info_[r].fixed});
      GridGroup& g = plan_.groups[it->second];
      g.members.push_back(v.id);
      if (const auto cut = options_.ranges.cut.find(v.id.index); cut != options_.ranges.cut.end())
        g.part = std::min(g.part, cut->second);
      const auto is = [&](Op op, const Node* n) { return n && n->op == op && is_quantized(n->id); };
      g.softmax_result = g.softmax_result || is(Op::softmax, graph_.producer(v.id));
      g.log_result = g.log_result || is(Op::log, graph_.producer(v.id));
      for (const NodeId u : v.users) {
        g.softmax_operand = g.softmax_operand || is(Op::softmax, &graph_.node(u));
        g.arc_operand = g.arc_operand || is(Op::asin, &graph_.node(u));
      }
      if (!info_[v.id.index].ignored) g.ranged.push_back(v.id);
      plan_.group[v.id.index] = it->second;
    }
  }

  // What operands need besides the grids that their values have.
  void demand(const Node& node) {
    const NodeChoice& c = quantized_.at(node.id);
    const QuantizeRule rule = quantize_rule(node);
    if (rule == QuantizeRule::convert) return;
    const uint32_t out =
        !node.outputs.empty() && real(node.output()) ? plan_.group[node.output().index] : kNone;
    // Where the result's encoding is given, operands are as wide as that.
    const bool given = out != kNone && graph_.value(node.output()).encoding && plan_.groups[out].bits <= 16;
    const int bits = given ? plan_.groups[out].bits : c.scheme.activation_bits;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.input(i);
      if (!real(v)) continue;
      const bool known = is_constant(v);
      OperandGrid want{.node = node.id, .operand = i, .bits = bits, .observer = c.observer};
      switch (rule) {
        case QuantizeRule::weights:
          if (i == 1 && known) {
            if (!graph_.value(v).encoding) add_weight(node, c);
            continue;
          }
          if (known) continue;  // a bias follows from the others
          want.symmetric = i == 1 && bits == 16;
          break;
        case QuantizeRule::norm:
          if (known) continue;  // as the op needs it
          break;
        case QuantizeRule::product:
          if (i != 1 || bits != 16) break;
          want.symmetric = options_.arch >= 73;
          if (want.symmetric) break;
          want.bits = 8;
          violate("products of 16 with 16 bits need HTP V73 or later [htp.matmul.1]", node,
                  "has a second operand of 8 bits");
          break;
        case QuantizeRule::table:
          if (!known) break;
          if (c.per_channel && graph_.constant(v)) {
            plan_.weights.push_back({.node = node.id, .operand = 0, .bits = c.scheme.weight_bits, .axis = 0});
            continue;
          }
          want.group = out;
          break;
        case QuantizeRule::move:
        case QuantizeRule::select:
          if (i == 0 && (known || plan_.group[v.index] != out)) want.group = out;
          break;
        case QuantizeRule::join:
          if (known || plan_.group[v.index] != out) want.group = out;
          break;
        default:
          break;
      }
      if (want.group != kNone) {
        want.bits = plan_.groups[want.group].bits;
        if (known) plan_.groups[want.group].ranged.push_back(v);
      }
      if (known) {
        if (!graph_.value(v).encoding && graph_.constant(v)) plan_.operands.push_back(want);
        continue;
      }
      const GridGroup& own = plan_.groups[plan_.group[v.index]];
      const bool moves =
          rule == QuantizeRule::move || rule == QuantizeRule::select || rule == QuantizeRule::join;
      const bool differs = want.group != kNone
                               ? want.group != plan_.group[v.index]
                               : !moves && (own.bits != want.bits || (want.symmetric && !own.symmetric));
      if (differs) plan_.operands.push_back(want);
    }
  }

  void add_weight(const Node& node, const NodeChoice& c) {
    const bool transposed = node.op == Op::convolution && node.attrs.flag("transposed");
    WeightGrid w{.node = node.id, .bits = c.scheme.weight_bits, .block = c.scheme.blocks ? c.block : 0};
    if (c.per_channel || w.block > 0) w.axis = transposed ? 1 : 0;
    plan_.weights.push_back(w);
  }

  const Graph& graph_;
  const QuantizeOptions& options_;
  std::vector<Info> info_;
  std::vector<NodeId> order_;
  std::map<NodeId, NodeChoice> quantized_;
  std::map<uint32_t, size_t> sizes_;  // by root: members besides itself
  QuantizePlan plan_;
};

}  // namespace

Result<QuantizePlan> annotate(const Graph& graph, const QuantizeOptions& options) {
  return Annotator(graph, options).run();
}

}  // namespace sixfold
