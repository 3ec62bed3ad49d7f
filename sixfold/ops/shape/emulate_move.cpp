// Concat, Split, Pack, UnPack, Tile, StridedSlice, Pad and the rearranging of blocks on the emulator:
// elements are moved, and brought to the output's encoding where that differs.
#include <cstring>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

// f(T()) with an unsigned integer of so many bytes.
template <typename F>
void with_size(size_t size, const F& f) {
  if (size == 1) return f(uint8_t{});
  if (size == 2) return f(uint16_t{});
  if (size == 4) return f(uint32_t{});
  f(uint64_t{});
}

// Output elements from an input with any strides.
struct Strided {
  cpu::BroadcastLoop<2> loop;
  int64_t base;
  DataType dtype;
  Recode recode;

  void run(const Run& run) const {
    with_size(qnn::size_of(dtype), [&](auto t) {
      using T = decltype(t);
      const T* x = run.in<T>(0) + base;
      T* y = run.out<T>();
      const int64_t step = loop.stride(1);
      loop.run(run.pool, cpu::kElementwiseGrain, [&](const auto& at, size_t n) {
        if (step == 1)
          std::memcpy(y + at[0], x + at[1], n * sizeof(T));
        else
          for (size_t i = 0; i < n; ++i)
            y[at[0] + static_cast<int64_t>(i)] = x[at[1] + static_cast<int64_t>(i) * step];
        recode.apply(dtype, run.outs[0], at[0], static_cast<int64_t>(n));
      });
    });
  }
};

// Runs of bytes between one tensor and several: `rows` rows of the whole, part i having runs of sizes[i].
struct Blocks {
  bool split;  // one input to several outputs, or several to one
  int64_t rows;
  std::vector<size_t> sizes;  // bytes of a run
  DataType dtype;
  std::vector<Recode> recodes;

  void run(const Run& run) const {
    size_t whole = 0;
    for (const size_t s : sizes) whole += s;
    const auto grain = static_cast<int64_t>(std::max<size_t>(1, (1 << 16) / std::max<size_t>(whole, 1)));
    run.pool.for_ranges(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        size_t at = 0;
        for (size_t i = 0; i < sizes.size(); ++i) {
          const size_t one = static_cast<size_t>(r) * sizes[i], all = static_cast<size_t>(r) * whole + at;
          std::byte* to = split ? run.outs[i] + one : run.outs[0] + all;
          std::memcpy(to, split ? run.ins[0] + all : run.ins[i] + one, sizes[i]);
          const auto elements = static_cast<int64_t>(sizes[i] / qnn::size_of(dtype));
          recodes[i].apply(dtype, to, 0, elements, r * elements);
          at += sizes[i];
        }
      }
    });
  }
};

// For each axis, which input index an output index takes; -1: the constant.
struct Padded {
  std::vector<std::vector<int64_t>> from;
  std::vector<int64_t> strides;  // of the input
  DataType dtype;
  uint64_t constant;
  Recode recode;

  void run(const Run& run) const {
    const size_t rank = from.size();
    const auto width = static_cast<int64_t>(from.back().size());
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < rank; ++d) rows *= static_cast<int64_t>(from[d].size());
    // Where the elements of a row are neighbours in the input too, but for constants at its ends.
    const std::vector<int64_t>& columns = from.back();
    int64_t first = 0, last = 0;
    while (first < width && columns[static_cast<size_t>(first)] < 0) ++first;
    for (last = first; last < width; ++last)
      if (columns[static_cast<size_t>(last)] != columns[static_cast<size_t>(first)] + last - first) break;
    const bool plain = std::all_of(columns.begin() + last, columns.end(), [](int64_t i) { return i < 0; });
    with_size(qnn::size_of(dtype), [&](auto t) {
      using T = decltype(t);
      run.pool.for_ranges(rows, std::max<int64_t>(1, 16384 / width), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          int64_t rest = r, base = 0;
          bool inside = true;
          for (size_t d = rank - 1; d-- > 0;) {
            const auto extent = static_cast<int64_t>(from[d].size());
            const int64_t i = from[d][static_cast<size_t>(rest % extent)];
            rest /= extent;
            inside = inside && i >= 0;
            base += i * strides[d];
          }
          T* y = run.out<T>() + r * width;
          if (!inside) {
            std::fill_n(y, width, static_cast<T>(constant));
            continue;
          }
          if (plain && first < last) {
            std::fill(y, y + first, static_cast<T>(constant));
            const T* x = run.in<T>(0) + base + columns[static_cast<size_t>(first)];
            std::copy(x, x + (last - first), y + first);
            recode.apply(dtype, run.outs[0], r * width + first, last - first);
            std::fill(y + last, y + width, static_cast<T>(constant));
            continue;
          }
          for (int64_t c = 0; c < width; ++c) {
            const int64_t i = columns[static_cast<size_t>(c)];
            if (i < 0) {
              y[c] = static_cast<T>(constant);
              continue;
            }
            y[c] = run.in<T>(0)[base + i];
            recode.apply(dtype, run.outs[0], r * width + c, 1);
          }
        }
      });
    });
  }
};

