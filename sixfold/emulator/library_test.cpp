// Numbers that Qualcomm's library gave for single ops, and the emulator gives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "sixfold/emulator/emulator.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/qnn/context.h"

namespace sixfold::emulator {
namespace {

using qnn::DataType;
using qnn::ScaleOffset;
using qnn::TensorKind;
using qnn::TensorRef;
using qnn::words;
using Dims = std::vector<uint32_t>;
using Numbers = std::vector<double>;

constexpr uint32_t kSoc = 57;

struct Operand {
  DataType dtype;
  Dims dims;
  ScaleOffset grid;
  Numbers numbers;  // as stored
  bool constant = false;
};

size_t count_of(const Dims& dims) {
  size_t n = 1;
  for (const uint32_t d : dims) n *= d;
  return n;
}

template <typename F>
void with_stored(DataType dtype, F f) {
  switch (dtype) {
    case DataType::ufixed8:
      return f(uint8_t{});
    case DataType::ufixed16:
      return f(uint16_t{});
    case DataType::sfixed16:
      return f(int16_t{});
    case DataType::i32:
      return f(int32_t{});
    case DataType::f16:
      return f(DeviceHalf{});
    default:
      return f(float{});
  }
}

std::vector<std::byte> stored(DataType dtype, const Numbers& numbers) {
  std::vector<std::byte> out(numbers.size() * qnn::size_of(dtype));
  with_stored(dtype, [&](auto t) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      t = static_cast<decltype(t)>(numbers[i]);
      std::memcpy(out.data() + i * sizeof t, &t, sizeof t);
    }
  });
  return out;
}

// The op's output on the emulator.
Numbers given(const char* type, const std::vector<Operand>& ins, DataType dtype, const Dims& dims,
              ScaleOffset grid, std::vector<qnn::Param> params = {}) {
  qnn::GraphSpec graph{.name = "one"};
  std::vector<std::vector<std::byte>> inputs;
  std::vector<TensorRef> refs;
  for (const Operand& in : ins) {
    qnn::TensorSpec t{
        .name = cat("x", refs.size()), .kind = TensorKind::app_write, .dtype = in.dtype, .dims = in.dims};
    if (qnn::is_fixed(in.dtype)) t.quantization = in.grid;
    std::vector<std::byte> bytes = stored(in.dtype, in.numbers);
    if (in.constant) {
      std::byte* to = nullptr;
      t.kind = TensorKind::constant;
      t.data.source = Tensor::allocate(qnn::storage_of(in.dtype), Shape(in.dims.begin(), in.dims.end()), &to);
      std::memcpy(to, bytes.data(), bytes.size());
    } else {
      inputs.push_back(std::move(bytes));
    }
    refs.push_back(graph.add(std::move(t)));
  }
  qnn::TensorSpec y{.name = "y", .kind = TensorKind::app_read, .dtype = dtype, .dims = dims};
  if (qnn::is_fixed(dtype)) y.quantization = grid;
  const TensorRef out = graph.add(std::move(y));
  graph.ops.push_back({"op", type, std::move(refs), {out}, std::move(params)});
  Result<qnn::Backend> backend = qnn::Backend::open(library(), kSoc);
  EXPECT_TRUE(backend.ok());
  auto context = qnn::Context::build(*backend, {&graph, 1});
  EXPECT_TRUE(context.ok()) << context.error().message();
  if (!context.ok()) return {};
  std::vector<std::byte> bytes(count_of(dims) * qnn::size_of(dtype));
  const std::vector<std::span<const std::byte>> in(inputs.begin(), inputs.end());
  const std::vector<std::span<std::byte>> outs{bytes};
  const Status s = context->graphs().front().execute(in, outs);
  EXPECT_TRUE(s.ok()) << s.error().message();
  Numbers numbers(count_of(dims));
  with_stored(dtype, [&](auto t) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::memcpy(&t, bytes.data() + i * sizeof t, sizeof t);
      numbers[i] = static_cast<double>(t);
    }
  });
  return numbers;
}

