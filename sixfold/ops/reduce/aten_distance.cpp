// Norms, distances and similarities.
#include <cmath>
#include <span>

#include "sixfold/ops/linalg/rules.h"
#include "sixfold/ops/reduce/rules.h"
#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::aten {

Expr vector_norm(const Expr& in, double p, const Shape& dims, bool keepdim) {
  const DType dtype = in.dtype();
  const Expr x = in.to(compute_type(dtype));
  const auto result = [&]() -> Expr {
    if (p == 0) return sum(x.apply(Op::ne, x.number(0)).to(x.dtype()), dims, keepdim);
    if (p == 1) return sum(abs(x), dims, keepdim);
    if (p == 2) return sqrt(sum(x * x, dims, keepdim));
    if (std::isinf(p)) return reduce(p > 0 ? Op::amax : Op::amin, abs(x), dims, keepdim);
    return pow(sum(pow(abs(x), p), dims, keepdim), 1 / p);
  };
  return result().to(dtype);
}

namespace {

bool keeps(Call& call) { return call.flag_or("keepdim", false); }

// norm.*, linalg_vector_norm, frobenius_norm: the order is called p, ord, or is 2.
Status norm(Call& call) {
  const Expr x = arg(call, "self");
  const double p = call.attr("ord") ? call.real_or("ord", 2) : call.real_or("p", 2);
  const DType dtype = call.attr("dtype") ? call.dtype("dtype").value_or(x.dtype()) : x.dtype();
  return call.result(vector_norm(x.to(dtype), p, call.axes("dim", x), keeps(call)));
}

Status powsum(Call& call) {
  const Expr x = arg(call, "self");
  const DType dtype = call.dtype("dtype").value_or(x.dtype());
  const Expr wide = abs(x.to(compute_type(dtype)));
  return call.result(sum(pow(wide, call.real("ord")), call.axes("dim", x), keeps(call)).to(dtype));
}

// The largest (2), smallest (-2) or the sum (nuclear) of the singular values over two axes.
enum class Spectral { largest, smallest, nuclear };
Status spectral_norm_of(Call& call, const Expr& x, Shape dims, Spectral which) {
  if (dims.size() != 2) return invalid_model("a matrix norm needs 2 axes, got ", dims);
  for (int64_t& d : dims) d = call.normalize(d, x);
  if (!call.ok() || dims[0] == dims[1]) return invalid_model("a matrix norm over axes ", dims);
  const Shape shape = call.shape(x);
  if (numel(shape) == 0) return call.unsupported("the singular values of an empty matrix");
  Shape order;
  Dims kept;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool named = i == dims[0] || i == dims[1];
    if (!named) order.push_back(i);
    if (!named || keeps(call)) kept.push_back(named ? Dim(1) : x.dims()[static_cast<size_t>(i)]);
  }
  order.insert(order.end(), dims.begin(), dims.end());
  const Expr s = singular_values(Expr(call, call.permute(x, order)));
  const Op op = which == Spectral::nuclear ? Op::sum : which == Spectral::largest ? Op::amax : Op::amin;
  return call.result(reduce(op, s, {s.rank() - 1}).reshape(kept));
}

// The largest (smallest) sum of magnitudes of a column (ord 1, -1) or a row (inf, -inf).
Status matrix_norm_of(Call& call, const Expr& x, Shape dims, double order) {
  if (dims.size() != 2) return invalid_model("a matrix norm needs 2 axes, got ", dims);
  if (std::abs(order) == 2)
    return spectral_norm_of(call, x, dims, order > 0 ? Spectral::largest : Spectral::smallest);
  for (int64_t& d : dims) d = call.normalize(d, x);
  const int64_t added = std::abs(order) == 1 ? dims[0] : dims[1];
  const int64_t compared = std::abs(order) == 1 ? dims[1] : dims[0];
  if (std::abs(order) != 1 && !std::isinf(order))
    return call.unsupported(cat("matrix norms of order ", order));
  const Expr sums = sum(abs(x), {added}, /*keepdim=*/true);
  // The largest of no sums is 0.
  const bool none = order > 0 && x.dims()[static_cast<size_t>(compared)] == Dim(0);
  const Expr best = reduce(none        ? Op::sum
                           : order > 0 ? Op::amax
                                       : Op::amin,
                           sums, {compared}, /*keepdim=*/true);
  if (keeps(call)) return call.result(best);
  Dims shape;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != added && i != compared) shape.push_back(x.dims()[static_cast<size_t>(i)]);
  return call.result(best.reshape(shape));
}

