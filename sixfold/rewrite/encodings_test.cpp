#include "sixfold/rewrite/encodings.h"

#include <gtest/gtest.h>

#include "sixfold/lower/lowering.h"

namespace sixfold {
namespace {

Graph folded(const std::string& text) {
  auto graph = parse(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  Status status = fold_quantization(*graph);
  EXPECT_TRUE(status.ok()) << status.error().message();
  status = settle_encodings(*graph);
  EXPECT_TRUE(status.ok()) << status.error().message();
  return std::move(graph).value();
}
std::string lowered(const Graph& graph) {
  auto spec = lower_island(graph, choose_forms(graph), "g");
  EXPECT_TRUE(spec.ok()) << spec.error().message() << "\n" << print(graph);
  return spec.ok() ? qnn::print(*spec) : "";
}
size_t count(const std::string& text, std::string_view word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

constexpr const char* kGrids = R"(
constant %s: f64[] = [0.5]
constant %z: i32[] = [3]
constant %s2: f64[] = [0.25]
constant %z2: i32[] = [0]
)";
std::string pair(const char* x, const char* q, const char* y, const char* scale, const char* zero,
                 const char* shape) {
  const std::string rest =
      cat(", ", scale, ", ", zero, ", block=", shape, ", quant_min=0, quant_max=255, dtype=");
  return cat(q, " = quantize(", x, rest, "u8) : u8", shape, "\n", y, " = dequantize(", q, rest, "f32) : f32",
             shape, "\n");
}

TEST(Encodings, a_pair_is_an_encoding_of_the_value_before_it) {
  const Graph g =
      folded(cat("input %x: f32[4]", kGrids, pair("%x", "%1", "%2", "%s", "%z", "[4]"),
                 "%3 = relu(%2) : f32[4]\n", pair("%3", "%4", "%5", "%s2", "%z2", "[4]"), "output %5\n"));
  ASSERT_EQ(g.node_count(), 1u);
  const Node& relu = g.node(g.first());
  EXPECT_EQ(g.value(relu.input(0)).encoding->zero_points, (std::vector<int32_t>{3}));
  EXPECT_EQ(g.value(relu.output()).encoding->scales, (std::vector<float>{0.25f}));
  const std::string text = lowered(g);
  EXPECT_NE(text.find("UFIXED_POINT_8[4] scale 0.5 offset -3"), std::string::npos) << text;
  EXPECT_NE(text.find("Quantize"), std::string::npos) << text;
  EXPECT_NE(text.find("Dequantize"), std::string::npos) << text;
}

TEST(Encodings, another_grid_for_a_consumer_is_a_convert) {
  const Graph g = folded(cat("input %x: f32[4]", kGrids, pair("%x", "%1", "%2", "%s", "%z", "[4]"),
                             pair("%2", "%3", "%4", "%s2", "%z2", "[4]"), "%5 = relu(%4) : f32[4]\n",
                             pair("%5", "%6", "%7", "%s2", "%z2", "[4]"), "output %7\n"));
  EXPECT_EQ(count(print(g), "convert("), 1u) << print(g);
  EXPECT_EQ(count(lowered(g), "= Convert("), 1u);
}

TEST(Encodings, a_value_that_somebody_reads_unquantized_stays_real) {
  const Graph g = folded(cat("input %x: f32[4]", kGrids, "%0 = neg(%x) : f32[4]\n",
                             pair("%0", "%1", "%2", "%s", "%z", "[4]"),
                             "%3 = relu(%2) : f32[4]\noutput %3\noutput %0\n"));
  for (const NodeId id : g.order())
    if (g.node(id).op == Op::neg) {
      EXPECT_FALSE(g.value(g.node(id).output()).encoding) << print(g);
    }
}

TEST(Encodings, moved_data_keeps_its_grid) {
  const Graph g = folded(cat("input %x: f32[4]", kGrids, pair("%x", "%1", "%2", "%s", "%z", "[4]"),
                             "%3 = reshape(%2, shape=[2, 2]) : f32[2, 2]\n",
                             pair("%3", "%4", "%5", "%s2", "%z2", "[2, 2]"), "output %5\n"));
  const std::string text = lowered(g);
  EXPECT_NE(text.find("UFIXED_POINT_8[2, 2] scale 0.5 offset -3 = Reshape"), std::string::npos) << text;
  EXPECT_NE(text.find("UFIXED_POINT_8[2, 2] scale 0.25 offset 0 = Convert"), std::string::npos) << text;
}

TEST(Encodings, integers_at_the_edges_stay_integers) {
  const std::string rest = ", block=[4], quant_min=0, quant_max=255, dtype=";
  const Graph g =
      folded(cat("input %x: u8[4]", kGrids, "%1 = dequantize(%x, %s, %z", rest, "f32) : f32[4]\n",
                 "%2 = relu(%1) : f32[4]\n%3 = quantize(%2, %s2, %z2", rest, "u8) : u8[4]\noutput %3\n"));
  const std::string text = lowered(g);
  EXPECT_NE(text.find("input input_0_x@0 UFIXED_POINT_8[4] scale 0.5 offset -3"), std::string::npos) << text;
  EXPECT_EQ(text.find("FLOAT_32"), std::string::npos) << text;
}

TEST(Encodings, blocks_of_a_weight_are_two_levels_of_scales) {
  const Graph g = folded(R"(
input %x: f32[1, 4]
constant %s: f64[] = [0.5]
constant %z: i32[] = [3]
constant %w: i8[2, 4] = [1, 2, 3, 4, -1, -2, -3, -4]
constant %ws: f32[2, 2] = [0.16, 0.08, 0.32, 0.32]
%0 = quantize(%x, %s, %z, block=[1, 4], quant_min=0, quant_max=65535, dtype=i32) : i32[1, 4]
%1 = dequantize(%0, %s, %z, block=[1, 4], quant_min=0, quant_max=65535, dtype=f32) : f32[1, 4]
%2 = dequantize(%w, %ws, block=[1, 2], quant_min=-7, quant_max=7, dtype=f32) : f32[2, 4]
%3 = linear(%1, %2, activation="none") : f32[1, 2]
%4 = quantize(%3, %s, %z, block=[1, 2], quant_min=0, quant_max=65535, dtype=i32) : i32[1, 2]
%5 = dequantize(%4, %s, %z, block=[1, 2], quant_min=0, quant_max=65535, dtype=f32) : f32[1, 2]
output %5
)");
  const std::string text = lowered(g);
  EXPECT_NE(text.find("axis 3 2 blocks 2 scales from 0.01"), std::string::npos) << text;
  EXPECT_NE(text.find("UFIXED_POINT_16"), std::string::npos) << text;
  EXPECT_EQ(text.find("FullyConnected"), std::string::npos) << text;
}

// The device multiplies integers with halves, not with floats.
TEST(Encodings, a_weight_of_integers_is_multiplied_with_halves) {
  const Graph g = folded(R"(
input %x: f32[1, 2]
constant %w: i8[2, 2] = [1, 2, 3, 4]
constant %ws: f32[2] = [0.5, 0.25]
%2 = dequantize(%w, %ws, block=[1, 2], quant_min=-127, quant_max=127, dtype=f32) : f32[2, 2]
%3 = linear(%x, %2, activation="none") : f32[1, 2]
output %3
)");
  const std::string text = lowered(g);
  EXPECT_NE(text.find("FLOAT_16[1, 2] = FullyConnected("), std::string::npos) << text;
  EXPECT_NE(text.find("SFIXED_POINT_8[2, 2] axis 0"), std::string::npos) << text;
  EXPECT_NE(text.find("FLOAT_32[1, 2] = Cast("), std::string::npos) << text;
}

TEST(Encodings, a_weight_of_integers_beside_halves_is_read_as_numbers) {
  const Graph g =
      folded(cat("input %x: f16[2, 2]", kGrids, "constant %w: i8[2, 2] = [1, -2, 3, -4]\n",
                 "%3 = dequantize(%w, %s2, %z2, block=[2, 2], quant_min=-127, quant_max=127, dtype=f16) "
                 ": f16[2, 2]\n%4 = linear(%x, %3, activation=\"none\") : f16[2, 2]\noutput %4\n"));
  const auto spec = lower_island(g, choose_forms(g), "g");
  ASSERT_TRUE(spec.ok()) << spec.error().message();
  size_t found = 0;
  for (const qnn::TensorSpec& t : spec->tensors) {
    if (t.kind != qnn::TensorKind::constant) continue;
    ++found;
    EXPECT_EQ(t.dtype, qnn::DataType::f16);
    EXPECT_EQ(element_real(t.data.source, 3), -4 * 0.25);
  }
  EXPECT_EQ(found, 1u);
}

TEST(Encodings, an_operand_that_is_left_out_is_no_value) {
  const Graph g = folded(R"(
input %x: f32[1, 4]
%1 = rms_norm(%x, none, axes=1, eps=0.001) : f32[1, 4]
output %1
)");
  EXPECT_NE(lowered(g).find("RmsNorm"), std::string::npos);
}

TEST(Encodings, a_bound_where_the_grid_ends_is_no_op) {
  // Zero is 0 on the grid of scale 0.25, and 3 on the one of scale 0.5: only there a relu cuts something off.
  for (const bool idle : {true, false}) {
    const char *scale = idle ? "%s2" : "%s", *zero = idle ? "%z2" : "%z";
    const Graph g =
        folded(cat("input %x: f32[4]", kGrids, pair("%x", "%q", "%a", scale, zero, "[4]"),
                   "%n = abs(%a) : f32[4]\n", pair("%n", "%nq", "%b", scale, zero, "[4]"),
                   "%r = relu(%b) : f32[4]\n", pair("%r", "%rq", "%y", scale, zero, "[4]"), "output %y\n"));
    EXPECT_EQ(count(lowered(g), "Relu"), idle ? 0u : 1u) << print(g);
  }
}

std::string signed_pair(const char* x, const char* q, const char* y, const char* shape) {
  const std::string rest = cat(", %s, %z, block=", shape, ", quant_min=-128, quant_max=127, dtype=");
  return cat(q, " = quantize(", x, rest, "i8) : i8", shape, "\n", y, " = dequantize(", q, rest, "f32) : f32",
             shape, "\n");
}

TEST(Encodings, signed_bytes_are_counted_from_zero_and_weights_are_not) {
  auto graph =
      parse(cat("input %x: f32[2, 2]", kGrids, "constant %w: i8[2, 2] = [1, -2, 3, -4]\n",
                "constant %c: i8[2] = [-128, 3]\n", signed_pair("%x", "%1", "%2", "[2, 2]"),
                "%3 = dequantize(%w, %s2, %z2, block=[2, 2], quant_min=-127, quant_max=127, dtype=f32) : "
                "f32[2, 2]\n%4 = linear(%2, %3) : f32[2, 2]\n%5 = relu(%4) : f32[2, 2]\n",
                signed_pair("%5", "%6", "%7", "[2, 2]"),
                "%8 = dequantize(%c, %s, %z, block=[2], quant_min=-128, quant_max=127, dtype=f32) : "
                "f32[2]\n%9 = add(%7, %8) : f32[2, 2]\n",
                signed_pair("%9", "%10", "%11", "[2, 2]"), "output %11\n"));
  ASSERT_TRUE(graph.ok()) << graph.error().message();
  ASSERT_TRUE(fold_quantization(*graph).ok());
  share_grid_of_bounds(*graph);
  count_from_zero(*graph);
  ASSERT_TRUE(verify(*graph).ok());
  const Graph& g = *graph;
  for (const NodeId id : g.order()) {
    const Node& node = g.node(id);
    if (node.op == Op::dequantize) {
      EXPECT_EQ(g.value(node.output()).encoding->quant_min, -127);
      continue;
    }
    const auto& e = g.value(node.output()).encoding;
    ASSERT_TRUE(e) << print(g);  // the linear layer has that of its relu
    EXPECT_EQ(e->quant_min, 0);
    EXPECT_EQ(e->quant_max, 255);
    EXPECT_EQ(e->zero_points, (std::vector<int32_t>{131}));
    if (node.op == Op::add) {
      ASSERT_TRUE(g.constant(node.input(1)));
      EXPECT_EQ(element_real(*g.constant(node.input(1)), 0), (-128 - 3) * 0.5);
      EXPECT_EQ(g.value(node.input(1)).encoding->zero_points, (std::vector<int32_t>{131}));
    }
  }
}

}  // namespace
}  // namespace sixfold
