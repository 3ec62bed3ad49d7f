// Formulas in primitive ops become the op that they spell, and compute what they did.
#include "sixfold/rewrite/recompose.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sixfold/rewrite/rewriter.h"
#include "sixfold/rewrite/run_graph.h"

namespace sixfold {
namespace {

Graph recomposed(const std::string& text, RewriteOptions options = {}) {
  Graph graph = graph_of(text);
  const Status status = Rewriter(graph, std::move(options)).apply(recompose_rules());
  EXPECT_TRUE(status.ok()) << status.error().message();
  return graph;
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const NodeId id : graph.order()) out.emplace_back(to_text(graph.node(id).op));
  return out;
}

// The ops after all rules, and the same numbers as before; with `rule` switched off, other ops.
void expect_ops(const std::string& text, const std::vector<std::string>& ops, const char* rule,
                double size = 4) {
  const Graph before = graph_of(text), after = recomposed(text);
  EXPECT_EQ(ops_of(after), ops) << print(after);
  const auto want = run(before, size), got = run(after, size);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i)
    for (size_t k = 0; k < want[i].size(); ++k)
      ASSERT_NEAR(want[i][k], got[i][k], 2e-5 * (1 + std::abs(want[i][k]))) << k << "\n" << print(after);
  EXPECT_NE(ops_of(recomposed(text, {.disabled = {rule}})), ops) << rule;
}

// One tensor %x of f32[3, 8] and numbers; %y is the result.
std::string of_x(const std::string& body) {
  std::string text = "input %x: f32[3, 8]\n";
  for (const char* number : {"0", "0.5", "1", "2", "3", "6", "0.044715", "0.7978845608", "0.70710678", "0.01",
                             "0.125", "0.0009765625"})
    text += cat("constant %n", number, ": f32[] = [", number, "]\n");
  return text + body + "output %y\n";
}
std::string plain(const char* y, const char* formula, const char* shape = "[3, 8]") {
  return cat("%", y, " = ", formula, " : f32", shape, "\n");
}

TEST(Recompose, a_scaled_sum_is_a_mean) {
  const std::string sum = "%s = sum(%x, dims=[1], keepdim=true) : f32[3, 1]\n";
  expect_ops(of_x(sum + plain("y", "mul(%s, %n0.125)", "[3, 1]")), {"mean"}, "mean_of_sum");
  expect_ops(of_x(sum + plain("y", "mul(%n0.01, %s)", "[3, 1]")), {"mean", "mul"}, "mean_of_sum");
  expect_ops(
      of_x("%s = sum(%x, dims=[1], keepdim=false) : f32[3]\n%r = reshape(%s, shape=[3, 1]) : f32[3, 1]\n" +
           plain("y", "div(%r, %n6, rounding=\"none\")", "[3, 1]")),
      {"mean", "reshape", "mul"}, "mean_of_sum");
  // made larger, it stays
  EXPECT_EQ(ops_of(recomposed(of_x(sum + plain("y", "mul(%s, %n2)", "[3, 1]")))),
            (std::vector<std::string>{"sum", "mul"}));
}

constexpr const char* kGain =
    "constant %g: f32[8] = [1, 2, 0.5, -1, 3, 1, 1, 2]\nconstant %b: f32[8] = [0, 1, 2, 3, 4, 5, 6, 7]\n";

