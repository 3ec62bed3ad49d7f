// Reductions of any dtype, in plain loops; floats go to cpu_f32.cpp.
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "sixfold/cpu/split.h"
#include "sixfold/ops/reduce/walk.h"

namespace sixfold::cpu {
namespace {

template <typename T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(x);
  else
    return false;
}

// Integers wrap around as torch's do; unsigned arithmetic makes that defined.
template <typename T>
using SumType = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

// A reduction is add() for each element, then result().
template <typename T>
struct Sum {
  SumType<T> total = 0, block = 0;
  int in_block = 0;
  void add(T x) {
    block += static_cast<SumType<T>>(x);
    if (++in_block == 256) {  // short partial sums keep the rounding error of long ones small
      total += block;
      block = 0;
      in_block = 0;
    }
  }
  SumType<T> sum() const { return total + block; }
  T result(int64_t) const { return static_cast<T>(sum()); }
};
template <typename T>
struct Mean : Sum<T> {
  T result(int64_t count) const { return static_cast<T>(this->sum() / static_cast<SumType<T>>(count)); }
};
// Floats and halves round at every step, as torch's do.
template <typename T>
struct Prod {
  std::conditional_t<std::is_integral_v<T>, uint64_t, T> product = 1;
  void add(T x) { product = product * static_cast<decltype(product)>(x); }
  T result(int64_t) const { return static_cast<T>(product); }
};
template <typename T, bool kGreater>
struct Extreme {
  T best = {};
  bool first = true;
  void add(T x) {
    if (first || is_nan(x) || (kGreater ? x > best : x < best)) {
      if (first || !is_nan(best)) best = x;
      first = false;
    }
  }
  T result(int64_t) const { return best; }
};
struct Any {
  bool found = false;
  void add(bool x) { found |= x; }
  bool result(int64_t) const { return found; }
};
struct All {
  bool held = true;
  void add(bool x) { held &= x; }
  bool result(int64_t) const { return held; }
};

// f(i) for the input offsets behind one output.
template <typename F>
void for_elements(const Walk& walk, const F& f) {
  if (walk.reduced.empty()) return f(0);
  const WalkAxis& inner = walk.reduced.back();
  for_offsets(walk.reduced, walk.reduced.size() - 1, [&](int64_t offset) {
    for (int64_t i = 0; i < inner.extent; ++i) f(offset + i * inner.in_stride);
  });
}

template <typename T, typename One>
std::unique_ptr<Kernel> for_outputs(Walk walk, One one) {
  const int64_t grain = grain_for(walk.count);
  return make_kernel([walk = std::move(walk), grain, one](const Buffers& b) {
    b.pool.for_ranges(walk.outputs, grain, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const Place p = place_of(walk.kept, walk.kept.size(), o);
        b.output<T>()[p.out] = one(walk, b.input<T>(0) + p.in);
      }
    });
    return ok_status();
  });
}

template <typename T, typename Accumulator>
std::unique_ptr<Kernel> plain(Walk walk) {
  return for_outputs<T>(std::move(walk), [](const Walk& w, const T* x) {
    Accumulator acc;
    if (w.count > 0) for_elements(w, [&](int64_t i) { acc.add(x[i]); });
    return acc.result(w.count);
  });
}

template <typename T>
std::unique_ptr<Kernel> plain_var(Walk walk, double correction) {
  return for_outputs<T>(std::move(walk), [correction](const Walk& w, const T* x) {
    Sum<T> sum;
    if (w.count > 0) for_elements(w, [&](int64_t i) { sum.add(x[i]); });
    const double mean = sum.sum() / static_cast<double>(w.count);
    Sum<double> squares;
    if (w.count > 0) for_elements(w, [&](int64_t i) { squares.add((x[i] - mean) * (x[i] - mean)); });
    return static_cast<T>(variance(squares.sum(), w.count, correction));
  });
}

template <typename T>
KernelResult make_plain(Op op, Walk walk, double correction) {
  if (is<Op::amax>(op)) return plain<T, Extreme<T, true>>(std::move(walk));
  if (is<Op::amin>(op)) return plain<T, Extreme<T, false>>(std::move(walk));
  if constexpr (std::is_same_v<T, bool>) {
    if (is<Op::any>(op)) return plain<bool, Any>(std::move(walk));
    if (is<Op::all>(op)) return plain<bool, All>(std::move(walk));
  } else {
    if (op == Op::sum) return plain<T, Sum<T>>(std::move(walk));
    if (is<Op::prod>(op)) return plain<T, Prod<T>>(std::move(walk));
    if constexpr (std::is_floating_point_v<T>) {
      if (op == Op::mean) return plain<T, Mean<T>>(std::move(walk));
      if (is<Op::var>(op)) return plain_var<T>(std::move(walk), correction);
    }
  }
  return unsupported(op, " of ", dtype_of<T>());
}

}  // namespace

KernelResult reduce(const KernelCall& call) {
  const TensorDesc& in = call.in[0];
  Walk walk = plan_walk(in, call.out[0], call.attrs.ints("dims"), call.attrs.flag("keepdim"));
  const double correction = call.op == Op::var ? call.attrs.real("correction") : 0;
  if (is<Op::prod>(call.op) && in.dtype == DType::f16) return plain<Half, Prod<Half>>(std::move(walk));
  if (is<Op::prod>(call.op) && in.dtype == DType::bf16)
    return plain<BFloat16, Prod<BFloat16>>(std::move(walk));
  if (is_half(in.dtype)) return unsupported(call.op, " of ", in.dtype);
  const bool long_runs = walk.inner_reduced ? !walk.reduced.empty() && walk.reduced.back().extent >= 8
                                            : walk.kept.back().extent >= 4;
  if (in.dtype == DType::f32 && call.op != Op::prod && walk.count > 0 && walk.outputs > 0 && long_runs)
    return reduce_f32(call.op, std::move(walk), correction);
  return with_type(in.dtype, [&](auto zero) -> KernelResult {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      return unsupported(call.op, " of halves");
    else
      return make_plain<T>(call.op, std::move(walk), correction);
  });
}

}  // namespace sixfold::cpu
