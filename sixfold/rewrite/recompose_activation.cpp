// Activations from their formulas, whatever their spelling: a formula of one tensor and of numbers is
// computed at some points, and is the function that has the same values there.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>

#include "sixfold/rewrite/expression.h"
#include "sixfold/rewrite/recompose.h"

namespace sixfold {
namespace {

// Few first, which tell most formulas apart, then both tails and the joints of the piecewise ones, then what
// lies behind bounds that a formula may have. Those of exponentials are wrong themselves beyond some
// hundreds.
constexpr double kPoints[] = {0.73, -1.31, 2.9,  -0.17, 0,     -3,    3,     -6,   6,    0.01,  -0.01,
                              1,    -1,    -2.2, -2.7,  -3.01, -2.99, 3.01,  2.99, 5.99, 6.01,  -5.2,
                              -9.3, 8.7,   1.7,  4.4,   -4.1,  11.5,  -12.5, 0.31, 1.1,  -0.55, 19,
                              -18,  22,    -21,  -1.9,  -0.85, -0.25, 0.51,  2.3,  3.7,  50,    -50,
                              80,   -80,   300,  -300,  3e3,   -3e3,  3e4,   -3e4, 1e9,  -1e9};
constexpr size_t kFirst = 4, kCount = std::size(kPoints), kSmooth = kCount - 6;
using Points = std::array<double, kCount>;

// The value of a node from those of its operands; nothing for ops that are not pointwise.
std::optional<double> compute(const Node& node, const double* in) {
  const auto bound = [&](const char* name, double otherwise) {
    const Attr* a = node.attrs.find(name);
    return !a || std::holds_alternative<std::monostate>(*a) ? otherwise : node.attrs.real(name);
  };
  const double a = in[0], b = in[1];
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  switch (node.op) {
    case Op::add:
      return a + b;
    case Op::sub:
      return a - b;
    case Op::mul:
      return a * b;
    case Op::div:
      if (node.attrs.text("rounding") != "none") return std::nullopt;
      return a / b;
    case Op::pow:
      return std::pow(a, b);
    case Op::minimum:
      return std::fmin(a, b);
    case Op::maximum:
      return std::fmax(a, b);
    case Op::neg:
      return -a;
    case Op::abs:
      return std::abs(a);
    case Op::exp:
      return std::exp(a);
    case Op::expm1:
      return std::expm1(a);
    case Op::log:
      return std::log(a);
    case Op::log1p:
      return std::log1p(a);
    case Op::sqrt:
      return std::sqrt(a);
    case Op::rsqrt:
      return 1 / std::sqrt(a);
    case Op::reciprocal:
      return 1 / a;
    case Op::tanh:
      return std::tanh(a);
    case Op::erf:
      return std::erf(a);
    case Op::sigmoid:
      return sigmoid(a);
    case Op::relu:
      return std::fmax(a, 0);
    case Op::silu:
      return a * sigmoid(a);
    case Op::hardsigmoid:
      return std::clamp(a / 6 + 0.5, 0.0, 1.0);
    case Op::hardswish:
      return a * std::clamp(a / 6 + 0.5, 0.0, 1.0);
    case Op::clamp:
      return std::fmin(std::fmax(a, bound("min", -INFINITY)), bound("max", INFINITY));
    case Op::softplus: {
      const double beta = node.attrs.real("beta");
      return a * beta > node.attrs.real("threshold") ? a : std::log1p(std::exp(a * beta)) / beta;
    }
    case Op::leaky_relu:
      return a > 0 ? a : a * node.attrs.real("slope");
    case Op::elu:
      if (node.attrs.real("scale") != 1 || node.attrs.real("input_scale") != 1) return std::nullopt;
      return a > 0 ? a : node.attrs.real("alpha") * std::expm1(a);
    case Op::lt:
      return a < b;
    case Op::le:
      return a <= b;
    case Op::gt:
      return a > b;
    case Op::ge:
      return a >= b;
    case Op::logical_not:
      return a == 0;
    case Op::where:
      return a != 0 ? b : in[2];
    default:
      return std::nullopt;
  }
}

// A formula of x and numbers, at the first n points.
class Formula {
 public:
  Formula(const Graph& graph, ValueId x) : graph_(graph), x_(x) {}

