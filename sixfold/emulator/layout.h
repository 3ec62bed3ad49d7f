// Tensors of the emulator for the loops of sixfold/cpu: all are dense and row-major.
#pragma once

#include "sixfold/cpu/broadcast.h"
#include "sixfold/emulator/op_view.h"

namespace sixfold::emulator {

inline cpu::TensorDesc describe(const TensorDef& t) {
  cpu::TensorDesc out;
  out.dtype = qnn::storage_of(t.dtype);
  out.shape.assign(t.dims.begin(), t.dims.end());
  out.strides.assign(t.rank(), 1);
  for (size_t d = t.rank(); d-- > 1;) out.strides[d - 1] = out.strides[d] * out.shape[d];
  return out;
}

// Whether `from` broadcasts to `to` by numpy's rules.
inline bool broadcasts(const TensorDef& from, const TensorDef& to) {
  if (from.rank() > to.rank()) return false;
  for (size_t i = 0; i < from.rank(); ++i) {
    const uint32_t d = from.dims[from.rank() - 1 - i];
    if (d != 1 && d != to.dims[to.rank() - 1 - i]) return false;
  }
  return true;
}

// One of the first `count` inputs may not broadcast to the output, which the device's validation does not
// see.
inline Status check_broadcast(const OpView& op, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!broadcasts(op.in(i), op.out()))
      return invalid_argument("in[", i, "] has dims ", op.in(i).dims,
                              ", which do not broadcast to those of out[0], ", op.out().dims);
  return {};
}

// y[i] = f(a[i], b[i]) over operands that are broadcast.
template <typename Y, typename A, typename B, typename F>
void for_pairs(const cpu::BroadcastLoop<3>& loop, cpu::Pool& pool, int64_t grain, Y* y, const A* a,
               const B* b, const F& f) {
  const int64_t step_a = loop.stride(1), step_b = loop.stride(2);
  loop.run(pool, grain, [&](const auto& at, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      const auto k = static_cast<int64_t>(i);
      y[at[0] + k] = f(a[at[1] + k * step_a], b[at[2] + k * step_b]);
    }
  });
}

// Offsets of all combinations of indices along the axes that `wanted` says.
inline std::vector<int64_t> offsets_along(const TensorDef& x, const std::vector<bool>& wanted) {
  const cpu::TensorDesc d = describe(x);
  std::vector<int64_t> out = {0};
  for (size_t a = 0; a < x.rank(); ++a) {
    if (!wanted[a]) continue;
    std::vector<int64_t> next;
    next.reserve(out.size() * x.dims[a]);
    for (const int64_t base : out)
      for (uint32_t i = 0; i < x.dims[a]; ++i) next.push_back(base + i * d.strides[a]);
    out = std::move(next);
  }
  return out;
}

// Products of dims before, at and after an axis.
struct AroundAxis {
  int64_t before = 1, extent = 1, after = 1;
  AroundAxis(std::span<const uint32_t> dims, size_t axis) {
    for (size_t d = 0; d < dims.size(); ++d) (d < axis ? before : d == axis ? extent : after) *= dims[d];
  }
};

}  // namespace sixfold::emulator
