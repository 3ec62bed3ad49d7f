// Gathers, scatters and TopK on the emulator. An index beyond its axis is taken as the nearest that is there,
// so no index reads or writes elsewhere; a negative one counts from the end.
#include <cstring>
#include <numeric>

#include "sixfold/emulator/elements.h"
#include "sixfold/emulator/kernel.h"
#include "sixfold/emulator/layout.h"

namespace sixfold::emulator {
namespace {

bool is_index(DataType t) {
  return t == DataType::i32 || t == DataType::u32 || t == DataType::i64 || t == DataType::u64;
}

int64_t index_at(const std::byte* data, DataType dtype, int64_t i, int64_t extent) {
  int64_t v = 0;
  if (dtype == DataType::i32) v = reinterpret_cast<const int32_t*>(data)[i];
  if (dtype == DataType::u32) v = reinterpret_cast<const uint32_t*>(data)[i];
  if (dtype == DataType::i64 || dtype == DataType::u64) v = reinterpret_cast<const int64_t*>(data)[i];
  if (v < 0) v += extent;
  return std::clamp<int64_t>(v, 0, extent - 1);
}

Status check_index(const TensorDef& t) {
  if (is_index(t.dtype)) return {};
  return unsupported("in[1] is ", qnn::to_text(t.dtype), ", expected an index");
}
Status check_same(const TensorDef& x, const TensorDef& y) {
  if (x.dtype == y.dtype) return {};
  return unsupported("in[0] is ", qnn::to_text(x.dtype), ", out[0] ", qnn::to_text(y.dtype));
}
int64_t axis_of(const OpView& op) {
  const ParamDef* p = op.find("axis");
  if (!p) return 0;
  const int64_t axis = p->dtype == DataType::i32 ? op.i32("axis", 0) : int64_t{op.u32("axis", 0)};
  return axis < 0 ? axis + static_cast<int64_t>(op.in(0).rank()) : axis;
}
Status check_axis(const OpView& op) {
  const int64_t axis = axis_of(op);
  if (axis >= 0 && axis < static_cast<int64_t>(op.in(0).rank())) return {};
  return unsupported("axis is ", axis, " of ", op.in(0).rank());
}

// Runs of `run` elements: y[b, i] = x[b, index[i]].
struct GatherRows {
  int64_t before, extent, run_length, indices;
  DataType index_type, dtype;
  Recode recode;

  void run(const Run& run) const {
    const size_t size = static_cast<size_t>(run_length) * qnn::size_of(dtype);
    run.pool.for_ranges(before * indices, std::max<int64_t>(1, 16384 / run_length),
                        [&](int64_t begin, int64_t end) {
                          for (int64_t r = begin; r < end; ++r) {
                            const int64_t i = index_at(run.ins[1], index_type, r % indices, extent);
                            const int64_t from = (r / indices) * extent + i;
                            std::memcpy(run.outs[0] + static_cast<size_t>(r) * size,
                                        run.ins[0] + static_cast<size_t>(from) * size, size);
                            recode.apply(dtype, run.outs[0], r * run_length, run_length);
                          }
                        });
  }
};

// Where element i of a tensor lies in another whose axis is replaced by an index.
struct AlongAxis {
  std::vector<int64_t> extents;  // of the tensor that is walked
  std::vector<int64_t> strides;  // of the other; 0 at the axis
  int64_t axis_stride, axis_extent;

  int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (size_t d = extents.size(); d-- > 0;) {
      at += i % extents[d] * strides[d];
      i /= extents[d];
    }
    return at;
  }
};
AlongAxis along_axis(const TensorDef& walked, const TensorDef& other, size_t axis) {
  const cpu::TensorDesc d = describe(other);
  AlongAxis a{{walked.dims.begin(), walked.dims.end()},
              {d.strides.begin(), d.strides.end()},
              d.strides[axis],
              d.shape[axis]};
  a.strides[axis] = 0;
  return a;
}

struct GatherElements {
  AlongAxis along;
  int64_t count;
  DataType index_type, dtype;
  Recode recode;

