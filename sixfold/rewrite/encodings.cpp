#include "sixfold/rewrite/encodings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

namespace sixfold {
namespace {

ValueId add_convert(Graph& graph, ValueId x, const Encoding& encoding, uint32_t origin, NodeId before) {
  const Type type = graph.type(x);
  const NodeId id = graph.add_node(Op::convert, "", {x}, {}, {type}, origin, before);
  const ValueId out = graph.node(id).output();
  Value& v = graph.value(out);
  v.encoding = encoding;
  v.name = graph.value(x).name.empty() ? "" : cat(graph.value(x).name, "_convert");
  return out;
}

bool is_leaf_output(const Graph& graph, ValueId v) {
  for (const Leaf& leaf : graph.outputs)
    if (leaf.value == v) return true;
  for (const Graph::Mutation& m : graph.mutations)
    if (m.next == v) return true;
  return false;
}

// Whether everybody who reads x reads it through a quantize to this grid.
bool only_quantized_to(const Graph& graph, ValueId x, const Encoding& e) {
  if (is_leaf_output(graph, x)) return false;
  for (const NodeId id : graph.value(x).users) {
    const Node& user = graph.node(id);
    if (user.op != Op::quantize || user.input(0) != x) return false;
    const Result<Encoding> other = encoding_of(graph, user);
    if (!other.ok() || !(*other == e)) return false;
  }
  return true;
}

// The values that have been brought to grids, so that each is made once.
class Grids {
 public:
  explicit Grids(Graph& graph) : graph_(graph) {}

  // x on this grid: itself when it has it or can have it, else a convert of it.
  ValueId on(ValueId x, const Encoding& e, const Node& at) {
    Value& v = graph_.value(x);
    if (v.encoding && *v.encoding == e) return x;
    if (!v.encoding && !graph_.constant(x) && only_quantized_to(graph_, x, e)) {
      v.encoding = e;
      return x;
    }
    for (const ValueId made : made_[x])
      if (*graph_.value(made).encoding == e) return made;
    const ValueId out = add_convert(graph_, x, e, at.origin, at.id);
    made_[x].push_back(out);
    return out;
  }

 private:
  Graph& graph_;
  std::map<ValueId, std::vector<ValueId>> made_;
};

// Whether the model's integers have the width that the device gives such a range: 16 bits may be kept in 32.
bool has_device_width(const Encoding& e) {
  const int64_t range = e.quant_max - e.quant_min;
  return size_of(e.storage) == (range <= 255 ? 1u : range <= 65535 ? 2u : 4u);
}

// Ops that put elements of operand 0 elsewhere, and compute nothing.
bool moves_data(Op op) {
  switch (op) {
    case Op::reshape:
    case Op::permute:
    case Op::expand:
    case Op::slice:
    case Op::flip:
    case Op::repeat:
    case Op::gather:
    case Op::index_select:
    case Op::topk:
      return true;
    default:
      return false;
  }
}
// Ops that put elements of several operands side by side; operands first to last.
std::pair<size_t, size_t> joined_operands(const Node& node) {
  switch (node.op) {
    case Op::concat:
      return {0, node.inputs.size()};
    case Op::index_put:
    case Op::slice_scatter:
      return {0, 2};
    default:
      return {0, 0};
  }
}

// What a comparison of a value on a grid with a number that no grid reaches gives; nullopt: it depends.
std::optional<bool> known_comparison(Op op, double other, bool value_first) {
  if (!std::isinf(other)) return {};
  const bool less = (other > 0) == value_first;  // operand 0 < operand 1
  switch (op) {
    case Op::eq:
      return false;
    case Op::ne:
      return true;
    case Op::lt:
    case Op::le:
      return less;
    case Op::gt:
    case Op::ge:
      return !less;
    default:
      return {};
  }
}

// x == -inf  ->  false, for a value on a grid: it is always finite. A softmax asks so whether a row is empty.
void fold_comparisons(Graph& graph) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.inputs.size() != 2 || !is_static(graph.dims(node.output()))) continue;
    for (size_t i = 0; i < 2; ++i) {
      const Tensor* number = graph.constant(node.input(1 - i));
      if (!number || number->count() != 1 || !node.input(i).valid() || !graph.value(node.input(i)).encoding)
        continue;
      const std::optional<bool> known = known_comparison(node.op, element_real(*number, 0), i == 0);
      if (!known) continue;
      const ValueId old = node.output();
      std::byte* bytes = nullptr;
      Tensor all = Tensor::allocate(DType::boolean, static_shape(graph.dims(old)), &bytes);
      std::fill_n(bytes, all.size_bytes(), static_cast<std::byte>(*known));
      graph.replace_uses(old, graph.add_constant("", std::move(all)));
      break;
    }
  }
}

}  // namespace

