#include "sixfold/ops/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "sixfold/pte/scalar_type.h"

namespace sixfold {
namespace {

std::string_view type_name(ArgType type) {
  switch (type) {
    case ArgType::tensor:
      return "a tensor";
    case ArgType::integer:
      return "an integer";
    case ArgType::number:
      return "a number";
    case ArgType::real:
      return "a real";
    case ArgType::boolean:
      return "a boolean";
    case ArgType::string:
      return "a string";
    case ArgType::dtype:
      return "a dtype";
    case ArgType::layout:
      return "a layout";
    case ArgType::device:
      return "a device";
    case ArgType::memory_format:
      return "a memory format";
    case ArgType::generator:
      return "a generator";
    case ArgType::other:
      break;
  }
  return "something else";
}

Error mismatch(const SchemaArg& arg, const Attr& value) {
  return invalid_model("argument '", arg.name, "' is ", to_text(value), ", expected ",
                       arg.list ? "a list of " : "", type_name(arg.type));
}

bool is_none(const Attr& value) { return std::holds_alternative<std::monostate>(value); }

// The items of a Python list as torch prints it: "[0, 1]".
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> out;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    out.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  return out;
}

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<double> parse_real(std::string_view text) {
  double out = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);  // knows inf and nan
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

Result<Attr> parse_item(const SchemaArg& arg, std::string_view text) {
  if (text == "None") return Attr();
  if (text == "True") return Attr(true);
  if (text == "False") return Attr(false);
  if (text.size() >= 2 && (text[0] == '"' || text[0] == '\''))
    return Attr(std::string(text.substr(1, text.size() - 2)));
  if (const auto n = parse_int(text)) {
    if (arg.type == ArgType::dtype) {
      SF_ASSIGN(const DType dtype, pte::dtype_of(*n));
      return Attr(dtype);
    }
    if (arg.type == ArgType::memory_format) {
      constexpr const char* kC10[] = {"contiguous", "preserve", "channels_last", "channels_last_3d"};
      if (*n >= 0 && *n < 4) return Attr(std::string(kC10[*n]));
    }
    if (arg.type == ArgType::layout && *n == 0) return Attr(std::string("strided"));
    return Attr(Dim(*n));
  }
  if (const auto x = parse_real(text)) return Attr(*x);
  return fail(Code::Internal, "the default ", text, " of argument '", arg.name, "' is not understood");
}

Result<double> to_real(const SchemaArg& arg, const Attr& value) {
  if (const double* x = std::get_if<double>(&value)) return *x;
  if (const bool* b = std::get_if<bool>(&value)) return *b ? 1.0 : 0.0;
  const Dim* d = std::get_if<Dim>(&value);
  if (!d) return mismatch(arg, value);
  if (!d->is_static()) return unsupported("argument '", arg.name, "' is the symbolic real ", *d);
  return static_cast<double>(d->value());
}

Result<Attr> coerce_list(const SchemaArg& arg, Attr value) {
  const bool reals = arg.type == ArgType::real || arg.type == ArgType::number;
  if (Dims* dims = std::get_if<Dims>(&value)) {
    if (arg.type == ArgType::tensor) return mismatch(arg, value);
    if (!reals) return value;
    if (!is_static(*dims)) return unsupported("argument '", arg.name, "' is a list of symbolic reals");
    std::vector<double> out;
    for (const Dim& d : *dims) out.push_back(static_cast<double>(d.value()));
    return Attr(std::move(out));
  }
  if (std::holds_alternative<std::vector<double>>(value))
    return reals ? Result<Attr>(std::move(value)) : Result<Attr>(mismatch(arg, value));
  // One number stands for the whole list.
  const size_t n = static_cast<size_t>(std::max(arg.list_size, 1));
  if (reals) {
    SF_ASSIGN(const double x, to_real(arg, value));
    return Attr(std::vector<double>(n, x));
  }
  if (const Dim* d = std::get_if<Dim>(&value); d && arg.type == ArgType::integer) return Attr(Dims(n, *d));
  return mismatch(arg, value);
}

}  // namespace

Argument Argument::list(std::vector<ValueId> values) {
  Argument out{Attr()};
  out.tensors = std::move(values);
  out.is_tensor = out.is_list = true;
  return out;
}

