// Factorizations: Cholesky, LU, QR.
#include <algorithm>

#include "sixfold/ops/linalg/rules.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

int64_t extent(const Expr& x, int64_t from_end) {
  return x.dims()[x.dims().size() - static_cast<size_t>(from_end)].value_or(0);
}

Status cholesky(Call& call) {
  const Expr a = matrix(call, "self");
  const bool upper = call.flag("upper"), check = !call.attr("check_errors") || call.flag("check_errors");
  const auto out = linalg(call, "cholesky", {upper ? transposed(a) : a}, {{"check", check}});
  const Expr factor = upper ? transposed(out[0]) : out[0];
  if (call.output_count() == 1) return call.result(factor);
  return call.results({factor, out[1]});
}

// L has ones on its diagonal; both lie in one matrix.
Expr lower_of(const Expr& lu) {
  const int64_t least = std::min(extent(lu, 1), extent(lu, 2));
  const Expr part = cut(lu, -1, least);
  const Expr below = triangle(part, Op::lt);
  Dims shape = part.dims();
  const Expr ones(lu.call(),
                  lu.call().op(Op::full, {}, {{"shape", shape}, {"value", 1.0}, {"dtype", lu.dtype()}}));
  return below + triangle(triangle(ones, Op::le), Op::ge);
}
Expr upper_of(const Expr& lu) {
  return triangle(cut(lu, -2, std::min(extent(lu, 1), extent(lu, 2))), Op::ge);
}
// P with a = P L U: its column i has its one in the row that row i came from.
Expr permutation(const Expr& order, DType dtype) {
  Call& call = order.call();
  if (!call.ok()) return order;
  const Expr rows(
      call,
      call.op(Op::arange, {},
              {{"start", Dim(0)}, {"step", Dim(1)}, {"length", order.dims().back()}, {"dtype", DType::i64}}));
  return rows.unsqueeze(1).apply(Op::eq, order.unsqueeze(order.rank() - 1)).to(dtype);
}
// The order of `rows` rows after LAPACK's exchanges.
Expr order_of(const Expr& pivots, int64_t rows) {
  Call& call = pivots.call();
  Dims shape(pivots.dims().begin(), pivots.dims().end() - 1);
  shape.push_back(Dim(rows));
  Dims one = shape;
  one.back() = Dim(1);
  Expr order(
      call,
      call.op(Op::expand,
              {call.op(Op::arange, {},
                       {{"start", Dim(0)}, {"step", Dim(1)}, {"length", Dim(rows)}, {"dtype", DType::i64}})},
              {{"shape", shape}}));
  const int64_t axis = pivots.rank() - 1;
  const Expr other = pivots.to(DType::i64) - 1.0;
  const Attrs along{{"dim", Dim(axis)}};
  const Attrs put{{"dim", Dim(axis)}, {"reduce", std::string("none")}, {"include_self", true}};
  for (int64_t k = 0; k < extent(pivots, 1); ++k) {
    const Expr here(call, call.op(Op::full, {}, {{"shape", one}, {"value", Dim(k)}, {"dtype", DType::i64}}));
    const Expr there(call, call.slice(other, axis, Dim(k), Dim(k + 1)));
    const Expr a = order.apply(Op::gather, here, along), b = order.apply(Op::gather, there, along);
    order = Expr(call, call.op(Op::scatter, {order, there, a}, put));
    order = Expr(call, call.op(Op::scatter, {order, here, b}, put));
  }
  return order;
}
constexpr int64_t kMaxPivots = 64;  // each is a few nodes

Status lu_factor(Call& call) {
  const Expr a = matrix(call, call.attr("A") ? "A" : "self");
  if (!call.flag("pivot")) return call.unsupported("a factorization without pivots");
  const auto out = linalg(call, "lu", {a});
  std::vector<ValueId> results{out[0], out[1], out[4]};
  results.resize(call.output_count());
  return call.results(results);
}
Status lu(Call& call) {
  const Expr a = matrix(call, "A");
  if (!call.flag("pivot")) return call.unsupported("a factorization without pivots");
  const auto out = linalg(call, "lu", {a});
  if (!call.ok()) return {};
  return call.results({permutation(out[2], a.dtype()), lower_of(out[0]), upper_of(out[0])});
}
Status lu_unpack(Call& call) {
  const Expr packed = matrix(call, "LU_data"), pivots(call, call.tensor("LU_pivots"));
  if (!call.ok()) return {};
  if (pivots.rank() != packed.rank() - 1)
    return invalid_model("pivots ", pivots.dims(), " of ", packed.dims());
  if (!call.flag("unpack_data") || !call.flag("unpack_pivots"))
    return call.unsupported("a part of the factors alone");
  if (extent(pivots, 1) > kMaxPivots) return call.unsupported("more than 64 pivots");
  const Expr p = permutation(order_of(pivots, extent(packed, 2)), packed.dtype());
  return call.results({p, lower_of(packed), upper_of(packed)});
}

