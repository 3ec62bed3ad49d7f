// Convolutions, products, pools and images.
#include <algorithm>

#include "sixfold/emulator/shapes.h"

namespace sixfold::emulator::shapes {
namespace {

using Dims = std::vector<uint32_t>;

Status expect(const TensorDef& out, size_t axis, int64_t extent) {
  if (out.dims[axis] == extent) return {};
  return unsupported("out[0] has ", out.dims[axis], " along axis ", axis, ", expected ", extent);
}

// Parameters of a window over `axes` spatial axes.
struct Window {
  std::vector<int64_t> stride, dilation, before, after;
};

Result<Window> window_of(const OpView& op, size_t axes) {
  Window w;
  const std::span<const uint32_t> stride = op.words("stride"), dilation = op.words("dilation"),
                                  pads = op.words("pad_amount");
  if (stride.size() != axes) return unsupported("stride has ", stride.size(), " elements, expected ", axes);
  if (pads.size() != 2 * axes || op.find("pad_amount")->tensor.dims != Dims{static_cast<uint32_t>(axes), 2})
    return unsupported("pad_amount has dims ", op.find("pad_amount")->tensor.dims, ", expected [", axes,
                       ", 2]");
  if (!dilation.empty() && dilation.size() != axes)
    return unsupported("dilation has ", dilation.size(), " elements, expected ", axes);
  for (size_t i = 0; i < axes; ++i) {
    w.stride.push_back(stride[i]);
    w.dilation.push_back(dilation.empty() ? 1 : dilation[i]);
    w.before.push_back(pads[2 * i]);
    w.after.push_back(pads[2 * i + 1]);
    if (stride[i] == 0 || w.dilation.back() == 0)
      return unsupported("stride is ", stride[i], " and dilation ", w.dilation.back(), " along axis ", i);
  }
  return w;
}

// Results along one axis; rounding up when asked.
int64_t positions(int64_t extent, int64_t kernel, int64_t stride, int64_t dilation, int64_t pads, bool up) {
  const int64_t room = extent + pads - (dilation * (kernel - 1) + 1);
  if (room < 0) return 0;
  return (up ? (room + stride - 1) / stride : room / stride) + 1;
}

Status bias(const OpView& op, uint32_t channels) {
  if (!op.in(2).is_present() || op.in(2).dims[0] == channels) return {};
  return unsupported("in[2] has ", op.in(2).dims[0], " elements, expected ", channels);
}

Status windows(const OpView& op, const Window& w, const Dims& filter) {
  const Dims& x = op.in(0).dims;
  SF_TRY(expect(op.out(), 0, x[0]));
  for (size_t i = 0; i + 2 < x.size(); ++i)
    SF_TRY(
        expect(op.out(), i + 1,
               positions(x[i + 1], filter[i], w.stride[i], w.dilation[i], w.before[i] + w.after[i], false)));
  return {};
}

}  // namespace

Status convolution(const OpView& op) {
  const Dims &x = op.in(0).dims, &filter = op.in(1).dims;
  const size_t axes = x.size() - 2;
  SF_ASSIGN(const Window w, window_of(op, axes));
  const uint32_t groups = op.u32("group", 1), channels = filter.back();
  if (groups == 0 || x.back() % groups != 0 || channels % groups != 0)
    return unsupported("group is ", groups, " for ", x.back(), " and ", channels, " channels");
  if (filter[axes] != x.back() / groups)
    return unsupported("in[1] has ", filter[axes], " channels along axis ", axes, ", expected ", x.back(),
                       " / ", groups);
  SF_TRY(bias(op, channels));
  SF_TRY(expect(op.out(), axes + 1, channels));
  return windows(op, w, filter);
}

Status depthwise(const OpView& op) {
  const Dims &x = op.in(0).dims, &filter = op.in(1).dims;
  SF_ASSIGN(const Window w, window_of(op, 2));
  if (filter[2] != 1 || filter[3] % x[3] != 0)
    return unsupported("in[1] has dims ", filter, " for ", x[3], " channels");
  SF_TRY(bias(op, filter[3]));
  SF_TRY(expect(op.out(), 3, filter[3]));
  return windows(op, w, filter);
}

Status transposed(const OpView& op) {
  const Dims &x = op.in(0).dims, &filter = op.in(1).dims;
  const size_t axes = x.size() - 2;
  SF_ASSIGN(const Window w, window_of(op, axes));
  const std::span<const uint32_t> more = op.words("output_padding");
  if (!more.empty() && more.size() != axes)
    return unsupported("output_padding has ", more.size(), " elements, expected ", axes);
  const uint32_t groups = op.u32("group", 1), channels = op.out().dims.back();
  if (groups == 0 || x.back() % groups != 0)
    return unsupported("in[0] has ", x.back(), " channels, which ", groups, " groups do not divide");
  const uint64_t in = filter[axes], out = filter[axes + 1];
  if ((in != x.back() && in * groups != x.back()) || (out != channels && out * groups != channels))
    return unsupported("in[1] has dims ", filter, " for ", x.back(), " channels to ", channels, " in ",
                       groups, " groups");
  SF_TRY(expect(op.out(), 0, x[0]));
  for (size_t i = 0; i < axes; ++i) {
    const int64_t extra = more.empty() ? 0 : more[i];
    if (extra > 0 && extra >= std::max(w.stride[i], w.dilation[i]))
      return unsupported("output_padding is ", extra, " with stride ", w.stride[i]);
    SF_TRY(expect(op.out(), i + 1,
                  (int64_t{x[i + 1]} - 1) * w.stride[i] + w.dilation[i] * (int64_t{filter[i]} - 1) + 1 -
                      w.before[i] - w.after[i] + extra));
  }
  return {};
}

Status fully_connected(const OpView& op) {
  const Dims& filter = op.in(1).dims;
  const uint64_t count = static_cast<uint64_t>(op.in(0).count());
  if (count % filter[1] != 0)
    return unsupported("in[0] has ", count, " elements, which rows of ", filter[1], " do not divide");
  SF_TRY(bias(op, filter[0]));
  SF_TRY(expect(op.out(), op.out().rank() - 1, filter[0]));
  const uint64_t rows = static_cast<uint64_t>(op.out().count()) / filter[0];
  if (rows != count / filter[1])
    return unsupported("out[0] has ", rows, " rows, expected ", count / filter[1]);
  return {};
}

Status matmul(const OpView& op) {
  const Dims &a = op.in(0).dims, &b = op.in(1).dims, &y = op.out().dims;
  const size_t rank = std::max(a.size(), b.size());
  if (y.size() != rank) return unsupported("out[0] has rank ", y.size(), ", expected ", rank);
  const bool turn_a = op.boolean("transpose_in0", false), turn_b = op.boolean("transpose_in1", false);
  const uint32_t rows = a[a.size() - (turn_a ? 1 : 2)], inner = a[a.size() - (turn_a ? 2 : 1)];
  const uint32_t other = b[b.size() - (turn_b ? 1 : 2)], columns = b[b.size() - (turn_b ? 2 : 1)];
  if (inner != other) return unsupported("in[0] has ", inner, " columns, in[1] ", other, " rows");
  SF_TRY(bias(op, columns));
  SF_TRY(expect(op.out(), rank - 2, rows));
  SF_TRY(expect(op.out(), rank - 1, columns));
  for (size_t i = 3; i <= rank; ++i) {
    const uint32_t da = i <= a.size() ? a[a.size() - i] : 1, db = i <= b.size() ? b[b.size() - i] : 1;
    if (da != db && da != 1 && db != 1)
      return unsupported("in[0] has ", da, " along batch axis ", rank - i, ", in[1] ", db);
    SF_TRY(expect(op.out(), rank - i, std::max(da, db)));
  }
  return {};
}

namespace {
Status pool(const OpView& op, bool checks_all) {
  const Dims &x = op.in(0).dims, &y = op.out().dims;
  const size_t axes = x.size() - 2;
  SF_ASSIGN(const Window w, window_of(op, axes));
  const std::span<const uint32_t> filter = op.words("filter_size");
  if (filter.size() != axes)
    return unsupported("filter_size has ", filter.size(), " elements, expected ", axes);
  const uint32_t rounding = op.u32("rounding_mode", 0);
  if (rounding > 1) return unsupported("rounding_mode is ", rounding, ", expected at most 1");
  // Of flat pools the device compares only the positions.
  if (checks_all && (x[0] != y[0] || x.back() != y.back()))
    return unsupported("in[0] has dims ", x, ", out[0] ", y);
  for (size_t i = 0; i < axes; ++i) {
    if (filter[i] == 0) return unsupported("filter_size is 0 along axis ", i);
    SF_TRY(expect(op.out(), i + 1,
                  positions(x[i + 1], filter[i], w.stride[i], 1, w.before[i] + w.after[i], rounding == 1)));
  }
  return {};
}
}  // namespace

Status pool2d(const OpView& op) { return pool(op, false); }
Status pool3d(const OpView& op) { return pool(op, true); }

Status grid_sample(const OpView& op) {
  const Dims &x = op.in(0).dims, &grid = op.in(1).dims;
  if (op.u32("mode", 0) > 1 || op.u32("padding_mode", 0) > 2)
    return unsupported("mode is ", op.u32("mode", 0), " and padding_mode ", op.u32("padding_mode", 0));
  if (x.size() == 5 && op.in(0).is_float())
    return unsupported("in[0] has rank 5 and is ", qnn::to_text(op.in(0).dtype), ", expected fixed point");
  if (grid.size() != x.size() || grid[0] != x[0] || grid.back() != x.size() - 2)
    return unsupported("in[1] has dims ", grid, " for dims ", x);
  Dims dims = grid;
  dims.back() = x.back();
  if (op.out().dims != dims) return unsupported("out[0] has dims ", op.out().dims, ", expected ", dims);
  return {};
}

Status resize(const OpView& op) {
  const Dims& x = op.in(0).dims;
  if (op.boolean("align_corners", false) && op.boolean("half_pixel_centers", false))
    return unsupported("align_corners and half_pixel_centers exclude each other");
  SF_TRY(expect(op.out(), 0, x[0]));
  return expect(op.out(), 3, x[3]);
}

}  // namespace sixfold::emulator::shapes
