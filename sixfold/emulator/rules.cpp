#include "sixfold/emulator/rules.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "sixfold/emulator/shapes.h"

namespace sixfold::emulator {
namespace {

struct TypeName {
  std::string_view name;
  DataType dtype;
};
constexpr TypeName kTypeNames[] = {
    {"u8", DataType::ufixed8},   {"s8", DataType::sfixed8},   {"u16", DataType::ufixed16},
    {"s16", DataType::sfixed16}, {"s32", DataType::sfixed32}, {"uf32", DataType::ufixed32},
    {"i8", DataType::i8},        {"i16", DataType::i16},      {"i32", DataType::i32},
    {"i64", DataType::i64},      {"ui8", DataType::u8},       {"ui16", DataType::u16},
    {"ui32", DataType::u32},     {"ui64", DataType::u64},     {"f16", DataType::f16},
    {"f32", DataType::f32},      {"b8", DataType::boolean},
};

struct ParamRule {
  std::string_view name;
  char kind = '*';
  bool is_mandatory = false;
};
struct Range {
  uint32_t least = 0, most = 0;
};
// Alternatives for each operand.
struct TypeRow {
  uint32_t least_arch = 0;  // HTP version
  std::vector<std::vector<DataType>> in, out;
};
struct Rule {
  ShapeRule shape = nullptr;
  Range inputs;
  std::vector<Range> in_ranks, out_ranks;  // the last counts for all further ones
  std::vector<ParamRule> params;
  std::vector<TypeRow> types;
  size_t outputs = 1;
};

// The next word of a text; empty at the end.
std::string_view next(std::string_view& text, char separator) {
  while (!text.empty() && text.front() == separator) text.remove_prefix(1);
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

uint32_t number(std::string_view text) {
  uint32_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

Range parse_range(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == text.npos) return {number(text), number(text)};
  return {number(text.substr(0, dash)),
          text.substr(dash + 1) == "*" ? UINT32_MAX : number(text.substr(dash + 1))};
}

Rule parse_rule(ShapeRule shape, std::string_view inputs, std::string_view ranks, std::string_view params,
                std::initializer_list<std::string_view> types) {
  Rule rule;
  rule.shape = shape;
  rule.inputs = parse_range(inputs);
  auto* place = &rule.in_ranks;
  while (!ranks.empty()) {
    const std::string_view word = next(ranks, ' ');
    if (word == ">")
      place = &rule.out_ranks;
    else if (!word.empty())
      place->push_back(parse_range(word));
  }
  if (rule.out_ranks.empty()) rule.out_ranks = rule.in_ranks;
  while (!params.empty()) {
    const std::string_view word = next(params, ' ');
    if (word.empty()) break;
    const size_t colon = word.find(':');
    rule.params.push_back({word.substr(0, colon), word[colon + 1], word.back() == '!'});
  }
  for (std::string_view text : types) {
    TypeRow row;
    auto* side = &row.in;
    while (!text.empty()) {
      std::string_view word = next(text, ' ');
      if (word == ">") {
        side = &row.out;
        continue;
      }
      if (word.empty()) break;
      if (word.front() == 'v' && word.back() == ':') {
        row.least_arch = number(word.substr(1, word.size() - 2));
        continue;
      }
      auto& alternatives = side->emplace_back();
      while (!word.empty()) {
        const std::string_view name = next(word, '|');
        for (const TypeName& t : kTypeNames)
          if (t.name == name) alternatives.push_back(t.dtype);
      }
    }
    rule.outputs = row.out.size();
    rule.types.push_back(std::move(row));
  }
  return rule;
}

const Rule* find_rule(std::string_view type) {
  static const auto* rules = [] {
    auto* all = new std::map<std::string, Rule, std::less<>>;
#define RULE(type, shape, inputs, ranks, params, ...) \
  all->emplace(#type, parse_rule(shapes::shape, inputs, ranks, params, {__VA_ARGS__}));
#include "sixfold/ops/qnn_rules.inc"
#undef RULE
    return all;
  }();
  const auto at = rules->find(type);
  return at == rules->end() ? nullptr : &at->second;
}

struct Misfit {
  std::string place;                          // "in[0]"
  const std::vector<DataType>* alternatives;  // to what was asked
};

// Operands of types that a row does not have.
std::vector<Misfit> misfits(const TypeRow& row, const OpView& op) {
  std::vector<Misfit> out;
  const auto compare = [&](const auto& side, std::span<const TensorDef* const> operands, const char* name) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i]->is_present()) continue;
      const auto& alternatives = side[std::min(i, side.size() - 1)];
      if (std::find(alternatives.begin(), alternatives.end(), operands[i]->dtype) == alternatives.end())
        out.push_back({cat(name, "[", i, "]"), &alternatives});
    }
  };
  compare(row.in, op.inputs, "in");
  compare(row.out, op.outputs, "out");
  return out;
}

