#include "sixfold/base/dim.h"

#include <algorithm>
#include <charconv>

namespace sixfold {

struct Dim::Atom {
  enum Kind { kSymbol, kFloorDiv, kMod, kMax, kMin, kMul } kind;
  std::string text;  // canonical spelling; the sort key
  Dim a, b;          // operands of the functions
};

struct Dim::Poly {
  struct Term {
    std::vector<std::shared_ptr<const Atom>> factors;  // sorted by text
    int64_t coefficient;
  };
  std::vector<Term> terms;  // sorted by factors' text, no zero coefficient; the constant term has no factors
};

namespace {

constexpr size_t kMaxTerms = 256;

int64_t clamp_dim(__int128 x) {
  return static_cast<int64_t>(std::clamp<__int128>(x, -static_cast<__int128>(kMaxDim), kMaxDim));
}
int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return clamp_dim(-static_cast<__int128>(a));
  const int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

}  // namespace

// The operations that need to see inside Dim.
struct DimAlgebra {
  using Atom = Dim::Atom;
  using Poly = Dim::Poly;
  using Term = Poly::Term;

  static std::vector<Term> terms(const Dim& d) {
    if (d.poly_) return d.poly_->terms;
    if (d.value_ == 0) return {};
    return {Term{{}, d.value_}};
  }

  static std::string key(const Term& t) {
    std::string out;
    for (const auto& f : t.factors) {
      if (!out.empty()) out += '*';
      out += f->text;
    }
    return out;
  }

  static Dim make(std::vector<Term> raw) {
    std::map<std::string, Term> merged;
    for (Term& t : raw) {
      auto [it, fresh] = merged.try_emplace(key(t), t);
      if (!fresh)
        it->second.coefficient = clamp_dim(static_cast<__int128>(it->second.coefficient) + t.coefficient);
    }
    auto poly = std::make_shared<Poly>();
    for (auto& [k, t] : merged)
      if (t.coefficient != 0) poly->terms.push_back(std::move(t));
    if (poly->terms.empty()) return Dim(0);
    if (poly->terms.size() == 1 && poly->terms[0].factors.empty()) return Dim(poly->terms[0].coefficient);
    Dim out;
    out.poly_ = std::move(poly);
    return out;
  }

  static Dim atom(Atom a) {
    Dim out;
    auto poly = std::make_shared<Poly>();
    poly->terms.push_back(Term{{std::make_shared<const Atom>(std::move(a))}, 1});
    out.poly_ = std::move(poly);
    return out;
  }

  static Dim function(Atom::Kind kind, const char* name, const Dim& a, const Dim& b) {
    return atom(Atom{kind, cat(name, "(", a, ", ", b, ")"), a, b});
  }

  static Dim divide_exactly(const Dim& a, int64_t by) {
    std::vector<Term> out = terms(a);
    for (Term& t : out) t.coefficient /= by;
    return make(std::move(out));
  }

  static bool divisible(const Dim& a, int64_t by) {
    const auto ts = terms(a);
    return std::all_of(ts.begin(), ts.end(), [&](const Term& t) { return t.coefficient % by == 0; });
  }

  static Dim evaluate(const Atom& atom, const Bindings& bindings) {
    if (atom.kind == Atom::kSymbol) {
      const auto it = bindings.find(atom.text);
      return it == bindings.end() ? Dim::symbol(atom.text) : Dim(it->second);
    }
    const Dim a = atom.a.substitute(bindings), b = atom.b.substitute(bindings);
    switch (atom.kind) {
      case Atom::kFloorDiv:
        return floordiv(a, b);
      case Atom::kMod:
        return mod(a, b);
      case Atom::kMax:
        return max(a, b);
      case Atom::kMul:
        return a * b;
      default:
        return min(a, b);
    }
  }

  static Dim substitute(const Dim& d, const Bindings& bindings) {
    Dim sum(0);
    for (const Term& t : d.poly_->terms) {
      Dim product(t.coefficient);
      for (const auto& f : t.factors) product = product * evaluate(*f, bindings);
      sum = sum + product;
    }
    return sum;
  }

  static int visit(const Atom& atom, Dim::Visitor& visitor) {
    using Function = Dim::Visitor::Function;
    if (atom.kind == Atom::kSymbol) return visitor.symbol(atom.text);
    const int a = atom.a.visit(visitor), b = atom.b.visit(visitor);
    switch (atom.kind) {
      case Atom::kFloorDiv:
        return visitor.apply(Function::floordiv, a, b);
      case Atom::kMod:
        return visitor.apply(Function::mod, a, b);
      case Atom::kMax:
        return visitor.apply(Function::max, a, b);
      case Atom::kMul:
        return visitor.apply(Function::mul, a, b);
      default:
        return visitor.apply(Function::min, a, b);
    }
  }