// where(true, a, b)  ->  a, broadcast
Match choose_known(const Graph& graph, const Node& node) {
  if (node.op != Op::where) return no_match("not a where");
  const Tensor* condition = graph.constant(node.input(0));
  if (!condition || condition->count() == 0) return no_match("its condition is data");
  const Tensor plain = to_contiguous(*condition);
  const auto flags = std::span(plain.data, plain.size_bytes());
  const bool first = flags[0] != std::byte{0};
  for (const std::byte b : flags)
    if ((b != std::byte{0}) != first) return no_match("its condition varies");
  Patch patch(graph, node);
  const ValueId chosen = node.input(first ? 1 : 2);
  const Dims& dims = graph.dims(node.output());
  patch.replace(node.output(),
                graph.dims(chosen) == dims ? chosen : patch.add(Op::expand, {chosen}, {{"shape", dims}}));
  return patch;
}

Result<Encoding> encoding_of(const Graph& graph, const Node& node) {
  const bool quantizes = node.op == Op::quantize;
  const Tensor* scale = graph.constant(node.input(1));
  const Tensor* zero = graph.constant(node.input(2));
  if (!scale || (node.input(2).valid() && !zero)) return unsupported("its scale is computed");
  const ValueId integers = quantizes ? node.output() : node.input(0);
  const Dims& dims = graph.dims(integers);
  Encoding e{.storage = graph.dtype(integers),
             .quant_min = node.attrs.integer("quant_min"),
             .quant_max = node.attrs.integer("quant_max")};
  const Dims block = node.attrs.dims("block");
  int32_t blocked = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == block[i]) continue;
    if (!dims[i].is_static() || !block[i].is_static()) return unsupported("its blocks are symbolic");
    int32_t& where = block[i].value() == 1 && e.axis < 0 ? e.axis : blocked;
    if (where >= 0) return unsupported("it has scales along more than two axes");
    where = static_cast<int32_t>(i);
  }
  const Tensor s = to_contiguous(*scale);
  const Tensor z = zero ? to_contiguous(*zero) : Tensor();
  const int64_t count = s.count();
  const auto zero_at = [&](int64_t i) {
    return zero ? static_cast<int32_t>(element_integer(z, z.count() == 1 ? 0 : i)) : 0;
  };
  if (blocked < 0) {
    for (int64_t i = 0; i < count; ++i) {
      e.scales.push_back(static_cast<float>(element_real(s, i)));
      e.zero_points.push_back(zero_at(i));
    }
    return e;
  }
  // Blocks lie along the input channels: axis 1, or 0 when the channels that have scales are axis 1.
  if (e.axis < 0) {
    if (dims[static_cast<size_t>(blocked)] == Dim(1) || blocked > 1)
      return unsupported("its blocks have no channel");
    e.axis = 1 - blocked;
    if (!(dims.size() > 1 && dims[static_cast<size_t>(e.axis)] == Dim(1)))
      return unsupported("its blocks hold several channels");
  }
  if (e.axis > 1 || blocked != 1 - e.axis)
    return unsupported("its blocks lie along another axis than the input channels");
  e.block = block[static_cast<size_t>(blocked)].value();
  const int64_t channels = dims[static_cast<size_t>(e.axis)].value();
  const int64_t blocks = count / std::max<int64_t>(channels, 1);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t at = e.axis == 0 ? c * blocks + b : b * channels + c;
      e.scales.push_back(static_cast<float>(element_real(s, at)));
      if (zero_at(at) != 0) return unsupported("its blocks have zero points");
    }
    e.zero_points.push_back(0);
  }
  return e;
}

