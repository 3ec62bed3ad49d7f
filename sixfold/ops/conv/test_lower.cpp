#include "sixfold/lower/lower_test.h"

namespace sixfold {
namespace {

std::string conv(const char* x, const char* w, const char* attrs, const char* type = "") {
  return cat("input %x: ", x, "\nconstant %w: ", w, "\n%y = convolution(%x, %w, none, ", attrs,
             ", activation=\"none\")", type, "\noutput %y");
}

constexpr const char* kPlain =
    "stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], groups=1, transposed=false, "
    "output_padding=[0, 0]";

TEST(LowerConvolution, channels_are_last_and_the_weight_turns_with_them) {
  expect_lowered(conv("f32[1, 2, 3, 3]", "f32[3, 2, 1, 1] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]", kPlain),
                 {"Transpose(input_0_x@0; perm=[0, 2, 3, 1])", "= Conv2d(", "FLOAT_32[1, 1, 2, 3]",
                  "dilation=[1, 1]; group=1"});
}

TEST(LowerConvolution, eight_bits_have_the_scales_of_the_filter_on_its_last_axis) {
  expect_lowered(conv("f32[1, 2, 3, 3] encoding(u8, 0, 255, -1, [0.5], [3])",
                      "f32[3, 2, 1, 1] encoding(i8, -127, 127, 0, [0.5, 0.25, 1.0], [0, 0, 0]) = [1.0, 2.0, "
                      "3.0, 4.0, 5.0, 6.0]",
                      kPlain, " : f32[1, 3, 3, 3] encoding(u8, 0, 255, -1, [2.0], [9])"),
                 {"Quantize(input_0_x@0)", "SFIXED_POINT_8[1, 1, 2, 3] axis 3 3 scales from 0.5 offset 0",
                  "UFIXED_POINT_8[1, 3, 3, 3] scale 2 offset -9 = Conv2d("});
}

// Of the factors 0.125, 0.0625 and 0.3 to the grid of the hardswish the first two are powers of two.
TEST(LowerConvolution, htp_hardswish_1_factors_are_no_powers_of_two) {
  const std::string model =
      cat("input %x: f32[1, 2, 3, 3] encoding(u16, 0, 65535, -1, [0.5], [3])\n"
          "constant %w: f32[3, 2, 1, 1] encoding(i8, -127, 127, 0, [0.5, 0.25, 1.2], [0, 0, 0]) = [1.0, 2.0, "
          "3.0, "
          "4.0, 5.0, 6.0]\n%y = convolution(%x, %w, none, ",
          kPlain, ", activation=\"none\") : f32[1, 3, 3, 3] encoding(u16, 0, 65535, -1, [3.0], [9])\n%z = ");
  const char* type = " : f32[1, 3, 3, 3] encoding(u16, 0, 65535, -1, [2.0], [9])\noutput %z";
  expect_lowered(cat(model, "hardswish(%y)", type), {"axis 3 3 scales from 0.5000019 "});
  expect_lowered(cat(model, "sigmoid(%y)", type), {"axis 3 3 scales from 0.5 "});
}

// With 8 bits those near one too, but not small ones: 0.12499 and 0.0156.
TEST(LowerConvolution, htp_hardswish_1_factors_of_8_bits_are_near_no_powers_of_two) {
  const auto model = [](const char* first) {
    return cat(
        "input %x: f32[1, 2, 3, 3] encoding(u8, 0, 255, -1, [0.5], [3])\n"
        "constant %w: f32[2, 2, 1, 1] encoding(i8, -127, 127, 0, [",
        first,
        ", 1.2], [0, 0]) = [1.0, "
        "2.0, 3.0, 4.0]\n%y = convolution(%x, %w, none, ",
        kPlain,
        ", activation=\"none\") : f32[1, 2, 3, 3] encoding(u8, 0, 255, -1, [3.0], [9])\n"
        "%z = hardswish(%y) : f32[1, 2, 3, 3] encoding(u8, 0, 255, -1, [2.0], [9])\noutput %z");
  };
  expect_lowered(model("0.49996"), {"axis 3 2 scales from 0.50020415 "});
  expect_lowered(model("0.0625"), {"axis 3 2 scales from 0.0625 "});
}

TEST(LowerConvolution, htp_conv_6_a_row_and_a_column_of_zeros) {
  const auto model = [](const char* storage, const char* most) {
    std::string ones = "1.0";
    for (int i = 1; i < 75; ++i) ones += ", 1.0";
    return cat(
        "input %x: f32[1, 3, 7, 7] encoding(", storage, ", 0, ", most,
        ", -1, [0.5], [3])\nconstant %w: f32[3, 1, 5, 5] encoding(i8, -127, 127, 0, [0.5, 0.25, 1.2], [0, 0, "
        "0]) = [",
        ones,
        "]\n%y = convolution(%x, %w, none, stride=[2, 2], padding=[2, 2], padding_end=[2, 2], dilation=[1, "
        "1], groups=3, transposed=false, output_padding=[0, 0], activation=\"none\") : f32[1, 3, 4, 4] "
        "encoding(",
        storage, ", 0, ", most, ", -1, [3.0], [9])\noutput %y");
  };
  expect_lowered(model("u16", "65535"), {"SFIXED_POINT_8[6, 6, 1, 3]", "pad_amount=[2, 3, 2, 3]"});
  expect_lowered(model("u8", "255"), {"SFIXED_POINT_8[5, 5, 1, 3]", "pad_amount=[2, 2, 2, 2]"});
}

TEST(LowerConvolution, four_bits_say_so) {
  expect_lowered(
      conv("f32[1, 2, 3, 3] encoding(u16, 0, 65535, -1, [0.5], [3])",
           "f32[3, 2, 1, 1] encoding(i8, -7, 7, 0, [0.5, 0.25, 1.0], [0, 0, 0]) = [1.0, 2.0, 3.0, "
           "4.0, 5.0, 6.0]",
           kPlain, " : f32[1, 3, 3, 3] encoding(u16, 0, 65535, -1, [2.0], [9])"),
      {"SFIXED_POINT_8[1, 1, 2, 3] 4 bits axis 3 3 scales from 0.5", "UFIXED_POINT_16[1, 3, 3, 3]"});
}

TEST(LowerConvolution, a_bias_stands_on_the_grid_of_operand_times_weight) {
  expect_lowered(
      "input %x: f32[1, 2, 1, 1] encoding(u8, 0, 255, -1, [0.5], [3])\n"
      "constant %w: f32[2, 2, 1, 1] encoding(i8, -127, 127, 0, [0.5, 0.25], [0, 0]) = [1.0, 2.0, 3.0, 4.0]\n"
      "constant %b: f32[2] = [1.0, 2.0]\n"
      "%y = convolution(%x, %w, %b, stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], "
      "groups=1, "
      "transposed=false, output_padding=[0, 0], activation=\"none\") : f32[1, 2, 1, 1] encoding(u8, 0, 255, "
      "-1, "
      "[2.0], [9])\noutput %y",
      {"SFIXED_POINT_32[2] axis 0 2 scales from 0.25 offset 0"});
}

TEST(LowerConvolution, a_filter_for_each_of_three_channels_is_depthwise) {
  expect_lowered(conv("f32[1, 3, 3, 3]", "f32[3, 1, 1, 1] = [1.0, 2.0, 3.0]",
                      "stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], groups=3, "
                      "transposed=false, output_padding=[0, 0]"),
                 {"DepthWiseConv2d(", "FLOAT_32[1, 1, 1, 3]"});
}

TEST(LowerConvolution, one_axis_is_an_image_one_pixel_high) {
  expect_lowered(conv("f32[1, 2, 5]", "f32[1, 2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]",
                      "stride=[2], padding=[1], padding_end=[1], dilation=[1], groups=1, transposed=false, "
                      "output_padding=[0]"),
                 {"FLOAT_32[1, 1, 5, 2] = Reshape(", "FLOAT_32[1, 3, 2, 1]", "stride=[1, 2]",
                  "pad_amount=[0, 0, 1, 1]"});
}

TEST(LowerConvolution, zeros_stand_between_the_taps_of_a_dilated_transposed_filter) {
  expect_lowered(conv("f32[1, 1, 3, 3]", "f32[1, 1, 2, 2] = [1.0, 2.0, 3.0, 4.0]",
                      "stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[2, 2], groups=1, "
                      "transposed=true, output_padding=[0, 0]"),
                 {"TransposeConv2d(", "FLOAT_32[3, 3, 1, 1]"});
}

TEST(LowerConvolution, htp_conv_1_output_padding_of_single_channels_is_padding) {
  expect_lowered(conv("f32[1, 2, 3, 3]", "f32[2, 1, 1, 1] = [1.0, 2.0]",
                      "stride=[2, 2], padding=[1, 1], padding_end=[1, 1], dilation=[1, 1], groups=2, "
                      "transposed=true, output_padding=[1, 1]"),
                 {"pad_amount=[1, 0, 1, 0]", "output_padding=[0, 0]"});
}

TEST(LowerConvolution, htp_conv_2_groups_of_a_transposed_volume_are_one_with_zeros) {
  expect_lowered(
      conv("f32[1, 2, 1, 1, 1]", "f32[2, 1, 1, 1, 1] = [1.0, 2.0]",
           "stride=[1, 1, 1], padding=[0, 0, 0], padding_end=[0, 0, 0], dilation=[1, 1, 1], groups=2, "
           "transposed=true, output_padding=[0, 0, 0]"),
      {"TransposeConv3d(", "FLOAT_32[1, 1, 1, 2, 2]", "group=1"});
}

}  // namespace
}  // namespace sixfold
