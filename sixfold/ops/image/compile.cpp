#include "sixfold/ops/op.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::infer {
namespace {

constexpr int64_t kMaxWindow = int64_t{1} << 30;  // keeps window arithmetic far from overflow

Status check_rank(const InferCall& call, size_t operands, size_t min, size_t max) {
  if (call.in.size() != operands)
    return invalid_model(call.op, " has ", call.in.size(), " operands, expected ", operands);
  const size_t rank = call.in[0].rank();
  if (rank < min || rank > max)
    return invalid_model(call.op, ": rank is ", rank, ", expected ", min, " to ", max);
  return ok_status();
}

// kernel, dilation, padding and stride of im2col and col2im, checked.
struct Patches {
  Shape kernel, dilation, padding, stride;
};
Result<Patches> patches(const InferCall& call) {
  Patches p{call.attrs.ints("kernel"), call.attrs.ints("dilation"), call.attrs.ints("padding"),
            call.attrs.ints("stride")};
  const std::pair<const Shape*, int64_t> lists[] = {
      {&p.kernel, 1}, {&p.dilation, 1}, {&p.padding, 0}, {&p.stride, 1}};
  for (const auto& [list, min] : lists) {
    if (list->size() != 2)
      return invalid_model(call.op, ": a window has ", list->size(), " entries, expected 2");
    for (const int64_t v : *list)
      if (v < min || v > kMaxWindow)
        return invalid_model(call.op, ": a window entry is ", v, ", expected at least ", min);
  }
  return p;
}

// How many windows an image of this size has.
Result<Dim> window_count(const InferCall& call, const Patches& p, const Dim& height, const Dim& width) {
  const Dim h = window_extent(height, p.kernel[0], p.stride[0], p.padding[0], p.padding[0], p.dilation[0]);
  const Dim w = window_extent(width, p.kernel[1], p.stride[1], p.padding[1], p.padding[1], p.dilation[1]);
  if (h.value_or(1) < 1 || w.value_or(1) < 1)
    return invalid_model(call.op, ": windows of ", p.kernel, " do not fit an image of ", Dims{height, width});
  return h * w;
}

}  // namespace

InferResult upsample(const InferCall& call) {
  SF_TRY(check_rank(call, 1, 3, 5));
  Type out = call.in[0];
  const size_t n = out.rank() - 2;
  const Dims size = call.attrs.dims("size");
  if (size.size() != n) return invalid_model(call.op, ": size has ", size.size(), " entries, expected ", n);
  if (call.attrs.reals("scales").size() != n)
    return invalid_model(call.op, ": ", call.attrs.reals("scales").size(), " scales, expected ", n);
  if (out.dtype == DType::boolean) return invalid_model(call.op, " of bool");
  // Positions are numbers of 64 bits: extents of 31 bits times a step of up to 1e9 fit. 0 or less: not given.
  for (const double s : call.attrs.reals("scales"))
    if (!(s <= 0) && !(s >= 1e-9 && s <= 1e9))
      return invalid_model(call.op, ": a scale of ", s, ", expected 1e-9 to 1e9");
  for (size_t i = 0; i < n; ++i) {
    if (out.dims[i + 2] == Dim(0) || size[i].value_or(1) < 1)
      return invalid_model(call.op, ": from ", out.dims, " to ", size, ", expected positive extents");
    out.dims[i + 2] = size[i];
  }
  return std::vector<Type>{std::move(out)};
}