Result<Attr> coerce(const SchemaArg& arg, Attr value) {
  if (is_none(value)) {
    if (!arg.nullable && arg.default_text != "None") return mismatch(arg, value);
    return value;
  }
  if (arg.list) return coerce_list(arg, std::move(value));
  const auto keep_if = [&](bool fits) -> Result<Attr> {
    if (!fits) return mismatch(arg, value);
    return std::move(value);
  };
  const bool is_int = std::holds_alternative<Dim>(value), is_bool = std::holds_alternative<bool>(value);
  const bool is_real = std::holds_alternative<double>(value),
             is_text = std::holds_alternative<std::string>(value);
  switch (arg.type) {
    case ArgType::tensor:
    case ArgType::number:
      return keep_if(is_int || is_bool || is_real);
    case ArgType::integer:
      if (is_bool) return Attr(Dim(std::get<bool>(value) ? 1 : 0));
      return keep_if(is_int);
    case ArgType::real: {
      SF_ASSIGN(const double x, to_real(arg, value));
      return Attr(x);
    }
    case ArgType::boolean:
      if (is_int && std::get<Dim>(value).is_static()) return Attr(std::get<Dim>(value).value() != 0);
      return keep_if(is_bool);
    case ArgType::string:
    case ArgType::layout:
    case ArgType::device:
    case ArgType::memory_format:
      return keep_if(is_text);
    case ArgType::dtype:
      return keep_if(std::holds_alternative<DType>(value));
    case ArgType::generator:
      return unsupported("argument '", arg.name, "' is a random generator");
    case ArgType::other:
      break;
  }
  return value;
}

Result<Attr> parse_default(const SchemaArg& arg) {
  const std::string_view text = arg.default_text;
  if (!text.starts_with('[')) {
    SF_ASSIGN(Attr item, parse_item(arg, text));
    return coerce(arg, std::move(item));
  }
  Dims ints;
  std::vector<double> reals;
  for (const std::string_view item_text : split_list(text)) {
    SF_ASSIGN(Attr item, parse_item(arg, item_text));
    if (const Dim* d = std::get_if<Dim>(&item))
      ints.push_back(*d);
    else if (const bool* b = std::get_if<bool>(&item))
      ints.push_back(Dim(*b ? 1 : 0));
    else if (const double* x = std::get_if<double>(&item))
      reals.push_back(*x);
    else
      return fail(Code::Internal, "the default ", text, " of argument '", arg.name, "' is not understood");
  }
  if (arg.type == ArgType::real) {
    for (const Dim& d : ints) reals.push_back(static_cast<double>(d.value()));
    return Attr(std::move(reals));
  }
  return Attr(std::move(ints));
}

namespace {

void append(CallOperands& call, const std::string& name, const Argument& arg) {
  if (!arg.is_tensor) {
    call.attrs.set(name, arg.attr);
    return;
  }
  call.attrs.set(name, Operands{static_cast<uint32_t>(call.inputs.size()),
                                static_cast<uint32_t>(arg.tensors.size()), arg.is_list});
  call.inputs.insert(call.inputs.end(), arg.tensors.begin(), arg.tensors.end());
}

// Every argument to its slot of the schema.
Result<std::vector<const Argument*>> assign_slots(const Schema& schema, const NamedArguments& given) {
  std::vector<const Argument*> slots(schema.args.size(), nullptr);
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& name = given[i].first;
    size_t at = i;
    if (!name.empty()) {
      const auto found = std::find_if(schema.args.begin(), schema.args.end(),
                                      [&](const SchemaArg& a) { return a.name == name; });
      if (found == schema.args.end()) return invalid_model(schema.target, " has no argument '", name, "'");
      at = static_cast<size_t>(found - schema.args.begin());
    }
    if (at >= slots.size())
      return invalid_model(schema.target, " takes ", slots.size(), " arguments, found ", given.size());
    if (slots[at]) return invalid_model("argument '", schema.args[at].name, "' is given twice");
    slots[at] = &given[i].second;
  }
  return slots;
}

}  // namespace

Result<CallOperands> complete_call(const Schema* schema, NamedArguments given) {
  CallOperands out;
  if (!schema) {
    for (size_t i = 0; i < given.size(); ++i)
      append(out, given[i].first.empty() ? cat("arg", i) : given[i].first, given[i].second);
    return out;
  }
  SF_ASSIGN(const auto slots, assign_slots(*schema, given));
  for (size_t i = 0; i < slots.size(); ++i) {
    const SchemaArg& arg = schema->args[i];
    if (!slots[i]) {
      if (!arg.has_default && !arg.nullable)
        return invalid_model("argument '", arg.name, "' of ", schema->target, " is missing");
      Attr value;
      if (arg.has_default) {
        SF_ASSIGN(value, parse_default(arg));
      }
      append(out, arg.name, Argument(std::move(value)));
    } else if (slots[i]->is_tensor) {
      if (arg.type != ArgType::tensor && arg.type != ArgType::number)
        return invalid_model("argument '", arg.name, "' is a tensor, expected ", type_name(arg.type));
      Argument value = *slots[i];
      if (arg.list && arg.type == ArgType::tensor)
        value.is_list = true;
      else if (value.is_list)
        return invalid_model("argument '", arg.name, "' is a list of tensors, expected one");
      append(out, arg.name, value);
    } else if (arg.type == ArgType::tensor && arg.list && std::holds_alternative<Dims>(slots[i]->attr) &&
               std::get<Dims>(slots[i]->attr).empty()) {
      append(out, arg.name, Argument::list({}));
    } else {
      SF_ASSIGN(Attr value, coerce(arg, slots[i]->attr));
      append(out, arg.name, Argument(std::move(value)));
    }
  }
  return out;
}

}  // namespace sixfold
