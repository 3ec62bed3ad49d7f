#include "sixfold/lower/lowering.h"

#include <algorithm>
#include <cmath>

#include "sixfold/graph/encoding.h"
#include "sixfold/graph/precision.h"
#include "sixfold/lower/cut_bias.h"
#include "sixfold/lower/fit.h"
#include "sixfold/lower/limits.h"

namespace sixfold {

using qnn::DataType;
using qnn::TensorKind;
using qnn::TensorSpec;

namespace {

// The device computes integers in 32 bits.
DataType device_type(DType dtype) {
  switch (dtype) {
    case DType::i64:
      return DataType::i32;
    case DType::f64:
    case DType::bf16:
      return DataType::f32;
    default:
      return qnn::plain_type(dtype);
  }
}

// dequantize(constant): a weight whose integers the file has.
const Node* stored_integers(const Graph& graph, ValueId value) {
  const Node* producer = value.valid() ? graph.producer(value) : nullptr;
  if (!producer || producer->op != Op::dequantize || !graph.constant(producer->input(0))) return nullptr;
  return graph.value(value).encoding ? producer : nullptr;
}

const Tensor* constant_of(const Graph& graph, ValueId value) {
  if (const Node* dequantize = stored_integers(graph, value)) return graph.constant(dequantize->input(0));
  return graph.constant(value);
}

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

std::vector<uint32_t> to_extents(const Dims& dims) {
  std::vector<uint32_t> out;
  for (const Dim& d : dims) out.push_back(static_cast<uint32_t>(d.value_or(0)));
  if (out.empty()) out.push_back(1);
  return out;
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

DataType fixed_type(const Encoding& e) {
  const int64_t range = e.quant_max - e.quant_min;
  const bool is_unsigned = e.quant_min >= 0;
  if (range <= 255) return is_unsigned ? DataType::ufixed8 : DataType::sfixed8;
  if (range <= 65535) return is_unsigned ? DataType::ufixed16 : DataType::sfixed16;
  return is_unsigned ? DataType::ufixed32 : DataType::sfixed32;
}

qnn::Quantization quantization_of(const Encoding& e, const Shape& order) {
  const auto zero = [&](size_t i) { return i < e.zero_points.size() ? -e.zero_points[i] : 0; };
  const int64_t range = e.quant_max - e.quant_min;
  const uint32_t bits = range <= 3 ? 2 : range <= 15 ? 4 : 0;
  if (e.axis < 0) {
    const qnn::ScaleOffset all{e.scales.empty() ? 0 : e.scales[0], zero(0)};
    if (bits) return qnn::BitWidthScaleOffset{bits, all};
    return all;
  }
  int32_t axis = e.axis;
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i] == e.axis) axis = static_cast<int32_t>(i);
  if (e.block > 0) {
    // Two levels: a channel's scale is a sixteenth of its largest block's, a block's is 1 to 16 of those.
    qnn::BlockExpansion out{.axis = axis};
    const auto channels = static_cast<size_t>(e.zero_points.empty() ? 0 : e.zero_points.size());
    const size_t count = channels ? channels : 1;
    out.blocks = static_cast<uint32_t>(e.scales.size() / count);
    for (size_t c = 0; c < count; ++c) {
      const auto* first = e.scales.data() + c * out.blocks;
      const float scale = *std::max_element(first, first + out.blocks) / 16;
      out.channels.push_back({scale, 0});
      for (size_t b = 0; b < out.blocks; ++b)
        out.block_scales.push_back(
            static_cast<uint8_t>(std::clamp(std::nearbyint(first[b] / scale), 1.0f, 16.0f)));
    }
    return out;
  }
  std::vector<qnn::ScaleOffset> channels;
  for (size_t i = 0; i < e.scales.size(); ++i) channels.push_back({e.scales[i], zero(i)});
  if (bits) return qnn::BitWidthAxisScaleOffset{bits, axis, std::move(channels)};
  return qnn::AxisScaleOffset{axis, std::move(channels)};
}

// ---- the island

IslandLowering::IslandLowering(const Graph& graph, const Forms& forms, std::string name)
    : graph_(graph), forms_(forms) {
  spec_.name = std::move(name);
  for (size_t i = 0; i < graph.outputs.size(); ++i) output_index_.emplace(graph.outputs[i].value, i);
  // Inputs first and in order: their place is part of their name, and callers count on it.
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueId v = graph.inputs[i].value;
    if (!v.valid()) continue;
    const View as_given = outside(v);
    TensorSpec t = describe(v, as_given);
    t.name = unique_name(cat("input_", i, "_", graph.value(v).name, "@0"));
    t.kind = TensorKind::app_write;
    views_[{v, as_given}] = spec_.add(std::move(t));
    made_[v] = as_given;
  }
}

