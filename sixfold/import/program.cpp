#include "sixfold/import/program.h"

#include <algorithm>
#include <unordered_map>

#include "sixfold/import/nodes.h"

namespace sixfold {
namespace {

class ProgramImporter {
 public:
  ProgramImporter(const Pt2Archive& archive, bool tracking, bool keep_unknown)
      : archive_(archive),
        aliases_(graph_, tracking),
        values_(archive, graph_, aliases_, keep_unknown),
        nodes_(graph_, aliases_, values_) {}

  Result<Graph> run(const Json& program);

 private:
  Status read_symbols(const Json& program);
  Status read_inputs(Scope& scope, const Json& graph, const Json& signature);
  Status read_user_input(Scope& scope, const Json& arg);
  Status read_outputs(Scope& scope, const Json& graph, const Json& signature);
  Result<ValueId> read_item(Scope& scope, std::string_view tag, const Json& value);
  Status read_output(Scope& scope, const Json& spec, std::string_view tag, const Json& value);
  Status check_shared_states();
  Result<std::string_view> spec_text(const Json& spec, std::string_view key);
  Result<std::string_view> spec_argument(const Json& spec);

  const Pt2Archive& archive_;
  Graph graph_;
  Aliases aliases_;
  ValueReader values_;
  NodeReader nodes_;
};

Result<Graph> ProgramImporter::run(const Json& program) {
  SF_TRY(read_symbols(program));
  SF_ASSIGN(const Json module, program.get("graph_module"));
  SF_ASSIGN(const Json graph, module.get("graph"));
  SF_ASSIGN(const Json signature, module.get("signature"));
  SF_ASSIGN(Scope scope, ValueReader::open_scope(graph));
  SF_TRY(read_inputs(scope, graph, signature));
  SF_TRY(nodes_.read_nodes(scope, graph));
  values_.read_foreign = true;
  SF_TRY(read_outputs(scope, graph, signature));
  SF_TRY(aliases_.finish());
  SF_TRY(check_shared_states());
  if (Status status = verify(graph_); !status.ok())
    return Error(Code::InvalidModel, status.error().message());  // the file's metadata does not hold together
  return std::move(graph_);
}

Status ProgramImporter::read_symbols(const Json& program) {
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

Result<std::string_view> ProgramImporter::spec_text(const Json& spec, std::string_view key) {
  SF_ASSIGN(const Json value, spec.get(key));
  return value.text();
}

Result<std::string_view> ProgramImporter::spec_argument(const Json& spec) {
  SF_ASSIGN(const Json arg, spec.get("arg"));
  return ValueReader::tensor_name(arg);
}

Status ProgramImporter::read_inputs(Scope& scope, const Json& graph, const Json& signature) {
  values_.set_top(scope);
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
      SF_ASSIGN(const auto plain, values_.literal(scope, item.first, item.second));
      if (!plain) return unsupported("input ", name, " is of kind ", item.first);
      graph_.inputs.push_back({std::string(name), kNoValue, *plain});
    } else if (tag == "parameter" || tag == "buffer" || tag == "tensor_constant") {
      SF_ASSIGN(const std::string_view name, spec_argument(value));
      SF_ASSIGN(const std::string_view tensor, spec_text(value, cat(tag, "_name")));
      if (!values_.weights.emplace(name, ValueReader::Weight{std::string(tensor), {}}).second)
        return spec.bad("two inputs are named ", name);
    } else {
      return unsupported("the model has an input of kind ", tag, " at ", spec.path());
    }
  }
  return ok_status();
}

Status ProgramImporter::read_user_input(Scope& scope, const Json& arg) {
  SF_ASSIGN(const auto tagged, arg.tagged());
  const auto& [tag, value] = tagged;
  if (tag == "as_tensor") {
    SF_ASSIGN(const std::string_view name, ValueReader::tensor_name(value));
    if (values_.keep_unknown() && !values_.meta_of(scope, name).ok()) {
      SF_ASSIGN(const Aliases::Place place, values_.define_foreign_input(scope, name));
      return values_.define(scope, name, place);
    }
    SF_ASSIGN(const TensorMeta meta, values_.meta_of(scope, name));
    const ValueId id = graph_.add_input(std::string(name), meta.type);
    graph_.inputs.push_back({std::string(name), id, {}});
    return values_.define(scope, name, aliases_.add(id, meta));
  }
  SF_ASSIGN(const auto plain, values_.literal(scope, tag, value));
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

Status ProgramImporter::read_outputs(Scope& scope, const Json& graph, const Json& signature) {
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

// A number that item() read from a tensor, as a tensor without axes; nothing for other results.
Result<ValueId> ProgramImporter::read_item(Scope& scope, std::string_view tag, const Json& value) {
  if (!tag.starts_with("as_sym_")) return kNoValue;
  SF_ASSIGN(const auto name_json, value.find("as_name"));
  if (!name_json) return kNoValue;
  SF_ASSIGN(const std::string_view name, name_json->text());
  const auto item = scope.items.find(name);
  if (item == scope.items.end()) return kNoValue;
  const DType dtype = graph_.dtype(item->second);
  const Type type{dtype, {}}, number{is_float(dtype)           ? DType::f32
                                     : dtype == DType::boolean ? dtype
                                                               : DType::i64,
                                     {}};
  SF_ASSIGN(const ValueId scalar, aliases_.emit("aten.reshape.default",
                                                {{"self", item->second}, {"shape", Attr(Dims{})}}, type, 0));
  if (type == number) return scalar;
  return aliases_.emit("aten._to_copy.default", {{"self", scalar}, {"dtype", Attr(number.dtype)}}, number, 0);
}

Status ProgramImporter::read_output(Scope& scope, const Json& spec, std::string_view tag, const Json& value) {
  if (tag == "user_output") {
    SF_ASSIGN(const Json arg, value.get("arg"));
    SF_ASSIGN(const auto tagged, arg.tagged());
    SF_ASSIGN(const ValueId item, read_item(scope, tagged.first, tagged.second));
    if (item.valid()) {
      graph_.outputs.push_back({cat("output_", graph_.outputs.size()), item, {}});
      return ok_status();
    }
    SF_ASSIGN(const auto plain, values_.literal(scope, tagged.first, tagged.second));
    if (plain) {
      graph_.outputs.push_back({cat("output_", graph_.outputs.size()), kNoValue, *plain});
      return ok_status();
    }
    if (tagged.first != "as_tensor")
      return unsupported("an output of kind ", tagged.first, " is not supported");
    SF_ASSIGN(const std::string_view name, ValueReader::tensor_name(tagged.second));
    SF_ASSIGN(const ValueId id, values_.read_named(scope, name));
    graph_.outputs.push_back({std::string(name), id, {}});
    return ok_status();
  }
  const bool buffer = tag == "buffer_mutation" || tag == "parameter_mutation";
  if (!buffer && tag != "user_input_mutation")
    return unsupported("an output of kind ", tag, " is not supported");
  SF_ASSIGN(const std::string_view name, spec_argument(value));
  SF_ASSIGN(const ValueId next, values_.read_named(scope, name));
  SF_ASSIGN(const std::string_view written, spec_text(value, tag == "buffer_mutation" ? "buffer_name"
                                                             : buffer                 ? "parameter_name"
                                                                                      : "user_input_name"));
  ValueId state;
  if (buffer) {
    const auto weight = std::find_if(values_.weights.begin(), values_.weights.end(),
                                     [&](const auto& w) { return w.second.name == written; });
    if (weight == values_.weights.end()) return spec.bad("no buffer is named ", written);
    SF_TRY(values_.find_place(scope, weight->first));
    state = *weight->second.value;
    graph_.value(state).kind = ValueKind::state;
  } else {
    const auto leaf = std::find_if(graph_.inputs.begin(), graph_.inputs.end(),
                                   [&](const Leaf& l) { return l.name == written; });
    if (leaf == graph_.inputs.end() || !leaf->value.valid())
      return spec.bad("no tensor input is named ", written);
    state = leaf->value;
  }
  if (graph_.type(state) != graph_.type(next))
    return spec.bad(written, " of ", graph_.type(state), " cannot take a value of ", graph_.type(next));
  graph_.mutations.push_back({state, next});
  return ok_status();
}

// A written buffer whose bytes another tensor of the model shares would change under that one too.
Status ProgramImporter::check_shared_states() {
  std::unordered_map<std::string, int> uses;
  for (const auto& [name, weight] : values_.weights)
    if (weight.value) ++uses[archive_.storage_of(weight.name)];
  for (const auto& [name, weight] : values_.weights)
    if (weight.value && graph_.value(*weight.value).kind == ValueKind::state &&
        uses[archive_.storage_of(weight.name)] > 1)
      return unsupported("the model changes ", weight.name, ", which shares its memory with another tensor");
  return ok_status();
}

// Whether views matter: a subgraph may mutate too.
Result<bool> any_node_needs_views(const Json& graph) {
  SF_ASSIGN(const Json nodes_json, graph.get("nodes"));
  SF_ASSIGN(const auto nodes, nodes_json.items());
  for (const Json& node : nodes) {
    SF_ASSIGN(const Json target_json, node.get("target"));
    SF_ASSIGN(const std::string_view target, target_json.text());
    const Schema* schema = find_schema(without_prefix(target));
    if ((schema && mutates(*schema)) || addresses_memory(without_prefix(target)) ||
        is_arange_out(without_prefix(target)) || without_prefix(target).starts_with("higher_order."))
      return true;
  }
  return false;
}

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

// The pytrees of the call itself: the entry of module_call_graph without a name.
Status read_structure(const Json& module, ImportInfo& info) {
  SF_ASSIGN(const auto calls, module.find("module_call_graph"));
  if (!calls) return ok_status();
  SF_ASSIGN(const auto items, calls->items());
  for (const Json& call : items) {
    SF_ASSIGN(const auto name, call.find("fqn"));
    SF_ASSIGN(const auto signature, call.find("signature"));
    if (!name || !signature) continue;
    SF_ASSIGN(const std::string_view text, name->text());
    if (!text.empty()) continue;
    SF_ASSIGN(const auto in, signature->find("in_spec"));
    SF_ASSIGN(const auto out, signature->find("out_spec"));
    if (in) {
      SF_ASSIGN(info.input_structure, in->text());
    }
    if (out) {
      SF_ASSIGN(info.output_structure, out->text());
    }
  }
  return ok_status();
}

}  // namespace

Result<Graph> import_program(const Pt2Archive& archive, ImportInfo& info, bool keep_unknown) {
  const Json program = archive.program();
  SF_TRY(read_facts(program, info));
  SF_ASSIGN(const Json module, program.get("graph_module"));
  SF_TRY(read_structure(module, info));
  SF_ASSIGN(const Json graph, module.get("graph"));
  SF_ASSIGN(const bool tracking, any_node_needs_views(graph));
  ProgramImporter importer(archive, tracking, keep_unknown);
  return importer.run(program);
}

}  // namespace sixfold
