#include <algorithm>

#include "sixfold/ops/op.h"

namespace sixfold::infer {
namespace {

struct Signature {
  bool square = false;
  size_t operands = 0;
  std::vector<Type> types;  // of the results
};

Result<Signature> signature(std::string_view function, std::span<const Type> in) {
  const Type& a = in[0];
  const Dim m = a.dims[a.rank() - 2], n = a.dims[a.rank() - 1];
  const Dims batch(a.dims.begin(), a.dims.end() - 2);
  const auto of = [&](DType dtype, std::initializer_list<Dim> extents) {
    Dims dims = batch;
    dims.insert(dims.end(), extents);
    return Type{dtype, dims};
  };
  const DType real = a.dtype;
  const bool square = m == n;
  Dim least = m;
  if (m.is_static() && n.is_static()) least = Dim(std::min(m.value(), n.value()));
  Signature out;
  const auto give = [&](bool need_square, size_t operands, std::vector<Type> types) {
    out = {need_square, operands, std::move(types)};
  };
  if (function == "cholesky") give(true, 1, {a, of(DType::i32, {})});
  if (function == "lu")
    give(false, 1, {a, of(DType::i32, {least}), of(DType::i64, {m}), of(real, {}), of(DType::i32, {})});
  if (function == "solve") give(true, 2, {in.back()});
  if (function == "solve_triangular") give(true, 2, {in.back()});
  if (function == "geqrf") give(false, 1, {a, of(real, {least})});
  if (function == "householder_product") give(false, 2, {a});
  if (function == "svd") give(false, 1, {of(real, {m, least}), of(real, {least}), of(real, {least, n})});
  if (function == "eigh") give(true, 1, {of(real, {n}), a});
  if (function == "exp") give(true, 1, {a});
  if (out.types.empty()) return invalid_model("no function of matrices is named '", function, "'");
  if (out.square && !square) return invalid_model(function, " of ", a, ", expected square matrices");
  return out;
}

}  // namespace

InferResult linalg(const InferCall& call) {
  const std::string& function = call.attrs.text("function");
  if (call.in.empty() || call.in[0].rank() < 2) return invalid_model(function, " needs matrices");
  for (const Type& x : call.in) {
    if ((x.dtype != DType::f32 && x.dtype != DType::f64) || x.dtype != call.in[0].dtype)
      return invalid_model(function, " of ", call.in[0], " and ", x, ", expected equal types f32 or f64");
    if (!is_static(x.dims)) return unsupported(function, " of ", x, " needs static shapes");
  }
  SF_ASSIGN(Signature types, signature(function, call.in));
  if (call.in.size() != types.operands)
    return invalid_model(function, " has ", call.in.size(), " operands, expected ", types.operands);
  if (types.operands == 2) {
    const Dims &a = call.in[0].dims, &b = call.in[1].dims;
    const bool vector = function == "householder_product";  // b: [.., k] factors, k <= n <= m
    const size_t rank = vector ? a.size() - 1 : a.size();
    if (b.size() != rank || !std::equal(a.begin(), a.end() - 2, b.begin()))
      return invalid_model(function, " of ", call.in[0], " and ", call.in[1]);
    if (vector ? b.back().value() > a.back().value() || a.back().value() > a[a.size() - 2].value()
               : b[b.size() - 2] != a[a.size() - 2])
      return invalid_model(function, " of ", call.in[0], " and ", call.in[1]);
  }
  return std::move(types.types);
}

}  // namespace sixfold::infer
