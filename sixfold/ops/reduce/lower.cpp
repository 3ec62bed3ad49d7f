// Reductions on the NPU.
#include <algorithm>

#include "sixfold/lower/lowering.h"

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

}  // namespace

void reduce(Lowering& l) {
  const char* type = type_of(l.op());
  if (!type) return none(l);
  std::vector<uint32_t> axes;
  for (const int64_t d : l.attrs().ints("dims")) axes.push_back(static_cast<uint32_t>(l.axis(d)));
  std::sort(axes.begin(), axes.end());
  // A result of no axes is [1] to the device, which counts them: reduce to all ones, then name it [1].
  const bool to_number = l.out_type().rank() == 0;
  const bool keep = l.attrs().flag("keepdim") && !to_number;
  if (!to_number)
    return l.add(type, {l.in()}, {l.out()}, {words("axes", std::move(axes)), {"keep_dims", keep}});
  const TensorRef y = l.out();
  const TensorRef ones = l.temp(std::vector<uint32_t>(l.rank(), 1), y);
  l.add(type, {l.in()}, {ones}, {words("axes", std::move(axes)), {"keep_dims", true}});
  l.add("Reshape", {ones}, {y});
}

void arg_reduce(Lowering& l) {
  const char* type = l.op() == Op::argmax ? "Argmax" : "Argmin";
  const auto axis = static_cast<uint32_t>(l.axis(l.attrs().integer("dim")));
  if (l.out_type().rank() > 0)
    return l.add(type, {l.in()}, {l.out()}, {{"axis", axis}, {"keep_dims", l.attrs().flag("keepdim")}});
  const TensorRef y = l.out();
  const TensorRef ones = l.temp({1}, y);
  l.add(type, {l.in()}, {ones}, {{"axis", axis}, {"keep_dims", true}});
  l.add("Reshape", {ones}, {y});
}

void cumsum(Lowering& l) {
  l.add_simple("CumulativeSum", {{"axis", static_cast<uint32_t>(l.axis(l.attrs().integer("dim")))},
                                 {"exclusive", false},
                                 {"reverse", false}});
}

}  // namespace sixfold::lower
