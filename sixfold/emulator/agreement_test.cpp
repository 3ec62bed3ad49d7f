// The emulator's fixed-point products beside Qualcomm's library, where there is one.
#include <cmath>
#include <cstring>
#include <random>

#include "sixfold/emulator/emulator.h"
#include "sixfold/qnn/guard.h"
#include "sixfold/qnn/live_test.h"

namespace sixfold::emulator {
namespace {

using qnn::AxisScaleOffset;
using qnn::DataType;
using qnn::GraphSpec;
using qnn::ScaleOffset;
using qnn::TensorKind;
using qnn::TensorRef;
using qnn::words;

constexpr uint32_t kSoc = 57;
using Dims = std::vector<uint32_t>;

// One op with random numbers.
struct OneOp {
  GraphSpec graph;
  std::vector<Bytes> inputs;
  std::mt19937 rng{11};
  bool wide = false;

  static size_t count(const Dims& dims) {
    size_t n = 1;
    for (const uint32_t d : dims) n *= d;
    return n;
  }
  DataType activation() const { return wide ? DataType::ufixed16 : DataType::ufixed8; }
  double top() const { return wide ? 65535 : 255; }
  TensorRef input(const char* name, const Dims& dims, double zero, DataType dtype, ScaleOffset q) {
    Bytes bytes(count(dims) * size_of(dtype));
    const double most = size_of(dtype) == 2 ? 65535 : 255;
    std::normal_distribution<double> normal(zero, most / 6);
    for (size_t i = 0; i < count(dims); ++i) {
      const auto v = static_cast<uint16_t>(std::clamp(std::round(normal(rng)), 0.0, most));
      std::memcpy(bytes.data() + i * size_of(dtype), &v, size_of(dtype));
    }
    inputs.push_back(std::move(bytes));
    return graph.add(
        {.name = name, .kind = TensorKind::app_write, .dtype = dtype, .dims = dims, .quantization = q});
  }
  TensorRef x(const Dims& dims) {
    return input("x", dims, top() / 3, activation(),
                 {wide ? 1e-4f : 0.02f, static_cast<int32_t>(-std::floor(top() / 3))});
  }
  TensorRef weights(const Dims& dims, int32_t axis, uint32_t channels) {
    std::byte* bytes = nullptr;
    qnn::TensorSpec w{.name = "w", .kind = TensorKind::constant, .dtype = DataType::sfixed8, .dims = dims};
    w.data.source = Tensor::allocate(DType::i8, Shape(dims.begin(), dims.end()), &bytes);
    for (size_t i = 0; i < count(dims); ++i)
      bytes[i] = static_cast<std::byte>(static_cast<int8_t>(static_cast<int>(rng() % 255) - 127));
    AxisScaleOffset q{axis, {}};
    for (uint32_t i = 0; i < channels; ++i)
      q.channels.push_back({0.002f + 0.0001f * static_cast<float>(i % 17), 0});
    w.quantization = q;
    return graph.add(std::move(w));
  }
  TensorRef y(const Dims& dims, double terms) {
    const double scale =
        std::sqrt(terms) * (top() / 6 * (wide ? 1e-4 : 0.02)) * 73 * 0.0028 * 8 / (top() + 1);
    return graph.add({.name = "y",
                      .kind = TensorKind::app_read,
                      .dtype = activation(),
                      .dims = dims,
                      .quantization = ScaleOffset{static_cast<float>(scale), wide ? -32768 : -128}});
  }
};

Result<Bytes> run_on(const qnn::Backend& backend, const OneOp& op) {
  SF_ASSIGN(qnn::Context context, qnn::Context::build(backend, {&op.graph, 1}));
  const qnn::TensorSpec& y = op.graph.tensors.back();
  Bytes out(OneOp::count(y.dims) * size_of(y.dtype));
  std::vector<std::span<const std::byte>> in(op.inputs.begin(), op.inputs.end());
  const std::span<std::byte> outs[] = {out};
  SF_TRY(context.graphs().front().execute(in, outs));
  return out;
}

// The results of all, one after the other.
Result<Bytes> run_all(const qnn::Library& library, std::span<const OneOp> ops) {
  SF_ASSIGN(const qnn::Backend backend, qnn::Backend::open(library, kSoc));
  Bytes all;
  for (const OneOp& op : ops) {
    SF_ASSIGN(const Bytes bytes, run_on(backend, op));
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

class EmulatorAgreement : public qnn::QnnLive {
 protected:
  // At least `equal` of the elements of each, the rest one step beside.
  void expect_agreement(std::span<const OneOp> ops, double equal) {
    const auto theirs =
        qnn::run_guarded("running ops", 100, [&]() -> Result<Bytes> { return run_all(library_, ops); });
    ASSERT_TRUE(theirs.ok()) << theirs.error().message();
    const auto ours = run_all(library(), ops);
    ASSERT_TRUE(ours.ok()) << ours.error().message();
    ASSERT_EQ(ours->size(), theirs->size());
    size_t at = 0;
    for (const OneOp& op : ops) {
      const qnn::TensorSpec& y = op.graph.tensors.back();
      const size_t element = size_of(y.dtype), n = OneOp::count(y.dims);
      size_t same = 0;
      int largest = 0;
      for (size_t i = 0; i < n; ++i, at += element) {
        uint16_t a = 0, b = 0;
        std::memcpy(&a, ours->data() + at, element);
        std::memcpy(&b, theirs->data() + at, element);
        same += a == b;
        largest = std::max(largest, std::abs(int{a} - int{b}));
      }
      const std::string what = cat(op.graph.ops[0].type, " ", op.wide ? 16 : 8, " bits");
      EXPECT_GE(static_cast<double>(same), equal * static_cast<double>(n)) << what;
      EXPECT_LE(largest, 1) << what;
    }
  }
};

TEST_F(EmulatorAgreement, of_products_with_constant_weights) {
  std::vector<OneOp> ops;
  for (const bool wide : {false, true}) {
    for (const uint32_t k : {1u, 3u}) {
      OneOp op{.wide = wide};
      const TensorRef x = op.x({1, 12, 12, 24}), w = op.weights({k, k, 24, 20}, 3, 20);
      const TensorRef y = op.y({1, 12, 12, 20}, k * k * 24);
      op.graph.ops.push_back({"op",
                              "Conv2d",
                              {x, w},
                              {y},
                              {words("stride", {1, 1}), words("pad_amount", {2, 2}, Dims(4, k / 2))}});
      ops.push_back(std::move(op));
    }
    for (const uint32_t stride : {1u, 2u}) {
      OneOp op{.wide = wide};
      const TensorRef x = op.x({1, 12, 12, 40}), w = op.weights({3, 3, 1, 40}, 3, 40);
      const TensorRef y = op.y({1, 12 / stride, 12 / stride, 40}, 9);
      op.graph.ops.push_back({"op",
                              "DepthWiseConv2d",
                              {x, w},
                              {y},
                              {words("stride", {stride, stride}), words("pad_amount", {2, 2}, Dims(4, 1))}});
      ops.push_back(std::move(op));
    }
    OneOp transposed{.wide = wide};
    {
      const TensorRef x = transposed.x({1, 7, 7, 16}), w = transposed.weights({3, 3, 16, 8}, 3, 8);
      const TensorRef y = transposed.y({1, 14, 14, 8}, 9 * 16 / 4);
      transposed.graph.ops.push_back({"op",
                                      "TransposeConv2d",
                                      {x, w},
                                      {y},
                                      {words("stride", {2, 2}), words("pad_amount", {2, 2}, Dims(4, 1)),
                                       words("output_padding", {1, 1})}});
    }
    ops.push_back(std::move(transposed));
    OneOp linear{.wide = wide};
    {
      const TensorRef x = linear.x({30, 70}), w = linear.weights({50, 70}, 0, 50), y = linear.y({30, 50}, 70);
      linear.graph.ops.push_back({"op", "FullyConnected", {x, w}, {y}, {}});
    }
    ops.push_back(std::move(linear));
  }
  expect_agreement(ops, 0.995);
}

TEST_F(EmulatorAgreement, of_sums_products_and_biases_is_complete) {
  std::vector<OneOp> ops;
  for (const char* type : {"ElementWiseAdd", "ElementWiseSubtract", "ElementWiseMultiply"}) {
    OneOp op;
    const Dims dims{1, 16, 64, 32};
    const TensorRef a = op.input("a", dims, 128, DataType::ufixed8, {0.0536f, -141});
    const TensorRef b = op.input("b", dims, 128, DataType::ufixed8, {0.0491f, -114});
    const TensorRef y = op.graph.add({.name = "y",
                                      .kind = TensorKind::app_read,
                                      .dtype = DataType::ufixed8,
                                      .dims = dims,
                                      .quantization = ScaleOffset{0.07f, -133}});
    op.graph.ops.push_back({"op", type, {a, b}, {y}, {}});
    ops.push_back(std::move(op));
  }
  // One number for all: a table; nothing added: numbers are moved.
  for (const char* type : {"ElementWiseAdd", "ElementWiseSubtract"})
    for (const int number : {114, 200}) {
      OneOp op;
      const Dims dims{1, 4, 16, 32};
      const TensorRef a = op.input("a", dims, 128, DataType::ufixed8, {0.0536f, -141});
      qnn::TensorSpec one{.name = "b",
                          .kind = TensorKind::constant,
                          .dtype = DataType::ufixed8,
                          .dims = {1},
                          .quantization = ScaleOffset{0.0123f, -114}};
      std::byte* byte = nullptr;
      one.data.source = Tensor::allocate(DType::u8, Shape{1}, &byte);
      *byte = static_cast<std::byte>(number);
      const TensorRef b = op.graph.add(std::move(one));
      const TensorRef y = op.graph.add({.name = "y",
                                        .kind = TensorKind::app_read,
                                        .dtype = DataType::ufixed8,
                                        .dims = dims,
                                        .quantization = ScaleOffset{0.061f, -133}});
      op.graph.ops.push_back({"op", type, {a, b}, {y}, {}});
      ops.push_back(std::move(op));
    }
  for (const bool wide : {false, true}) {
    OneOp op{.wide = wide};
    const TensorRef x = op.x({1, 24, 24, 24}), w = op.weights({1, 1, 24, 64}, 3, 64);
    std::byte* bytes = nullptr;
    qnn::TensorSpec bias{
        .name = "b", .kind = TensorKind::constant, .dtype = DataType::sfixed32, .dims = {64}};
    bias.data.source = Tensor::allocate(DType::i32, Shape{64}, &bytes);
    AxisScaleOffset q{0, std::get<AxisScaleOffset>(op.graph.tensor(w).quantization).channels};
    for (size_t i = 0; i < 64; ++i) {
      const auto v = static_cast<int32_t>(op.rng() % 40001) - 20000;
      std::memcpy(bytes + 4 * i, &v, sizeof v);
      q.channels[i].scale *= wide ? 1e-4f : 0.02f;
    }
    bias.quantization = q;
    const TensorRef b = op.graph.add(std::move(bias)), y = op.y({1, 24, 24, 64}, 24);
    op.graph.ops.push_back(
        {"op", "Conv2d", {x, w, b}, {y}, {words("stride", {1, 1}), words("pad_amount", {2, 2}, Dims(4, 0))}});
    ops.push_back(std::move(op));
  }
  expect_agreement(ops, 1);
}

TEST_F(EmulatorAgreement, of_layer_norms_with_8_bits_is_complete) {
  OneOp op;
  const Dims dims{1, 60, 96};
  const TensorRef x = op.input("x", dims, 70, DataType::ufixed8, {0.0258f, -60});
  const auto constant = [&op](const char* name, DataType dtype, ScaleOffset q, auto number) {
    using T = decltype(number(0u));
    qnn::TensorSpec t{
        .name = name, .kind = TensorKind::constant, .dtype = dtype, .dims = {96}, .quantization = q};
    std::byte* bytes = nullptr;
    t.data.source = Tensor::allocate(qnn::storage_of(dtype), Shape{96}, &bytes);
    for (uint32_t i = 0; i < 96; ++i) {
      const T v = number(i);
      std::memcpy(bytes + i * sizeof v, &v, sizeof v);
    }
    return op.graph.add(std::move(t));
  };
  const TensorRef gain = constant("g", DataType::ufixed8, {0.0049f, -99},
                                  [](uint32_t i) { return static_cast<uint8_t>(i * 37 % 256); });
  const TensorRef offset = constant("b", DataType::sfixed32, {1e-6f, 0}, [](uint32_t i) {
    return static_cast<int32_t>(i * 7919 % 200000) - 100000;
  });
  const TensorRef y = op.graph.add({.name = "y",
                                    .kind = TensorKind::app_read,
                                    .dtype = DataType::ufixed8,
                                    .dims = dims,
                                    .quantization = ScaleOffset{0.018f, -118}});
  op.graph.ops.push_back(
      {"op", "LayerNorm", {x, gain, offset}, {y}, {{"epsilon", 1e-5f}, words("axes", {2})}});
  expect_agreement({&op, 1}, 1);
}

TEST_F(EmulatorAgreement, of_products_of_activations_is_complete) {
  std::vector<OneOp> ops;
  const auto add = [&ops](bool wide, double zero, DataType type, bool transposed) {
    OneOp op{.wide = wide};
    const int32_t offset = static_cast<int32_t>(-zero) + (type == DataType::sfixed8 ? 128 : 0);
    const TensorRef x = op.x({2, 30, 64});
    const TensorRef w =
        op.input("w", transposed ? Dims{2, 40, 64} : Dims{2, 64, 40}, zero, type, {0.003f, offset});
    const TensorRef y = op.y({2, 30, 40}, 64);
    op.graph.ops.push_back(
        {"op", "MatMul", {x, w}, {y}, {{"transpose_in0", false}, {"transpose_in1", transposed}}});
    ops.push_back(std::move(op));
  };
  for (const bool wide : {false, true}) {
    // Zero points that leave columns beyond bytes, on either side.
    for (const double zero : {128.0, 100.0, 160.0}) add(wide, zero, DataType::ufixed8, true);
    add(wide, 120, DataType::sfixed8, false);  // floats
  }
  expect_agreement(ops, 1);
}

TEST_F(EmulatorAgreement, of_conversions_of_bytes_is_complete) {
  std::vector<OneOp> ops;
  const Dims dims{1, 4, 16, 32};
  const auto output = [&dims](float scale) {
    return qnn::TensorSpec{.name = "y",
                           .kind = TensorKind::app_read,
                           .dtype = DataType::ufixed8,
                           .dims = dims,
                           .quantization = ScaleOffset{scale, -119}};
  };
  // A product with a number above zero is one, too.
  for (const float ratio : {0.03f, 0.71f, 1.007f, 1.91f, 2.13f, 3.77f, 7.9f}) {
    OneOp converts, multiplies;
    const TensorRef x = converts.input("x", dims, 128, DataType::ufixed8, {0.0167f, -128});
    converts.graph.ops.push_back({"op", "Convert", {x}, {converts.graph.add(output(0.0167f / ratio))}, {}});
    const TensorRef a = multiplies.input("a", dims, 128, DataType::ufixed8, {0.0167f, -128});
    qnn::TensorSpec one{.name = "b",
                        .kind = TensorKind::constant,
                        .dtype = DataType::ufixed8,
                        .dims = {1},
                        .quantization = ScaleOffset{0.0005f, 0}};
    std::byte* byte = nullptr;
    one.data.source = Tensor::allocate(DType::u8, Shape{1}, &byte);
    *byte = std::byte{255};
    const TensorRef b = multiplies.graph.add(std::move(one));
    const TensorRef y = multiplies.graph.add(output(0.0167f * 255 * 0.0005f / ratio));
    multiplies.graph.ops.push_back({"op", "ElementWiseMultiply", {a, b}, {y}, {}});
    ops.push_back(std::move(converts));
    ops.push_back(std::move(multiplies));
  }
  expect_agreement(ops, 1);
}

TEST_F(EmulatorAgreement, of_softmax_of_two_bytes_is_complete) {
  std::vector<OneOp> ops;
  for (const float scale : {0.00390625f, 0.0039f, 0.0021f, 0.006f}) {
    OneOp op;
    const Dims dims{1, 1, 700, 2};
    const TensorRef x = op.input("x", dims, 128, DataType::ufixed8, {0.03f, -128});
    const TensorRef y = op.graph.add({.name = "y",
                                      .kind = TensorKind::app_read,
                                      .dtype = DataType::ufixed8,
                                      .dims = dims,
                                      .quantization = ScaleOffset{scale, -5}});
    op.graph.ops.push_back({"op", "Softmax", {x}, {y}, {{"axis", uint32_t{3}}}});
    ops.push_back(std::move(op));
  }
  expect_agreement(ops, 1);
}

TEST_F(EmulatorAgreement, of_means_of_large_images_is_complete) {
  std::vector<OneOp> ops;
  for (const uint32_t channels : {16u, 32u})
    for (const uint32_t height : {48u, 64u}) {
      OneOp op{.wide = true};
      const TensorRef x =
          op.input("x", {1, height, 64, channels}, 20000, DataType::ufixed16, {0.0002f, -3000});
      const TensorRef y = op.graph.add({.name = "y",
                                        .kind = TensorKind::app_read,
                                        .dtype = DataType::ufixed16,
                                        .dims = {1, 1, 1, channels},
                                        .quantization = ScaleOffset{0.00013f, -1000}});
      op.graph.ops.push_back({"op",
                              "PoolAvg2d",
                              {x},
                              {y},
                              {words("filter_size", {height, 64}),
                               words("stride", {height, 64}),
                               words("pad_amount", {2, 2}, Dims(4, 0)),
                               {"count_pad_for_edges", true}}});
      ops.push_back(std::move(op));
    }
  expect_agreement(ops, 1);
}

}  // namespace
}  // namespace sixfold::emulator
