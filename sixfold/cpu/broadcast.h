// The loop of every elementwise kernel with more than one operand: numpy broadcasting over strided tensors.
//
// Plan time orders the axes as the output lies in memory, merges axes that are one run for all tensors, and
// leaves an odometer over rows. A row is a run of the innermost axis, where the output has stride 1 and each
// operand any stride, 0 for one that is repeated.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "sixfold/base/small_sort.h"
#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {

inline constexpr int64_t kElementwiseGrain = 16384;  // elements a task: some 10 us of cheap arithmetic

// T tensors: the output first, then T - 1 operands, each broadcast to the output's shape. The output is
// dense.
template <size_t T>
class BroadcastLoop {
 public:
  using Offsets = std::array<int64_t, T>;  // in elements, one per tensor

  explicit BroadcastLoop(const std::array<const TensorDesc*, T>& tensors) {
    const TensorDesc& out = *tensors[0];
    total_ = out.count();
    for (size_t d = 0; d < out.rank(); ++d) {
      if (out.shape[d] == 1) continue;
      Axis axis{out.shape[d], {}};
      for (size_t t = 0; t < T; ++t) {
        const TensorDesc& x = *tensors[t];
        const size_t missing = out.rank() - x.rank();
        axis.stride[t] = d < missing || x.shape[d - missing] == 1 ? 0 : x.strides[d - missing];
      }
      axes_.push_back(axis);
    }
    sort_short(axes_, [](const Axis& a, const Axis& b) { return a.stride[0] > b.stride[0]; });
    merge_axes();
    if (axes_.empty()) axes_.push_back(Axis{1, {}});
    inner_ = axes_.back();
    axes_.pop_back();
  }

  int64_t total() const { return total_; }
  // Elements from one of a row to the next; of a tensor with only one element, 0.
  int64_t stride(size_t tensor) const { return inner_.stride[tensor]; }

  // row(offsets, n) for runs that cover the output; runs may be parts of rows.
  template <typename F>
  void run(Pool& pool, int64_t grain, const F& row) const {
    pool.for_ranges(total_, grain, [&](int64_t begin, int64_t end) {
      std::array<int64_t, kMaxAxes> index;
      Offsets start{};
      int64_t rest = begin / inner_.extent;
      for (size_t d = axes_.size(); d-- > 0;) {
        index[d] = rest % axes_[d].extent;
        rest /= axes_[d].extent;
        for (size_t t = 0; t < T; ++t) start[t] += index[d] * axes_[d].stride[t];
      }
      int64_t in_row = begin % inner_.extent;
      while (true) {
        Offsets at = start;
        for (size_t t = 0; t < T; ++t) at[t] += in_row * inner_.stride[t];
        const int64_t n = std::min(inner_.extent - in_row, end - begin);
        row(at, static_cast<size_t>(n));
        begin += n;
        if (begin >= end) return;
        in_row = 0;
        for (size_t d = axes_.size(); d-- > 0;) {
          for (size_t t = 0; t < T; ++t) start[t] += axes_[d].stride[t];
          if (++index[d] < axes_[d].extent) break;
          for (size_t t = 0; t < T; ++t) start[t] -= axes_[d].extent * axes_[d].stride[t];
          index[d] = 0;
        }
      }
    });
  }

  // More axes than this after merging: the maker refuses.
  static constexpr size_t kMaxAxes = 32;
  bool fits() const { return axes_.size() <= kMaxAxes; }

 private:
  struct Axis {
    int64_t extent;
    Offsets stride;
  };

  void merge_axes() {
    std::vector<Axis> merged;
    for (const Axis& axis : axes_) {
      const auto continues = [&](const Axis& outer) {
        for (size_t t = 0; t < T; ++t)
          if (outer.stride[t] != axis.extent * axis.stride[t]) return false;
        return true;
      };
      if (!merged.empty() && continues(merged.back())) {
        merged.back() = Axis{merged.back().extent * axis.extent, axis.stride};
      } else {
        merged.push_back(axis);
      }
    }
    axes_ = std::move(merged);
  }

  int64_t total_ = 0;
  std::vector<Axis> axes_;  // outer ones
  Axis inner_{1, {}};
};

}  // namespace sixfold::cpu
