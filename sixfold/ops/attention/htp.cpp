// softmax(scale * q k^T + mask) v as products and a softmax that halves survive.
#include "sixfold/ops/shape/htp.h"

#include <algorithm>

namespace sixfold::htp {
namespace {

// What a forbidden key scores: halves end at 65504, and the softmax of it is 0 beside any allowed key.
constexpr double kLowest = -65504;
// The same, added to a score: their sum must stay a half.
constexpr double kFar = -30000;

// Queries that may look at keys. What is known now becomes a number to add; what is data is compared on the
// device. keep: 1 where a query has an allowed key, else 0; absent when all have one.
struct Mask {
  ValueId allowed, added, keep;  // kNoValue: absent
};

// A constant mask of the result's rank at most, with causality in it.
struct Known {
  Shape shape;
  std::vector<double> added;
  bool any_empty = false;
  std::vector<double> keep;  // shape without its last extent

  Known(const Tensor* mask, bool causal, int64_t queries, int64_t keys) {
    shape = mask ? mask->shape : Shape{queries, keys};
    while (shape.size() < 2) shape.insert(shape.begin(), 1);
    const Shape given = shape;
    if (causal) {
      shape[shape.size() - 2] = queries;
      shape.back() = keys;
    }
    const bool rows_given = given[given.size() - 2] != 1, keys_given = given.back() != 1;
    const Tensor plain = mask ? to_contiguous(*mask) : Tensor();
    const int64_t rows = shape[shape.size() - 2], width = shape.back();
    const int64_t planes = rows * width == 0 ? 0 : numel(shape) / (rows * width);
    for (int64_t p = 0; p < planes; ++p)
      for (int64_t r = 0; r < rows; ++r) {
        bool any = false;
        for (int64_t c = 0; c < width; ++c) {
          double v = 0;
          if (mask) {
            const int64_t at =
                (p * given[given.size() - 2] + (rows_given ? r : 0)) * given.back() + (keys_given ? c : 0);
            v = element_real(plain, at);
            if (mask->dtype == DType::boolean) v = v != 0 ? 0 : kFar;
          }
          if (causal && c > r) v = kFar;
          v = std::max(v, kFar);
          any = any || v > kFar;
          added.push_back(v);
        }
        keep.push_back(any ? 1 : 0);
        any_empty = any_empty || !any;
      }
  }
};

Mask make_mask(Htp& h, ValueId given, DType dtype, bool causal, int64_t queries, int64_t keys) {
  const Tensor* data = given.valid() ? h.constant_data(given) : nullptr;
  Mask m{kNoValue, kNoValue, kNoValue};
  if (data || causal) {
    const Known k(data, causal, queries, keys);
    m.added = h.constant(dtype, k.shape, k.added);
    Shape rows = k.shape;
    rows.back() = 1;
    if (k.any_empty) m.keep = h.constant(dtype, rows, k.keep);
  }
  if (!given.valid() || data) return m;
  const Term mask(h, given);
  // On a grid a forbidden key is the lowest score, not one of none: a row of such keys is a row of equal
  // ones.
  const Term best = mask.to(dtype).reduce(Op::amax, {mask.rank() - 1});
  if (mask.dtype() == DType::boolean) {
    m.allowed = given;
    if (!h.target.quantizes) m.keep = best;
  } else {
    const Term low = clamped(mask, kLowest, Attr());
    m.added = m.added.valid() ? h.add(Op::add, {clamped(low, kFar, Attr()), m.added}) : ValueId(low);
    if (h.target.quantizes) return m;
    m.keep = best.apply(Op::gt, best.number(kFar)).to(dtype);
  }
  return m;
}

// Groups of query heads share a head of k and v: their queries stand in one matrix, [B, H, G * L, E].
Term attend(Htp& h, const Term& q, const Term& k, const Term& v, const Mask& mask, double scale) {
  const Dims full = q.dims();
  const auto rank = static_cast<int64_t>(full.size());
  const auto axis = static_cast<size_t>(rank);
  Dims grouped = full;
  const bool groups = rank >= 3 && !(k.dims()[axis - 3] == full[axis - 3]);
  if (groups) {
    grouped[axis - 3] = k.dims()[axis - 3];
    grouped[axis - 2] = floordiv(full[axis - 3], k.dims()[axis - 3]) * full[axis - 2];
  }
  Shape swap;
  for (int64_t i = 0; i < rank; ++i) swap.push_back(i);
  std::swap(swap[axis - 1], swap[axis - 2]);
  // The scale goes to the queries: a product of halves that were not scaled down may exceed them.
  Term scores = (q * scale).reshape(grouped).apply(Op::matmul, Term(h, h.permute(k, swap)));
  Dims wide = full;
  wide.back() = k.dims()[axis - 2];
  scores = scores.reshape(wide);
  if (mask.allowed.valid()) scores = where(Term(h, mask.allowed), scores, scores.number(kLowest));
  if (mask.added.valid()) scores = scores + Term(h, mask.added);
  Term weights = scores.apply(Op::softmax, {{"dim", Dim(rank - 1)}});
  if (mask.keep.valid()) weights = weights * Term(h, mask.keep);
  Dims inner = grouped, out = full;
  inner.back() = wide.back();
  out.back() = v.dims().back();
  return weights.reshape(inner).apply(Op::matmul, v).reshape(out);
}

ValueId head_of(Htp& h, ValueId x, int64_t head) {
  const int64_t axis = h.rank(x) - 3;
  if (!x.valid() || axis < 0 || h.dims(x)[static_cast<size_t>(axis)] == Dim(1)) return x;
  return h.slice(x, axis, head, head + 1);
}

// [.., H, L, E] with all axes before the last three as one.
ValueId four_axes(Htp& h, ValueId x, const Shape& batch) {
  Dims d = h.dims(x), full = to_dims(batch);
  while (d.size() < batch.size() + 3) d.insert(d.begin(), Dim(1));
  full.insert(full.end(), d.end() - 3, d.end());
  return h.reshape(h.expand(h.reshape(x, d), full),
                   {Dim(numel(batch)), d[d.size() - 3], d[d.size() - 2], d.back()});
}

}  // namespace

Match sdpa(Htp& h) {
  const Shape qs = h.shape(h.in(0)), ks = h.shape(h.in(1));
  const bool causal = h.attrs().flag("causal"), has_mask = h.in(3).valid();
  const double scale = h.attrs().real("scale");
  if (has_mask) h.shape(h.in(3));
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  const size_t rank = qs.size();
  if (rank > 4) {
    const Shape batch(qs.begin(), qs.end() - 3);
    std::vector<ValueId> in;
    for (size_t i = 0; i < 3; ++i) in.push_back(four_axes(h, h.in(i), batch));
    if (has_mask) in.push_back(h.rank(h.in(3)) > 3 ? four_axes(h, h.in(3), batch) : h.in(3));
    return h.result(h.reshape(h.add(Op::sdpa, std::move(in), h.attrs()), h.out_type().dims));
  }
  const Term q = h.term(0), k = h.term(1), v = h.term(2);
  const Mask mask =
      make_mask(h, has_mask ? h.in(3) : kNoValue, q.dtype(), causal, qs[rank - 2], ks[rank - 2]);
  if (!h.target.single_heads || rank < 3 || qs[rank - 3] == 1)
    return h.result(attend(h, q, k, v, mask, scale));
  std::vector<ValueId> heads;
  const int64_t count = qs[rank - 3], group = count / std::max<int64_t>(ks[rank - 3], 1);
  const auto part = [&](ValueId m, int64_t i) { return m.valid() ? head_of(h, m, i) : m; };
  for (int64_t i = 0; i < count; ++i)
    heads.push_back(attend(h, Term(h, head_of(h, q, i)), Term(h, head_of(h, k, i / group)),
                           Term(h, head_of(h, v, i / group)),
                           {part(mask.allowed, i), part(mask.added, i), part(mask.keep, i)}, scale));
  return h.result(h.concat(std::move(heads), static_cast<int64_t>(rank) - 3));
}

}  // namespace sixfold::htp
