#include "sixfold/import/values.h"

#include "sixfold/import/symbolic.h"

namespace sixfold {

Result<Scope> ValueReader::open_scope(const Json& graph) {
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

Result<TensorMeta> ValueReader::meta_of(const Scope& scope, std::string_view name) {
  const auto found = scope.tensors.find(name);
  if (found == scope.tensors.end()) return invalid_model("tensor ", name, " has no entry in tensor_values");
  auto meta = read_tensor_meta(found->second);
  if (!meta.ok()) return meta.take_error().during(cat("reading tensor ", name));
  for (const Dim& d : meta->type.dims) {
    const std::string symbol = unbacked_symbol(d);
    if (!symbol.empty() && !keep_unknown_)
      return unsupported("the shape of tensor ", name, ", ", meta->type, ", depends on data (", symbol, ")");
  }
  return meta;
}

Status ValueReader::define(Scope& scope, std::string_view name, Aliases::Place place) {
  if (!scope.places.emplace(name, place).second) return invalid_model("two values are named ", name);
  return ok_status();
}

Result<Aliases::Place> ValueReader::find_place(Scope& scope, std::string_view name) {
  if (!read_foreign && scope.foreign.contains(name)) {
    SF_TRY(meta_of(scope, name));
    return unsupported("it reads ", name, ", which is not a plain tensor");
  }
  const auto found = scope.places.find(name);
  if (found != scope.places.end()) return found->second;
  const auto weight = weights.find(name);
  if (weight == weights.end() || &scope != top_)
    return invalid_model("no value is named ", name, " before it is used");
  SF_ASSIGN(const Aliases::Place place, add_weight(scope, name, weight->second));
  SF_TRY(define(scope, name, place));
  return place;
}

Result<Aliases::Place> ValueReader::add_weight(const Scope& scope, std::string_view name, Weight& weight) {
  SF_ASSIGN(const TensorMeta meta, meta_of(scope, name));
  SF_ASSIGN(Tensor tensor, archive_.tensor(weight.name));
  const Type type{tensor.dtype, to_dims(tensor.shape)};
  if (type != meta.type)
    return invalid_model("tensor ", weight.name, " is stored as ", type, ", the graph says ", meta.type);
  const ValueId value = graph_.add_constant(weight.name, std::move(tensor));
  weight.value = value;
  return aliases_.add(value, meta);
}

Result<Dim> ValueReader::sym_int(Scope& scope, const Json& argument) {
  SF_ASSIGN(const auto tagged, argument.tagged());
  const auto& [tag, value] = tagged;
  Dim out;
  if (tag == "as_int") {
    SF_ASSIGN(out, value.integer());
    return out;
  }
  if (tag != "as_name") return argument.bad("expected as_int or as_name, found ", tag);
  SF_ASSIGN(const std::string_view name, value.text());
  if (const auto known = scope.known_ints.find(name); known != scope.known_ints.end()) return known->second;
  const auto found = scope.sym_ints.find(name);
  if (found == scope.sym_ints.end()) return argument.bad("no symbolic integer is named ", name);
  SF_ASSIGN(out, read_sym_int(found->second));
  const std::string symbol = unbacked_symbol(out);
  if (!symbol.empty() && !keep_unknown_)
    return unsupported("the integer ", name, " = ", out, " depends on data (", symbol, ")");
  scope.known_ints.emplace(name, out);
  return out;
}

// A symbolic real or boolean is usable only where the file knows its value.
Result<Attr> ValueReader::sym_plain(const Scope::Table& table, const Json& argument) {
  SF_ASSIGN(auto tagged, argument.tagged());
  if (tagged.first == "as_name") {
    SF_ASSIGN(const std::string_view name, tagged.second.text());
    const auto found = table.find(name);
    if (found == table.end()) return argument.bad("no symbolic value is named ", name);
    SF_ASSIGN(tagged, found->second.tagged());
    if (tagged.first == "as_expr")
      return unsupported("the value ", name, " depends on a symbolic size or on data");
  }
  if (tagged.first == "as_float") {
    SF_ASSIGN(const double x, tagged.second.real());
    return Attr(x);
  }
  if (tagged.first != "as_bool") return argument.bad("unknown kind of value ", tagged.first);
  SF_ASSIGN(const bool b, tagged.second.flag());
  return Attr(b);
}

Result<std::string_view> ValueReader::tensor_name(const Json& tensor) {
  SF_ASSIGN(const Json name, tensor.get("name"));
  return name.text();
}

Result<std::optional<Attr>> ValueReader::literal(Scope& scope, std::string_view tag, const Json& value) {
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

Result<std::optional<Attr>> ValueReader::literal_list(Scope& scope, std::string_view tag, const Json& value) {
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

Result<std::optional<Attr>> ValueReader::enumeration(std::string_view tag, const Json& value) {
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

Result<std::optional<std::vector<Aliases::Place>>> ValueReader::tensor_places(Scope& scope,
                                                                              std::string_view tag,
                                                                              const Json& value) {
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

Result<Argument> ValueReader::read_argument(Scope& scope, const Json& json, uint32_t origin,
                                            std::vector<Aliases::Place>& places) {
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

Result<ValueId> ValueReader::read_named(Scope& scope, std::string_view name) {
  SF_ASSIGN(const Aliases::Place place, find_place(scope, name));
  return aliases_.read(place, 0);
}

}  // namespace sixfold
