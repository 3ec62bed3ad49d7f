// Gradients of taking parts of a tensor: what was taken from an element is added to it.
#include "sixfold/ops/backward/gradient.h"
#include "sixfold/ops/index/build.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

ValueId add_rows(Call& call, ValueId sums, ValueId index, ValueId rows) {
  return call.op(Op::index_put, {sums, rows, index}, {{"dims", Dims{0}}, {"accumulate", true}});
}

Status embedding_backward(Call& call) {
  Expr g(call, call.tensor(call.attr("grad_output") ? "grad_output" : "grad"));
  const DType dtype = g.dtype();
  Expr index(call, as_index(call, call.tensor("indices")));
  if (call.attr("sparse") && call.flag("sparse")) return call.unsupported("a sparse gradient");
  const Dim rows = call.dim("num_weights"), width = g.rank() > 0 ? g.dims().back() : Dim(1);
  if (!ok(call) || g.rank() != index.rank() + 1)
    return invalid_model("an embedding of ", index.dims(), " to ", g.dims());
  index = Expr(call, flatten(call, index));
  g = g.to(compute_type(dtype)).reshape({numel(index.dims()), width});
  if (call.flag("scale_grad_by_freq")) {
    const Expr one = g.number(1);
    const Expr counts(call,
                      add_rows(call, zeros(call, {rows}, g.dtype()), index, expand(call, one, index.dims())));
    g = g / Expr(call, call.op(Op::embedding, {counts, index})).unsqueeze(1);
  }
  const int64_t padding = call.integer("padding_idx");
  if (padding >= 0) g = where(index.equals(static_cast<double>(padding)).unsqueeze(1), 0.0, g);
  return call.result(Expr(call, add_rows(call, zeros(call, {rows, width}, g.dtype()), index, g)).to(dtype));
}

Status gather_backward(Call& call) {
  const Expr g(call, call.tensor("grad")), x(call, call.tensor("self"));
  const ValueId sums =
      call.op(Op::scatter,
              {at_least(call, zeros(call, x.dims(), g.dtype()), 1),
               as_index(call, at_least(call, call.tensor("index"), 1)), at_least(call, g, 1)},
              {{"dim", Dim(call.axis("dim", x))}, {"reduce", std::string("add")}, {"include_self", true}});
  return call.result(call.reshape(sums, x.dims()));
}

Status index_select_backward(Call& call) {
  const Expr g(call, call.tensor("grad"));
  const Dims sizes = call.dims("self_sizes");
  auto axis = normalize_axis(call.integer("dim"), sizes.size());
  if (!axis.ok()) return axis.take_error();
  if (!ok(call) || sizes.empty()) return call.unsupported("a selection from a tensor without axes");
  const ValueId sums =
      call.op(Op::index_put,
              {zeros(call, sizes, g.dtype()), g, as_index(call, at_least(call, call.tensor("index"), 1))},
              {{"dims", Dims{Dim(*axis)}}, {"accumulate", true}});
  return call.result(sums);
}

Status put_slice(Call& call, ValueId part, int64_t axis, const Dim& start, const Dim& end, int64_t step) {
  const Dims sizes = call.dims("input_sizes");
  return call.result(call.op(Op::slice_scatter, {zeros(call, sizes, call.dtype_of(part)), part},
                             {{"dim", Dim(axis)}, {"start", start}, {"end", end}, {"step", Dim(step)}}));
}
Status slice_backward(Call& call) {
  const ValueId g = call.tensor("grad_output");
  const ValueId whole = zeros(call, call.dims("input_sizes"), call.dtype_of(g));
  const int64_t axis = call.axis("dim", whole);
  const Bounds at = slice_bounds(call, whole, axis);
  if (!ok(call)) return stop(call);
  return put_slice(call, g, axis, at.start, at.end, at.step);
}
Status select_backward(Call& call) {
  const ValueId g = call.tensor("grad_output");
  const Dims sizes = call.dims("input_sizes");
  auto axis = normalize_axis(call.integer("dim"), sizes.size());
  if (!axis.ok()) return axis.take_error();
  if (!ok(call) || sizes.empty()) return invalid_model("a selection from a tensor without axes");
  Dim index = call.dim("index");
  if (index.is_static() && index.value() < 0) index = index + sizes[static_cast<size_t>(*axis)];
  return put_slice(call, call.unsqueeze(g, *axis), *axis, index, index + Dim(1), 1);
}

constexpr AtenRule kRules[] = {
    {"aten.embedding_dense_backward.default", embedding_backward},
    {"aten.embedding_backward.default", embedding_backward},
    {"aten.gather_backward.default", gather_backward},
    {"aten.index_select_backward.default", index_select_backward},
    {"aten.slice_backward.default", slice_backward},
    {"aten.select_backward.default", select_backward},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> backward_index_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
