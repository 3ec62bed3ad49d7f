// Gradients of losses. A mean over n elements gives each 1/n of the incoming gradient.
#include "sixfold/ops/backward/gradient.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

constexpr int64_t kMean = 1;

// The gradient of an elementwise loss whose derivative by x is `slope`.
Status give_each(Call& call, const Gradient& at, const Expr& slope) {
  double share = 1;
  if (call.integer("reduction") == kMean) share = 1.0 / static_cast<double>(numel(call.shape(at.x)));
  return at.give(slope * at.g * share);
}
Expr target_of(Call& call, const Gradient& at) { return Expr(call, call.tensor("target")).to(at.g.dtype()); }

Status mse_backward(Call& call) {
  const Gradient at(call, "self");
  return give_each(call, at, (at.x - target_of(call, at)) * 2.0);
}
Status smooth_l1_backward(Call& call) {
  const Gradient at(call, "self");
  const double beta = call.real("beta");
  const Expr d = at.x - target_of(call, at), sign = d.apply(Op::sign);
  return give_each(call, at, beta == 0 ? sign : where(abs(d).less(d.number(beta)), d / beta, sign));
}
Status huber_backward(Call& call) {
  const Gradient at(call, "self");
  const double delta = call.real("delta");
  const Expr d = at.x - target_of(call, at);
  return give_each(call, at, where(abs(d).less_equal(delta), d, d.apply(Op::sign) * delta));
}
Status soft_margin_backward(Call& call) {
  const Gradient at(call, "self");
  const Expr t = target_of(call, at);
  return give_each(call, at, -t * (-t * at.x).apply(Op::sigmoid));
}
Status binary_cross_entropy_backward(Call& call) {
  const Gradient at(call, "self");
  Expr slope = (at.x - target_of(call, at)) / at_least((1.0 - at.x) * at.x, 1e-12);
  if (!call.is_none("weight")) slope = slope * Expr(call, call.tensor("weight")).to(slope.dtype());
  return give_each(call, at, slope);
}

// Scores [C], [N, C] or [N, C, ...], a class for each place: -weight[class] of the gradient goes to that
// class.
Status nll_backward(Call& call) {
  Gradient at(call, "self");
  Expr target = Expr(call, call.tensor("target")).to(DType::i64);
  if (call.ok() && at.x.rank() == 1) {  // one sample; of a longer list of classes torch takes the first
    if (target.rank() == 1 && !(target.dims()[0] == Dim(0)))
      target = Expr(call, call.slice(target, 0, Dim(0), Dim(1))).reshape({});
    if (numel(at.g.dims()) == Dim(1)) at.g = at.g.reshape({});
  }
  if (!call.ok() || at.x.rank() < 1 || target.rank() != at.x.rank() - 1)
    return invalid_model("classes ", target.dims(), " do not fit scores ", at.x.dims());
  const int64_t axis = at.x.rank() == 1 ? 0 : 1;
  const Expr ignored = target.equals(static_cast<double>(call.integer("ignore_index")));
  target = where(ignored, 0.0, target);
  Expr share = -at.g;
  if (!call.is_none("weight"))
    share = share *
            Expr(call, call.op(Op::embedding, {Expr(call, call.tensor("weight")).to(share.dtype()), target}));
  if (call.integer("reduction") == kMean)
    share = share / Expr(call, call.tensor("total_weight")).to(share.dtype());
  share = where(ignored, 0.0, share);

  Dims column(static_cast<size_t>(at.x.rank()), Dim(1));
  column[static_cast<size_t>(axis)] = extent_of(at.x, axis);
  const Expr classes(
      call,
      call.op(
          Op::arange, {},
          {{"start", Dim(0)}, {"step", Dim(1)}, {"length", extent_of(at.x, axis)}, {"dtype", DType::i64}}));
  const Expr chosen = classes.reshape(column).apply(Op::eq, target.unsqueeze(axis));
  return at.give(where(chosen, share.unsqueeze(axis), 0.0));
}

constexpr AtenRule kRules[] = {
    {"aten.mse_loss_backward.default", mse_backward},
    {"aten.smooth_l1_loss_backward.default", smooth_l1_backward},
    {"aten.huber_loss_backward.default", huber_backward},
    {"aten.soft_margin_loss_backward.default", soft_margin_backward},
    {"aten.binary_cross_entropy_backward.default", binary_cross_entropy_backward},
    {"aten.nll_loss_backward.default", nll_backward},
    {"aten.nll_loss2d_backward.default", nll_backward},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> backward_loss_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