TEST(Recompose, layer_norms) {
  const std::string mean = "%m = mean(%x, dims=[1], keepdim=true) : f32[3, 1]\n";
  const std::string centered = mean + plain("c", "sub(%x, %m)");
  const std::string spread =
      plain("q", "mul(%c, %c)") + "%v = mean(%q, dims=[1], keepdim=true) : f32[3, 1]\n";
  const std::string root = plain("e", "add(%v, %n0.01)", "[3, 1]") + plain("r", "rsqrt(%e)", "[3, 1]");
  // (x - m) r g + b
  expect_ops(kGain + of_x(centered + spread + root + plain("z", "mul(%c, %r)") + plain("w", "mul(%z, %g)") +
                          plain("y", "add(%w, %b)")),
             {"layer_norm"}, "form_norm");
  // gain first, a square by pow, a root and a division
  expect_ops(kGain + of_x(centered + plain("q", "pow(%c, %n2)") +
                          "%v = mean(%q, dims=[1], keepdim=true) : f32[3, 1]\n" +
                          plain("e", "add(%n0.01, %v)", "[3, 1]") + plain("r", "sqrt(%e)", "[3, 1]") +
                          plain("h", "div(%g, %r, rounding=\"none\")") + plain("w", "mul(%h, %c)") +
                          plain("y", "add(%b, %w)")),
             {"layer_norm"}, "fold_norm_gain");
  // the variance of n - 1
  expect_ops(of_x(centered + "%v = var(%x, dims=[1], correction=1, keepdim=true) : f32[3, 1]\n" + root +
                  plain("y", "mul(%r, %c)")),
             {"layer_norm"}, "form_norm");
  // E[x^2] - E[x]^2 of sums without their axes, kept from below zero
  const std::string flat = R"(
%s = sum(%x, dims=[1], keepdim=false) : f32[3]
%m = mul(%s, %n0.125) : f32[3]
%xx = mul(%x, %x) : f32[3, 8]
%ss = sum(%xx, dims=[1], keepdim=false) : f32[3]
%mm = mul(%ss, %n0.125) : f32[3]
%m2 = mul(%m, %m) : f32[3]
%v = sub(%mm, %m2) : f32[3]
%u = maximum(%n0, %v) : f32[3]
%ur = reshape(%u, shape=[3, 1]) : f32[3, 1]
%e = add(%ur, %n0.01) : f32[3, 1]
%q = sqrt(%e) : f32[3, 1]
%i = reciprocal(%q) : f32[3, 1]
%ig = mul(%i, %g) : f32[3, 8]
%mr = reshape(%m, shape=[3, 1]) : f32[3, 1]
%c = sub(%x, %mr) : f32[3, 8]
%w = mul(%c, %ig) : f32[3, 8]
%y = add(%w, %b) : f32[3, 8]
)";
  expect_ops(kGain + of_x(flat), {"layer_norm"}, "fold_norm_bias");
}

TEST(Recompose, norms_along_other_axes_move_them) {
  const std::string text = R"(
input %x: f32[2, 4, 3]
constant %n: f32[] = [0.01]
constant %g: f32[1, 4, 1] = [1, 2, 3, 4]
constant %b: f32[4, 1] = [4, 3, 2, 1]
%m = mean(%x, dims=[1], keepdim=true) : f32[2, 1, 3]
%c = sub(%x, %m) : f32[2, 4, 3]
%q = mul(%c, %c) : f32[2, 4, 3]
%v = mean(%q, dims=[1], keepdim=true) : f32[2, 1, 3]
%e = add(%v, %n) : f32[2, 1, 3]
%r = rsqrt(%e) : f32[2, 1, 3]
%z = mul(%c, %r) : f32[2, 4, 3]
%w = mul(%z, %g) : f32[2, 4, 3]
%y = add(%w, %b) : f32[2, 4, 3]
output %y
)";
  expect_ops(text, {"permute", "layer_norm", "permute"}, "form_norm");
}

