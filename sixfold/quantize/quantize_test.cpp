#include <gtest/gtest.h>

#include <cmath>

#include "sixfold/graph/precision.h"
#include "sixfold/quantize/testing.h"
#include "sixfold/quantize/weights.h"

namespace sixfold {
namespace {

Encoding encoding_of_value(const Graph& graph, std::string_view name) {
  const ValueId v = named(graph, name);
  EXPECT_TRUE(v.valid() && graph.value(v).encoding) << name;
  return v.valid() && graph.value(v).encoding ? *graph.value(v).encoding : Encoding();
}

QuantizeReport quantized(Graph& graph, const QuantizeOptions& options, const Observations& seen) {
  const auto plan = annotate(graph, options);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message());
  if (!plan.ok()) return {};
  auto report = quantize(graph, *plan, seen);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message());
  return report.ok() ? std::move(report).value() : QuantizeReport();
}

TEST(Quantize, what_a_relu_cuts_off_has_no_place_before_it) {
  Graph graph = graph_of(R"(
input %x: f32[1, 4]
constant %w: f32[2, 4] = [1, 2, 3, 4, 5, 6, 7, 12.7]
%y = linear(%x, %w, activation="none") : f32[1, 2]
%z = relu(%y) : f32[1, 2]
output %z
)");
  Observations seen = seen_all(graph, -1, 1);
  seen.values[named(graph, "y").index].min = -100;
  seen.values[named(graph, "z").index].min = 0;
  seen.values[named(graph, "z").index].max = 2.55f;
  quantized(graph, {}, seen);
  EXPECT_EQ(encoding_of_value(graph, "y"), encoding_of_value(graph, "z"));
  EXPECT_FLOAT_EQ(encoding_of_value(graph, "z").scales[0], 0.01f);
  EXPECT_EQ(encoding_of_value(graph, "z").zero_points[0], 0);
  const Encoding w = encoding_of_value(graph, "w");
  EXPECT_EQ(w.axis, 0);
  EXPECT_FLOAT_EQ(w.scales[0], 4 / 127.0f);
  EXPECT_FLOAT_EQ(w.scales[1], 0.1f);
}

TEST(Quantize, parts_of_a_concat_share_one_grid_and_moves_keep_theirs) {
  Graph graph = graph_of(R"(
input %x: f32[1, 4]
input %y: f32[1, 4]
%a = reshape(%x, shape=[1, 4, 1]) : f32[1, 4, 1]
%b = reshape(%y, shape=[1, 4, 1]) : f32[1, 4, 1]
%c = concat(%a, %b, dim=1) : f32[1, 8, 1]
output %c
)");
  Observations seen = seen_all(graph, -1, 1);
  seen.values[named(graph, "y").index].max = 3;
  const QuantizeReport report = quantized(graph, {}, seen);
  EXPECT_TRUE(report.converts.empty());
  for (const char* name : {"x", "y", "a", "b", "c"})
    EXPECT_FLOAT_EQ(encoding_of_value(graph, name).scales[0], 4 / 255.0f) << name;
}

TEST(Quantize, layers_that_share_a_weight_share_its_encoding_with_room_for_all_biases) {
  Graph graph = graph_of(R"(
input %x: f32[1, 2]
input %y: f32[1, 2]
constant %w: f32[2, 2] = [1, 1.27, 0, 0]
constant %b: f32[2] = [0, 3000]
%p = linear(%x, %w, %b, activation="none") : f32[1, 2]
%q = linear(%y, %w, %b, activation="none") : f32[1, 2]
%s = add(%p, %q) : f32[1, 2]
output %s
)");
  Observations seen = seen_all(graph, -1, 1);
  seen.values[named(graph, "y").index].max = 0.001f;
  seen.values[named(graph, "y").index].min = 0;
  quantized(graph, {}, seen);
  const Encoding w = encoding_of_value(graph, "w"), y = encoding_of_value(graph, "y");
  EXPECT_EQ(graph.value(named(graph, "w")).users.size(), 2u);
  EXPECT_FLOAT_EQ(w.scales[0], 0.01f);
  EXPECT_GT(w.scales[1] * y.scales[0] * 2147483647.0, 3000);
}

TEST(Quantize, a_sigmoid_lies_on_its_own_grid_and_is_converted_into_a_concat) {
  Graph graph = graph_of(R"(
input %x: f32[1, 4]
%a = sigmoid(%x) : f32[1, 4]
%c = concat(%a, %x, dim=1) : f32[1, 8]
output %c
)");
  const QuantizeReport report = quantized(graph, {}, seen_all(graph, -4, 4));
  EXPECT_FLOAT_EQ(encoding_of_value(graph, "a").scales[0], 1 / 256.0f);
  EXPECT_EQ(report.converts.size(), 1u);
  EXPECT_EQ(encoding_of_value(graph, "a_convert"), encoding_of_value(graph, "c"));
}

TEST(Quantize, a_nameless_value_that_is_converted_is_told_by_its_op) {
  Graph graph = graph_of(R"(
input %x: f32[1, 4]
%a = sigmoid(%x) : f32[1, 4]
%c = concat(%a, %x, dim=1) : f32[1, 8]
output %c
)");
  const NodeId sigmoid = graph.first();
  graph.value(graph.node(sigmoid).output()).name.clear();
  const QuantizeReport report = quantized(graph, {}, seen_all(graph, -4, 4));
  const std::string who = graph.origin(graph.node(sigmoid)).name;
  ASSERT_EQ(report.converts.size(), 1u);
  EXPECT_NE(report.converts[0].find(cat(" reads ", who, ".sigmoid: u8 to u8")), std::string::npos)
      << report.converts[0];
}

