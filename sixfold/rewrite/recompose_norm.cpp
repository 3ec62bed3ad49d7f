// Layer norms, RMS norms and divisions by a length, from their formulas.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "sixfold/rewrite/expression.h"
#include "sixfold/rewrite/recompose.h"

namespace sixfold {
namespace {

Tensor filled(const Shape& shape, double value, DType dtype) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(dtype, shape, &bytes);
  with_type(dtype, [&](auto tag) {
    using T = decltype(tag);
    std::fill_n(reinterpret_cast<T*>(bytes), t.count(), static_cast<T>(value));
  });
  return t;
}

// x^-1 of a length: sqrt(m) + tiny, or at least tiny, is sqrt(m + tiny^2) as far as halves tell.
std::optional<Moment> read_length(const Graph& graph, ValueId v) {
  const Linear l = read_linear(graph, v, /*not_negative=*/true);
  constexpr double kTiny = 1e-4;
  if (l.offset > kTiny || !(l.scale > 0)) return std::nullopt;
  const Node* root = made_by(graph, l.of, Op::sqrt);
  if (!root) return std::nullopt;
  auto m = read_moment(graph, root->input(0));
  if (!m) return std::nullopt;
  m->scale *= l.scale * l.scale;
  m->offset = m->offset * l.scale * l.scale + l.offset * l.offset;
  return m;
}

std::optional<Moment> read_divisor(const Graph& graph, const Factor& f) {
  if (f.power == -0.5) return read_moment(graph, f.value);
  if (f.power == -1) return read_length(graph, f.value);
  return std::nullopt;
}

// x normalized along dims: permuted so that they are last, and back.
ValueId normalized(Patch& patch, const Moment& m, double scale) {
  const int64_t rank = patch.rank(m.of);
  Shape order(static_cast<size_t>(rank)), back(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(), [&](int64_t a) {
    return std::find(m.dims.begin(), m.dims.end(), a) == m.dims.end();
  });
  const bool moved = !std::is_sorted(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  const ValueId x = moved ? patch.add(Op::permute, {m.of}, {{"dims", to_dims(order)}}) : m.of;
  const auto axes = static_cast<int64_t>(m.dims.size());
  std::vector<ValueId> operands{x};
  if (!is_close(scale, 1)) {
    Shape shape;
    for (int64_t a = rank - axes; a < rank; ++a)
      shape.push_back(patch.dims(m.of)[static_cast<size_t>(order[static_cast<size_t>(a)])].value_or(1));
    operands.push_back(patch.constant(filled(shape, scale, patch.dtype(m.of))));
  }
  const ValueId y = patch.add(m.centered ? Op::layer_norm : Op::rms_norm, std::move(operands),
                              {{"axes", Dim(axes)}, {"eps", m.offset / m.scale}});
  return moved ? patch.add(Op::permute, {y}, {{"dims", to_dims(back)}}) : y;
}

// A norm without bias that only `v` shows, and the order in which a permute after it has its axes.
struct OpenNorm {
  const Node* norm = nullptr;
  Shape order;  // empty: as they are
};
OpenNorm open_norm(const Graph& graph, ValueId v) {
  OpenNorm out;
  const Node* node = made_by(graph, v);
  if (node && node->op == Op::permute) {
    out.order = node->attrs.ints("dims");
    node = made_by(graph, node->input(0));
  }
  if (node && (node->op == Op::layer_norm || node->op == Op::rms_norm)) out.norm = node;
  return out;
}

// A constant that meets v, as a parameter of the norm's last axes; nothing when it differs along others.
std::optional<Tensor> parameter_of(const Graph& graph, const OpenNorm& open, ValueId v, ValueId constant) {
  const Tensor* t = graph.constant(constant);
  const Dims& out = graph.dims(v);
  if (!t || graph.value(constant).encoding || !is_static(out) || t->shape.size() > out.size()) return {};
  if (t->dtype != graph.dtype(v)) return {};
  Shape shape(out.size() - t->shape.size(), 1);
  shape.insert(shape.end(), t->shape.begin(), t->shape.end());
  const auto axes = static_cast<size_t>(open.norm->attrs.integer("axes"));
  const size_t rows = out.size() - axes;
  Shape parameter;
  for (size_t i = 0; i < out.size(); ++i) {  // axis i of v is axis `at` of the norm
    const size_t at = open.order.empty() ? i : static_cast<size_t>(open.order[i]);
    if (at < rows && shape[i] != 1) return {};
    if (at >= rows && shape[i] != out[i].value()) return {};
  }
  // Several axes in another order than the norm's would have to be moved.
  if (axes > 1 && !open.order.empty()) return {};
  for (size_t a = rows; a < out.size(); ++a) parameter.push_back(graph.dims(open.norm->input(0))[a].value());
  Tensor flat = to_contiguous(*t);
  flat.shape = parameter;
  return flat;
}

ValueId permuted(Patch& patch, ValueId v, const Shape& order) {
  return order.empty() ? v : patch.add(Op::permute, {v}, {{"dims", to_dims(order)}});
}

}  // namespace

// sum(x) * c  ->  mean(x) * (n c), also for a division: the sum of many 16-bit floats overflows, the mean
// does not.
Match mean_of_sum(const Graph& graph, const Node& node) {
  if (node.op != Op::mul && node.op != Op::div) return no_match("not a product");
  if (node.op == Op::div && node.attrs.text("rounding") != "none") return no_match("a rounded quotient");
  for (const size_t side : {0, 1}) {
    if (node.op == Op::div && side == 1) break;
    const auto number = uniform_number(graph, node.input(1 - side));
    if (!number || *number == 0) continue;
    ValueId v = node.input(side);
    for (const Node* view = made_by(graph, v); view && moves_no_axis(graph, *view); view = made_by(graph, v))
      v = view->input(0);
    const Node* sum = made_by(graph, v, Op::sum);
    if (!sum || !is_float(graph.dtype(v))) continue;
    if (!(graph.dims(node.input(side)) == graph.dims(node.output()))) continue;
    double n = 1;
    for (const int64_t d : sum->attrs.ints("dims"))
      n *= static_cast<double>(graph.dims(sum->input(0))[static_cast<size_t>(d)].value_or(0));
    const double scale = node.op == Op::mul ? *number : 1 / *number;
    if (n < 1 || std::abs(scale) >= 1) continue;
    Patch patch(graph, node);
    ValueId y = patch.add(Op::mean, sum->inputs, sum->attrs);
    if (patch.dims(y) != graph.dims(node.output()))
      y = patch.add(Op::reshape, {y}, {{"shape", graph.dims(node.output())}});
    if (!is_close(scale * n, 1)) y = patch.add(Op::mul, {y, patch.scalar(scale * n, patch.dtype(y))});
    patch.replace(node.output(), y);
    return patch;
  }
  return no_match("no sum that a number makes smaller");
}

// (x - mean(x)) / sqrt(var(x) + eps) * g  ->  layer_norm(x) * g
// x / sqrt(mean(x^2) + eps) * g           ->  rms_norm(x) * g
// x / sqrt(sum(x^2) + eps)                ->  rms_norm(x) with the weight 1 / sqrt(n)
//
// var(x) in each of its forms: var, mean((x - mean(x))^2), mean(x^2) - mean(x)^2.
Match form_norm(const Graph& graph, const Node& node) {
  if (node.op != Op::mul && node.op != Op::div) return no_match("not a product");
  if (!is_float(graph.dtype(node.output()))) return no_match("not float");
  for (const Factor& divisor : read_product(graph, node).factors) {
    const auto m = read_divisor(graph, divisor);
    if (!m || m->dims.empty() || !is_static(graph.dims(m->of)) ||
        graph.dtype(m->of) != graph.dtype(node.output()))
      continue;
    if (!meets(graph, divisor.place, m->of, m->dims)) continue;
    // Read again with x whole: it may be a product itself.
    Product rest = read_product(graph, node, m->of);
    const auto is_divisor = [&](const Factor& f) {
      return f.value == divisor.value && f.power == divisor.power;
    };
    const auto is_x = [&](const Factor& f) {
      if (f.power != 1 || f.place != graph.dims(m->of)) return false;
      return m->centered ? is_centered(graph, f.value, m->of, m->dims) : f.value == m->of;
    };
    const auto take = [&](const auto& is) {
      const auto it = std::find_if(rest.factors.begin(), rest.factors.end(), is);
      if (it == rest.factors.end()) return false;
      rest.factors.erase(it);
      return true;
    };
    if (!take(is_divisor) || !take(is_x)) continue;
    // What else is multiplied: as it stands, or divided by.
    const bool plain = std::all_of(rest.factors.begin(), rest.factors.end(), [&](const Factor& f) {
      return std::abs(f.power) == 1 && f.place == graph.dims(f.value);
    });
    if (!plain) continue;
    Patch patch(graph, node);
    ValueId y = normalized(patch, *m, rest.scale / std::sqrt(m->scale));
    for (const Factor& f : rest.factors)
      y = f.power == 1 ? patch.add(Op::mul, {y, f.value})
                       : patch.add(Op::div, {y, f.value}, {{"rounding", "none"}});
    if (!patch.status().ok() || patch.type(y).dims != graph.dims(node.output()))
      return no_match("it is broadcast to more");
    patch.replace(node.output(), y);
    return patch;
  }
  return no_match("no factor is the spread of another");
}

// norm(x, w) * c  ->  norm(x, w * c), c constant along all but the normalized axes
Match fold_norm_gain(const Graph& graph, const Node& node) {
  if (node.op != Op::mul) return no_match("not a product");
  for (const size_t side : {0, 1}) {
    const OpenNorm open = open_norm(graph, node.input(side));
    if (!open.norm || open.norm->input(2).valid()) continue;
    auto gain = parameter_of(graph, open, node.input(side), node.input(1 - side));
    if (!gain || !(graph.dims(node.output()) == graph.dims(node.input(side)))) continue;
    if (const ValueId had = open.norm->input(1); had.valid()) {
      const Tensor* w = graph.constant(had);
      if (!w || graph.value(had).encoding) continue;
      std::byte* bytes = nullptr;
      Tensor both = Tensor::allocate(gain->dtype, gain->shape, &bytes);
      const Tensor flat = to_contiguous(*w);
      with_type(gain->dtype, [&](auto tag) {
        using T = decltype(tag);
        for (int64_t i = 0; i < both.count(); ++i)
          reinterpret_cast<T*>(bytes)[i] = static_cast<T>(element_real(flat, i) * element_real(*gain, i));
      });
      gain = both;
    }
    Patch patch(graph, node);
    const ValueId y =
        patch.add(open.norm->op, {open.norm->input(0), patch.constant(std::move(*gain))}, open.norm->attrs);
    patch.replace(node.output(), permuted(patch, y, open.order));
    return patch;
  }
  return no_match("no norm times a constant of its axes");
}

// layer_norm(x, w) + c  ->  layer_norm(x, w, c), c constant along all but the normalized axes
Match fold_norm_bias(const Graph& graph, const Node& node) {
  if (node.op != Op::add) return no_match("not a sum");
  for (const size_t side : {0, 1}) {
    const OpenNorm open = open_norm(graph, node.input(side));
    if (!open.norm || open.norm->op != Op::layer_norm || open.norm->input(2).valid()) continue;
    auto bias = parameter_of(graph, open, node.input(side), node.input(1 - side));
    if (!bias || !(graph.dims(node.output()) == graph.dims(node.input(side)))) continue;
    Patch patch(graph, node);
    const ValueId y = patch.add(Op::layer_norm,
                                {open.norm->input(0), open.norm->input(1), patch.constant(std::move(*bias))},
                                open.norm->attrs);
    patch.replace(node.output(), permuted(patch, y, open.order));
    return patch;
  }
  return no_match("no layer norm plus a constant of its axes");
}

}  // namespace sixfold
