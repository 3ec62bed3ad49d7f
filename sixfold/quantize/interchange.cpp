#include "sixfold/quantize/interchange.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "sixfold/base/mapped_file.h"

namespace sixfold {
namespace {

using Json = nlohmann::ordered_json;

// One tensor's entry, whatever the version: AIMET's integers begin at 0, its offset is minus the zero point.
struct Entry {
  std::string name;
  int64_t bits = 8;
  bool symmetric = false;
  std::vector<double> scales, offsets;
  int64_t block = 0;
};

bool truth(const Json& v) { return v.is_boolean() ? v.get<bool>() : v == "True" || v == "true"; }

Result<Entry> read_entry(const std::string& name, const Json& json) {
  Entry out{.name = name};
  const auto wrong = [&](std::string_view what) {
    return invalid_argument("the encoding of ", name, " has no ", what, " that is a number");
  };
  const auto numbers = [](const Json& v, std::vector<double>& to) {
    for (const Json& n : v.is_array() ? v : Json::array({v})) {
      if (!n.is_number()) return false;
      to.push_back(n.get<double>());
    }
    return true;
  };
  // 0.6.1 has a list with an object for each channel, 1.0.0 an object with lists.
  for (const Json& part : json.is_array() ? json : Json::array({json})) {
    if (!part.is_object()) return wrong("object");
    const Json bits = part.value("bitwidth", part.value("bw", Json()));
    if (!bits.is_number_integer()) return wrong("bitwidth");
    out.bits = bits.get<int64_t>();
    out.symmetric = truth(part.value("is_symmetric", part.value("is_sym", Json(false))));
    if (!part.contains("scale") || !numbers(part["scale"], out.scales)) return wrong("scale");
    if (part.contains("offset") && !numbers(part["offset"], out.offsets)) return wrong("offset");
    const Json block = part.value("block_size", Json());
    if (block.is_number_integer()) out.block = block.get<int64_t>();
  }
  if (out.bits != 2 && out.bits != 4 && out.bits != 8 && out.bits != 16)
    return invalid_argument("the encoding of ", name, " has ", out.bits, " bits, expected 2, 4, 8 or 16");
  for (const double s : out.scales)
    if (!(s > 0) || !std::isfinite(static_cast<float>(s)))
      return invalid_argument("the encoding of ", name, " has the scale ", s, ", expected more than 0");
  return out;
}

Result<Encoding> encoding_of_entry(const Entry& entry, const Graph& graph, const Value& value) {
  Encoding e;
  const int64_t half = int64_t{1} << (entry.bits - 1);
  e.quant_min = entry.symmetric ? -half : 0;
  e.quant_max = e.quant_min + 2 * half - 1;
  e.storage = entry.bits <= 8 ? (entry.symmetric ? DType::i8 : DType::u8)
                              : (entry.symmetric ? DType::i16 : DType::u16);
  for (size_t i = 0; i < entry.scales.size(); ++i) {
    e.scales.push_back(static_cast<float>(entry.scales[i]));
    const double offset = entry.offsets.empty() ? (entry.symmetric ? -static_cast<double>(half) : 0)
                                                : entry.offsets[std::min(i, entry.offsets.size() - 1)];
    const double zero = entry.symmetric ? 0 : -offset;
    if (zero < static_cast<double>(e.quant_min) || zero > static_cast<double>(e.quant_max))
      return invalid_argument("the encoding of ", entry.name, " has the offset ", offset, ", expected ",
                              -e.quant_max, " to 0");
    e.zero_points.push_back(static_cast<int32_t>(zero));
  }
  if (e.scales.size() == 1) return e;
  if (value.kind != ValueKind::constant)
    return invalid_argument("the encoding of ", entry.name, " has ", e.scales.size(),
                            " scales, expected one for an activation");
  // The output channels: axis 0, or 1 of a transposed convolution.
  bool transposed = false;
  for (const NodeId u : value.users)
    transposed =
        transposed || (graph.node(u).op == Op::convolution && graph.node(u).attrs.flag("transposed"));
  const Shape& shape = value.constant.shape;
  e.axis = transposed ? 1 : 0;
  const int64_t channels =
      shape.size() > static_cast<size_t>(e.axis) ? shape[static_cast<size_t>(e.axis)] : 0;
  const auto count = static_cast<int64_t>(e.scales.size());
  if (count == channels && entry.block == 0) return e;
  const int64_t inputs = shape.size() > 1 ? shape[static_cast<size_t>(1 - e.axis)] : 0;
  if (entry.block < 1 || inputs % entry.block != 0 || count != channels * (inputs / entry.block))
    return invalid_argument("the encoding of ", entry.name, " has ", count, " scales, expected 1 or ",
                            channels);
  e.block = entry.block;
  e.zero_points.assign(static_cast<size_t>(channels), 0);
  return e;
}

// By value. What has no name of its own: inside an op of the model, the op's and the kind of the part;
// weights that other constants were folded into, the result's and which operand they are.
std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> out(graph.value_count());
  std::map<std::string, size_t> count;
  for (const Value& v : graph.values()) out[v.id.index] = v.name;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const std::string& origin = graph.origin(node).name;
    if (node.op == Op::convert || origin.empty()) continue;
    for (const ValueId v : node.outputs) {
      std::string& name = out[v.index];
      if (!name.empty()) continue;
      name = cat(origin, ".", to_text(node.op));
      if (const size_t n = count[name]++; n > 0) name += cat("_", n);
    }
  }
  for (const Value& v : graph.values()) {
    if (!v.name.empty() || v.kind != ValueKind::constant || v.users.empty()) continue;
    const Node& user = graph.node(v.users[0]);
    if (user.outputs.empty() || out[user.output().index].empty()) continue;
    const auto at = std::find(user.inputs.begin(), user.inputs.end(), v.id) - user.inputs.begin();
    out[v.id.index] = cat(out[user.output().index], at == 1 ? ".weight" : at == 2 ? ".bias" : cat(".", at));
  }
  return out;
}

