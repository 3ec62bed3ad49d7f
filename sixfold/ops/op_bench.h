// For benchmarks of op families: times one f32 kernel on two threads. Operands but the first are constants.
#pragma once

#include <benchmark/benchmark.h>

#include "sixfold/ops/op_test.h"

namespace sixfold {

inline void bench_op(benchmark::State& state, Op op, const std::vector<Shape>& in, const Shape& out,
                     const Attrs& attrs, bool channels_last) {
  const auto strides = [&](const Shape& shape, bool image) {
    return image && channels_last ? cpu::channels_last_strides(shape) : contiguous_strides(shape);
  };
  std::vector<Tensor> tensors;
  std::vector<cpu::TensorDesc> descs;
  std::vector<const void*> data;
  for (size_t i = 0; i < in.size(); ++i) {
    tensors.push_back(random_tensor(in[i], static_cast<unsigned>(i)));
    descs.push_back({DType::f32, in[i], strides(in[i], i == 0), i > 0 ? tensors.back().data : nullptr});
    data.push_back(tensors.back().data);
  }
  const cpu::TensorDesc result{DType::f32, out, strides(out, true), nullptr};
  std::byte *bytes = nullptr, *scratch = nullptr;
  const Tensor y = Tensor::allocate(DType::f32, out, &bytes);
  auto kernel = cpu::make({op, descs, std::span(&result, 1), attrs});
  if (!kernel.ok()) return state.SkipWithError(kernel.error().message().c_str());
  const Tensor memory =
      Tensor::allocate(DType::u8, {static_cast<int64_t>((*kernel)->scratch_bytes())}, &scratch);
  cpu::Pool pool(2);
  void* to = bytes;
  for (auto _ : state) {
    if (!(*kernel)->run({data, std::span(&to, 1), scratch, pool}).ok())
      return state.SkipWithError("the kernel failed");
  }
}

}  // namespace sixfold
