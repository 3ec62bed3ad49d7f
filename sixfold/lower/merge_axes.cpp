#include "sixfold/lower/merge_axes.h"

namespace sixfold {

MergedAxes merge_axes(const std::vector<std::vector<uint32_t>>& operands,
                      const std::vector<uint32_t>& result) {
  MergedAxes out;
  out.operands.resize(operands.size());
  std::vector<bool> last;  // which operands have the axis before in full
  for (size_t a = 0; a < result.size(); ++a) {
    if (result[a] == 1) continue;
    std::vector<bool> full;
    for (const auto& dims : operands) {
      const size_t missing = result.size() - dims.size();
      full.push_back(a >= missing && dims[a - missing] != 1);
    }
    const bool joins = !out.result.empty() && full == last;
    if (!joins) out.result.push_back(1);
    out.result.back() *= result[a];
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!joins) out.operands[i].push_back(1);
      if (full[i]) out.operands[i].back() *= result[a];
    }
    last = std::move(full);
  }
  if (out.result.empty()) {
    out.result = {1};
    for (auto& dims : out.operands) dims = {1};
  }
  return out;
}

void add_merged(Lowering& l, const char* type, std::vector<TensorRef> operands, std::vector<Param> params) {
  const TensorRef y = l.out();
  if (!l.status().ok()) return;
  std::vector<std::vector<uint32_t>> dims;
  for (const TensorRef v : operands) dims.push_back(l.spec(v).dims);
  const MergedAxes merged = merge_axes(dims, l.spec(y).dims);
  for (size_t i = 0; i < operands.size(); ++i)
    if (merged.operands[i] != dims[i]) operands[i] = l.reshape(operands[i], merged.operands[i]);
  const TensorRef part = l.temp(merged.result, y);
  l.add(type, std::move(operands), {part}, std::move(params));
  l.add("Reshape", {part}, {y});
}

std::vector<uint32_t> around_axis(const std::vector<uint32_t>& dims, size_t axis) {
  std::vector<uint32_t> out(3, 1);
  for (size_t i = 0; i < dims.size(); ++i) out[i < axis ? 0 : i == axis ? 1 : 2] *= dims[i];
  return out;
}

TensorRef padded_apart(Lowering& l, TensorRef x, size_t axis, uint32_t before, uint32_t after, float value) {
  if (before + after == 0 || !l.status().ok()) return x;
  std::vector<uint32_t> dims = l.spec(x).dims;
  const TensorRef from = l.reshape(x, around_axis(dims, axis));
  dims[axis] += before + after;
  const TensorRef to = l.temp(around_axis(dims, axis), x);
  l.add("Pad", {from}, {to},
        {{"scheme", uint32_t{0}},
         words("pad_amount", {3, 2}, {0, 0, before, after, 0, 0}),
         {"pad_constant_value", value}});
  return l.reshape(to, dims);
}

void add_slice(Lowering& l, TensorRef x, const std::vector<uint32_t>& end, const std::vector<uint32_t>& step,
               TensorRef y) {
  std::vector<int32_t> ranges;
  for (size_t i = 0; i < end.size(); ++i)
    for (const uint32_t v : {0u, end[i], step[i]}) ranges.push_back(static_cast<int32_t>(v));
  l.add("StridedSlice", {x}, {y},
        {qnn::signed_words("ranges", {static_cast<uint32_t>(end.size()), 3}, ranges)});
}

TensorRef beginning(Lowering& l, TensorRef x, std::vector<uint32_t> dims) {
  const std::vector<uint32_t> ones(dims.size(), 1);
  const TensorRef y = l.temp(dims, x);
  add_slice(l, x, dims, ones, y);
  return y;
}

}  // namespace sixfold
