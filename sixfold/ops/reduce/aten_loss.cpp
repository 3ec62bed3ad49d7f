// Loss functions, as the formulas of torch.nn.functional.
#include <cmath>
#include <numbers>
#include <span>

#include "sixfold/ops/reduce/rules.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

Expr reduced(const Expr& loss, int64_t reduction) {
  if (reduction == kMean) return mean(loss, every_axis(loss));
  if (reduction == kSum) return sum(loss, every_axis(loss));
  return loss;
}
Status finish(const Expr& loss) {
  return loss.call().result(reduced(loss, loss.call().integer("reduction")));
}

// Both operands in their common float type.
struct Pair {
  Expr x, y;
  explicit Pair(Call& call, std::string_view a = "self", std::string_view b = "target")
      : x(arg(call, a)), y(arg(call, b)) {
    const DType dtype = to_float(result_type(call, {a, b}));
    x = x.to(dtype);
    y = y.to(dtype);
  }
};

Status mse_loss(Call& call) {
  const Pair p(call);
  const Expr d = p.x - p.y;
  return finish(d * d);
}
Status l1_loss(Call& call) {
  const Pair p(call);
  return finish(abs(p.x - p.y));
}
Status smooth_l1_loss(Call& call) {
  const Pair p(call);
  const double beta = call.real("beta");
  const Expr d = abs(p.x - p.y);
  if (beta == 0) return finish(d);
  return finish(where(d.less(d.number(beta)), d * d * 0.5 / beta, d - 0.5 * beta));
}
Status huber_loss(Call& call) {
  const Pair p(call);
  const double delta = call.real("delta");
  const Expr d = abs(p.x - p.y);
  return finish(where(d.less_equal(delta), d * d * 0.5, (d - 0.5 * delta) * delta));
}

Expr weighted(Call& call, const Expr& loss) {
  return call.is_none("weight") ? loss : loss * arg(call, "weight").to(loss.dtype());
}

// Logs are bounded at -100, so that a wrong certain prediction costs 100 and not inf.
Status binary_cross_entropy(Call& call) {
  const Pair p(call);
  const Expr yes = at_least(log(p.x), -100), no = at_least(log1p(-p.x), -100);
  return finish(weighted(call, (p.y - 1.0) * no - p.y * yes));
}
Expr log_sigmoid(const Expr& x) { return minimum(x, x.number(0)) - log1p(exp(-abs(x))); }
Status binary_cross_entropy_with_logits(Call& call) {
  const Pair p(call);
  const Expr positive = log_sigmoid(p.x);
  if (call.is_none("pos_weight")) return finish(weighted(call, (1.0 - p.y) * p.x - positive));
  const Expr log_weight = (arg(call, "pos_weight").to(p.x.dtype()) - 1.0) * p.y + 1.0;
  return finish(weighted(call, (1.0 - p.y) * p.x - log_weight * positive));
}