// Of floats that left as halves.
Numbers halves(Numbers numbers) {
  for (double& v : numbers) v = to_half(static_cast<float>(v));
  return numbers;
}

// 7, 44, 81 ... modulo a number.
Numbers series(size_t count, int first, int step, int modulo) {
  Numbers out;
  for (size_t i = 0; i < count; ++i) out.push_back((first + static_cast<int>(i) * step) % modulo);
  return out;
}

TEST(LibraryNumbers, means_of_even_windows_are_means_of_means) {
  const Operand x{DataType::ufixed8, {1, 8, 8, 1}, {0.04f, -120}, series(64, 7, 37, 251)};
  const auto mean = [&](uint32_t after) {
    return given("PoolAvg2d", {x}, DataType::ufixed8, {1, 2, 2, 1}, {0.01f, -128},
                 {words("filter_size", {4, 4}),
                  words("stride", {4, 4}),
                  words("pad_amount", {2, 2}, {0, after, 0, 0}),
                  {"count_pad_for_edges", true}});
  };
  EXPECT_EQ(mean(0), (Numbers{145, 95, 117, 177}));
  EXPECT_EQ(mean(1), (Numbers{105, 133, 72, 225}));
}

TEST(LibraryNumbers, of_a_mean_the_zero_points_part_is_cut_where_steps_are_fine) {
  const ScaleOffset in{0.02f, -136}, out{0.0077f, -128};
  const std::vector<qnn::Param> params = {words("axes", {1}), {"keep_dims", true}};
  EXPECT_EQ(given("ReduceMean", {{DataType::ufixed8, {2, 4, 5}, in, series(40, 7, 37, 251)}},
                  DataType::ufixed8, {2, 1, 5}, out, params),
            (Numbers{25, 121, 54, 150, 83, 154, 87, 20, 117, 50}));
  EXPECT_EQ(given("ReduceMean", {{DataType::ufixed8, {1, 4, 2}, in, series(8, 7, 37, 251)}},
                  DataType::ufixed8, {1, 1, 2}, out, params),
            (Numbers{81, 14}));
}

TEST(LibraryNumbers, what_is_no_number_is_the_largest) {
  const auto of = [](const char* type, Numbers x, ScaleOffset in, ScaleOffset out) {
    const auto n = static_cast<uint32_t>(x.size());
    return given(type, {{DataType::ufixed8, {n}, in, x}}, DataType::ufixed8, {n}, out);
  };
  EXPECT_EQ(of("ElementWiseAsin", {0, 27, 28, 128, 228, 229, 255}, {0.01f, -128}, {0.02f, -128}),
            (Numbers{255, 255, 49, 128, 207, 255, 255}));
  EXPECT_EQ(of("ElementWiseSquareRoot", {0, 99, 100, 120}, {0.01f, -100}, {0.01f, 0}),
            (Numbers{255, 255, 0, 45}));
  EXPECT_EQ(of("ElementWiseLog", {0, 99, 100, 120}, {0.01f, -100}, {0.02f, -128}), (Numbers{0, 0, 0, 48}));
}

TEST(LibraryNumbers, exponents_are_floats) {
  const Operand x{DataType::ufixed8, {5}, {0.01f, -128}, {0, 64, 128, 200, 255}};
  const auto power = [&](double exponent) {
    return given("ElementWisePower", {x, {DataType::ufixed8, {1}, {0.01f, 0}, {exponent}, true}},
                 DataType::ufixed8, {5}, {0.01f, 0});
  };
  EXPECT_EQ(power(200), (Numbers{164, 41, 0, 52, 161}));  // 200 * 0.01 is 2
  EXPECT_EQ(power(170), (Numbers{255, 255, 0, 57, 150}));
}

TEST(LibraryNumbers, quotients_are_products_with_reciprocals_of_parabolas) {
  const Operand x{DataType::ufixed16, {8}, {1e-4f, -20000}, Numbers(8, 60000)};
  const Operand d{
      DataType::ufixed16, {8}, {1e-4f, 0}, {5000, 9000, 14000, 20000, 33000, 39000, 50000, 65535}};
  EXPECT_EQ(given("ElementWiseDivide", {x, d}, DataType::ufixed16, {8}, {2e-4f, -10000}),
            (Numbers{49989, 32227, 24283, 19997, 16061, 15126, 14001, 13052}));
}

