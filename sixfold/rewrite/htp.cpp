#include "sixfold/rewrite/htp.h"

#include <algorithm>

#include "sixfold/rewrite/encodings.h"
#include "sixfold/rewrite/recompose.h"
#include "sixfold/rewrite/rules.h"

namespace sixfold {

namespace htp {
Match keep(Htp&) { return no_match("the device has it"); }
}  // namespace htp

namespace {

using HtpRule = Match (*)(Htp&);
HtpRule rule_of(Op op) {
  switch (op) {
#define HTP(id, form, rewrite_fn, lower_fn) \
  case Op::id:                              \
    return htp::rewrite_fn;
#include "sixfold/ops/htp.def"
#undef HTP
    default:
      return htp::keep;
  }
}

// The device runs no such node, and rules count on numbers.
bool is_symbolic(const Graph& graph, const Node& node) {
  const auto symbolic = [&](ValueId v) { return v.valid() && !is_static(graph.dims(v)); };
  return std::any_of(node.inputs.begin(), node.inputs.end(), symbolic) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), symbolic);
}

bool swaps_the_last(const Node& node) {
  return node.op == Op::permute && node.attrs.ints("dims") == Shape{0, 2, 1};
}

// Dims of [N, C, ...S] whose S together are as long as the last of [N, C, P].
bool splits_the_last(const Shape& split, const Shape& whole) {
  return split.size() > 3 && split.size() <= 5 && whole.size() == 3 && split[0] == whole[0] &&
         split[1] == whole[1];
}

// permute(reshape(x [N, C, ...S] to [N, C, P]), 0 2 1)  ->  reshape(permute(x, 0 2 ... 1)): the points of an
// image as rows. An image has its channels last on the device, so that nothing moves.
Match flatten_moved(const Graph& graph, const Node& outer) {
  if (!swaps_the_last(outer)) return no_match("it does not swap the last two of three axes");
  const Node* inner = graph.producer(outer.input(0));
  if (!inner || inner->op != Op::reshape || is_symbolic(graph, *inner))
    return no_match("its input is no reshape");
  const Shape split = static_shape(graph.dims(inner->input(0)));
  if (!splits_the_last(split, static_shape(graph.dims(inner->output()))))
    return no_match("it flattens no image");
  Dims order{Dim(0)};
  for (size_t i = 2; i < split.size(); ++i) order.emplace_back(static_cast<int64_t>(i));
  order.emplace_back(1);
  Patch patch(graph, outer);
  const ValueId moved = patch.add(Op::permute, {inner->input(0)}, {{"dims", order}});
  patch.replace(outer.output(), patch.add(Op::reshape, {moved}, {{"shape", graph.dims(outer.output())}}));
  return patch;
}

// reshape(permute(x [N, P, C], 0 2 1) to [N, C, ...S])  ->  permute(reshape(x to [N, ...S, C]), 0 last 1 ...)
Match unflatten_moved(const Graph& graph, const Node& outer) {
  if (outer.op != Op::reshape || is_symbolic(graph, outer)) return no_match("not a reshape");
  const Node* inner = graph.producer(outer.input(0));
  if (!inner || !swaps_the_last(*inner))
    return no_match("its input does not swap the last two of three axes");
  const Shape split = static_shape(graph.dims(outer.output()));
  if (!splits_the_last(split, static_shape(graph.dims(inner->output()))))
    return no_match("it makes no image");
  Dims shape = graph.dims(outer.output()), order{Dim(0), Dim(static_cast<int64_t>(split.size()) - 1)};
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  for (size_t i = 1; i + 1 < split.size(); ++i) order.emplace_back(static_cast<int64_t>(i));
  Patch patch(graph, outer);
  const ValueId rows = patch.add(Op::reshape, {inner->input(0)}, {{"shape", shape}});
  patch.replace(outer.output(), patch.add(Op::permute, {rows}, {{"dims", order}}));
  return patch;
}

