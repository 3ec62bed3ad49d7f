#include "sixfold/ops/op.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::infer {

InferResult sdpa(const InferCall& call) {
  if (call.in.size() < 3 || call.in.size() > 4)
    return invalid_model(call.op, " has ", call.in.size(), " operands, expected 3 or 4");
  const Type &q = call.in[0], &k = call.in[1], &v = call.in[2];
  const size_t rank = q.rank();
  if (rank < 3 || k.rank() != rank || v.rank() != rank)
    return invalid_model(call.op, ": query, key and value are ", q, ", ", k, " and ", v,
                         ", expected equal ranks of at least 3");
  if (!is_float(q.dtype) || k.dtype != q.dtype || v.dtype != q.dtype)
    return invalid_model(call.op, ": query, key and value are ", q, ", ", k, " and ", v,
                         ", expected one float dtype");
  const auto from_end = [](const Type& t, size_t i) { return t.dims[t.rank() - i]; };
  const bool same = equivalent(from_end(q, 1), from_end(k, 1)) &&
                    equivalent(from_end(k, 2), from_end(v, 2)) && equivalent(from_end(k, 3), from_end(v, 3));
  bool leading = true;
  for (size_t i = 4; i <= rank; ++i)
    leading =
        leading && equivalent(from_end(q, i), from_end(k, i)) && equivalent(from_end(q, i), from_end(v, i));
  if (!same || !leading) return invalid_model(call.op, ": query, key and value are ", q, ", ", k, " and ", v);
  const Dim heads = from_end(q, 3), kv_heads = from_end(k, 3);
  if (kv_heads.is_static() && heads.is_static() &&
      (kv_heads == Dim(0) ? heads != Dim(0) : heads.value() % kv_heads.value() != 0))
    return invalid_model(call.op, ": ", heads, " query heads are not a multiple of ", kv_heads, " key heads");
  Type out = q;
  out.dims[rank - 1] = from_end(v, 1);
  if (call.in.size() == 4 && call.in[3].present()) {
    const Type& mask = call.in[3];
    Dims scores = q.dims;
    scores[rank - 1] = from_end(k, 2);
    if (mask.dtype != DType::boolean && mask.dtype != q.dtype)
      return invalid_model(call.op, ": mask is ", mask, ", expected bool or ", q.dtype);
    SF_ASSIGN(const Dims all, broadcast(scores, mask.dims));
    if (all.size() != rank || !equivalent(all, scores))
      return invalid_model(call.op, ": a mask of ", mask.dims, " does not broadcast to ", scores);
  }
  return std::vector<Type>{std::move(out)};
}

}  // namespace sixfold::infer