std::string IslandLowering::unique_name(std::string name) {
  const uint32_t seen = names_[name]++;
  return seen == 0 ? name : unique_name(cat(name, "_", seen));
}

void IslandLowering::add_op(qnn::OpSpec op) {
  if (!status_.ok()) return;
  op.name = unique_name(std::move(op.name));
  op.node = node_;
  spec_.ops.push_back(std::move(op));
}

IslandLowering::View IslandLowering::outside(ValueId value) const {
  return {.form = Form::plain, .fixed = false, .foreign = graph_.dtype(value) == DType::i64};
}

TensorSpec IslandLowering::describe(ValueId value, View view) const {
  const Value& v = graph_.value(value);
  TensorSpec t;
  t.name = v.name.empty() ? cat("v", value.index) : v.name;
  t.dims = to_extents(in_form(v.type.dims, view.form));
  t.dtype = view.foreign ? qnn::plain_type(v.type.dtype) : device_type(v.type.dtype);
  // Integers with an encoding are those of a quantized input or output: their bytes are what the device has.
  if (v.encoding && (view.fixed || !is_float(v.type.dtype))) {
    t.dtype = fixed_type(*v.encoding);
    t.quantization =
        quantization_of(*v.encoding, view.form == Form::plain ? Shape{} : channels_last_order(v.type.rank()));
  }
  return t;
}

TensorRef IslandLowering::view(ValueId value, View want) {
  if (!value.valid()) return {};
  if (graph_.type(value).rank() < 3) want.form = Form::plain;
  if (!is_float(graph_.dtype(value)) || !graph_.value(value).encoding) want.fixed = false;
  if (graph_.dtype(value) != DType::i64) want.foreign = false;
  if (const auto it = views_.find({value, want}); it != views_.end()) return it->second;
  const TensorRef made = constant_of(graph_, value) ? make_constant(value, want) : make_view(value, want);
  views_[{value, want}] = made;
  return made;
}

TensorRef IslandLowering::make_constant(ValueId value, View want) {
  TensorSpec t = describe(value, want);
  const Tensor& data = *constant_of(graph_, value);
  t.kind = TensorKind::constant;
  t.name = unique_name(t.name);
  t.data.source = data;
  if (want.form == Form::channels_last) t.data.order = channels_last_order(data.shape.size());
  t.data.dtype = qnn::storage_of(t.dtype);
  if (want.fixed && is_float(data.dtype)) {
    const Encoding& e = *graph_.value(value).encoding;
    t.data.grid = {e.quant_min, e.quant_max, e.axis, e.block, e.scales, e.zero_points};
  }
  if (!want.fixed && stored_integers(graph_, value))
    t.data.source = reals_of(data, *graph_.value(value).encoding);
  return spec_.add(std::move(t));
}

