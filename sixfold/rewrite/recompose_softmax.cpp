// Softmax and its logarithm, from their formulas.
#include "sixfold/rewrite/expression.h"
#include "sixfold/rewrite/recompose.h"

namespace sixfold {
namespace {

// v along its only summed axis; -1 when there are several.
int64_t only_axis(const Node& sum) {
  const Shape dims = sum.attrs.ints("dims");
  return dims.size() == 1 ? dims[0] : -1;
}

// x, of x - m with m the same all along the axis: a softmax does not change with it.
ValueId without_shift(const Graph& graph, ValueId v, int64_t axis) {
  const Node* sub = made_by(graph, v, Op::sub);
  if (!sub || !(graph.dims(sub->input(0)) == graph.dims(v))) return v;
  ValueId m = sub->input(1);
  if (const Node* expand = made_by(graph, m, Op::expand)) m = expand->input(0);
  const Dims& dims = graph.dims(m);
  const int64_t at = axis - static_cast<int64_t>(graph.dims(v).size() - dims.size());
  return at < 0 || dims[static_cast<size_t>(at)] == Dim(1) ? sub->input(0) : v;
}

// The sum of exp(v) along one axis as it meets v, or nothing: that axis.
std::optional<int64_t> sum_of_exp(const Graph& graph, ValueId sum_value, const Dims& place, ValueId exp) {
  ValueId v = sum_value;
  for (const Node* view = made_by(graph, v); view && moves_no_axis(graph, *view); view = made_by(graph, v))
    v = view->input(0);
  const Node* sum = made_by(graph, v, Op::sum);
  if (!sum || sum->input(0) != exp || only_axis(*sum) < 0) return std::nullopt;
  if (!meets(graph, place, exp, sum->attrs.ints("dims"))) return std::nullopt;
  return only_axis(*sum);
}

}  // namespace

// exp(x - m) / sum(exp(x - m))  ->  softmax(x)
Match form_softmax(const Graph& graph, const Node& node) {
  if (node.op != Op::mul && node.op != Op::div) return no_match("not a product");
  const Product p = read_product(graph, node);
  if (p.factors.size() != 2 || !is_close(p.scale, 1)) return no_match("other factors");
  for (const size_t side : {0, 1}) {
    const Factor &top = p.factors[side], &bottom = p.factors[1 - side];
    if (top.power != 1 || bottom.power != -1 || top.place != graph.dims(top.value)) continue;
    const Node* exp = made_by(graph, top.value, Op::exp);
    if (!exp) continue;
    const auto axis = sum_of_exp(graph, bottom.value, bottom.place, top.value);
    if (!axis || !(graph.dims(node.output()) == graph.dims(top.value))) continue;
    Patch patch(graph, node);
    patch.replace(node.output(), patch.add(Op::softmax, {without_shift(graph, exp->input(0), *axis)},
                                           {{"dim", Dim(*axis)}}));
    return patch;
  }
  return no_match("no exponential over its sum");
}

// x - log(sum(exp(x)))  ->  log_softmax(x); log(softmax(x))  ->  log_softmax(x)
Match form_log_softmax(const Graph& graph, const Node& node) {
  if (node.op == Op::log) {
    const Node* softmax = made_by(graph, node.input(0), Op::softmax);
    if (!softmax) return no_match("not of a softmax");
    Patch patch(graph, node);
    patch.replace(node.output(), patch.add(Op::log_softmax, softmax->inputs, softmax->attrs));
    return patch;
  }
  if (node.op != Op::sub) return no_match("not a difference");
  const Dims place = graph.dims(node.input(1));
  ValueId v = node.input(1);
  for (const Node* view = made_by(graph, v); view && moves_no_axis(graph, *view); view = made_by(graph, v))
    v = view->input(0);
  const Node* log = made_by(graph, v, Op::log);
  if (!log) return no_match("no logarithm is taken away");
  v = log->input(0);
  for (const Node* view = made_by(graph, v); view && moves_no_axis(graph, *view); view = made_by(graph, v))
    v = view->input(0);
  const Node* sum = made_by(graph, v, Op::sum);
  const Node* exp = sum ? made_by(graph, sum->input(0), Op::exp) : nullptr;
  if (!exp || exp->input(0) != node.input(0)) return no_match("not the logarithm of its own exponentials");
  const auto axis = sum_of_exp(graph, v, place, sum->input(0));
  if (!axis || !(graph.dims(node.output()) == graph.dims(node.input(0))))
    return no_match("summed along other axes");
  Patch patch(graph, node);
  patch.replace(node.output(), patch.add(Op::log_softmax, {without_shift(graph, node.input(0), *axis)},
                                         {{"dim", Dim(*axis)}}));
  return patch;
}

}  // namespace sixfold
