#include "sixfold/ops/aten.h"

#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

// The spatial rank in the overload's name: "aten.max_pool2d.default" has 2.
size_t spatial_rank(const Call& call) {
  const size_t at = call.target().find("pool") + 4;
  return static_cast<size_t>(call.target()[at] - '0');
}

// x with a batch axis; *added tells whether it had none. Records an error for any other rank.
ValueId batched(Call& call, ValueId x, size_t n, bool* added) {
  const auto rank = static_cast<size_t>(call.rank(x));
  *added = rank == n + 1;
  if (call.ok() && rank != n + 1 && rank != n + 2)
    call.fail(Code::InvalidModel, "input has rank ", rank, ", expected ", n + 1, " or ", n + 2);
  if (!call.ok()) return kNoValue;
  return *added ? call.unsqueeze(x, 0) : x;
}

ValueId unbatched(Call& call, ValueId x, bool added) {
  if (!added || !call.ok()) return x;
  const Dims& dims = call.dims_of(x);
  return call.reshape(x, Dims(dims.begin() + 1, dims.end()));
}

Attrs window(Call& call, size_t n) {
  const Shape kernel = call.ints_n("kernel_size", n, 1);
  Shape stride = call.ints_n("stride", n);
  if (call.ints("stride").empty()) stride = kernel;
  return {{"kernel", to_dims(kernel)},
          {"stride", to_dims(stride)},
          {"padding", to_dims(call.ints_n("padding", n))},
          {"ceil_mode", call.flag("ceil_mode")}};
}

Status max_pool(Call& call) {
  const size_t n = spatial_rank(call);
  bool added = false;
  const ValueId x = batched(call, call.tensor("self"), n, &added);
  Attrs attrs = window(call, n);
  attrs.set("dilation", to_dims(call.ints_n("dilation", n, 1)));
  const std::vector<ValueId> out = call.op_all(Op::max_pool, {x}, std::move(attrs));
  const ValueId values = unbatched(call, out[0], added);
  if (call.output_count() == 1) return call.result(values);
  return call.results({values, unbatched(call, out[1], added)});
}

Status avg_pool(Call& call) {
  const size_t n = spatial_rank(call);
  bool added = false;
  const ValueId x = batched(call, call.tensor("self"), n, &added);
  Attrs attrs = window(call, n);
  attrs.set("count_include_pad", call.flag("count_include_pad"));
  const int64_t divisor = call.integer_or("divisor_override", 0);
  if (divisor == 0 && !call.is_none("divisor_override"))
    call.fail(Code::InvalidModel, "divisor must not be zero");
  attrs.set("divisor", Dim(divisor));
  return call.result(unbatched(call, call.op(Op::avg_pool, {x}, std::move(attrs)), added));
}

// output_size with one entry per axis; one entry stands for all.
Attrs output_size(Call& call, size_t n) {
  Dims size = call.dims("output_size");
  if (size.size() == 1) size.assign(n, size[0]);
  return {{"size", size}};
}

Status adaptive_avg_pool(Call& call) {
  const size_t n = spatial_rank(call);
  bool added = false;
  const ValueId x = batched(call, call.tensor("self"), n, &added);
  return call.result(unbatched(call, call.op(Op::adaptive_avg_pool, {x}, output_size(call, n)), added));
}

Status adaptive_max_pool(Call& call) {
  const size_t n = spatial_rank(call);
  bool added = false;
  const ValueId x = batched(call, call.tensor("self"), n, &added);
  const std::vector<ValueId> out = call.op_all(Op::adaptive_max_pool, {x}, output_size(call, n));
  return call.results({unbatched(call, out[0], added), unbatched(call, out[1], added)});
}

// Indices are positions in the flattened plane: a scatter into zeros along it.
Status max_unpool(Call& call) {
  const size_t n = spatial_rank(call);
  const ValueId x = call.tensor("self"), indices = call.tensor("indices");
  const Dims size = call.dims("output_size");
  const auto rank = static_cast<size_t>(call.rank(x));
  if (!call.ok() || rank < n || size.size() != n || call.dims_of(indices) != call.dims_of(x))
    return invalid_model("max_unpool of ", call.type(x), " with indices ", call.type(indices), " to ", size);
  Dims in(call.dims_of(x).begin(), call.dims_of(x).end() - static_cast<int64_t>(n));
  Dims out = in;
  Dims flat = in;
  in.push_back(numel(Dims(call.dims_of(x).end() - static_cast<int64_t>(n), call.dims_of(x).end())));
  out.insert(out.end(), size.begin(), size.end());
  flat.push_back(numel(size));
  const ValueId zeros =
      call.op(Op::full, {}, {{"shape", flat}, {"value", Dim(0)}, {"dtype", call.dtype_of(x)}});
  const ValueId scattered = call.op(Op::scatter, {zeros, call.reshape(indices, in), call.reshape(x, in)},
                                    {{"dim", Dim(static_cast<int64_t>(in.size()) - 1)},
                                     {"reduce", std::string("none")},
                                     {"include_self", true}});
  return call.result(call.reshape(scattered, out));
}

Status fractional(Call& call) { return call.unsupported("fractional max pooling draws random windows"); }
Status quantized(Call& call) {
  return call.unsupported("quantized tensors are expected as quantize and dequantize calls");
}

constexpr AtenRule kRules[] = {
    {"aten.max_pool1d.default", max_pool},
    {"aten.max_pool2d.default", max_pool},
    {"aten.max_pool3d.default", max_pool},
    {"aten.max_pool1d_with_indices.default", max_pool},
    {"aten.max_pool2d_with_indices.default", max_pool},
    {"aten.max_pool3d_with_indices.default", max_pool},
    {"aten.avg_pool1d.default", avg_pool},
    {"aten.avg_pool2d.default", avg_pool},
    {"aten.avg_pool3d.default", avg_pool},
    {"aten.adaptive_avg_pool1d.default", adaptive_avg_pool},
    {"aten.adaptive_avg_pool2d.default", adaptive_avg_pool},
    {"aten.adaptive_avg_pool3d.default", adaptive_avg_pool},
    {"aten._adaptive_avg_pool2d.default", adaptive_avg_pool},
    {"aten._adaptive_avg_pool3d.default", adaptive_avg_pool},
    {"aten.adaptive_max_pool1d.default", adaptive_max_pool},
    {"aten.adaptive_max_pool2d.default", adaptive_max_pool},
    {"aten.adaptive_max_pool3d.default", adaptive_max_pool},
    {"aten.max_unpool2d.default", max_unpool},
    {"aten.max_unpool3d.default", max_unpool},
    {"aten.fractional_max_pool2d.default", fractional},
    {"aten.fractional_max_pool3d.default", fractional},
    {"aten.quantized_max_pool1d.default", quantized},
    {"aten.quantized_max_pool2d.default", quantized},
    {"aten.quantized_max_pool3d.default", quantized},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> pool_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
