#include "sixfold/import/nodes.h"

#include <algorithm>

#include "sixfold/import/origin.h"

namespace sixfold {
namespace {

// Python arithmetic on sizes, and checks that the exporter added: sizes are expressions here, and hold
// already.
bool is_size_arithmetic(std::string_view target) {
  for (const std::string_view start :
       {"_operator.", "math.", "torch.sym_", "aten.sym_", "aten._assert_", "aten._check"})
    if (target.starts_with(start)) return true;
  return false;
}

bool is_item(std::string_view target) {
  return target == "aten.item.default" || target == "aten._local_scalar_dense.default";
}

}  // namespace

bool mutates(const Schema& schema) {
  return std::any_of(schema.args.begin(), schema.args.end(), [](const SchemaArg& a) { return a.mutates; });
}

bool is_arange_out(std::string_view target) {
  return target == "aten.arange.start_out" || target == "aten.arange.out";
}

bool addresses_memory(std::string_view target) { return target.starts_with("aten.as_strided"); }

std::string_view without_prefix(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  return target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : target;
}

Status NodeReader::read_nodes(Scope& scope, const Json& graph, int depth) {
  SF_ASSIGN(const Json nodes_json, graph.get("nodes"));
  SF_ASSIGN(const auto nodes, nodes_json.items());
  for (const Json& node : nodes) {
    SF_ASSIGN(const uint32_t origin, add_origin(node));
    Status status = read_node(scope, node, origin, depth);
    if (status.ok()) continue;
    if (values_.keep_unknown() && status.error().code() == Code::Unsupported) {
      SF_TRY(keep_unknown(scope, node, origin, status.error().message()));
      continue;
    }
    const Origin& o = graph_.origins[origin];
    return status.take_error().during(
        cat("importing node ", o.name, " (", o.target, ")", o.source.empty() ? "" : cat(" at ", o.source)));
  }
  return ok_status();
}

Result<uint32_t> NodeReader::add_origin(const Json& node) {
  Origin out;
  SF_ASSIGN(const Json target_json, node.get("target"));
  SF_ASSIGN(const std::string_view target, target_json.text());
  out.target = without_prefix(target);
  SF_ASSIGN(const auto metadata, node.find("metadata"));
  if (metadata) {
    SF_ASSIGN(const auto trace, metadata->find("stack_trace"));
    if (trace) {
      SF_ASSIGN(const std::string_view text, trace->text());
      out.source = user_line(text);
    }
    SF_ASSIGN(const auto stack, metadata->find("nn_module_stack"));
    if (stack) {
      SF_ASSIGN(const std::string_view text, stack->text());
      out.module_path = module_path(text);
    }
  }
  SF_ASSIGN(const auto name, node.find("name"));
  if (name) {
    SF_ASSIGN(out.name, name->text());
  }
  graph_.origins.push_back(std::move(out));
  return static_cast<uint32_t>(graph_.origins.size() - 1);
}

Result<NodeReader::Outputs> NodeReader::output_names(const Json& node) {
  Outputs out;
  SF_ASSIGN(const Json list, node.get("outputs"));
  SF_ASSIGN(const auto items, list.items());
  for (const Json& item : items) {
    SF_ASSIGN(const auto tagged, item.tagged());
    const auto& [tag, value] = tagged;
    if (tag == "as_none") continue;
    if (tag == "as_tensor") {
      SF_ASSIGN(const std::string_view name, ValueReader::tensor_name(value));
      out.tensors.push_back(name);
    } else if (tag == "as_tensors") {
      SF_ASSIGN(const auto tensors, value.items());
      for (const Json& tensor : tensors) {
        SF_ASSIGN(const std::string_view name, ValueReader::tensor_name(tensor));
        out.tensors.push_back(name);
      }
    } else if (tag == "as_sym_int" || tag == "as_sym_bool" || tag == "as_sym_float" || tag == "as_int" ||
               tag == "as_float" || tag == "as_bool") {
      out.others = true;
      if (tag.starts_with("as_sym_")) {
        SF_ASSIGN(const auto name, value.find("as_name"));
        if (name) {
          SF_ASSIGN(out.item, name->text());
        }
      }
    } else {
      return unsupported("an output of kind ", tag, " is not supported, at ", item.path());
    }
  }
  return out;
}

Status NodeReader::read_node(Scope& scope, const Json& node, uint32_t origin, int depth) {
  const std::string target = graph_.origins[origin].target;
  SF_ASSIGN(const Outputs outputs, output_names(node));
  if (graph_.origins[origin].name.empty())  // before schema 8.17 nodes have no name of their own
    graph_.origins[origin].name = outputs.tensors.empty() ? target : std::string(outputs.tensors[0]);
  if (target.starts_with("higher_order.")) return read_higher_order(scope, node, outputs, origin, depth);
  if (outputs.tensors.empty() && !outputs.item.empty() && is_item(target))
    return read_item(scope, node, outputs.item, origin);
  if (outputs.tensors.empty() && (is_size_arithmetic(target) || outputs.others)) return ok_status();

  if (is_arange_out(target)) return read_arange_out(scope, node, outputs, origin);

  const Schema* schema = find_schema(target);
  NamedArguments arguments;
  Aliases::ArgumentPlaces places;
  SF_TRY(read_arguments(scope, node, schema, origin, arguments, places));
  if (schema && addresses_memory(target)) SF_TRY(aliases_.address_storage(arguments, places, origin));
  std::vector<TensorMeta> metas;
  std::vector<Type> types;
  for (const std::string_view name : outputs.tensors) {
    SF_ASSIGN(TensorMeta meta, values_.meta_of(scope, name));
    types.push_back(meta.type);
    metas.push_back(std::move(meta));
  }
  if (schema) SF_TRY(check_output_count(*schema, types.size()));
  std::vector<Aliases::Place> results;
  if (schema && mutates(*schema)) {
    SF_ASSIGN(results, aliases_.add_mutating(*schema, std::move(arguments), places, metas, origin));
  } else {
    SF_ASSIGN(CallOperands call, complete_call(schema, std::move(arguments)));
    const NodeId id =
        graph_.add_node(Op::call, target, std::move(call.inputs), std::move(call.attrs), types, origin);
    for (size_t i = 0; i < outputs.tensors.size(); ++i)
      graph_.value(graph_.node(id).outputs[i]).name = outputs.tensors[i];
    SF_ASSIGN(results, aliases_.add_results(schema, id, places, metas));
  }
  for (size_t i = 0; i < results.size() && i < outputs.tensors.size(); ++i)
    SF_TRY(values_.define(scope, outputs.tensors[i], results[i]));
  return ok_status();
}

Status NodeReader::read_item(Scope& scope, const Json& node, std::string_view name, uint32_t origin) {
  NamedArguments arguments;
  Aliases::ArgumentPlaces places;
  SF_TRY(read_arguments(scope, node, find_schema(graph_.origins[origin].target), origin, arguments, places));
  if (arguments.size() == 1 && arguments[0].second.is_tensor && !arguments[0].second.is_list)
    scope.items.emplace(name, arguments[0].second.tensors[0]);
  return ok_status();
}

// Numbers counted in the dtype of `out`, then copied into it: it keeps its shape where it has their count.
Status NodeReader::read_arange_out(Scope& scope, const Json& node, const Outputs& outputs, uint32_t origin) {
  NamedArguments arguments;
  Aliases::ArgumentPlaces places;
  SF_TRY(read_arguments(scope, node, nullptr, origin, arguments, places));
  const auto out =
      std::find_if(arguments.begin(), arguments.end(), [](const auto& a) { return a.first == "out"; });
  if (out == arguments.end() || !out->second.is_tensor || places.size() != 1 ||
      places[0].second.size() != 1 || outputs.tensors.size() != 1)
    return invalid_model("it has no tensor 'out'");
  const Argument self = out->second;
  const Type type = aliases_.meta(places[0].second[0]).type;
  SF_ASSIGN(const TensorMeta meta, values_.meta_of(scope, outputs.tensors[0]));
  if (meta.type.dtype != type.dtype || !(numel(meta.type.dims) == numel(type.dims)))
    return unsupported("it resizes ", type, " to ", meta.type);
  arguments.erase(out);
  arguments.emplace_back("dtype", Attr(type.dtype));
  const bool from_zero = graph_.origins[origin].target == "aten.arange.out";
  const Dims line{numel(type.dims)};
  SF_ASSIGN(ValueId counted, aliases_.emit(from_zero ? "aten.arange.default" : "aten.arange.start_step",
                                           std::move(arguments), {type.dtype, line}, origin));
  SF_ASSIGN(counted, aliases_.emit("aten.reshape.default", {{"self", counted}, {"shape", Attr(type.dims)}},
                                   type, origin));
  places[0].first = "self";
  SF_ASSIGN(const Places written,
            aliases_.add_mutating(*find_schema("aten.copy_.default"), {{"self", self}, {"src", counted}},
                                  places, {meta}, origin));
  return values_.define(scope, outputs.tensors[0], written.at(0));
}

Status NodeReader::check_output_count(const Schema& schema, size_t count) {
  size_t tensors = 0;
  for (const SchemaReturn& r : schema.returns) {
    if (r.list) return ok_status();
    tensors += r.type == ArgType::tensor;
  }
  if (count > tensors)
    return invalid_model(schema.target, " gives ", tensors, " tensors, the node has ", count, " outputs");
  return ok_status();
}

Status NodeReader::read_arguments(Scope& scope, const Json& node, const Schema* schema, uint32_t origin,
                                  NamedArguments& arguments, Aliases::ArgumentPlaces& all_places) {
  SF_ASSIGN(const Json list, node.get("inputs"));
  SF_ASSIGN(const auto items, list.items());
  for (size_t i = 0; i < items.size(); ++i) {
    SF_ASSIGN(const Json name_json, items[i].get("name"));
    SF_ASSIGN(std::string_view name, name_json.text());
    if (name.empty() && schema && i < schema->args.size()) name = schema->args[i].name;
    SF_ASSIGN(const Json arg, items[i].get("arg"));
    std::vector<Aliases::Place> places;
    SF_ASSIGN(Argument argument, values_.read_argument(scope, arg, origin, places));
    if (argument.is_tensor) all_places.emplace_back(std::string(name), std::move(places));
    arguments.emplace_back(std::string(name), std::move(argument));
  }
  return ok_status();
}

}  // namespace sixfold
