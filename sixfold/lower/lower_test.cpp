#include "sixfold/lower/lower_test.h"

#include "sixfold/lower/fit.h"
#include "sixfold/lower/merge_axes.h"
#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

constexpr const char* kU8 = " encoding(u8, 0, 255, -1, [0.5], [3])";

TEST(Lower, an_operand_of_lower_rank_gets_all_axes) {
  expect_lowered("input %x: f32[1, 2, 3, 4]\ninput %z: f32[3, 4]\n%y = add(%x, %z)\noutput %y",
                 {"FLOAT_32[1, 1, 3, 4] = Reshape(input_1_z@0)", "ElementWiseAdd("});
}

TEST(Lower, comparisons_of_bools_are_logic) {
  expect_lowered("input %x: bool[4]\ninput %z: bool[4]\n%y = lt(%x, %z)\noutput %y",
                 {"= ElementWiseNot(input_0_x@0)", "= ElementWiseAnd("});
}

TEST(Lower, sixty_four_bits_are_thirty_two_inside) {
  expect_lowered("input %x: i64[4]\n%y = neg(%x)\noutput %y",
                 {"input input_0_x@0 INT_64[4]", "INT_32[4] = Cast(", "ElementWiseSubtract(",
                  "output output_y@nchw_i64 INT_64[4]"});
}

TEST(Lower, outputs_are_in_the_order_of_the_signature) {
  expect_lowered("input %x: f32[4]\n%a = abs(%x)\n%b = neg(%x)\noutput %b\noutput %a",
                 {"  output output_b@0 FLOAT_32[4]\n  output output_a@0 FLOAT_32[4]\n"});
}

TEST(Lower, a_float_is_cut_before_it_becomes_an_int64) {
  expect_lowered("input %x: f32[4]\n%y = to(%x, dtype=i64)\noutput %y", {"ElementWiseFloor(", "Cast("});
}

TEST(Lower, bitwise_operations_of_integers_stay_on_the_cpu) {
  expect_refused("input %x: i64[4]\ninput %z: i64[4]\n%y = shift_left(%x, %z)\noutput %y",
                 "QNN has no op for shift_left");
}

TEST(Lower, a_padded_maximum_is_padded_with_the_lowest_number) {
  constexpr const char* kPool =
      "max_pool(%x, kernel=[3, 3], stride=[2, 2], padding=[1, 1], dilation=[1, 1], ceil_mode=false)";
  expect_lowered(cat("input %x: f32[1, 1, 5, 5]\n%y, %i = ", kPool, "\noutput %y"),
                 {"= Pad(", "pad_constant_value=-65504", "PoolMax2d(", "pad_amount=[0, 0, 0, 0]"});
  expect_lowered(cat("input %x: f32[1, 1, 5, 5]", kU8, "\n%y, %i = ", kPool, " : f32[1, 1, 3, 3]", kU8,
                     ", i64[1, 1, 3, 3]\noutput %y"),
                 {"= Pad(", "pad_constant_value=-1.5"});
  expect_refused(cat("input %x: f32[1, 1, 5, 5]\n%y, %i = ", kPool, "\noutput %y\noutput %i"),
                 "[htp.pool.2]");
}

TEST(Lower, a_border_that_the_device_would_leave_out_is_joined) {
  const auto padded = [](const char* shape, const char* before, const char* after) {
    return cat("input %x: f32", shape, "\n%y = pad(%x, before=", before, ", after=", after,
               ", mode=\"constant\", value=1.0)\noutput %y");
  };
  expect_lowered(padded("[3, 16]", "[0, 0]", "[0, 1]"), {"Concat(", "FLOAT_32[1, 1, 3, 1]"});
  expect_lowered(padded("[3, 16]", "[1, 0]", "[0, 16]"),
                 {"FLOAT_32[4, 16] = Pad(", "Concat(", "FLOAT_32[1, 1, 4, 16]"});
  for (const char* after : {"[0, 17]", "[1, 0]"}) {
    const Result<std::string> printed = lowered(padded("[3, 16]", "[0, 0]", after));
    ASSERT_TRUE(printed.ok()) << printed.error().message();
    EXPECT_EQ(printed->find("Concat("), std::string::npos) << *printed;
  }
}

TEST(Lower, a_divisor_of_its_own_is_a_factor_after_the_pool) {
  expect_lowered(
      "input %x: f32[1, 1, 4, 4]\n%y = avg_pool(%x, kernel=[2, 2], stride=[2, 2], padding=[0, 0], "
      "ceil_mode=false, count_include_pad=true, divisor=3)\noutput %y",
      {"PoolAvg2d(", "ElementWiseMultiply("});
}

TEST(Lower, a_mean_on_a_grid_is_kept_from_being_cut_between_its_parts) {
  const auto mean = [](const char* in, const char* window, const char* pads, const char* out) {
    return cat("input %x: f32[1, 4, ", in, "]", kU8, "\n%y = avg_pool(%x, kernel=[", window, "], stride=[",
               window, "], padding=[", pads,
               "], ceil_mode=false, count_include_pad=true, divisor=0) : f32[1, 4, ", out, "]", kU8,
               "\noutput %y");
  };
  expect_lowered(mean("16, 16", "4, 4", "0, 0", "4, 4"), {"PoolAvg2d(", "pad_amount=[0, 1, 0, 0]"});
  expect_lowered(mean("14, 16", "4, 4", "1, 0", "4, 4"),
                 {"DepthWiseConv2d(", "pad_amount=[1, 1, 0, 0]"});  // [htp.pool.3]
  expect_lowered(mean("17, 16", "4, 4", "0, 0", "4, 4"), {"PoolAvg2d(", "pad_amount=[0, 0, 0, 0]"});
  expect_lowered(mean("8, 8, 8", "4, 4, 4", "0, 0, 0", "2, 2, 2"),
                 {"PoolAvg3d(", "count_pad_for_edges=false"});
  expect_lowered(mean("8, 8, 8", "1, 4, 4", "0, 0, 0", "8, 2, 2"), {"Reshape(", "PoolAvg2d("});
}