TEST(Recompose, rms_norms_and_lengths) {
  const std::string square = plain("q", "mul(%x, %x)");
  expect_ops(kGain + of_x(square + "%v = mean(%q, dims=[1], keepdim=true) : f32[3, 1]\n" +
                          plain("e", "add(%v, %n0.01)", "[3, 1]") + plain("r", "rsqrt(%e)", "[3, 1]") +
                          plain("z", "mul(%x, %r)") + plain("y", "mul(%g, %z)")),
             {"rms_norm"}, "form_norm");
  // the operand is a product itself
  expect_ops(of_x(plain("p", "mul(%x, %n3)") + plain("q", "mul(%p, %p)") +
                  "%v = mean(%q, dims=[1], keepdim=true) : f32[3, 1]\n" + plain("r", "rsqrt(%v)", "[3, 1]") +
                  plain("y", "mul(%p, %r)")),
             {"mul", "rms_norm"}, "form_norm");
  const std::string length =
      square + "%s = sum(%q, dims=[1], keepdim=true) : f32[3, 1]\n%r = sqrt(%s) : f32[3, 1]\n";
  expect_ops(of_x(length + plain("y", "div(%x, %r, rounding=\"none\")")), {"rms_norm"}, "form_norm");
  expect_ops(
      of_x(length +
           "%k = clamp(%r, min=1e-12, max=none) : f32[3, 1]\n%l = expand(%k, shape=[3, 8]) : f32[3, 8]\n" +
           plain("y", "div(%x, %l, rounding=\"none\")")),
      {"rms_norm"}, "form_norm");
}

TEST(Recompose, what_only_looks_like_a_norm_stays) {
  for (const char* body :
       {// another tensor's spread
        "%q = mul(%o, %o) : f32[8, 8]\n%v = mean(%q, dims=[1], keepdim=true) : f32[8, 1]\n%r = rsqrt(%v) : "
        "f32[8, "
        "1]\n%y = mul(%x, %r) : f32[8, 8]\n",
        // met along the other axis
        "%q = mul(%x, %x) : f32[8, 8]\n%v = mean(%q, dims=[1], keepdim=false) : f32[8]\n%r = rsqrt(%v) : "
        "f32[8]\n%y "
        "= mul(%x, %r) : f32[8, 8]\n",
        // divided by the mean of squares itself
        "%q = mul(%x, %x) : f32[8, 8]\n%v = mean(%q, dims=[1], keepdim=true) : f32[8, 1]\n%y = div(%x, %v, "
        "rounding=\"none\") : f32[8, 8]\n",
        // the mean is of another axis than the spread
        "%m = mean(%x, dims=[0], keepdim=true) : f32[1, 8]\n%c = sub(%x, %m) : f32[8, 8]\n%v = var(%x, "
        "dims=[1], "
        "correction=0, keepdim=true) : f32[8, 1]\n%r = rsqrt(%v) : f32[8, 1]\n%y = mul(%c, %r) : f32[8, "
        "8]\n"}) {
    const std::string text = cat("input %x: f32[8, 8]\ninput %o: f32[8, 8]\n", body, "output %y\n");
    EXPECT_EQ(ops_of(recomposed(text)), ops_of(graph_of(text))) << text;
  }
}

TEST(Recompose, softmaxes) {
  const std::string shifted = "%m = amax(%x, dims=[1], keepdim=true) : f32[3, 1]\n" +
                              plain("c", "sub(%x, %m)") + plain("e", "exp(%c)") +
                              "%s = sum(%e, dims=[1], keepdim=true) : f32[3, 1]\n";
  expect_ops(of_x(shifted + plain("y", "div(%e, %s, rounding=\"none\")")), {"softmax"}, "form_softmax");
  expect_ops(of_x(shifted + plain("r", "reciprocal(%s)", "[3, 1]") + plain("y", "mul(%r, %e)")), {"softmax"},
             "form_softmax");
  expect_ops(of_x(shifted + plain("l", "log(%s)", "[3, 1]") + plain("y", "sub(%c, %l)")), {"log_softmax"},
             "form_log_softmax");
  expect_ops(of_x("%s = softmax(%x, dim=1) : f32[3, 8]\n" + plain("y", "log(%s)")), {"log_softmax"},
             "form_log_softmax");
  // summed along one axis, divided along another
  const std::string other =
      "input %x: f32[8, 8]\n%e = exp(%x) : f32[8, 8]\n%s = sum(%e, dims=[1], keepdim=false) : f32[8]\n%y = "
      "div(%e, %s, "
      "rounding=\"none\") : f32[8, 8]\noutput %y\n";
  EXPECT_EQ(ops_of(recomposed(other)), ops_of(graph_of(other)));
}

