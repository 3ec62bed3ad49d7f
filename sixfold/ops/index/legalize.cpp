// Indexing as kernels. Where torch allows negative indices and the kernel does not, they are counted from the
// end first.
#include "sixfold/ops/legalize.h"

#include <algorithm>

namespace sixfold::legalize {
namespace {

// Steps of a reduction that goes through an axis one by one; beyond this a program would be mostly
// instructions.
constexpr int64_t kMaxSteps = 512;
// Elements of an n x n comparison that is still cheaper than no answer.
constexpr int64_t kMaxPairs = int64_t{1} << 24;

ValueId as_i64(Legal& legal, ValueId index) { return legal.to(index, DType::i64); }

// The index of gather, scatter or index_select, from 0. Only indexing, take, put and the index_ ops of torch
// count negative ones from the end; those three themselves refuse them, as the kernels do.
ValueId from_start(Legal& legal, ValueId index, const Dim& extent) {
  const Term i(legal, as_i64(legal, index));
  const std::string& target = legal.origin().target;
  const bool counts = target.starts_with("aten.take") || target.starts_with("aten.put") ||
                      (target.starts_with("aten.index") && !target.starts_with("aten.index_select"));
  if (!counts) return i;
  if (const Tensor* data = legal.constant_data(index)) {
    const Tensor plain = to_contiguous(*data);
    bool negative = false;
    for (int64_t k = 0; k < plain.count() && !negative; ++k) negative = element_integer(plain, k) < 0;
    if (!negative) return i;
  }
  const Term n(legal, legal.add(Op::full, {}, {{"shape", Dims{}}, {"value", extent}, {"dtype", DType::i64}}));
  return where(i.apply(Op::lt, i.number(0)), i + n, i);
}

// One entry for each axis up to the last that is indexed; absent ones select everything.
std::vector<ValueId> index_list(Legal& legal, size_t first) {
  const Shape dims = legal.attrs().ints("dims");
  std::vector<ValueId> out(static_cast<size_t>(dims.back()) + 1, kNoValue);
  for (size_t i = 0; i < dims.size(); ++i)
    out[static_cast<size_t>(dims[i])] = as_i64(legal, legal.in(first + i));
  return out;
}

Term counting(Legal& legal, int64_t n) {
  return {legal, legal.add(Op::arange, {},
                           {{"start", Dim(0)}, {"step", Dim(1)}, {"length", Dim(n)}, {"dtype", DType::i64}})};
}

// One place of the axis at a time: within it no two elements meet, so that gather, combine and scatter is
// exact.
Match scatter_stepwise(Legal& legal, ValueId index, const std::string& reduce) {
  const int64_t dim = legal.attrs().integer("dim");
  const auto axis = static_cast<size_t>(dim);
  const Shape shape = legal.shape(legal.in(1));
  if (shape[axis] > kMaxSteps)
    return legal.unsupported(
        cat("scatter with reduce ", reduce, " of ", shape[axis], " places, expected at most ", kMaxSteps));
  Term out = legal.term();
  const Op op = reduce == "mul" ? Op::mul : reduce == "amax" ? Op::maximum : Op::minimum;
  // Without its own value a place starts from the last source that reaches it, which is combined again for
  // amax and amin (no change) but must be 1 for a product.
  ValueId src = legal.in(2);
  for (size_t i = 0; i < shape.size(); ++i) src = legal.slice(src, static_cast<int64_t>(i), 0, shape[i]);
  if (!legal.attrs().flag("include_self")) {
    const ValueId start = op == Op::mul ? legal.expand(out.number(1), to_dims(shape)) : src;
    out = Term(legal, legal.add(Op::scatter, {out, index, start},
                                {{"dim", Dim(dim)}, {"reduce", "none"}, {"include_self", true}}));
  }
  for (int64_t k = 0; k < shape[axis]; ++k) {
    const ValueId at = legal.slice(index, dim, k, k + 1), value = legal.slice(src, dim, k, k + 1);
    const ValueId had = legal.add(Op::gather, {out, at}, {{"dim", Dim(dim)}});
    const ValueId now = legal.add(op, {had, value});
    out = Term(legal, legal.add(Op::scatter, {out, at, now},
                                {{"dim", Dim(dim)}, {"reduce", "none"}, {"include_self", true}}));
  }
  return legal.result(out);
}

}  // namespace

Match gather(Legal& legal) {
  const int64_t dim = legal.attrs().integer("dim");
  const ValueId index = from_start(legal, legal.in(1), legal.dims(legal.in())[static_cast<size_t>(dim)]);
  return legal.call("aten.gather.default", {{"self", legal.in()}, {"dim", Dim(dim)}, {"index", index}});
}

Match index_select(Legal& legal) {
  const int64_t dim = legal.attrs().integer("dim");
  const ValueId index = from_start(legal, legal.in(1), legal.dims(legal.in())[static_cast<size_t>(dim)]);
  return legal.call("aten.index_select.default", {{"self", legal.in()}, {"dim", Dim(dim)}, {"index", index}});
}

// The kernel takes matrices.
Match embedding(Legal& legal) {
  const ValueId weight = legal.in(0);
  const Dims& dims = legal.dims(weight);
  if (dims.size() == 2)
    return legal.call("aten.embedding.default", {{"weight", weight}, {"indices", legal.in(1)}});
  const Dim width = numel(Dims(dims.begin() + 1, dims.end()));
  const ValueId rows = legal.add(Op::embedding, {legal.reshape(weight, {dims[0], width}), legal.in(1)});
  return legal.result(legal.reshape(rows, legal.out_type().dims));
}

Match index(Legal& legal) {
  const std::vector<ValueId> indices = index_list(legal, 1);
  return legal.call("aten.index.Tensor", {{"self", legal.in()}, {"indices", indices}});
}

Match index_put(Legal& legal) {
  const std::vector<ValueId> indices = index_list(legal, 2);
  return legal.call("aten.index_put.default", {{"self", legal.in()},
                                               {"indices", indices},
                                               {"values", legal.in(1)},
                                               {"accumulate", Attr(legal.attrs().flag("accumulate"))}});
}

Match scatter(Legal& legal) {
  const std::string& reduce = legal.attrs().text("reduce");
  const int64_t dim = legal.attrs().integer("dim");
  const auto axis = static_cast<size_t>(dim);
  const bool include_self = legal.attrs().flag("include_self");
  const ValueId x = legal.in();
  const ValueId index = from_start(legal, legal.in(1), legal.dims(x)[axis]);
  if (reduce == "none" || (reduce == "add" && include_self))
    return legal.call(reduce == "none" ? "aten.scatter.src" : "aten.scatter_add.default",
                      {{"self", x}, {"dim", Dim(dim)}, {"index", index}, {"src", legal.in(2)}});
  if (reduce != "add" && reduce != "mean") return scatter_stepwise(legal, index, reduce);
  const Dims& places = legal.dims(index);
  const auto scattered = [&](ValueId onto, ValueId what, const char* how) {
    return legal.add(Op::scatter, {onto, index, what},
                     {{"dim", Dim(dim)}, {"reduce", how}, {"include_self", true}});
  };
  const auto all = [&](const Term& like, double value, const Dims& shape) {
    return legal.expand(like.number(value), shape);
  };
  const Term base(legal, x);
  // A place that is reached starts from 0.
  Term start = base;
  if (!include_self) start = Term(legal, scattered(x, all(base, 0, places), "none"));
  const Term sum(legal, scattered(start, legal.in(2), "add"));
  if (reduce == "add") return legal.result(sum);
  const ValueId ones = all(base, 1, places);
  const Term count(legal, scattered(all(base, include_self ? 1 : 0, legal.dims(x)), ones, "add"));
  const Term divisor = count.apply(Op::maximum, count.number(1));
  return legal.result(sum.apply(Op::div, divisor, {{"rounding", is_float(base.dtype()) ? "none" : "floor"}}));
}

Match slice_scatter(Legal& legal) {
  const Attrs& a = legal.attrs();
  return legal.call("aten.slice_scatter.default", {{"self", legal.in(0)},
                                                   {"src", legal.in(1)},
                                                   {"dim", *a.find("dim")},
                                                   {"start", *a.find("start")},
                                                   {"end", *a.find("end")},
                                                   {"step", *a.find("step")}});
}

// Where element i goes: how many come before it, by value and, of equals, by position. There is no kernel
// that sorts; topk sorts, but equals come in any order.
Match sort(Legal& legal) {
  const Term x = legal.term();
  const int64_t dim = legal.attrs().integer("dim");
  const bool descending = legal.attrs().flag("descending");
  const Shape shape = legal.shape(x);
  if (shape.empty()) return legal.results({x, legal.patch.scalar(int64_t{0}, DType::i64)});
  const int64_t n = shape[static_cast<size_t>(dim)], rank = x.rank();
  if (dim != rank - 1) {
    Shape order;
    for (int64_t i = 0; i < rank; ++i) order.push_back(i);
    std::swap(order[static_cast<size_t>(dim)], order.back());
    std::vector<ValueId> out = legal.patch.add_all(Op::sort, {legal.permute(x, order)},
                                                   {{"dim", Dim(rank - 1)}, {"descending", descending}});
    return legal.results({legal.permute(out[0], order), legal.permute(out[1], order)});
  }
  if (numel(shape) * n > kMaxPairs)
    return legal.results(
        legal.patch.add_all(Op::topk, {x}, {{"k", Dim(n)}, {"dim", Dim(dim)}, {"largest", descending}}));
  Dims row = to_dims(shape), column = row;
  row.insert(row.end() - 1, Dim(1));  // j along the last axis
  column.emplace_back(1);             // i along the one before
  const Term i = x.reshape(column), j = x.reshape(row);
  Term before = j.apply(descending ? Op::gt : Op::lt, i), same = j.apply(Op::eq, i);
  if (is_float(x.dtype())) {  // NaN is the largest, and NaNs are equal
    const Term nan_i = i.apply(Op::isnan), nan_j = j.apply(Op::isnan);
    const Term first = descending ? nan_j : nan_i, second = descending ? nan_i : nan_j;
    before = before.apply(Op::logical_or, first.apply(Op::logical_and, second.apply(Op::logical_not)));
    same = same.apply(Op::logical_or, nan_i.apply(Op::logical_and, nan_j));
  }
  const Term count = counting(legal, n);
  const Term earlier = count.reshape(to_dims({1, n})).apply(Op::lt, count.reshape(to_dims({n, 1})));
  before = before.apply(Op::logical_or, same.apply(Op::logical_and, earlier));
  const Term place = before.to(DType::i64).reduce(Op::sum, {rank}, /*keepdim=*/false);
  const ValueId positions = legal.expand(count, to_dims(shape));
  const ValueId indices = legal.add(Op::scatter, {positions, place, positions},
                                    {{"dim", Dim(dim)}, {"reduce", "none"}, {"include_self", true}});
  return legal.results({legal.add(Op::gather, {x, indices}, {{"dim", Dim(dim)}}), indices});
}

Match topk(Legal& legal) {
  const Attrs& a = legal.attrs();
  const ValueId x = legal.in();
  if (legal.dtype(x) == DType::boolean) return legal.computed_in(DType::u8);
  if (legal.rank(x) == 0) return legal.results({x, legal.patch.scalar(int64_t{0}, DType::i64)});
  return legal.call("aten.topk.default", {{"self", x},
                                          {"k", *a.find("k")},
                                          {"dim", *a.find("dim")},
                                          {"largest", Attr(a.flag("largest"))},
                                          {"sorted", Attr(true)}});
}

// How many of the sorted values come before each value.
Match searchsorted(Legal& legal) {
  const Shape sorted = legal.shape(legal.in(0)), values = legal.shape(legal.in(1));
  const int64_t n = sorted.back();
  if (numel(values) * n > kMaxPairs)
    return legal.unsupported(
        cat("searchsorted of ", numel(values), " values in ", n, ", expected at most ", kMaxPairs, " pairs"));
  Dims one = to_dims(values), each = to_dims(sorted);
  one.emplace_back(1);
  if (sorted.size() > 1) each.insert(each.end() - 1, Dim(1));
  const Term v = legal.term(1).reshape(one), s = legal.term(0).reshape(each);
  // not (s >= v): a NaN comes after everything
  const Term before = s.apply(legal.attrs().flag("right") ? Op::gt : Op::ge, v).apply(Op::logical_not);
  return legal.result(
      before.to(DType::i64).reduce(Op::sum, {static_cast<int64_t>(values.size())}, /*keepdim=*/false));
}

}  // namespace sixfold::legalize