Status check_types(const OpView& op) {
  for (const TensorDef* y : op.outputs)
    for (size_t i = 0; i < op.input_count(); ++i)
      if (op.in(i).dtype != y->dtype)
        return unsupported("in[", i, "] is ", qnn::to_text(op.in(i).dtype), ", ", y->name, " ",
                           qnn::to_text(y->dtype));
  return {};
}

Step strided(const OpView& op, Prepare& prepare, const cpu::TensorDesc& y, const cpu::TensorDesc& moved,
             int64_t base, const Recode& recode) {
  prepare.use_constants();
  return prepare.step(Strided{cpu::BroadcastLoop<2>({&y, &moved}), base, op.out().dtype, recode});
}

}  // namespace

Status check_concat(const OpView& op, const DeviceModel&) {
  SF_TRY(check_types(op));
  const TensorDef& y = op.out();
  const uint32_t axis = op.u32("axis", 0);
  if (axis >= y.rank()) return unsupported("axis is ", axis, " of ", y.rank());
  uint64_t sum = 0;
  for (size_t i = 0; i < op.input_count(); ++i) {
    const TensorDef& x = op.in(i);
    if (x.rank() != y.rank()) return unsupported("in[", i, "] has rank ", x.rank(), ", out[0] ", y.rank());
    for (size_t d = 0; d < y.rank(); ++d)
      if (d != axis && x.dims[d] != y.dims[d])
        return unsupported("in[", i, "] has dims ", x.dims, ", out[0] ", y.dims, ", along axis ", axis);
    sum += x.dims[axis];
  }
  if (sum != y.dims[axis])
    return unsupported("the inputs have ", sum, " along axis ", axis, ", out[0] ", y.dims[axis]);
  return {};
}

Result<Step> prepare_concat(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const AroundAxis around(op.out().dims, op.u32("axis", 0));
  Blocks step{.split = false, .rows = around.before, .dtype = op.out().dtype};
  for (size_t i = 0; i < op.input_count(); ++i) {
    const AroundAxis part(op.in(i).dims, op.u32("axis", 0));
    step.sizes.push_back(static_cast<size_t>(part.extent * part.after) * qnn::size_of(step.dtype));
    step.recodes.push_back(Recode::between(op.in(i), op.out()));
  }
  return prepare.step(std::move(step));
}

Status check_split(const OpView& op, const DeviceModel&) {
  SF_TRY(check_types(op));
  const TensorDef& x = op.in(0);
  const uint32_t axis = op.u32("axis", 0);
  if (axis >= x.rank()) return unsupported("axis is ", axis, " of ", x.rank());
  const std::span<const uint32_t> at = op.words("split_index");
  uint64_t sum = 0;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const TensorDef& y = op.out(i);
    if (y.rank() != x.rank()) return unsupported("out[", i, "] has rank ", y.rank(), ", in[0] ", x.rank());
    for (size_t d = 0; d < x.rank(); ++d)
      if (d != axis && x.dims[d] != y.dims[d])
        return unsupported("out[", i, "] has dims ", y.dims, ", in[0] ", x.dims, ", along axis ", axis);
    if (i > 0 && i <= at.size() && at[i - 1] != sum)
      return unsupported("split_index says ", at[i - 1], " where out[", i, "] begins at ", sum);
    sum += y.dims[axis];
  }
  if (sum != x.dims[axis])
    return unsupported("the outputs have ", sum, " along axis ", axis, ", in[0] ", x.dims[axis]);
  return {};
}

Result<Step> prepare_split(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const uint32_t axis = op.u32("axis", 0);
  Blocks step{.split = true, .rows = AroundAxis(op.in(0).dims, axis).before, .dtype = op.in(0).dtype};
  for (const TensorDef* y : op.outputs) {
    const AroundAxis part(y->dims, axis);
    step.sizes.push_back(static_cast<size_t>(part.extent * part.after) * qnn::size_of(step.dtype));
    step.recodes.push_back(Recode::between(op.in(0), *y));
  }
  return prepare.step(std::move(step));
}

