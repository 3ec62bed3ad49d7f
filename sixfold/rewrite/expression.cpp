#include "sixfold/rewrite/expression.h"

#include <cmath>

namespace sixfold {
namespace {

// Below this a number only keeps a sum of squares from zero: halves end at 6e-8.
constexpr double kTiny = 1e-6;
constexpr int kDeepest = 24;  // nodes on one path

Dims without_ones(const Dims& dims) {
  Dims out;
  for (const Dim& d : dims)
    if (!(d == Dim(1))) out.push_back(d);
  return out;
}

double count_along(const Graph& graph, ValueId x, const Shape& dims) {
  double n = 1;
  for (const int64_t d : dims) n *= static_cast<double>(graph.dims(x)[static_cast<size_t>(d)].value_or(0));
  return n;
}

bool is_plain_div(const Node& node) { return node.op == Op::div && node.attrs.text("rounding") == "none"; }

// x, of x * x or pow(x, 2)
ValueId root_of_square(const Graph& graph, ValueId v) {
  if (const Node* mul = made_by(graph, v, Op::mul); mul && mul->input(0) == mul->input(1))
    return mul->input(0);
  if (const Node* pow = made_by(graph, v, Op::pow))
    if (uniform_number(graph, pow->input(1)) == 2.0) return pow->input(0);
  return kNoValue;
}

// The lower bound that is all that a clamp, a relu or a maximum does.
std::optional<double> lower_bound(const Graph& graph, const Node& node, ValueId* of) {
  *of = node.input(0);
  if (node.op == Op::relu) return 0.0;
  if (node.op == Op::clamp) {
    const Attr *min = node.attrs.find("min"), *max = node.attrs.find("max");
    const bool bounded = max && !std::holds_alternative<std::monostate>(*max);
    if (bounded || !min || std::holds_alternative<std::monostate>(*min)) return std::nullopt;
    return node.attrs.real("min");
  }
  if (node.op != Op::maximum) return std::nullopt;
  for (const size_t side : {0, 1})
    if (const auto n = uniform_number(graph, node.input(side))) {
      *of = node.input(1 - side);
      return n;
    }
  return std::nullopt;
}

struct ProductReader {
  const Graph& graph;
  ValueId whole;
  Product out;

  void read(ValueId v, double power, const Dims* place, int depth) {
    const Dims& stands = place ? *place : graph.dims(v);
    if (const auto n = uniform_number(graph, v); n && *n > 0) {
      out.scale *= std::pow(*n, power);
      return;
    }
    const Node* node = v == whole || depth > kDeepest ? nullptr : made_by(graph, v);
    if (!node || !take_apart(*node, power, stands, place != nullptr, depth + 1))
      out.factors.push_back({v, power, stands});
  }