TEST(Quantize, what_has_16_bits_keeps_all_and_an_8_bit_reader_takes_what_is_worth_it) {
  Graph graph = graph_of(R"(
input %x: f32[1, 4]
%y = exp(%x) : f32[1, 4]
%z = exp(%y) : f32[1, 4]
output %z
)");
  Observations seen = seen_all(graph, 0, 100);  // of which few elements are above 10
  Observation& y = seen.values[named(graph, "y").index];
  y.low = 0;
  y.high = 100;
  y.histogram.assign(1000, 0.0);
  for (size_t i = 0; i < 100; ++i) y.histogram[i] = 1e6;
  y.histogram[999] = 1;
  QuantizeOptions options;
  options.ranges.observer = Observer::percentile;
  options.wide.insert(graph.value(named(graph, "y")).producer.index);
  quantized(graph, options, seen);
  const Encoding wide = encoding_of_value(graph, "y"), read = encoding_of_value(graph, "y_convert");
  EXPECT_EQ(wide.quant_max, 65535);
  EXPECT_NEAR(wide.scales[0] * 65535, 150, 1);  // with room for half as much again
  EXPECT_EQ(read.quant_max, 255);
  EXPECT_NEAR(read.scales[0] * 255, 10, 0.2);
}

TEST(Quantize, the_second_operand_of_a_product_is_symmetric_in_16_bits) {
  const std::string_view text = R"(
input %x: f32[1, 4]
input %y: f32[4, 4]
%c = matmul(%x, %y) : f32[1, 4]
output %c
)";
  Graph graph = graph_of(text);
  const QuantizeOptions options{.scheme = {16, 8, false}};
  EXPECT_EQ(quantized(graph, options, seen_all(graph, -1, 3)).converts.size(), 1u);
  const Encoding e = encoding_of_value(graph, "y_convert");
  EXPECT_EQ(e.storage, DType::i16);
  EXPECT_EQ(e.zero_points[0], 0);
  // Older chips have it in 8 bits, and that is told.
  Graph old = graph_of(text);
  QuantizeOptions v69 = options;
  v69.arch = 69;
  const auto plan = annotate(old, v69);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->violations.size(), 1u);
}

Result<QuantizePlan> with_recipe(std::string_view json) {
  Graph graph = graph_of(R"(
input %x: f32[1, 4]
%a = abs(%x) : f32[1, 4]
%b = neg(%a) : f32[1, 4]
output %b
)");
  QuantizeOptions options;
  SF_ASSIGN(options.recipe, Recipe::parse(json));
  return annotate(graph, options);
}

TEST(Recipe, chooses_other_bits_and_floats_by_op) {
  const auto wide = with_recipe(R"({"rules": [{"op": "neg", "precision": "16a8w"}]})");
  ASSERT_TRUE(wide.ok()) << wide.error().message();
  ASSERT_EQ(wide->operands.size(), 1u);  // 8 to 16 bits
  EXPECT_EQ(wide->operands[0].bits, 16);
  const auto real = with_recipe(R"({"rules": [{"op": "neg", "precision": "fp16"}]})");
  ASSERT_TRUE(real.ok());
  EXPECT_EQ(real->in_float.size(), 1u);
}

TEST(Recipe, that_names_nothing_or_contradicts_itself_is_an_error) {
  for (const auto& [json, part] : {
           std::pair(R"({"rules": [{"op": "conv9", "precision": "16a8w"}]})", "does not have: op conv9"),
           std::pair(
               R"({"rules": [{"op": "neg", "precision": "8a8w"}, {"op": "neg", "precision": "16a8w"}]})",
               "contradicts itself"),
           std::pair(R"({"rules": [{"op": "neg", "precision": "7a7w"}]})", "expected one of 8a8w"),
           std::pair(R"({"rules": [{"op": "neg"}]})", "changes nothing"),
           std::pair(R"({"rules": [{"op": "neg", "node": "x", "precision": "8a8w"}]})", "expected one"),
           std::pair(R"({"rules": [{"match": "(", "precision": "8a8w"}]})", "no regular expression"),
           std::pair(R"({"rules": [{"op": "neg", "observer": "best"}]})", "expected min-max"),
           std::pair(R"([1])", "no JSON object"),
       }) {
    const auto plan = with_recipe(json);
    ASSERT_FALSE(plan.ok()) << json;
    EXPECT_NE(plan.error().message().find(part), std::string::npos) << plan.error().message();
  }
}

TEST(Weights, blocks_have_scales_of_sixteenths) {
  std::byte* bytes = nullptr;
  const Tensor w = Tensor::allocate(DType::f32, {2, 8}, &bytes);
  auto* x = reinterpret_cast<float*>(bytes);
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i + 1) / 16;
  const Encoding e = block_encoding(w, 0, 4, 4);
  ASSERT_EQ(e.scales.size(), 4u);
  EXPECT_EQ(e.zero_points.size(), 2u);
  for (size_t i = 0; i < 4; ++i) {
    const float unit = std::max(x[i < 2 ? 7 : 15], 0.0f) / 7.5f / 16;
    const float k = e.scales[i] / unit;
    EXPECT_NEAR(k, std::nearbyint(k), 1e-3f);
    EXPECT_LE(k, 16.001f);
  }
}

}  // namespace
}  // namespace sixfold
