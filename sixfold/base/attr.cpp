#include "sixfold/base/attr.h"

#include <algorithm>
#include <cmath>

namespace sixfold {
namespace {

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    out += c;
  }
  return out += '"';
}

// A float always shows as one, so that text tells 1 from 1.0.
std::string real_text(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  std::string out = cat(x);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

struct AttrText {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool b) const { return b ? "true" : "false"; }
  std::string operator()(const Dim& d) const { return to_text(d); }
  std::string operator()(double x) const { return real_text(x); }
  std::string operator()(const std::string& s) const { return quoted(s); }
  std::string operator()(DType d) const { return std::string(to_text(d)); }
  std::string operator()(const Dims& dims) const { return cat(dims); }
  std::string operator()(const std::vector<double>& xs) const {
    std::string out = "[";
    for (size_t i = 0; i < xs.size(); ++i) out += cat(i ? ", " : "", real_text(xs[i]));
    return out + "]";
  }
  std::string operator()(const Operands& o) const { return cat("operands(", o.first, ", ", o.count, ")"); }
};

template <typename T>
const T* get(const Attrs& attrs, std::string_view name) {
  const Attr* attr = attrs.find(name);
  const T* value = attr ? std::get_if<T>(attr) : nullptr;
  assert(value && "an op's definition promises this attribute");
  return value;
}

}  // namespace

std::string to_text(const Attr& attr) { return std::visit(AttrText{}, attr); }

void Attrs::set(std::string_view name, Attr value) {
  for (Entry& e : entries_) {
    if (e.first == name) {
      e.second = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::string(name), std::move(value));
}
void Attrs::erase(std::string_view name) {
  std::erase_if(entries_, [&](const Entry& e) { return e.first == name; });
}
const Attr* Attrs::find(std::string_view name) const {
  for (const Entry& e : entries_)
    if (e.first == name) return &e.second;
  return nullptr;
}

bool Attrs::is_given(std::string_view name) const {
  const Attr* attr = find(name);
  return attr && !std::holds_alternative<std::monostate>(*attr);
}

bool Attrs::flag(std::string_view name) const {
  const bool* v = get<bool>(*this, name);
  return v && *v;
}
int64_t Attrs::integer(std::string_view name) const {
  const Dim* v = get<Dim>(*this, name);
  return v ? v->value_or(0) : 0;
}
Shape Attrs::ints(std::string_view name) const {
  const Dims* v = get<Dims>(*this, name);
  return v && is_static(*v) ? static_shape(*v) : Shape{};
}
Dims Attrs::dims(std::string_view name) const {
  const Dims* v = get<Dims>(*this, name);
  return v ? *v : Dims{};
}
double Attrs::real(std::string_view name) const {
  const Attr* attr = find(name);
  if (attr)
    if (const Dim* d = std::get_if<Dim>(attr)) return static_cast<double>(d->value_or(0));
  const double* v = get<double>(*this, name);
  return v ? *v : 0.0;
}
std::vector<double> Attrs::reals(std::string_view name) const {
  const auto* v = get<std::vector<double>>(*this, name);
  return v ? *v : std::vector<double>{};
}
const std::string& Attrs::text(std::string_view name) const {
  static const std::string empty;
  const auto* v = get<std::string>(*this, name);
  return v ? *v : empty;
}
DType Attrs::dtype(std::string_view name) const {
  const DType* v = get<DType>(*this, name);
  return v ? *v : DType::none;
}

}  // namespace sixfold
