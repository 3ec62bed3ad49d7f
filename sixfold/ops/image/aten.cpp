#include "sixfold/ops/aten.h"

#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

bool names(const Call& call, std::string_view part) { return call.target().find(part) != std::string::npos; }

const char* upsample_mode(const Call& call) {
  if (names(call, "nearest_exact")) return "nearest-exact";
  if (names(call, "nearest")) return "nearest";
  if (names(call, "lanczos")) return "lanczos";
  return names(call, "cubic") ? "cubic" : "linear";
}

// The scale of each axis as the call gives it; 0 where it gives none. `.vec` overloads have one list for all.
std::vector<double> upsample_scales(Call& call, size_t n) {
  std::vector<double> scales(n, 0.0);
  if (names(call, ".vec")) {
    const std::vector<double> given = call.reals("scale_factors");
    if (given.size() == n) return given;
    if (!given.empty()) call.fail(Code::InvalidModel, given.size(), " scale factors, expected ", n);
    return scales;
  }
  if (n == 1) return {call.real_or("scales", 0.0)};
  static constexpr const char* kNames[] = {"scales_d", "scales_h", "scales_w"};
  for (size_t i = 0; i < n; ++i) scales[i] = call.real_or(kNames[i + 3 - n], 0.0);
  return scales;
}

Status upsample(Call& call) {
  const ValueId x = call.tensor(names(call, ".vec") ? "input" : "self");
  if (!call.ok()) return call.result(kNoValue);
  const auto rank = static_cast<size_t>(call.rank(x));
  if (rank < 3) return invalid_model("input has rank ", rank, ", expected 3 to 5");
  const size_t n = rank - 2;
  const std::vector<double> scales = upsample_scales(call, n);
  // Where the size follows from scale factors and is symbolic, the exporter has worked it out already: it is
  // the result's shape. A loaded program has only the largest one there, but numbers for the input.
  Dims size = call.dims("output_size");
  if (size.empty()) {
    const Dims &in = call.dims_of(x), &out = call.output_type().dims;
    if (out.size() != rank) return invalid_model("input has rank ", rank, ", output ", out.size());
    for (size_t i = 0; i < n; ++i) {
      const double extent = in[i + 2].is_static() ? static_cast<double>(in[i + 2].value()) * scales[i] : -1.0;
      size.push_back(extent >= 1 && extent < 1e15 ? Dim(static_cast<int64_t>(extent)) : out[i + 2]);
    }
  }
  const bool has_corners = call.attr("align_corners") != nullptr;
  Attrs attrs{{"size", size},
              {"mode", std::string(upsample_mode(call))},
              {"align_corners", has_corners && call.flag("align_corners")},
              {"scales", scales},
              {"antialias", names(call, "_aa.")}};
  return call.result(call.op(Op::upsample, {x}, std::move(attrs)));
}

Status grid_sampler(Call& call) {
  static constexpr const char* kModes[] = {"bilinear", "nearest", "bicubic"};
  static constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};
  const int64_t mode = call.integer("interpolation_mode"), padding = call.integer("padding_mode");
  if (mode < 0 || mode > 2) return invalid_model("interpolation_mode is ", mode, ", expected 0 to 2");
  if (padding < 0 || padding > 2) return invalid_model("padding_mode is ", padding, ", expected 0 to 2");
  return call.result(call.op(Op::grid_sampler, {call.tensor("input"), call.tensor("grid")},
                             {{"mode", std::string(kModes[mode])},
                              {"padding_mode", std::string(kPaddings[padding])},
                              {"align_corners", call.flag("align_corners")}}));
}

// n places from -1 to 1: on the outermost pixels' centres, or half a pixel within the borders.
std::vector<float> normalized_places(int64_t n, bool align_corners) {
  std::vector<float> out(static_cast<size_t>(n), 0.0f);
  if (n <= 1) return out;
  const float step = 2.0f / static_cast<float>(n - 1);
  for (int64_t i = 0; i < n; ++i) {  // from both ends, as torch.linspace
    float& x = out[static_cast<size_t>(i)];
    x = i < n / 2 ? -1.0f + step * static_cast<float>(i) : 1.0f - step * static_cast<float>(n - 1 - i);
    if (!align_corners) x = x * static_cast<float>(n - 1) / static_cast<float>(n);
  }
  return out;
}

// grid = [x, y, (z,) 1] at every output pixel, times theta transposed
Status affine_grid(Call& call) {
  const ValueId theta = call.tensor("theta");
  const Shape size = call.ints("size");
  const bool align = call.flag("align_corners");
  if (!call.ok()) return call.result(kNoValue);
  const auto n = static_cast<int64_t>(size.size()) - 2;
  if (n != 2 && n != 3) return invalid_model("size has ", size.size(), " entries, expected 4 or 5");
  if (call.rank(theta) != 3) return invalid_model("theta has rank ", call.rank(theta), ", expected 3");
  int64_t points = 1;
  for (size_t i = 2; i < size.size(); ++i) {
    if (size[i] < 1 || size[i] > (int64_t{1} << 28) / points) return invalid_model("size is ", size);
    points *= size[i];
  }
  std::byte* bytes = nullptr;
  const Tensor base = call.allocate(DType::f32, {1, points, n + 1}, &bytes);
  if (!bytes) return call.result(kNoValue);
  auto* values = reinterpret_cast<float*>(bytes);
  int64_t inner = 1;
  for (int64_t axis = 0; axis < n; ++axis) {  // x first: the last axis of the image
    const int64_t extent = size[size.size() - 1 - static_cast<size_t>(axis)];
    const std::vector<float> places = normalized_places(extent, align);
    for (int64_t p = 0; p < points; ++p)
      values[p * (n + 1) + axis] = places[static_cast<size_t>(p / inner % extent)];
    inner *= extent;
  }
  for (int64_t p = 0; p < points; ++p) values[p * (n + 1) + n] = 1.0f;
  const ValueId places = call.to(call.constant(base), call.dtype_of(theta));
  const ValueId grid = call.op(Op::matmul, {places, call.permute(theta, {0, 2, 1})});
  Dims shape{size[0]};
  for (size_t i = 2; i < size.size(); ++i) shape.push_back(size[i]);
  shape.push_back(n);
  return call.result(call.reshape(grid, shape));
}