// Tensors of one shape as slices of one with an axis more.
Status check_pack(const OpView& op, const DeviceModel&) {
  SF_TRY(check_types(op));
  const bool pack = op.type == "Pack";
  const TensorDef& whole = pack ? op.out() : op.in(0);
  const size_t parts = pack ? op.input_count() : op.outputs.size();
  const uint32_t axis = op.u32("axis", 0);
  if (axis >= whole.rank()) return unsupported("axis is ", axis, " of ", whole.rank());
  if (whole.dims[axis] != parts)
    return unsupported("axis ", axis, " has ", whole.dims[axis], " slices, there are ", parts);
  std::vector<uint32_t> slice = whole.dims;
  slice.erase(slice.begin() + axis);
  for (size_t i = 0; i < parts; ++i)
    if ((pack ? op.in(i) : op.out(i)).dims != slice)
      return unsupported(pack ? "in[" : "out[", i, "] has dims ", (pack ? op.in(i) : op.out(i)).dims,
                         ", expected ", slice);
  return {};
}

Result<Step> prepare_pack(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const bool pack = op.type == "Pack";
  const TensorDef& whole = pack ? op.out() : op.in(0);
  const AroundAxis around(whole.dims, op.u32("axis", 0));
  Blocks step{.split = !pack, .rows = around.before, .dtype = whole.dtype};
  for (size_t i = 0; i < (pack ? op.input_count() : op.outputs.size()); ++i) {
    step.sizes.push_back(static_cast<size_t>(around.after) * qnn::size_of(step.dtype));
    step.recodes.push_back(pack ? Recode::between(op.in(i), whole) : Recode::between(whole, op.out(i)));
  }
  return prepare.step(std::move(step));
}

Status check_tile(const OpView& op, const DeviceModel&) {
  SF_TRY(check_types(op));
  const TensorDef &x = op.in(0), &y = op.out();
  const std::span<const uint32_t> times = op.words("multiples");
  if (times.size() != x.rank() || y.rank() != x.rank())
    return unsupported("multiples has ", times.size(), " numbers, in[0] rank ", x.rank(), ", out[0] ",
                       y.rank());
  for (size_t d = 0; d < x.rank(); ++d)
    if (uint64_t{x.dims[d]} * times[d] != y.dims[d])
      return unsupported("axis ", d, ": ", x.dims[d], " times ", times[d], " is not ", y.dims[d]);
  return {};
}

Result<Step> prepare_tile(const OpView& op, Prepare& prepare) {
  const cpu::TensorDesc x = describe(op.in(0));
  const std::span<const uint32_t> times = op.words("multiples");
  // Every axis as two: repetitions, and what is repeated.
  cpu::TensorDesc y, moved;
  y.dtype = moved.dtype = x.dtype;
  for (size_t d = 0; d < times.size(); ++d) {
    for (const int64_t extent : {static_cast<int64_t>(times[d]), x.shape[d]}) y.shape.push_back(extent);
    moved.strides.push_back(0);
    moved.strides.push_back(x.strides[d]);
  }
  moved.shape = y.shape;
  y.strides.assign(y.shape.size(), 1);
  for (size_t d = y.shape.size(); d-- > 1;) y.strides[d - 1] = y.strides[d] * y.shape[d];
  return strided(op, prepare, y, moved, 0, Recode::between(op.in(0), op.out()));
}

namespace {
// Along one axis: negative places count from the end, what lies beyond an end is left out. Masks have a bit
// for each axis: whose begin or end does not count, and which is gone, with one element left.
struct SliceRange {
  int64_t begin, step, count;
  bool gone;

  SliceRange(const OpView& op, size_t axis) {
    const std::span<const int32_t> range = op.signed_words("ranges").subspan(3 * axis, 3);
    const int64_t extent = op.in(0).dims[axis];
    const auto has = [&](const char* mask) { return (op.u32(mask, 0) >> axis & 1) != 0; };
    step = range[2];
    gone = has("shrink_axes");
    const bool up = step > 0;
    begin = std::clamp<int64_t>(range[0] < 0 ? range[0] + extent : range[0], 0, up ? extent : extent - 1);
    if (has("begin_mask")) begin = up ? 0 : extent - 1;
    int64_t end = up ? std::clamp<int64_t>(range[1] < 0 ? range[1] + extent : range[1], 0, extent)
                     : std::clamp<int64_t>(range[1], -1, extent);
    if (has("end_mask")) end = up ? extent : -1;
    count = step == 0 ? 0 : up ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step;
    if (gone) count = begin < extent ? 1 : 0;
  }
};
}  // namespace

