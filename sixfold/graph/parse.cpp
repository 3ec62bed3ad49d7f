#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>

#include "sixfold/graph/graph.h"

namespace sixfold {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Graph> parse() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      rest_ = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++line_;
      skip();
      if (rest_.empty() || rest_.front() == '#') continue;
      if (Status s = statement(); !s.ok())
        return s.take_error().during(cat("reading line ", line_, " of a graph"));
    }
    SF_TRY(verify(graph_));
    return std::move(graph_);
  }

 private:
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  }
  void skip() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool eat(std::string_view token) {
    skip();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  Status expect(std::string_view token) {
    if (eat(token)) return {};
    return invalid_argument("expected '", token, "' before '", rest_.substr(0, 20), "'");
  }
  std::string word() {
    skip();
    size_t n = 0;
    while (n < rest_.size() && is_word(rest_[n])) ++n;
    std::string out(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return out;
  }

  Result<ValueId> value() {
    SF_TRY(expect("%"));
    const std::string name = word();
    const auto it = values_.find(name);
    if (it == values_.end()) return invalid_argument("%", name, " is not defined");
    return it->second;
  }
  void define(const std::string& name, ValueId id) {
    values_[name] = id;
    graph_.value(id).name = name;
  }

  // Text up to the closing bracket or the comma that ends an item.
  std::string_view item() {
    skip();
    int depth = 0;
    size_t n = 0;
    for (; n < rest_.size(); ++n) {
      const char c = rest_[n];
      if (c == '(' || c == '[') ++depth;
      if ((c == ')' || c == ']') && depth-- == 0) break;
      if (c == ',' && depth == 0) break;
    }
    const std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }

  Result<Dims> dims() {
    SF_TRY(expect("["));
    Dims out;
    while (!eat("]")) {
      if (!out.empty()) SF_TRY(expect(","));
      SF_ASSIGN(Dim d, parse_dim(item()));
      out.push_back(std::move(d));
      skip();
      if (rest_.empty()) return invalid_argument("a list is not closed");
    }
    return out;
  }

  Result<Type> type() {
    SF_ASSIGN(const DType dtype, parse_dtype(word()));
    SF_ASSIGN(Dims shape, dims());
    return Type{dtype, std::move(shape)};
  }

  static Result<double> real(std::string_view text) {
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    double x = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
    if (error != std::errc() || end != text.data() + text.size())
      return invalid_argument("'", text, "' is not a number");
    return x;
  }

  static bool is_real_text(std::string_view t) {
    return t == "inf" || t == "-inf" || t == "nan" ||
           (!t.empty() && (std::isdigit(static_cast<unsigned char>(t[0])) || t[0] == '-') &&
            t.find_first_of(".e") != std::string_view::npos &&
            t.find_first_of("*(+ s") == std::string_view::npos);
  }

  Result<Attr> attr() {
    skip();
    if (eat("\"")) {
      std::string out;
      while (!rest_.empty() && rest_.front() != '"') {
        if (rest_.front() == '\\' && rest_.size() > 1) {
          rest_.remove_prefix(1);
          out += rest_.front() == 'n' ? '\n' : rest_.front();
        } else {
          out += rest_.front();
        }
        rest_.remove_prefix(1);
      }
      SF_TRY(expect("\""));
      return Attr(std::move(out));
    }
    if (!rest_.empty() && rest_.front() == '[') {
      const size_t close = rest_.find(']');
      const std::string_view inside = rest_.substr(1, close == std::string_view::npos ? 0 : close - 1);
      const std::string_view head = inside.substr(0, inside.find(','));
      if (!is_real_text(head)) {
        SF_ASSIGN(Dims out, dims());
        return Attr(std::move(out));
      }
      std::vector<double> out;
      SF_TRY(expect("["));
      while (!eat("]")) {
        if (!out.empty()) SF_TRY(expect(","));
        SF_ASSIGN(const double x, real(item()));
        out.push_back(x);
        if (rest_.empty()) return invalid_argument("a list is not closed");
      }
      return Attr(std::move(out));
    }
    const std::string_view text = item();
    if (text == "none") return Attr();
    if (text == "true" || text == "false") return Attr(text == "true");
    if (auto d = parse_dtype(text); d.ok()) return Attr(*d);
    if (is_real_text(text)) {
      SF_ASSIGN(const double x, real(text));
      return Attr(x);
    }
    SF_ASSIGN(Dim d, parse_dim(text));
    return Attr(std::move(d));
  }

  Status encoding(ValueId id) {
    if (!eat("encoding(")) return {};
    Encoding e;
    SF_ASSIGN(e.storage, parse_dtype(word()));
    int64_t* numbers[] = {&e.quant_min, &e.quant_max};
    for (int64_t* n : numbers) {
      SF_TRY(expect(","));
      SF_ASSIGN(const Dim d, parse_dim(item()));
      *n = d.value_or(0);
    }
    SF_TRY(expect(","));
    SF_ASSIGN(const Dim axis, parse_dim(item()));
    e.axis = static_cast<int32_t>(axis.value_or(-1));
    SF_TRY(expect(","));
    SF_ASSIGN(const Attr scales, attr());
    if (const auto* xs = std::get_if<std::vector<double>>(&scales)) e.scales.assign(xs->begin(), xs->end());
    SF_TRY(expect(","));
    SF_ASSIGN(const Dims zeros, dims());
    for (const Dim& z : zeros) e.zero_points.push_back(static_cast<int32_t>(z.value_or(0)));
    if (eat(", block ")) {
      SF_ASSIGN(const Dim block, parse_dim(item()));
      e.block = block.value_or(0);
    }
    SF_TRY(expect(")"));
    graph_.value(id).encoding = std::move(e);
    return {};
  }

  Result<Tensor> data(const Type& type) {
    if (!is_static(type.dims)) return invalid_argument("a constant has the symbolic shape ", type);
    const Dim count = numel(type.dims);
    if (count.value() < 0 || count.value() > (int64_t{1} << 24))
      return invalid_argument(type, " is too large for a constant in text");
    std::byte* bytes = nullptr;
    Tensor out = Tensor::allocate(type.dtype, static_shape(type.dims), &bytes);
    if (eat("...")) return out;
    SF_TRY(expect("["));
    for (int64_t i = 0; i < out.count(); ++i) {
      if (i) SF_TRY(expect(","));
      const std::string_view text = item();
      Tensor one;
      if (is_float(type.dtype)) {
        SF_ASSIGN(const double x, real(text));
        one = Tensor::scalar(x, type.dtype);
      } else {
        SF_ASSIGN(const Dim d, parse_dim(text));
        one = Tensor::scalar(d.value_or(0), type.dtype);
      }
      std::memcpy(bytes + static_cast<size_t>(i) * size_of(type.dtype), one.data, size_of(type.dtype));
    }
    SF_TRY(expect("]"));
    return out;
  }

  Status statement() {
    if (rest_.front() == '%') return node();
    const std::string keyword = word();
    skip();
    if (keyword == "symbol") {
      SymbolRange& range = graph_.symbols[word()];
      const auto bound = [&](std::optional<int64_t>& to) -> Status {
        const std::string w = word();
        if (w == "none") return {};
        SF_ASSIGN(const Dim d, parse_dim(w));
        to = d.value_or(0);
        return {};
      };
      SF_TRY(bound(range.min));
      return bound(range.max);
    }
    if (keyword == "input" && !rest_.starts_with("%")) {
      SF_ASSIGN(Attr literal, attr());
      graph_.inputs.push_back({"", kNoValue, std::move(literal)});
      return {};
    }
    if (keyword == "input" || keyword == "constant" || keyword == "state") {
      SF_TRY(expect("%"));
      const std::string name = word();
      SF_TRY(expect(":"));
      SF_ASSIGN(const Type t, type());
      ValueId id;
      if (keyword == "input") {
        id = graph_.add_input("", t);
        graph_.inputs.push_back({name, id, {}});
        SF_TRY(encoding(id));
      } else {
        id = graph_.add_constant("", Tensor{});
        SF_TRY(encoding(id));
        SF_TRY(expect("="));
        SF_ASSIGN(graph_.value(id).constant, data(t));
        graph_.value(id).type = t;
        if (keyword == "state") graph_.value(id).kind = ValueKind::state;
      }
      define(name, id);
      return {};
    }
    if (keyword == "mutate") {
      SF_ASSIGN(const ValueId state, value());
      SF_ASSIGN(const ValueId next, value());
      graph_.mutations.push_back({state, next});
      return {};
    }
    if (keyword == "output") {
      if (!rest_.starts_with("%")) {
        SF_ASSIGN(Attr literal, attr());
        graph_.outputs.push_back({"", kNoValue, std::move(literal)});
        return {};
      }
      SF_ASSIGN(const ValueId id, value());
      graph_.outputs.push_back({"", id, {}});
      return {};
    }
    return invalid_argument("'", keyword, "' starts no statement");
  }

  Result<ValueId> operand() {
    if (eat("none")) return kNoValue;
    return value();
  }

  Status argument(std::vector<ValueId>& inputs, Attrs& attrs) {
    skip();
    if (rest_.starts_with("%") || rest_.starts_with("none")) {
      SF_ASSIGN(const ValueId v, operand());
      inputs.push_back(v);
      return {};
    }
    const std::string key = word();
    SF_TRY(expect("="));
    skip();
    const auto first = static_cast<uint32_t>(inputs.size());
    if (rest_.starts_with("%")) {
      SF_ASSIGN(const ValueId v, value());
      inputs.push_back(v);
      attrs.set(key, Operands{first, 1, false});
    } else if (rest_.starts_with("[%") || rest_.starts_with("[none")) {
      SF_TRY(expect("["));
      while (!eat("]")) {
        if (inputs.size() > first) SF_TRY(expect(","));
        SF_ASSIGN(const ValueId v, operand());
        inputs.push_back(v);
      }
      attrs.set(key, Operands{first, static_cast<uint32_t>(inputs.size()) - first, true});
    } else {
      SF_ASSIGN(Attr a, attr());
      attrs.set(key, std::move(a));
    }
    return {};
  }

  Status node() {
    std::vector<std::string> names;
    do {
      SF_TRY(expect("%"));
      names.push_back(word());
    } while (eat(","));
    SF_TRY(expect("="));
    const std::string callee = word();
    const std::optional<Op> op = find_op(callee);
    SF_TRY(expect("("));
    std::vector<ValueId> inputs;
    Attrs attrs;
    for (bool first = true; !eat(")"); first = false) {
      if (!first) SF_TRY(expect(","));
      SF_TRY(argument(inputs, attrs));
      skip();
      if (rest_.empty()) return invalid_argument("an argument list is not closed");
    }
    // Types may be left out for canonical ops: they are inferred.
    std::vector<Type> types;
    if (!eat(":")) {
      if (!op) return invalid_argument(callee, " needs the types of its results");
      std::vector<Type> in;
      for (const ValueId v : inputs) in.push_back(graph_.type(v));
      SF_ASSIGN(types, infer_types(*op, in, attrs));
    }
    const bool spelled = types.empty();
    std::vector<std::string_view> encoding_text;
    if (spelled) {
      do {
        SF_ASSIGN(Type t, type());
        types.push_back(std::move(t));
        skip();
        encoding_text.push_back(rest_.starts_with("encoding(") ? item() : std::string_view());
      } while (eat(","));
    }
    if (types.size() != names.size())
      return invalid_argument(names.size(), " results have ", types.size(), " types");
    uint32_t origin = 0;
    if (eat("#")) {
      skip();
      Origin o;
      const size_t at = rest_.find(" at ");
      o.name = std::string(rest_.substr(0, at));
      if (at != std::string_view::npos) o.source = std::string(rest_.substr(at + 4));
      origin = static_cast<uint32_t>(graph_.origins.size());
      graph_.origins.push_back(std::move(o));
    }
    const NodeId id = graph_.add_node(op.value_or(Op::call), op ? "" : callee, std::move(inputs),
                                      std::move(attrs), types, origin);
    for (size_t i = 0; i < names.size(); ++i) {
      define(names[i], graph_.node(id).outputs[i]);
      if (i < encoding_text.size() && !encoding_text[i].empty()) {
        rest_ = encoding_text[i];
        SF_TRY(encoding(graph_.node(id).outputs[i]));
      }
    }
    return {};
  }

  std::string_view text_, rest_;
  size_t line_ = 0;
  Graph graph_;
  std::map<std::string, ValueId> values_;
};

}  // namespace

Result<Graph> parse(std::string_view text) { return Parser(text).parse(); }

}  // namespace sixfold