TEST(Recompose, activations_in_any_spelling) {
  struct Spelled {
    const char *op, *rule;
    std::vector<std::pair<const char*, const char*>> formula;
  };
  const Spelled all[] = {
      {"gelu",
       "form_gelu",
       {{"a", "mul(%x, %n0.70710678)"},
        {"b", "erf(%a)"},
        {"c", "add(%b, %n1)"},
        {"d", "mul(%x, %n0.5)"},
        {"y", "mul(%d, %c)"}}},
      {"gelu",
       "form_gelu",
       {{"r", "rsqrt(%n2)"},
        {"a", "mul(%r, %x)"},
        {"b", "erf(%a)"},
        {"c", "add(%n1, %b)"},
        {"d", "mul(%c, %x)"},
        {"y", "div(%d, %n2, rounding=\"none\")"}}},
      {"gelu",
       "form_gelu_tanh",
       {{"a", "mul(%x, %n0.044715)"},
        {"b", "mul(%x, %a)"},
        {"c", "mul(%x, %b)"},
        {"d", "add(%x, %c)"},
        {"e", "mul(%d, %n0.7978845608)"},
        {"f", "tanh(%e)"},
        {"g", "add(%f, %n1)"},
        {"h", "mul(%g, %n0.5)"},
        {"y", "mul(%x, %h)"}}},
      {"gelu",
       "form_gelu_tanh",
       {{"a", "pow(%x, %n3)"},
        {"b", "mul(%a, %n0.044715)"},
        {"c", "add(%b, %x)"},
        {"d", "mul(%n0.7978845608, %c)"},
        {"e", "tanh(%d)"},
        {"f", "add(%n1, %e)"},
        {"g", "mul(%n0.5, %x)"},
        {"y", "mul(%g, %f)"}}},
      {"silu", "form_silu", {{"a", "sigmoid(%x)"}, {"y", "mul(%a, %x)"}}},
      {"silu",
       "form_silu",
       {{"a", "neg(%x)"}, {"b", "exp(%a)"}, {"c", "add(%b, %n1)"}, {"y", "div(%x, %c, rounding=\"none\")"}}},
      {"sigmoid",
       "form_sigmoid",
       {{"a", "neg(%x)"}, {"b", "exp(%a)"}, {"c", "add(%b, %n1)"}, {"y", "reciprocal(%c)"}}},
      {"hardsigmoid",
       "form_hardsigmoid",
       {{"a", "add(%x, %n3)"}, {"b", "clamp(%a, min=0, max=6)"}, {"y", "div(%b, %n6, rounding=\"none\")"}}},
      {"hardswish",
       "form_hardswish",
       {{"a", "add(%n3, %x)"},
        {"b", "relu(%a)"},
        {"c", "minimum(%b, %n6)"},
        {"d", "mul(%x, %c)"},
        {"y", "div(%d, %n6, rounding=\"none\")"}}},
      {"softplus", "form_softplus", {{"a", "exp(%x)"}, {"y", "log1p(%a)"}}},
      {"softplus", "form_softplus", {{"a", "exp(%x)"}, {"b", "add(%n1, %a)"}, {"y", "log(%b)"}}},
      {"mish", "form_mish", {{"a", "exp(%x)"}, {"b", "log1p(%a)"}, {"c", "tanh(%b)"}, {"y", "mul(%c, %x)"}}},
      {"tanh",
       "form_tanh",
       {{"a", "mul(%x, %n2)"},
        {"b", "exp(%a)"},
        {"c", "sub(%b, %n1)"},
        {"d", "add(%b, %n1)"},
        {"y", "div(%c, %d, rounding=\"none\")"}}},
      {"relu", "form_relu", {{"y", "maximum(%x, %n0)"}}},
      {"abs", "form_abs", {{"a", "neg(%x)"}, {"y", "maximum(%a, %x)"}}},
      {"leaky_relu", "form_leaky_relu", {{"a", "mul(%x, %n0.01)"}, {"y", "maximum(%a, %x)"}}},
  };
  for (const Spelled& s : all) {
    std::string body;
    for (const auto& [name, formula] : s.formula)
      body += plain(name, formula, std::string_view(name) == "r" ? "[]" : "[3, 8]");
    expect_ops(of_x(body), {s.op}, s.rule);
  }
  const std::string elu = "%p = gt(%x, %n0) : bool[3, 8]\n" + plain("a", "expm1(%x)") +
                          plain("b", "mul(%a, %n0.5)") + plain("y", "where(%p, %x, %b)");
  expect_ops(of_x(elu), {"elu"}, "form_elu");
}

