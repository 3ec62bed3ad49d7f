// Data movement: every kernel here is one or several strided copies, planned once.
#include <vector>

#include "sixfold/cpu/copy.h"
#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {
namespace {

KernelResult copy_kernel(Result<StridedCopy> copy) {
  if (!copy.ok()) return copy.take_error();
  return make_kernel([copy = std::move(copy).value()](const Buffers& b) {
    copy.run(b.pool, b.in[0], b.out[0]);
    return ok_status();
  });
}

size_t at(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

KernelResult reshape(const KernelCall& call) {
  const size_t bytes = call.in[0].size_bytes();
  return make_kernel(
      [bytes](const Buffers& b) {
        copy_bytes(b.pool, b.in[0], b.out[0], bytes);
        return ok_status();
      },
      {.in_place = true});
}

KernelResult permute(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &y = call.out[0];
  Shape src;
  for (const int64_t d : call.attrs.ints("dims")) src.push_back(x.strides[at(d)]);
  return copy_kernel(StridedCopy::make(size_of(x.dtype), y.shape, src, y.strides));
}

KernelResult expand(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &y = call.out[0];
  Shape src(y.rank(), 0);
  const size_t lead = y.rank() - x.rank();
  for (size_t i = 0; i < x.rank(); ++i) src[lead + i] = x.shape[i] == 1 ? 0 : x.strides[i];
  return copy_kernel(StridedCopy::make(size_of(x.dtype), y.shape, src, y.strides));
}

KernelResult slice(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &y = call.out[0];
  const size_t axis = at(call.attrs.integer("dim"));
  Shape src = x.strides;
  src[axis] *= call.attrs.integer("step");
  return copy_kernel(StridedCopy::make(size_of(x.dtype), y.shape, src, y.strides,
                                       call.attrs.integer("start") * x.strides[axis]));
}

KernelResult flip(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &y = call.out[0];
  Shape src = x.strides;
  int64_t offset = 0;
  for (const int64_t d : call.attrs.ints("dims")) {
    if (d < 0 || d >= static_cast<int64_t>(x.rank()))
      return invalid_argument("flip of axis ", d, " of ", x.shape);
    offset += (x.shape[at(d)] - 1) * x.strides[at(d)];
    src[at(d)] = -x.strides[at(d)];
  }
  return copy_kernel(StridedCopy::make(size_of(x.dtype), y.shape, src, y.strides, offset));
}

KernelResult repeat(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &y = call.out[0];
  const Shape repeats = call.attrs.ints("repeats");
  Shape shape, src, dst;  // each axis as [repeats, extent]
  for (size_t i = 0; i < x.rank(); ++i) {
    shape.insert(shape.end(), {repeats[i], x.shape[i]});
    src.insert(src.end(), {0, x.strides[i]});
    dst.insert(dst.end(), {y.strides[i] * x.shape[i], y.strides[i]});
  }
  return copy_kernel(StridedCopy::make(size_of(x.dtype), shape, src, dst));
}

KernelResult concat(const KernelCall& call) {
  const TensorDesc& y = call.out[0];
  const size_t axis = at(call.attrs.integer("dim"));
  std::vector<StridedCopy> copies;
  int64_t offset = 0;
  for (const TensorDesc& x : call.in) {
    SF_ASSIGN(StridedCopy copy, StridedCopy::make(size_of(x.dtype), x.shape, x.strides, y.strides, 0,
                                                  offset * y.strides[axis]));
    copies.push_back(std::move(copy));
    offset += x.shape[axis];
  }
  return make_kernel([copies = std::move(copies)](const Buffers& b) {
    for (size_t i = 0; i < copies.size(); ++i) copies[i].run(b.pool, b.in[i], b.out[0]);
    return ok_status();
  });
}

}  // namespace sixfold::cpu
