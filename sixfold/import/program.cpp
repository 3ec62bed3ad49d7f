#include "sixfold/import/program.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

#include "sixfold/import/aliases.h"
#include "sixfold/import/arguments.h"
#include "sixfold/import/origin.h"
#include "sixfold/import/symbolic.h"

namespace sixfold {
namespace {

constexpr int kMaxInlineDepth = 16;

// The names of one graph of the file; an inlined subgraph has its own.
struct Scope {
  std::unordered_map<std::string_view, Json> tensors, sym_ints, sym_floats, sym_bools;
  std::unordered_map<std::string_view, Aliases::Place> places;
};

// A parameter or buffer, which becomes a constant when something uses it.
struct Weight {
  std::string name;
  std::optional<ValueId> value;
};

bool mutates(const Schema& schema) {
  return std::any_of(schema.args.begin(), schema.args.end(), [](const SchemaArg& a) { return a.mutates; });
}

std::string_view without_prefix(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.";
  return target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : target;
}

// Python arithmetic on sizes, and checks that the exporter added: sizes are expressions here, and hold already.
bool is_size_arithmetic(std::string_view target) {
  for (const std::string_view start : {"_operator.", "math.", "torch.sym_", "aten.sym_", "aten._assert_", "aten._check"})
    if (target.starts_with(start)) return true;
  return false;
}

Result<bool> any_node_mutates(const Json& graph, int depth) {
  if (depth > kMaxInlineDepth) return graph.bad("subgraphs nest deeper than ", kMaxInlineDepth, " levels");
  SF_ASSIGN(const Json nodes_json, graph.get("nodes"));
  SF_ASSIGN(const auto nodes, nodes_json.items());
  for (const Json& node : nodes) {
    SF_ASSIGN(const Json target_json, node.get("target"));
    SF_ASSIGN(const std::string_view target, target_json.text());
    const Schema* schema = find_schema(without_prefix(target));
    if (schema && mutates(*schema)) return true;
    if (target.find("higher_order") == std::string_view::npos) continue;
    return true;  // its subgraph may
  }
  return false;
}

class ProgramImporter {
 public:
  ProgramImporter(const Pt2Archive& archive, bool tracking) : archive_(archive), aliases_(graph_, tracking) {}

  Result<Graph> run(const Json& program) {
    SF_TRY(read_symbols(program));
    SF_ASSIGN(const Json module, program.get("graph_module"));
    SF_ASSIGN(const Json graph, module.get("graph"));
    SF_ASSIGN(const Json signature, module.get("signature"));
    SF_ASSIGN(Scope scope, open_scope(graph));
    SF_TRY(read_inputs(scope, graph, signature));
    SF_TRY(read_nodes(scope, graph, 0));
    SF_TRY(read_outputs(scope, graph, signature));
    SF_TRY(aliases_.finish());
    SF_TRY(check_shared_states());
    return std::move(graph_);
  }

 private:
  Status read_symbols(const Json& program) {
    SF_ASSIGN(const auto ranges, program.find("range_constraints"));
    if (!ranges) return ok_status();
    SF_ASSIGN(const auto members, ranges->members());
    for (const auto& [name, range] : members) {
      SymbolRange out;
      SF_ASSIGN(const auto min, range.find("min_val"));
      SF_ASSIGN(const auto max, range.find("max_val"));
      if (min) {
        SF_ASSIGN(out.min, min->integer());
      }
      if (max) {
        SF_ASSIGN(out.max, max->integer());
      }
      graph_.symbols.emplace(std::string(name), out);
    }
    return ok_status();
  }

  Result<Scope> open_scope(const Json& graph) {
    Scope scope;
    const auto fill = [&](std::string_view key, auto& table, bool required) -> Status {
      SF_ASSIGN(const auto found, graph.find(key));
      if (!found && required) return graph.bad("the key '", key, "' is missing");
      if (!found) return ok_status();
      SF_ASSIGN(const auto members, found->members());
      for (const auto& [name, value] : members)
        if (!table.emplace(name, value).second) return found->bad("the name '", name, "' occurs twice");
      return ok_status();
    };
    SF_TRY(fill("tensor_values", scope.tensors, true));
    SF_TRY(fill("sym_int_values", scope.sym_ints, false));
    SF_TRY(fill("sym_float_values", scope.sym_floats, false));
    SF_TRY(fill("sym_bool_values", scope.sym_bools, false));
    return scope;
  }