// add(concat(c, x), d)  ->  concat(add(c, d's part), add(x, d's part)) where c and d are constants: a token
// before the others and what is added to all of them. Qualcomm's library cannot prepare some graphs that
// join zeros of 16 bits and add to them.
Match add_before_concat(const Graph& graph, const Node& node) {
  if (node.op != Op::add || is_symbolic(graph, node)) return no_match("not an add");
  const size_t side = graph.constant(node.input(1)) ? 0 : 1;
  const ValueId joined = node.input(side), all = node.input(1 - side);
  const Node* concat = graph.producer(joined);
  if (!concat || concat->op != Op::concat || !graph.constant(all) || graph.value(joined).users.size() != 1)
    return no_match("it adds no constant to a concat of its own");
  if (graph.dims(all) != graph.dims(node.output()) || graph.dims(joined) != graph.dims(all))
    return no_match("it broadcasts");
  if (graph.value(joined).encoding || graph.value(node.output()).encoding) return no_match("it has its grid");
  const auto computed = std::count_if(concat->inputs.begin(), concat->inputs.end(),
                                      [&](ValueId v) { return !graph.constant(v); });
  if (computed != 1 || concat->inputs.size() < 2) return no_match("not all but one are constants");
  for (const Leaf& leaf : graph.outputs)
    if (leaf.value == joined) return no_match("it is an output too");
  const int64_t axis = concat->attrs.integer("dim"), rank = static_cast<int64_t>(graph.dims(joined).size());
  const int64_t dim = axis < 0 ? axis + rank : axis;
  Patch patch(graph, node);
  std::vector<ValueId> parts;
  int64_t at = 0;
  for (const ValueId v : concat->inputs) {
    const int64_t extent = graph.dims(v)[static_cast<size_t>(dim)].value();
    const ValueId piece =
        patch.add(Op::slice, {all},
                  {{"dim", Dim(dim)}, {"start", Dim(at)}, {"end", Dim(at + extent)}, {"step", Dim(1)}});
    parts.push_back(patch.add(Op::add, {v, piece}, node.attrs));
    at += extent;
  }
  patch.replace(node.output(), patch.add(Op::concat, parts, concat->attrs));
  return patch;
}

bool is_all(const Tensor* constant, double number) {
  if (!constant || constant->count() == 0) return false;
  const Tensor flat = to_contiguous(*constant);
  for (int64_t i = 0; i < flat.count(); ++i)
    if (element_real(flat, i) != number) return false;
  return true;
}

// add(x, 0), sub(x, 0), mul(x, 1)  ->  x: masks that mask nothing, scales of 1. As outputs of a graph,
// Qualcomm's library has the numbers of such a sum on the operand's grid, whatever encoding the sum has.
Match drop_neutral(const Graph& graph, const Node& node) {
  if (node.op != Op::add && node.op != Op::sub && node.op != Op::mul)
    return no_match("not a sum, a difference or a product");
  const ValueId y = node.output();
  const double neutral = node.op == Op::mul ? 1 : 0;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const ValueId x = node.input(side);
    if (node.op == Op::sub && side == 1) continue;
    if (graph.constant(x) || !(graph.type(x) == graph.type(y))) continue;
    if (graph.value(x).encoding != graph.value(y).encoding) continue;
    if (!is_all(graph.constant(node.input(1 - side)), neutral)) continue;
    Patch patch(graph, node);
    patch.replace(y, x);
    return patch;
  }
  return no_match("it changes something");
}

}  // namespace

Status prepare_for_htp(Graph& graph, const HtpTarget& target, const RewriteOptions& options,
                       PipelineReport* report) {
  SF_TRY(fold_quantization(graph));
  share_grid_of_bounds(graph);
  count_from_zero(graph);
  Rewriter rewriter(graph, options);
  Status status = rewriter.apply(recompose_rules());
  if (status.ok())
    status = rewriter.rewrite_each("htp", [&](const Node& node) -> Match {
      if (is_symbolic(graph, node)) return no_match("its shapes are symbolic");
      Htp h(graph, node, target);
      return rule_of(node.op)(h);
    });
  static constexpr Rule kTidy[] = {
      {"drop_identity", drop_identity},     {"merge_reshapes", merge_reshapes},
      {"merge_permutes", merge_permutes},   {"flatten_moved", flatten_moved},
      {"unflatten_moved", unflatten_moved}, {"add_before_concat", add_before_concat},
      {"drop_neutral", drop_neutral},       {"fold_constants", fold_constants},
      {"choose_known", choose_known}};
  if (status.ok()) status = rewriter.apply(kTidy);
  if (status.ok()) status = settle_encodings(graph);
  if (report) report->refused = rewriter.refused();
  if (report) report->log.insert(report->log.end(), rewriter.log().begin(), rewriter.log().end());
  return status;
}

}  // namespace sixfold