  static int visit(const Dim& d, Dim::Visitor& visitor) {
    using Function = Dim::Visitor::Function;
    int sum = -1;
    for (const Term& t : d.poly_->terms) {
      int product = -1;
      for (const auto& f : t.factors) {
        const int factor = visit(*f, visitor);
        product = product < 0 ? factor : visitor.apply(Function::mul, product, factor);
      }
      if (product < 0)
        product = visitor.number(t.coefficient);
      else if (t.coefficient != 1)
        product = visitor.apply(Function::mul, product, visitor.number(t.coefficient));
      sum = sum < 0 ? product : visitor.apply(Function::add, sum, product);
    }
    return sum;
  }

  static void symbols(const Dim& d, std::vector<std::string>& names) {
    if (!d.poly_) return;
    for (const Term& t : d.poly_->terms) {
      for (const auto& f : t.factors) {
        if (f->kind == Atom::kSymbol) {
          if (std::find(names.begin(), names.end(), f->text) == names.end()) names.push_back(f->text);
        } else {
          symbols(f->a, names);
          symbols(f->b, names);
        }
      }
    }
  }

  static std::string text(const Dim& d) {
    std::string out;
    for (const Term& t : d.poly_->terms) {
      const std::string factors = key(t);
      if (!out.empty()) out += t.coefficient < 0 ? " - " : " + ";
      const int64_t c = out.empty() ? t.coefficient : std::abs(t.coefficient);
      if (factors.empty())
        out += cat(c);
      else if (c == 1)
        out += factors;
      else
        out += cat(c, "*", factors);
    }
    return out;
  }
};

Dim Dim::symbol(std::string name) { return DimAlgebra::atom(Atom{Atom::kSymbol, std::move(name), {}, {}}); }

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return Dim(clamp_dim(static_cast<__int128>(a.value_) + b.value_));
  auto out = DimAlgebra::terms(a);
  for (auto& t : DimAlgebra::terms(b)) out.push_back(t);
  return DimAlgebra::make(std::move(out));
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return Dim(clamp_dim(static_cast<__int128>(a.value_) * b.value_));
  const auto a_terms = DimAlgebra::terms(a), b_terms = DimAlgebra::terms(b);
  // Products of long sums stay as they are: expanding a chain of them would take memory without bound.
  if (a_terms.size() * b_terms.size() > kMaxTerms) return DimAlgebra::function(Dim::Atom::kMul, "mul", a, b);
  std::vector<DimAlgebra::Term> out;
  for (const auto& x : a_terms) {
    for (const auto& y : b_terms) {
      DimAlgebra::Term t{x.factors, clamp_dim(static_cast<__int128>(x.coefficient) * y.coefficient)};
      t.factors.insert(t.factors.end(), y.factors.begin(), y.factors.end());
      std::sort(t.factors.begin(), t.factors.end(),
                [](const auto& p, const auto& q) { return p->text < q->text; });
      out.push_back(std::move(t));
    }
  }
  return DimAlgebra::make(std::move(out));
}

Dim operator-(const Dim& a, const Dim& b) { return a + Dim(-1) * b; }

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_static() != b.is_static()) return false;
  if (a.is_static()) return a.value_ == b.value_;
  return a.poly_ == b.poly_ || DimAlgebra::text(a) == DimAlgebra::text(b);
}

Dim floordiv(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return Dim(floor_div(a.value_, b.value_));
  if (b.is_static() && b.value_ == 1) return a;
  if (b.is_static() && b.value_ != 0) {
    // floordiv(4*s0 + r, 4) = s0 + floordiv(r, 4) for a constant r
    int64_t constant = 0;
    for (const auto& t : DimAlgebra::terms(a))
      if (t.factors.empty()) constant = t.coefficient;
    const Dim rest = a - Dim(constant);
    if (DimAlgebra::divisible(rest, b.value_))
      return DimAlgebra::divide_exactly(rest, b.value_) + Dim(floor_div(constant, b.value_));
  }
  if (a == b) return Dim(1);
  return DimAlgebra::function(Dim::Atom::kFloorDiv, "floordiv", a, b);
}

Dim mod(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return a - floordiv(a, b) * b;
  if (b.is_static() && b.value_ != 0 && DimAlgebra::divisible(a, b.value_)) return Dim(0);
  return DimAlgebra::function(Dim::Atom::kMod, "mod", a, b);
}