  // --- names -------------------------------------------------------------------------------------------------------

  Result<TensorMeta> meta_of(const Scope& scope, std::string_view name) {
    const auto found = scope.tensors.find(name);
    if (found == scope.tensors.end()) return invalid_model("tensor ", name, " has no entry in tensor_values");
    auto meta = read_tensor_meta(found->second);
    if (!meta.ok()) return meta.take_error().during(cat("reading tensor ", name));
    for (const Dim& d : meta->type.dims) {
      const std::string symbol = unbacked_symbol(d);
      if (!symbol.empty())
        return unsupported("the shape of tensor ", name, ", ", meta->type, ", depends on data (", symbol, ")");
    }
    return meta;
  }

  Status define(Scope& scope, std::string_view name, Aliases::Place place) {
    if (!scope.places.emplace(name, place).second) return invalid_model("two values are named ", name);
    return ok_status();
  }

  Result<Aliases::Place> find_place(Scope& scope, std::string_view name) {
    const auto found = scope.places.find(name);
    if (found != scope.places.end()) return found->second;
    const auto weight = weights_.find(name);
    if (weight == weights_.end() || &scope != top_) return invalid_model("no value is named ", name, " before it is used");
    SF_ASSIGN(const Aliases::Place place, add_weight(scope, name, weight->second));
    SF_TRY(define(scope, name, place));
    return place;
  }

  Result<Aliases::Place> add_weight(const Scope& scope, std::string_view name, Weight& weight) {
    SF_ASSIGN(const TensorMeta meta, meta_of(scope, name));
    SF_ASSIGN(Tensor tensor, archive_.tensor(weight.name));
    const Type type{tensor.dtype, to_dims(tensor.shape)};
    if (type != meta.type)
      return invalid_model("tensor ", weight.name, " is stored as ", type, ", the graph says ", meta.type);
    const ValueId value = graph_.add_constant(weight.name, std::move(tensor));
    weight.value = value;
    return aliases_.add(value, meta);
  }

  Result<Dim> sym_int(const Scope& scope, const Json& argument) {
    SF_ASSIGN(const auto tagged, argument.tagged());
    const auto& [tag, value] = tagged;
    Dim out;
    if (tag == "as_int") {
      SF_ASSIGN(out, value.integer());
      return out;
    }
    if (tag != "as_name") return argument.bad("expected as_int or as_name, found ", tag);
    SF_ASSIGN(const std::string_view name, value.text());
    const auto found = scope.sym_ints.find(name);
    if (found == scope.sym_ints.end()) return argument.bad("no symbolic integer is named ", name);
    SF_ASSIGN(out, read_sym_int(found->second));
    const std::string symbol = unbacked_symbol(out);
    if (!symbol.empty()) return unsupported("the integer ", name, " = ", out, " depends on data (", symbol, ")");
    return out;
  }

  // A symbolic real or boolean is usable only where the file knows its value.
  Result<Attr> sym_plain(const std::unordered_map<std::string_view, Json>& table, const Json& argument) {
    SF_ASSIGN(auto tagged, argument.tagged());
    if (tagged.first == "as_name") {
      SF_ASSIGN(const std::string_view name, tagged.second.text());
      const auto found = table.find(name);
      if (found == table.end()) return argument.bad("no symbolic value is named ", name);
      SF_ASSIGN(tagged, found->second.tagged());
      if (tagged.first == "as_expr") return unsupported("the value ", name, " depends on a symbolic size or on data");
    }
    if (tagged.first == "as_float") {
      SF_ASSIGN(const double x, tagged.second.real());
      return Attr(x);
    }
    if (tagged.first != "as_bool") return argument.bad("unknown kind of value ", tagged.first);
    SF_ASSIGN(const bool b, tagged.second.flag());
    return Attr(b);
  }