// a x = b, or a^T x = b, for a = P L U
Status lu_solve_of(Call& call, const Expr& packed, const Expr& pivots, Expr b, bool left = true,
                   bool adjoint = false) {
  if (!left) {  // x a = b is a^T x^T = b^T
    b = transposed(b);
    adjoint = !adjoint;
  }
  if (!call.ok()) return {};
  if (pivots.rank() != packed.rank() - 1)
    return invalid_model("pivots ", pivots.dims(), " of ", packed.dims());
  if (extent(pivots, 1) > kMaxPivots) return call.unsupported("more than 64 pivots");
  const Dims batch(packed.dims().begin(), packed.dims().end() - 2);
  if (batch != Dims(b.dims().begin(), b.dims().end() - 2))
    return call.unsupported("batch axes that broadcast");
  const Expr p = permutation(order_of(pivots, extent(packed, 2)), b.dtype());
  const auto solve = [&](const Expr& a, const Expr& right, bool upper, bool unit) {
    return linalg(call, "solve_triangular", {a, right}, {{"upper", upper}, {"unit", unit}})[0];
  };
  const Expr flipped = transposed(packed);  // U^T below its diagonal, L^T above
  const Expr x = adjoint ? product(p, solve(flipped, solve(flipped, b, false, false), true, true))
                         : solve(packed, solve(packed, product(transposed(p), b), false, true), true, false);
  return call.result(left ? x : transposed(x));
}
Status linalg_lu_solve(Call& call) {
  return lu_solve_of(call, matrix(call, "LU"), Expr(call, call.tensor("pivots")), matrix(call, "B"),
                     call.flag("left"), call.flag("adjoint"));
}
Status lu_solve(Call& call) {
  return lu_solve_of(call, matrix(call, "LU_data"), Expr(call, call.tensor("LU_pivots")),
                     matrix(call, "self"));
}

// `columns` columns of Q, for the reflections below a's diagonal.
Expr q_of(const Expr& a, const Expr& tau, int64_t columns) {
  Call& call = a.call();
  const int64_t have = extent(a, 1);
  Expr vectors = cut(a, -1, std::min(have, columns));
  if (columns > have) {
    Dims filler = a.dims();
    filler.back() = Dim(columns - have);
    const ValueId zeros = call.op(Op::full, {}, {{"shape", filler}, {"value", 0.0}, {"dtype", a.dtype()}});
    vectors = Expr(call, call.op(Op::concat, {vectors, zeros}, {{"dim", Dim(a.rank() - 1)}}));
  }
  return linalg(call, "householder_product", {vectors, tau})[0];
}
Status qr_of(Call& call, const Expr& a, bool complete, bool only_r) {
  const auto out = linalg(call, "geqrf", {a});
  if (!call.ok()) return {};
  const int64_t rows = extent(a, 2), least = std::min(rows, extent(a, 1));
  const Expr r = triangle(complete ? out[0] : cut(out[0], -2, least), Op::ge);
  if (!only_r) return call.results({q_of(out[0], out[1], complete ? rows : least), r});
  return call.results(
      {call.op(Op::full, {}, {{"shape", call.output_type(0).dims}, {"value", 0.0}, {"dtype", a.dtype()}}),
       r});
}
Status linalg_qr(Call& call) {
  const std::string mode = call.text("mode");
  return qr_of(call, matrix(call, "A"), mode == "complete", mode == "r");
}
Status qr(Call& call) { return qr_of(call, matrix(call, "self"), !call.flag("some"), false); }

Status geqrf(Call& call) {
  const auto out = linalg(call, "geqrf", {matrix(call, "self")});
  return call.results({out[0], out[1]});
}
Status householder_product(Call& call) {
  const bool old = call.attr("self") != nullptr;
  return call.result(linalg(call, "householder_product",
                            {matrix(call, old ? "self" : "input"), call.tensor(old ? "input2" : "tau")})[0]);
}
// The whole Q, or its transpose, times a matrix from the left or right.
Status ormqr(Call& call) {
  const Expr a = matrix(call, "self"), tau(call, call.tensor("input2")), other = matrix(call, "input3");
  if (!call.ok()) return {};
  Expr q = q_of(a, tau, extent(a, 2));
  if (call.flag("transpose")) q = transposed(q);
  return call.result(call.flag("left") ? product(q, other) : product(other, q));
}

constexpr AtenRule kRules[] = {
    {"aten.cholesky.default", cholesky},
    {"aten.linalg_cholesky.default", cholesky},
    {"aten.linalg_cholesky_ex.default", cholesky},
    {"aten.linalg_lu_factor.default", lu_factor},
    {"aten.linalg_lu_factor_ex.default", lu_factor},
    {"aten._lu_with_info.default", lu_factor},
    {"aten.linalg_lu.default", lu},
    {"aten.lu_unpack.default", lu_unpack},
    {"aten.linalg_lu_solve.default", linalg_lu_solve},
    {"aten.lu_solve.default", lu_solve},
    {"aten.linalg_qr.default", linalg_qr},
    {"aten.qr.default", qr},
    {"aten.geqrf.default", geqrf},
    {"aten.linalg_householder_product.default", householder_product},
    {"aten.orgqr.default", householder_product},
    {"aten.ormqr.default", ormqr},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> factor_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