Dim max(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return Dim(std::max(a.value_, b.value_));
  if (a == b) return a;
  return DimAlgebra::function(Dim::Atom::kMax, "max", a, b);
}
Dim min(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return Dim(std::min(a.value_, b.value_));
  if (a == b) return a;
  return DimAlgebra::function(Dim::Atom::kMin, "min", a, b);
}

Dim Dim::substitute(const Bindings& bindings) const {
  return is_static() ? *this : DimAlgebra::substitute(*this, bindings);
}
int Dim::visit(Visitor& visitor) const {
  return is_static() ? visitor.number(value_) : DimAlgebra::visit(*this, visitor);
}
void Dim::collect_symbols(std::vector<std::string>& names) const { DimAlgebra::symbols(*this, names); }

std::string to_text(const Dim& dim) { return dim.is_static() ? cat(dim.value_) : DimAlgebra::text(dim); }

namespace {

// sum := product (('+'|'-') product)* ; product := factor ('*' factor)* ; factor := int | name | name '(' sum
// ',' sum ')'
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Result<Dim> parse() {
    SF_ASSIGN(Dim out, sum(0));
    skip();
    if (at_ != text_.size()) return bad();
    return out;
  }

 private:
  static constexpr int kMaxDepth = 64;
  Error bad() { return invalid_argument("'", text_, "' is not a dimension expression"); }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool eat(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Result<Dim> sum(int depth) {
    if (depth > kMaxDepth) return bad();
    SF_ASSIGN(Dim out, product(depth));
    while (true) {
      if (eat('+')) {
        SF_ASSIGN(Dim next, product(depth));
        out = out + next;
      } else if (eat('-')) {
        SF_ASSIGN(Dim next, product(depth));
        out = out - next;
      } else {
        return out;
      }
    }
  }
  Result<Dim> product(int depth) {
    SF_ASSIGN(Dim out, factor(depth));
    while (eat('*')) {
      SF_ASSIGN(Dim next, factor(depth));
      out = out * next;
    }
    return out;
  }
  Result<Dim> factor(int depth) {
    skip();
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (error == std::errc()) {
      at_ = static_cast<size_t>(end - text_.data());
      return Dim(number);
    }
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (name.empty()) return bad();
    if (!eat('(')) return Dim::symbol(std::string(name));
    SF_ASSIGN(Dim a, sum(depth + 1));
    if (!eat(',')) return bad();
    SF_ASSIGN(Dim b, sum(depth + 1));
    if (!eat(')')) return bad();
    if (name == "floordiv") return floordiv(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "max") return max(a, b);
    if (name == "min") return min(a, b);
    if (name == "mul") return a * b;
    return bad();
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Dim> parse_dim(std::string_view text) { return DimParser(text).parse(); }

bool equivalent(const Dim& a, const Dim& b) {
  if (a == b) return true;
  if (a.is_static() && b.is_static()) return false;
  std::vector<std::string> names;
  a.collect_symbols(names);
  b.collect_symbols(names);
  // Values that are even, odd, prime and far apart tell different formulas from each other.
  for (const int64_t seed : {16, 35, 97, 240, 1024}) {
    Bindings bindings;
    for (size_t i = 0; i < names.size(); ++i) bindings[names[i]] = seed + 13 * static_cast<int64_t>(i);
    if (!(a.substitute(bindings) == b.substitute(bindings))) return false;
  }
  return true;
}

bool is_static(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_static(); });
}
Shape static_shape(const Dims& dims) {
  Shape out;
  out.reserve(dims.size());
  for (const Dim& d : dims) out.push_back(d.value());
  return out;
}
Dims to_dims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

Dim numel(const Dims& dims) {
  Dim out(1);
  for (const Dim& d : dims) out = out * d;
  return out;
}
int64_t numel(const Shape& shape) {
  __int128 out = 1;
  for (const int64_t d : shape) out = clamp_dim(out * d);
  return static_cast<int64_t>(out);
}
bool equivalent(const Dims& a, const Dims& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](const Dim& x, const Dim& y) { return equivalent(x, y); });
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  __int128 step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(step);
    step = clamp_dim(step * std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

Result<int64_t> normalize_axis(int64_t axis, size_t rank) {
  const auto n = static_cast<int64_t>(std::max<size_t>(rank, 1));
  if (axis < -n || axis >= n)
    return invalid_model("dim ", axis, " is out of range for a tensor of rank ", rank, ": expected ", -n,
                         " to ", n - 1);
  return axis < 0 ? axis + n : axis;
}

}  // namespace sixfold
