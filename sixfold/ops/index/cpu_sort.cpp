// sort, topk and searchsorted. NaN is larger than every number; of equals the one with the lower index comes
// first.
#include <algorithm>
#include <cmath>

#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <typename W>
bool less(W a, W b) {
  if constexpr (std::is_floating_point_v<W>)
    return a < b || (std::isnan(b) && !std::isnan(a));
  else
    return a < b;
}

template <typename T>
struct Item {
  T value;
  int64_t index;
};

template <typename T>
bool before(const Item<T>& a, const Item<T>& b) {
  const auto x = static_cast<Wide<T>>(a.value), y = static_cast<Wide<T>>(b.value);
  if (less(x, y)) return true;
  return !less(y, x) && a.index < b.index;
}
template <typename T>
bool before_descending(const Item<T>& a, const Item<T>& b) {
  const auto x = static_cast<Wide<T>>(a.value), y = static_cast<Wide<T>>(b.value);
  if (less(y, x)) return true;
  return !less(x, y) && a.index < b.index;
}

// The first `keep` elements in order, for every lane along the axis.
template <typename T>
KernelResult make_select(const KernelCall& call, int64_t keep, bool descending) {
  const TensorDesc& x = call.in[0];
  const auto axis = static_cast<size_t>(call.attrs.integer("dim"));
  const int64_t length = x.shape[axis];
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < axis; ++d) outer *= x.shape[d];
  for (size_t d = axis + 1; d < x.rank(); ++d) inner *= x.shape[d];
  const int64_t lanes = outer * inner;
  return make_kernel(
      [=](const Buffers& b) {
        auto* items = reinterpret_cast<Item<T>*>(b.scratch);
        const T* x = b.input<T>(0);
        T* values = b.output<T>(0);
        auto* indices = b.output<int64_t>(1);
        const int64_t grain = 4096 / std::max<int64_t>(length, 1);
        b.pool.for_ranges(lanes, grain, [&](int64_t begin, int64_t end) {
          for (int64_t lane = begin; lane < end; ++lane) {
            Item<T>* first = items + lane * length;
            const T* from = x + lane / inner * length * inner + lane % inner;
            for (int64_t i = 0; i < length; ++i) first[i] = {from[i * inner], i};
            const auto order = [&](const auto& comes_first) {
              if (keep < length) std::nth_element(first, first + keep, first + length, comes_first);
              std::sort(first, first + keep, comes_first);
            };
            if (descending)
              order([](const Item<T>& p, const Item<T>& q) { return before_descending(p, q); });
            else
              order([](const Item<T>& p, const Item<T>& q) { return before(p, q); });
            const int64_t to = lane / inner * keep * inner + lane % inner;
            for (int64_t i = 0; i < keep; ++i) {
              values[to + i * inner] = first[i].value;
              indices[to + i * inner] = first[i].index;
            }
          }
        });
        return ok_status();
      },
      {.scratch_bytes = static_cast<size_t>(lanes * length) * sizeof(Item<T>)});
}

template <typename T>
KernelResult make_search(const KernelCall& call) {
  const TensorDesc &sorted = call.in[0], &values = call.in[1];
  const int64_t length = sorted.shape.back(), count = values.count();
  // Values of one row of `sorted`; all of them when it is the only row.
  const int64_t row =
      sorted.rank() == 1 ? std::max<int64_t>(count, 1) : std::max<int64_t>(values.shape.back(), 1);
  const bool right = call.attrs.flag("right");
  return make_kernel([=](const Buffers& b) {
    const T* sorted = b.input<T>(0);
    const T* values = b.input<T>(1);
    auto* out = b.output<int64_t>();
    b.pool.for_ranges(count, 2048, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* first = sorted + i / row * length;
        const auto value = static_cast<Wide<T>>(values[i]);
        int64_t low = 0, high = length;
        while (low < high) {  // comparisons as torch makes them: a NaN goes to the end
          const int64_t middle = low + (high - low) / 2;
          const auto x = static_cast<Wide<T>>(first[middle]);
          if (right ? !(x > value) : !(x >= value))
            low = middle + 1;
          else
            high = middle;
        }
        out[i] = low;
      }
    });
    return ok_status();
  });
}

}  // namespace

KernelResult sort(const KernelCall& call) {
  const int64_t length = call.in[0].shape[static_cast<size_t>(call.attrs.integer("dim"))];
  return with_type(call.in[0].dtype, [&](auto tag) {
    return make_select<decltype(tag)>(call, length, call.attrs.flag("descending"));
  });
}

KernelResult topk(const KernelCall& call) {
  return with_type(call.in[0].dtype, [&](auto tag) {
    return make_select<decltype(tag)>(call, call.attrs.integer("k"), call.attrs.flag("largest"));
  });
}

KernelResult searchsorted(const KernelCall& call) {
  return with_type(call.in[0].dtype, [&](auto tag) { return make_search<decltype(tag)>(call); });
}

}  // namespace sixfold::cpu
