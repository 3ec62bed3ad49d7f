#include "sixfold/quantize/settle_biases.h"

#include <gtest/gtest.h>

#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

// A last layer, and what it reads on a grid from 0 to `most` where samples showed no more than 100.
struct Layer {
  Graph real, quantized;
  Observations seen;
  ValueId x;
  double unit = 0;  // of the bias, for the operand's steps as they were

  Layer(double most, const char* readers = "") {
    real = graph_of(std::string(R"(input %a: f32[4, 2]
input %b: f32[4, 2]
constant %w: f32[1, 2] = [20, -3]
constant %c: f32[1] = [0.5327]
%x = add(%a, %b) : f32[4, 2]
%y = linear(%x, %w, %c, activation="none") : f32[4, 1]
)") + readers + "output %y\n");
    quantized = real;
    seen = seen_all(real, 0, 100);
    x = named(real, "x");
    Encoding grid{.storage = DType::u16, .quant_max = 65535};
    grid.scales = {static_cast<float>(most / 65535)};
    grid.zero_points = {0};
    quantized.value(x).encoding = grid;
    Encoding weight{.storage = DType::i8, .quant_min = -127, .quant_max = 127, .axis = 0};
    weight.scales = {20.0f / 127};
    weight.zero_points = {0};
    quantized.value(named(real, "w")).encoding = weight;
    unit = 256.0 * 20 / 127;
  }
  double scale() const { return quantized.value(x).encoding->scales[0]; }
  // How far the bias is from a whole number of units and a half, in logits.
  double off() const {
    const double units = 0.5327 / (unit * scale()) + 0.5;
    return std::fabs(units - std::nearbyint(units)) * unit * scale();
  }
};

TEST(SettleBiases, steps_of_the_operand_fit_the_bias_and_keep_what_samples_showed) {
  Layer layer(150);
  const double before = layer.scale(), off = layer.off();
  settle_biases(layer.real, layer.seen, layer.quantized);
  EXPECT_GT(off, 0.01);
  EXPECT_LT(layer.off(), off / 4);
  EXPECT_LT(layer.scale(), before);
  EXPECT_GE(layer.scale() * 65535, 110);
}

TEST(SettleBiases, a_grid_without_room_stays) {
  Layer layer(105);
  const double before = layer.scale();
  settle_biases(layer.real, layer.seen, layer.quantized);
  EXPECT_EQ(layer.scale(), before);
}

TEST(SettleBiases, a_grid_that_others_read_or_that_was_given_stays) {
  Layer read(150, "%z = sub(%x, %b) : f32[4, 2]\noutput %z\n");
  const double before = read.scale();
  settle_biases(read.real, read.seen, read.quantized);
  EXPECT_EQ(read.scale(), before);
  Layer given(150);
  given.real.value(given.x).encoding = given.quantized.value(given.x).encoding;
  settle_biases(given.real, given.seen, given.quantized);
  EXPECT_EQ(given.scale(), before);
}

}  // namespace
}  // namespace sixfold