// A value that exists already, in another view: one step at a time, so that steps are shared.
TensorRef IslandLowering::make_view(ValueId value, View want) {
  const auto it = made_.find(value);
  if (it == made_.end()) {
    fail(sixfold::fail(Code::Internal, "value ", graph_.value(value).name, " is used before it is computed"));
    return {};
  }
  // Of all views there are, the one fewest steps away.
  View from = it->second;
  const auto steps = [&](const View& v) {
    return (v.form != want.form) + (v.fixed != want.fixed) + (v.foreign != want.foreign);
  };
  for (const auto& [key, ref] : views_)
    if (key.first == value && steps(key.second) < steps(from)) from = key.second;
  View next = from;
  // Casts of integers first, so that the rest is 32 bits wide; then to fixed point, which is narrow; floats
  // last.
  if (from.foreign && !want.foreign)
    next.foreign = false;
  else if (!from.fixed && want.fixed)
    next.fixed = true;
  else if (from.form != want.form)
    next.form = want.form;
  else if (from.fixed && !want.fixed)
    next.fixed = false;
  else
    next.foreign = want.foreign;
  TensorSpec t = describe(value, next);
  t.name = unique_name(cat(t.name, "@", next.form == Form::plain ? "nchw" : "nhwc", next.fixed ? "_q" : "",
                           next.foreign ? "_i64" : ""));
  const TensorRef made = spec_.add(std::move(t));
  views_[{value, next}] = made;
  if (Status s = convert(value, from, next, made); !s.ok()) fail(s.take_error());
  return next == want ? made : view(value, want);
}

Status IslandLowering::convert(ValueId value, View from, View to, TensorRef target) {
  // The library accepts such a Cast and fails, or falls, when it prepares the graph.
  if (from.foreign != to.foreign && graph_.type(value).rank() > 4)
    return unsupported("64-bit integers of more than four axes come in or go out [htp.cast.1]");
  const TensorRef source = views_.at({value, from});
  qnn::OpSpec op;
  op.in = {source};
  op.out = {target};
  if (from.form != to.form) {
    const size_t rank = graph_.type(value).rank();
    const Shape order = channels_last_order(rank);
    std::vector<uint32_t> perm(rank);
    for (size_t i = 0; i < rank; ++i)
      (to.form == Form::channels_last ? perm[i] : perm[static_cast<size_t>(order[i])]) =
          static_cast<uint32_t>(to.form == Form::channels_last ? order[i] : static_cast<int64_t>(i));
    const Dims& d = graph_.dims(value);
    // Nothing moves when there is one channel, or one pixel.
    bool moves = !(d[1].is_static() && d[1].value() == 1);
    bool pixels = false;
    for (size_t i = 2; i < rank; ++i) pixels = pixels || !(d[i].is_static() && d[i].value() == 1);
    moves = moves && pixels;
    op.type = moves ? "Transpose" : "Reshape";
    if (moves) op.params.push_back(words("perm", std::move(perm)));
  } else if (from.fixed != to.fixed) {
    op.type = to.fixed ? "Quantize" : "Dequantize";
  } else {
    op.type = "Cast";
  }
  op.name = cat(spec_.tensor(target).name, "_", op.type);
  add_op(std::move(op));
  return {};
}

TensorRef IslandLowering::add_output(ValueId value, View view) {
  TensorSpec t = describe(value, view);
  const Value& v = graph_.value(value);
  const auto out = output_index_.find(value);
  const bool is_output = out != output_index_.end() && view == outside(value);
  t.kind = is_output ? TensorKind::app_read : TensorKind::native;
  t.name = unique_name(cat(is_output ? "output_" : "", t.name, "@", v.output_index));
  const TensorRef ref = spec_.add(std::move(t));
  views_[{value, view}] = ref;
  made_[value] = view;
  return ref;
}

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

Status IslandLowering::finish() {
  for (const Leaf& leaf : graph_.outputs) {
    if (!leaf.value.valid()) continue;
    const View want = outside(leaf.value);
    if (const auto it = views_.find({leaf.value, want}); it != views_.end()) {
      TensorSpec& t = spec_.tensors[it->second.index];
      if (t.kind == TensorKind::app_read) continue;
      if (t.kind != TensorKind::native)
        return sixfold::fail(Code::Internal, "an output of the island is its input or a constant");
      t.kind = TensorKind::app_read;
      t.name = unique_name(cat("output_", t.name));
      continue;
    }
    const TensorRef ref = view(leaf.value, want);
    if (!status_.ok()) return std::move(status_);
    TensorSpec& t = spec_.tensors[ref.index];
    t.kind = TensorKind::app_read;
    t.name = unique_name(cat("output_", t.name));
  }
  order_outputs();
  return std::move(status_);
}

