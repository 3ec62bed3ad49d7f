// gather and scatter: an index of x's rank names a position along one axis for each of its elements.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sixfold/cpu/copy.h"
#include "sixfold/ops/index/positions.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kGrain = 1 << 13;

// The elements of the index tensor in order, row by row along its last axis, with the offsets that go with
// them in another tensor whose `axis` is left out (x) or kept (src).
struct Walk {
  Shape shape;        // of the index, without its last axis
  int64_t width = 1;  // extent of the last axis
  Shape strides;      // of the other tensor
  int64_t inner = 0;  // its stride along the last axis

  Walk(const Shape& index, Shape other, size_t left_out) : shape(index), strides(std::move(other)) {
    if (left_out < strides.size()) strides[left_out] = 0;
    width = shape.back();
    inner = strides.back();
    shape.pop_back();
    strides.pop_back();
  }
  int64_t rows() const { return numel(shape); }
  int64_t offset(int64_t row) const {
    int64_t out = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      out += row % shape[d] * strides[d];
      row /= shape[d];
    }
    return out;
  }
};

template <typename T>
KernelResult make_gather(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &index = call.in[1];
  const auto axis = static_cast<size_t>(call.attrs.integer("dim"));
  SF_ASSIGN(Positions positions, Positions::make({{index, x.shape[axis], x.strides[axis]}}));
  const Walk walk(index.shape, x.strides, axis);
  const size_t scratch = positions.scratch_bytes();
  return make_kernel(
      [=](const Buffers& b) -> Status {
        auto* at = reinterpret_cast<int64_t*>(b.scratch);
        SF_TRY(positions.read(b.in.data() + 1, at));
        const T* x = b.input<T>(0);
        T* out = b.output<T>();
        b.pool.for_ranges(positions.count() == 0 ? 0 : walk.rows(), kGrain / std::max<int64_t>(walk.width, 1),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t r = begin; r < end; ++r) {
                              const T* from = x + walk.offset(r);
                              for (int64_t i = 0; i < walk.width; ++i)
                                out[r * walk.width + i] = from[at[r * walk.width + i] + i * walk.inner];
                            }
                          });
        return ok_status();
      },
      {.scratch_bytes = scratch});
}

enum class Reduce { none, add, mul, mean, amax, amin };

Reduce reduction(const std::string& name) {
  static constexpr std::pair<std::string_view, Reduce> kNames[] = {{"add", Reduce::add},
                                                                   {"mul", Reduce::mul},
                                                                   {"mean", Reduce::mean},
                                                                   {"amax", Reduce::amax},
                                                                   {"amin", Reduce::amin}};
  for (const auto& [text, reduce] : kNames)
    if (text == name) return reduce;
  return Reduce::none;
}

template <typename T>
T identity(Reduce reduce) {
  switch (reduce) {
    case Reduce::mul:
      return T(1);
    case Reduce::amax:
      if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
      return std::numeric_limits<T>::lowest();
    case Reduce::amin:
      if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
      return std::numeric_limits<T>::max();
    default:
      return T(0);
  }
}

template <typename T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

template <typename T>
T combine(Reduce reduce, T a, T b) {
  switch (reduce) {
    case Reduce::add:
    case Reduce::mean:
      if constexpr (std::is_same_v<T, bool>)
        return a || b;
      else
        return static_cast<T>(a + b);
    case Reduce::mul:
      if constexpr (std::is_same_v<T, bool>)
        return a && b;
      else
        return static_cast<T>(a * b);
    case Reduce::amax:
      return is_nan(b) || a < b ? b : a;  // a NaN on either side stays
    case Reduce::amin:
      return is_nan(b) || b < a ? b : a;
    default:
      return b;
  }
}

template <typename T>
T divide(T sum, int64_t count) {
  if constexpr (std::is_floating_point_v<T>) return sum / static_cast<T>(count);
  const auto n = static_cast<int64_t>(sum);
  return static_cast<T>(n / count - (n % count < 0 ? 1 : 0));  // rounds down
}