Status pixel_shuffle(Call& call) {
  return call.result(
      call.op(Op::pixel_shuffle, {call.tensor("self")}, {{"factor", Dim(call.integer("upscale_factor"))}}));
}
Status pixel_unshuffle(Call& call) {
  return call.result(call.op(Op::pixel_unshuffle, {call.tensor("self")},
                             {{"factor", Dim(call.integer("downscale_factor"))}}));
}

// Channels [g][C/g] become [C/g][g].
Status channel_shuffle(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t groups = call.integer("groups");
  if (!call.ok()) return call.result(kNoValue);
  const Dims dims = call.dims_of(x);
  if (dims.size() < 3) return invalid_model("input has rank ", dims.size(), ", expected at least 3");
  if (groups < 1 || dims[1].value_or(0) % groups != 0)
    return invalid_model(dims[1], " channels in ", groups, " groups");
  Dims split = dims;
  split[1] = floordiv(dims[1], Dim(groups));
  split.insert(split.begin() + 1, Dim(groups));
  Shape order(split.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[1], order[2]);
  return call.result(call.reshape(call.permute(call.reshape(x, split), order), dims));
}

Attrs patches(Call& call) {
  return {{"kernel", to_dims(call.ints_n("kernel_size", 2, 1))},
          {"dilation", to_dims(call.ints_n("dilation", 2, 1))},
          {"padding", to_dims(call.ints_n("padding", 2))},
          {"stride", to_dims(call.ints_n("stride", 2, 1))}};
}

// op(x) with a batch axis around it where x has rank `unbatched`.
ValueId with_batch(Call& call, Op op, ValueId x, int64_t unbatched, Attrs attrs) {
  if (!call.ok()) return kNoValue;
  if (call.rank(x) != unbatched) return call.op(op, {x}, std::move(attrs));
  const ValueId y = call.op(op, {call.unsqueeze(x, 0)}, std::move(attrs));
  if (!call.ok()) return kNoValue;
  const Dims& dims = call.dims_of(y);
  return call.reshape(y, Dims(dims.begin() + 1, dims.end()));
}

Status im2col(Call& call) {
  const ValueId x = call.tensor("self");
  return call.result(with_batch(call, Op::im2col, x, 3, patches(call)));
}

Status col2im(Call& call) {
  const ValueId x = call.tensor("self");
  Attrs attrs = patches(call);
  attrs.set("size", call.dims("output_size"));
  return call.result(with_batch(call, Op::col2im, x, 2, std::move(attrs)));
}

constexpr AtenRule kRules[] = {
    {"aten.upsample_nearest1d.default", upsample},
    {"aten.upsample_nearest1d.vec", upsample},
    {"aten.upsample_nearest2d.default", upsample},
    {"aten.upsample_nearest2d.vec", upsample},
    {"aten.upsample_nearest3d.default", upsample},
    {"aten.upsample_nearest3d.vec", upsample},
    {"aten._upsample_nearest_exact1d.default", upsample},
    {"aten._upsample_nearest_exact1d.vec", upsample},
    {"aten._upsample_nearest_exact2d.default", upsample},
    {"aten._upsample_nearest_exact2d.vec", upsample},
    {"aten._upsample_nearest_exact3d.default", upsample},
    {"aten._upsample_nearest_exact3d.vec", upsample},
    {"aten.upsample_linear1d.default", upsample},
    {"aten.upsample_linear1d.vec", upsample},
    {"aten.upsample_bilinear2d.default", upsample},
    {"aten.upsample_bilinear2d.vec", upsample},
    {"aten.upsample_trilinear3d.default", upsample},
    {"aten.upsample_trilinear3d.vec", upsample},
    {"aten.upsample_bicubic2d.default", upsample},
    {"aten.upsample_bicubic2d.vec", upsample},
    {"aten._upsample_bilinear2d_aa.default", upsample},
    {"aten._upsample_bilinear2d_aa.vec", upsample},
    {"aten._upsample_bicubic2d_aa.default", upsample},
    {"aten._upsample_bicubic2d_aa.vec", upsample},
    {"aten._upsample_lanczos2d_aa.default", upsample},
    {"aten._upsample_lanczos2d_aa.vec", upsample},
    {"aten.grid_sampler.default", grid_sampler},
    {"aten.grid_sampler_2d.default", grid_sampler},
    {"aten.grid_sampler_3d.default", grid_sampler},
    {"aten.affine_grid_generator.default", affine_grid},
    {"aten.pixel_shuffle.default", pixel_shuffle},
    {"aten.pixel_unshuffle.default", pixel_unshuffle},
    {"aten.channel_shuffle.default", channel_shuffle},
    {"aten.native_channel_shuffle.default", channel_shuffle},
    {"aten.im2col.default", im2col},
    {"aten.col2im.default", col2im},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> image_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