// Callers count outputs in the order of the signature; casts at the end came later than those they are of.
void IslandLowering::order_outputs() {
  std::vector<uint32_t> wanted, places;
  for (const Leaf& leaf : graph_.outputs) {
    const auto it = leaf.value.valid() ? views_.find({leaf.value, outside(leaf.value)}) : views_.end();
    if (it != views_.end() && std::find(wanted.begin(), wanted.end(), it->second.index) == wanted.end())
      wanted.push_back(it->second.index);
  }
  places = wanted;
  std::sort(places.begin(), places.end());
  if (places == wanted) return;
  std::map<uint32_t, uint32_t> moved;
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < wanted.size(); ++i) {
    moved[wanted[i]] = places[i];
    specs.push_back(spec_.tensors[wanted[i]]);
  }
  for (size_t i = 0; i < wanted.size(); ++i) spec_.tensors[places[i]] = std::move(specs[i]);
  const auto remap = [&](TensorRef& ref) {
    if (const auto it = moved.find(ref.index); it != moved.end()) ref.index = it->second;
  };
  for (qnn::OpSpec& op : spec_.ops) {
    for (TensorRef& ref : op.in) remap(ref);
    for (TensorRef& ref : op.out) remap(ref);
  }
}

// ---- one node

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

TensorRef Lowering::weight(size_t i, const Shape& order, const Shape& reshaped) {
  const ValueId v = node_.input(i);
  const Tensor* data = constant(i);
  if (!status().ok() || !data) return {};
  const bool fixed = quantized_ || halves_;
  TensorSpec t = island_.describe(v, {.form = Form::plain, .fixed = fixed});
  t.kind = TensorKind::constant;
  t.name = island_.unique_name(cat(t.name, "@weight"));
  Tensor source = !fixed && stored_integers(graph(), v) ? reals_of(*data, *encoding(i)) : *data;
  if (!reshaped.empty() && reshaped != source.shape) {
    source = to_contiguous(source);
    source.shape = reshaped;
  }
  Shape moved;
  for (size_t k = 0; k < source.shape.size(); ++k)
    moved.push_back(source.shape[order.empty() ? k : static_cast<size_t>(order[k])]);
  t.dims = to_extents(to_dims(moved));
  t.data = {.source = std::move(source), .order = order, .dtype = qnn::storage_of(t.dtype)};
  if (const Encoding* e = encoding(i); e && fixed) {
    t.quantization = quantization_of(*e, order);
    if (is_float(data->dtype))
      t.data.grid = {e->quant_min, e->quant_max, e->axis, e->block, e->scales, e->zero_points};
  }
  return island_.spec().add(std::move(t));
}

bool Lowering::cuts_sums(size_t i, size_t x, size_t w) const {
  const ValueId v = node_.input(i);
  const auto is_real = [&](size_t k) { return constant(k) && is_float(constant(k)->dtype); };
  if (!quantized_ || halves_ || !is_real(w) || (v.valid() && (!is_real(i) || encoding(i)))) return false;
  const Encoding *ex = encoding(x), *ew = encoding(w);
  if (!ex || !ew || cut_of_sums(*ex, *ew) == 1) return false;
  if (node_.op != Op::convolution) return true;
  if (attrs().flag("transposed") && attrs().integer("groups") != 1) return false;
  // Filters for each channel that take such steps are computed by the vector unit, which cuts nothing.
  const Shape step = attrs().ints("stride");
  const bool vector = step.size() == 2 && step[0] == step[1] && (step[0] == 2 || step[0] == 4);
  return cut_of_sums(*ex, *ew) == 65536 || attrs().integer("groups") == 1 || !vector;
}

