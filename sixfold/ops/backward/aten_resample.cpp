// Gradients of pooling, resizing and padding.
//
// All but max pooling act on each axis by itself, as a matrix. That matrix is what the forward op makes of
// the unit matrix, a constant; its transpose takes the gradient back.
#include "sixfold/ops/backward/gradient.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

// The unit matrix as `extent` images of one axis each, with `empty` axes of extent 1 before it.
Expr unit_images(Call& call, const Dim& extent, DType dtype, size_t empty = 0) {
  const Expr i(call,
               call.op(Op::arange, {},
                       {{"start", Dim(0)}, {"step", Dim(1)}, {"length", extent}, {"dtype", DType::i64}}));
  const Expr unit = i.unsqueeze(1).apply(Op::eq, i).to(dtype);
  Dims shape{Dim(1), extent};
  shape.insert(shape.end(), empty, Dim(1));
  shape.push_back(extent);
  return unit.reshape(shape);
}

// g times the transpose of `images` (what the forward op made of the unit matrix) along the axis.
Expr pull_back(const Expr& g, int64_t axis, const Expr& images) {
  Call& call = g.call();
  const Dims& made = images.dims();
  const Expr matrix = images.reshape({made[1], made.back()});  // [in, out]
  Shape order = axes_between(0, g.rank());
  std::swap(order[static_cast<size_t>(axis)], order.back());
  const Expr moved(call, call.permute(g, order));
  const Expr product(call, call.op(Op::matmul, {moved, call.permute(matrix, {1, 0})}));
  return {call, call.permute(product, order)};
}

// The spatial rank in the name: upsample_nearest2d_backward has 2.
int64_t spatial_rank(const Call& call) {
  const size_t at = call.target().find("d_");
  return at == std::string_view::npos || at == 0 ? 0 : call.target()[at - 1] - '0';
}
bool names(const Call& call, std::string_view part) {
  return call.target().find(part) != std::string_view::npos;
}

// The incoming gradient with n spatial axes at its end.
struct Images {
  explicit Images(Call& call) : n(spatial_rank(call)), g(call, call.tensor("grad_output")), dtype(g.dtype()) {
    g = g.to(compute_type(dtype));
    if (call.ok() && g.rank() < n)
      call.fail(Code::InvalidModel, "a gradient of ", g.dims(), " has no ", n, " axes");
  }
  int64_t axis(int64_t i) const { return g.rank() - n + i; }
  int64_t n;
  Expr g;
  DType dtype;
};

Status upsample_backward(Call& call) {
  Images at(call);
  const Dims size = call.dims("input_size");
  if (!call.ok() || size.size() != at.g.dims().size())
    return invalid_model("resized from ", size, " to ", at.g.dims());
  const char* mode = names(call, "nearest_exact") ? "nearest-exact"
                     : names(call, "nearest")     ? "nearest"
                     : names(call, "cubic")       ? "cubic"
                                                  : "linear";
  if (names(call, "lanczos")) return call.unsupported("no gradient of this filter");
  static constexpr const char* kScales[] = {"scales_d", "scales_h", "scales_w"};
  for (int64_t i = 0; i < at.n; ++i) {
    const int64_t axis = at.axis(i);
    const double scale = call.real_or(at.n == 1 ? "scales" : kScales[i + 3 - at.n], 0.0);
    const Expr unit = unit_images(call, size[static_cast<size_t>(axis)], at.g.dtype(), 1);
    const Expr images =
        unit.apply(Op::upsample, {{"size", Dims{Dim(1), extent_of(at.g, axis)}},
                                  {"mode", std::string(mode)},
                                  {"align_corners", call.attr("align_corners") && call.flag("align_corners")},
                                  {"scales", std::vector<double>{0.0, scale}},
                                  {"antialias", names(call, "_aa_")}});
    at.g = pull_back(at.g, axis, images);
  }
  return call.result(at.g.to(at.dtype));
}

Status avg_pool_backward(Call& call) {
  Images at(call);
  const Expr x(call, call.tensor("self"));
  const auto n = static_cast<size_t>(at.n);
  const Shape kernel = call.ints_n("kernel_size", n, 1), padding = call.ints_n("padding", n);
  const Shape stride = call.ints("stride").empty() ? kernel : call.ints_n("stride", n);
  const int64_t divisor = call.integer_or("divisor_override", 0);
  if (!call.ok() || x.rank() != at.g.rank())
    return invalid_model("pooled from ", x.dims(), " to ", at.g.dims());
  for (size_t i = 0; i < n; ++i) {
    const int64_t axis = at.axis(static_cast<int64_t>(i));
    const Expr images = unit_images(call, extent_of(x, axis), at.g.dtype())
                            .apply(Op::avg_pool, {{"kernel", Dims{kernel[i]}},
                                                  {"stride", Dims{stride[i]}},
                                                  {"padding", Dims{padding[i]}},
                                                  {"ceil_mode", call.flag("ceil_mode")},
                                                  {"count_include_pad", call.flag("count_include_pad")},
                                                  {"divisor", Dim(divisor == 0 ? 0 : 1)}});
    at.g = pull_back(at.g, axis, images);
  }
  if (divisor != 0) at.g = at.g / static_cast<double>(divisor);
  return call.result(at.g.to(at.dtype));
}

