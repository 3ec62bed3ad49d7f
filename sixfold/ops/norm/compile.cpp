// Output types of normalizations: the input's. What is checked here is what the kernels rely on.
#include <algorithm>

#include "sixfold/ops/op.h"

namespace sixfold::infer {
namespace {

// Symbolic extents agree by the exporter's guards; once numbers are bound, inference runs again.
bool may_equal(const Dim& a, const Dim& b) { return !a.is_static() || !b.is_static() || a == b; }

Status check_operands(const InferCall& call, size_t most) {
  if (call.in.empty() || call.in.size() > most || !call.in[0].present())
    return invalid_model(call.op, " takes 1 to ", most, " operands, got ", call.in.size());
  for (const Type& t : call.in) {
    if (!t.present()) continue;
    if (!is_float(t.dtype)) return invalid_model(call.op, " reads floats, got ", t.dtype);
    if (t.dtype != call.in[0].dtype)
      return invalid_model(call.op, " of ", call.in[0].dtype, " with a parameter of ", t.dtype);
  }
  return ok_status();
}

// Operand i, if present, has the shape of x's axes [from, to).
Status check_parameter(const InferCall& call, size_t i, size_t from, size_t to) {
  if (i >= call.in.size() || !call.in[i].present()) return ok_status();
  const Dims& x = call.in[0].dims;
  const Dims& w = call.in[i].dims;
  bool fits = w.size() == to - from;
  for (size_t a = 0; fits && a < w.size(); ++a) fits = may_equal(w[a], x[from + a]);
  if (!fits) return invalid_model(call.op, " of ", x, ": operand ", i, " has shape ", w);
  return ok_status();
}

}  // namespace

InferResult softmax(const InferCall& call) {
  SF_TRY(check_operands(call, 1));
  const int64_t dim = call.attrs.integer("dim");
  const auto rank = std::max<int64_t>(static_cast<int64_t>(call.in[0].rank()), 1);
  if (dim < 0 || dim >= rank) return invalid_model(call.op, ": dim ", dim, " of ", call.in[0].dims);
  return std::vector<Type>{call.in[0]};
}

InferResult layer_norm(const InferCall& call) {
  SF_TRY(check_operands(call, call.op == Op::rms_norm ? 2 : 3));
  const size_t rank = call.in[0].rank();
  const int64_t axes = call.attrs.integer("axes");
  if (axes < 1 || axes > static_cast<int64_t>(rank))
    return invalid_model(call.op, " over the last ", axes, " axes of ", call.in[0].dims);
  for (size_t i = 1; i < 3; ++i) SF_TRY(check_parameter(call, i, rank - static_cast<size_t>(axes), rank));
  return std::vector<Type>{call.in[0]};
}

InferResult group_norm(const InferCall& call) {
  SF_TRY(check_operands(call, 3));
  const Dims& x = call.in[0].dims;
  const int64_t groups = call.attrs.integer("groups");
  if (x.size() < 2) return invalid_model("group_norm needs [N, C, ...], got ", x);
  if (groups < 1 || (x[1].is_static() && x[1].value() % groups != 0))
    return invalid_model("group_norm: ", x[1], " channels do not split into ", groups, " groups");
  for (size_t i = 1; i < 3; ++i) SF_TRY(check_parameter(call, i, 1, 2));
  return std::vector<Type>{call.in[0]};
}

InferResult batch_norm(const InferCall& call) {
  SF_TRY(check_operands(call, 5));
  if (call.in.size() != 5 || !call.in[3].present() || !call.in[4].present())
    return invalid_model("batch_norm lacks its mean or variance");
  if (call.in[0].rank() < 2) return invalid_model("batch_norm needs [N, C, ...], got ", call.in[0].dims);
  for (size_t i = 1; i < 5; ++i) SF_TRY(check_parameter(call, i, 1, 2));
  return std::vector<Type>{call.in[0]};
}

}  // namespace sixfold::infer