  // --- arguments ---------------------------------------------------------------------------------------------------

  static Result<std::string_view> tensor_name(const Json& tensor) {
    SF_ASSIGN(const Json name, tensor.get("name"));
    return name.text();
  }

  // Literals, that is all but tensors and what only a node can hold. Nothing for other tags.
  Result<std::optional<Attr>> literal(const Scope& scope, std::string_view tag, const Json& value) {
    const auto some = [](auto x) { return std::optional<Attr>(Attr(std::move(x))); };
    if (tag == "as_none") return some(std::monostate());
    if (tag == "as_int") {
      SF_ASSIGN(const int64_t n, value.integer());
      return some(Dim(n));
    }
    if (tag == "as_float") {
      SF_ASSIGN(const double x, value.real());
      return some(x);
    }
    if (tag == "as_bool") {
      SF_ASSIGN(const bool b, value.flag());
      return some(b);
    }
    if (tag == "as_string") {
      SF_ASSIGN(const std::string_view text, value.text());
      return some(std::string(text));
    }
    if (tag == "as_sym_int") {
      SF_ASSIGN(const Dim d, sym_int(scope, value));
      return some(d);
    }
    if (tag == "as_sym_float") {
      SF_ASSIGN(Attr x, sym_plain(scope.sym_floats, value));
      return some(std::move(x));
    }
    if (tag == "as_sym_bool") {
      SF_ASSIGN(Attr x, sym_plain(scope.sym_bools, value));
      return some(std::move(x));
    }
    return std::optional<Attr>();
  }

  Result<std::optional<Attr>> literal_list(const Scope& scope, std::string_view tag, const Json& value) {
    const bool ints = tag == "as_ints" || tag == "as_sym_ints" || tag == "as_bools";
    const bool reals = tag == "as_floats" || tag == "as_sym_floats";
    if (!ints && !reals) return std::optional<Attr>();
    SF_ASSIGN(const auto items, value.items());
    Dims dims;
    std::vector<double> numbers;
    for (const Json& item : items) {
      if (tag == "as_ints") {
        SF_ASSIGN(const int64_t n, item.integer());
        dims.emplace_back(n);
      } else if (tag == "as_sym_ints") {
        SF_ASSIGN(Dim d, sym_int(scope, item));
        dims.push_back(std::move(d));
      } else if (tag == "as_bools") {
        SF_ASSIGN(const bool b, item.flag());
        dims.emplace_back(b ? 1 : 0);
      } else if (tag == "as_floats") {
        SF_ASSIGN(const double x, item.real());
        numbers.push_back(x);
      } else {
        SF_ASSIGN(const Attr x, sym_plain(scope.sym_floats, item));
        if (!std::holds_alternative<double>(x)) return item.bad("expected a number");
        numbers.push_back(std::get<double>(x));
      }
    }
    return std::optional<Attr>(reals ? Attr(std::move(numbers)) : Attr(std::move(dims)));
  }

  Result<std::optional<Attr>> enumeration(std::string_view tag, const Json& value) {
    if (tag == "as_scalar_type") {
      SF_ASSIGN(const DType dtype, dtype_of_json(value));
      return std::optional<Attr>(dtype);
    }
    if (tag == "as_memory_format") {
      SF_ASSIGN(std::string name, memory_format_of_json(value));
      return std::optional<Attr>(std::move(name));
    }
    if (tag == "as_layout") {
      SF_ASSIGN(std::string name, layout_of_json(value));
      return std::optional<Attr>(std::move(name));
    }
    if (tag == "as_device") {
      SF_ASSIGN(const Json type, value.get("type"));
      SF_ASSIGN(const std::string_view text, type.text());
      return std::optional<Attr>(std::string(text));
    }
    return std::optional<Attr>();
  }