Status fold_quantization(Graph& graph) {
  Grids grids(graph);
  for (const NodeId id : graph.order()) {
    if (!graph.node(id).alive) continue;
    const Node node = graph.node(id);
    if (node.op != Op::quantize && node.op != Op::dequantize) continue;
    const Result<Encoding> known = encoding_of(graph, node);
    if (!known.ok()) continue;
    const Encoding& e = *known;
    if (node.op == Op::dequantize) {
      const ValueId q = node.input(0);
      if (!is_float(graph.dtype(node.output()))) continue;
      if (graph.constant(q)) {
        graph.value(node.output()).encoding = e;
      } else if (graph.value(q).kind != ValueKind::node) {
        // Integers of the caller, when all who read them read them so.
        bool alike = !is_leaf_output(graph, q) && has_device_width(e);
        for (const NodeId u : graph.value(q).users) {
          const Node& user = graph.node(u);
          const Result<Encoding> other = user.op == Op::dequantize
                                             ? encoding_of(graph, user)
                                             : Result<Encoding>(unsupported("another op"));
          alike = alike && other.ok() && *other == e;
        }
        if (alike) {
          graph.value(q).encoding = e;
          graph.value(node.output()).encoding = e;
        }
      }
      continue;
    }
    // quantize
    const ValueId q = node.output();
    if (e.axis >= 0) continue;
    std::vector<NodeId> back;
    bool leaves = is_leaf_output(graph, q), alike = true;
    for (const NodeId u : graph.value(q).users) {
      const Node& user = graph.node(u);
      const Result<Encoding> other = user.op == Op::dequantize && user.input(0) == q
                                         ? encoding_of(graph, user)
                                         : Result<Encoding>(unsupported("another op"));
      if (other.ok() && *other == e && graph.type(user.output()) == graph.type(node.input(0)))
        back.push_back(u);
      else
        alike = false;
    }
    if (!alike || (leaves && !has_device_width(e))) continue;
    const ValueId x = grids.on(node.input(0), e, node);
    for (const NodeId u : back) {
      graph.replace_uses(graph.node(u).output(), x);
      graph.remove(u);
    }
    if (leaves) {
      graph.value(q).encoding = e;
      graph.set_input(id, 0, x);
    } else {
      graph.remove(id);
    }
  }
  fold_comparisons(graph);
  graph.remove_dead();
  return verify(graph);
}

Status settle_encodings(Graph& graph) {
  for (const NodeId id : graph.order()) {
    const Node node = graph.node(id);
    if (!node.alive || !is_float(graph.dtype(node.output()))) continue;
    Value& out = graph.value(node.output());
    if (moves_data(node.op)) {
      const std::optional<Encoding> in = graph.value(node.input(0)).encoding;
      if (!in || in->axis >= 0) continue;
      if (out.encoding && !(*out.encoding == *in)) {
        const Encoding wanted = *out.encoding;
        const NodeId next = graph.next(id);
        const ValueId moved = node.output();
        const ValueId converted = add_convert(graph, moved, wanted, node.origin, next);
        // All users but the convert itself read its result.
        const NodeId convert = graph.value(converted).producer;
        graph.replace_uses(moved, converted);
        graph.set_input(convert, 0, moved);
        std::swap(graph.value(moved).name, graph.value(converted).name);
      }
      graph.value(node.output()).encoding = in;
      continue;
    }
    const auto [first, last] = joined_operands(node);
    if (first == last) continue;
    if (!out.encoding) {
      // Parts that all lie on one grid.
      const std::optional<Encoding> e = graph.value(node.input(first)).encoding;
      bool alike = e && e->axis < 0;
      for (size_t i = first; i < last && alike; ++i) alike = graph.value(node.input(i)).encoding == e;
      if (alike) graph.value(node.output()).encoding = e;
      continue;
    }
    const Encoding wanted = *out.encoding;
    for (size_t i = first; i < last; ++i) {
      const ValueId v = node.input(i);
      Value& part = graph.value(v);
      if (part.encoding == wanted || graph.constant(v)) {
        if (graph.constant(v)) part.encoding = wanted;
        continue;
      }
      // A buffer that only this op writes to has the grid of what is written.
      if (!part.encoding && part.kind != ValueKind::node && part.users.size() == 1) {
        part.encoding = wanted;
        continue;
      }
      if (part.encoding) graph.set_input(id, i, add_convert(graph, v, wanted, node.origin, id));
    }
  }
  return drop_idle_bounds(graph);
}

Status drop_idle_bounds(Graph& graph) {
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (node.op != Op::relu && node.op != Op::clamp) continue;
    const Value &x = graph.value(node.input(0)), &y = graph.value(node.output());
    if (x.kind != ValueKind::node || !x.encoding || x.encoding->axis >= 0 || !(x.encoding == y.encoding))
      continue;
    const Encoding& e = *x.encoding;
    const double step = e.scales[0], near = 0.49 * step;
    const double low = step * static_cast<double>(e.quant_min - e.zero_points[0]);
    const double high = step * static_cast<double>(e.quant_max - e.zero_points[0]);
    const auto bound = [&](const char* name) -> std::optional<double> {
      const Attr* a = node.attrs.find(name);
      return !a || std::holds_alternative<std::monostate>(*a) ? std::nullopt
                                                              : std::optional(node.attrs.real(name));
    };
    const bool relu = node.op == Op::relu;
    if ((relu ? 0.0 : bound("min").value_or(low)) > low + near) continue;
    if (!relu && bound("max").value_or(high) < high - near) continue;
    graph.replace_uses(node.output(), node.input(0));
    graph.remove(id);
  }
  return verify(graph);
}

}  // namespace sixfold