Status matrix_norm(Call& call) {
  const Expr in = arg(call, "self");
  const Expr x = in.to(call.dtype("dtype").value_or(in.dtype()));
  if (call.target().ends_with("str_ord")) {
    if (call.text("ord") == "nuc") return spectral_norm_of(call, x, call.ints("dim"), Spectral::nuclear);
    return call.result(vector_norm(x, 2, call.axes("dim", x), keeps(call)));
  }
  return matrix_norm_of(call, x, call.ints("dim"), call.real("ord"));
}

Status linalg_norm(Call& call) {
  const Expr in = arg(call, "self");
  const Expr x = in.to(call.dtype("dtype").value_or(in.dtype()));
  const bool text = call.target().ends_with("ord_str");
  const bool no_order = text || call.is_none("ord");
  const Shape dims = call.is_none("dim") ? every_axis(x) : call.ints("dim");
  if (text && call.text("ord") == "nuc") return spectral_norm_of(call, x, dims, Spectral::nuclear);
  if (no_order || dims.size() == 1)
    return call.result(vector_norm(x, no_order ? 2 : call.real("ord"), call.axes("dim", x), keeps(call)));
  return matrix_norm_of(call, x, dims, call.real("ord"));
}

// |a - b| for all pairs of rows. Many pairs at p 2 go through a product, as torch does:
// |a - b|^2 = |a|^2 + |b|^2 - 2 a.b
Expr distances(const Expr& a, const Expr& b, double p, bool by_product) {
  Call& call = a.call();
  const int64_t rank = a.rank();
  if (!by_product)
    return vector_norm(a.unsqueeze(rank - 1) - b.unsqueeze(b.rank() - 2), p, {std::max(rank, b.rank())},
                       false);
  Shape swap;
  for (int64_t i = 0; i < b.rank(); ++i) swap.push_back(i);
  std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
  const Expr bt(call, call.permute(b, swap));
  const Expr squares = sum(a * a, {rank - 1}, true) + sum(bt * bt, {b.rank() - 2}, true);
  return sqrt(at_least(squares - a.apply(Op::matmul, bt) * 2.0, 0.0));
}

Status cdist(Call& call) {
  const Expr in1 = arg(call, "x1"), in2 = arg(call, "x2");
  const DType dtype = promote(in1.dtype(), in2.dtype());
  if (in1.rank() < 2 || in2.rank() < 2)
    return invalid_model("cdist of ", call.type(in1), " and ", call.type(in2));
  const double p = call.attr("p") ? call.real("p") : 2.0;
  const int64_t mode = call.attr("p") ? call.integer_or("compute_mode", 0) : 1;
  const auto rows = [](const Expr& x) {
    return x.dims()[static_cast<size_t>(x.rank() - 2)].value_or(1 << 20);
  };
  const bool by_product = p == 2 && (mode == 1 || (mode == 0 && (rows(in1) > 25 || rows(in2) > 25)));
  const Expr out = distances(in1.to(compute_type(dtype)), in2.to(compute_type(dtype)), p, by_product);
  return call.result(out.to(dtype));
}

// Distances of all pairs i < j of rows.
Status pdist(Call& call) {
  const Expr x = arg(call, "self");
  const Shape shape = call.shape(x);
  if (shape.size() != 2) return invalid_model("pdist of ", call.type(x), ", expected rank 2");
  if (shape[0] > 4096) return call.unsupported("pdist of more than 4096 rows");
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = i + 1; j < shape[0]; ++j) first.push_back(i), second.push_back(j);
  const auto rows = [&](const std::vector<int64_t>& index) {
    return x.apply(Op::index_select, Expr(call, call.constant(Tensor::of_ints(index))), {{"dim", Dim(0)}});
  };
  return call.result(vector_norm(rows(first) - rows(second), call.real("p"), {1}, false));
}

Status pairwise_distance(Call& call) {
  const DType dtype = to_float(result_type(call, {"x1", "x2"}));
  const Expr difference = arg(call, "x1").to(dtype) - arg(call, "x2").to(dtype) + call.real("eps");
  const Shape last = difference.rank() == 0 ? Shape{} : Shape{difference.rank() - 1};
  return call.result(vector_norm(difference, call.real("p"), last, keeps(call)));
}