  void run(const Run& run) const {
    const size_t size = qnn::size_of(dtype);
    run.pool.for_ranges(count, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at =
            along.offset(i) + index_at(run.ins[1], index_type, i, along.axis_extent) * along.axis_stride;
        std::memcpy(run.outs[0] + static_cast<size_t>(i) * size, run.ins[0] + static_cast<size_t>(at) * size,
                    size);
      }
      recode.apply(dtype, run.outs[0], begin, end - begin);
    });
  }
};

// reduction: 0 the last wins, 1 add, 2 multiply, 3 the largest, 4 the smallest
template <typename T>
void combine(T* y, T v, uint32_t reduction, const Codec& codec, const Codec& source) {
  if (reduction == 0) {
    *y = codec.dtype == source.dtype && codec.scale == source.scale && codec.offset == source.offset
             ? v
             : codec.encode<T>(source.decode(v));
    return;
  }
  const double a = codec.decode(*y), b = source.decode(v);
  *y = codec.encode_ieee<T>(reduction == 1   ? a + b
                            : reduction == 2 ? a * b
                            : reduction == 3 ? std::max(a, b)
                                             : std::min(a, b));
}

// The data first, then updates in their order, on one thread: later ones win.
struct Scatter {
  AlongAxis along;
  int64_t count, data_count, run_length;
  bool rows;                    // whole runs, by an index for each
  std::vector<int64_t> tuples;  // of ScatterNd: extents that a tuple's numbers index
  uint32_t reduction;
  DataType index_type;
  Codec in, updates, out;

  // Sums in fixed point are cut to the output's range once, at the end.
  bool sums() const { return reduction == 1 && is_narrow_fixed(out.dtype); }

  // f(where, which): element `where` of the output takes update `which`.
  template <typename F>
  void for_updates(const std::byte* indices, const F& f) const {
    const auto width = static_cast<int64_t>(tuples.size());
    for (int64_t i = 0; i < count; ++i) {
      if (!rows) {
        f(along.offset(i) + index_at(indices, index_type, i, along.axis_extent) * along.axis_stride, i);
        continue;
      }
      int64_t at = 0;
      for (size_t d = 0; d < tuples.size(); ++d)
        at = at * tuples[d] + index_at(indices, index_type, i * width + static_cast<int64_t>(d), tuples[d]);
      for (int64_t k = 0; k < run_length; ++k) f(at * run_length + k, i * run_length + k);
    }
  }

  void run(const Run& run) const {
    with_type(out.dtype, [&](auto t) {
      using T = decltype(t);
      T* y = run.out<T>();
      const T *x = run.in<T>(0), *u = run.in<T>(2);
      if (sums()) {
        auto* total = reinterpret_cast<double*>(run.scratch);
        for (int64_t i = 0; i < data_count; ++i) total[i] = in.decode(x[i]);
        for_updates(run.ins[1], [&](int64_t at, int64_t i) { total[at] += updates.decode(u[i]); });
        for (int64_t i = 0; i < data_count; ++i) y[i] = out.encode_ieee<T>(total[i]);
        return;
      }
      for (int64_t i = 0; i < data_count; ++i) combine(y + i, x[i], 0, out, in);
      for_updates(run.ins[1], [&](int64_t at, int64_t i) { combine(y + at, u[i], reduction, out, updates); });
    });
  }
};

struct GatherTuples {
  int64_t count, run_length;
  std::vector<int64_t> tuples;
  DataType index_type, dtype;
  Recode recode;

  void run(const Run& run) const {
    const size_t size = static_cast<size_t>(run_length) * qnn::size_of(dtype);
    const auto width = static_cast<int64_t>(tuples.size());
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0;
      for (size_t d = 0; d < tuples.size(); ++d)
        at =
            at * tuples[d] + index_at(run.ins[1], index_type, i * width + static_cast<int64_t>(d), tuples[d]);
      std::memcpy(run.outs[0] + static_cast<size_t>(i) * size, run.ins[0] + static_cast<size_t>(at) * size,
                  size);
      recode.apply(dtype, run.outs[0], i * run_length, run_length);
    }
  }
};

// The k largest (or smallest) of each row; of equal ones the first.
struct TopK {
  int64_t rows, width, k;
  bool largest;
  DataType dtype;

