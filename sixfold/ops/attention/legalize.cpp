// softmax(scale * q k^T + mask) v as products and a softmax; a row with no allowed key gives 0.
#include "sixfold/ops/legalize.h"

#include <cmath>

namespace sixfold::legalize {
namespace {

// Groups of query heads share a head of k and v.
ValueId repeat_heads(Legal& legal, ValueId x, const Dim& heads) {
  const Dims dims = legal.dims(x);
  const size_t axis = dims.size() - 3;
  if (dims.size() < 3 || dims[axis] == heads) return x;
  Dims grouped = dims, full = dims;
  grouped.insert(grouped.begin() + static_cast<int64_t>(axis) + 1, Dim(1));
  Dims expanded = grouped;
  expanded[axis + 1] = floordiv(heads, dims[axis]);
  full[axis] = heads;
  return legal.reshape(legal.expand(legal.reshape(x, grouped), expanded), full);
}

// [L, S]: key s is allowed for query l if s <= l.
ValueId causal_mask(Legal& legal, const Dim& queries, const Dim& keys) {
  const auto count = [&](const Dim& n) {
    return legal.add(Op::arange, {},
                     {{"start", Dim(0)}, {"step", Dim(1)}, {"length", n}, {"dtype", DType::i64}});
  };
  return legal.add(
      Op::le, {legal.reshape(count(keys), {Dim(1), keys}), legal.reshape(count(queries), {queries, Dim(1)})});
}

}  // namespace

Match sdpa(Legal& legal) {
  if (is_half(legal.dtype(legal.in()))) return legal.computed_in(DType::f32);
  const Term q = legal.term(0);
  const size_t rank = q.dims().size();
  const Dim queries = q.dims()[rank - 2];
  const Dim heads = rank >= 3 ? q.dims()[rank - 3] : Dim(1);
  const ValueId k = repeat_heads(legal, legal.in(1), heads), v = repeat_heads(legal, legal.in(2), heads);
  const Dim keys = legal.dims(k)[rank - 2];
  Shape swap;
  for (size_t i = 0; i < rank; ++i) swap.push_back(static_cast<int64_t>(i));
  std::swap(swap[rank - 1], swap[rank - 2]);
  const Term transposed(legal, legal.permute(k, swap));
  // As torch's math kernel: both sides take the square root of the scale, which keeps products small.
  const double root = std::sqrt(legal.attrs().real("scale"));
  const bool split = legal.attrs().real("scale") > 0;
  Term scores = split ? (q * root).apply(Op::matmul, transposed * root)
                      : q.apply(Op::matmul, transposed) * legal.attrs().real("scale");
  const Term lowest = scores.number(-INFINITY);
  if (legal.in(3).valid()) {
    const Term mask = legal.term(3);
    scores = mask.dtype() == DType::boolean ? where(mask, scores, lowest) : scores + mask;
  }
  if (legal.attrs().flag("causal"))
    scores = where(Term(legal, causal_mask(legal, queries, keys)), scores, lowest);
  const int64_t last = static_cast<int64_t>(rank) - 1;
  Term weights = scores.apply(Op::softmax, {{"dim", Dim(last)}});
  if (legal.in(3).valid())  // a causal row always has its first key
    weights = where(scores.reduce(Op::amax, {last}).apply(Op::eq, lowest), scores.number(0), weights);
  return legal.result(weights.apply(Op::matmul, Term(legal, v)));
}

}  // namespace sixfold::legalize