Status dist(Call& call) {
  const DType dtype = to_float(result_type(call, {"self", "other"}));
  const Expr difference = arg(call, "self").to(dtype) - arg(call, "other").to(dtype);
  return call.result(vector_norm(difference, call.real("p"), every_axis(difference), false));
}

// sum(a / max(|a|, eps) * b / max(|b|, eps)) over an axis of the broadcast shape
Status cosine_similarity(Call& call) {
  const DType dtype = to_float(result_type(call, {"x1", "x2"}));
  const Expr a = arg(call, "x1").to(dtype), b = arg(call, "x2").to(dtype);
  auto shared = broadcast(a.dims(), b.dims());
  if (!shared.ok()) return shared.take_error();
  const Dims shape = *shared;
  auto axis = normalize_axis(call.integer("dim"), shape.size());
  if (!axis.ok()) return axis.take_error();
  const Shape dims = shape.empty() ? Shape{} : Shape{*axis};
  const auto unit = [&](const Expr& x) {
    const Expr whole = x.dims() == shape ? x : x.apply(Op::expand, {{"shape", shape}});
    return whole / at_least(vector_norm(whole, 2, dims, true), call.real("eps"));
  };
  return call.result(sum(unit(a) * unit(b), dims));
}

// Rows are variables, columns observations: (x - mean)(x - mean)^T / max(n - correction, 0)
Expr covariance(Call& call, double correction) {
  const Expr in = arg(call, "self");
  const Expr as_float = in.to(to_float(in.dtype()));
  const Expr x = as_float.rank() == 2 ? as_float : as_float.reshape({Dim(1), numel(as_float.dims())});
  const Expr centered = x - mean(x, {1}, /*keepdim=*/true);
  const Expr products = centered.apply(Op::matmul, Expr(call, call.permute(centered, {1, 0})));
  const double n = std::max(0.0, static_cast<double>(call.shape(x).back()) - correction);
  const Expr cov = products / n;
  return in.rank() == 2 && !(in.dims()[0] == Dim(1)) ? cov : cov.reshape({});
}
Status cov(Call& call) {
  if (!call.is_none("fweights") || !call.is_none("aweights")) return call.unsupported("cov with weights");
  if (call.rank(call.tensor("self")) > 2) return invalid_model("cov of ", call.type(call.tensor("self")));
  return call.result(covariance(call, call.real("correction")));
}

// Slices along dim whose norm exceeds maxnorm, scaled down to it.
Status renorm(Call& call) {
  const Expr in = arg(call, "self");
  const Expr x = in.to(compute_type(in.dtype()));
  const int64_t kept = call.axis("dim", x);
  const double limit = call.real("maxnorm");
  Shape dims;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != kept) dims.push_back(i);
  const Expr norm = vector_norm(x, call.real("p"), dims, /*keepdim=*/true);
  const Expr factor = where(norm.less_equal(limit), 1.0, norm.number(limit) / (norm + 1e-7));
  return call.result((x * factor).to(in.dtype()));
}

constexpr AtenRule kRules[] = {
    {"aten.norm.Scalar", norm},
    {"aten.norm.ScalarOpt_dim", norm},
    {"aten.norm.ScalarOpt_dim_dtype", norm},
    {"aten.norm.ScalarOpt_dtype", norm},
    {"aten.native_norm.default", norm},
    {"aten.native_norm.ScalarOpt_dim_dtype", norm},
    {"aten.linalg_vector_norm.default", norm},
    {"aten.linalg__powsum.default", powsum},
    {"aten.frobenius_norm.dim", norm},
    {"aten.linalg_matrix_norm.default", matrix_norm},
    {"aten.linalg_matrix_norm.str_ord", matrix_norm},
    {"aten.linalg_norm.default", linalg_norm},
    {"aten.linalg_norm.ord_str", linalg_norm},
    {"aten.cdist.default", cdist},
    {"aten._cdist_forward.default", cdist},
    {"aten._euclidean_dist.default", cdist},
    {"aten.pdist.default", pdist},
    {"aten._pdist_forward.default", pdist},
    {"aten.pairwise_distance.default", pairwise_distance},
    {"aten.dist.default", dist},
    {"aten.cosine_similarity.default", cosine_similarity},
    {"aten.cov.default", cov},
    {"aten.renorm.default", renorm},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> distance_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
