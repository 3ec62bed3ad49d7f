// Random numbers on the NPU, which has generators of its own: other numbers than torch's or the CPU's.
#include <algorithm>

#include "sixfold/lower/lowering.h"

namespace sixfold::lower {
namespace {

void draw(Lowering& l, TensorRef like, TensorRef y) {
  if (l.op() == Op::rand)
    l.add("RandomUniformLike", {like}, {y}, {{"low", 0.0f}, {"high", 1.0f}});
  else
    l.add("RandomNormalLike", {like}, {y}, {{"mean", 0.0f}, {"scale", 1.0f}});
}

}  // namespace

void random(Lowering& l) {
  const Shape shape = l.out_shape();
  if (!l.status().ok()) return;
  std::byte* bytes = nullptr;
  const auto rank = static_cast<int64_t>(shape.size());
  Tensor dims = Tensor::allocate(DType::u32, {std::max<int64_t>(rank, 1)}, &bytes);
  auto* extents = reinterpret_cast<uint32_t*>(bytes);
  extents[0] = 1;  // a number is [1] to the device
  for (size_t i = 0; i < shape.size(); ++i) extents[i] = static_cast<uint32_t>(shape[i]);
  const TensorRef like = l.constant(std::move(dims));
  const TensorRef y = l.out();
  if (!l.status().ok()) return;
  const bool real = l.spec(y).dtype == qnn::DataType::f32;
  if (!real) return draw(l, like, y);
  if (l.op() == Op::rand)
    return l.refuse(
        "the device draws uniform numbers in 256 steps only: they need an 8-bit encoding  [htp.rand.1]");
  const TensorRef halves = l.temp(l.spec(y).dims, qnn::DataType::f16);
  draw(l, like, halves);
  l.add("Cast", {halves}, {y});
}

}  // namespace sixfold::lower
