// sixfold show --json, of .pte, .ptd and .bpte files.
#include "sixfold/pte/lifetimes.h"
#include "sixfold/pte/verify.h"
#include "tools/show_pte.h"

namespace sixfold::tools {
namespace {

using Json = nlohmann::ordered_json;

Json tensor_json(const pte::Tensor& tensor) {
  Json out{{"kind", "tensor"}, {"dtype", to_text(tensor.dtype)}, {"sizes", tensor.sizes}};
  out["dim_order"] = Json::array();
  for (const uint8_t axis : tensor.dim_order) out["dim_order"].push_back(int{axis});
  out["dynamic"] = tensor.dynamism != pte::Dynamism::fixed;
  if (tensor.allocation) {
    out["buffer"] = tensor.allocation->memory_id;
    out["offset"] = tensor.allocation->offset;
  }
  if (tensor.data_index != 0) out[tensor.allocation ? "initial_value" : "constant"] = tensor.data_index;
  if (tensor.location == pte::Location::external) out["external"] = true;
  if (!tensor.name.empty()) out["name"] = tensor.name;
  return out;
}

Json value_json(const pte::Value& value) {
  if (const auto* tensor = std::get_if<pte::Tensor>(&value)) return tensor_json(*tensor);
  if (const auto* n = std::get_if<int64_t>(&value)) return {{"kind", "int"}, {"value", *n}};
  if (const auto* b = std::get_if<bool>(&value)) return {{"kind", "bool"}, {"value", *b}};
  // JSON has no infinity, and dump() writes null for it.
  if (const auto* d = std::get_if<double>(&value))
    return {{"kind", "double"}, {"value", *d}, {"text", cat(*d)}};
  if (const auto* text = std::get_if<std::string>(&value)) return {{"kind", "string"}, {"value", *text}};
  if (const auto* list = std::get_if<pte::IntList>(&value))
    return {{"kind", "int_list"}, {"values", list->items}};
  if (const auto* list = std::get_if<std::vector<double>>(&value))
    return {{"kind", "double_list"}, {"items", *list}};
  if (const auto* list = std::get_if<std::vector<bool>>(&value))
    return {{"kind", "bool_list"}, {"items", *list}};
  if (const auto* list = std::get_if<pte::TensorList>(&value))
    return {{"kind", list->optional ? "optional_tensor_list" : "tensor_list"}, {"values", list->items}};
  return {{"kind", "none"}};
}

Json instruction_json(const pte::Method& method, const pte::Instruction& instruction) {
  if (const auto* call = std::get_if<pte::KernelCall>(&instruction))
    return {{"kind", "kernel"},
            {"operator", pte::kernel_name(method.operators[call->operator_index])},
            {"args", call->args}};
  if (const auto* call = std::get_if<pte::DelegateCall>(&instruction))
    return {{"kind", "delegate"}, {"delegate", call->delegate_index}, {"args", call->args}};
  if (const auto* move = std::get_if<pte::Move>(&instruction))
    return {{"kind", "move"}, {"from", move->from}, {"to", move->to}};
  if (const auto* jump = std::get_if<pte::JumpFalse>(&instruction))
    return {{"kind", "jump_false"}, {"condition", jump->condition}, {"destination", jump->destination}};
  return {{"kind", "free"}, {"value", std::get<pte::Free>(instruction).value}};
}

Json buffers_json(const pte::Method& method) {
  const std::vector<pte::Lifetime> all = pte::lifetimes(method);
  Json out = Json::array();
  for (size_t id = 1; id < method.buffer_sizes.size(); ++id) {
    Json buffer{{"id", id}, {"bytes", method.buffer_sizes[id]}, {"peak_bytes", nullptr}};
    if (const auto peak = pte::peak_bytes(all, static_cast<uint32_t>(id))) buffer["peak_bytes"] = *peak;
    buffer["tensors"] = Json::array();
    for (const pte::Lifetime& life : all)
      if (life.memory_id == id)
        buffer["tensors"].push_back({{"value", life.value},
                                     {"offset", life.offset},
                                     {"bytes", life.bytes},
                                     {"first", life.first},
                                     {"last", life.last}});
    out.push_back(std::move(buffer));
  }
  return out;
}

Json method_json(const pte::Method& method) {
  Json values = Json::array(), chains = Json::array(), delegates = Json::array();
  for (const pte::Value& value : method.values) values.push_back(value_json(value));
  for (const auto& chain : method.chains) {
    Json& instructions = chains.emplace_back(Json::array());
    for (const pte::Instruction& instruction : chain)
      instructions.push_back(instruction_json(method, instruction));
  }
  for (const pte::Delegate& delegate : method.delegates) {
    Json specs = Json::array();
    for (const pte::CompileSpec& spec : delegate.specs)
      specs.push_back({{"key", spec.key}, {"bytes", spec.value.size()}});
    delegates.push_back({{"id", delegate.id},
                         {"bytes", delegate.blob.size()},
                         {"inlined", delegate.inlined},
                         {"specs", specs}});
  }
  return {
      {"name", method.name}, {"inputs", method.inputs}, {"outputs", method.outputs},      {"values", values},
      {"chains", chains},    {"delegates", delegates},  {"buffers", buffers_json(method)}};
}

Json bundled_json(const std::vector<pte::BundledValue>& values) {
  Json out = Json::array();
  for (const pte::BundledValue& value : values) {
    if (const auto* tensor = std::get_if<pte::BundledTensor>(&value))
      out.push_back({{"kind", "tensor"}, {"dtype", to_text(tensor->dtype)}, {"sizes", tensor->sizes}});
    else if (const auto* n = std::get_if<int64_t>(&value))
      out.push_back({{"kind", "int"}, {"value", *n}});
    else if (const auto* b = std::get_if<bool>(&value))
      out.push_back({{"kind", "bool"}, {"value", *b}});
    else
      out.push_back({{"kind", "double"}, {"value", std::get<double>(value)}});
  }
  return out;
}

Json manifest_json(const pte::Manifest& manifest) {
  Json libraries = Json::object();
  for (const auto& [name, version] : manifest.libraries) libraries[name] = version;
  return {{"tool", manifest.tool},
          {"sources", manifest.sources},
          {"precision", manifest.precision},
          {"target", manifest.target},
          {"libraries", libraries}};
}

}  // namespace

Json program_json(const ShownProgram& shown) {
  Json methods = Json::array(), segments = Json::array(), named = Json::array();
  for (const pte::Method& method : shown.program.methods) methods.push_back(method_json(method));
  for (size_t i = 0; i < shown.layout.segments.size(); ++i) {
    const pte::Layout::Segment& segment = shown.layout.segments[i];
    segments.push_back({{"offset", segment.offset}, {"bytes", segment.size}, {"content", segment.content}});
  }
  for (const pte::NamedData& item : shown.program.named_data)
    named.push_back({{"key", item.key}, {"bytes", item.data.size()}});
  Json out{{"format", "pte"},
           {"bytes", shown.layout.file_size},
           {"program_bytes", shown.layout.program_size},
           {"manifest", nullptr},
           {"methods", methods},
           {"segments", segments},
           {"named_data", named}};
  if (shown.layout.manifest) out["manifest"] = manifest_json(shown.manifest);
  return out;
}

Json data_json(const pte::DataFile& data) {
  Json out = Json::array();
  for (const pte::DataEntry& entry : data.entries) {
    Json item{{"key", entry.key}, {"bytes", entry.data.size()}};
    if (entry.layout) {
      item["dtype"] = to_text(entry.layout->dtype);
      item["sizes"] = entry.layout->sizes;
    }
    out.push_back(std::move(item));
  }
  return out;
}

Json suites_json(const pte::Bundle& bundle) {
  Json out = Json::array();
  for (const pte::BundledSuite& suite : bundle.suites) {
    Json cases = Json::array();
    for (const pte::BundledCase& test : suite.cases)
      cases.push_back({{"inputs", bundled_json(test.inputs)}, {"expected", bundled_json(test.expected)}});
    out.push_back({{"method", suite.method}, {"cases", cases}});
  }
  return out;
}

}  // namespace sixfold::tools
