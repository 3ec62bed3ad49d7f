// Order: sort, topk, searchsorted, isin.
#include "sixfold/ops/index/build.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

// (values, indices) along the axis; scalars sort as one element.
std::vector<ValueId> sorted(Call& call, ValueId x, int64_t axis, bool descending) {
  auto out = call.op_all(Op::sort, {at_least(call, x, 1)}, {{"dim", Dim(axis)}, {"descending", descending}});
  out.resize(2);
  for (ValueId& v : out) v = call.reshape(v, call.dims_of(x));
  return out;
}
Status sort(Call& call) {
  const ValueId x = call.tensor("self");
  return call.results(sorted(call, x, call.axis("dim", x), call.flag("descending")));
}
Status argsort(Call& call) {
  const ValueId x = call.tensor("self");
  return call.result(sorted(call, x, call.axis("dim", x), call.flag("descending"))[1]);
}
Status msort(Call& call) {
  return call.result(sorted(call, call.tensor("self"), 0, /*descending=*/false)[0]);
}

Status topk(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis("dim", x);
  auto out = call.op_all(Op::topk, {at_least(call, x, 1)},
                         {{"k", call.dim("k")}, {"dim", Dim(axis)}, {"largest", call.flag("largest")}});
  out.resize(2);
  if (call.rank(x) == 0)
    for (ValueId& v : out) v = call.reshape(v, {});
  return call.results(out);
}

Status search(Call& call, ValueId sorted_sequence, ValueId values, bool right) {
  const DType dtype = promote(call.dtype_of(sorted_sequence), call.dtype_of(values));
  const Dims shape = call.dims_of(values);
  if (!ok(call)) return stop(call);
  const bool rows = call.rank(sorted_sequence) > 1;
  const ValueId out =
      call.op(Op::searchsorted,
              {call.to(sorted_sequence, dtype), call.to(rows ? values : at_least(call, values, 1), dtype)},
              {{"right", right}});
  return call.result(call.to(call.reshape(out, shape), call.flag("out_int32") ? DType::i32 : DType::i64));
}
Status searchsorted(Call& call) {
  ValueId sequence = call.tensor("sorted_sequence");
  bool right = call.flag("right");
  if (!call.is_none("side")) right = call.text("side") == "right";
  if (const ValueId sorter = call.optional_tensor("sorter"); sorter.valid())
    sequence =
        call.op(Op::gather, {sequence, as_index(call, sorter)}, {{"dim", Dim(call.rank(sequence) - 1)}});
  return search(call, sequence, call.tensor_or_scalar("self", call.dtype_of(sequence)), right);
}
Status bucketize(Call& call) {
  const ValueId boundaries = call.tensor("boundaries");
  return search(call, boundaries, call.tensor_or_scalar("self", call.dtype_of(boundaries)),
                call.flag("right"));
}

// Each element against each test element.
Status isin_values(Call& call, std::string_view elements, std::string_view tests) {
  const DType dtype = result_type(call, {elements, tests});
  const ValueId x = call.to(call.tensor_or_scalar(elements, dtype), dtype);
  const ValueId y = flatten(call, call.to(call.tensor_or_scalar(tests, dtype), dtype));
  const Dims shape = call.dims_of(x);
  if (!ok(call)) return stop(call);
  const ValueId equal = call.op(Op::eq, {call.unsqueeze(x, call.rank(x)), y});
  ValueId out = call.op(Op::any, {equal}, {{"dims", Dims{call.rank(x)}}, {"keepdim", false}});
  if (call.flag("invert")) out = call.op(Op::logical_not, {out});
  return call.result(out);
}
Status isin(Call& call) { return isin_values(call, "elements", "test_elements"); }
Status isin_scalar(Call& call) { return isin_values(call, "elements", "test_element"); }
Status scalar_isin(Call& call) { return isin_values(call, "element", "test_elements"); }

constexpr AtenRule kRules[] = {
    {"aten.sort.default", sort},
    {"aten.sort.stable", sort},
    {"aten.argsort.default", argsort},
    {"aten.argsort.stable", argsort},
    {"aten.msort.default", msort},
    {"aten.topk.default", topk},
    {"aten.searchsorted.Tensor", searchsorted},
    {"aten.searchsorted.Scalar", searchsorted},
    {"aten.bucketize.Tensor", bucketize},
    {"aten.bucketize.Scalar", bucketize},
    {"aten.isin.Tensor_Tensor", isin},
    {"aten.isin.Tensor_Scalar", isin_scalar},
    {"aten.isin.Scalar_Tensor", scalar_isin},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> sort_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
