// Reductions on the NPU.
#include <algorithm>

#include "sixfold/lower/merge_axes.h"

namespace sixfold::lower {
namespace {

const char* type_of(Op op) {
  switch (op) {
    case Op::sum:
      return "ReduceSum";
    case Op::mean:
      return "ReduceMean";
    case Op::amax:
      return "ReduceMax";
    case Op::amin:
      return "ReduceMin";
    default:
      return nullptr;
  }
}

// Of a sum of 160 numbers of 16 bits or more along the last axis alone Qualcomm's library leaves blocks of 32
// out. In a column all count.  [htp.reduce.2]
bool leaves_blocks_out(const Lowering& l, TensorRef x, const std::vector<uint32_t>& axes) {
  if ((l.op() != Op::sum && l.op() != Op::mean) || axes.empty()) return false;
  if (!l.quantized() || fixed_bytes(*l.encoding(0)) != 2) return false;
  const std::vector<uint32_t>& dims = l.spec(x).dims;
  return axes.back() + 1 == dims.size() && dims.back() >= 160 &&
         std::all_of(axes.begin(), axes.end() - 1, [&](uint32_t a) { return dims[a] == 1; });
}

}  // namespace

void reduce(Lowering& l) {
  const char* type = type_of(l.op());
  if (!type) return none(l);
  std::vector<uint32_t> axes;
  for (const int64_t d : l.attrs().ints("dims")) axes.push_back(static_cast<uint32_t>(l.axis(d)));
  std::sort(axes.begin(), axes.end());
  TensorRef x = l.in();
  const TensorRef y = l.out();
  if (!l.status().ok()) return;
  // The largest and the smallest of more than four axes: axis by axis, as the middle one of three.
  if (l.rank() > 4 && (l.op() == Op::amax || l.op() == Op::amin)) {
    std::vector<uint32_t> dims = l.spec(x).dims;
    for (const uint32_t axis : axes) {
      const std::vector<uint32_t> three = around_axis(dims, axis);
      const TensorRef part = l.temp({three[0], 1, three[2]}, y);
      l.add(type, {l.reshape(x, three)}, {part}, {words("axes", {1}), {"keep_dims", true}});
      x = part;
      dims[axis] = 1;
    }
    return l.add("Reshape", {x}, {y});
  }
  if (leaves_blocks_out(l, x, axes)) {
    const std::vector<uint32_t> three = around_axis(l.spec(x).dims, axes.back());
    const TensorRef part = l.temp({three[0], 1, 1}, y);
    l.add(type, {l.reshape(x, three)}, {part}, {words("axes", {1}), {"keep_dims", true}});
    return l.add("Reshape", {part}, {y});
  }
  // A result of no axes is [1] to the device, which counts them: reduce to all ones, then name it [1].
  const bool to_number = l.out_type().rank() == 0;
  const bool keep = l.attrs().flag("keepdim") && !to_number;
  if (!to_number) return l.add(type, {x}, {y}, {words("axes", std::move(axes)), {"keep_dims", keep}});
  const TensorRef ones = l.temp(std::vector<uint32_t>(l.rank(), 1), y);
  l.add(type, {x}, {ones}, {words("axes", std::move(axes)), {"keep_dims", true}});
  l.add("Reshape", {ones}, {y});
}

void arg_reduce(Lowering& l) {
  const char* type = l.op() == Op::argmax ? "Argmax" : "Argmin";
  const auto axis = static_cast<uint32_t>(l.axis(l.attrs().integer("dim")));
  if (l.rank() > 4) {
    const TensorRef x = l.in(), y = l.out();
    if (!l.status().ok()) return;
    const std::vector<uint32_t> three = around_axis(l.spec(x).dims, axis);
    const TensorRef part = l.temp({three[0], 1, three[2]}, y);
    l.add(type, {l.reshape(x, three)}, {part}, {{"axis", uint32_t{1}}, {"keep_dims", true}});
    return l.add("Reshape", {part}, {y});
  }
  if (l.out_type().rank() > 0)
    return l.add(type, {l.in()}, {l.out()}, {{"axis", axis}, {"keep_dims", l.attrs().flag("keepdim")}});
  const TensorRef y = l.out();
  const TensorRef ones = l.temp({1}, y);
  l.add(type, {l.in()}, {ones}, {{"axis", axis}, {"keep_dims", true}});
  l.add("Reshape", {ones}, {y});
}

void cumsum(Lowering& l) {
  const auto axis = static_cast<uint32_t>(l.axis(l.attrs().integer("dim")));
  const auto params = [](uint32_t a) {
    return std::vector<Param>{{"axis", a}, {"exclusive", false}, {"reverse", false}};
  };
  // With 8 bits Qualcomm's library is right along the last axis alone.  [htp.cumsum.1]
  const bool turns = l.quantized() && fixed_bytes(*l.encoding(0)) == 1 && axis + 1 < l.rank();
  if (l.rank() <= 4 && !turns) return l.add_simple("CumulativeSum", params(axis));
  const TensorRef x = l.in(), y = l.out();
  if (!l.status().ok()) return;
  std::vector<uint32_t> three = around_axis(l.spec(x).dims, axis);
  if (axis + 1 == l.rank()) three.pop_back();  // it stays the last
  TensorRef from = l.reshape(x, three);
  if (turns) {
    from = l.transpose(from, {0, 2, 1});
    std::swap(three[1], three[2]);
  }
  TensorRef part = l.temp(three, y);
  l.add("CumulativeSum", {from}, {part}, params(turns ? 2 : 1));
  if (turns) part = l.transpose(part, {0, 2, 1});
  l.add("Reshape", {part}, {y});
}

}  // namespace sixfold::lower
