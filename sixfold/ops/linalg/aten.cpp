// Equations: inverses, determinants, solutions.
#include "sixfold/ops/aten.h"

#include <algorithm>
#include <limits>

#include "sixfold/ops/linalg/rules.h"
#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::aten {

std::vector<Expr> linalg(Call& call, std::string_view function, std::vector<ValueId> operands, Attrs flags) {
  flags.set("function", std::string(function));
  std::vector<Expr> out;
  for (const ValueId v : call.op_all(Op::linalg, std::move(operands), std::move(flags)))
    out.emplace_back(call, v);
  while (out.size() < 5) out.emplace_back(call, kNoValue);
  return out;
}

Expr matrix(Call& call, std::string_view name) {
  const Expr x(call, call.tensor(name));
  if (call.ok() && x.rank() < 2)
    call.fail(Code::InvalidModel, "argument ", name, " is ", call.type(x), ", no matrix");
  if (call.ok()) call.shape(x);
  return x;
}
Expr transposed(const Expr& x) {
  if (!x.call().ok()) return x;
  Shape order = every_axis(x);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return {x.call(), x.call().permute(x, order)};
}
Expr product(const Expr& a, const Expr& b) { return a.apply(Op::matmul, b); }

namespace {

Expr count_up(Call& call, const Dim& length) {
  return {call, call.op(Op::arange, {},
                        {{"start", Dim(0)}, {"step", Dim(1)}, {"length", length}, {"dtype", DType::i64}})};
}
Expr expanded(const Expr& x, const Dims& shape) {
  return x.call().ok() && x.dims() != shape ? x.apply(Op::expand, {{"shape", shape}}) : x;
}

}  // namespace

Expr unit_matrix(const Expr& like) {
  if (!like.call().ok()) return like;
  const Expr i = count_up(like.call(), like.dims().back());
  return i.unsqueeze(1).apply(Op::eq, i).to(like.dtype());
}
Expr triangle(const Expr& x, Op compare, int64_t diagonal) {
  if (!x.call().ok()) return x;
  const Expr row = count_up(x.call(), x.dims()[x.dims().size() - 2]).unsqueeze(1);
  const Expr column = count_up(x.call(), x.dims().back());
  return where(column.apply(compare, row + static_cast<double>(diagonal)), x, 0.0);
}
Expr cut(const Expr& x, int64_t axis, int64_t end) {
  if (!x.call().ok()) return x;
  return {x.call(), x.call().slice(x, axis < 0 ? axis + x.rank() : axis, Dim(0), Dim(end))};
}
Expr diagonal_of(const Expr& x) {
  if (!x.call().ok()) return x;
  const int64_t least = std::min(x.dims().back().value_or(0), x.dims()[x.dims().size() - 2].value_or(0));
  const Expr square = cut(cut(x, -1, least), -2, least);
  return sum(where(unit_matrix(square).to(DType::boolean), square, 0.0), {x.rank() - 1});
}
Expr inverse(const Expr& a, bool check) {
  Call& call = a.call();
  return linalg(call, "solve", {a, expanded(unit_matrix(a), call.ok() ? a.dims() : Dims{})},
                {{"check", check}})[0];
}

