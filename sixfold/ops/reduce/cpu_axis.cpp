// Ops along one axis: argmax, argmin, and running sums, products and extremes.
#include <cmath>
#include <limits>
#include <type_traits>

#include "sixfold/cpu/kernel.h"
#include "sixfold/cpu/rows.h"
#include "sixfold/cpu/split.h"

namespace sixfold::cpu {
namespace {

template <typename T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(x);
  else
    return false;
}

// Neighbouring columns walk the axis together, so that memory is read in order.
constexpr int64_t kColumns = 64;

// f(first, width) for blocks of columns: `first` is the offset of the block's first element; steps along the
// axis are split.inner apart.
template <typename F>
void for_column_blocks(const AxisSplit& split, Pool& pool, const F& f) {
  const int64_t blocks = (split.inner + kColumns - 1) / kColumns;
  const int64_t grain = grain_for(split.extent * std::min(split.inner, kColumns));
  pool.for_ranges(split.outer * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t column = t % blocks * kColumns;
      f(t / blocks, column, std::min(kColumns, split.inner - column));
    }
  });
}

template <typename T, bool kGreater>
void arg_columns(const T* x, int64_t* out, const AxisSplit& split, int64_t width) {
  T best[kColumns];
  std::copy_n(x, width, best);
  std::fill_n(out, width, 0);
  for (int64_t i = 1; i < split.extent; ++i) {
    x += split.inner;
    for (int64_t c = 0; c < width; ++c) {
      const bool better = (kGreater ? x[c] > best[c] : x[c] < best[c]) || (is_nan(x[c]) && !is_nan(best[c]));
      if (better) {
        best[c] = x[c];
        out[c] = i;
      }
    }
  }
}

template <bool kGreater>
void arg_columns(const float* x, int64_t* out, const AxisSplit& split, int64_t width) {
  if (split.inner > 1)
    return (kGreater ? argmax_columns : argmin_columns)(x, split.extent, split.inner, width, out);
  *out = find_row(x, split.extent, (kGreater ? max_row : min_row)(x, split.extent));
}

template <typename T, bool kGreater>
std::unique_ptr<Kernel> make_arg(const AxisSplit& split) {
  return make_kernel([split](const Buffers& b) {
    for_column_blocks(split, b.pool, [&](int64_t o, int64_t column, int64_t width) {
      const T* x = b.input<T>(0) + o * split.extent * split.inner + column;
      int64_t* out = b.output<int64_t>() + o * split.inner + column;
      if constexpr (std::is_same_v<T, float>)
        arg_columns<kGreater>(x, out, split, width);
      else
        arg_columns<T, kGreater>(x, out, split, width);
    });
    return ok_status();
  });
}

// ---- running reductions. torch accumulates floats in double; integers wrap around.

template <typename T>
using RunningType = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

template <typename T>
struct RunningSum {
  RunningType<T> state = 0;
  T next(T x) { return static_cast<T>(state += static_cast<RunningType<T>>(x)); }
};
template <typename T>
struct RunningProduct {
  RunningType<T> state = 1;
  T next(T x) { return static_cast<T>(state *= static_cast<RunningType<T>>(x)); }
};
template <typename T>
struct RunningLogSumExp {
  double state = -std::numeric_limits<double>::infinity();
  T next(T x) {
    const double a = std::max(state, static_cast<double>(x)), b = std::min(state, static_cast<double>(x));
    if (std::isnan(state) || is_nan(x))
      state = std::numeric_limits<double>::quiet_NaN();
    else
      state = a == b && std::isinf(a) ? a : a + std::log1p(std::exp(b - a));
    return static_cast<T>(state);
  }
};

template <typename T, template <typename> typename Running>
std::unique_ptr<Kernel> make_running(const AxisSplit& split) {
  return make_kernel(
      [split](const Buffers& b) {
        for_column_blocks(split, b.pool, [&](int64_t o, int64_t column, int64_t width) {
          const int64_t base = o * split.extent * split.inner + column;
          if (split.inner == 1) {
            Running<T> one;
            for (int64_t i = 0; i < split.extent; ++i)
              b.output<T>()[base + i] = one.next(b.input<T>(0)[base + i]);
            return;
          }
          Running<T> running[kColumns];
          for (int64_t i = 0; i < split.extent; ++i) {
            const T* x = b.input<T>(0) + base + i * split.inner;
            T* y = b.output<T>() + base + i * split.inner;
            for (int64_t c = 0; c < width; ++c) y[c] = running[c].next(x[c]);
          }
        });
        return ok_status();
      },
      {.in_place = true});
}

template <typename T, bool kGreater>
std::unique_ptr<Kernel> make_running_extreme(const AxisSplit& split) {
  return make_kernel([split](const Buffers& b) {
    for_column_blocks(split, b.pool, [&](int64_t o, int64_t column, int64_t width) {
      const int64_t base = o * split.extent * split.inner + column;
      T best[kColumns];
      int64_t at[kColumns];
      for (int64_t i = 0; i < split.extent; ++i) {
        const int64_t row = base + i * split.inner;
        for (int64_t c = 0; c < width; ++c) {
          const T x = b.input<T>(0)[row + c];
          if (i == 0 || is_nan(x) || (!is_nan(best[c]) && (kGreater ? x >= best[c] : x <= best[c]))) {
            best[c] = x;
            at[c] = i;
          }
          b.output<T>(0)[row + c] = best[c];
          b.output<int64_t>(1)[row + c] = at[c];
        }
      }
    });
    return ok_status();
  });
}

template <typename F>
KernelResult with_whole_type(const KernelCall& call, const F& f) {
  const DType dtype = call.in[0].dtype;
  if (is_half(dtype)) return unsupported(call.op, " of ", dtype);
  return with_type(dtype, [&](auto zero) -> KernelResult {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      return unsupported(call.op, " of halves");
    else
      return f(zero);
  });
}

}  // namespace

KernelResult arg_reduce(const KernelCall& call) {
  const AxisSplit split = split_at(call.in[0].shape, call.attrs.integer("dim"));
  return with_whole_type(call, [&](auto zero) -> KernelResult {
    using T = decltype(zero);
    if (call.op == Op::argmax) return make_arg<T, true>(split);
    return make_arg<T, false>(split);
  });
}

KernelResult cumulate(const KernelCall& call) {
  const AxisSplit split = split_at(call.in[0].shape, call.attrs.integer("dim"));
  return with_whole_type(call, [&](auto zero) -> KernelResult {
    using T = decltype(zero);
    switch (call.op) {
      case Op::cumsum:
        return make_running<T, RunningSum>(split);
      case Op::cumprod:
        return make_running<T, RunningProduct>(split);
      case Op::cummax:
        return make_running_extreme<T, true>(split);
      case Op::cummin:
        return make_running_extreme<T, false>(split);
      default:
        break;
    }
    if constexpr (std::is_floating_point_v<T>) return make_running<T, RunningLogSumExp>(split);
    return unsupported(call.op, " of ", call.in[0].dtype);
  });
}

}  // namespace sixfold::cpu