template <typename T>
KernelResult make_scatter(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &index = call.in[1], &src = call.in[2];
  const auto axis = static_cast<size_t>(call.attrs.integer("dim"));
  const Reduce reduce = reduction(call.attrs.text("reduce"));
  const bool include_self = call.attrs.flag("include_self");
  SF_ASSIGN(Positions positions, Positions::make({{index, x.shape[axis], x.strides[axis]}}));
  const Walk to(index.shape, x.strides, axis), from(index.shape, src.strides, x.rank());
  // Elements that differ before the axis never meet: one task each. Within a task the order is the index's.
  int64_t tasks = 1;
  for (size_t d = 0; d < axis; ++d) tasks *= index.shape[d];
  const int64_t task_rows =
      tasks == 0 ? 0 : to.rows() / tasks;  // the axis may be the last: rows are then 1 each
  const size_t index_bytes = (positions.scratch_bytes() + 63) / 64 * 64;
  const bool counts = reduce == Reduce::mean;
  const size_t count_bytes = counts ? static_cast<size_t>(x.count()) * sizeof(int32_t) : 0;
  const int64_t elements = x.count();
  return make_kernel(
      [=](const Buffers& b) -> Status {
        auto* at = reinterpret_cast<int64_t*>(b.scratch);
        auto* count = reinterpret_cast<int32_t*>(b.scratch + index_bytes);
        SF_TRY(positions.read(b.in.data() + 1, at));
        copy_bytes(b.pool, b.in[0], b.out[0], static_cast<size_t>(elements) * sizeof(T));
        if (positions.count() == 0) return ok_status();
        if (counts) std::fill_n(count, elements, include_self ? 1 : 0);
        const T* src = b.input<T>(2);
        T* out = b.output<T>();
        const auto each = [&](int64_t task, const auto& f) {  // f(offset in x, offset in src)
          for (int64_t r = task * task_rows; r < (task + 1) * task_rows; ++r) {
            const int64_t target = to.offset(r), source = from.offset(r);
            for (int64_t i = 0; i < to.width; ++i)
              f(at[r * to.width + i] + target + i * to.inner, source + i * from.inner);
          }
        };
        const int64_t grain = kGrain / std::max<int64_t>(task_rows * to.width, 1);
        b.pool.for_ranges(tasks, grain, [&](int64_t begin, int64_t end) {
          for (int64_t task = begin; task < end; ++task) {
            if (!include_self && reduce != Reduce::none)
              each(task, [&](int64_t t, int64_t) { out[t] = identity<T>(reduce); });
            each(task, [&](int64_t t, int64_t s) {
              out[t] = combine(reduce, out[t], src[s]);
              if (counts) ++count[t];
            });
          }
        });
        if (counts)
          for (int64_t i = 0; i < elements; ++i)
            if (count[i] > 1) out[i] = divide(out[i], count[i]);
        return ok_status();
      },
      {.scratch_bytes = index_bytes + count_bytes, .in_place = true});
}

template <typename F>
KernelResult by_width(size_t width, const F& f) {
  switch (width) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

}  // namespace

KernelResult gather(const KernelCall& call) {
  return by_width(size_of(call.in[0].dtype), [&](auto tag) { return make_gather<decltype(tag)>(call); });
}

KernelResult scatter(const KernelCall& call) {
  const DType dtype = call.in[0].dtype;
  if (call.attrs.text("reduce") == "none")
    return by_width(size_of(dtype), [&](auto tag) { return make_scatter<decltype(tag)>(call); });
  if (is_half(dtype)) return unsupported("scatter that reduces ", dtype);
  return with_type(dtype, [&](auto tag) -> KernelResult {
    using T = decltype(tag);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      return unsupported("halves");
    else
      return make_scatter<T>(call);
  });
}

}  // namespace sixfold::cpu
