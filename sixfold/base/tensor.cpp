#include "sixfold/base/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace sixfold {
namespace {

// Offset in elements of row-major element i.
int64_t offset_of(const Tensor& t, int64_t i) {
  if (t.is_contiguous()) return i;
  int64_t offset = 0;
  for (size_t d = t.shape.size(); d-- > 0;) {
    offset += (i % t.shape[d]) * t.strides[d];
    i /= t.shape[d];
  }
  return offset;
}

template <typename To>
To element(const Tensor& t, int64_t i) {
  return with_type</*every=*/true>(t.dtype, [&](auto tag) -> To {
    using T = decltype(tag);
    T value;
    std::memcpy(&value, t.data + offset_of(t, i) * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return static_cast<To>(value);
  });
}

}  // namespace

Result<Tensor> Tensor::allocate(Allocator& allocator, DType dtype, Shape shape, std::byte** bytes) {
  Tensor out{dtype, std::move(shape), {}, nullptr, nullptr};
  const size_t padded = (out.size_bytes() + 63) / 64 * 64 + 64;
  SF_ASSIGN(OwnedBlock block, OwnedBlock::take(allocator, padded, "a constant"));
  block.fill_with_zeros();
  out.data = block.data();
  if (bytes) *bytes = block.data();
  out.owner = std::make_shared<const OwnedBlock>(std::move(block));
  return out;
}

Tensor Tensor::allocate(DType dtype, Shape shape, std::byte** bytes) {
  auto out = allocate(system_allocator(), dtype, std::move(shape), bytes);
  if (!out.ok()) std::abort();
  return std::move(out).value();
}

Tensor Tensor::scalar(double value, DType dtype) {
  std::byte* bytes = nullptr;
  Tensor out = allocate(dtype, {}, &bytes);
  with_type</*every=*/true>(dtype, [&](auto tag) {
    using T = decltype(tag);
    T typed;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      typed = T(static_cast<float>(value));
    else
      typed = static_cast<T>(value);
    std::memcpy(bytes, &typed, sizeof typed);
  });
  return out;
}

Tensor Tensor::scalar(int64_t value, DType dtype) {
  if (is_float(dtype)) return scalar(static_cast<double>(value), dtype);
  std::byte* bytes = nullptr;
  Tensor out = allocate(dtype, {}, &bytes);
  with_type</*every=*/true>(dtype, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_integral_v<T>) {
      const T typed = static_cast<T>(value);
      std::memcpy(bytes, &typed, sizeof typed);
    }
  });
  return out;
}

Tensor Tensor::of_ints(std::span<const int64_t> values) {
  std::byte* bytes = nullptr;
  Tensor out = allocate(DType::i64, {static_cast<int64_t>(values.size())}, &bytes);
  std::memcpy(bytes, values.data(), values.size_bytes());
  return out;
}

Result<Tensor> to_contiguous(Allocator& allocator, const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  std::byte* bytes = nullptr;
  SF_ASSIGN(Tensor out, Tensor::allocate(allocator, tensor.dtype, tensor.shape, &bytes));
  const size_t size = size_of(tensor.dtype);
  const int64_t count = tensor.count();
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(bytes + static_cast<size_t>(i) * size,
                tensor.data + offset_of(tensor, i) * static_cast<int64_t>(size), size);
  return out;
}

Tensor to_contiguous(const Tensor& tensor) {
  auto out = to_contiguous(system_allocator(), tensor);
  if (!out.ok()) std::abort();
  return std::move(out).value();
}

Status check_bools(std::span<const std::byte> bytes) {
  const std::byte* end = bytes.data() + bytes.size();
  const std::byte* bad = std::find_if(bytes.data(), end, [](std::byte b) { return b > std::byte{1}; });
  if (bad == end) return {};
  return invalid_model("byte ", bad - bytes.data(), " of a bool tensor is ", std::to_integer<int>(*bad),
                       ", expected 0 or 1");
}

double element_real(const Tensor& tensor, int64_t i) { return element<double>(tensor, i); }
int64_t element_integer(const Tensor& tensor, int64_t i) { return element<int64_t>(tensor, i); }

}  // namespace sixfold
