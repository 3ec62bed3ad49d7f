// Where ExecuTorch 1.5's own lowering is known to be wrong, ours is not. Others of the list have their tests
// beside the code: epsilons of batch norms (lower_test.cpp), several indices (rewrite/htp_test.cpp).
#include <algorithm>
#include <set>

#include "sixfold/lower/fit.h"
#include "sixfold/lower/lower_test.h"
#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

qnn::GraphSpec spec_of(std::string_view text) {
  auto graph = parse(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  const Status status = prepare_for_htp(*graph, {});
  EXPECT_TRUE(status.ok()) << status.error().message();
  auto spec = lower_island(*graph, choose_forms(*graph), "forward");
  EXPECT_TRUE(spec.ok()) << spec.error().message();
  return std::move(spec).value();
}

const qnn::OpSpec* op_of(const qnn::GraphSpec& spec, std::string_view type) {
  for (const qnn::OpSpec& op : spec.ops)
    if (op.type == type) return &op;
  return nullptr;
}

template <typename T>
std::vector<T> operand(const qnn::GraphSpec& spec, std::string_view type, size_t i) {
  const qnn::OpSpec* op = op_of(spec, type);
  EXPECT_TRUE(op) << qnn::print(spec);
  if (!op) return {T{}};
  return values_of<T>(*qnn::materialize(spec.tensor(op->in[i]).data));
}

TEST(Reference, a_batch_norm_without_bias_still_takes_its_mean_away) {
  const auto spec = spec_of(
      "input %x: f32[1, 1, 2, 2]\nconstant %m: f32[1] = [3.0]\nconstant %v: f32[1] = [4.0]\n"
      "%y = batch_norm(%x, none, none, %m, %v, eps=0.0)\noutput %y");
  EXPECT_FLOAT_EQ(operand<float>(spec, "Batchnorm", 1)[0], 0.5f);
  EXPECT_FLOAT_EQ(operand<float>(spec, "Batchnorm", 2)[0], -1.5f);
}

TEST(Reference, norms_get_the_epsilon_of_the_model) {
  expect_lowered("input %x: f32[1, 2, 3, 3]\n%y = group_norm(%x, groups=2, eps=0.25)\noutput %y",
                 {"GroupNorm(", "epsilon=0.25"});
  expect_lowered("input %x: f32[2, 4]\n%y = layer_norm(%x, axes=1, eps=0.25)\noutput %y",
                 {"LayerNorm(", "epsilon=0.25"});
}

TEST(Reference, a_gain_of_one_is_on_a_grid_that_fits_it) {
  // The grid of the activations, [-100, 100], has steps of 0.78.
  constexpr const char* kWide = " encoding(u8, 0, 255, -1, [0.7843], [128])";
  for (const char* norm : {"layer_norm", "rms_norm"}) {
    const auto spec = spec_of(cat("input %x: f32[2, 4]", kWide, "\n%y = ", norm,
                                  "(%x, axes=1, eps=1e-5) : f32[2, 4]", kWide, "\noutput %y"));
    const qnn::OpSpec* op = op_of(spec, std::string_view(norm) == "rms_norm" ? "RmsNorm" : "LayerNorm");
    ASSERT_TRUE(op);
    const auto& gain = spec.tensor(op->in[1]);
    const auto q = values_of<uint8_t>(*qnn::materialize(gain.data));
    EXPECT_NEAR((q[0] - gain.data.grid.zero_points[0]) * gain.data.grid.scales[0], 1, 1e-3)
        << qnn::print(spec);
  }
}

TEST(Reference, what_an_rms_norm_cuts_off_is_given_back) {
  const auto spec = spec_of(
      "input %x: f32[2, 4] encoding(u8, 0, 255, -1, [0.01], [128])\n"
      "%y = rms_norm(%x, axes=1, eps=1e-5) : f32[2, 4] encoding(u8, 0, 255, -1, [0.02], [128])\noutput %y");
  const qnn::OpSpec* op = op_of(spec, "RmsNorm");
  ASSERT_TRUE(op);
  const auto& offset = spec.tensor(op->in[2]);
  const auto q = values_of<int32_t>(*qnn::materialize(offset.data));
  for (const int32_t v : q) EXPECT_NEAR(v * offset.data.grid.scales[0], 0.01, 1e-6) << qnn::print(spec);
}

TEST(Reference, constants_end_where_their_grid_ends) {
  const auto spec = spec_of(
      "input %x: f32[4] encoding(u8, 0, 255, -1, [0.5], [0])\n"
      "constant %c: f32[4] encoding(u8, 0, 255, -1, [0.5], [10]) = [-100, 0, 100, 1000]\n"
      "%y = mul(%x, %c) : f32[4] encoding(u8, 0, 255, -1, [0.5], [0])\noutput %y");
  EXPECT_EQ(operand<uint8_t>(spec, "ElementWiseMultiply", 1), (std::vector<uint8_t>{0, 10, 210, 255}));
}

TEST(Reference, sixteen_symmetric_bits_keep_what_is_negative) {
  const Tensor data = tensor_of<float>({3}, {-2.0f, 0.0f, 1.0f});
  const Encoding e = fitted(data, DType::i16);
  EXPECT_EQ(e.zero_points[0], 0);
  EXPECT_EQ(e.quant_min, -32767);
  const auto spec = spec_of(
      "input %x: f32[2] encoding(i16, -32768, 32767, -1, [0.5], [0])\n"
      "constant %c: f32[2] encoding(i16, -32768, 32767, -1, [0.5], [0]) = [-3, 4]\n"
      "%y = add(%x, %c) : f32[2] encoding(i16, -32768, 32767, -1, [0.5], [0])\noutput %y");
  EXPECT_NE(qnn::print(spec).find("SFIXED_POINT_16[2] scale 0.5 offset 0"), std::string::npos)
      << qnn::print(spec);
  EXPECT_EQ(operand<int16_t>(spec, "ElementWiseAdd", 1), (std::vector<int16_t>{-6, 8}));
}

TEST(Reference, borders_count_in_a_mean_over_three_axes) {
  for (const char* counts : {"true", "false"})
    expect_lowered(cat("input %x: f32[1, 1, 4, 4, 4]\n%y = avg_pool(%x, kernel=[2, 2, 2], stride=[2, 2, 2], "
                       "padding=[1, 1, 1], ceil_mode=false, count_include_pad=",
                       counts, ", divisor=0)\noutput %y"),
                   {"PoolAvg3d("});
  const auto counted = lowered(
      "input %x: f32[1, 1, 4, 4, 4]\n%y = avg_pool(%x, kernel=[2, 2, 2], stride=[2, 2, 2], padding=[1, 1, "
      "1], "
      "ceil_mode=false, count_include_pad=true, divisor=0)\noutput %y");
  ASSERT_TRUE(counted.ok());
  EXPECT_TRUE(counted->find("count_pad_for_edges=true") != std::string::npos ||
              counted->find("= Pad(") != std::string::npos)
      << *counted;
}

TEST(Reference, a_smallest_number_without_its_axis_is_not_channels_last) {
  for (const char* op : {"amin", "amax"}) {
    const auto text =
        lowered(cat("input %x: f32[1, 3, 4, 5]\n%p = adaptive_avg_pool(%x, size=[2, 5])\n%y = ", op,
                    "(%p, dims=[2], keepdim=false)\noutput %y"));
    ASSERT_TRUE(text.ok()) << text.error().message();
    // [1, 3, 5], not [1, 5, 3]
    EXPECT_NE(text->find("output_y@0: FLOAT_32[1, 3, 5]"), std::string::npos) << *text;
    EXPECT_NE(text->find("axes=[2]"), std::string::npos) << *text;
  }
}

TEST(Reference, every_op_has_a_name_of_its_own) {
  const auto spec = spec_of(
      "input %x: f32[1, 3, 4, 4]\ninput %g: f32[1, 4, 4, 2]\n%y = grid_sampler(%x, %g, mode=\"bilinear\", "
      "padding_mode=\"zeros\", align_corners=false)\noutput %y");
  std::set<std::string> names;
  for (const qnn::OpSpec& op : spec.ops) EXPECT_TRUE(names.insert(op.name).second) << op.name;
}

TEST(Reference, a_permute_that_moves_nothing_is_none) {
  const auto spec = spec_of(
      "input %x: f32[2, 3]\n%1 = permute(%x, dims=[1, 0]) : f32[3, 2]\n%2 = permute(%1, dims=[1, 0]) : "
      "f32[2, 3]\n"
      "%3 = relu(%2) : f32[2, 3]\noutput %3");
  EXPECT_EQ(op_of(spec, "Transpose"), nullptr) << qnn::print(spec);
}

}  // namespace
}  // namespace sixfold
