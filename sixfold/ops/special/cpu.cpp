#include <cmath>
#include <numeric>

#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/convert.h"
#include "sixfold/cpu/kernel.h"
#include "sixfold/ops/special/functions.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kGrain = 256;  // elements of a task: each takes a series

// out[i] = f(a[i], b[i]); b is a where there is one operand.
template <typename T, typename F>
std::unique_ptr<Kernel> map2(const KernelCall& call, F f) {
  const int64_t count = call.in[0].count();
  return make_kernel([count, last = call.in.size() - 1, f](const Buffers& buffers) -> Status {
    const T* a = buffers.input<T>(0);
    const T* b = buffers.input<T>(last);
    T* out = buffers.output<T>();
    buffers.pool.for_ranges(count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = f(a[i], b[i]);
    });
    return ok_status();
  });
}

// An order of a polynomial is data, and the work grows with it.
template <typename T>
std::unique_ptr<Kernel> with_order(const KernelCall& call, double (*f)(double, double)) {
  const int64_t count = call.in[0].count();
  return make_kernel([count, f](const Buffers& buffers) -> Status {
    const T* x = buffers.input<T>(0);
    const T* n = buffers.input<T>(1);
    T* out = buffers.output<T>();
    for (int64_t i = 0; i < count; ++i)
      if (static_cast<double>(n[i]) > special::kMaxOrder)
        return invalid_argument("a polynomial of order ", static_cast<double>(n[i]), ", at most ",
                                special::kMaxOrder);
    buffers.pool.for_ranges(count, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out[i] = static_cast<T>(f(static_cast<double>(x[i]), static_cast<double>(n[i])));
    });
    return ok_status();
  });
}

template <typename T>
KernelResult float_kernel(const KernelCall& call, const std::string& name) {
  if (name == "nextafter") return map2<T>(call, [](T a, T b) { return std::nextafter(a, b); });
  const special::Function* function = special::find(name);
  if (!function) return unsupported("no special function is named '", name, "'");
  if (function->order) return with_order<T>(call, function->f);
  return map2<T>(call, [f = function->f](T a, T b) {
    return static_cast<T>(f(static_cast<double>(a), static_cast<double>(b)));
  });
}

// Of magnitudes as unsigned numbers, since the smallest integer has no positive twin; the result wraps as
// torch's.
template <typename T>
T gcd(T a, T b) {
  const auto size = [](T x) {
    return x < T(0) ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
  };
  return static_cast<T>(std::gcd(size(a), size(b)));
}

}  // namespace

KernelResult special(const KernelCall& call) {
  const std::string name = call.attrs.text("function");
  const DType dtype = call.in[0].dtype;
  if (dtype == DType::f32) return float_kernel<float>(call, name);
  if (dtype == DType::f64) return float_kernel<double>(call, name);
  return with_type(dtype, [&](auto tag) -> KernelResult {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (name == "gcd") return map2<T>(call, gcd<T>);
    }
    return unsupported(name, " of ", call.in[0].dtype);
  });
}

}  // namespace sixfold::cpu