  // Roots of a product stay whole: only what is not negative has them.
  bool take_apart(const Node& node, double power, const Dims& place, bool moved, int depth) {
    const bool simple = std::abs(power) == 1;
    const Dims* below = moved ? &place : nullptr;
    switch (node.op) {
      case Op::mul:
        if (!simple || node.input(0) == node.input(1)) return false;
        read(node.input(0), power, below, depth);
        read(node.input(1), power, below, depth);
        return true;
      case Op::div:
        if (!simple || !is_plain_div(node)) return false;
        read(node.input(0), power, below, depth);
        read(node.input(1), -power, below, depth);
        return true;
      case Op::reciprocal:
        return read(node.input(0), -power, below, depth), true;
      case Op::sqrt:
      case Op::rsqrt:
        if (!simple) return false;
        return read(node.input(0), node.op == Op::sqrt ? power / 2 : -power / 2, below, depth), true;
      case Op::pow: {
        const auto n = uniform_number(graph, node.input(1));
        if (!simple || !n || (*n != 0.5 && *n != -0.5 && *n != -1)) return false;
        return read(node.input(0), power * *n, below, depth), true;
      }
      case Op::reshape:
        if (!moves_no_axis(graph, node)) return false;
        return read(node.input(0), power, &place, depth), true;
      case Op::expand: {
        const Dims inner = moved ? place : graph.dims(node.input(0));
        return read(node.input(0), power, &inner, depth), true;
      }
      default:
        return false;
    }
  }
};

}  // namespace

const Node* made_by(const Graph& graph, ValueId v) {
  if (!v.valid() || graph.value(v).encoding) return nullptr;
  return graph.producer(v);
}

const Node* made_by(const Graph& graph, ValueId v, Op op) {
  const Node* node = made_by(graph, v);
  return node && node->op == op ? node : nullptr;
}

std::optional<double> uniform_number(const Graph& graph, ValueId v) {
  constexpr int64_t kMost = 1 << 16;
  const Tensor* t = graph.constant(v);
  if (!t || !is_float(t->dtype) || t->count() < 1 || t->count() > kMost || graph.value(v).encoding)
    return std::nullopt;
  const double first = element_real(*t, 0);
  for (int64_t i = 1; i < t->count(); ++i)
    if (element_real(*t, i) != first) return std::nullopt;
  return first;
}

bool is_close(double a, double b) { return std::abs(a - b) <= 2e-6 * std::max(std::abs(a), std::abs(b)); }

bool moves_no_axis(const Graph& graph, const Node& reshape) {
  return reshape.op == Op::reshape &&
         without_ones(graph.dims(reshape.input(0))) == without_ones(graph.dims(reshape.output()));
}

Linear read_linear(const Graph& graph, ValueId v, bool not_negative) {
  Linear out{v};
  for (int depth = 0; depth < kDeepest; ++depth) {
    const Node* node = made_by(graph, out.of);
    if (!node) return out;
    ValueId of;
    const auto least = not_negative ? lower_bound(graph, *node, &of) : std::nullopt;
    if (least && *least >= 0 && *least <= kTiny) {
      out.offset += out.scale * *least;
      out.of = of;
      continue;
    }
    if (node->op == Op::expand || moves_no_axis(graph, *node)) {
      out.of = node->input(0);
      continue;
    }
    if (node->op != Op::add && node->op != Op::mul && !is_plain_div(*node)) return out;
    std::optional<double> n = uniform_number(graph, node->input(1));
    size_t rest = 0;
    if (!n && node->op != Op::div) {
      n = uniform_number(graph, node->input(0));
      rest = 1;
    }
    if (!n || (not_negative && *n < 0)) return out;
    if (node->op == Op::add)
      out.offset += out.scale * *n;
    else
      out.scale *= node->op == Op::mul ? *n : 1 / *n;
    out.of = node->input(rest);
  }
  return out;
}

Product read_product(const Graph& graph, const Node& top, ValueId whole) {
  ProductReader reader{graph, whole, {}};
  if (top.op == Op::mul || is_plain_div(top)) {
    reader.read(top.input(0), 1, nullptr, 0);
    reader.read(top.input(1), top.op == Op::mul ? 1 : -1, nullptr, 0);
  }
  return std::move(reader.out);
}

bool meets(const Graph& graph, const Dims& place, ValueId x, const Shape& dims) {
  Dims want = graph.dims(x);
  for (const int64_t d : dims) want[static_cast<size_t>(d)] = Dim(1);
  if (place.size() > want.size()) return false;
  Dims have(want.size() - place.size(), Dim(1));
  have.insert(have.end(), place.begin(), place.end());
  return have == want;
}

std::optional<Statistic> read_mean(const Graph& graph, ValueId v) {
  const Linear l = read_linear(graph, v);
  const Node* node = made_by(graph, l.of);
  if (!node || (node->op != Op::mean && node->op != Op::sum) || l.offset != 0) return std::nullopt;
  const Shape dims = node->attrs.ints("dims");
  const double n = node->op == Op::sum ? count_along(graph, node->input(0), dims) : 1;
  if (!is_close(l.scale * n, 1)) return std::nullopt;
  return Statistic{node->input(0), dims};
}

bool is_centered(const Graph& graph, ValueId v, ValueId x, const Shape& dims) {
  const Node* sub = made_by(graph, v, Op::sub);
  if (!sub || sub->input(0) != x) return false;
  const auto mean = read_mean(graph, sub->input(1));
  if (!mean || mean->of != x || mean->dims != dims) return false;
  // Expanded to x's own extents, or as it is broadcast.
  const Node* expand = made_by(graph, sub->input(1), Op::expand);
  return meets(graph, graph.dims(expand ? expand->input(0) : sub->input(1)), x, dims);
}

std::optional<Moment> read_moment(const Graph& graph, ValueId v) {
  const Linear l = read_linear(graph, v, /*not_negative=*/true);
  const Node* node = made_by(graph, l.of);
  if (!node || !(l.scale > 0) || l.offset < 0) return std::nullopt;
  Moment out{.scale = l.scale, .offset = l.offset};
  switch (node->op) {
    case Op::var: {
      out.of = node->input(0);
      out.dims = node->attrs.ints("dims");
      out.centered = true;
      const double n = count_along(graph, out.of, out.dims), rest = n - node->attrs.real("correction");
      if (rest <= 0) return std::nullopt;
      out.scale *= n / rest;
      return out;
    }
    case Op::mean:
    case Op::sum: {
      const ValueId root = root_of_square(graph, node->input(0));
      if (!root.valid()) return std::nullopt;
      out.dims = node->attrs.ints("dims");
      if (node->op == Op::sum) out.scale *= count_along(graph, root, out.dims);
      out.of = root;
      const Node* sub = made_by(graph, root, Op::sub);
      if (sub && is_centered(graph, root, sub->input(0), out.dims)) {
        out.of = sub->input(0);
        out.centered = true;
      }
      return out;
    }
    case Op::sub: {  // mean(x^2) - mean(x)^2
      const auto raw = read_moment(graph, node->input(0));
      if (!raw || raw->centered || raw->offset != 0 || !is_close(raw->scale, 1)) return std::nullopt;
      const Linear square = read_linear(graph, node->input(1));
      const ValueId root = root_of_square(graph, square.of);
      if (!root.valid() || square.offset != 0 || square.scale != 1) return std::nullopt;
      const auto mean = read_mean(graph, root);
      if (!mean || mean->of != raw->of || mean->dims != raw->dims) return std::nullopt;
      if (without_ones(graph.dims(node->input(0))) != without_ones(graph.dims(node->output())))
        return std::nullopt;  // it was broadcast against itself
      out.of = raw->of;
      out.dims = raw->dims;
      out.centered = true;
      return out;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace sixfold
