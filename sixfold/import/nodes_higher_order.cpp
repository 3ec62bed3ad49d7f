#include <algorithm>
#include <optional>

#include "sixfold/import/nodes.h"

namespace sixfold {
namespace {

constexpr int kMaxInlineDepth = 16;

Result<std::vector<Json>> arguments_of(const Json& node) {
  SF_ASSIGN(const Json list, node.get("inputs"));
  SF_ASSIGN(const auto items, list.items());
  std::vector<Json> out;
  for (const Json& item : items) {
    SF_ASSIGN(const Json arg, item.get("arg"));
    out.push_back(arg);
  }
  return out;
}

}  // namespace

Status NodeReader::read_higher_order(Scope& scope, const Json& node, const Outputs& outputs, uint32_t origin,
                                     int depth) {
  const std::string target = graph_.origins[origin].target;
  const bool is_cond = target == "higher_order.cond";
  if (!is_cond && !target.starts_with("higher_order.wrap_with_autocast") &&
      !target.starts_with("higher_order.wrap_with_set_grad_enabled"))
    return unsupported("the higher-order op ", target, " is not supported");
  if (depth >= kMaxInlineDepth)
    return invalid_model("subgraphs nest deeper than ", kMaxInlineDepth, " levels");
  Places results;
  if (is_cond) {
    SF_ASSIGN(results, read_cond(scope, node, origin, depth));
  } else {
    SF_ASSIGN(results, read_wrapper(scope, node, origin, depth));
  }
  if (results.size() != outputs.tensors.size())
    return invalid_model("the subgraph gives ", results.size(), " tensors, the node has ",
                         outputs.tensors.size(), " outputs");
  for (size_t i = 0; i < results.size(); ++i) SF_TRY(values_.define(scope, outputs.tensors[i], results[i]));
  return ok_status();
}

// torch.no_grad() and a disabled autocast wrap a subgraph that can as well stand in its place.
Result<NodeReader::Places> NodeReader::read_wrapper(Scope& scope, const Json& node, uint32_t origin,
                                                    int depth) {
  const std::string target = graph_.origins[origin].target;
  SF_ASSIGN(const auto arguments, arguments_of(node));
  std::optional<Json> graph;
  Places operands;
  for (size_t i = 0; i < arguments.size(); ++i) {
    SF_ASSIGN(const auto tagged, arguments[i].tagged());
    const auto& [tag, value] = tagged;
    if (tag == "as_graph") {
      SF_ASSIGN(graph, value.get("graph"));
    } else if (graph) {
      SF_ASSIGN(const auto places, values_.tensor_places(scope, tag, value));
      if (!places) return unsupported("an operand of kind ", tag, " of ", target, " is not supported");
      operands.insert(operands.end(), places->begin(), places->end());
    } else if (tag == "as_bool" && i == 2) {  // wrap_with_autocast(device, dtype, enabled, ...)
      SF_ASSIGN(const bool enabled, value.flag());
      if (enabled) return unsupported("autocast is not supported: export the model without it");
    }
  }
  if (!graph) return invalid_model(target, " has no subgraph");
  return inline_graph(*graph, operands, depth);
}

// cond(p, f, g, xs)  ->  where(p, f(xs), g(xs))
//
// Both branches are pure and give the same shapes, so computing both changes no result.
Result<NodeReader::Places> NodeReader::read_cond(Scope& scope, const Json& node, uint32_t origin, int depth) {
  SF_ASSIGN(const auto arguments, arguments_of(node));
  if (arguments.size() != 4) return invalid_model("cond has ", arguments.size(), " arguments, expected 4");
  Places predicate_place;
  SF_ASSIGN(const Argument predicate, values_.read_argument(scope, arguments[0], origin, predicate_place));
  if (!predicate.is_tensor || predicate.is_list)
    return unsupported("cond on a symbolic size is not supported");
  ValueId condition = predicate.tensors[0];
  if (graph_.dtype(condition) != DType::boolean)
    return invalid_model("cond on a tensor of ", graph_.dtype(condition));
  if (!graph_.dims(condition).empty()) {
    SF_ASSIGN(condition, aliases_.emit("aten.reshape.default", {{"self", condition}, {"shape", Attr(Dims{})}},
                                       Type{DType::boolean, {}}, origin));
  }
  SF_ASSIGN(const auto tagged, arguments[3].tagged());
  SF_ASSIGN(const auto operands, values_.tensor_places(scope, tagged.first, tagged.second));
  if (!operands) return unsupported("an operand of kind ", tagged.first, " of cond is not supported");
  Places branches[2];
  const Aliases::Mark mark = aliases_.mark();
  for (size_t i = 0; i < 2; ++i) {
    SF_ASSIGN(const auto branch, arguments[i + 1].tagged());
    if (branch.first != "as_graph") return arguments[i + 1].bad("expected as_graph, found ", branch.first);
    SF_ASSIGN(const Json graph, branch.second.get("graph"));
    SF_ASSIGN(branches[i], inline_graph(graph, *operands, depth));
  }
  if (aliases_.wrote_before(mark)) return unsupported("a branch of cond changes a tensor in place");
  if (branches[0].size() != branches[1].size())
    return invalid_model("the branches of cond give ", branches[0].size(), " and ", branches[1].size(),
                         " tensors");
  Places out;
  for (size_t i = 0; i < branches[0].size(); ++i) {
    SF_ASSIGN(const ValueId yes, aliases_.read(branches[0][i], origin));
    SF_ASSIGN(const ValueId no, aliases_.read(branches[1][i], origin));
    const Type type = graph_.type(yes);
    if (type != graph_.type(no))
      return unsupported("the branches of cond give ", type, " and ", graph_.type(no),
                         ", sixfold needs the same");
    SF_ASSIGN(const ValueId chosen,
              aliases_.emit("aten.where.self", {{"condition", condition}, {"self", yes}, {"other", no}}, type,
                            origin));
    out.push_back(aliases_.add(chosen, aliases_.meta(branches[0][i])));
  }
  return out;
}

Result<NodeReader::Places> NodeReader::inline_graph(const Json& graph, const Places& operands, int depth) {
  SF_ASSIGN(Scope scope, ValueReader::open_scope(graph));
  SF_ASSIGN(const Json inputs_json, graph.get("inputs"));
  SF_ASSIGN(const auto inputs, inputs_json.items());
  if (inputs.size() != operands.size())
    return graph.bad("the subgraph has ", inputs.size(), " inputs, the node passes ", operands.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    SF_ASSIGN(const auto tagged, inputs[i].tagged());
    if (tagged.first != "as_tensor" || operands[i] == ValueReader::kNone)
      return inputs[i].bad("expected a tensor input");
    SF_ASSIGN(const std::string_view name, ValueReader::tensor_name(tagged.second));
    SF_TRY(values_.define(scope, name, operands[i]));
  }
  SF_TRY(read_nodes(scope, graph, depth + 1));
  SF_ASSIGN(const Json outputs_json, graph.get("outputs"));
  SF_ASSIGN(const auto items, outputs_json.items());
  Places results;
  for (const Json& item : items) {
    SF_ASSIGN(const auto tagged, item.tagged());
    SF_ASSIGN(const auto places, values_.tensor_places(scope, tagged.first, tagged.second));
    if (!places || std::find(places->begin(), places->end(), ValueReader::kNone) != places->end())
      return unsupported("a subgraph gives a value of kind ", tagged.first);
    results.insert(results.end(), places->begin(), places->end());
  }
  return results;
}

}  // namespace sixfold