std::string to_text(const Misfit& misfit) {
  std::string types;
  for (const DataType dtype : *misfit.alternatives)
    types += cat(types.empty() ? "" : " or ", qnn::to_text(dtype));
  return cat(misfit.place, " ", types);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += cat(out.empty() ? "" : ", ", part);
  return out;
}

Status check_types(const OpView& op, const Rule& rule, const DeviceModel& device) {
  uint32_t needed = 0;
  std::vector<Misfit> nearest;
  for (const TypeRow& row : rule.types) {
    std::vector<Misfit> wrong = misfits(row, op);
    if (wrong.empty() && row.least_arch <= device.arch) return {};
    if (wrong.empty())
      needed = row.least_arch;
    else if (row.least_arch <= device.arch && (nearest.empty() || wrong.size() < nearest.size()))
      nearest = std::move(wrong);
  }
  if (needed > 0) return unsupported("needs HTP v", needed, " or later, the SoC has v", device.arch);
  std::vector<std::string> asked, taken;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i]->is_present()) asked.push_back(cat("in[", i, "] ", qnn::to_text(op.inputs[i]->dtype)));
  for (size_t i = 0; i < op.outputs.size(); ++i)
    asked.push_back(cat("out[", i, "] ", qnn::to_text(op.outputs[i]->dtype)));
  for (const Misfit& misfit : nearest) taken.push_back(to_text(misfit));
  return unsupported("it does not take ", joined(asked),
                     taken.empty() ? "" : "; the nearest that it takes has ", joined(taken));
}

size_t channel_count(const qnn::Quantization& q) {
  if (const auto* axis = std::get_if<qnn::AxisScaleOffset>(&q)) return axis->channels.size();
  if (const auto* axis = std::get_if<qnn::BitWidthAxisScaleOffset>(&q)) return axis->channels.size();
  const auto* block = std::get_if<qnn::BlockExpansion>(&q);
  return block ? block->channels.size() : 0;
}

// Weights with a scale for each channel are symmetric.
Status check_channels(const TensorDef& weights) {
  if (!weights.is_present() || !qnn::is_fixed(weights.dtype)) return {};
  const int32_t middle = weights.dtype == DataType::ufixed8    ? -128
                         : weights.dtype == DataType::ufixed16 ? -32768
                                                               : 0;
  for (size_t c = 0; c < channel_count(weights.quantization); ++c)
    if (const int32_t offset = weights.channel_encoding(c).offset; offset != middle)
      return unsupported("in[1] has offset ", offset, " in channel ", c, ", expected ", middle);
  return {};
}