// Of constants, only weights: others have the grids of what they are computed with. Of values, not those that
// only bring others to another grid.
bool is_told(const Graph& graph, const Value& value) {
  if (value.kind == ValueKind::node) {
    const Node& node = graph.node(value.producer);
    return node.alive && node.op != Op::convert;
  }
  if (value.kind != ValueKind::constant) return true;
  for (const NodeId id : value.users) {
    const Node& user = graph.node(id);
    const bool weighs = user.op == Op::convolution || user.op == Op::linear;
    if ((weighs && user.input(1) == value.id) || (user.op == Op::embedding && user.input(0) == value.id))
      return true;
  }
  return false;
}

Status import_part(Graph& graph, const Json& part, bool constants, std::string& unknown) {
  std::vector<Entry> entries;
  if (part.is_array()) {
    for (const Json& item : part) {
      if (!item.is_object() || !item.contains("name") || !item["name"].is_string())
        return invalid_argument("an encoding has no name");
      SF_ASSIGN(Entry entry, read_entry(item["name"].get<std::string>(), item));
      entries.push_back(std::move(entry));
    }
  } else if (part.is_object()) {
    for (const auto& [name, item] : part.items()) {
      SF_ASSIGN(Entry entry, read_entry(name, item));
      entries.push_back(std::move(entry));
    }
  } else {
    return invalid_argument("encodings are neither a list nor an object");
  }
  const std::vector<std::string> names = names_of(graph);
  for (const Entry& entry : entries) {
    bool found = false;
    for (const Value& v : graph.values()) {
      if (names[v.id.index] != entry.name || !is_float(v.type.dtype) ||
          (v.kind == ValueKind::constant) != constants)
        continue;
      if (v.kind == ValueKind::node && !graph.node(v.producer).alive) continue;
      SF_ASSIGN(const Encoding e, encoding_of_entry(entry, graph, v));
      graph.value(v.id).encoding = e;
      found = true;
    }
    if (!found) unknown += cat(unknown.empty() ? "" : ", ", entry.name);
  }
  return {};
}

Json to_json(const std::string& name, const Value& value) {
  const Encoding& e = *value.encoding;
  const int64_t steps = e.quant_max - e.quant_min;
  const int bits = steps <= 3 ? 2 : steps <= 15 ? 4 : steps <= 255 ? 8 : steps <= 65535 ? 16 : 32;
  const bool symmetric = e.quant_min < 0;
  Json scales = Json::array(), offsets = Json::array();
  for (size_t i = 0; i < e.scales.size(); ++i) {
    scales.push_back(e.scales[i]);
    const int64_t zero = i < e.zero_points.size() ? e.zero_points[i] : 0;
    offsets.push_back(symmetric ? -(int64_t{1} << (bits - 1)) : -zero);
  }
  Json out{{"name", name}, {"bw", bits}, {"dtype", "INT"}, {"is_sym", symmetric}};
  out["enc_type"] = e.block > 0 ? "PER_BLOCK" : e.axis >= 0 ? "PER_CHANNEL" : "PER_TENSOR";
  if (e.block > 0) out["block_size"] = e.block;
  out["scale"] = std::move(scales);
  out["offset"] = std::move(offsets);
  return out;
}

}  // namespace

Status import_encodings(Graph& graph, const std::string& path) {
  SF_ASSIGN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return invalid_argument(path, " is no JSON object");
  std::string unknown;
  size_t parts = 0;
  for (const bool constants : {false, true}) {
    const char* key = constants ? "param_encodings" : "activation_encodings";
    if (!json.contains(key)) continue;
    ++parts;
    if (Status s = import_part(graph, json[key], constants, unknown); !s.ok())
      return s.take_error().during(cat("reading ", path));
  }
  if (parts == 0) return invalid_argument(path, " has neither activation_encodings nor param_encodings");
  if (!unknown.empty())
    return invalid_argument(path, " has encodings of what the model does not have: ", unknown);
  return {};
}

Status export_encodings(const Graph& graph, const std::string& path) {
  const std::vector<std::string> names = names_of(graph);
  Json json{
      {"version", "1.0.0"}, {"activation_encodings", Json::array()}, {"param_encodings", Json::array()}};
  for (const Value& v : graph.values()) {
    if (!v.encoding || !is_float(v.type.dtype) || !is_told(graph, v) || names[v.id.index].empty()) continue;
    json[v.kind == ValueKind::constant ? "param_encodings" : "activation_encodings"].push_back(
        to_json(names[v.id.index], v));
  }
  const std::string text = json.dump(1) + "\n";
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return write_file(path, std::span(&bytes, 1));
}

}  // namespace sixfold
