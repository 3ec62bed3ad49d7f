// Kernels over two broadcast operands, shared by the CPU files of this family.
#pragma once

#include "sixfold/cpu/broadcast.h"
#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {

using BinaryLoop = BroadcastLoop<3>;

// The output may take operand 0's memory when both lie alike.
inline bool lies_alike(const TensorDesc& a, const TensorDesc& b) {
  return size_of(a.dtype) == size_of(b.dtype) && a.shape == b.shape && a.strides == b.strides;
}

// out = f(a, b) for element types In -> Out; f takes and gives values.
template <typename In, typename Out, typename F>
std::unique_ptr<Kernel> zip_kernel(const KernelCall& call, const BinaryLoop& loop, F f) {
  return make_kernel(
      [loop, f](const Buffers& buffers) -> Status {
        const In* a = buffers.input<In>(0);
        const In* b = buffers.input<In>(1);
        Out* out = buffers.output<Out>();
        const int64_t sa = loop.stride(1), sb = loop.stride(2);
        loop.run(buffers.pool, kElementwiseGrain, [&](const BinaryLoop::Offsets& at, size_t count) {
          const In* x = a + at[1];
          const In* y = b + at[2];
          Out* z = out + at[0];
          const auto n = static_cast<int64_t>(count);
          if (sa == 1 && sb == 1) {
            for (int64_t i = 0; i < n; ++i) z[i] = f(x[i], y[i]);
          } else if (sa == 1 && sb == 0) {
            const In value = *y;
            for (int64_t i = 0; i < n; ++i) z[i] = f(x[i], value);
          } else {
            for (int64_t i = 0; i < n; ++i) z[i] = f(x[i * sa], y[i * sb]);
          }
        });
        return ok_status();
      },
      {.in_place = lies_alike(call.in[0], call.out[0])});
}

// The makers of the parts; binary() chooses.
KernelResult compare_kernel(const KernelCall& call, const BinaryLoop& loop);
KernelResult integer_kernel(const KernelCall& call, const BinaryLoop& loop);  // integers and bool

}  // namespace sixfold::cpu