TEST(LibraryNumbers, cubic_weights_are_reals_and_reach_beyond_the_inputs_range) {
  const Operand x{DataType::ufixed8, {1, 4, 4, 1}, {0.0131f, -161}, series(16, 7, 91, 251)};
  EXPECT_EQ(given("Resize", {x}, DataType::ufixed8, {1, 6, 6, 1}, {0.0163f, -161},
                  {{"exclude_outside", false},
                   {"transformation_mode", uint32_t{1}},
                   {"interpolation_mode", uint32_t{2}},
                   {"cubic_coeff", -0.75f}}),
            (Numbers{23,  57,  124, 194, 129, 34, 66,  125, 168, 129, 111, 110, 147, 182, 178, 90, 96, 141,
                     227, 153, 100, 158, 107, 35, 176, 149, 121, 121, 92,  66,  90,  157, 174, 58, 75, 141}));
}

TEST(LibraryNumbers, places_of_a_grid_have_16_bits_and_are_blended_along_x_first) {
  const Operand x{DataType::ufixed16, {1, 3, 4, 1}, {1e-4f, -30000}, series(12, 700, 9137, 65521)};
  const Operand grid{DataType::ufixed16, {1, 3, 4, 2}, {5.5e-5f, -23348}, series(24, 900, 5501, 65521)};
  const auto sampled = [&](uint32_t padding) {
    return given("GridSample", {x, grid}, DataType::ufixed16, {1, 3, 4, 1}, {1.1e-4f, -31000},
                 {{"padding_mode", padding}});
  };
  EXPECT_EQ(sampled(0),
            (Numbers{30507, 23295, 38654, 32591, 31000, 31000, 29550, 25089, 38036, 32780, 31000, 31000}));
  EXPECT_EQ(sampled(1),
            (Numbers{4364, 23295, 38654, 33356, 36167, 36167, 4364, 25089, 38036, 33804, 36167, 36167}));
  EXPECT_EQ(sampled(2),
            (Numbers{4364, 23293, 38654, 33356, 42293, 48863, 4364, 25088, 38036, 33805, 43359, 47069}));
}

TEST(LibraryNumbers, fractions_between_pixels_are_halves) {
  const auto parts = [](size_t count, int first, int step, double of) {
    Numbers out = series(count, first, step, 251);
    for (double& v : out) v = (v - 125) / of;
    return out;
  };
  const Operand x{DataType::f32, {1, 3, 4, 1}, {}, parts(12, 7, 37, 8)};
  const Operand grid{DataType::f32, {1, 3, 4, 2}, {}, parts(24, 9, 53, 100)};
  const Numbers y = halves(
      given("GridSample", {x, grid}, DataType::f32, {1, 3, 4, 1}, {}, {{"padding_mode", uint32_t{1}}}));
  EXPECT_EQ(y, (Numbers{-13.7265625, 1.4580078125, -0.875, 5.3828125, 3.083984375, -5.96484375,
                        -0.52099609375, -0.875, 2.5625, -0.875, 3.1953125, 2.06640625}));
}

TEST(LibraryNumbers, images_twice_as_large_are_blended_in_floats_of_16_bits) {
  const Operand x{DataType::f32,
                  {1, 2, 3, 1},
                  {},
                  {1.0, 136.0, 0.01224517822265625, -0.51025390625, -3.0, -0.005275726318359375}};
  EXPECT_EQ(halves(given("ResizeBilinear", {x}, DataType::f32, {1, 4, 6, 1}, {},
                         {{"align_corners", false}, {"half_pixel_centers", true}})),
            (Numbers{1.0,
                     34.78125,
                     102.3125,
                     102.125,
                     34.125,
                     0.01224517822265625,
                     0.6220703125,
                     25.8125,
                     76.125,
                     76.0625,
                     25.40625,
                     0.0078582763671875,
                     -0.1318359375,
                     7.84375,
                     23.8125,
                     23.8125,
                     7.9375,
                     -0.0009002685546875,
                     -0.51025390625,
                     -1.1318359375,
                     -2.376953125,
                     -2.251953125,
                     -0.755859375,
                     -0.005275726318359375}));
}