Status check_param(const ParamDef& p, const ParamRule& rule) {
  const auto is = [&](DataType dtype) { return !p.is_tensor && p.dtype == dtype; };
  const bool right = rule.kind == 'u'   ? is(DataType::u32)
                     : rule.kind == 'i' ? is(DataType::i32)
                     : rule.kind == 'f' ? is(DataType::f32)
                     : rule.kind == 'b' ? is(DataType::boolean)
                     : rule.kind == 'w'
                         ? p.is_tensor &&
                               (p.tensor.dtype == DataType::u32 || p.tensor.dtype == DataType::i32) &&
                               p.bytes.size() == p.tensor.size_bytes()
                         : !p.is_tensor;
  if (right) return {};
  return unsupported("parameter ", p.name, " is ", p.is_tensor ? "a tensor of " : "a scalar of ",
                     qnn::to_text(p.is_tensor ? p.tensor.dtype : p.dtype), ", which it does not take");
}

Status check_params(const OpView& op, const Rule& rule) {
  for (const ParamDef& p : op.params) {
    const auto at = std::find_if(rule.params.begin(), rule.params.end(),
                                 [&](const ParamRule& r) { return r.name == p.name; });
    if (at == rule.params.end()) return unsupported("it has no parameter ", p.name);
    SF_TRY(check_param(p, *at));
  }
  for (const ParamRule& r : rule.params)
    if (r.is_mandatory && !op.find(r.name)) return unsupported("parameter ", r.name, " is missing");
  return {};
}

Status check_ranks(std::span<const TensorDef* const> operands, const std::vector<Range>& ranks,
                   const char* what) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i]->is_present()) continue;
    const Range& r = ranks[std::min(i, ranks.size() - 1)];
    if (operands[i]->rank() < r.least || operands[i]->rank() > r.most)
      return unsupported(what, "[", i, "] has rank ", operands[i]->rank(), ", expected ", r.least,
                         r.most == r.least ? std::string() : cat(" to ", r.most));
  }
  return {};
}

}  // namespace

Status check_rules(const OpView& op, const DeviceModel& device) {
  const Rule* rule = find_rule(op.type);
  if (!rule) return {};
  if (op.input_count() < rule->inputs.least || op.inputs.size() > rule->inputs.most)
    return unsupported("it has ", op.input_count(), " inputs, expected ", rule->inputs.least, " to ",
                       rule->inputs.most);
  if (op.outputs.size() != rule->outputs)
    return unsupported("it has ", op.outputs.size(), " outputs, expected ", rule->outputs);
  for (const TensorDef* t : op.outputs)
    if (!t->is_present()) return unsupported("an output is left out");
  for (size_t i = 0; i < rule->inputs.least; ++i)
    if (!op.inputs[i]->is_present()) return unsupported("in[", i, "] is left out");
  SF_TRY(check_params(op, *rule));
  SF_TRY(check_ranks(op.inputs, rule->in_ranks, "in"));
  SF_TRY(check_ranks(op.outputs, rule->out_ranks, "out"));
  SF_TRY(check_types(op, *rule, device));
  SF_TRY(check_channels(op.in(1)));
  return rule->shape(op);
}

Status check_encodings(const OpView& op) {
  for (const bool output : {false, true}) {
    const auto& list = output ? op.outputs : op.inputs;
    for (size_t i = 0; i < list.size(); ++i) {
      const TensorDef& t = *list[i];
      const bool activation = t.dtype == DataType::ufixed8 || t.dtype == DataType::sfixed8 ||
                              t.dtype == DataType::ufixed16 || t.dtype == DataType::sfixed16;
      if (!t.is_present() || !activation) continue;
      if (std::holds_alternative<std::monostate>(t.quantization))
        return invalid_argument(output ? "out[" : "in[", i, "] (", t.name, ") of ", op.type, " is ",
                                qnn::to_text(t.dtype), " and has no encoding");
      if (!t.is_per_channel() && !(t.encoding().scale > 0))
        return invalid_argument(output ? "out[" : "in[", i, "] (", t.name, ") of ", op.type, " has scale ",
                                t.encoding().scale);
    }
  }
  return {};
}

}  // namespace sixfold::emulator
