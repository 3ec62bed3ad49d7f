#include "sixfold/qnn/types.h"

namespace sixfold::qnn {
namespace {

struct TypeRow {
  DataType type;
  const char* name;
  DType storage;
  bool fixed;
};
constexpr TypeRow kTypes[] = {
    {DataType::i8, "INT_8", DType::i8, false},
    {DataType::i16, "INT_16", DType::i16, false},
    {DataType::i32, "INT_32", DType::i32, false},
    {DataType::i64, "INT_64", DType::i64, false},
    {DataType::u8, "UINT_8", DType::u8, false},
    {DataType::u16, "UINT_16", DType::u16, false},
    {DataType::u32, "UINT_32", DType::u32, false},
    {DataType::u64, "UINT_64", DType::u64, false},
    {DataType::f16, "FLOAT_16", DType::f16, false},
    {DataType::f32, "FLOAT_32", DType::f32, false},
    {DataType::sfixed8, "SFIXED_POINT_8", DType::i8, true},
    {DataType::sfixed16, "SFIXED_POINT_16", DType::i16, true},
    {DataType::sfixed32, "SFIXED_POINT_32", DType::i32, true},
    {DataType::ufixed8, "UFIXED_POINT_8", DType::u8, true},
    {DataType::ufixed16, "UFIXED_POINT_16", DType::u16, true},
    {DataType::ufixed32, "UFIXED_POINT_32", DType::u32, true},
    {DataType::boolean, "BOOL_8", DType::boolean, false},
};
constexpr TypeRow kUndefined{DataType::undefined, "UNDEFINED", DType::none, false};

const TypeRow& row(DataType type) {
  for (const TypeRow& r : kTypes)
    if (r.type == type) return r;
  return kUndefined;
}

std::string channels_text(const std::vector<ScaleOffset>& channels) {
  if (channels.empty()) return "none";
  return cat(channels.size(), " scales from ", channels.front().scale, " offset ", channels.front().offset);
}

}  // namespace

size_t size_of(DataType dtype) { return sixfold::size_of(storage_of(dtype)); }
std::string_view to_text(DataType dtype) { return row(dtype).name; }
bool is_fixed(DataType dtype) { return row(dtype).fixed; }
DType storage_of(DataType dtype) { return row(dtype).storage; }

DataType plain_type(DType dtype) {
  for (const TypeRow& r : kTypes)
    if (r.storage == dtype && !r.fixed) return r.type;
  return DataType::undefined;
}

std::string to_text(const Quantization& quantization) {
  struct Text {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(const ScaleOffset& q) const {
      return cat("scale ", q.scale, " offset ", q.offset);
    }
    std::string operator()(const AxisScaleOffset& q) const {
      return cat("axis ", q.axis, " ", channels_text(q.channels));
    }
    std::string operator()(const BitWidthScaleOffset& q) const {
      return cat(q.bits, " bits ", (*this)(q.all));
    }
    std::string operator()(const BitWidthAxisScaleOffset& q) const {
      return cat(q.bits, " bits axis ", q.axis, " ", channels_text(q.channels));
    }
    std::string operator()(const BlockExpansion& q) const {
      return cat("axis ", q.axis, " ", q.blocks, " blocks ", channels_text(q.channels));
    }
  };
  return std::visit(Text{}, quantization);
}

std::string to_text(const TensorSpec& tensor) {
  std::string text = cat(to_text(tensor.dtype), "[");
  for (size_t i = 0; i < tensor.dims.size(); ++i) text += cat(i ? ", " : "", tensor.dims[i]);
  text += "]";
  if (const std::string q = to_text(tensor.quantization); !q.empty()) text += cat(" ", q);
  return text;
}

Param words(const char* name, std::vector<uint32_t> values) {
  const auto n = static_cast<uint32_t>(values.size());
  return {name, Words{DataType::u32, {n}, std::move(values)}};
}
Param words(const char* name, std::vector<uint32_t> dims, std::vector<uint32_t> values) {
  return {name, Words{DataType::u32, std::move(dims), std::move(values)}};
}
Param signed_words(const char* name, std::vector<uint32_t> dims, const std::vector<int32_t>& values) {
  return {name, Words{DataType::i32, std::move(dims), {values.begin(), values.end()}}};
}

std::string print(const GraphSpec& graph) {
  std::string text = cat("graph ", graph.name, "\n");
  for (const TensorSpec& t : graph.tensors)
    if (t.kind == TensorKind::app_write) text += cat("  input ", t.name, " ", to_text(t), "\n");
  for (const OpSpec& op : graph.ops) {
    text += "  ";
    for (size_t i = 0; i < op.out.size(); ++i) {
      const TensorSpec& t = graph.tensor(op.out[i]);
      text += cat(i ? ", " : "", t.name, ": ", to_text(t));
    }
    text += cat(" = ", op.type, "(");
    for (size_t i = 0; i < op.in.size(); ++i) {
      const TensorSpec* t = op.in[i].valid() ? &graph.tensor(op.in[i]) : nullptr;
      text += cat(i ? ", " : "", t ? t->name : "none");
      if (t && t->kind == TensorKind::constant) text += cat(": ", to_text(*t));
    }
    for (const Param& p : op.params) {
      text += cat("; ", p.name, "=");
      if (const Words* w = std::get_if<Words>(&p.value)) {
        text += "[";
        for (size_t i = 0; i < w->values.size(); ++i)
          text += cat(i ? ", " : "", w->dtype == DataType::i32 ? cat(static_cast<int32_t>(w->values[i]))
                                                               : cat(w->values[i]));
        text += "]";
      } else if (const bool* b = std::get_if<bool>(&p.value)) {
        text += *b ? "true" : "false";
      } else if (const uint32_t* u = std::get_if<uint32_t>(&p.value)) {
        text += cat(*u);
      } else if (const int32_t* n = std::get_if<int32_t>(&p.value)) {
        text += cat(*n);
      } else {
        text += cat(std::get<float>(p.value));
      }
    }
    text += ")\n";
  }
  for (const TensorSpec& t : graph.tensors)
    if (t.kind == TensorKind::app_read) text += cat("  output ", t.name, " ", to_text(t), "\n");
  return text;
}

}  // namespace sixfold::qnn
