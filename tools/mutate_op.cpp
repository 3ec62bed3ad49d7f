// Ops in fixed point, and ops that are wrong in one way.
#include <algorithm>
#include <cmath>
#include <random>

#include "tools/questions.h"

namespace sixfold::tools {
namespace {

using qnn::DataType;
using qnn::TensorRef;
using qnn::TensorSpec;

constexpr DataType kTypes[] = {DataType::i8,       DataType::i32,      DataType::i64,      DataType::u8,
                               DataType::u16,      DataType::u32,      DataType::f16,      DataType::f32,
                               DataType::sfixed8,  DataType::sfixed16, DataType::sfixed32, DataType::ufixed8,
                               DataType::ufixed16, DataType::boolean};

class Mutation {
 public:
  Mutation(qnn::GraphSpec& graph, uint64_t seed) : graph_(graph), op_(graph.ops.front()), random_(seed) {}

  // What was changed; empty when this way does not apply.
  std::string apply() {
    switch (pick(10)) {
      case 0:
      case 1:
        return change_type();
      case 2:
        return change_rank();
      case 3:
      case 4:
        return change_dim();
      case 5:
        return drop_param();
      case 6:
        return change_param();
      case 7:
        return drop_operand();
      case 8:
        return add_operand();
      default:
        return drop_encoding();
    }
  }

 private:
  size_t pick(size_t n) { return n == 0 ? 0 : random_() % n; }
  // A tensor of the op, input or output, of its own from now on.
  TensorSpec* operand(std::string& name) {
    const size_t count = op_.in.size() + op_.out.size();
    const size_t i = pick(count);
    TensorRef& ref = i < op_.in.size() ? op_.in[i] : op_.out[i - op_.in.size()];
    if (!ref.valid()) return nullptr;
    name = i < op_.in.size() ? cat("in[", i, "]") : cat("out[", i - op_.in.size(), "]");
    ref = graph_.add(graph_.tensor(ref));
    return &graph_.tensors[ref.index];
  }
  std::string change_type() {
    std::string name;
    TensorSpec* t = operand(name);
    const DataType type = kTypes[pick(std::size(kTypes))];
    if (!t || t->dtype == type) return "";
    t->dtype = type;
    return cat(name, " is ", qnn::to_text(type));
  }
  std::string change_rank() {
    std::string name;
    TensorSpec* t = operand(name);
    if (!t) return "";
    if (pick(2) == 0 || t->dims.size() < 2) {
      t->dims.insert(t->dims.begin(), 1);
    } else {
      t->dims.erase(t->dims.begin());
    }
    if (const auto* axis = std::get_if<qnn::AxisScaleOffset>(&t->quantization); axis) t->quantization = {};
    return cat(name, " has rank ", t->dims.size());
  }
  std::string change_dim() {
    std::string name;
    TensorSpec* t = operand(name);
    if (!t || t->dims.empty()) return "";
    uint32_t& d = t->dims[pick(t->dims.size())];
    d = pick(2) == 0 && d > 1 ? d - 1 : d + 1;
    return cat(name, " has dims ", t->dims);
  }
  std::string drop_param() {
    if (op_.params.empty()) return "";
    const size_t i = pick(op_.params.size());
    std::string what = cat("no ", op_.params[i].name);
    op_.params.erase(op_.params.begin() + static_cast<std::ptrdiff_t>(i));
    return what;
  }
  std::string change_param() {
    if (op_.params.empty()) return "";
    qnn::Param& p = op_.params[pick(op_.params.size())];
    if (auto* w = std::get_if<qnn::Words>(&p.value)) {
      if (w->values.empty()) return "";
      uint32_t& word = w->values[pick(w->values.size())];
      word = pick(2) == 0 ? word + 1 : 77;
      return cat(p.name, " has ", word);
    }
    if (auto* u = std::get_if<uint32_t>(&p.value)) {
      *u = pick(2) == 0 ? *u + 1 : 99;
      return cat(p.name, " is ", *u);
    }
    p.name = "no_such_parameter";
    return "an unknown parameter";
  }
  std::string drop_operand() {
    if (op_.in.size() < 2) return "";
    op_.in.pop_back();
    return cat(op_.in.size(), " inputs");
  }
  std::string add_operand() {
    if (pick(2) == 0) {
      op_.in.push_back(graph_.add(graph_.tensor(op_.in.front())));
      return cat(op_.in.size(), " inputs");
    }
    op_.out.push_back(graph_.add(graph_.tensor(op_.out.front())));
    return cat(op_.out.size(), " outputs");
  }
  std::string drop_encoding() {
    std::string name;
    TensorSpec* t = operand(name);
    if (!t || std::holds_alternative<std::monostate>(t->quantization)) return "";
    t->quantization = {};
    return cat(name, " has no encoding");
  }