TEST(Recompose, functions_that_are_near_stay) {
  // x sigmoid(1.5 x), a gelu of another constant, and bounds that are far away
  for (const char* body :
       {"%y = clamp(%x, min=0, max=64) : f32[3, 8]\n", "%y = clamp(%x, min=0, max=5000) : f32[3, 8]\n",
        "%a = clamp(%x, min=-100, max=100) : f32[3, 8]\n%b = sigmoid(%x) : f32[3, 8]\n%y = mul(%a, %b) : "
        "f32[3, 8]\n",
        "%a = mul(%x, %n2) : f32[3, 8]\n%b = sigmoid(%a) : f32[3, 8]\n%y = mul(%x, %b) : f32[3, 8]\n",
        "%a = mul(%x, %n0.7978845608) : f32[3, 8]\n%b = erf(%a) : f32[3, 8]\n%c = add(%b, %n1) : "
        "f32[3, 8]\n%d = mul(%c, %n0.5) : f32[3, 8]\n%y = mul(%x, %d) : f32[3, 8]\n"})
    EXPECT_EQ(ops_of(recomposed(of_x(body))), ops_of(graph_of(of_x(body)))) << body;
}

TEST(Recompose, batch_norms) {
  const std::string constants = R"(
constant %m: f32[2, 1, 1] = [1, -2]
constant %s: f32[1, 2, 1, 1] = [2, 4]
constant %g: f32[1, 2, 1, 1] = [0.5, 3]
constant %b: f32[2, 1, 1] = [1, 7]
)";
  const std::string steps = R"(
%1 = sub(%x, %m) : f32[1, 2, 3, 3]
%2 = div(%1, %s, rounding="none") : f32[1, 2, 3, 3]
%3 = mul(%g, %2) : f32[1, 2, 3, 3]
%4 = add(%b, %3) : f32[1, 2, 3, 3]
output %4
)";
  expect_ops("input %x: f32[1, 2, 3, 3]\n" + constants + steps, {"batch_norm"}, "form_batch_norm");
  const std::string convolution = R"(
input %i: f32[1, 1, 3, 3]
constant %w: f32[2, 1, 1, 1] = [2, 3]
%x = convolution(%i, %w, stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], groups=1, transposed=false, output_padding=[0, 0], activation="none") : f32[1, 2, 3, 3]
)";
  expect_ops(constants + convolution + steps, {"convolution"}, "form_batch_norm");
}

