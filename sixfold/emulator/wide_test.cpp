// Results of Qualcomm's library (SDK 2.49, SM8650) with 16 bits, element by element: half of them are those
// that arithmetic with one rounding has wrong. Places count: some ops round even and odd ones differently.
#include <gtest/gtest.h>

#include <cstring>

#include "sixfold/emulator/emulator.h"
#include "sixfold/qnn/context.h"

namespace sixfold::emulator {
namespace {

using Numbers = std::vector<uint16_t>;

struct Fact {
  const char* type;
  std::vector<qnn::ScaleOffset> in;
  qnn::ScaleOffset out;
  std::vector<Numbers> x;
  Numbers y;
};

template <typename T = uint16_t>
Result<std::vector<T>> run(const qnn::GraphSpec& graph, const std::vector<std::span<const std::byte>>& in,
                           size_t n) {
  SF_ASSIGN(const qnn::Backend backend, qnn::Backend::open(library(), 57));
  SF_ASSIGN(qnn::Context context, qnn::Context::build(backend, {&graph, 1}));
  std::vector<T> y(n);
  const std::span<std::byte> out[] = {std::as_writable_bytes(std::span(y))};
  SF_TRY(context.graphs().front().execute(in, out));
  return y;
}

Result<Numbers> run(const Fact& fact) {
  qnn::GraphSpec graph;
  qnn::OpSpec op{.name = "op", .type = fact.type};
  const std::vector<uint32_t> dims{1, 1, 1, static_cast<uint32_t>(fact.y.size())};
  const auto tensor = [&](const std::string& name, qnn::TensorKind kind, qnn::ScaleOffset q) {
    return graph.add(
        {.name = name, .kind = kind, .dtype = qnn::DataType::ufixed16, .dims = dims, .quantization = q});
  };
  std::vector<std::span<const std::byte>> in;
  for (size_t i = 0; i < fact.in.size(); ++i) {
    op.in.push_back(tensor(cat("x", i), qnn::TensorKind::app_write, fact.in[i]));
    in.push_back(std::as_bytes(std::span(fact.x[i])));
  }
  op.out.push_back(tensor("y", qnn::TensorKind::app_read, fact.out));
  graph.ops.push_back(op);
  return run(graph, in, fact.y.size());
}

TEST(EmulatorWide, ops_have_the_numbers_of_the_library) {
  const Fact facts[] = {
      {"ElementWiseAdd",
       {{0.0004356784f, -31064}, {0.000385924f, -29433}},
       {0.0006358785f, -31961},
       {{36197, 23525, 62917, 39834, 26809, 12506, 39004, 24213, 9248, 11761, 29694, 29342},
        {12153, 39665, 31511, 29533, 41919, 33578, 29653, 45337, 18620, 23024, 34492, 33730}},
       {24991, 33005, 55046, 38030, 36623, 21762, 37535, 36919, 10451, 14846, 34093, 33389}},
      {"ElementWiseAdd",
       {{0.0004f, -31065}, {0.0003f, -29433}},
       {0.004f, -31960},
       {{49808, 39844, 65535, 46912, 12871, 19530, 23740, 23789, 30882, 38557, 20341, 22950},
        {14715, 39801, 38612, 41977, 34552, 31913, 49558, 30326, 21269, 28533, 18933, 19981}},
       {32731, 33616, 36096, 34486, 30524, 30992, 32737, 31299, 31329, 32642, 30100, 30440}},
      {"ElementWiseSubtract",
       {{0.0004f, -31065}, {0.0003f, -29433}},
       {0.00051f, -31960},
       {{38805, 30691, 9202, 34370, 38678, 36635, 33792, 10762, 39927, 36853, 39083, 37049},
        {7338, 16248, 30681, 39879, 23057, 13142, 25149, 29918, 13353, 22995, 31958, 29180}},
       {51027, 39422, 14079, 28408, 41681, 45911, 36619, 15751, 48369, 40287, 36763, 36802}},
      {"ElementWiseMultiply",
       {{0.0004f, -31065}, {0.0003f, -29433}},
       {0.0008f, -31960},
       {{34599, 40959, 25197, 25423, 38922, 27252, 29598, 41396, 14874, 31373, 13128, 27337},
        {23018, 27265, 2751, 53151, 41404, 21220, 25527, 40371, 32172, 35036, 29533, 22650}},
       {28560, 28743, 55446, 11888, 46069, 36658, 32820, 48910, 25308, 32219, 31691, 35753}},
      {"ElementWiseMultiply",
       {{1.5e-05f, -0}, {0.0003f, -29433}},
       {0.00021f, -30001},
       {{48646, 3222, 16747, 42493, 1012, 42123, 6067, 55483, 51832, 52520, 18999, 27842},
        {55143, 46385, 24346, 211, 3629, 38877, 2723, 17324, 18038, 42819, 60691, 16334}},
       {56802, 31172, 28176, 3393, 29442, 38526, 26529, 15604, 17345, 45066, 42727, 22186}},
      {"ElementWiseMultiply",
       {{0.001f, -31000}, {0.001f, -33333}},
       {5e-06f, -30000},
       {{31036, 31256, 30843, 31058, 30942, 31041, 30960, 31148, 31032, 30826, 30949, 31219},
        {33382, 33207, 33465, 33235, 33330, 33350, 33412, 33419, 33358, 33283, 33315, 33293}},
       {30352, 23548, 25856, 28864, 30034, 30140, 29368, 32546, 30160, 31740, 30184, 28248}},
      {"ElementWiseMaximum",
       {{0.0004f, -31065}, {0.0003f, -29433}},
       {0.0005f, -31960},
       {{23587, 19597, 33561, 30311, 24380, 28919, 26554, 20662, 15168, 10751, 39594, 42894},
        {15055, 37304, 41934, 15246, 35396, 16554, 26798, 47273, 24026, 22814, 35948, 18376}},
       {25978, 36683, 39461, 31357, 35538, 30243, 30379, 42664, 28716, 27989, 38783, 41423}},
      {"Convert",
       {{0.0004f, -31065}},
       {0.00053f, -31960},
       {{49026, 20365, 31222, 3295, 34451, 29057, 37388, 45919, 36818, 14789, 34276, 22510}},
       {45516, 23884, 32079, 11001, 34516, 30444, 36732, 43171, 36302, 19676, 34383, 25503}},
      {"Convert",
       {{0.0004f, -55065}},
       {3.1e-05f, -55960},
       {{54503, 54471, 55370, 54254, 54471, 55732, 54447, 54571, 54912, 54494, 55442, 55448}},
       {48709, 48296, 59896, 45496, 48296, 64567, 47986, 49586, 53986, 48592, 60825, 60902}},
      {"ElementWiseSquareRoot",
       {{0.001f, -0}},
       {0.00015f, -0},
       {{3919, 51507, 41596, 36122, 52129, 15984, 13794, 25738, 353, 187, 4104, 55174}},
       {13187, 47885, 43019, 40089, 48128, 26635, 24760, 33822, 3961, 2883, 13506, 49519}},
      {"ElementWiseSquareRoot",
       {{0.0003f, -100}},
       {9e-05f, -200},
       {{21869, 24471, 33509, 43088, 11351, 16172, 18819, 895, 18209, 18587, 44222, 187}},
       {28584, 30223, 35372, 40091, 20619, 24601, 26531, 5626, 26098, 26367, 40625, 1995}},
      {"ElementWiseRsqrt",
       {{0.001f, -0}},
       {0.0005f, -0},
       {{39933, 3674, 10121, 15607, 47360, 8438, 47498, 10305, 41906, 22423, 34669, 31374}},
       {317, 1044, 628, 507, 290, 688, 290, 623, 309, 422, 340, 357}},
      {"Tanh",
       {{0.00013f, -30000}},
       {3.1e-05f, -32768},
       {{19014, 18857, 32700, 15860, 29565, 42846, 31432, 43449, 19372, 19139, 25432, 38641}},
       {4016, 3884, 43648, 2103, 30947, 62818, 38704, 63129, 4337, 4126, 15587, 58856}},
      {"Tanh",
       {{3e-05f, -10000}},
       {2.3e-05f, -30000},
       {{546, 55837, 12145, 33554, 18896, 56498, 21997, 11221, 10187, 35488, 8670, 56817}},
       {17988, 65535, 32792, 56459, 41334, 65535, 45004, 31592, 30242, 57991, 28265, 65535}},
      {"Sigmoid",
       {{0.00027f, -40001}},
       {1.526e-05f, 0},
       {{47324, 44093, 14169, 38771, 27055, 56341, 42986, 29731, 49636, 53880, 32412, 51678}},
       {57559, 49224, 60, 27374, 1928, 64745, 45294, 3854, 61005, 64021, 7479, 62845}},
      {"Sigmoid",
       {{3e-05f, -10000}},
       {1.7e-05f, -100},
       {{44219, 14455, 57168, 11021, 29684, 57086, 27134, 37064, 18440, 64055, 46118, 8711}},
       {43408, 31474, 47426, 29962, 37953, 47404, 36908, 40836, 33215, 49219, 44049, 28943}},
      {"Gelu",
       {{0.00095f, -26976}},
       {0.00057f, -450},
       {{32562, 32940, 32964, 32353, 33138, 31585, 31125, 31812, 31502, 31772, 32106, 31203}},
       {9758, 10388, 10428, 9411, 10716, 8131, 7365, 8510, 7993, 8443, 9000, 7495}},
      {"HardSwish",
       {{0.00029f, -30000}},
       {0.000156f, -6000},
       {{43562, 50366, 50794, 39802, 53926, 32556, 17690, 25974, 31091, 30050, 29693, 29341}},
       {31210, 43858, 44654, 23743, 50476, 8962, 6000, 3714, 7121, 6047, 5723, 5426}},
      {"HardSwish",
       {{0.00029f, -30001}},
       {0.00037f, -6000},
       {{59177, 51713, 55280, 55576, 21232, 58758, 30016, 31803, 38008, 44585, 22793, 26104}},
       {28867, 23016, 25812, 26044, 5476, 28538, 6006, 6829, 11567, 17431, 5143, 5048}},
  };
  for (const Fact& fact : facts) {
    const auto y = run(fact);
    ASSERT_TRUE(y.ok()) << y.error().message();
    EXPECT_EQ(*y, fact.y) << fact.type;
  }
}

// A constant with a scale for each of its channels: of `scales`, in `unit`.
qnn::TensorRef add_constant(qnn::GraphSpec& graph, const char* name, qnn::DataType dtype,
                            const std::vector<uint32_t>& dims, int32_t axis, std::span<const float> scales,
                            float unit, std::span<const std::byte> data) {
  qnn::AxisScaleOffset q{axis, {}};
  for (const float scale : scales) q.channels.push_back({scale * unit, 0});
  qnn::TensorSpec t{.name = name, .kind = qnn::TensorKind::constant, .dtype = dtype, .dims = dims};
  t.quantization = q;
  std::byte* bytes = nullptr;
  t.data.source = Tensor::allocate(qnn::storage_of(dtype), Shape(dims.begin(), dims.end()), &bytes);
  std::memcpy(bytes, data.data(), data.size());
  return graph.add(std::move(t));
}

constexpr float kFilterScales[] = {0.004f, 0.0051f, 0.0037f, 0.0062f};

struct Filter {
  const char* type;
  std::vector<uint32_t> dims;  // of the weights, of 4 outputs
  std::span<const int8_t> weights;
  std::span<const int32_t> biases;
  qnn::ScaleOffset out;
  bool swish = false;  // a HardSwish reads what it gives
};

// Of points in a line.
Result<Numbers> run(const Filter& filter, const Numbers& x, uint32_t points) {
  qnn::GraphSpec graph;
  const auto image = [&](const char* name, qnn::TensorKind kind, uint32_t channels, qnn::ScaleOffset q) {
    return graph.add({.name = name,
                      .kind = kind,
                      .dtype = qnn::DataType::ufixed16,
                      .dims = {1, 1, points, channels},
                      .quantization = q});
  };
  const auto channels = static_cast<uint32_t>(x.size() / points);
  const qnn::TensorRef in = image("x", qnn::TensorKind::app_write, channels, {9e-5f, -30001});
  const qnn::TensorRef w = add_constant(graph, "w", qnn::DataType::sfixed8, filter.dims, 3, kFilterScales, 1,
                                        std::as_bytes(filter.weights));
  const qnn::TensorRef b = add_constant(graph, "b", qnn::DataType::sfixed32, {4}, 0, kFilterScales, 9e-5f,
                                        std::as_bytes(filter.biases));
  const qnn::TensorRef out = image("y", qnn::TensorKind::app_read, 4, filter.out);
  const qnn::TensorRef sums = filter.swish ? image("a", qnn::TensorKind::native, 4, {2e-4f, -32768}) : out;
  graph.ops.push_back({"filter",
                       filter.type,
                       {in, w, b},
                       {sums},
                       {qnn::words("stride", {1, 1}), qnn::words("pad_amount", {2, 2}, {0, 0, 0, 0})}});
  if (filter.swish) graph.ops.push_back({"swish", "HardSwish", {sums}, {out}, {}});
  return run(graph, {std::as_bytes(std::span(x))}, size_t{4} * points);
}

// A HardSwish that alone reads a convolution sees its sums, and is cut.
TEST(EmulatorWide, a_hard_swish_behind_a_convolution_has_the_numbers_of_the_library) {
  const Numbers x{23865, 45931, 27758, 37868, 31438, 42650, 25826, 14098, 23531, 39012, 38557,
                  55117, 21150, 29476, 53534, 15170, 42221, 54080, 52198, 41095, 51046, 19070,
                  44804, 40914, 33297, 55666, 48867, 19636, 55102, 49277, 27164, 42149};
  const int8_t weights[] = {72, -71, -61, -80, -9, 116, -28, -41, 108, -15, -112, 40,  67,  -15, 114,  -127,
                            94, -61, 76,  -7,  38, 67,  101, 27,  35,  -18, -114, -79, -98, 73,  -100, -80};
  const int32_t biases[] = {-16428, 13426, -11280, -156};
  const Numbers want{8324,  10397, 16749, 6583, 14024, 4228,  4407, 266,
                     19324, 4082,  71,    3038, 12828, 17002, 2191, 5361};
  const auto y = run({"Conv2d", {1, 1, 8, 4}, weights, biases, {9e-5f, -4200}, true}, x, 4);
  ASSERT_TRUE(y.ok()) << y.error().message();
  EXPECT_EQ(*y, want);
}

// A HardSwish of 8 bits behind a convolution of 8 channels to 4.
static std::vector<uint8_t> narrow_swish(std::span<const int8_t> weights, std::span<const int32_t> biases,
                                         std::span<const float> scales,
                                         qnn::ScaleOffset result = {0.0201f, -19}) {
  const uint8_t x[] = {171, 206, 5,   206, 120, 131, 161, 73,  250, 13,  71,  98,  146, 104, 33,  11,
                       0,   12,  38,  255, 48,  167, 192, 60,  72,  111, 67,  249, 45,  229, 204, 216,
                       29,  100, 160, 126, 170, 173, 169, 15,  245, 142, 231, 69,  92,  225, 47,  16,
                       95,  173, 31,  222, 87,  58,  139, 229, 226, 223, 78,  4,   199, 181, 197, 0};
  qnn::GraphSpec graph;
  const auto image = [&](const char* name, qnn::TensorKind kind, uint32_t channels, qnn::ScaleOffset q) {
    return graph.add({.name = name,
                      .kind = kind,
                      .dtype = qnn::DataType::ufixed8,
                      .dims = {1, 1, 8, channels},
                      .quantization = q});
  };
  const auto in = image("x", qnn::TensorKind::app_write, 8, {0.011f, -117});
  const auto w =
      add_constant(graph, "w", qnn::DataType::sfixed8, {1, 1, 8, 4}, 3, scales, 1, std::as_bytes(weights));
  const auto b =
      add_constant(graph, "b", qnn::DataType::sfixed32, {4}, 0, scales, 0.011f, std::as_bytes(biases));
  const auto between = image("a", qnn::TensorKind::native, 4, {0.02f, -128}),
             out = image("y", qnn::TensorKind::app_read, 4, result);
  graph.ops.push_back({"filter",
                       "Conv2d",
                       {in, w, b},
                       {between},
                       {qnn::words("stride", {1, 1}), qnn::words("pad_amount", {2, 2}, {0, 0, 0, 0})}});
  graph.ops.push_back({"swish", "HardSwish", {between}, {out}, {}});
  const auto y = run<uint8_t>(graph, {std::as_bytes(std::span(x))}, 32);
  return y.ok() ? *y : std::vector<uint8_t>();
}

// It sees the sums as well. The library's numbers.
TEST(EmulatorNarrow, a_hard_swish_behind_a_convolution_has_the_numbers_of_the_library) {
  const int8_t weights[] = {-118, 1,   -42, -16, 110, -76, 7,    -45, -52, 78, -88, -47, -97, -89, -56, 51,
                            20,   -13, -84, 76,  76,  -67, -112, -46, -90, 76, 5,   2,   -53, 2,   119, -67};
  const int32_t biases[] = {4825, -8739, -3352, 7798};
  const std::vector<uint8_t> want{25, 1,  13, 54, 14, 9, 5, 73, 15, 3, 13, 74, 12, 1, 20, 20,
                                  41, 12, 2,  58, 32, 8, 0, 14, 14, 1, 48, 35, 51, 8, 2,  37};
  EXPECT_EQ(narrow_swish(weights, biases, kFilterScales), want);
}

// Sums of few bits, of which one is 0.04 to 0.3 of a step of the result, are shifted up.
TEST(EmulatorNarrow, a_hard_swish_of_few_sums_has_the_numbers_of_the_library) {
  const int8_t weights[] = {3,  3,  -2, 1, 0,  0, 1, 0,  9,  -4, -2, 0, 0,  -1, -2, -2,
                            -9, -4, -2, 2, -6, 1, 2, -1, -6, 0,  -2, 2, -6, 4,  2,  1};
  const int32_t biases[] = {455, -152, 248, 30};
  const float scales[] = {0.08f, 0.18f, 0.33f, 0.6f};
  const std::vector<uint8_t> want{10, 30, 31, 11, 62,  14, 10, 19, 11, 10, 46, 19, 2,  58, 104, 1,
                                  20, 6,  19, 15, 112, 5,  28, 3,  9,  54, 78, 12, 10, 8,  20,  186};
  EXPECT_EQ(narrow_swish(weights, biases, scales), want);
}

// Results that reach far have steep gates, whose slopes have 12 bits.
TEST(EmulatorNarrow, a_hard_swish_with_a_steep_gate_has_the_numbers_of_the_library) {
  const int8_t weights[] = {10, 2, 1,  1, -6, -1, -1, -2, -1, 0, 2, -1, 11, 2,  0, -1,
                            5,  0, -1, 2, -6, 2,  -2, 1,  -8, 0, 0, 2,  8,  -4, 2, 1};
  const int32_t biases[] = {121, -30, 43, 6};
  const float scales[] = {0.3f, 0.9f, 1.9f, 3.1f};
  const std::vector<uint8_t> want{6, 14, 2, 1, 23, 24, 1, 22, 1,  16, 2,  6, 4, 2,  1, 17,
                                  2, 13, 2, 8, 1,  25, 1, 2,  20, 2,  13, 2, 2, 16, 2, 38};
  EXPECT_EQ(narrow_swish(weights, biases, scales, {0.31f, -2}), want);
}

// One tap for each channel is a product and a sum of floats: sums that were cut to 256 have every second
// number wrong.
TEST(EmulatorWide, a_filter_of_one_tap_has_the_numbers_of_the_library) {
  const Numbers x{42856, 49030, 13042, 49165, 33567, 35704, 40990, 25146, 57058, 14480, 24784, 29634};
  const int8_t weights[] = {127, -127, 101, -64};
  const int32_t biases[] = {-1642800, 1342600, -112800, -15600};
  const Numbers want{29959, 24522, 23245, 22299, 25240, 33153, 33689, 31830, 37174, 46900, 27633, 30049};
  const auto y = run({"DepthWiseConv2d", {1, 1, 1, 4}, weights, biases, {9e-5f, -30000}}, x, 3);
  ASSERT_TRUE(y.ok()) << y.error().message();
  EXPECT_EQ(*y, want);
}

struct NormFact {
  const char* type;
  qnn::ScaleOffset in, out;
  Numbers x;
  std::vector<int16_t> gains;
  std::vector<int32_t> offsets;
};
Result<Numbers> run(const NormFact& fact) {
  qnn::GraphSpec graph;
  const auto n = static_cast<uint32_t>(fact.x.size());
  const auto tensor = [&](const char* name, qnn::TensorKind kind, qnn::DataType dtype,
                          std::vector<uint32_t> dims, qnn::ScaleOffset q, std::span<const std::byte> data) {
    qnn::TensorSpec t{.name = name, .kind = kind, .dtype = dtype, .dims = std::move(dims), .quantization = q};
    if (!data.empty()) {
      std::byte* bytes = nullptr;
      t.data.source = Tensor::allocate(qnn::storage_of(dtype), Shape{n}, &bytes);
      std::memcpy(bytes, data.data(), data.size());
    }
    return graph.add(std::move(t));
  };
  const auto constant = qnn::TensorKind::constant;
  const qnn::TensorRef in =
      tensor("x", qnn::TensorKind::app_write, qnn::DataType::ufixed16, {1, 1, n}, fact.in, {});
  const qnn::TensorRef gain = tensor("g", constant, qnn::DataType::sfixed16, {n}, {1.0f / 32768, 0},
                                     std::as_bytes(std::span(fact.gains)));
  const qnn::TensorRef offset =
      tensor("b", constant, qnn::DataType::sfixed32, {n}, {1e-9f, 0}, std::as_bytes(std::span(fact.offsets)));
  const qnn::TensorRef out =
      tensor("y", qnn::TensorKind::app_read, qnn::DataType::ufixed16, {1, 1, n}, fact.out, {});
  graph.ops.push_back(
      {"op", fact.type, {in, gain, offset}, {out}, {{"epsilon", 1e-5f}, qnn::words("axes", {2})}});
  return run(graph, {std::as_bytes(std::span(fact.x))}, n);
}

TEST(EmulatorWide, layer_norms_have_the_numbers_of_the_library) {
  NormFact fact{"LayerNorm", {1e-3f, -30000}, {1e-4f, -32768}, {}, {}, std::vector<int32_t>(32)};
  fact.x = {29986, 29985, 30058, 29929, 30044, 29934, 29980, 29950, 30087, 30034, 30146,
            30039, 30051, 30050, 29964, 29996, 30081, 29976, 30011, 29999, 30037, 29978,
            29991, 30015, 30006, 29948, 30054, 29922, 29928, 29923, 30058, 29978};
  fact.gains = {24599, 29101, 26198, 30821, 32020, 25122, 25412, 27063, 28240, 26121, 27687,
                32237, 29371, 24050, 25430, 25133, 21919, 20011, 30111, 25364, 24491, 28061,
                27201, 31936, 27857, 31792, 27388, 24179, 24119, 32624, 27481, 22396};
  const Numbers want{30202, 29566, 40780, 19545, 40007, 22705, 29248, 24394, 46070, 37185, 55115,
                     39138, 40579, 39027, 26928, 31578, 42343, 29540, 33915, 32000, 37328, 28562,
                     30705, 34712, 33035, 22569, 40520, 21430, 22283, 17656, 41172, 29411};
  const auto y = run(fact);
  ASSERT_TRUE(y.ok()) << y.error().message();
  EXPECT_EQ(*y, want);
  // Equal numbers have no deviation; that their mean is a float beside them does not count.
  fact.x = Numbers(32, 33974);
  const auto zero = run(fact);
  ASSERT_TRUE(zero.ok()) << zero.error().message();
  EXPECT_EQ(*zero, Numbers(32, 32768));
}

// Of so wide a row the inverse deviation has 31 places, which are fewer than 16 bits.
TEST(EmulatorWide, a_layer_norm_of_large_numbers_has_the_numbers_of_the_library) {
  const NormFact fact{"LayerNorm",
                      {1e-3f, -30500},
                      {4e-4f, -32768},
                      {60163, 17595, 32491, 14071, 21086, 21900, 53644, 47607, 22364, 31150, 41949, 17436,
                       29178, 23216, 60854, 63303},
                      {14340, 20349, 1266, 30664, -2485, 9327, 27825, 6469, 28113, 5358, 7029, 4135, 16319,
                       14287, 31849, 21588},
                      {-226500, 249700, 79000, -219300, -85700, -76600, 154100, -48800, -169800, 288500,
                       84700, -90000, 231100, -10400, -134700, -117000}};
  const Numbers want{34430, 31156, 32754, 29841, 32925, 32213, 35164, 33146,
                     31155, 32677, 32996, 32437, 32342, 32004, 36563, 35583};
  const auto y = run(fact);
  ASSERT_TRUE(y.ok()) << y.error().message();
  EXPECT_EQ(*y, want);
}

// The fourth number is 0 and its gain negative: a step below the zero point.
TEST(EmulatorWide, rms_norms_have_the_numbers_of_the_library) {
  const NormFact fact{"RmsNorm",
                      {1e-3f, -30500},
                      {1e-4f, -32768},
                      {30689, 30930, 31090, 30500, 31847, 30561, 30890, 31113, 30840, 30484, 30932, 30992,
                       31118, 30882, 31405, 31066},
                      {31437, 18256, 4699, -2500, 12657, 14622, 24930, -4759, 8080, 15783, 4353, 31572, 28971,
                       10033, -870, -4402},
                      {-136300, -153800, 247600, 0, 26600, 237600, -261500, -15800, -157000, -229800, -189200,
                       -252800, 130700, 289600, 2000, -261400}};
  const Numbers want{35969, 36998, 34265, 32767, 41959, 33251, 38007, 31195,
                     34247, 32629, 33779, 41139, 42421, 34837, 32343, 31422};
  const auto y = run(fact);
  ASSERT_TRUE(y.ok()) << y.error().message();
  EXPECT_EQ(*y, want);
}

}  // namespace
}  // namespace sixfold::emulator
