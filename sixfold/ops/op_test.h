// For tests of op families: runs one canonical op through its inference rule and its CPU kernel.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "sixfold/base/tensor.h"
#include "sixfold/cpu/kernel.h"
#include "sixfold/ops/op.h"

namespace sixfold {

template <typename T>
Tensor tensor_of(Shape shape, const std::vector<T>& values) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(dtype_of<T>(), std::move(shape), &bytes);
  for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<T*>(bytes)[i] = values[i];
  return t;
}
template <typename T>
std::vector<T> values_of(const Tensor& t) {
  return {t.values<T>().begin(), t.values<T>().end()};
}
// f32, uniform in [-1, 1)
inline Tensor random_tensor(Shape shape, unsigned seed) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(DType::f32, std::move(shape), &bytes);
  std::minstd_rand rng(seed);
  for (int64_t i = 0; i < t.count(); ++i)
    reinterpret_cast<float*>(bytes)[i] = static_cast<float>(rng() % 20001) / 10000.0f - 1.0f;
  return t;
}
inline Tensor to_double(const Tensor& x) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(DType::f64, x.shape, &bytes);
  for (int64_t i = 0; i < t.count(); ++i) reinterpret_cast<double*>(bytes)[i] = element_real(x, i);
  return t;
}
inline void expect_near(const Tensor& a, const Tensor& b, double tolerance) {
  ASSERT_EQ(a.shape, b.shape);
  for (int64_t i = 0; i < a.count(); ++i)
    ASSERT_NEAR(element_real(a, i), element_real(b, i), tolerance) << "element " << i;
}

struct RunOptions {
  size_t threads = 2;
  bool channels_last = false;    // operand 0 and every output of its rank
  bool skip_output_1 = false;    // as when nobody uses it: the kernel gets no buffer for it
  bool constant_inputs = false;  // all but operand 0 are known when the kernel is made
};

// A Tensor without dtype is an absent operand.
inline Result<std::vector<Tensor>> run_op(Op op, const std::vector<Tensor>& in, const Attrs& attrs,
                                          RunOptions options = {}) {
  std::vector<Type> in_types;
  for (const Tensor& t : in) in_types.push_back({t.dtype, to_dims(t.shape)});
  SF_ASSIGN(const std::vector<Type> out_types, infer_types(op, in_types, attrs));

  const auto strides_of = [&](const Shape& shape, bool image) {
    return image && options.channels_last && shape.size() >= 3 ? cpu::channels_last_strides(shape)
                                                               : contiguous_strides(shape);
  };
  // Moves elements between row-major order and a layout.
  const auto arrange = [](const Shape& shape, const Shape& strides, size_t size, const std::byte* from,
                          std::byte* to, bool pack) {
    for (int64_t i = 0, n = numel(shape); i < n; ++i) {
      int64_t rest = i, at = 0;
      for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) at += rest % shape[d] * strides[d];
      std::memcpy(to + (pack ? at : i) * static_cast<int64_t>(size),
                  from + (pack ? i : at) * static_cast<int64_t>(size), size);
    }
  };

  std::vector<cpu::TensorDesc> in_descs, out_descs;
  std::vector<Tensor> kept;
  std::vector<const void*> in_data;
  for (size_t i = 0; i < in.size(); ++i) {
    const Shape strides = strides_of(in[i].shape, i == 0);
    in_descs.push_back(
        {in[i].dtype, in[i].shape, strides, options.constant_inputs && i > 0 ? in[i].data : nullptr});
    in_data.push_back(in[i].data);
    if (i == 0 && options.channels_last) {
      std::byte* bytes = nullptr;
      kept.push_back(Tensor::allocate(in[i].dtype, in[i].shape, &bytes));
      arrange(in[i].shape, strides, size_of(in[i].dtype), in[i].data, bytes, /*pack=*/true);
      in_data[i] = bytes;
    }
  }
  std::vector<Tensor> out;
  std::vector<void*> out_data;
  for (const Type& t : out_types) {
    const Shape shape = static_shape(t.dims);
    std::byte* bytes = nullptr;
    out.push_back(Tensor::allocate(t.dtype, shape, &bytes));
    out_data.push_back(out_data.size() == 1 && options.skip_output_1 ? nullptr : bytes);
    out_descs.push_back({t.dtype, shape, strides_of(shape, true), nullptr});
  }
  SF_ASSIGN(const auto kernel, cpu::make({op, in_descs, out_descs, attrs}));
  cpu::Pool pool(options.threads);
  std::byte* scratch = nullptr;
  const Tensor scratch_memory =
      Tensor::allocate(DType::u8, {static_cast<int64_t>(kernel->scratch_bytes())}, &scratch);
  SF_TRY(kernel->run({in_data, out_data, scratch, pool}));
  if (options.channels_last) {
    for (size_t i = 0; i < out.size(); ++i) {
      std::byte* bytes = nullptr;
      Tensor plain = Tensor::allocate(out[i].dtype, out[i].shape, &bytes);
      arrange(out[i].shape, out_descs[i].strides, size_of(out[i].dtype), out[i].data, bytes, /*pack=*/false);
      out[i] = plain;
    }
  }
  return out;
}

}  // namespace sixfold