InferResult grid_sampler(const InferCall& call) {
  SF_TRY(check_rank(call, 2, 4, 5));
  const Type &x = call.in[0], &grid = call.in[1];
  const size_t rank = x.rank();
  if (grid.rank() != rank)
    return invalid_model(call.op, ": input is ", x, ", grid is ", grid, ": ranks differ");
  if (grid.dtype != x.dtype || !is_float(x.dtype))
    return invalid_model(call.op, ": input is ", x, ", grid is ", grid);
  if (grid.dims[rank - 1] != Dim(static_cast<int64_t>(rank) - 2))
    return invalid_model(call.op, ": the grid's last extent is ", grid.dims[rank - 1], ", expected ",
                         rank - 2);
  if (!equivalent(grid.dims[0], x.dims[0]))
    return invalid_model(call.op, ": batches are ", x.dims[0], " and ", grid.dims[0]);
  for (size_t i = 2; i < rank; ++i)
    if (x.dims[i] == Dim(0))
      return invalid_model(call.op, ": input is ", x, ", expected spatial extents above 0");
  if (call.attrs.text("mode") == "bicubic" && rank != 4)
    return invalid_model(call.op, ": bicubic of rank ", rank);
  Type out = x;
  for (size_t i = 2; i < rank; ++i) out.dims[i] = grid.dims[i - 1];
  return std::vector<Type>{std::move(out)};
}

InferResult pixel_shuffle(const InferCall& call) {
  SF_TRY(check_rank(call, 1, 3, 8));
  Type out = call.in[0];
  const int64_t r = call.attrs.integer("factor");
  if (r < 1 || r > kMaxWindow) return invalid_model(call.op, ": factor is ", r);
  Dim* last = out.dims.data() + out.rank() - 3;
  if (last[0].value_or(0) % (r * r) != 0)
    return invalid_model(call.op, ": ", last[0], " channels are not a multiple of ", r * r);
  last[0] = floordiv(last[0], Dim(r * r));
  last[1] *= Dim(r);
  last[2] *= Dim(r);
  return std::vector<Type>{std::move(out)};
}

InferResult pixel_unshuffle(const InferCall& call) {
  SF_TRY(check_rank(call, 1, 3, 8));
  Type out = call.in[0];
  const int64_t r = call.attrs.integer("factor");
  if (r < 1 || r > kMaxWindow) return invalid_model(call.op, ": factor is ", r);
  Dim* last = out.dims.data() + out.rank() - 3;
  if (last[1].value_or(0) % r != 0 || last[2].value_or(0) % r != 0)
    return invalid_model(call.op, ": an image of ", last[1], " x ", last[2], " does not divide by ", r);
  last[0] *= Dim(r * r);
  last[1] = floordiv(last[1], Dim(r));
  last[2] = floordiv(last[2], Dim(r));
  return std::vector<Type>{std::move(out)};
}

InferResult im2col(const InferCall& call) {
  SF_TRY(check_rank(call, 1, 4, 4));
  SF_ASSIGN(const Patches p, patches(call));
  const Dims& in = call.in[0].dims;
  SF_ASSIGN(const Dim count, window_count(call, p, in[2], in[3]));
  return std::vector<Type>{{call.in[0].dtype, {in[0], in[1] * Dim(p.kernel[0]) * Dim(p.kernel[1]), count}}};
}

InferResult col2im(const InferCall& call) {
  SF_TRY(check_rank(call, 1, 3, 3));
  SF_ASSIGN(const Patches p, patches(call));
  const Dims& in = call.in[0].dims;
  const Dims size = call.attrs.dims("size");
  if (size.size() != 2) return invalid_model(call.op, ": size has ", size.size(), " entries, expected 2");
  SF_ASSIGN(const Dim count, window_count(call, p, size[0], size[1]));
  if (!equivalent(count, in[2]))
    return invalid_model(call.op, ": ", in[2], " columns, but an image of ", size, " has ", count,
                         " windows");
  const int64_t window = p.kernel[0] * p.kernel[1];
  if (in[1].value_or(0) % window != 0)
    return invalid_model(call.op, ": ", in[1], " rows are not a multiple of the window's ", window);
  return std::vector<Type>{{call.in[0].dtype, {in[0], floordiv(in[1], Dim(window)), size[0], size[1]}}};
}

}  // namespace sixfold::infer