  void run(const Run& run) const {
    with_type(dtype, [&](auto t) {
      using T = decltype(t);
      // Rows run one after another: the scratch holds one row's order.
      auto* order = reinterpret_cast<int32_t*>(run.scratch);
      for (int64_t r = 0; r < rows; ++r) {
        const T* x = run.in<T>(0) + r * width;
        std::iota(order, order + width, 0);
        const auto before = [&](int32_t a, int32_t b) {
          using V = std::conditional_t<std::is_same_v<T, DeviceHalf>, float, T>;
          const V p = static_cast<V>(x[a]), q = static_cast<V>(x[b]);
          if constexpr (!std::is_integral_v<V>) {  // NaN is the largest
            if (p != p || q != q) {
              if (p != p && q != q) return a > b;
              return (p != p) == largest;
            }
          }
          if (p == q) return a > b;  // the library's order
          return largest ? p > q : p < q;
        };
        std::partial_sort(order, order + k, order + width, before);
        for (int64_t i = 0; i < k; ++i) {
          run.out<T>(0)[r * k + i] = x[order[i]];
          if (run.outs.size() > 1 && run.outs[1]) run.out<int32_t>(1)[r * k + i] = order[i];
        }
      }
    });
  }
};

}  // namespace

Status check_gather(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &i = op.in(1), &y = op.out();
  SF_TRY(check_index(i));
  SF_TRY(check_same(x, y));
  SF_TRY(check_axis(op));
  const auto axis = static_cast<size_t>(axis_of(op));
  std::vector<uint32_t> want(x.dims.begin(), x.dims.begin() + static_cast<int64_t>(axis));
  want.insert(want.end(), i.dims.begin(), i.dims.end());
  want.insert(want.end(), x.dims.begin() + static_cast<int64_t>(axis) + 1, x.dims.end());
  int64_t count = 1;
  for (const uint32_t d : want) count *= d;
  if (count != y.count()) return unsupported("out[0] has dims ", y.dims, ", expected ", want);
  if (x.dims[axis] == 0) return unsupported("in[0] has nothing along axis ", axis);
  return {};
}

Result<Step> prepare_gather(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const AroundAxis around(op.in(0).dims, static_cast<size_t>(axis_of(op)));
  return prepare.step(GatherRows{around.before, around.extent, around.after, op.in(1).count(), op.in(1).dtype,
                                 op.out().dtype, Recode::between(op.in(0), op.out())});
}

Status check_gather_elements(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &i = op.in(1), &y = op.out();
  SF_TRY(check_index(i));
  SF_TRY(check_same(x, y));
  SF_TRY(check_axis(op));
  if (i.rank() != x.rank() || y.dims != i.dims)
    return unsupported("in[0] has dims ", x.dims, ", in[1] ", i.dims, ", out[0] ", y.dims);
  for (size_t d = 0; d < x.rank(); ++d)
    if (static_cast<int64_t>(d) != axis_of(op) && i.dims[d] > x.dims[d])
      return invalid_argument("in[1] has ", i.dims[d], " along axis ", d, ", in[0] ", x.dims[d]);
  return {};
}

Result<Step> prepare_gather_elements(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  return prepare.step(GatherElements{along_axis(op.in(1), op.in(0), static_cast<size_t>(axis_of(op))),
                                     op.in(1).count(), op.in(1).dtype, op.out().dtype,
                                     Recode::between(op.in(0), op.out())});
}

Status check_gather_nd(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &i = op.in(1), &y = op.out();
  SF_TRY(check_index(i));
  SF_TRY(check_same(x, y));
  if (op.u32("batch_dims", 0) != 0) return unsupported("batch_dims is ", op.u32("batch_dims", 0));
  if (i.rank() == 0 || i.dims.back() == 0 || i.dims.back() > x.rank())
    return unsupported("in[1] has dims ", i.dims, ", in[0] ", x.dims);
  int64_t run_length = 1;
  for (size_t d = i.dims.back(); d < x.rank(); ++d) run_length *= x.dims[d];
  if (i.count() / i.dims.back() * run_length != y.count())
    return unsupported("out[0] has ", y.count(), " elements, expected ",
                       i.count() / i.dims.back() * run_length);
  return {};
}

Result<Step> prepare_gather_nd(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &i = op.in(1);
  const auto width = static_cast<int64_t>(i.dims.back());
  GatherTuples step{.count = i.count() / width,
                    .run_length = 1,
                    .index_type = i.dtype,
                    .dtype = x.dtype,
                    .recode = Recode::between(x, op.out())};
  for (size_t d = 0; d < x.rank(); ++d) {
    if (static_cast<int64_t>(d) < width)
      step.tuples.push_back(x.dims[d]);
    else
      step.run_length *= x.dims[d];
  }
  return prepare.step(std::move(step));
}