namespace {

// a x = b, batch axes broadcast.
Expr solve(const Expr& a, const Expr& b, std::string_view function, Attrs flags) {
  Call& call = a.call();
  if (!call.ok()) return a;
  const Dims batch_a(a.dims().begin(), a.dims().end() - 2), batch_b(b.dims().begin(), b.dims().end() - 2);
  auto batch = broadcast(batch_a, batch_b);
  if (!batch.ok()) {
    call.fail(batch.take_error());
    return a;
  }
  const auto whole = [&](const Expr& x) {
    Dims shape = *batch;
    shape.insert(shape.end(), x.dims().end() - 2, x.dims().end());
    return expanded(x, shape);
  };
  return linalg(call, function, {whole(a), whole(b)}, std::move(flags))[0];
}
Expr solve_triangular(const Expr& a, const Expr& b, bool upper, bool unit = false) {
  return solve(a, b, "solve_triangular", {{"upper", upper}, {"unit", unit}});
}

// B is a batch of vectors where it has one axis, or A's shape without the last.
Status solve_rule(Call& call) {
  const Expr a = matrix(call, "A");
  Expr b(call, call.tensor("B"));
  if (!call.ok()) return {};
  const bool vector = b.rank() == 1 || (b.rank() == a.rank() - 1 &&
                                        std::equal(b.dims().begin(), b.dims().end(), a.dims().begin()));
  if (vector) b = b.unsqueeze(b.rank());
  const bool check = !call.attr("check_errors") || call.flag("check_errors"), left = call.flag("left");
  if (!left && vector) return call.unsupported("a vector on the left side");
  Expr x = left ? solve(a, b, "solve", {{"check", check}})
                : transposed(solve(transposed(a), transposed(b), "solve", {{"check", check}}));
  if (!call.ok()) return {};
  if (vector) x = x.reshape(Dims(x.dims().begin(), x.dims().end() - 1));
  if (call.output_count() == 1) return call.result(x);
  const auto lu = linalg(call, "lu", {a});
  if (call.output_count() == 2) return call.results({x, lu[4]});
  return call.results({x, left ? ValueId(lu[0]) : kNoValue, left ? ValueId(lu[1]) : kNoValue, lu[4]});
}

Status solve_triangular_rule(Call& call) {
  const Expr a = matrix(call, "self"), b = matrix(call, "B");
  const bool upper = call.flag("upper"), unit = call.flag("unitriangular");
  if (call.flag("left")) return call.result(solve_triangular(a, b, upper, unit));
  return call.result(transposed(solve_triangular(transposed(a), transposed(b), !upper, unit)));
}
Status triangular_solve(Call& call) {
  const Expr b = matrix(call, "self"), a = matrix(call, "A");
  const bool transpose = call.flag("transpose");
  const Expr x = solve_triangular(transpose ? transposed(a) : a, b, call.flag("upper") != transpose,
                                  call.flag("unitriangular"));
  if (!call.ok()) return {};
  Dims shape(x.dims().begin(), x.dims().end() - 2);
  shape.insert(shape.end(), a.dims().end() - 2, a.dims().end());
  return call.results({x, expanded(a, shape)});
}

// a = l l^T
Expr cholesky_solve_of(const Expr& l, const Expr& b) {
  return solve_triangular(transposed(l), solve_triangular(l, b, false), true);
}
Status cholesky_solve(Call& call) {
  const Expr b = matrix(call, "self"), factor = matrix(call, "input2");
  return call.result(cholesky_solve_of(call.flag("upper") ? transposed(factor) : factor, b));
}
Status cholesky_inverse(Call& call) {
  const Expr factor = matrix(call, "self"), l = call.flag("upper") ? transposed(factor) : factor;
  return call.result(cholesky_solve_of(l, unit_matrix(l)));
}

Status inverse_rule(Call& call) {
  const Expr a = matrix(call, call.attr("A") ? "A" : "self");
  const bool check = !call.attr("check_errors") || call.flag("check_errors");
  const Expr out = inverse(a, check);
  if (call.output_count() == 1) return call.result(out);
  return call.results({out, linalg(call, "lu", {a})[4]});
}

Status det(Call& call) {
  const Expr a = matrix(call, call.attr("A") ? "A" : "self");
  const auto lu = linalg(call, "lu", {a});
  const Expr diagonal = diagonal_of(lu[0]);
  const Expr det = lu[3] * reduce(Op::prod, diagonal, {diagonal.rank() - 1});
  if (call.output_count() == 1) return call.result(det);
  return call.results({det, lu[0], lu[1]});
}
Status slogdet(Call& call) {
  const Expr a = matrix(call, call.attr("A") ? "A" : "self");
  const auto lu = linalg(call, "lu", {a});
  const Expr diagonal = diagonal_of(lu[0]);
  const Shape last{diagonal.rank() - 1};
  const Expr sign = lu[3] * reduce(Op::prod, diagonal.apply(Op::sign), last),
             size = sum(log(abs(diagonal)), last);
  if (call.output_count() == 1)  // logdet
    return call.result(where(sign.less(sign.number(0)), std::numeric_limits<double>::quiet_NaN(), size));
  std::vector<ValueId> out{sign, size, lu[0], lu[1]};
  out.resize(call.output_count());
  return call.results(out);
}

// A tensor whose first `ind` axes are the rows of a square matrix.
Status tensorinv(Call& call) {
  const Expr x(call, call.tensor("self"));
  const int64_t split = call.integer("ind");
  const Shape shape = call.shape(x);
  if (!call.ok() || split < 1 || split >= x.rank())
    return invalid_model("tensorinv of ", shape, " after ", split, " axes");
  const Dims front(x.dims().begin(), x.dims().begin() + split),
      back(x.dims().begin() + split, x.dims().end());
  Dims out = back;
  out.insert(out.end(), front.begin(), front.end());
  return call.result(inverse(x.reshape({numel(front), numel(back)})).reshape(out));
}
Status tensorsolve(Call& call) {
  Expr a(call, call.tensor("self"));
  const Expr b(call, call.tensor("other"));
  if (!call.is_none("dims")) {
    Shape moved = call.ints("dims"), order;
    for (int64_t& d : moved) d = call.normalize(d, a);
    for (int64_t i = 0; i < a.rank(); ++i)
      if (std::find(moved.begin(), moved.end(), i) == moved.end()) order.push_back(i);
    order.insert(order.end(), moved.begin(), moved.end());
    if (call.ok()) a = Expr(call, call.permute(a, order));
  }
  if (!call.ok() || a.rank() < b.rank()) return invalid_model("tensorsolve of ", a.dims(), " for ", b.dims());
  const Dims rest(a.dims().begin() + b.rank(), a.dims().end());
  const Expr x = solve(a.reshape({numel(b.dims()), numel(rest)}), b.reshape({numel(b.dims()), Dim(1)}),
                       "solve", {{"check", true}});
  return call.result(x.reshape(rest));
}

constexpr AtenRule kRules[] = {
    {"aten.linalg_inv.default", inverse_rule},
    {"aten.linalg_inv_ex.default", inverse_rule},
    {"aten.inverse.default", inverse_rule},
    {"aten.linalg_solve.default", solve_rule},
    {"aten.linalg_solve_ex.default", solve_rule},
    {"aten._linalg_solve_ex.default", solve_rule},
    {"aten.linalg_solve_triangular.default", solve_triangular_rule},
    {"aten.triangular_solve.default", triangular_solve},
    {"aten.cholesky_solve.default", cholesky_solve},
    {"aten.cholesky_inverse.default", cholesky_inverse},
    {"aten.linalg_det.default", det},
    {"aten._linalg_det.default", det},
    {"aten.det.default", det},
    {"aten.linalg_slogdet.default", slogdet},
    {"aten._linalg_slogdet.default", slogdet},
    {"aten.slogdet.default", slogdet},
    {"aten.logdet.default", slogdet},
    {"aten.linalg_tensorinv.default", tensorinv},
    {"aten.linalg_tensorsolve.default", tensorsolve},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> linalg_rules() {
  static const std::vector<AtenRule> all = [] {
    const std::span own = kept<kRules>();
    std::vector<AtenRule> rules(own.begin(), own.end());
    for (const auto more : {factor_rules(), spectrum_rules()})
      rules.insert(rules.end(), more.begin(), more.end());
    return rules;
  }();
  return all;
}

}  // namespace sixfold::aten
