// Output type of convolution.
#include "sixfold/ops/op.h"
#include "sixfold/ops/shapes.h"

namespace sixfold::infer {
namespace {

bool may_be_equal(const Dim& a, const Dim& b) { return !a.is_static() || !b.is_static() || a == b; }

Status check_list(const char* name, const Shape& list, size_t n, int64_t least) {
  if (list.size() != n)
    return invalid_model("convolution: ", name, " ", list, " has ", list.size(), " entries, expected ", n);
  for (const int64_t x : list)
    if (x < least || x > (int64_t{1} << 30))
      return invalid_model("convolution: ", name, " ", list, " has an entry outside [", least, ", 2^30]");
  return ok_status();
}

}  // namespace

InferResult convolution(const InferCall& call) {
  if (call.in.size() < 2 || call.in.size() > 6)
    return invalid_model("convolution of ", call.in.size(), " operands, expected 2 to 6");
  const Type &x = call.in[0], &w = call.in[1];
  if (!x.present() || x.dtype != w.dtype)
    return invalid_model("convolution of ", x, " with ", w, ": dtypes differ");
  if (x.rank() < 3 || x.rank() > 5 || x.rank() != w.rank())
    return invalid_model("convolution of ", x, " with ", w, ": expected equal ranks from 3 to 5");
  const size_t n = x.rank() - 2;
  const Shape stride = call.attrs.ints("stride"), padding = call.attrs.ints("padding"),
              padding_end = call.attrs.ints("padding_end"), dilation = call.attrs.ints("dilation"),
              output_padding = call.attrs.ints("output_padding");
  SF_TRY(check_list("stride", stride, n, 1));
  SF_TRY(check_list("padding", padding, n, 0));
  SF_TRY(check_list("padding_end", padding_end, n, 0));
  SF_TRY(check_list("dilation", dilation, n, 1));
  SF_TRY(check_list("output_padding", output_padding, n, 0));
  const int64_t groups = call.attrs.integer("groups");
  const bool transposed = call.attrs.flag("transposed");

  if (!is_static(w.dims)) return unsupported("convolution with weights of symbolic shape ", w.dims);
  const Shape ws = static_shape(w.dims);
  if (groups < 1 || ws[0] % groups != 0)
    return invalid_model("convolution: ", groups, " groups do not divide ", ws[0], " channels of weights ",
                         w);
  const Dim in_channels = transposed ? ws[0] : ws[1] * groups;
  const Dim out_channels = transposed ? ws[1] * groups : ws[0];
  if (!may_be_equal(x.dims[1], in_channels))
    return invalid_model("convolution: input ", x, " has ", x.dims[1], " channels, weights ", w, " in ",
                         groups, " groups take ", in_channels);
  Type out{x.dtype, {x.dims[0], out_channels}};
  for (size_t i = 0; i < n; ++i) {
    const int64_t kernel = ws[i + 2];
    const Dim& in = x.dims[i + 2];
    if (kernel < 1 || kernel > (int64_t{1} << 30))
      return invalid_model("convolution: kernel extents ", w.dims, " must be at least 1");
    Dim extent;
    if (transposed) {
      if (output_padding[i] >= std::max(stride[i], dilation[i]))
        return invalid_model("convolution: output_padding ", output_padding,
                             " must be below stride or dilation");
      extent = (in - Dim(1)) * Dim(stride[i]) +
               Dim(dilation[i] * (kernel - 1) + output_padding[i] + 1 - padding[i] - padding_end[i]);
    } else {
      extent = window_extent(in, kernel, stride[i], padding[i], padding_end[i], dilation[i]);
    }
    if (in.is_static() && (in.value() < 1 || extent.value_or(1) < 1))
      return invalid_model("convolution: kernel ", kernel, " with dilation ", dilation[i],
                           " does not fit input ", x, " with padding ", padding[i], " and ", padding_end[i]);
    out.dims.push_back(std::move(extent));
  }
  static constexpr struct {
    size_t operand;
    const char* name;
  } kPerChannel[] = {{2, "bias"}, {4, "scale"}, {5, "shift"}};
  for (const auto& [i, name] : kPerChannel) {
    if (i >= call.in.size() || !call.in[i].present()) continue;
    const Type& b = call.in[i];
    if (b.dtype != x.dtype || b.rank() != 1 || !may_be_equal(b.dims[0], out_channels))
      return invalid_model("convolution with ", name, " ", b, ", expected ", Type{x.dtype, {out_channels}});
  }
  const auto present = [&](size_t i) { return i < call.in.size() && call.in[i].present(); };
  if (present(4) != present(5)) return invalid_model("convolution with only one of scale and shift");
  if (call.in.size() > 3 && call.in[3].present() &&
      (call.in[3].dtype != out.dtype || !equivalent(call.in[3].dims, out.dims)))
    return invalid_model("convolution with residual ", call.in[3], ", expected ", out);
  return std::vector<Type>{std::move(out)};
}

}  // namespace sixfold::infer