  bool compute_node(const Node& node, size_t n, Points* out, int depth = 0) {
    constexpr size_t kMostNodes = 24;
    if (depth > 16 || ++nodes_ > kMostNodes || node.inputs.size() > 3 || node.outputs.size() != 1)
      return false;
    const double zeros[3] = {1, 1, 1};
    if (!compute(node, zeros)) return false;  // before its operands are looked at
    std::array<Points, 3> in{};
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (!compute_value(node.inputs[i], n, &in[i], depth + 1)) return false;
    for (size_t k = 0; k < n; ++k) {
      const double operands[3] = {in[0][k], in[1][k], in[2][k]};
      (*out)[k] = *compute(node, operands);
    }
    return true;
  }

 private:
  bool compute_value(ValueId v, size_t n, Points* out, int depth) {
    if (v == x_) {
      std::copy_n(kPoints, n, out->begin());
      return true;
    }
    if (const auto number = uniform_number(graph_, v)) {
      std::fill_n(out->begin(), n, *number);
      return true;
    }
    const Node* node = made_by(graph_, v);
    return node && compute_node(*node, n, out, depth);
  }

  const Graph& graph_;
  ValueId x_;
  size_t nodes_ = 0;
};

// Where the formula may start: what can be reached through pointwise ops.
void collect(const Graph& graph, const Node& node, size_t most, std::vector<ValueId>* out) {
  const double ones[3] = {1, 1, 1};
  if (node.inputs.size() > 3 || node.outputs.size() != 1 || !compute(node, ones)) return;
  for (const ValueId v : node.inputs) {
    if (!v.valid() || graph.constant(v) || out->size() >= most) continue;
    if (std::find(out->begin(), out->end(), v) != out->end()) continue;
    out->push_back(v);
    if (const Node* made = made_by(graph, v)) collect(graph, *made, most, out);
  }
}

// b: of the function. Where that is zero, what is only close to it may be there to be divided by.
bool same(double a, double b, double x) {
  return b == 0 ? a == 0 : std::abs(a - b) <= 3e-6 * (1 + std::abs(x));
}

double at(const Points& values, double x) {
  for (size_t i = 0; i < kCount; ++i)
    if (kPoints[i] == x) return values[i];
  return NAN;
}

// A function of the canonical ops. Numbers of its own are found from the values.
struct Function {
  const char* rule;
  Op op;
  std::initializer_list<Op> last;  // what its formulas end with
  double (*value)(double x, double number);
  double (*number)(const Points& values);  // null: it has none
  Attrs (*attrs)(double number);           // null: it has none
};

double softplus_at(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::abs(x))); }
double gelu_tanh_at(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
Attrs gelu_attrs(const char* kind) { return {{"approximate", kind}}; }

const Function kFunctions[] = {
    {"form_relu",
     Op::relu,
     {Op::maximum, Op::where, Op::mul, Op::clamp, Op::sub, Op::add},
     [](double x, double) { return std::fmax(x, 0); },
     nullptr,
     nullptr},
    {"form_hardsigmoid",
     Op::hardsigmoid,
     {Op::mul, Op::div, Op::clamp, Op::minimum, Op::maximum},
     [](double x, double) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); },
     nullptr,
     nullptr},
    {"form_hardswish",
     Op::hardswish,
     {Op::mul, Op::div},
     [](double x, double) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); },
     nullptr,
     nullptr},
    {"form_sigmoid",
     Op::sigmoid,
     {Op::reciprocal, Op::div, Op::mul, Op::add},
     [](double x, double) { return 1 / (1 + std::exp(-x)); },
     nullptr,
     nullptr},
    {"form_silu",
     Op::silu,
     {Op::mul, Op::div},
     [](double x, double) { return x / (1 + std::exp(-x)); },
     nullptr,
     nullptr},
    {"form_gelu",
     Op::gelu,
     {Op::mul, Op::div},
     [](double x, double) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); },
     nullptr,
     [](double) { return gelu_attrs("none"); }},
    {"form_gelu_tanh",
     Op::gelu,
     {Op::mul, Op::div},
     [](double x, double) { return gelu_tanh_at(x); },
     nullptr,
     [](double) { return gelu_attrs("tanh"); }},
    {"form_softplus",
     Op::softplus,
     {Op::log, Op::log1p, Op::add, Op::where},
     [](double x, double) { return softplus_at(x); },
     nullptr,
     [](double) {
       return Attrs{{"beta", 1.0}, {"threshold", 20.0}};
     }},
    {"form_mish",
     Op::mish,
     {Op::mul, Op::div},
     [](double x, double) { return x * std::tanh(softplus_at(x)); },
     nullptr,
     nullptr},
    {"form_tanh",
     Op::tanh,
     {Op::div, Op::sub, Op::mul},
     [](double x, double) { return std::tanh(x); },
     nullptr,
     nullptr},
    {"form_abs",
     Op::abs,
     {Op::maximum, Op::sqrt, Op::where, Op::mul},
     [](double x, double) { return std::abs(x); },
     nullptr,
     nullptr},
    {"form_elu",
     Op::elu,
     {Op::where, Op::add, Op::maximum},
     [](double x, double alpha) { return x > 0 ? x : alpha * std::expm1(x); },
     [](const Points& v) { return at(v, -1) / std::expm1(-1); },
     [](double alpha) {
       return Attrs{{"alpha", alpha}, {"scale", 1.0}, {"input_scale", 1.0}};
     }},
    {"form_leaky_relu",
     Op::leaky_relu,
     {Op::where, Op::maximum, Op::add, Op::sub},
     [](double x, double slope) { return x > 0 ? x : slope * x; },
     [](const Points& v) { return -at(v, -1); },
     [](double slope) {
       return Attrs{{"slope", slope}};
     }},
};

