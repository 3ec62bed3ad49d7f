#include <set>

#include "sixfold/graph/graph.h"

namespace sixfold {
namespace {

constexpr int64_t kMaxPrintedElements = 64;

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string print() {
    for (const auto& [name, range] : graph_.symbols)
      line("symbol ", name, " ", range.min ? cat(*range.min) : "none", " ",
           range.max ? cat(*range.max) : "none");
    for (const Leaf& leaf : graph_.inputs) {
      if (leaf.value.valid())
        line("input ", typed(leaf.value));
      else
        line("input ", leaf.literal);
    }
    std::vector<bool> used(graph_.value_count(), false);
    const auto use = [&](ValueId v) {
      if (v.valid()) used[v.index] = true;
    };
    for (const NodeId id : graph_.order())
      for (const ValueId v : graph_.node(id).inputs) use(v);
    for (const Leaf& leaf : graph_.outputs) use(leaf.value);
    for (const auto& m : graph_.mutations) {
      use(m.state);
      use(m.next);
    }
    for (const Value& v : graph_.values()) {
      if (v.kind == ValueKind::constant && used[v.id.index])
        line("constant ", typed(v.id), " = ", data(v.constant));
      if (v.kind == ValueKind::state && used[v.id.index])
        line("state ", typed(v.id), " = ", data(v.constant));
    }
    for (const NodeId id : graph_.order()) node(graph_.node(id));
    for (const auto& m : graph_.mutations) line("mutate ", name(m.state), " ", name(m.next));
    for (const Leaf& leaf : graph_.outputs)
      line("output ", leaf.value.valid() ? name(leaf.value) : to_text(leaf.literal));
    return std::move(out_);
  }

 private:
  template <typename... Parts>
  void line(const Parts&... parts) {
    out_ += cat(parts...);
    out_ += '\n';
  }

  // The value's own name when it is the first to bear it, with its id otherwise.
  const std::string& name(ValueId id) {
    std::string& text = names_[id];
    if (text.empty()) {
      const std::string& own = graph_.value(id).name;
      text = cat("%", own.empty() ? cat(id.index) : own);
      if (!taken_.insert(text).second) {
        text += cat(".", id.index);
        taken_.insert(text);
      }
    }
    return text;
  }

  std::string typed(ValueId id) {
    const Value& v = graph_.value(id);
    std::string text = cat(name(id), ": ", v.type);
    if (v.encoding) {
      const Encoding& e = *v.encoding;
      std::vector<double> scales(e.scales.begin(), e.scales.end());
      Dims zeros(e.zero_points.begin(), e.zero_points.end());
      text += cat(" encoding(", e.storage, ", ", e.quant_min, ", ", e.quant_max, ", ", e.axis, ", ",
                  Attr(scales), ", ", zeros, e.block ? cat(", block ", e.block) : "", ")");
    }
    return text;
  }

  static std::string data(const Tensor& t) {
    if (t.count() > kMaxPrintedElements) return "...";
    std::string text = "[";
    for (int64_t i = 0; i < t.count(); ++i) {
      if (i) text += ", ";
      text += is_float(t.dtype) ? to_text(Attr(element_real(t, i))) : cat(element_integer(t, i));
    }
    return text + "]";
  }

  void node(const Node& n) {
    std::string text;
    for (size_t i = 0; i < n.outputs.size(); ++i) text += cat(i ? ", " : "", name(n.outputs[i]));
    text += cat(" = ", n.op == Op::call ? n.target : std::string(to_text(n.op)), "(");
    bool first = true;
    const auto item = [&](const std::string& s) {
      text += cat(first ? "" : ", ", s);
      first = false;
    };
    const auto operand = [&](ValueId v) { return v.valid() ? name(v) : std::string("none"); };
    if (n.op != Op::call)
      for (const ValueId v : n.inputs) item(operand(v));
    for (const auto& [key, attr] : n.attrs) {
      if (const Operands* o = std::get_if<Operands>(&attr)) {
        std::string list;
        for (uint32_t i = 0; i < o->count; ++i) list += cat(i ? ", " : "", operand(n.inputs[o->first + i]));
        item(o->list ? cat(key, "=[", list, "]") : cat(key, "=", list));
      } else {
        item(cat(key, "=", attr));
      }
    }
    text += ") : ";
    for (size_t i = 0; i < n.outputs.size(); ++i) {
      const std::string t = typed(n.outputs[i]);
      text += cat(i ? ", " : "", t.substr(t.find(": ") + 2));
    }
    const Origin& o = graph_.origin(n);
    if (!o.name.empty()) text += cat("  # ", o.name);
    if (!o.source.empty()) {
      std::string source = o.source;
      for (char& c : source)
        if (c == '\n') c = ' ';
      text += cat(" at ", source);
    }
    line(text);
  }

  const Graph& graph_;
  std::string out_;
  std::map<ValueId, std::string> names_;
  std::set<std::string> taken_;
};

}  // namespace

std::string print(const Graph& graph) { return Printer(graph).print(); }

}  // namespace sixfold
