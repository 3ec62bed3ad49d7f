// Reductions as ops that the NPU has.
#include "sixfold/ops/shape/htp.h"

#include <algorithm>

namespace sixfold::htp {
namespace {

// The product along an axis: halves times halves.
Term product_along(const Term& from, int64_t axis) {
  Legal& h = from.legal();
  Term x = from;
  int64_t n = h.shape(x)[static_cast<size_t>(axis)];
  if (n == 0) return x;
  while (n > 1) {
    const int64_t half = n / 2;
    Term next = Term(h, h.slice(x, axis, 0, half)) * Term(h, h.slice(x, axis, half, 2 * half));
    if (n % 2 == 1) next = {h, h.concat({next, h.slice(x, axis, n - 1, n)}, axis)};
    x = next;
    n = half + n % 2;
  }
  return x;
}

// Neighbours among many axes: [before, n, after].
std::optional<Dims> around(const Shape& shape, const Shape& dims) {
  if (dims.empty()) return std::nullopt;
  const auto [first, last] = std::minmax_element(dims.begin(), dims.end());
  if (*last - *first + 1 != static_cast<int64_t>(dims.size())) return std::nullopt;
  Dims three(3, Dim(1));
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    three[i < *first ? 0 : i <= *last ? 1 : 2] *= Dim(shape[static_cast<size_t>(i)]);
  return three;
}

}  // namespace

Match reduce(Htp& h) {
  const Term x = h.term();
  if (x.rank() == 0) return h.result(x);
  const Shape dims = h.attrs().ints("dims");
  for (const int64_t d : dims)
    if (h.shape(x)[static_cast<size_t>(d)] == 0) return h.unsupported("it has no elements");
  // Of one number each, which the library gets wrong on a grid.  [htp.reduce.1]
  if (x.dtype() == h.out_type().dtype && x.dtype() != DType::boolean &&
      std::all_of(dims.begin(), dims.end(),
                  [&](int64_t d) { return h.shape(x)[static_cast<size_t>(d)] == 1; }))
    return h.result(x.reshape(h.out_type().dims));
  if (h.op() == Op::prod) {
    Term y = x;
    for (const int64_t d : dims) y = product_along(y, d);
    return h.result(y.reshape(h.out_type().dims));
  }
  if (x.rank() > max_rank(x.dtype()))
    if (const auto three = around(h.shape(x), dims))
      return h.result(x.reshape(*three).reduce(h.op(), {1}).reshape(h.out_type().dims));
  // The device has the largest of floats only, the smallest of integers too.
  if (h.op() == Op::amax && is_integer(x.dtype())) return h.result(-((-x).apply(Op::amin, h.attrs())));
  if (x.dtype() == DType::boolean && (h.op() == Op::amax || h.op() == Op::amin))
    return h.result(x.apply(h.op() == Op::amax ? Op::any : Op::all, h.attrs()));
  return no_match("the device has it");
}

Match any_all(Htp& h) {
  const Term x = h.term();
  if (x.rank() == 0) return h.result(x);
  const Term y = x.to(DType::f32).apply(h.op() == Op::any ? Op::amax : Op::amin, h.attrs());
  return h.result(y.apply(Op::ne, y.number(0)));
}

// mean((x - mean(x))^2) n / (n - correction)
Match var(Htp& h) {
  const Term x = h.term();
  if (x.rank() == 0) return h.unsupported("a variance of one number");
  const Shape shape = h.shape(x), dims = h.attrs().ints("dims");
  double n = 1;
  for (const int64_t d : dims) n *= static_cast<double>(shape[static_cast<size_t>(d)]);
  const Term centered = x - x.reduce(Op::mean, dims);
  const Term spread = (centered * centered).reduce(Op::mean, dims, h.attrs().flag("keepdim"));
  const double rest = n - h.attrs().real("correction");
  if (rest == n) return h.result(spread);
  // As torch: none left over is a division by zero.
  return h.result(rest > 0 ? spread * (n / rest) : spread / 0.0);
}

Match arg_reduce(Htp& h) {
  const Term x = h.term();
  if (x.rank() == 0) return h.result(h.patch.scalar(int64_t{0}, DType::i64));
  if (x.dtype() == DType::boolean) return h.result(x.to(DType::f32).apply(h.op(), h.attrs()));
  if (h.op() == Op::argmin && is_integer(x.dtype())) return h.result((-x).apply(Op::argmax, h.attrs()));
  return no_match("the device has it");
}

Match cumsum(Htp& h) {
  if (h.rank(h.in()) == 0) return h.result(h.in());
  return no_match("the device has it");
}

}  // namespace sixfold::htp