// In parts of 2^-24.
Numbers dequantized(DataType dtype, ScaleOffset grid, Numbers x) {
  const auto n = static_cast<uint32_t>(x.size());
  Numbers y = given("Dequantize", {{dtype, {n}, grid, std::move(x)}}, DataType::f32, {n}, {});
  for (double& v : y) v = std::ldexp(v, 24);
  return y;
}

TEST(LibraryNumbers, floats_of_16_bits_are_products_of_the_vector_unit) {
  EXPECT_EQ(dequantized(DataType::ufixed16, {0x1p-16f, 0}, {0, 16384, 24576, 32768, 49152, 65535}),
            (Numbers{0, 4194305, 6291457.5, 8388610, 12582915, 16776963}));
  EXPECT_EQ(dequantized(DataType::ufixed16, {0.0001f, -12345}, {0, 1, 12344, 12345, 12346, 40000, 65535}),
            (Numbers{-20711470, -20709794, -1677.7213134765625, 0, 1677.7218017578125, 46397396, 89238024}));
  EXPECT_EQ(dequantized(DataType::sfixed16, {0x1.8p-16f, 0}, {-32768, -24577, -1, 0, 1, 3, 32767}),
            (Numbers{-12582911, -9437569, -383.999969482421875, 0, 384.000091552734375, 1152.0001220703125,
                     12582529}));
}

TEST(LibraryNumbers, floats_of_8_bits_are_nearest_ties_away_from_zero) {
  EXPECT_EQ(dequantized(DataType::ufixed8, {0.0213f, -120}, {0, 24, 72, 96, 120, 144, 168, 255}),
            (Numbers{-42882564, -34306052, -17153026, -8576513, 0, 8576513, 17153026, 48242884}));
}

// x / scale ends in a little less or more than a half.
TEST(LibraryNumbers, steps_of_16_bits_are_of_the_float_of_one_over_the_scale) {
  const ScaleOffset grid{0.00014420814f, -45699};
  const auto steps = [&](DataType dtype, Numbers x) {
    const auto n = static_cast<uint32_t>(x.size());
    return given("Quantize", {{dtype, {n}, {}, std::move(x)}}, DataType::ufixed16, {n}, grid);
  };
  EXPECT_EQ(
      steps(DataType::f32, {-0x1.24b08p+1, -0x1.1797d2p+0, -0x1.62294ep+2, -0x1.69e1b6p+0, 0x1.28c4d2p+1}),
      (Numbers{29842, 38125, 7325, 35896, 61777}));
  EXPECT_EQ(steps(DataType::f16, {0x1.03cp-3, 0x1.484p+0, 0x1.26p+1, -0x1.03cp-3}),
            (Numbers{46579, 54591, 61627, 44819}));
}

TEST(LibraryNumbers, halves_of_8_bits_have_the_half_of_their_scale) {
  const Operand x{DataType::ufixed8, {7}, {0.0213f, -120}, {8, 19, 27, 32, 120, 181, 255}};
  Numbers y = given("Dequantize", {x}, DataType::f16, {7}, {});
  EXPECT_EQ(y, (Numbers{-2.38671875, -2.15234375, -1.9814453125, -1.875, 0, 1.2998046875, 2.875}));
}

TEST(LibraryNumbers, a_sigmoid_of_what_is_negative_has_the_other_sides_steps) {
  const Operand x{DataType::f32, {5}, {}, {-8, -6, -4, -0.5, 0.5}};
  Numbers y = halves(given("Sigmoid", {x}, DataType::f32, {5}, {}));
  for (double& v : y) v *= 2048;
  EXPECT_EQ(y, (Numbers{1, 5, 37, 773, 1275}));
}

