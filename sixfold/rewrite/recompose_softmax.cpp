// Softmax and its logarithm, from their formulas.
#include <cmath>
#include <limits>

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

// Where a score is -inf, read from the masks that it is made of: what products give is finite.
class Lowest {
 public:
  explicit Lowest(Patch& patch) : patch_(patch), graph_(patch.graph()) {}

  // A boolean that spreads over v; kNoValue: nowhere. Nothing when that cannot be told.
  std::optional<ValueId> of(ValueId v) {
    if (const Tensor* data = graph_.constant(v)) return of_constant(v, *data);
    const Node* node = made_by(graph_, v);
    if (!node) return std::nullopt;
    switch (node->op) {
      case Op::matmul:
      case Op::linear:
        return kNoValue;
      case Op::mul:
      case Op::div: {  // of a number that is finite and not zero, or of what is never -inf
        const auto number = uniform_number(graph_, node->input(1));
        const auto x = of(node->input(0));
        if (x && !x->valid()) return x;
        return number && std::isfinite(*number) && *number > 0 ? x : std::nullopt;
      }
      case Op::add:
        return either(of(node->input(0)), of(node->input(1)));
      case Op::where: {
        const ValueId c = node->input(0);
        return either(both(c, of(node->input(1))),
                      both(patch_.add(Op::logical_not, {c}), of(node->input(2))));
      }
      case Op::reshape:
      case Op::permute:
      case Op::expand: {
        const auto x = of(node->input(0));
        if (!x || !x->valid()) return x;
        if (node->op == Op::expand) return x;
        return patch_.add(node->op, {spread(*x, graph_.dims(node->input(0)))}, node->attrs);
      }
      default:
        return std::nullopt;
    }
  }

  ValueId spread(ValueId v, const Dims& dims) {
    return patch_.dims(v) == dims ? v : patch_.add(Op::expand, {v}, {{"shape", dims}});
  }

 private:
  using Where = std::optional<ValueId>;

  Where of_constant(ValueId v, const Tensor& data) {
    const Tensor flat = to_contiguous(data);
    int64_t lowest = 0;
    for (int64_t i = 0; i < flat.count(); ++i)
      lowest += element_real(flat, i) == -std::numeric_limits<double>::infinity() ? 1 : 0;
    if (lowest == 0) return kNoValue;
    if (lowest == flat.count()) return patch_.constant(Tensor::scalar(int64_t{1}, DType::boolean));
    return patch_.add(Op::eq, {v, patch_.scalar(-std::numeric_limits<double>::infinity(), data.dtype)});
  }

  Where either(Where a, Where b) {
    if (!a || !b) return std::nullopt;
    if (!a->valid() || !b->valid()) return a->valid() ? a : b;
    return patch_.add(Op::logical_or, {*a, *b});
  }

  Where both(ValueId c, Where x) {
    if (!x || !x->valid()) return x;
    const Tensor* data = patch_.constant_data(*x);
    if (data && data->count() == 1) return c;  // everywhere
    return patch_.add(Op::logical_and, {c, *x});
  }

  Patch& patch_;
  const Graph& graph_;
};

}  // namespace

// eq(scores + mask, -inf)  ->  where the mask forbids
//
// Eager softmaxes that give zeros for a row without keys ask so; on a grid, which has no -inf, and in halves
// after a clamp the scores do not tell any more.
Match ask_the_mask(const Graph& graph, const Node& node) {
  if (node.op != Op::eq) return no_match("no comparison");
  const auto number = uniform_number(graph, node.input(1));
  if (!number || *number != -std::numeric_limits<double>::infinity()) return no_match("not with -inf");
  if (graph.constant(node.input(0))) return no_match("of a constant");
  Patch patch(graph, node);
  Lowest lowest(patch);
  const auto where = lowest.of(node.input(0));
  if (!where) return no_match("its scores are not made of products and masks");
  const ValueId found = where->valid() ? *where : patch.constant(Tensor::scalar(int64_t{0}, DType::boolean));
  patch.replace(node.output(), lowest.spread(found, graph.dims(node.output())));
  return patch;
}

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
