#include "sixfold/lower/island.h"

#include <algorithm>

#include "sixfold/lower/types.h"

namespace sixfold {

using qnn::TensorKind;
using qnn::TensorSpec;
using qnn::words;

const Tensor* constant_of(const Graph& graph, ValueId value) {
  if (const Node* dequantize = stored_integers(graph, value)) return graph.constant(dequantize->input(0));
  return graph.constant(value);
}

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

}  // namespace sixfold