TensorRef Lowering::bias_of_cut_sums(size_t i, size_t x, size_t w) {
  const Encoding &ex = *encoding(x), &ew = *encoding(w);
  const bool conv = node_.op == Op::convolution, transposed = conv && attrs().flag("transposed");
  const Shape out = out_shape();
  const int64_t channels = conv ? out[1] : out.back();
  Encoding e{.storage = DType::i32, .quant_min = INT32_MIN, .quant_max = INT32_MAX};
  e.axis = ew.axis < 0 ? -1 : 0;
  for (const float scale : ew.scales) e.scales.push_back(ex.scales[0] * scale);
  e.zero_points.assign(e.scales.size(), 0);
  TensorSpec t;
  t.name = island_.unique_name(cat(island_.describe(node_.output(), {}).name, "@bias"));
  t.kind = TensorKind::constant;
  t.dtype = DataType::sfixed32;
  t.dims = {static_cast<uint32_t>(channels)};
  t.data = {.source = biases_of_cut_sums(node_.input(i).valid() ? constant(i) : nullptr,
                                         transposed ? nullptr : constant(w), ex, ew, channels),
            .dtype = DType::i32};
  t.quantization = quantization_of(e);
  return island_.spec().add(std::move(t));
}

TensorRef Lowering::bias(size_t i, size_t x, size_t w) {
  const ValueId v = node_.input(i);
  if (!status().ok()) return {};
  if (cuts_sums(i, x, w)) return bias_of_cut_sums(i, x, w);
  if (!v.valid()) return {};
  const Tensor* data = constant(i);
  if (halves_) {
    const TensorRef wide = island_.view(v, {.form = Form::plain, .fixed = false});
    if (!data) return cast(wide, DataType::f16);
    TensorSpec t = spec(wide);
    t.name = island_.unique_name(cat(t.name, "@half"));
    t.dtype = DataType::f16;
    t.data.dtype = DType::f16;
    return island_.spec().add(std::move(t));
  }
  if (!quantized_ || !data) return island_.view(v, {.form = Form::plain, .fixed = quantized_});
  const Encoding* own = encoding(i);
  const Encoding *ex = encoding(x), *ew = encoding(w);
  if (!ex || !ew) {
    refuse("its bias needs the scales of operand and weight");
    return {};
  }
  // Blocks: the bias stands on a sixteenth of the channel's largest scale, as its accumulator does.
  Encoding e{.storage = DType::i32, .quant_min = INT32_MIN, .quant_max = INT32_MAX};
  const auto channels = static_cast<size_t>(numel(data->shape));
  e.axis = ew->axis < 0 ? -1 : 0;
  const size_t count = e.axis < 0 ? 1 : channels;
  const size_t blocks = ew->block > 0 ? ew->scales.size() / count : 1;
  for (size_t c = 0; c < count; ++c) {
    float scale = ew->scales[e.axis < 0 ? 0 : c * blocks % ew->scales.size()];
    for (size_t b = 1; b < blocks; ++b) scale = std::max(scale, ew->scales[c * blocks + b]);
    e.scales.push_back(ex->scales[0] * (ew->block > 0 ? scale / 16 : scale));
    e.zero_points.push_back(0);
  }
  // The device reads the integers on this grid, whatever the tensor says: those of another are rounded anew.
  if (own && !is_float(data->dtype)) {
    bool same = own->storage == DType::i32 && own->scales.size() == e.scales.size() && own->block == 0;
    for (size_t c = 0; c < e.scales.size() && same; ++c)
      same = std::abs(own->scales[c] - e.scales[c]) <= 1e-3f * e.scales[c];
    if (same) return island_.view(v, {.form = Form::plain, .fixed = true});
  }
  TensorSpec t;
  t.name = island_.unique_name(
      cat(graph().value(v).name.empty() ? cat("v", v.index) : graph().value(v).name, "@bias"));
  t.kind = TensorKind::constant;
  t.dtype = DataType::sfixed32;
  t.dims = {static_cast<uint32_t>(channels)};
  t.data = {.source = own && !is_float(data->dtype) ? reals_of(*data, *own) : *data, .dtype = DType::i32};
  t.data.grid = {e.quant_min, e.quant_max, e.axis, 0, e.scales, e.zero_points};
  // Groups of a transposed convolution share their scales, and the device asks for as many as the weight has.
  if (e.axis >= 0 && ew->block == 0 && ew->scales.size() < e.scales.size()) {
    e.scales.resize(ew->scales.size());
    e.zero_points.resize(ew->scales.size());
  }
  t.quantization = quantization_of(e);
  return island_.spec().add(std::move(t));
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
