#include "sixfold/import/symbolic.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace sixfold {
namespace {

// Sizes pass through reals (an upsampling factor, a true division), so an operand is a quotient of two Dims.
struct Quotient {
  Dim over = 0;
  Dim under = 1;
};

constexpr int kMaxDepth = 48;
constexpr size_t kMaxText = 8192;       // of the srepr
constexpr size_t kMaxExpression = 512;  // of the Dim: keeps products of sums from exploding

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class SreprParser {
 public:
  explicit SreprParser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    if (text_.size() > kMaxText)
      return invalid_model("a symbolic size is ", text_.size(), " characters long");
    SF_ASSIGN(Quotient out, value(0));
    skip();
    if (at_ != text_.size()) return bad();
    return integral(out);
  }

 private:
  Error bad() const { return invalid_model("'", text_.substr(0, 200), "' is not a symbolic size"); }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool eat(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  static Dim integral(const Quotient& q) {
    // torch says that the whole is an integer, so the division has no rest.
    return q.under == Dim(1) ? q.over : floordiv(q.over, q.under);
  }

  // name '(' arguments ')'
  Result<Quotient> value(int depth) {
    if (depth > kMaxDepth) return invalid_model("a symbolic size nests deeper than ", kMaxDepth, " levels");
    const std::string_view name = word();
    if (name.empty() || !eat('(')) return bad();
    if (name == "Symbol") return symbol();
    if (name == "Integer" || name == "Float" || name == "Rational") return number(name);
    std::vector<Quotient> args;
    if (!eat(')')) {
      do {
        SF_ASSIGN(Quotient arg, value(depth + 1));
        args.push_back(arg);
      } while (eat(','));
      if (!eat(')')) return bad();
    }
    SF_ASSIGN(Quotient out, apply(name, args));
    SF_TRY(check_size(out));
    return out;
  }

  static Status check_size(const Quotient& q) {
    for (const Dim* d : {&q.over, &q.under})
      if (!d->is_static() && to_text(*d).size() > kMaxExpression)
        return unsupported("a symbolic size has more than ", kMaxExpression, " characters");
    return ok_status();
  }

  // 's77', positive=True, integer=True)
  Result<Quotient> symbol() {
    if (!eat('\'')) return bad();
    const std::string_view name = word();
    const size_t close = text_.find(')', at_);
    if (name.empty() || name.size() > 64 || std::isdigit(static_cast<unsigned char>(name[0])) ||
        at_ >= text_.size() || text_[at_] != '\'' || close == std::string_view::npos)
      return bad();
    at_ = close + 1;
    return Quotient{Dim::symbol(std::string(name)), 1};
  }

  // 4)   3, 2)   '1.5', precision=53)
  Result<Quotient> number(std::string_view kind) {
    skip();
    const size_t close = text_.find(')', at_);
    if (close == std::string_view::npos) return bad();
    std::string_view body = text_.substr(at_, close - at_);
    at_ = close + 1;
    if (kind == "Float") {
      if (body.size() < 2 || (body[0] != '\'' && body[0] != '"')) return bad();
      body = body.substr(1, body.find(body[0], 1) - 1);
      double real = 0;
      const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), real);
      if (error != std::errc() || !std::isfinite(real)) return bad();
      int64_t under = 1;
      while (under < (int64_t{1} << 20) && real != std::floor(real)) {
        real *= 2;
        under *= 2;
      }
      if (real != std::floor(real) || std::abs(real) > 1e15)
        return unsupported("the symbolic size '", text_.substr(0, 200), "' multiplies by a fraction");
      return Quotient{static_cast<int64_t>(real), under};
    }
    int64_t over = 0, under = 1;
    const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), over);
    if (error != std::errc() || std::abs(over / 2) > kMaxDim / 2) return bad();
    if (kind == "Rational") {
      const size_t comma = body.find(", ");
      if (comma == std::string_view::npos) return bad();
      body.remove_prefix(comma + 2);
      if (std::from_chars(body.data(), body.data() + body.size(), under).ec != std::errc() || under <= 0 ||
          under > kMaxDim)
        return bad();
    }
    return Quotient{over, under};
  }

  static Quotient add(const Quotient& a, const Quotient& b) {
    if (a.under == b.under) return {a.over + b.over, a.under};
    return {a.over * b.under + b.over * a.under, a.under * b.under};
  }

  Result<Quotient> apply(std::string_view name, const std::vector<Quotient>& args) {
    const auto fold = [&](auto f) -> Result<Quotient> {
      Quotient out = args[0];
      for (size_t i = 1; i < args.size(); ++i) {
        out = f(out, args[i]);
        SF_TRY(check_size(out));
      }
      return out;
    };
    const auto is = [&](std::initializer_list<std::string_view> names, size_t count) {
      return (count == 0 ? !args.empty() : args.size() == count) &&
             std::find(names.begin(), names.end(), name) != names.end();
    };
    if (is({"Add"}, 0)) return fold(add);
    if (is({"Mul"}, 0))
      return fold([](const Quotient& a, const Quotient& b) {
        return Quotient{a.over * b.over, a.under * b.under};
      });
    if (is({"ToFloat", "Identity"}, 1)) return args[0];
    if (is({"floor", "FloorToInt", "TruncToInt", "OpaqueUnaryFn_floor"}, 1))  // sizes are never negative
      return Quotient{floordiv(args[0].over, args[0].under), 1};
    if (is({"ceiling", "CeilToInt"}, 1)) return ceil_of(args[0]);
    if (is({"IntTrueDiv", "FloatTrueDiv"}, 2))
      return Quotient{args[0].over * args[1].under, args[0].under * args[1].over};
    if (is({"FloorDiv", "CleanDiv"}, 2))
      return Quotient{floordiv(args[0].over * args[1].under, args[0].under * args[1].over), 1};
    if (is({"CeilDiv"}, 2)) return ceil_of({args[0].over * args[1].under, args[0].under * args[1].over});
    // The rest takes integers only.
    std::vector<Dim> ints;
    for (const Quotient& q : args) ints.push_back(integral(q));
    if (is({"Mod", "PythonMod"}, 2)) return Quotient{mod(ints[0], ints[1]), 1};
    if (is({"Max"}, 0) || is({"Min"}, 0)) {
      return fold([&](const Quotient& a, const Quotient& b) {
        return Quotient{name == "Max" ? max(integral(a), integral(b)) : min(integral(a), integral(b)), 1};
      });
    }
    if (is({"Pow", "PowByNatural"}, 2) && ints[1].is_static() && std::abs(ints[1].value()) <= 4) {
      Dim out = 1;
      for (int64_t i = 0; i < std::abs(ints[1].value()); ++i) out = out * ints[0];
      return ints[1].value() < 0 ? Quotient{1, out} : Quotient{out, 1};
    }
    return unsupported("the symbolic size '", text_.substr(0, 200), "' uses ", name);
  }

  static Quotient ceil_of(const Quotient& q) { return {Dim(0) - floordiv(Dim(0) - q.over, q.under), 1}; }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Dim> parse_srepr(std::string_view text) { return SreprParser(text).parse(); }

std::string unbacked_symbol(const Dim& dim) {
  std::vector<std::string> names;
  dim.collect_symbols(names);
  for (const std::string& name : names) {
    if (name.size() > 1 && (name[0] == 'u' || name.starts_with("zuf")) &&
        std::isdigit(static_cast<unsigned char>(name.back())))
      return name;
  }
  return "";
}

}  // namespace sixfold