Status kl_div(Call& call) {
  const Pair p(call);
  if (call.flag("log_target")) return finish(exp(p.y) * (p.y - p.x));
  return finish(where(p.y.equals(0), 0.0, p.y * log(p.y)) - p.y * p.x);
}
Status poisson_nll_loss(Call& call) {
  const Pair p(call, "input", "target");
  Expr loss = call.flag("log_input") ? exp(p.x) - p.y * p.x : p.x - p.y * log(p.x + call.real("eps"));
  if (call.flag("full")) {
    const Expr stirling = p.y * log(p.y) - p.y + log(p.y * (2 * std::numbers::pi)) * 0.5;
    loss = loss + where(p.y.less_equal(1), 0.0, stirling);
  }
  return finish(loss);
}
Status soft_margin_loss(Call& call) {
  const Pair p(call);
  return finish(log1p(exp(-p.x * p.y)));
}
Status margin_ranking_loss(Call& call) {
  const Pair p(call, "input1", "input2");
  return finish(at_least(-arg(call, "target").to(p.x.dtype()) * (p.x - p.y) + call.real("margin"), 0));
}
Status hinge_embedding_loss(Call& call) {
  const Pair p(call);
  const Expr margin = at_least(call.real("margin") - p.x, 0);
  return finish(where(p.y.equals(1), 0.0, margin) + where(p.y.equals(-1), 0.0, p.x));
}
Status cosine_embedding_loss(Call& call) {
  const Pair p(call, "input1", "input2");
  const Expr target = arg(call, "target");
  const Shape dims = p.x.rank() == 0 ? Shape{} : Shape{p.x.rank() - 1};
  const Expr norms = (sum(p.x * p.x, dims) + 1e-12) * (sum(p.y * p.y, dims) + 1e-12);
  const Expr cosine = sum(p.x * p.y, dims) / sqrt(norms);
  const Expr apart = at_least(cosine - call.real("margin"), 0);
  return finish(where(target.equals(1), 1.0 - cosine, 0.0) + where(target.equals(-1), apart, 0.0));
}
Status triplet_margin_loss(Call& call) {
  const DType dtype = to_float(result_type(call, {"anchor", "positive", "negative"}));
  const auto operand = [&](std::string_view name) { return arg(call, name).to(dtype); };
  const Expr anchor = operand("anchor"), positive = operand("positive"), negative = operand("negative");
  const auto distance = [&](const Expr& a, const Expr& b) {
    const Expr d = a - b + call.real("eps");
    return vector_norm(d, call.real("p"), d.rank() == 0 ? Shape{} : Shape{d.rank() - 1}, false);
  };
  Expr far = distance(anchor, negative);
  if (call.flag("swap")) far = minimum(far, distance(positive, negative));
  return finish(at_least(distance(anchor, positive) - far + call.real("margin"), 0));
}

// ---- classification: log-probabilities [C], [N, C] or [N, C, ...] and a class for each

struct Classes {
  Expr chosen;  // target with ignored entries replaced by class 0
  Expr ignored;
  int64_t axis;
};

int64_t class_axis(const Expr& x) { return x.rank() == 1 ? 0 : 1; }

Classes classes_of(Call& call, const Expr& log_p) {
  const Expr target = arg(call, "target").to(DType::i64);
  const Expr ignored = target.equals(static_cast<double>(call.integer("ignore_index")));
  return {where(ignored, 0.0, target), ignored, class_axis(log_p)};
}

// weight[target], 0 where ignored
Expr weight_of(Call& call, const Classes& classes, DType dtype) {
  if (call.is_none("weight")) return logical_not(classes.ignored).to(dtype);
  const Expr weight = arg(call, "weight").to(dtype);
  const Expr each(call, call.op(Op::embedding, {weight, classes.chosen}));
  return where(classes.ignored, 0.0, each);
}

struct Nll {
  Expr loss, total_weight;
};
Nll nll(Call& call, const Expr& log_p, int64_t reduction) {
  const Classes classes = classes_of(call, log_p);
  const Expr weights = weight_of(call, classes, log_p.dtype());
  const Expr picked =
      log_p.apply(Op::gather, classes.chosen.unsqueeze(classes.axis), {{"dim", Dim(classes.axis)}});
  const Dims shape = classes.chosen.dims();
  // Ignored places give 0 even where the log-probability there is not finite.
  const Expr each = where(classes.ignored, 0.0, -(picked.reshape(shape) * weights));
  const Expr total = sum(weights, every_axis(weights));
  if (reduction == kNone) return {each, total};
  const Expr added = sum(each, every_axis(each));
  return {reduction == kMean ? added / total : added, total};
}

Status check_classes(Call& call, const Expr& x) {
  const Expr target = arg(call, "target");
  if (x.rank() < 1 || target.rank() != x.rank() - 1)
    return invalid_model("classes ", call.type(target), " do not fit scores ", call.type(x));
  return ok_status();
}

