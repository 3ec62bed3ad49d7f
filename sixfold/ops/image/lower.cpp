// Resampling and rearranging of images on the NPU, channels last.
#include "sixfold/lower/lowering.h"

namespace sixfold::lower {
namespace {

using U32s = std::vector<uint32_t>;

// One resize of two axes, x: [N, H, W, C].
void resize(Lowering& l, TensorRef x, TensorRef y) {
  const std::string& mode = l.attrs().text("mode");
  const bool corners = l.attrs().flag("align_corners");
  if (mode == "cubic")
    return l.add("Resize", {x}, {y},
                 {{"exclude_outside", false},
                  {"transformation_mode", corners ? uint32_t{2} : uint32_t{1}},
                  {"interpolation_mode", uint32_t{2}},
                  {"cubic_coeff", -0.75f}});
  if (mode == "linear")
    return l.add("ResizeBilinear", {x}, {y}, {{"align_corners", corners}, {"half_pixel_centers", !corners}});
  l.add("ResizeNearestNeighbor", {x}, {y},
        {{"align_corners", false}, {"half_pixel_centers", mode == "nearest-exact"}});
}

}  // namespace

// Those whose numbers are torch's (htp.cpp keeps the others away). One axis is an image one pixel high; of
// three, the planes first, then the depth.
void upsample(Lowering& l) {
  if (l.attrs().text("mode") == "cubic" && l.quantized() && fixed_bytes(*l.encoding(0)) == 2)
    return l.refuse("with 16 bits the device's cubic resize gives anything at times  [htp.resize.1]");
  const Shape in = l.shape(), out = l.out_shape();
  const TensorRef x = l.in(), y = l.out();
  if (in.size() == 4) return resize(l, x, y);
  const auto u = [](int64_t v) { return static_cast<uint32_t>(v); };
  const uint32_t n = u(in[0]), c = u(in[1]);
  if (in.size() == 3) {
    const TensorRef part = l.temp({n, 1, u(out[2]), c}, y);
    resize(l, l.reshape(x, {n, 1, u(in[2]), c}), part);
    return l.add("Reshape", {part}, {y});
  }
  const uint32_t pixels = u(out[3] * out[4]);
  const TensorRef planes = l.temp({n * u(in[2]), u(out[3]), u(out[4]), c}, x);
  resize(l, l.reshape(x, {n * u(in[2]), u(in[3]), u(in[4]), c}), planes);
  const TensorRef part = l.temp({n, u(out[2]), pixels, c}, y);
  resize(l, l.reshape(planes, {n, u(in[2]), pixels, c}), part);
  l.add("Reshape", {part}, {y});
}

void grid_sampler(Lowering& l) {
  const std::string &mode = l.attrs().text("mode"), &padding = l.attrs().text("padding_mode");
  if (mode != "bilinear" && mode != "nearest") return l.refuse(cat("the device has no ", mode, " sampling"));
  l.add("GridSample", {l.in(0), l.in_form(1, Form::plain)}, {l.out()},
        {{"align_corners", l.attrs().flag("align_corners")},
         {"mode", mode == "nearest" ? uint32_t{1} : uint32_t{0}},
         {"padding_mode", padding == "zeros"    ? uint32_t{0}
                          : padding == "border" ? uint32_t{1}
                                                : uint32_t{2}}});
}

// Channels are in torch's order: column, row, depth.
void pixel_shuffle(Lowering& l) {
  const auto factor = static_cast<uint32_t>(l.attrs().integer("factor"));
  l.add(l.op() == Op::pixel_shuffle ? "DepthToSpace" : "SpaceToDepth", {l.in()}, {l.out()},
        {words("block_size", {factor, factor}), {"mode", uint32_t{1}}});
}

}  // namespace sixfold::lower