  qnn::GraphSpec& graph_;
  qnn::OpSpec& op_;
  std::mt19937_64 random_;
};

// The constant's floats as integers of a grid: q = round(x / scale).
template <typename T>
void round_constant(TensorSpec& t, DataType dtype, qnn::ScaleOffset e, double least, double most) {
  std::byte* bytes = nullptr;
  const Tensor floats = t.data.source;
  Tensor rounded = Tensor::allocate(qnn::storage_of(dtype), floats.shape, &bytes);
  const auto* x = reinterpret_cast<const float*>(floats.data);
  auto* q = reinterpret_cast<T*>(bytes);
  for (size_t i = 0; i < floats.size_bytes() / sizeof(float); ++i)
    q[i] = static_cast<T>(std::clamp(
        std::round(static_cast<double>(x[i]) / static_cast<double>(e.scale)) - e.offset, least, most));
  t.data.source = std::move(rounded);
  t.dtype = dtype;
  t.quantization = e;
}

float largest_of(const TensorSpec& t) {
  const auto* x = reinterpret_cast<const float*>(t.data.source.data);
  float most = 1e-3f;
  for (size_t i = 0; i < t.data.source.size_bytes() / sizeof(float); ++i)
    if (std::isfinite(x[i])) most = std::max(most, std::fabs(x[i]));
  return most;
}

}  // namespace

Question in_fixed_point(const Question& question, uint32_t bits, uint64_t seed) {
  Question out = question;
  out.label = cat(question.label, ", ", bits, " bits");
  std::mt19937_64 random(seed);
  qnn::OpSpec& op = out.graph.ops.front();
  const std::string_view type = op.type;
  const bool has_weights = type.find("Conv") != type.npos || type == "FullyConnected" || type == "MatMul";
  const bool moves = type == "Reshape" || type == "Transpose" || type == "StridedSlice" || type == "Gather" ||
                     type == "Tile" || type == "DepthToSpace" || type == "SpaceToDepth" ||
                     type == "PoolMax2d" || type == "Relu" || type == "ReduceMax" || type == "ReduceMin";
  const bool bounded = type == "Softmax" || type == "Sigmoid";
  const uint32_t steps = bits == 8 ? 255 : 65535;
  const DataType activation = bits == 8 ? DataType::ufixed8 : DataType::ufixed16;
  const auto encoding = [&](float range) {
    const float scale = range / static_cast<float>(steps);
    return qnn::ScaleOffset{scale, -static_cast<int32_t>(steps / 4 + random() % (steps / 2))};
  };
  qnn::ScaleOffset first{}, weight{1, 0};
  for (const auto* list : {&op.in, &op.out})
    for (size_t i = 0; i < list->size(); ++i) {
      if (!(*list)[i].valid()) continue;
      TensorSpec& t = out.graph.tensors[(*list)[i].index];
      if (t.dtype != DataType::f32) continue;
      if (t.kind == qnn::TensorKind::constant) {
        const float most = largest_of(t);
        if (i == 1 && has_weights) {
          weight = {most / 127, 0};
          round_constant<int8_t>(t, DataType::sfixed8, weight, -127, 127);
        } else if (i == 2) {
          round_constant<int32_t>(t, DataType::sfixed32, {first.scale * weight.scale, 0}, -1e9, 1e9);
        } else if (bits == 8) {
          round_constant<uint8_t>(t, activation, {2 * most / 255, -128}, 0, 255);
        } else {
          round_constant<uint16_t>(t, activation, {2 * most / 65535, -32768}, 0, 65535);
        }
        continue;
      }
      t.dtype = activation;
      qnn::ScaleOffset e = encoding(6);
      if (list == &op.in && i == 0) first = e;
      if (list == &op.out && moves) e = first;
      if (list == &op.out && has_weights) e = encoding(6 * std::max(1.0f, weight.scale * 127));
      if (list == &op.out && bounded) e = {1.0f / static_cast<float>(steps + 1), 0};
      t.quantization = e;
    }
  return out;
}

Question mutate(const Question& question, uint64_t seed) {
  for (uint64_t attempt = 0;; ++attempt) {
    Question out = question;
    if (out.graph.ops.front().in.empty()) return out;
    const std::string what = Mutation(out.graph, seed * 1000 + attempt).apply();
    if (what.empty()) continue;
    out.label = cat(question.label, ", ", what);
    out.run = false;
    return out;
  }
}

}  // namespace sixfold::tools