Status adaptive_avg_pool_backward(Call& call) {
  Images at(call);
  const Expr x(call, call.tensor("self"));
  if (!call.ok() || x.rank() != at.g.rank())
    return invalid_model("pooled from ", x.dims(), " to ", at.g.dims());
  for (int64_t i = 0; i < at.n; ++i) {
    const int64_t axis = at.axis(i);
    const Expr unit = unit_images(call, extent_of(x, axis), at.g.dtype());
    at.g = pull_back(at.g, axis, unit.apply(Op::adaptive_avg_pool, {{"size", Dims{extent_of(at.g, axis)}}}));
  }
  return call.result(at.g.to(at.dtype));
}

// `padding` lists the last axis first.
Status pad_backward(Call& call) {
  Images at(call);
  const Expr x(call, call.tensor("self"));
  const Shape padding = call.ints("padding");
  if (!call.ok() || x.rank() != at.g.rank() || padding.size() != static_cast<size_t>(2 * at.n))
    return invalid_model("padded by ", padding, " from ", x.dims(), " to ", at.g.dims());
  for (int64_t i = 0; i < at.n; ++i) {
    const int64_t axis = at.axis(i);
    const size_t entry = static_cast<size_t>(2 * (at.n - 1 - i));
    const Expr unit = unit_images(call, extent_of(x, axis), at.g.dtype());
    const Expr images = unit.apply(Op::pad, {{"before", Dims{0, 0, padding[entry]}},
                                             {"after", Dims{0, 0, padding[entry + 1]}},
                                             {"mode", names(call, "reflection") ? "reflect" : "replicate"},
                                             {"value", 0.0}});
    at.g = pull_back(at.g, axis, images);
  }
  return call.result(at.g.to(at.dtype));
}

// The indices are positions in the flattened plane: each gradient is added there.
Status max_pool_backward(Call& call) {
  const Images at(call);
  const Expr x(call, call.tensor("self")), indices(call, call.tensor("indices"));
  if (!call.ok() || x.rank() != at.g.rank() || indices.dims() != at.g.dims())
    return invalid_model("pooled from ", x.dims(), " to ", at.g.dims(), " with indices ", indices.dims());
  const auto planes = [&](const Dims& dims) {
    Dims flat(dims.begin(), dims.end() - at.n);
    flat.push_back(numel(Dims(dims.end() - at.n, dims.end())));
    return flat;
  };
  const Dims out = planes(at.g.dims()), in = planes(x.dims());
  const Expr sums(
      call, call.op(Op::scatter, {zeros(call, in, at.g.dtype()), indices.reshape(out), at.g.reshape(out)},
                    {{"dim", Dim(static_cast<int64_t>(in.size()) - 1)},
                     {"reduce", std::string("add")},
                     {"include_self", true}}));
  return call.result(sums.reshape(x.dims()).to(at.dtype));
}

constexpr AtenRule kRules[] = {
    {"aten.upsample_nearest1d_backward.default", upsample_backward},
    {"aten.upsample_nearest2d_backward.default", upsample_backward},
    {"aten.upsample_nearest3d_backward.default", upsample_backward},
    {"aten._upsample_nearest_exact1d_backward.default", upsample_backward},
    {"aten._upsample_nearest_exact2d_backward.default", upsample_backward},
    {"aten._upsample_nearest_exact3d_backward.default", upsample_backward},
    {"aten.upsample_linear1d_backward.default", upsample_backward},
    {"aten.upsample_bilinear2d_backward.default", upsample_backward},
    {"aten.upsample_trilinear3d_backward.default", upsample_backward},
    {"aten.upsample_bicubic2d_backward.default", upsample_backward},
    {"aten.avg_pool2d_backward.default", avg_pool_backward},
    {"aten.avg_pool3d_backward.default", avg_pool_backward},
    {"aten._adaptive_avg_pool2d_backward.default", adaptive_avg_pool_backward},
    {"aten._adaptive_avg_pool3d_backward.default", adaptive_avg_pool_backward},
    {"aten.reflection_pad1d_backward.default", pad_backward},
    {"aten.reflection_pad2d_backward.default", pad_backward},
    {"aten.reflection_pad3d_backward.default", pad_backward},
    {"aten.replication_pad1d_backward.default", pad_backward},
    {"aten.replication_pad2d_backward.default", pad_backward},
    {"aten.replication_pad3d_backward.default", pad_backward},
    {"aten.max_pool2d_with_indices_backward.default", max_pool_backward},
    {"aten.max_pool3d_with_indices_backward.default", max_pool_backward},
    {"aten.adaptive_max_pool2d_backward.default", max_pool_backward},
    {"aten.adaptive_max_pool3d_backward.default", max_pool_backward},
    {"aten.fractional_max_pool2d_backward.default", max_pool_backward},
    {"aten.fractional_max_pool3d_backward.default", max_pool_backward},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> backward_resample_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