Status check_slice(const OpView& op, const DeviceModel&) {
  SF_TRY(check_types(op));
  const TensorDef &x = op.in(0), &y = op.out();
  const std::span<const int32_t> ranges = op.signed_words("ranges");
  if (ranges.size() != 3 * x.rank() || y.rank() > x.rank())
    return unsupported("ranges has ", ranges.size(), " numbers, in[0] rank ", x.rank(), ", out[0] ",
                       y.rank());
  if (op.u32("new_axes_mask", 0)) return unsupported("new_axes_mask is not 0");
  size_t at = 0;  // in y; an output whose axes are all gone has one of one element
  for (size_t d = 0; d < x.rank(); ++d) {
    const SliceRange r(op, d);
    const int64_t want = r.gone ? 1 : at < y.rank() ? y.dims[at++] : 0;
    if (r.count <= 0 || r.count != want)
      return unsupported("axis ", d, ": ", ranges[3 * d], " to ", ranges[3 * d + 1], " by ", r.step, " of ",
                         x.dims[d], " is not ", want, " elements");
  }
  for (; at < y.rank(); ++at)
    if (y.dims[at] != 1) return unsupported("out[0] has dims ", y.dims, ", of which ", at, " are sliced");
  return {};
}

Result<Step> prepare_slice(const OpView& op, Prepare& prepare) {
  const cpu::TensorDesc x = describe(op.in(0)), y = describe(op.out());
  cpu::TensorDesc moved = y;
  int64_t base = 0;
  size_t at = 0;
  for (size_t d = 0; d < x.rank(); ++d) {
    const SliceRange r(op, d);
    base += r.begin * x.strides[d];
    if (!r.gone) moved.strides[at++] = r.step * x.strides[d];
  }
  return strided(op, prepare, y, moved, base, Recode::between(op.in(0), op.out()));
}

// scheme: 0 constant, 1 mirror with the edge, 2 without, 3 the edge itself
Status check_pad(const OpView& op, const DeviceModel&) {
  SF_TRY(check_types(op));
  const TensorDef &x = op.in(0), &y = op.out();
  const std::span<const uint32_t> amount = op.words("pad_amount");
  const uint32_t scheme = op.u32("scheme", UINT32_MAX);
  if (scheme > 3) return unsupported("scheme is ", scheme, ", expected 0 to 3");
  if (x.rank() == 0 || amount.size() != 2 * x.rank() || y.rank() != x.rank())
    return unsupported("pad_amount has ", amount.size(), " numbers, in[0] rank ", x.rank(), ", out[0] ",
                       y.rank());
  for (size_t d = 0; d < x.rank(); ++d) {
    if (uint64_t{x.dims[d]} + amount[2 * d] + amount[2 * d + 1] != y.dims[d])
      return unsupported("axis ", d, ": ", x.dims[d], " with ", amount[2 * d], " before and ",
                         amount[2 * d + 1], " after is not ", y.dims[d]);
    const uint32_t most = std::max(amount[2 * d], amount[2 * d + 1]);
    if ((scheme == 1 && most > x.dims[d]) || (scheme == 2 && most >= std::max(x.dims[d], 1u) && most > 0))
      return unsupported("axis ", d, " has ", x.dims[d], " to mirror, ", most, " are asked for");
  }
  return {};
}