Status nll_loss(Call& call) {
  const Expr x = arg(call, "self");
  if (Status s = check_classes(call, x); !s.ok()) return s.take_error();
  const int64_t reduction = call.integer("reduction");
  const Nll out = nll(call, x, reduction);
  if (call.output_count() == 1) return call.result(out.loss);
  // Without a reduction torch counts no weights, but for a single sample.
  const bool counted = reduction != kNone || x.rank() == 1;
  return call.results({out.loss, counted ? out.total_weight : out.total_weight.number(0)});
}

// -sum(target * log_softmax(x)) over classes, for targets that are probabilities.
Status soft_cross_entropy(Call& call, const Expr& log_p, double smoothing) {
  const int64_t axis = class_axis(log_p);
  const double classes = static_cast<double>(call.shape(log_p)[static_cast<size_t>(axis)]);
  Expr target = arg(call, "target").to(log_p.dtype());
  if (smoothing > 0) target = target * (1 - smoothing) + smoothing / classes;
  Expr product = log_p * target;
  if (!call.is_none("weight")) {
    Dims shape(static_cast<size_t>(log_p.rank()), Dim(1));
    const Expr weight = arg(call, "weight").to(log_p.dtype());
    shape[static_cast<size_t>(axis)] = numel(weight.dims());
    product = product * weight.reshape(shape);
  }
  const Expr loss = -sum(product, {axis});
  return finish(loss);
}