size_t points_of(Op op) {
  const bool piecewise =
      op == Op::relu || op == Op::hardsigmoid || op == Op::hardswish || op == Op::abs || op == Op::leaky_relu;
  return piecewise ? kCount : kSmooth;
}

Match form(const Function& f, const Graph& graph, const Node& node) {
  if (std::find(f.last.begin(), f.last.end(), node.op) == f.last.end()) return no_match("ends in another op");
  if (!is_float(graph.dtype(node.output()))) return no_match("not float");
  constexpr size_t kMostStarts = 12;
  std::vector<ValueId> starts;
  collect(graph, node, kMostStarts, &starts);
  for (const ValueId x : starts) {
    if (!(graph.type(x) == graph.type(node.output()))) continue;
    Points got{};
    const auto agrees = [&](size_t n, double number) {
      for (size_t i = 0; i < n; ++i)
        if (!same(got[i], f.value(kPoints[i], number), kPoints[i])) return false;
      return true;
    };
    if (!Formula(graph, x).compute_node(node, f.number ? 2 : kFirst, &got)) continue;
    // Above zero a function with a number has none to find.
    if (f.number ? !same(got[0], f.value(kPoints[0], 1), kPoints[0]) : !agrees(kFirst, 0)) continue;
    if (!Formula(graph, x).compute_node(node, points_of(f.op), &got)) continue;
    const double number = f.number ? f.number(got) : 0;
    // A slope of 1 or 0 is another function.
    if (f.number &&
        (!std::isfinite(number) || number <= 1e-6 || (f.op == Op::leaky_relu && is_close(number, 1))))
      continue;
    if (!agrees(points_of(f.op), number)) continue;
    Patch patch(graph, node);
    patch.replace(node.output(), patch.add(f.op, {x}, f.attrs ? f.attrs(number) : Attrs{}));
    return patch;
  }
  return no_match("another function");
}

template <size_t I>
Match rule(const Graph& graph, const Node& node) {
  return form(kFunctions[I], graph, node);
}
template <size_t... I>
std::array<Rule, sizeof...(I)> make_rules(std::index_sequence<I...>) {
  return {Rule{kFunctions[I].rule, rule<I>}...};
}

}  // namespace

std::span<const Rule> activation_rules() {
  static const auto rules = make_rules(std::make_index_sequence<std::size(kFunctions)>{});
  return rules;
}

}  // namespace sixfold