  // The places that a tensor argument names; nothing for other tags. kNone stands for None in a list.
  static constexpr Aliases::Place kNone = UINT32_MAX;
  Result<std::optional<std::vector<Aliases::Place>>> tensor_places(Scope& scope, std::string_view tag, const Json& value) {
    std::vector<Aliases::Place> out;
    const auto add = [&](const Json& tensor) -> Status {
      SF_ASSIGN(const std::string_view name, tensor_name(tensor));
      SF_ASSIGN(const Aliases::Place place, find_place(scope, name));
      out.push_back(place);
      return ok_status();
    };
    const auto add_optional = [&](const Json& item) -> Status {
      SF_ASSIGN(const auto tagged, item.tagged());
      if (tagged.first == "as_tensor") return add(tagged.second);
      if (tagged.first != "as_none") return item.bad("expected as_tensor or as_none, found ", tagged.first);
      out.push_back(kNone);
      return ok_status();
    };
    if (tag == "as_tensor") {
      SF_TRY(add(value));
    } else if (tag == "as_optional_tensor") {
      SF_TRY(add_optional(value));
    } else if (tag == "as_tensors" || tag == "as_optional_tensors") {
      SF_ASSIGN(const auto items, value.items());
      for (const Json& item : items) {
        SF_TRY(tag == "as_tensors" ? add(item) : add_optional(item));
      }
    } else {
      return std::optional<std::vector<Aliases::Place>>();
    }
    return std::optional(std::move(out));
  }

  Result<Argument> read_argument(Scope& scope, const Json& json, uint32_t origin, std::vector<Aliases::Place>& places) {
    SF_ASSIGN(const auto tagged, json.tagged());
    const auto& [tag, value] = tagged;
    SF_ASSIGN(auto named, tensor_places(scope, tag, value));
    if (named) {
      std::vector<ValueId> values;
      for (const Aliases::Place place : *named) {
        ValueId id = kNoValue;
        if (place != kNone) {
          SF_ASSIGN(id, aliases_.read(place, origin));
          places.push_back(place);
        }
        values.push_back(id);
      }
      if (tag == "as_tensors" || tag == "as_optional_tensors") return Argument::list(std::move(values));
      if (!values[0].valid()) return Argument(Attr());
      return Argument(values[0]);
    }
    SF_ASSIGN(auto plain, literal(scope, tag, value));
    if (!plain) {
      SF_ASSIGN(plain, literal_list(scope, tag, value));
    }
    if (!plain) {
      SF_ASSIGN(plain, enumeration(tag, value));
    }
    if (!plain) return unsupported("an argument of kind ", tag, " is not supported, at ", json.path());
    return Argument(*std::move(plain));
  }

  // --- nodes -------------------------------------------------------------------------------------------------------

  Status read_nodes(Scope& scope, const Json& graph, int depth) {
    SF_ASSIGN(const Json nodes_json, graph.get("nodes"));
    SF_ASSIGN(const auto nodes, nodes_json.items());
    for (const Json& node : nodes) {
      SF_ASSIGN(const uint32_t origin, add_origin(node));
      Status status = read_node(scope, node, origin, depth);
      if (status.ok()) continue;
      const Origin& o = graph_.origins[origin];
      return status.take_error().during(cat("importing node ", o.name, " (", o.target, ")",
                                            o.source.empty() ? "" : cat(" at ", o.source)));
    }
    return ok_status();
  }

