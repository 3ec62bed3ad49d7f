// For tests of op families: one op, run through inference and its CPU kernel.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <initializer_list>
#include <vector>

#include "sixfold/base/tensor.h"
#include "sixfold/cpu/kernel.h"

namespace sixfold::testing {

template <typename T>
Tensor tensor_of(Shape shape, const std::vector<T>& values) {
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(dtype_of<T>(), std::move(shape), &bytes);
  EXPECT_EQ(static_cast<size_t>(out.count()), values.size());
  for (size_t i = 0; i < values.size(); ++i) {  // std::vector<bool> has no data()
    const T value = values[i];
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
  return out;
}
// 0, 1, 2, ... of a dtype; starts again after 127, which every dtype has
template <typename T>
Tensor counting(Shape shape) {
  std::vector<T> values;
  const int64_t count = numel(shape);
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(static_cast<float>(i % 128)));
  return tensor_of<T>(std::move(shape), values);
}
template <typename T>
std::vector<T> values_of(const Tensor& t) {
  std::vector<T> out;
  for (const T value : t.values<T>()) out.push_back(value);
  return out;
}

// Outputs of the op; every tensor row-major. Threads of the pool: 2.
inline Result<std::vector<Tensor>> run_op(Op op, const std::vector<Tensor>& inputs, const Attrs& attrs = {}) {
  std::vector<Type> types;
  std::vector<cpu::TensorDesc> in, out;
  std::vector<const void*> in_data;
  for (const Tensor& t : inputs) {
    types.push_back({t.dtype, to_dims(t.shape)});
    in.push_back({t.dtype, t.shape, contiguous_strides(t.shape), nullptr});
    in_data.push_back(t.data);
  }
  SF_ASSIGN(const std::vector<Type> out_types, infer_types(op, types, attrs));
  std::vector<Tensor> outputs;
  std::vector<void*> out_data;
  for (const Type& t : out_types) {
    std::byte* bytes = nullptr;
    outputs.push_back(Tensor::allocate(t.dtype, static_shape(t.dims), &bytes));
    std::memset(bytes, 0x5a, outputs.back().size_bytes());  // an element that is not written shows
    out.push_back({t.dtype, outputs.back().shape, contiguous_strides(outputs.back().shape), nullptr});
    out_data.push_back(bytes);
  }
  SF_ASSIGN(auto kernel, cpu::make({op, in, out, attrs}));
  std::vector<std::max_align_t> scratch(kernel->scratch_bytes() / sizeof(std::max_align_t) + 8);
  auto* aligned = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
  static cpu::Pool pool(2);
  SF_TRY(kernel->run({in_data, out_data, aligned, pool}));
  return outputs;
}

// The only output, as values.
template <typename T>
std::vector<T> run_one(Op op, const std::vector<Tensor>& inputs, const Attrs& attrs = {}) {
  auto outputs = run_op(op, inputs, attrs);
  EXPECT_TRUE(outputs.ok()) << (outputs.ok() ? "" : outputs.error().message());
  return outputs.ok() ? values_of<T>(outputs->at(0)) : std::vector<T>{};
}

}  // namespace sixfold::testing
