#include "sixfold/lower/lowering.h"

#include <algorithm>

#include "sixfold/graph/precision.h"
#include "sixfold/lower/fit.h"
#include "sixfold/lower/limits.h"

namespace sixfold {

using qnn::DataType;
using qnn::TensorKind;
using qnn::TensorSpec;

namespace {

// A node computes in fixed point when every float it reads or writes has an encoding.
bool is_quantized(const Graph& graph, const Node& node) {
  if (computes_in_float(node)) return false;
  bool any = false;
  const auto encoded = [&](ValueId v) {
    if (!v.valid() || !is_float(graph.dtype(v))) return true;
    if (graph.value(v).encoding) {
      any = true;
      return true;
    }
    return graph.constant(v) != nullptr;
  };
  for (const ValueId v : node.inputs)
    if (!encoded(v)) return false;
  for (const ValueId v : node.outputs)
    if (graph.is_used(v) && !encoded(v)) return false;
  return any;
}

}  // namespace

LowerRule lower_rule(Op op) {
  switch (op) {
#define HTP(id, form, rewrite_fn, lower_fn) \
  case Op::id:                              \
    return lower::lower_fn;
#include "sixfold/ops/htp.def"
#undef HTP
    default:
      return lower::none;
  }
}

namespace lower {
void none(Lowering& l) {
  if (l.op() == Op::special || l.op() == Op::linalg)
    return l.refuse(cat("QNN has no op for the function ", l.attrs().text("function")));
  l.refuse(cat("QNN has no op for ", l.op(),
               l.op() == Op::rand || l.op() == Op::randn ? ", random numbers of torch's kind" : ""));
}
}  // namespace lower

Lowering::Lowering(IslandLowering& island, const Node& node)
    : island_(island),
      node_(node),
      form_(island.forms().of(node)),
      quantized_(is_quantized(island.graph(), node)) {
  halves_ = !quantized_ && (node.op == Op::convolution || node.op == Op::linear) && constant(1) &&
            encoding(1) && type(0).dtype == DType::f32;
}

Shape Lowering::shape(size_t i) {
  return is_static(type(i).dims) ? static_shape(type(i).dims) : Shape(rank(i), 1);
}
Shape Lowering::out_shape(size_t i) {
  return is_static(out_type(i).dims) ? static_shape(out_type(i).dims) : Shape(out_type(i).rank(), 1);
}
const Tensor* Lowering::constant(size_t i) const { return constant_of(graph(), node_.input(i)); }

const Encoding* Lowering::encoding(size_t i) const {
  const ValueId v = node_.input(i);
  return v.valid() && graph().value(v).encoding ? &*graph().value(v).encoding : nullptr;
}
const Encoding* Lowering::out_encoding(size_t i) const {
  const auto& e = graph().value(node_.output(i)).encoding;
  return e ? &*e : nullptr;
}

int64_t Lowering::axis(int64_t a) const { return channels_last() ? channels_last_axis(a, rank(0)) : a; }

std::vector<uint32_t> Lowering::extents(const Shape& shape) const {
  return to_extents(sixfold::in_form(to_dims(shape), form_));
}

TensorRef Lowering::in(size_t i) {
  const TensorRef x = in_form(i, form_);
  return halves_ && status().ok() && spec(x).dtype == DataType::f32 ? cast(x, DataType::f16) : x;
}

TensorRef Lowering::in_form(size_t i, Form form) {
  const ValueId v = node_.input(i);
  if (!v.valid() || !status().ok()) return {};
  // In fixed point a constant that calibration left out gets an encoding that fits it.
  const Tensor* loose =
      quantized_ && is_float(graph().dtype(v)) && !encoding(i) ? graph().constant(v) : nullptr;
  if (loose) {
    const Encoding* like = encoding(0) ? encoding(0) : out_encoding();
    const Encoding e = fitted(*loose, like ? qnn::storage_of(fixed_type(*like)) : DType::u8);
    Tensor data = to_contiguous(*loose);
    const size_t full = out_type().rank();
    if (form == Form::channels_last && data.shape.size() > 1 && full >= 3) {
      data.shape.insert(data.shape.begin(), full - std::min(full, data.shape.size()), 1);
      const TensorRef ref = constant(data, &e);
      TensorSpec& t = island_.spec_.tensors[ref.index];
      t.dims = to_extents(sixfold::in_form(to_dims(data.shape), form));
      t.data.order = channels_last_order(data.shape.size());
      return ref;
    }
    return constant(std::move(data), &e);
  }
  // A constant of fewer axes broadcasts from the right; in another order it needs all of them.
  const Tensor* data = constant_of(graph(), v);
  const size_t rank = out_type().rank();
  if (data && form == Form::channels_last && data->shape.size() > 1 && data->shape.size() < rank) {
    TensorSpec t = island_.describe(v, {.form = Form::plain, .fixed = quantized_});
    t.kind = TensorKind::constant;
    t.name = island_.unique_name(cat(t.name, "@nhwc"));
    Tensor full = to_contiguous(*data);
    full.shape.insert(full.shape.begin(), rank - full.shape.size(), 1);
    t.dims = to_extents(sixfold::in_form(to_dims(full.shape), form));
    t.data = {
        .source = std::move(full), .order = channels_last_order(rank), .dtype = qnn::storage_of(t.dtype)};
    if (const Encoding* e = encoding(i); e && quantized_ && is_float(data->dtype)) {
      if (e->axis >= 0) {
        refuse("a constant with several scales and fewer axes than the result");
        return {};
      }
      t.data.grid = {e->quant_min, e->quant_max, -1, 0, e->scales, e->zero_points};
    }
    return island_.spec().add(std::move(t));
  }
  return island_.view(v, {.form = form, .fixed = quantized_});
}

TensorRef Lowering::in_float(size_t i) {
  return status().ok() ? island_.view(node_.input(i), {.form = form_, .fixed = false}) : TensorRef{};
}

TensorRef Lowering::in_fixed(size_t i) {
  return status().ok() ? island_.view(node_.input(i), {.form = form_, .fixed = true}) : TensorRef{};
}

TensorRef Lowering::out(size_t i) { return out_form(i, form_); }

TensorRef Lowering::out_form(size_t i, Form form) {
  if (!status().ok()) return {};
  if (halves_) {
    if (half_out_.valid()) return half_out_;
    halves_ = false;
    real_out_ = out_form(i, form);
    halves_ = true;
    return half_out_ = temp(spec(real_out_).dims, DataType::f16);
  }
  const ValueId v = node_.output(i);
  IslandLowering::View view{
      .form = graph().type(v).rank() < 3 ? Form::plain : form,
      .fixed = quantized_ && graph().value(v).encoding.has_value() && is_float(graph().dtype(v))};
  if (const auto it = island_.views_.find({v, view}); it != island_.views_.end()) return it->second;
  return island_.add_output(v, view);
}

void Lowering::finish() {
  if (half_out_.valid()) add("Cast", {half_out_}, {real_out_});
}

bool Lowering::has_form(size_t i, Form form) const {
  const ValueId v = node_.input(i);
  if (constant_of(graph(), v) || rank(i) < 3) return true;
  for (const auto& [key, ref] : island_.views_)
    if (key.first == v && key.second.form == form) return true;
  return false;
}

Form Lowering::wanted_form() const {
  const Value& v = graph().value(node_.output());
  for (const Leaf& leaf : graph().outputs)
    if (leaf.value == v.id) return Form::plain;
  bool any = false;
  for (const NodeId id : v.users) {
    const Node& user = graph().node(id);
    if (user.op == Op::permute) continue;  // takes either
    if (island_.forms().of(user) == Form::plain) return Form::plain;
    any = true;
  }
  return any ? Form::channels_last : Form::plain;
}

TensorRef Lowering::constant(Tensor data, const Encoding* e) {
  if (!status().ok()) return {};
  TensorSpec t;
  t.name = island_.unique_name(cat(island_.describe(node_.output(), {}).name, "_const"));
  t.kind = TensorKind::constant;
  t.dims = to_extents(to_dims(data.shape));
  // A rule's own floats are of the width that the node computes with.
  const bool half = data.dtype == DType::f32 && type().dtype == DType::f16;
  t.dtype = e ? fixed_type(*e) : half ? DataType::f16 : device_type(data.dtype);
  if (e) {
    t.quantization = quantization_of(*e);
    t.data.grid = {e->quant_min, e->quant_max, e->axis, e->block, e->scales, e->zero_points};
  }
  t.data.dtype = qnn::storage_of(t.dtype);
  t.data.source = std::move(data);
  return island_.spec().add(std::move(t));
}

TensorRef Lowering::number(double value, const Encoding* e) {
  Tensor t = Tensor::scalar(value, is_float(type().dtype) ? DType::f32 : type().dtype);
  t.shape = {1};
  return constant(std::move(t), quantized_ ? e : nullptr);
}

TensorRef Lowering::temp(std::vector<uint32_t> dims, TensorRef like) {
  if (!status().ok()) return {};
  return temp(std::move(dims), spec(like).dtype, spec(like).quantization);
}
TensorRef Lowering::temp(std::vector<uint32_t> dims, DataType dtype, qnn::Quantization quantization) {
  if (!status().ok()) return {};
  TensorSpec t;
  t.name = island_.unique_name(cat(island_.describe(node_.output(), {}).name, "_part"));
  t.dims = std::move(dims);
  t.dtype = dtype;
  t.quantization = std::move(quantization);
  return island_.spec().add(std::move(t));
}

const TensorSpec& Lowering::spec(TensorRef ref) const {
  static const TensorSpec none{};
  return ref.valid() ? island_.spec_.tensor(ref) : none;
}

void Lowering::add(const char* type, std::vector<TensorRef> in, std::vector<TensorRef> out,
                   std::vector<Param> params) {
  if (!status().ok()) return;
  while (!in.empty() && !in.back().valid()) in.pop_back();
  island_.add_op({.name = cat(island_.describe(node_.output(), {}).name, "_", type),
                  .type = type,
                  .in = std::move(in),
                  .out = std::move(out),
                  .params = std::move(params)});
}

void Lowering::add_simple(const char* type, std::vector<Param> params) {
  std::vector<TensorRef> operands;
  for (size_t i = 0; i < inputs(); ++i) operands.push_back(in(i));
  add(type, std::move(operands), {out()}, std::move(params));
}

TensorRef Lowering::transpose(TensorRef x, const Shape& order) {
  if (!status().ok()) return {};
  std::vector<uint32_t> dims, perm;
  for (const int64_t a : order) {
    dims.push_back(spec(x).dims[static_cast<size_t>(a)]);
    perm.push_back(static_cast<uint32_t>(a));
  }
  const TensorRef y = temp(std::move(dims), x);
  add("Transpose", {x}, {y}, {words("perm", std::move(perm))});
  return y;
}
TensorRef Lowering::reshape(TensorRef x, std::vector<uint32_t> dims) {
  if (!status().ok()) return {};
  const TensorRef y = temp(std::move(dims), x);
  add("Reshape", {x}, {y});
  return y;
}
TensorRef Lowering::cast(TensorRef x, DataType dtype) {
  if (!status().ok()) return {};
  const TensorRef y = temp(spec(x).dims, dtype);
  add("Cast", {x}, {y});
  return y;
}

void Lowering::refuse(std::string_view reason) { island_.fail(unsupported(reason)); }

Status IslandLowering::lower(const Node& node) {
  if (stored_integers(graph_, node.output())) return {};  // read where it is used
  node_ = node.id.index;
  Lowering l(*this, node);
  if (!symbols_of(graph_, node).empty())
    if (Status s = check_limits(graph_, node); !s.ok()) fail(s.take_error());
  if (status_.ok()) lower_rule(node.op)(l);
  l.finish();
  return std::move(status_);
}

Result<qnn::GraphSpec> lower_island(const Graph& island, const Forms& forms, std::string name) {
  IslandLowering lowering(island, forms, std::move(name));
  for (const NodeId id : island.order()) {
    const Node& node = island.node(id);
    if (Status s = lowering.lower(node); !s.ok())
      return s.take_error().during(cat("lowering ", describe(island, node)));
  }
  SF_TRY(lowering.finish());
  return lowering.take();
}

}  // namespace sixfold
