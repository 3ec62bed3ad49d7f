#include "sixfold/ops/op.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::infer {
namespace {

// Keeps window arithmetic far from overflow; no real window is this large.
constexpr int64_t kMaxWindow = int64_t{1} << 30;

Status check_list(const InferCall& call, std::string_view name, size_t n, int64_t min) {
  const Shape values = call.attrs.ints(name);
  if (values.size() != n)
    return invalid_model(call.op, ": ", name, " has ", values.size(), " entries, expected ", n);
  for (const int64_t v : values)
    if (v < min || v > kMaxWindow)
      return invalid_model(call.op, ": ", name, " is ", v, ", expected at least ", min);
  return ok_status();
}

// The number of spatial axes, after the checks that every pool shares.
Result<size_t> spatial_axes(const InferCall& call) {
  if (call.in.size() != 1) return invalid_model(call.op, " has ", call.in.size(), " operands, expected 1");
  const size_t rank = call.in[0].rank();
  if (rank < 3 || rank > 5) return invalid_model(call.op, ": rank is ", rank, ", expected 3 to 5");
  if (call.in[0].dtype == DType::boolean) return invalid_model(call.op, ": operand is bool");
  return rank - 2;
}

Result<Type> pooled(const InferCall& call, bool dilated) {
  SF_ASSIGN(const size_t n, spatial_axes(call));
  SF_TRY(check_list(call, "kernel", n, 1));
  SF_TRY(check_list(call, "stride", n, 1));
  SF_TRY(check_list(call, "padding", n, 0));
  if (dilated) SF_TRY(check_list(call, "dilation", n, 1));
  const Shape kernel = call.attrs.ints("kernel"), stride = call.attrs.ints("stride");
  const Shape padding = call.attrs.ints("padding");
  const Shape dilation = dilated ? call.attrs.ints("dilation") : Shape(n, 1);
  Type out = call.in[0];
  for (size_t i = 0; i < n; ++i) {
    const int64_t span = dilation[i] * (kernel[i] - 1) + 1;
    if (padding[i] > span / 2)
      return invalid_model(call.op, ": padding ", padding[i], " is more than half of the window, ", span);
    Dim& extent = out.dims[i + 2];
    const Dim in = extent;
    extent = window_extent(in, kernel[i], stride[i], padding[i], padding[i], dilation[i],
                           call.attrs.flag("ceil_mode"));
    if (extent.is_static() && extent.value() < 1)
      return invalid_model(call.op, ": a window of ", span, " does not fit an extent of ", in,
                           " with padding ", padding[i]);
  }
  return out;
}

Result<Type> resized(const InferCall& call) {
  SF_ASSIGN(const size_t n, spatial_axes(call));
  const Dims size = call.attrs.dims("size");
  if (size.size() != n) return invalid_model(call.op, ": size has ", size.size(), " entries, expected ", n);
  Type out = call.in[0];
  for (size_t i = 0; i < n; ++i) {
    if (out.dims[i + 2] == Dim(0))
      return invalid_model(call.op, ": spatial extents are ", out.dims, ", expected none to be 0");
    if (size[i].is_static() && size[i].value() < 0) return invalid_model(call.op, ": size is ", size[i]);
    out.dims[i + 2] = size[i];
  }
  return out;
}

std::vector<Type> with_indices(const Type& values) { return {values, Type{DType::i64, values.dims}}; }

}  // namespace

InferResult max_pool(const InferCall& call) {
  SF_ASSIGN(const Type out, pooled(call, /*dilated=*/true));
  return with_indices(out);
}

InferResult avg_pool(const InferCall& call) {
  SF_ASSIGN(Type out, pooled(call, /*dilated=*/false));
  return std::vector<Type>{std::move(out)};
}

InferResult adaptive_pool(const InferCall& call) {
  SF_ASSIGN(Type out, resized(call));
  return std::vector<Type>{std::move(out)};
}

InferResult adaptive_max_pool(const InferCall& call) {
  SF_ASSIGN(const Type out, resized(call));
  return with_indices(out);
}

}  // namespace sixfold::infer
