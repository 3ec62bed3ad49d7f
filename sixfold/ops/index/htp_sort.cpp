// Sorting as TopK, which gives the largest of the last axis; reductions of scatter as comparisons.
#include <algorithm>

#include "sixfold/ops/index/htp.h"

namespace sixfold::htp {
namespace {

// Elements of a comparison of everything with everything that is still cheaper than the way to the CPU.
constexpr int64_t kMaxPairs = int64_t{1} << 22;

Term count_up(Htp& h, int64_t n) {
  return {h, h.add(Op::arange, {},
                   {{"start", Dim(0)}, {"step", Dim(1)}, {"length", Dim(n)}, {"dtype", DType::i64}})};
}

Shape to_last(int64_t axis, int64_t rank) {
  Shape order;
  for (int64_t i = 0; i < rank; ++i) order.push_back(i);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  return order;
}

Match order_by(Htp& h, bool largest) {
  const Term x = h.term();
  const Shape shape = h.shape(x);
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  if (shape.empty()) return h.results({x, h.patch.scalar(int64_t{0}, DType::i64)});
  if (is_narrow(x.dtype())) return h.computed_in(DType::i32);
  const int64_t dim = h.attrs().integer("dim"), rank = x.rank();
  const int64_t k = h.op() == Op::sort ? shape[static_cast<size_t>(dim)] : h.attrs().integer("k");
  const auto top = [&](ValueId v) {
    return h.patch.add_all(Op::topk, {v}, {{"k", Dim(k)}, {"dim", Dim(h.rank(v) - 1)}, {"largest", true}});
  };
  // The smallest are the largest of the negated.
  if (dim != rank - 1) {
    const Shape order = to_last(dim, rank);
    std::vector<ValueId> out = h.patch.add_all(Op::topk, {h.permute(x, order)},
                                               {{"k", Dim(k)}, {"dim", Dim(rank - 1)}, {"largest", largest}});
    return h.results({h.permute(out[0], order), h.permute(out[1], order)});
  }
  if (largest && h.op() == Op::topk && rank <= 4) return no_match("the device has it");
  const int64_t n = shape.back();
  const Term flat = rank <= 4 ? x : x.reshape(to_dims({n == 0 ? 0 : numel(shape) / n, n}));
  std::vector<ValueId> out = top(largest ? flat : -flat);
  if (!largest) out[0] = h.add(Op::neg, {out[0]});
  return h.results({h.reshape(out[0], h.out_type(0).dims), h.reshape(out[1], h.out_type(1).dims)});
}

}  // namespace

Match topk(Htp& h) { return order_by(h, h.attrs().flag("largest")); }
Match sort(Htp& h) { return order_by(h, h.attrs().flag("descending")); }

// How many of the sorted values come before each value.
Match searchsorted(Htp& h) {
  const Shape sorted = h.shape(h.in(0)), values = h.shape(h.in(1));
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  const int64_t n = sorted.back();
  if (numel(values) * n > kMaxPairs)
    return h.unsupported(cat("it compares ", numel(values), " values with ", n, " others"));
  Dims one = to_dims(values), each = to_dims(sorted);
  one.emplace_back(1);
  if (sorted.size() > 1) each.insert(each.end() - 1, Dim(1));
  const Term v = h.term(1).reshape(one), s = h.term(0).reshape(each);
  const Term before = s.apply(h.attrs().flag("right") ? Op::gt : Op::ge, v).apply(Op::logical_not);
  return h.result(
      before.to(DType::i64).reduce(Op::sum, {static_cast<int64_t>(values.size())}, /*keepdim=*/false));
}

// With the axis last and j a place of the index, n one of x: hit[.., j, n] = index[.., j] == n, and
// out[.., n] = reduce over j of src[.., j] where hit.
Match scatter_compared(Htp& h, ValueId index, ValueId src) {
  const std::string reduce = h.attrs().text("reduce");
  const bool include_self = h.attrs().flag("include_self");
  const int64_t dim = h.attrs().integer("dim"), rank = h.rank(h.in());
  const Shape whole = h.shape(h.in()), places = h.shape(index);
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  if (rank == 0) return h.unsupported("a scatter of a number");
  const int64_t n = whole[static_cast<size_t>(dim)];
  if (numel(places) * n > kMaxPairs)
    return h.unsupported(cat("it reduces ", numel(places), " values over ", n, " places"));
  if (rank > 4) return h.unsupported("it has more than four axes");
  Region region(h, h.in(), places, dim);
  const Shape order = to_last(dim, rank);
  const auto last = [&](ValueId v) { return dim == rank - 1 ? Term(h, v) : Term(h, h.permute(v, order)); };
  const Term x = last(region.part()), at = last(index), value = last(src);
  Dims column = at.dims();
  column.emplace_back(1);
  const Term hit = at.reshape(column).apply(Op::eq, Term(h, h.to(count_up(h, n), at.dtype())));
  const Term v = value.reshape(column);
  const DType real = is_float(x.dtype()) ? x.dtype() : DType::i64;
  const auto over = [&](const Term& t, Op op) { return t.reduce(op, {rank - 1}, /*keepdim=*/false); };
  const auto chosen = [&](double otherwise) { return where(hit, v, v.number(otherwise)); };
  const Term count = over(hit.to(real), Op::sum).to(x.dtype());
  const Term reached = count.apply(Op::gt, count.number(0));
  Term y = x;
  if (reduce == "add" || reduce == "mean") {
    const Term sum = over(chosen(0).to(real), Op::sum).to(x.dtype());
    y = include_self ? x + sum : where(reached, sum, x);
    if (reduce == "mean") {
      const Term all = include_self ? count + 1.0 : count.apply(Op::maximum, count.number(1));
      y = y.apply(Op::div, all, {{"rounding", is_float(x.dtype()) ? "none" : "floor"}});
    }
  } else if (reduce == "mul") {
    const Term product = over(chosen(1), Op::prod);
    y = include_self ? x * product : where(reached, product, x);
  } else {
    const bool max = reduce == "amax";
    constexpr double kEdge = 2147483647.0;
    // Of floats the values' own least one stands for those that are not hit: any other would widen the grid.
    const Term otherwise = is_float(x.dtype())
                               ? v.reduce(max ? Op::amin : Op::amax, {rank - 1}, /*keepdim=*/true)
                               : v.number(max ? -kEdge : kEdge);
    const Term best = over(where(hit, v, otherwise), max ? Op::amax : Op::amin);
    const Term both = x.apply(max ? Op::maximum : Op::minimum, best);
    y = include_self ? where(reached, both, x) : where(reached, best, x);
  }
  return h.result(region.put_back(dim == rank - 1 ? ValueId(y) : h.permute(y, order)));
}

}  // namespace sixfold::htp