Status cross_entropy_loss(Call& call) {
  const Expr x = arg(call, "self");
  if (x.rank() < 1) return invalid_model("cross_entropy_loss of a scalar");
  const int64_t axis = class_axis(x), reduction = call.integer("reduction");
  const double smoothing = call.real("label_smoothing");
  const Expr log_p = x.apply(Op::log_softmax, {{"dim", Dim(axis)}});
  if (is_float(arg(call, "target").dtype())) return soft_cross_entropy(call, log_p, smoothing);
  if (Status s = check_classes(call, x); !s.ok()) return s.take_error();
  const Nll plain = nll(call, log_p, reduction);
  if (smoothing == 0) return call.result(plain.loss);

  // Smoothing mixes in the mean loss over all classes.
  const Shape shape = call.shape(x);
  const Classes classes = classes_of(call, log_p);
  Expr scaled = log_p;
  if (!call.is_none("weight")) {
    Dims per_class(shape.size(), Dim(1));
    per_class[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
    scaled = log_p * arg(call, "weight").to(log_p.dtype()).reshape(per_class);
  }
  Expr smooth = where(classes.ignored, 0.0, -sum(scaled, {axis}));
  if (reduction != kNone) smooth = sum(smooth, every_axis(smooth));
  if (reduction == kMean) smooth = smooth / plain.total_weight;
  return call.result(plain.loss * (1 - smoothing) +
                     smooth * (smoothing / static_cast<double>(shape[static_cast<size_t>(axis)])));
}

// sum over c != y of max(0, margin - x[y] + x[c])^p * weight[y], over the number of classes
Status multi_margin_loss(Call& call) {
  const Expr in = arg(call, "self");
  const Shape shape = call.shape(in);
  if (shape.size() > 2) return invalid_model("multi_margin_loss of ", call.type(in));
  const int64_t classes = shape.empty() ? 1 : shape.back();
  const Expr x = in.reshape({Dim(shape.size() == 2 ? shape[0] : 1), Dim(classes)});
  const Expr target = arg(call, "target").reshape({x.dims().front(), Dim(1)});
  const Expr chosen = x.apply(Op::gather, target, {{"dim", Dim(1)}});
  Expr each = at_least(x - chosen + call.real("margin"), 0);
  if (call.real("p") == 2) each = each * each;
  if (!call.is_none("weight"))
    each = each * Expr(call, call.op(Op::embedding, {arg(call, "weight"), target}));
  std::vector<int64_t> all(static_cast<size_t>(classes));
  for (int64_t i = 0; i < classes; ++i) all[static_cast<size_t>(i)] = i;
  const Expr others = Expr(call, call.constant(Tensor::of_ints(all))).apply(Op::ne, target);
  const Expr loss = sum(where(others, each, 0.0), {1}) / static_cast<double>(classes);
  return finish(shape.size() == 2 ? loss : loss.reshape({}));
}

// Targets are class numbers up to the first -1: sum over targets y and classes c that are none of
// max(0, 1 - x[y] + x[c]), over the number of classes
Status multilabel_margin_loss(Call& call) {
  const Expr in = arg(call, "self");
  const Shape shape = call.shape(in);
  if (!call.ok() || shape.size() > 2) return invalid_model("multilabel_margin_loss of ", call.type(in));
  const Dim rows(shape.size() == 2 ? shape[0] : 1), classes(shape.empty() ? 1 : shape.back());
  const Expr x = in.reshape({rows, classes});
  const Expr target = arg(call, "target").reshape({rows, classes});
  const Expr listed = target.apply(Op::ge, target.number(0))
                          .to(DType::i64)
                          .apply(Op::cumprod, {{"dim", Dim(1)}})
                          .to(DType::boolean);
  const Expr y = where(listed, target, 0.0);
  const Expr each_class(
      call, call.op(Op::arange, {},
                    {{"start", Dim(0)}, {"step", Dim(1)}, {"length", classes}, {"dtype", y.dtype()}}));
  const Expr hits = y.unsqueeze(2).apply(Op::eq, each_class).apply(Op::logical_and, listed.unsqueeze(2));
  const Expr is_target(call, call.op(Op::any, {hits}, {{"dims", Dims{1}}, {"keepdim", false}}));
  const Expr chosen = x.apply(Op::gather, y, {{"dim", Dim(1)}});
  const Expr margin = at_least(x.unsqueeze(1) - chosen.unsqueeze(2) + 1.0, 0);
  const Expr counts = listed.unsqueeze(2).apply(Op::logical_and, logical_not(is_target).unsqueeze(1));
  const Expr loss = sum(where(counts, margin, 0.0), {1, 2}) / static_cast<double>(classes.value());
  const Expr out = reduced(shape.size() == 2 ? loss : loss.reshape({}), call.integer("reduction"));
  if (call.output_count() == 1) return call.result(out);
  return call.results({out, is_target.to(in.dtype()).reshape(arg(call, "target").dims())});
}

constexpr AtenRule kRules[] = {
    {"aten.mse_loss.default", mse_loss},
    {"aten.l1_loss.default", l1_loss},
    {"aten.smooth_l1_loss.default", smooth_l1_loss},
    {"aten.huber_loss.default", huber_loss},
    {"aten.binary_cross_entropy.default", binary_cross_entropy},
    {"aten.binary_cross_entropy_with_logits.default", binary_cross_entropy_with_logits},
    {"aten.kl_div.default", kl_div},
    {"aten.poisson_nll_loss.default", poisson_nll_loss},
    {"aten.soft_margin_loss.default", soft_margin_loss},
    {"aten.margin_ranking_loss.default", margin_ranking_loss},
    {"aten.hinge_embedding_loss.default", hinge_embedding_loss},
    {"aten.cosine_embedding_loss.default", cosine_embedding_loss},
    {"aten.triplet_margin_loss.default", triplet_margin_loss},
    {"aten.nll_loss.default", nll_loss},
    {"aten.nll_loss_nd.default", nll_loss},
    {"aten.nll_loss2d.default", nll_loss},
    {"aten.nll_loss_forward.default", nll_loss},
    {"aten.nll_loss2d_forward.default", nll_loss},
    {"aten.cross_entropy_loss.default", cross_entropy_loss},
    {"aten.multi_margin_loss.default", multi_margin_loss},
    {"aten.multilabel_margin_loss.default", multilabel_margin_loss},
    {"aten.multilabel_margin_loss_forward.default", multilabel_margin_loss},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> loss_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