  Result<uint32_t> add_origin(const Json& node) {
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

  struct Outputs {
    std::vector<std::string_view> tensors;
    bool others = false;  // symbolic numbers
  };

  Result<Outputs> output_names(const Json& node) {
    Outputs out;
    SF_ASSIGN(const Json list, node.get("outputs"));
    SF_ASSIGN(const auto items, list.items());
    for (const Json& item : items) {
      SF_ASSIGN(const auto tagged, item.tagged());
      const auto& [tag, value] = tagged;
      if (tag == "as_none") continue;
      if (tag == "as_tensor") {
        SF_ASSIGN(const std::string_view name, tensor_name(value));
        out.tensors.push_back(name);
      } else if (tag == "as_tensors") {
        SF_ASSIGN(const auto tensors, value.items());
        for (const Json& tensor : tensors) {
          SF_ASSIGN(const std::string_view name, tensor_name(tensor));
          out.tensors.push_back(name);
        }
      } else if (tag == "as_sym_int" || tag == "as_sym_bool" || tag == "as_sym_float" || tag == "as_int" || tag == "as_float" || tag == "as_bool") {
        out.others = true;
      } else {
        return unsupported("an output of kind ", tag, " is not supported, at ", item.path());
      }
    }
    return out;
  }

  Status read_node(Scope& scope, const Json& node, uint32_t origin, int depth) {
    const std::string target = graph_.origins[origin].target;
    SF_ASSIGN(const Outputs outputs, output_names(node));
    if (graph_.origins[origin].name.empty())  // before schema 8.17 nodes have no name of their own
      graph_.origins[origin].name = outputs.tensors.empty() ? target : std::string(outputs.tensors[0]);
    if (target.starts_with("higher_order.")) return read_higher_order(scope, node, outputs, origin, depth);
    if (outputs.tensors.empty() && (is_size_arithmetic(target) || outputs.others)) return ok_status();

    const Schema* schema = find_schema(target);
    NamedArguments arguments;
    Aliases::ArgumentPlaces places;
    SF_TRY(read_arguments(scope, node, schema, origin, arguments, places));
    std::vector<TensorMeta> metas;
    std::vector<Type> types;
    for (const std::string_view name : outputs.tensors) {
      SF_ASSIGN(TensorMeta meta, meta_of(scope, name));
      types.push_back(meta.type);
      metas.push_back(std::move(meta));
    }
    if (schema) SF_TRY(check_output_count(*schema, types.size()));
    std::vector<Aliases::Place> results;
    if (schema && mutates(*schema)) {
      SF_ASSIGN(results, aliases_.add_mutating(*schema, std::move(arguments), places, metas, origin));
    } else {
      SF_ASSIGN(CallOperands call, complete_call(schema, std::move(arguments)));
      const NodeId id = graph_.add_node(Op::call, target, std::move(call.inputs), std::move(call.attrs), types, origin);
      for (size_t i = 0; i < outputs.tensors.size(); ++i)
        graph_.value(graph_.node(id).outputs[i]).name = outputs.tensors[i];
      SF_ASSIGN(results, aliases_.add_results(schema, id, places, metas));
    }
    for (size_t i = 0; i < results.size() && i < outputs.tensors.size(); ++i) SF_TRY(define(scope, outputs.tensors[i], results[i]));
    return ok_status();
  }

  Status check_output_count(const Schema& schema, size_t count) {
    size_t tensors = 0;
    for (const SchemaReturn& r : schema.returns) {
      if (r.list) return ok_status();
      tensors += r.type == ArgType::tensor;
    }
    if (count > tensors) return invalid_model(schema.target, " gives ", tensors, " tensors, the node has ", count, " outputs");
    return ok_status();
  }

  Status read_arguments(Scope& scope, const Json& node, const Schema* schema, uint32_t origin, NamedArguments& arguments,
                        Aliases::ArgumentPlaces& all_places) {
    SF_ASSIGN(const Json list, node.get("inputs"));
    SF_ASSIGN(const auto items, list.items());
    for (size_t i = 0; i < items.size(); ++i) {
      SF_ASSIGN(const Json name_json, items[i].get("name"));
      SF_ASSIGN(std::string_view name, name_json.text());
      if (name.empty() && schema && i < schema->args.size()) name = schema->args[i].name;
      SF_ASSIGN(const Json arg, items[i].get("arg"));
      std::vector<Aliases::Place> places;
      SF_ASSIGN(Argument argument, read_argument(scope, arg, origin, places));
      if (argument.is_tensor) all_places.emplace_back(std::string(name), std::move(places));
      arguments.emplace_back(std::string(name), std::move(argument));
    }
    return ok_status();
  }

  // torch.no_grad() and a disabled autocast wrap a subgraph that can as well stand in its place.
  Status read_higher_order(Scope& scope, const Json& node, const Outputs& outputs, uint32_t origin, int depth) {
    const std::string& target = graph_.origins[origin].target;
    const bool autocast = target.starts_with("higher_order.wrap_with_autocast");
    if (!autocast && !target.starts_with("higher_order.wrap_with_set_grad_enabled"))
      return unsupported("the higher-order op ", target, " is not supported");
    if (depth >= kMaxInlineDepth) return invalid_model("subgraphs nest deeper than ", kMaxInlineDepth, " levels");
    SF_ASSIGN(const Json list, node.get("inputs"));
    SF_ASSIGN(const auto items, list.items());
    std::optional<Json> graph;
    std::vector<Aliases::Place> operands;
    for (size_t i = 0; i < items.size(); ++i) {
      SF_ASSIGN(const Json arg, items[i].get("arg"));
      SF_ASSIGN(const auto tagged, arg.tagged());
      const auto& [tag, value] = tagged;
      if (tag == "as_graph") {
        SF_ASSIGN(graph, value.get("graph"));
        continue;
      }
      if (!graph) {
        if (autocast && tag == "as_bool" && i == 2) {
          SF_ASSIGN(const bool enabled, value.flag());
          if (enabled) return unsupported("autocast is not supported: export the model without it");
        }
        continue;
      }
      SF_ASSIGN(const auto places, tensor_places(scope, tag, value));
      if (!places) return unsupported("an operand of kind ", tag, " of ", target, " is not supported");
      operands.insert(operands.end(), places->begin(), places->end());
    }
    if (!graph) return invalid_model(target, " has no subgraph");
    return inline_graph(scope, *graph, operands, outputs, depth);
  }

  Status inline_graph(Scope& outer, const Json& graph, const std::vector<Aliases::Place>& operands, const Outputs& outputs, int depth) {
    SF_ASSIGN(Scope scope, open_scope(graph));
    SF_ASSIGN(const Json inputs_json, graph.get("inputs"));
    SF_ASSIGN(const auto inputs, inputs_json.items());
    if (inputs.size() != operands.size())
      return graph.bad("the subgraph has ", inputs.size(), " inputs, the node passes ", operands.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      SF_ASSIGN(const auto tagged, inputs[i].tagged());
      if (tagged.first != "as_tensor" || operands[i] == kNone) return inputs[i].bad("expected a tensor input");
      SF_ASSIGN(const std::string_view name, tensor_name(tagged.second));
      SF_TRY(define(scope, name, operands[i]));
    }
    SF_TRY(read_nodes(scope, graph, depth + 1));
    SF_ASSIGN(const Json outputs_json, graph.get("outputs"));
    SF_ASSIGN(const auto items, outputs_json.items());
    std::vector<Aliases::Place> results;
    for (const Json& item : items) {
      SF_ASSIGN(const auto tagged, item.tagged());
      SF_ASSIGN(const auto places, tensor_places(scope, tagged.first, tagged.second));
      if (!places) return unsupported("a subgraph gives a value of kind ", tagged.first);
      results.insert(results.end(), places->begin(), places->end());
    }
    if (results.size() != outputs.tensors.size() || std::find(results.begin(), results.end(), kNone) != results.end())
      return graph.bad("the subgraph gives ", results.size(), " tensors, the node has ", outputs.tensors.size());
    for (size_t i = 0; i < results.size(); ++i) SF_TRY(define(outer, outputs.tensors[i], results[i]));
    return ok_status();
  }

  // --- signature ---------------------------------------------------------------------------------------------------

  Result<std::string_view> spec_text(const Json& spec, std::string_view key) {
    SF_ASSIGN(const Json value, spec.get(key));
    return value.text();
  }
  Result<std::string_view> spec_argument(const Json& spec) {
    SF_ASSIGN(const Json arg, spec.get("arg"));
    return tensor_name(arg);
  }

  Status read_inputs(Scope& scope, const Json& graph, const Json& signature) {
    top_ = &scope;
    SF_ASSIGN(const Json specs_json, signature.get("input_specs"));
    SF_ASSIGN(const auto specs, specs_json.items());
    SF_ASSIGN(const Json inputs_json, graph.get("inputs"));
    SF_ASSIGN(const auto inputs, inputs_json.items());
    if (inputs.size() != specs.size())
      return specs_json.bad(specs.size(), " input_specs for a graph with ", inputs.size(), " inputs");
    for (const Json& spec : specs) {
      SF_ASSIGN(const auto tagged, spec.tagged());
      const auto& [tag, value] = tagged;
      if (tag == "user_input") {
        SF_ASSIGN(const Json arg, value.get("arg"));
        SF_TRY(read_user_input(scope, arg));
      } else if (tag == "constant_input") {
        SF_ASSIGN(const std::string_view name, spec_text(value, "name"));
        SF_ASSIGN(const Json json, value.get("value"));
        SF_ASSIGN(const auto item, json.tagged());
        SF_ASSIGN(const auto plain, literal(scope, item.first, item.second));
        if (!plain) return unsupported("input ", name, " is of kind ", item.first);
        graph_.inputs.push_back({std::string(name), kNoValue, *plain});
      } else if (tag == "parameter" || tag == "buffer" || tag == "tensor_constant") {
        SF_ASSIGN(const std::string_view name, spec_argument(value));
        SF_ASSIGN(const std::string_view tensor, spec_text(value, cat(tag, "_name")));
        if (!weights_.emplace(name, Weight{std::string(tensor), {}}).second) return spec.bad("two inputs are named ", name);
      } else {
        return unsupported("the model has an input of kind ", tag, " at ", spec.path());
      }
    }
    return ok_status();
  }

  Status read_user_input(Scope& scope, const Json& arg) {
    SF_ASSIGN(const auto tagged, arg.tagged());
    const auto& [tag, value] = tagged;
    if (tag == "as_tensor") {
      SF_ASSIGN(const std::string_view name, tensor_name(value));
      SF_ASSIGN(const TensorMeta meta, meta_of(scope, name));
      const ValueId id = graph_.add_input(std::string(name), meta.type);
      graph_.inputs.push_back({std::string(name), id, {}});
      return define(scope, name, aliases_.add(id, meta));
    }
    SF_ASSIGN(const auto plain, literal(scope, tag, value));
    if (!plain) return unsupported("input ", graph_.inputs.size(), " is of kind ", tag);
    std::string name = cat("input_", graph_.inputs.size());
    if (tag == "as_sym_int") {
      SF_ASSIGN(const auto as_name, value.find("as_name"));
      if (as_name) {
        SF_ASSIGN(name, as_name->text());
      }
    }
    graph_.inputs.push_back({std::move(name), kNoValue, *plain});
    return ok_status();
  }

  Status read_outputs(Scope& scope, const Json& graph, const Json& signature) {
    SF_ASSIGN(const Json specs_json, signature.get("output_specs"));
    SF_ASSIGN(const auto specs, specs_json.items());
    SF_ASSIGN(const Json outputs_json, graph.get("outputs"));
    SF_ASSIGN(const auto outputs, outputs_json.items());
    if (outputs.size() != specs.size())
      return specs_json.bad(specs.size(), " output_specs for a graph with ", outputs.size(), " outputs");
    for (const Json& spec : specs) {
      SF_ASSIGN(const auto tagged, spec.tagged());
      Status status = read_output(scope, spec, tagged.first, tagged.second);
      if (!status.ok()) return status.take_error().during(cat("reading ", spec.path()));
    }
    return ok_status();
  }

  Status read_output(Scope& scope, const Json& spec, std::string_view tag, const Json& value) {
    if (tag == "user_output") {
      SF_ASSIGN(const Json arg, value.get("arg"));
      SF_ASSIGN(const auto tagged, arg.tagged());
      SF_ASSIGN(const auto plain, literal(scope, tagged.first, tagged.second));
      if (plain) {
        graph_.outputs.push_back({cat("output_", graph_.outputs.size()), kNoValue, *plain});
        return ok_status();
      }
      if (tagged.first != "as_tensor") return unsupported("an output of kind ", tagged.first, " is not supported");
      SF_ASSIGN(const std::string_view name, tensor_name(tagged.second));
      SF_ASSIGN(const ValueId id, read_named(scope, name));
      graph_.outputs.push_back({std::string(name), id, {}});
      return ok_status();
    }
    const bool buffer = tag == "buffer_mutation" || tag == "parameter_mutation";
    if (!buffer && tag != "user_input_mutation") return unsupported("an output of kind ", tag, " is not supported");
    SF_ASSIGN(const std::string_view name, spec_argument(value));
    SF_ASSIGN(const ValueId next, read_named(scope, name));
    SF_ASSIGN(const std::string_view written, spec_text(value, tag == "buffer_mutation" ? "buffer_name"
                                                               : buffer ? "parameter_name" : "user_input_name"));
    ValueId state;
    if (buffer) {
      const auto weight = std::find_if(weights_.begin(), weights_.end(), [&](const auto& w) { return w.second.name == written; });
      if (weight == weights_.end()) return spec.bad("no buffer is named ", written);
      SF_TRY(find_place(scope, weight->first));
      state = *weight->second.value;
      graph_.value(state).kind = ValueKind::state;
    } else {
      const auto leaf = std::find_if(graph_.inputs.begin(), graph_.inputs.end(), [&](const Leaf& l) { return l.name == written; });
      if (leaf == graph_.inputs.end() || !leaf->value.valid()) return spec.bad("no tensor input is named ", written);
      state = leaf->value;
    }
    if (graph_.type(state) != graph_.type(next))
      return spec.bad(written, " of ", graph_.type(state), " cannot take a value of ", graph_.type(next));
    graph_.mutations.push_back({state, next});
    return ok_status();
  }

  Result<ValueId> read_named(Scope& scope, std::string_view name) {
    SF_ASSIGN(const Aliases::Place place, find_place(scope, name));
    return aliases_.read(place, 0);
  }

  // A written buffer whose bytes another tensor of the model shares would change under that one too.
  Status check_shared_states() {
    std::unordered_map<std::string, int> uses;
    for (const auto& [name, weight] : weights_)
      if (weight.value) ++uses[archive_.storage_of(weight.name)];
    for (const auto& [name, weight] : weights_)
      if (weight.value && graph_.value(*weight.value).kind == ValueKind::state && uses[archive_.storage_of(weight.name)] > 1)
        return unsupported("the model changes ", weight.name, ", which shares its memory with another tensor");
    return ok_status();
  }

  const Pt2Archive& archive_;
  Graph graph_;
  Aliases aliases_;
  Scope* top_ = nullptr;
  std::unordered_map<std::string_view, Weight> weights_;  // by placeholder name
};

Status read_facts(const Json& program, ImportInfo& info) {
  SF_ASSIGN(const auto torch_version, program.find("torch_version"));
  if (torch_version) {
    SF_ASSIGN(info.torch_version, torch_version->text());
  }
  SF_ASSIGN(const auto verifiers, program.find("verifiers"));
  if (verifiers) {
    SF_ASSIGN(const auto items, verifiers->items());
    if (!items.empty()) {
      SF_ASSIGN(info.dialect, items[0].text());
    }
  }
  SF_ASSIGN(const auto guards, program.find("guards_code"));
  if (!guards) return ok_status();
  SF_ASSIGN(const auto items, guards->items());
  for (const Json& item : items) {
    SF_ASSIGN(const std::string_view text, item.text());
    info.guards.emplace_back(text);
  }
  return ok_status();
}

}  // namespace

Result<Graph> import_program(const Pt2Archive& archive, ImportInfo& info) {
  const Json program = archive.program();
  SF_TRY(read_facts(program, info));
  SF_ASSIGN(const Json module, program.get("graph_module"));
  SF_ASSIGN(const Json graph, module.get("graph"));
  SF_ASSIGN(const bool tracking, any_node_mutates(graph, 0));
  ProgramImporter importer(archive, tracking);
  return importer.run(program);
}

}  // namespace sixfold