Result<Step> prepare_pad(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &y = op.out();
  const std::span<const uint32_t> amount = op.words("pad_amount");
  const uint32_t scheme = op.u32("scheme", 0);
  Padded step{.from = {}, .strides = {}, .dtype = y.dtype, .constant = 0, .recode = Recode::between(x, y)};
  const cpu::TensorDesc dx = describe(x);
  step.strides.assign(dx.strides.begin(), dx.strides.end());
  for (size_t d = 0; d < x.rank(); ++d) {
    const auto n = static_cast<int64_t>(x.dims[d]), before = static_cast<int64_t>(amount[2 * d]);
    std::vector<int64_t> from(y.dims[d]);
    for (size_t o = 0; o < from.size(); ++o) {
      int64_t i = static_cast<int64_t>(o) - before;
      if (i < 0 || i >= n) {
        if (scheme == 0) i = -1;
        if (scheme == 1) i = i < 0 ? -i - 1 : 2 * n - 1 - i;
        if (scheme == 2) i = i < 0 ? -i : 2 * n - 2 - i;
        if (scheme == 3) i = i < 0 ? 0 : n - 1;
      }
      from[o] = i;
    }
    step.from.push_back(std::move(from));
  }
  const ParamDef* given = op.find("pad_constant_value");
  const double value = !given                          ? 0.0
                       : given->dtype == DataType::f32 ? static_cast<double>(op.f32("pad_constant_value", 0))
                       : given->dtype == DataType::i32 ? op.i32("pad_constant_value", 0)
                                                       : op.u32("pad_constant_value", 0);
  // A constant is one of the input's numbers; what repeats the image moves stored numbers as they are.
  with_type(y.dtype, [&](auto t) {
    using T = decltype(t);
    T v = Codec::of(x).encode<T>(value);
    if (!step.recode.same)
      if constexpr (std::is_integral_v<T>) v = static_cast<T>(step.recode(v, false));
    std::memcpy(&step.constant, &v, sizeof v);
  });
  if (scheme != 0) step.recode = Recode();
  return prepare.step(std::move(step));
}

// [N, H, W, C]: depth to blocks of pixels and back; mode 0: the depth is outermost, 1: innermost.
Status check_space(const OpView& op, const DeviceModel&) {
  SF_TRY(check_types(op));
  const bool to_space = op.type == "DepthToSpace";
  const TensorDef &deep = to_space ? op.in(0) : op.out(), &wide = to_space ? op.out() : op.in(0);
  const std::span<const uint32_t> block = op.words("block_size");
  if (block.size() != 2 || block[0] == 0 || block[1] == 0)
    return unsupported("block_size has ", block.size(), " numbers");
  if (op.u32("mode", 0) > 1) return unsupported("mode is ", op.u32("mode", 0), ", expected 0 or 1");
  const bool fits = deep.rank() == 4 && wide.rank() == 4 && deep.dims[0] == wide.dims[0] &&
                    uint64_t{deep.dims[1]} * block[0] == wide.dims[1] &&
                    uint64_t{deep.dims[2]} * block[1] == wide.dims[2] &&
                    uint64_t{wide.dims[3]} * block[0] * block[1] == deep.dims[3];
  if (!fits)
    return unsupported("in[0] has dims ", op.in(0).dims, ", out[0] ", op.out().dims, ", with blocks of ",
                       block);
  return {};
}

Result<Step> prepare_space(const OpView& op, Prepare& prepare) {
  const bool to_space = op.type == "DepthToSpace";
  const TensorDef &deep = to_space ? op.in(0) : op.out(), &wide = to_space ? op.out() : op.in(0);
  const std::span<const uint32_t> block = op.words("block_size");
  const auto p = static_cast<int64_t>(block[0]), q = static_cast<int64_t>(block[1]);
  const auto n = static_cast<int64_t>(deep.dims[0]), h = static_cast<int64_t>(deep.dims[1]),
             w = static_cast<int64_t>(deep.dims[2]), c = static_cast<int64_t>(wide.dims[3]), d = c * p * q;
  const bool inner = op.u32("mode", 0) == 1;  // channel is the slowest of the depth
  const int64_t sp = inner ? q : q * c, sq = inner ? 1 : c, sc = inner ? p * q : 1;
  cpu::TensorDesc y, moved;
  y.dtype = moved.dtype = qnn::storage_of(deep.dtype);
  if (to_space) {  // y: n h p w q c
    y.shape = {n, h, p, w, q, c};
    moved.strides = {h * w * d, w * d, sp, d, sq, sc};
  } else {  // y: n h w and the depth's three
    const int64_t row = w * q * c;
    y.shape = inner ? Shape{n, h, w, c, p, q} : Shape{n, h, w, p, q, c};
    moved.strides =
        inner ? Shape{h * p * row, p * row, q * c, 1, row, c} : Shape{h * p * row, p * row, q * c, row, c, 1};
  }
  moved.shape = y.shape;
  y.strides.assign(6, 1);
  for (size_t i = 6; i-- > 1;) y.strides[i - 1] = y.strides[i] * y.shape[i];
  return strided(op, prepare, y, moved, 0, Recode());  // stored numbers, whatever the encodings
}

}  // namespace sixfold::emulator
