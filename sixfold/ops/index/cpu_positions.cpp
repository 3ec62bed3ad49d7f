#include <algorithm>
#include <array>

#include "sixfold/ops/index/positions.h"

namespace sixfold::cpu {
namespace {

Error out_of_range(int64_t index, int64_t extent) {
  return invalid_argument("index ", index, " is out of range for an axis of ", extent);
}

}  // namespace

Result<Positions> Positions::make(const std::vector<Index>& indices) {
  Positions out;
  size_t rank = 0;
  for (const Index& i : indices) rank = std::max(rank, i.desc.rank());
  out.shape_.assign(rank, 1);
  for (const Index& i : indices)
    for (size_t d = 0; d < i.desc.rank(); ++d)
      if (i.desc.shape[d] != 1) out.shape_[rank - i.desc.rank() + d] = i.desc.shape[d];
  out.count_ = numel(out.shape_);
  for (const Index& i : indices) {
    Part part{i.desc.dtype == DType::i64, i.desc.count() == out.count_, i.extent, i.stride, Shape(rank, 0)};
    if (!part.whole && rank > kMaxAxes)
      return unsupported("an index of rank ", rank, " that is broadcast; at most ", kMaxAxes);
    const Shape own = contiguous_strides(i.desc.shape);
    for (size_t d = 0; d < i.desc.rank(); ++d)
      if (i.desc.shape[d] != 1) part.strides[rank - i.desc.rank() + d] = own[d];
    out.parts_.push_back(std::move(part));
  }
  return out;
}

Status Positions::read(const void* const* data, int64_t* out) const {
  for (size_t k = 0; k < parts_.size(); ++k) {
    const Part& part = parts_[k];
    std::array<int64_t, kMaxAxes> at{};
    int64_t from = 0;
    for (int64_t n = 0; n < count_; ++n) {
      const int64_t i = part.whole ? n : from;
      int64_t index =
          part.wide ? static_cast<const int64_t*>(data[k])[i] : static_cast<const int32_t*>(data[k])[i];
      if (index < -part.extent || index >= part.extent) return out_of_range(index, part.extent);
      if (index < 0) index += part.extent;
      out[n] = (k == 0 ? 0 : out[n]) + index * part.stride;
      if (part.whole) continue;
      for (size_t d = shape_.size(); d-- > 0;) {
        from += part.strides[d];
        if (++at[d] < shape_[d]) break;
        from -= part.strides[d] * at[d];
        at[d] = 0;
      }
    }
  }
  return ok_status();
}

}  // namespace sixfold::cpu