TEST(LibraryNumbers, from_16_bits_to_8_the_zero_points_part_is_rounded_by_itself) {
  const auto converted = [](ScaleOffset from, ScaleOffset to, Numbers x) {
    const auto n = static_cast<uint32_t>(x.size());
    return given("Convert", {{DataType::ufixed16, {n}, from, std::move(x)}}, DataType::ufixed8, {n}, to);
  };
  EXPECT_EQ(converted({0.00018938015f, -11759}, {0.06405095f, -37}, {89, 90, 427, 428}),
            (Numbers{2, 2, 3, 3}));
  EXPECT_EQ(converted({0.002267245f, -2582}, {0.57450277f, -13}, {172, 425, 426, 679}),
            (Numbers{4, 5, 5, 6}));
}

TEST(LibraryNumbers, the_gate_of_a_gelu_of_16_bits_is_cubic_polynomials) {
  const Operand x{DataType::ufixed16, {24}, {1.5e-4f, -32768}, series(24, 500, 5501, 65521)};
  EXPECT_EQ(given("Gelu", {x}, DataType::ufixed16, {24}, {1e-4f, -2000}),
            (Numbers{1988, 2000, 1976, 1787, 1042, 299, 2603, 9722,  18921, 27729, 36104, 44364,
                     1988, 2000, 1970, 1748, 944,  325, 3057, 10520, 19737, 28487, 36840, 45101}));
}

TEST(LibraryNumbers, powers_in_a_softmax_of_16_bits_are_polynomials) {
  const auto softmax = [](Dims dims) {
    const Operand x{DataType::ufixed16, dims, {2e-4f, -32768}, series(12, 40000, 9137, 65521)};
    return given("Softmax", {x}, DataType::ufixed16, dims, {0x1p-16f, 0});
  };
  EXPECT_EQ(softmax({1, 2, 6}), (Numbers{1428, 8879, 55198, 0, 3, 26, 228, 1424, 8851, 55026, 0, 3}));
  EXPECT_EQ(softmax({1, 6, 2}),
            (Numbers{9076, 56460, 65535, 1, 9076, 56460, 9076, 56460, 9076, 56460, 9076, 56460}));
}

TEST(LibraryNumbers, a_hadamard_transform_is_orthonormal) {
  const Operand x{DataType::ufixed16, {1, 4}, {1e-4f, -32768}, {42768, 32768, 30768, 32768}};
  EXPECT_EQ(given("HadamardTransform", {x}, DataType::ufixed16, {1, 4}, {2e-4f, -32768}, {{"scale", 1.0f}}),
            (Numbers{34768, 34768, 35768, 35768}));
}

TEST(LibraryNumbers, masks_of_a_slice_leave_ends_out_and_drop_axes) {
  const Operand x{DataType::f32, {3, 4, 5}, {}, series(60, 0, 1, 60)};
  const auto slice = [&](Dims dims, std::vector<int32_t> ranges, const char* mask, uint32_t bits) {
    std::vector<uint32_t> bytes(ranges.begin(), ranges.end());
    qnn::Param of_ranges = words("ranges", {3, 3}, std::move(bytes));
    std::get<qnn::Words>(of_ranges.value).dtype = DataType::i32;
    return halves(given("StridedSlice", {x}, DataType::f32, dims, {}, {std::move(of_ranges), {mask, bits}}));
  };
  EXPECT_EQ(slice({3}, {0, 3, 1, 1, 1, 1, 3, 3, 1}, "shrink_axes", 6), (Numbers{8, 28, 48}));
  EXPECT_EQ(slice({3, 1, 1}, {1, 3, 1, 0, 1, 1, 0, 1, 1}, "begin_mask", 1), (Numbers{0, 20, 40}));
  EXPECT_EQ(slice({3, 1, 1}, {2, 0, -1, 0, 1, 1, 0, 1, 1}, "end_mask", 1), (Numbers{40, 20, 0}));
}

}  // namespace
}  // namespace sixfold::emulator
