#include "sixfold/ops/op.h"

namespace sixfold::infer {
namespace {

// y and the final state of a layer with `gates` gates; `states` operands of shape [B, H] follow x.
InferResult recurrent(const InferCall& call, int64_t gates, size_t states) {
  const size_t weights = 1 + states;
  if (call.in.size() < weights + 2 || call.in.size() > weights + 4)
    return invalid_model(call.op, " has ", call.in.size(), " operands, expected ", weights + 2, " to ",
                         weights + 4);
  const Type& x = call.in[0];
  if (x.rank() != 3) return invalid_model(call.op, ": input is ", x, ", expected rank 3");
  if (!is_float(x.dtype)) return invalid_model(call.op, ": input is ", x, ", expected floats");
  const Type& h = call.in[1];
  if (h.rank() != 2) return invalid_model(call.op, ": state is ", h, ", expected rank 2");
  const Dim rows = Dim(gates) * h.dims[1];
  const auto check = [&](size_t i, const Dims& expected) -> Status {
    const Type& t = call.in[i];
    if (t.dtype != x.dtype || !equivalent(t.dims, expected))
      return invalid_model(call.op, ": operand ", i, " is ", t, ", expected ", x.dtype, expected);
    return ok_status();
  };
  for (size_t i = 1; i <= states; ++i) SF_TRY(check(i, {x.dims[1], h.dims[1]}));
  SF_TRY(check(weights, {rows, x.dims[2]}));
  SF_TRY(check(weights + 1, {rows, h.dims[1]}));
  for (size_t i = weights + 2; i < call.in.size(); ++i)
    if (call.in[i].present()) SF_TRY(check(i, {rows}));
  std::vector<Type> out{{x.dtype, {x.dims[0], x.dims[1], h.dims[1]}}};
  for (size_t i = 0; i < states; ++i) out.push_back({x.dtype, {x.dims[1], h.dims[1]}});
  return out;
}

}  // namespace

InferResult lstm(const InferCall& call) { return recurrent(call, 4, 2); }
InferResult rnn(const InferCall& call) { return recurrent(call, call.op == Op::gru ? 3 : 1, 1); }

}  // namespace sixfold::infer
