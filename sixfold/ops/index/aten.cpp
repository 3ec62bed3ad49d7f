#include "sixfold/ops/aten.h"

#include "sixfold/ops/index/build.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {

SF_RULE_TABLE std::span<const AtenRule> index_rules() {
  static const auto* rules = [] {
    auto* all = new std::vector<AtenRule>;
    for (const auto part : {take_rules(), put_rules(), sort_rules()})
      all->insert(all->end(), part.begin(), part.end());
    return all;
  }();
  return *rules;
}

std::vector<std::vector<int64_t>> true_positions(const Tensor& mask) {
  std::vector<std::vector<int64_t>> out(mask.shape.size());
  const int64_t count = mask.count();
  for (int64_t i = 0; i < count; ++i) {
    if (element_real(mask, i) == 0.0) continue;
    int64_t rest = i;
    for (size_t d = mask.shape.size(); d-- > 0;) {
      out[d].push_back(rest % mask.shape[d]);
      rest /= mask.shape[d];
    }
  }
  return out;
}

bool clamp_indices(Call& call, ValueId x, AdvancedIndex& at) {
  for (size_t i = 0; i < at.indices.size(); ++i) {
    const int64_t size = extent(call, x, at.dims[i]).value_or(0);
    if (size == 0) return false;
    at.indices[i] = call.op(Op::clamp, {at.indices[i]}, {{"min", Dim(0)}, {"max", Dim(size - 1)}});
  }
  return true;
}

bool read_indices(Call& call, ValueId x, AdvancedIndex& out, std::optional<MaskIndex>& mask) {
  const std::vector<ValueId> list = call.tensors("indices");
  int64_t axis = 0;
  size_t given = 0;
  for (const ValueId index : list) {
    if (!index.valid()) {
      ++axis;
      continue;
    }
    ++given;
    const DType dtype = call.dtype_of(index);
    if (dtype != DType::boolean && dtype != DType::u8) {
      if (is_float(dtype)) call.fail(Code::InvalidModel, "an index of ", dtype);
      out.dims.push_back(axis++);
      out.indices.push_back(as_index(call, index));
      continue;
    }
    if (const auto known = call.known(index); known && known->shape.size() > 0) {
      for (size_t d = 0; d < known->shape.size(); ++d) {
        const int64_t size = extent(call, x, axis + static_cast<int64_t>(d)).value_or(known->shape[d]);
        if (size != known->shape[d])
          call.fail(Code::InvalidModel, "a mask ", known->shape, " over axis ", axis, " of ", call.type(x));
      }
      for (const auto& positions : true_positions(*known)) {
        out.dims.push_back(axis++);
        out.indices.push_back(integers(call, positions));
      }
      continue;
    }
    mask = MaskIndex{index, axis};
    axis += call.rank(index);
  }
  if (axis > call.rank(x)) call.fail(Code::InvalidModel, list.size(), " indices for a tensor ", call.type(x));
  if (mask && given > 1)
    call.fail(Code::Unsupported, "output shape depends on data: a mask among other indices");
  return ok(call);
}

}  // namespace sixfold::aten
