// Shapes and data movement as kernels. Most are one to one, with symbolic extents.
#include "sixfold/ops/legalize.h"

#include <algorithm>

namespace sixfold::legalize {
namespace {

// Which position of the input stands at position i - before of a padded axis.
int64_t source(const std::string& mode, int64_t i, int64_t n) {
  if (mode == "replicate") return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == "circular") return (i % n + n) % n;
  return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;  // reflect
}

// The pad kernel of ExecuTorch for reflect and replicate, where the padded axes are the last one to three of
// [C, ...] or [N, C, ...]: how many there are, or 0.
size_t kernel_axes(const Shape& before, const Shape& after) {
  const size_t rank = before.size();
  size_t axes = 0;
  for (size_t i = 0; i < rank; ++i)
    if (before[i] != 0 || after[i] != 0) axes = std::max(axes, rank - i);
  return axes <= 3 && (rank == axes + 1 || rank == axes + 2) ? axes : 0;
}

// [last before, last after, ..., first before, first after] of the last `axes` axes
Dims pad_list(const Dims& before, const Dims& after, size_t axes) {
  Dims out;
  for (size_t i = 0; i < axes; ++i) {
    out.push_back(before[before.size() - 1 - i]);
    out.push_back(after[after.size() - 1 - i]);
  }
  return out;
}

}  // namespace

Match reshape(Legal& legal) {
  return legal.call("aten.view_copy.default", {{"self", legal.in()}, {"size", legal.attrs().dims("shape")}});
}
Match permute(Legal& legal) {
  return legal.call("aten.permute_copy.default",
                    {{"self", legal.in()}, {"dims", legal.attrs().dims("dims")}});
}
Match expand(Legal& legal) {
  return legal.call("aten.expand_copy.default",
                    {{"self", legal.in()}, {"size", legal.attrs().dims("shape")}});
}
Match slice(Legal& legal) {
  const Attrs& a = legal.attrs();
  return legal.call("aten.slice_copy.Tensor", {{"self", legal.in()},
                                               {"dim", *a.find("dim")},
                                               {"start", *a.find("start")},
                                               {"end", *a.find("end")},
                                               {"step", *a.find("step")}});
}
Match concat(Legal& legal) {
  return legal.call("aten.cat.default",
                    {{"tensors", legal.node().inputs}, {"dim", *legal.attrs().find("dim")}});
}

Match bitcast(Legal& legal) {
  return legal.unsupported("ExecuTorch has no kernel that reads bytes as another dtype");
}

Match pad(Legal& legal) {
  const Attrs& a = legal.attrs();
  const std::string& mode = a.text("mode");
  const Dims before = a.dims("before"), after = a.dims("after");
  const ValueId x = legal.in();
  if (mode == "constant")
    return legal.call(
        "aten.constant_pad_nd.default",
        {{"self", x}, {"pad", pad_list(before, after, before.size())}, {"value", *a.find("value")}});
  const Shape b = a.ints("before"), e = a.ints("after"), in = legal.shape(x);
  if (const size_t axes = kernel_axes(b, e); axes && mode != "circular" && legal.dtype(x) != DType::boolean)
    return legal.call(
        cat("aten.", mode == "reflect" ? "reflection" : "replication", "_pad", axes, "d.default"),
        {{"self", x}, {"padding", pad_list(before, after, axes)}});
  ValueId y = x;
  for (size_t i = 0; i < in.size(); ++i) {
    if (b[i] == 0 && e[i] == 0) continue;
    std::vector<int64_t> index;
    for (int64_t k = -b[i]; k < in[i] + e[i]; ++k) index.push_back(source(mode, k, in[i]));
    y = legal.index_select(y, static_cast<int64_t>(i), index);
  }
  return legal.result(y);
}

Match flip(Legal& legal) {
  return legal.call("aten.flip.default", {{"self", legal.in()}, {"dims", legal.attrs().dims("dims")}});
}
Match repeat(Legal& legal) {
  return legal.call("aten.repeat.default",
                    {{"self", legal.in()}, {"repeats", legal.attrs().dims("repeats")}});
}

Match full(Legal& legal) {
  return legal.call("aten.full.default", {{"size", legal.attrs().dims("shape")},
                                          {"fill_value", *legal.attrs().find("value")},
                                          {"dtype", legal.attrs().dtype("dtype")}});
}

Match arange(Legal& legal) {
  const Attrs& a = legal.attrs();
  const Attr start = *a.find("start"), step = *a.find("step");
  const Dim* n = std::get_if<Dim>(a.find("length"));
  const Dim* first = std::get_if<Dim>(&start);
  const Dim* by = std::get_if<Dim>(&step);
  if (first && by)
    return legal.call(
        "aten.arange.start_step",
        {{"start", start}, {"end", *first + *n * *by}, {"step", step}, {"dtype", a.dtype("dtype")}});
  if (!n->is_static()) {  // start + i * step in f64, as torch
    const Term i(legal,
                 legal.add(Op::arange, {},
                           {{"start", Dim(0)}, {"step", Dim(1)}, {"length", *n}, {"dtype", DType::i64}}));
    if ((first && !first->is_static()) || (by && !by->is_static()))
      return legal.unsupported("a range of real numbers from or by a symbolic size");
    return legal.result((i.to(DType::f64) * a.real("step") + a.real("start")).to(a.dtype("dtype")));
  }
  // Half a step before the end: rounding cannot add or lose an element.
  const double from = a.real("start"), each = a.real("step");
  const double end = from + each * (static_cast<double>(n->value()) - 0.5);
  return legal.call(
      "aten.arange.start_step",
      {{"start", from}, {"end", n->value() == 0 ? from : end}, {"step", each}, {"dtype", a.dtype("dtype")}});
}

Match random(Legal& legal) {
  return legal.call(legal.op() == Op::rand ? "aten.rand.default" : "aten.randn.default",
                    {{"size", legal.attrs().dims("shape")}, {"dtype", legal.attrs().dtype("dtype")}});
}

}  // namespace sixfold::legalize