Status check_scatter(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &i = op.in(1), &u = op.in(2), &y = op.out();
  SF_TRY(check_index(i));
  SF_TRY(check_same(x, y));
  SF_TRY(check_same(u, y));
  if (x.dims != y.dims) return unsupported("in[0] has dims ", x.dims, ", out[0] ", y.dims);
  if (op.u32("reduction", 0) > 4) return unsupported("reduction is ", op.u32("reduction", 0));
  if (op.type == "ScatterElements") {
    SF_TRY(check_axis(op));
    if (i.rank() != x.rank() || u.dims != i.dims)
      return unsupported("in[0] has dims ", x.dims, ", in[1] ", i.dims, ", in[2] ", u.dims);
    for (size_t d = 0; d < x.rank(); ++d)
      if (static_cast<int64_t>(d) != axis_of(op) && i.dims[d] > x.dims[d])
        return unsupported("in[1] has ", i.dims[d], " along axis ", d, ", in[0] ", x.dims[d]);
    return {};
  }
  if (i.rank() == 0 || i.dims.back() == 0 || i.dims.back() > x.rank())
    return unsupported("in[1] has dims ", i.dims, ", in[0] ", x.dims);
  int64_t run_length = 1;
  for (size_t d = i.dims.back(); d < x.rank(); ++d) run_length *= x.dims[d];
  if (i.count() / i.dims.back() * run_length != u.count())
    return invalid_argument("in[2] has ", u.count(), " elements, expected ",
                            i.count() / i.dims.back() * run_length);
  return {};
}

Result<Step> prepare_scatter(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef &x = op.in(0), &i = op.in(1), &u = op.in(2);
  Scatter step{.along = {},
               .count = u.count(),
               .data_count = x.count(),
               .run_length = 1,
               .rows = false,
               .tuples = {},
               .reduction = op.u32("reduction", 0),
               .index_type = i.dtype,
               .in = Codec::of(x),
               .updates = Codec::of(u),
               .out = Codec::of(op.out())};
  if (step.sums()) prepare.need_scratch(static_cast<size_t>(x.count()) * sizeof(double));
  // Numbers are put there as they are stored, whatever their encodings.
  if (step.reduction == 0 && is_narrow_fixed(x.dtype)) step.in = step.updates = step.out;
  if (op.type == "ScatterElements") {
    step.along = along_axis(i, x, static_cast<size_t>(axis_of(op)));
    return prepare.step(std::move(step));
  }
  step.rows = true;
  step.count = i.count() / i.dims.back();
  for (size_t d = 0; d < x.rank(); ++d) {
    if (d < i.dims.back())
      step.tuples.push_back(x.dims[d]);
    else
      step.run_length *= x.dims[d];
  }
  return prepare.step(std::move(step));
}

Status check_topk(const OpView& op, const DeviceModel&) {
  const TensorDef &x = op.in(0), &y = op.out(), &i = op.out(1);
  SF_TRY(check_same(x, y));
  const uint32_t k = op.u32("k", 0);
  if (x.rank() == 0 || k == 0 || k > x.dims.back()) return unsupported("k is ", k, " of dims ", x.dims);
  std::vector<uint32_t> want = x.dims;
  want.back() = k;
  if (y.dims != want || (i.is_present() && i.dims != want))
    return unsupported("out[0] has dims ", y.dims, ", out[1] ", i.dims, ", expected ", want);
  if (i.is_present() && qnn::size_of(i.dtype) != 4) return unsupported("out[1] is ", qnn::to_text(i.dtype));
  return {};
}

Result<Step> prepare_topk(const OpView& op, Prepare& prepare) {
  prepare.use_constants();
  const TensorDef& x = op.in(0);
  const auto width = static_cast<int64_t>(x.dims.back());
  prepare.need_scratch(static_cast<size_t>(width) * sizeof(int32_t));
  return prepare.step(TopK{x.count() / width, width, op.u32("k", 1), op.boolean("largest", true), x.dtype});
}

}  // namespace sixfold::emulator