TEST(Lower, batch_norm_uses_its_own_epsilon) {
  auto graph = parse(
      "input %x: f32[1, 1, 2, 2]\nconstant %w: f32[1] = [2.0]\nconstant %b: f32[1] = [1.0]\n"
      "constant %v: f32[1] = [3.0]\n%y = batch_norm(%x, %w, %b, %b, %v, eps=1.0)\noutput %y");
  ASSERT_TRUE(graph.ok());
  auto spec = lower_island(*graph, choose_forms(*graph), "forward");
  ASSERT_TRUE(spec.ok()) << spec.error().message();
  for (const qnn::OpSpec& op : spec->ops) {
    if (std::string_view(op.type) != "Batchnorm") continue;
    // 2 / sqrt(3 + 1) = 1; 1 - 1 * 1 = 0
    EXPECT_FLOAT_EQ(values_of<float>(*qnn::materialize(spec->tensor(op.in[1]).data))[0], 1);
    EXPECT_FLOAT_EQ(values_of<float>(*qnn::materialize(spec->tensor(op.in[2]).data))[0], 0);
    return;
  }
  FAIL() << qnn::print(*spec);
}

TEST(Lower, softmax_along_a_middle_axis_is_moved) {
  expect_lowered("input %x: f32[2, 3, 4, 5]\n%y = softmax(%x, dim=2)\noutput %y",
                 {"Transpose(", "Softmax(", "axis=3"});
}

TEST(Lower, a_constant_without_encoding_gets_one_that_fits) {
  expect_lowered(cat("input %x: f32[2]", kU8,
                     "\nconstant %c: f32[2] = [0.0, 2.55]\n%y = mul(%x, %c) : f32[2]", kU8, "\noutput %y"),
                 {"UFIXED_POINT_8[2] scale 0.01 offset 0"});
}

TEST(Lower, five_axes_of_a_function_of_four_are_merged) {
  expect_lowered("input %x: f32[2, 3, 2, 4, 5]\n%y = tanh(%x)\noutput %y",
                 {"FLOAT_32[6, 2, 4, 5] = Reshape(", "Tanh("});
}

TEST(Lower, batches_of_five_axes_are_merged) {
  expect_lowered("input %a: f32[2, 3, 2, 4, 5]\ninput %b: f32[5, 6]\n%y = matmul(%a, %b)\noutput %y",
                 {"FLOAT_32[12, 4, 5]", "MatMul("});
}

// The library leaves out the bias of a product in fixed point: [htp.linear.1].
TEST(Lower, a_computed_weight_on_a_grid_is_a_layers) {
  const auto linear = [](const char* encoding) {
    return cat(
        "input %x: f32[2, 4]", encoding, "\ninput %w: f32[3, 4]", encoding,
        "\nconstant %b: f32[3] = [0.0, 2.5, -1.0]\n%y = linear(%x, %w, %b, activation=\"none\") : f32[2, 3]",
        encoding, "\noutput %y");
  };
  expect_lowered(linear(kU8), {"FullyConnected("});
  expect_lowered(linear(""), {"MatMul("});
}

TEST(Lower, random_numbers_are_drawn_by_the_device_where_its_steps_are_enough) {
  expect_lowered("%r = randn(shape=[2, 3], dtype=f32, seed=1) : f32[2, 3]\noutput %r",
                 {"FLOAT_16[2, 3] = RandomNormalLike(", "Cast("});
  expect_lowered(cat("%r = rand(shape=[2, 3], dtype=f32, seed=1) : f32[2, 3]", kU8, "\noutput %r"),
                 {"= RandomUniformLike(", "low=0; high=1"});
  expect_refused("%r = rand(shape=[2, 3], dtype=f32, seed=1) : f32[2, 3]\noutput %r", "[htp.rand.1]");
}

TEST(MergeAxes, joins_neighbours_that_broadcast_alike) {
  const MergedAxes m = merge_axes({{2, 3, 4, 5}, {4, 5}, {1}}, {2, 3, 4, 5});
  EXPECT_EQ(m.result, (std::vector<uint32_t>{6, 20}));
  EXPECT_EQ(m.operands[0], (std::vector<uint32_t>{6, 20}));
  EXPECT_EQ(m.operands[1], (std::vector<uint32_t>{1, 20}));
  EXPECT_EQ(m.operands[2], (std::vector<uint32_t>{1, 1}));
}

TEST(Fitted, zero_is_always_on_the_grid) {
  const Encoding e = fitted(tensor_of<float>({2}, {1.0f, 3.0f}), DType::u8);
  EXPECT_EQ(e.zero_points[0], 0);
  EXPECT_FLOAT_EQ(e.scales[0], 3.0f / 255);
  const Encoding s = fitted(tensor_of<float>({2}, {-4.0f, 3.0f}), DType::i8);
  EXPECT_EQ(s.quant_min, -127);
  EXPECT_FLOAT_EQ(s.scales[0], 4.0f / 127);
}

}  // namespace
}  // namespace sixfold