TEST(Recompose, a_line_before_a_product_is_in_its_weights) {
  const std::string line = R"(
input %x: f32[1, 2, 4, 4]
constant %a: f32[] = [0.5]
constant %b: f32[] = [-0.75]
%h = relu(%x) : f32[1, 2, 4, 4]
%1 = mul(%h, %a) : f32[1, 2, 4, 4]
%2 = add(%1, %b) : f32[1, 2, 4, 4]
)";
  const auto convolution = [](const char* name, const char* x, int pad, const char* extent) {
    return cat(
        "constant %w", name,
        ": f32[1, 2, 3, 3] = [1, 2, 3, 4, 5, 6, 7, 8, 9, -1, 2, -3, 4, -5, 6, -7, 8, -9]\n%", name,
        " = convolution(%", x, ", %w", name, ", stride=[1, 1], padding=[", pad, ", ", pad, "], padding_end=[",
        pad, ", ", pad,
        "], dilation=[1, 1], groups=1, transposed=false, output_padding=[0, 0], activation=\"none\") : f32",
        extent, "\n");
  };
  const char* rule = "fold_line_before";
  expect_ops(line + convolution("y", "2", 0, "[1, 1, 2, 2]") + "output %y\n", {"relu", "convolution"}, rule);
  // Zeros around a * x + b are -b / a around x.
  expect_ops(line + convolution("y", "2", 1, "[1, 1, 4, 4]") + "output %y\n", {"relu", "pad", "convolution"},
             rule);
  // A number alone goes into weights whatever is padded.
  expect_ops(line + convolution("y", "1", 1, "[1, 1, 4, 4]") + "output %y\n", {"relu", "convolution"}, rule);
  expect_ops(line + R"(
constant %w: f32[3, 4] = [1, 2, 3, 4, -5, 6, -7, 8, 0, 1, 0, 2]
constant %c: f32[3] = [1, 0, -2]
%y = linear(%2, %w, %c, activation="none") : f32[1, 2, 4, 3]
output %y
)",
             {"relu", "linear"}, rule);
  // What others read is computed anyway.
  const std::string shared = line + convolution("y", "2", 0, "[1, 1, 2, 2]") + "output %y\noutput %2\n";
  EXPECT_EQ(ops_of(recomposed(shared)), ops_of(graph_of(shared)));
}

TEST(Recompose, a_rounding_that_the_model_asks_for_stays) {
  Graph graph = graph_of(of_x(plain("a", "sigmoid(%x)") + plain("y", "mul(%a, %x)")));
  const ValueId middle = graph.node(graph.order()[0]).output();
  graph.value(middle).encoding =
      Encoding{.storage = DType::u8, .quant_max = 255, .scales = {1 / 256.0f}, .zero_points = {0}};
  ASSERT_TRUE(Rewriter(graph).apply(recompose_rules()).ok());
  EXPECT_EQ(ops_of(graph), (std::vector<std::string>{"sigmoid", "mul"}));
}

TEST(Recompose, numbers_beyond_halves_end_where_halves_end) {
  const Graph graph = recomposed(R"(
input %x: f32[2, 2]
constant %m: f32[2, 2] = [0, -3.4e38, 1e6, 5]
constant %i: f32[] = [-inf]
%1 = mul(%x, %m) : f32[2, 2]
%2 = maximum(%1, %i) : f32[2, 2]
output %2
)");
  const Node& mul = graph.node(graph.order()[0]);
  const Tensor* m = graph.constant(mul.input(1));
  ASSERT_TRUE(m);
  const double want[] = {0, -65504, 65504, 5};
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(element_real(*m, i), want[i]);
  EXPECT_EQ(element_real(*graph.constant(graph.node(graph.order()[1]).input(1)), 0), -INFINITY);
}

// What is zero as a half keeps nothing from zero.
TEST(Recompose, the_least_that_is_added_stays_above_zero) {
  const Graph graph = recomposed(R"(
input %x: f32[2, 2]
constant %e: f32[] = [1e-10]
%1 = add(%x, %e) : f32[2, 2]
%2 = clamp(%1, min=1e-12, max=none) : f32[2, 2]
%3 = maximum(%2, %e) : f32[2, 2]
%4 = mul(%3, %e) : f32[2, 2]
output %4
)");
  ASSERT_EQ(ops_of(graph), (std::vector<std::string>{"add", "clamp", "maximum", "mul"}));
  const std::vector<NodeId> order = graph.order();
  EXPECT_EQ(element_real(*graph.constant(graph.node(order[0]).input(1)), 0), 0x1p-24);
  EXPECT_EQ(graph.node(order[1]).attrs.real("min"), 0x1p-24);
  EXPECT_EQ(element_real(*graph.constant(graph.node(order[2]).input(1)), 0), 0x1p-24);
  EXPECT_EQ(element_real(*graph.constant(graph.node(order[3]).input(1)), 0), 1e-10f);  // a factor
}

}  // namespace
}  // namespace sixfold
