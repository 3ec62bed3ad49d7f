// Singular values, eigenvalues of symmetric matrices, what follows from them, and powers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sixfold/ops/linalg/rules.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {

Expr singular_values(const Expr& a) { return linalg(a.call(), "svd", {a})[1]; }

namespace {

constexpr const char* kOpenSigns = "the vectors' signs are open: no two libraries agree";

int64_t extent(const Expr& x, int64_t from_end) {
  return x.dims()[x.dims().size() - static_cast<size_t>(from_end)].value_or(0);
}

Status svdvals(Call& call) { return call.result(singular_values(matrix(call, "A"))); }
Status svd(Call& call) {
  if (call.output_count() == 3 && (call.is_used(0) || call.is_used(2))) return call.unsupported(kOpenSigns);
  return call.results({kNoValue, singular_values(matrix(call, call.attr("A") ? "A" : "self")), kNoValue});
}

// The matrix that one triangle of the argument stands for.
Expr symmetric(Call& call, std::string_view name) {
  const Expr a = matrix(call, name);
  const bool upper = call.attr("UPLO") && call.text("UPLO") == "U";
  const Expr kept = triangle(a, upper ? Op::ge : Op::le);
  return kept + transposed(triangle(a, upper ? Op::gt : Op::lt));
}
Status eigvalsh(Call& call) { return call.result(linalg(call, "eigh", {symmetric(call, "self")})[0]); }
Status eigh(Call& call) {
  if (call.output_count() == 2 && call.is_used(1)) return call.unsupported(kOpenSigns);
  return call.results({linalg(call, "eigh", {symmetric(call, call.attr("A") ? "A" : "self")})[0], kNoValue});
}

// What a singular value must exceed to count: max(atol, rtol * the largest). Without either, rtol is torch's.
Expr threshold(Call& call, const Expr& a, const Expr& s) {
  const double epsilon = a.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
  const double natural = epsilon * static_cast<double>(std::max(extent(a, 1), extent(a, 2)));
  const Expr largest = reduce(Op::amax, s, {s.rank() - 1}, true);
  const auto given = [&](std::string_view name) {
    const Expr x = Expr(call, call.tensor_or_scalar(name, s.dtype())).to(s.dtype());
    return x.rank() == 0 ? x : x.unsqueeze(x.rank());
  };
  if (call.attr("rcond")) return largest * given("rcond");
  if (call.attr("tol")) return given("tol");
  const bool has_atol = !call.is_none("atol"), has_rtol = !call.is_none("rtol");
  const Expr by_size = has_rtol ? largest * given("rtol") : largest * natural;
  if (!has_atol) return by_size;
  const Expr absolute = given("atol");
  if (has_rtol) return maximum(absolute, by_size);
  // An absolute bound above zero stands alone.
  return where(absolute.apply(Op::gt, absolute.number(0)), absolute, by_size);
}

Expr perhaps_symmetric(Call& call, std::string_view name) {
  return call.attr("hermitian") && call.flag("hermitian") ? symmetric(call, name) : matrix(call, name);
}

Status pinv(Call& call) {
  const Expr a = perhaps_symmetric(call, "self");
  if (!call.ok()) return {};
  if (extent(a, 1) == 0 || extent(a, 2) == 0)
    return call.result(
        call.op(Op::full, {}, {{"shape", call.output_type(0).dims}, {"value", 0.0}, {"dtype", a.dtype()}}));
  const auto parts = linalg(call, "svd", {a});
  const Expr counts = threshold(call, a, parts[1]).less(parts[1]);
  const Expr inverted = where(counts, where(counts, parts[1], 1.0).apply(Op::reciprocal), 0.0);
  return call.result(
      product(transposed(parts[2]) * inverted.unsqueeze(inverted.rank() - 1), transposed(parts[0])));
}

Status matrix_rank(Call& call) {
  const Expr a = perhaps_symmetric(call, call.attr("self") ? "self" : "input");
  if (!call.ok()) return {};
  if (extent(a, 1) == 0 || extent(a, 2) == 0)
    return call.result(call.op(
        Op::full, {}, {{"shape", call.output_type(0).dims}, {"value", Dim(0)}, {"dtype", DType::i64}}));
  const Expr s = singular_values(a);
  const Expr counts = threshold(call, a, s).less(s).to(DType::i64);
  return call.result(sum(counts, {counts.rank() - 1}));
}

// The quotient of the extreme singular values, or of other norms the product |a| |a^-1|.
Status cond(Call& call) {
  const Expr a = matrix(call, "self");
  const bool text = call.attr("p") && std::holds_alternative<std::string>(*call.attr("p"));
  if (!call.ok() || extent(a, 1) == 0 || extent(a, 2) == 0)
    return call.unsupported("the condition of an empty matrix");
  const double p = text ? 0 : call.real_or("p", 2);
  if (!text && std::fabs(p) == 2) {
    const Expr s = singular_values(a);
    const Shape last{s.rank() - 1};
    const Expr high = reduce(Op::amax, s, last), low = reduce(Op::amin, s, last);
    return call.result(p > 0 ? high / low : low / high);
  }
  const auto norm = [&](const Expr& x) {
    const int64_t rows = x.rank() - 2, columns = x.rank() - 1;
    if (text && call.text("p") == "nuc") return sum(singular_values(x), {rows});
    if (text) return sqrt(sum(x * x, {rows, columns}));
    const bool by_columns = std::fabs(p) == 1;  // the sums of columns, or of rows
    const Expr sums = sum(abs(x), {by_columns ? rows : columns});
    return reduce(p > 0 ? Op::amax : Op::amin, sums, {rows});
  };
  if (text && call.text("p") != "fro" && call.text("p") != "nuc")
    return call.unsupported("the norm of this name");
  if (!text && std::fabs(p) != 1 && !std::isinf(p)) return call.unsupported("the norm of this order");
  return call.result(norm(a) * norm(inverse(a, false)));
}

Status matrix_power(Call& call) {
  Expr base = matrix(call, "self");
  int64_t n = call.integer("n");
  if (!call.ok()) return {};
  if (n < -1024 || n > 1024) return call.unsupported("a power beyond 1024");
  if (n < 0) base = inverse(base);
  n = std::abs(n);
  if (n == 0) {
    const Expr unit = unit_matrix(base);
    return call.result(unit.dims() == base.dims() ? unit : unit.apply(Op::expand, {{"shape", base.dims()}}));
  }
  Expr out = base;
  for (bool first = true; n > 0; n /= 2, base = n > 0 ? product(base, base) : base) {
    if (n % 2 == 0) continue;
    out = first ? base : product(out, base);
    first = false;
  }
  return call.result(out);
}
// Each x to the powers 0, 1, .., N - 1
Status vander(Call& call) {
  Expr x(call, call.tensor("x"));
  if (call.ok() && x.rank() == 0) x = x.reshape({Dim(1)});
  if (!call.ok()) return {};
  const Dim n = call.is_none("N") ? x.dims().back() : call.dim("N");
  if (!is_float(x.dtype()) && call.output_type(0).dtype != x.dtype())
    return call.unsupported("integers of this size");
  const Expr powers(
      call,
      call.op(Op::arange, {}, {{"start", Dim(0)}, {"step", Dim(1)}, {"length", n}, {"dtype", DType::i64}}));
  return call.result(x.unsqueeze(x.rank()).apply(Op::pow, powers.to(x.dtype())));
}
Status matrix_exp(Call& call) {
  const Expr a = matrix(call, "self");
  return call.result(linalg(call, "exp", {a.to(compute_type(a.dtype()))})[0].to(a.dtype()));
}

constexpr AtenRule kRules[] = {
    {"aten.linalg_svdvals.default", svdvals},
    {"aten.linalg_svd.default", svd},
    {"aten._linalg_svd.default", svd},
    {"aten.svd.default", svd},
    {"aten.linalg_eigvalsh.default", eigvalsh},
    {"aten.linalg_eigh.default", eigh},
    {"aten._linalg_eigh.default", eigh},
    {"aten.linalg_pinv.default", pinv},
    {"aten.linalg_pinv.rcond_tensor", pinv},
    {"aten.linalg_pinv.atol_rtol_float", pinv},
    {"aten.linalg_pinv.atol_rtol_tensor", pinv},
    {"aten.pinverse.default", pinv},
    {"aten.linalg_matrix_rank.default", matrix_rank},
    {"aten.linalg_matrix_rank.tol_tensor", matrix_rank},
    {"aten.linalg_matrix_rank.atol_rtol_float", matrix_rank},
    {"aten.linalg_matrix_rank.atol_rtol_tensor", matrix_rank},
    {"aten.linalg_cond.default", cond},
    {"aten.linalg_cond.p_str", cond},
    {"aten.linalg_matrix_power.default", matrix_power},
    {"aten.matrix_power.default", matrix_power},
    {"aten.linalg_vander.default", vander},
    {"aten.linalg_matrix_exp.default", matrix_exp},
    {"aten.matrix_exp.default", matrix_exp},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> spectrum_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
