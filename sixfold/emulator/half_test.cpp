// Halves of the device, and results of Qualcomm's library (SDK 2.49, SM8650) beyond 65504.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sixfold/emulator/emulator.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/qnn/context.h"

namespace sixfold::emulator {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
using Floats = std::vector<float>;

Result<Floats> run(const char* type, const std::vector<Floats>& operands) {
  qnn::GraphSpec graph;
  qnn::OpSpec op{.name = "op", .type = type};
  const std::vector<uint32_t> dims{static_cast<uint32_t>(operands[0].size())};
  const auto tensor = [&](const std::string& name, qnn::TensorKind kind) {
    return graph.add({.name = name, .kind = kind, .dtype = qnn::DataType::f32, .dims = dims});
  };
  std::vector<std::span<const std::byte>> in;
  for (const Floats& x : operands) {
    op.in.push_back(tensor(cat("x", in.size()), qnn::TensorKind::app_write));
    in.push_back(std::as_bytes(std::span(x)));
  }
  op.out.push_back(tensor("y", qnn::TensorKind::app_read));
  graph.ops.push_back(op);
  SF_ASSIGN(const qnn::Backend backend, qnn::Backend::open(library(), 57));
  SF_ASSIGN(qnn::Context context, qnn::Context::build(backend, {&graph, 1}));
  Floats y(operands[0].size());
  const std::span<std::byte> out[] = {std::as_writable_bytes(std::span(y))};
  SF_TRY(context.graphs().front().execute(in, out));
  for (float& v : y) v = to_half(v);  // without what a half gets on its way out
  return y;
}

TEST(DeviceHalf, has_numbers_where_ieee_has_infinity_and_nan) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    DeviceHalf h;
    h.bits = static_cast<uint16_t>(bits);
    ASSERT_EQ(DeviceHalf(static_cast<float>(h)).bits, bits);
  }
  EXPECT_EQ(to_half(65519), 65504);
  EXPECT_EQ(to_half(65520), 65536);
  EXPECT_EQ(to_half(70000), 70016);
  EXPECT_EQ(to_half(1e9f), 131008);
  EXPECT_EQ(to_half(-kInf), -131008);
  EXPECT_EQ(to_half(std::nanf("")), 131008);
  EXPECT_EQ(to_ieee_half(-70000), -65536);
}

TEST(DeviceHalf, ties_go_away_from_zero_but_in_the_matrix_unit) {
  constexpr float kTie = 1 + 0x1p-11f, kUp = 1 + 0x1p-10f;
  EXPECT_EQ(to_half(kTie), kUp);
  EXPECT_EQ(to_half(-kTie), -kUp);
  EXPECT_EQ(to_half(0x1p-20f + 0x1p-25f), 0x1p-20f + 0x1p-24f);
  EXPECT_EQ(to_half(std::nextafter(kTie, 0.0f)), 1);
  EXPECT_EQ(to_ieee_half(kTie), 1);
  const Result<Floats> product = run("ElementWiseMultiply", {{1 + 0x1p-9f, -1 - 0x1p-9f}, {1.25f, 1.25f}});
  ASSERT_TRUE(product.ok());
  EXPECT_EQ(*product, (Floats{1.2529296875f, -1.2529296875f}));
  // A sum with 16 channels or more is IEEE's.
  for (const size_t count : {size_t{8}, size_t{16}}) {
    const Result<Floats> sum = run("ElementWiseAdd", {Floats(count, 1), Floats(count, 0x1p-11f)});
    ASSERT_TRUE(sum.ok());
    EXPECT_EQ(*sum, Floats(count, count < 16 ? kUp : 1));
  }
}

TEST(DeviceHalf, a_bias_that_is_subnormal_has_a_hidden_bit) {
  EXPECT_EQ(to_bias(0), 0);
  EXPECT_EQ(to_bias(0x1p-14f), 0x1p-14f);
  EXPECT_EQ(to_bias(0x1p-24f), 0x1p-15f + 0x1p-25f);
  EXPECT_EQ(to_bias(-0x3p-24f), -0x1p-15f - 0x3p-25f);
}

// Sums of products are rounded once, with the bias that is added to them.
TEST(DeviceHalf, a_product_hands_on_its_sums_to_a_bias) {
  qnn::GraphSpec graph;
  const auto tensor = [&](const char* name, qnn::TensorKind kind, std::vector<uint32_t> dims) {
    return graph.add({.name = name, .kind = kind, .dtype = qnn::DataType::f32, .dims = std::move(dims)});
  };
  const auto a = tensor("a", qnn::TensorKind::app_write, {1, 2}),
             b = tensor("b", qnn::TensorKind::app_write, {2, 2}),
             c = tensor("c", qnn::TensorKind::app_write, {2}),
             t = tensor("t", qnn::TensorKind::native, {1, 2}),
             y = tensor("y", qnn::TensorKind::app_read, {1, 2});
  graph.ops.push_back({.name = "product", .type = "MatMul", .in = {a, b}, .out = {t}});
  graph.ops.push_back({.name = "sum", .type = "ElementWiseAdd", .in = {c, t}, .out = {y}});
  const auto backend = qnn::Backend::open(library(), 57);
  ASSERT_TRUE(backend.ok());
  auto context = qnn::Context::build(*backend, {&graph, 1});
  ASSERT_TRUE(context.ok()) << context.error().message();
  const Floats x{1, 0x1p-11f}, w{1, 2, 1, 1}, bias{0x1p-12f, 1};
  Floats out(2);
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(x)), std::as_bytes(std::span(w)),
                                           std::as_bytes(std::span(bias))};
  const std::span<std::byte> results[] = {std::as_writable_bytes(std::span(out))};
  ASSERT_TRUE(context->graphs().front().execute(in, results).ok());
  EXPECT_EQ(out, (Floats{1 + 0x1p-10f + 0x1p-23f, 3 + 0x1p-22f}));
}

// `function` of what `maker` gives for x and 1; gated: times that.
Result<Floats> run_behind(const char* maker, const char* function, const Floats& x, bool gated) {
  qnn::GraphSpec graph;
  const auto tensor = [&](const char* name, qnn::TensorKind kind, std::vector<uint32_t> dims) {
    return graph.add({.name = name, .kind = kind, .dtype = qnn::DataType::f32, .dims = std::move(dims)});
  };
  const std::vector<uint32_t> dims{static_cast<uint32_t>(x.size()), 1};
  const auto a = tensor("a", qnn::TensorKind::app_write, dims),
             b = tensor("b", qnn::TensorKind::app_write, {1, 1}),
             t = tensor("t", qnn::TensorKind::native, dims),
             f = tensor("f", gated ? qnn::TensorKind::native : qnn::TensorKind::app_read, dims);
  graph.ops.push_back({.name = "maker", .type = maker, .in = {a, b}, .out = {t}});
  graph.ops.push_back({.name = "function", .type = function, .in = {t}, .out = {f}});
  if (gated)
    graph.ops.push_back({.name = "gate",
                         .type = "ElementWiseMultiply",
                         .in = {t, f},
                         .out = {tensor("y", qnn::TensorKind::app_read, dims)}});
  SF_ASSIGN(const qnn::Backend backend, qnn::Backend::open(library(), 57));
  SF_ASSIGN(qnn::Context context, qnn::Context::build(backend, {&graph, 1}));
  const Floats one{1};
  Floats y(x.size());
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(x)), std::as_bytes(std::span(one))};
  const std::span<std::byte> out[] = {std::as_writable_bytes(std::span(y))};
  SF_TRY(context.graphs().front().execute(in, out));
  for (float& v : y) v = to_half(v);
  return y;
}

// The library's numbers.
TEST(DeviceHalf, functions_behind_products_are_those_of_the_matrix_unit) {
  struct Fact {
    const char* function;
    bool gated;
    Floats x, y;
  };
  const Floats x{-6, -5, -1, -0.5f, 0, 0.5f, 1, 3};
  const Fact facts[] = {
      {"Sigmoid",
       false,
       x,
       {0, 0.00994873046875f, 0.2685546875f, 0.380615234375f, 0.499755859375f, 0.619140625f, 0.7314453125f,
        0.955078125f}},
      {"Tanh",
       false,
       x,
       {-1, -1, -0.7568359375f, -0.462646484375f, 0x1p-15f, 0.462646484375f, 0.7568359375f, 1}},
      {"Gelu", false, x, {0, 0, -0.1583251953125f, -0.1534423828125f, 0, 0.346923828125f, 0.84228515625f, 3}},
      {"Sigmoid",
       true,
       {-4.890625f, -1.671875f, 0.34375f, 1.40625f, 4.625f},
       {-0.052215576171875f, -0.26953125f, 0.199951171875f, 1.1259765625f, 4.56640625f}},
  };
  for (const Fact& fact : facts) {
    const Result<Floats> y = run_behind("MatMul", fact.function, fact.x, fact.gated);
    ASSERT_TRUE(y.ok()) << fact.function << ": " << y.error().message();
    EXPECT_EQ(*y, fact.y) << fact.function;
  }
  const Result<Floats> other = run_behind("ElementWiseMultiply", "Tanh", {0, 0.5f, 3}, /*gated=*/false);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(*other, (Floats{0, 0.462158203125f, 0.9951171875f}));
}

// The library's numbers.
TEST(DeviceHalf, leaves_as_a_float_of_the_vector_unit) {
  const Floats x{0, 1, -3.5f, 0x1p-14f, 0x1p-15f, -0x1p-24f, 65504};
  qnn::GraphSpec graph;
  const auto tensor = [&](const char* name, qnn::TensorKind kind) {
    return graph.add({.name = name, .kind = kind, .dtype = qnn::DataType::f32, .dims = {7}});
  };
  const auto a = tensor("a", qnn::TensorKind::app_write), y = tensor("y", qnn::TensorKind::app_read);
  graph.ops.push_back({.name = "neg", .type = "ElementWiseNeg", .in = {a}, .out = {y}});
  const auto backend = qnn::Backend::open(library(), 57);
  ASSERT_TRUE(backend.ok());
  auto context = qnn::Context::build(*backend, {&graph, 1});
  ASSERT_TRUE(context.ok()) << context.error().message();
  Floats out(x.size());
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(x))};
  const std::span<std::byte> results[] = {std::as_writable_bytes(std::span(out))};
  ASSERT_TRUE(context->graphs().front().execute(in, results).ok());
  EXPECT_EQ(out, (Floats{0, -1 - 0x1p-23f, 3.5f + 0x1p-22f, -0x1p-14f - 0x1p-37f, -0x1p-15f - 0x1p-37f,
                         0x1p-24f + 0x1p-37f, -65504 - 0x1p-8f}));
}

// An op that changes types sees what the client gave, whatever else reads it.
TEST(DeviceHalf, others_see_halves_of_what_a_quantize_sees_as_it_is) {
  qnn::GraphSpec graph;
  const auto a =
      graph.add({.name = "a", .kind = qnn::TensorKind::app_write, .dtype = qnn::DataType::f32, .dims = {2}});
  const auto q = graph.add({.name = "q",
                            .kind = qnn::TensorKind::app_read,
                            .dtype = qnn::DataType::ufixed16,
                            .dims = {2},
                            .quantization = qnn::ScaleOffset{0x1p-14f, 0}});
  const auto y =
      graph.add({.name = "y", .kind = qnn::TensorKind::app_read, .dtype = qnn::DataType::f32, .dims = {2}});
  graph.ops.push_back({.name = "quantize", .type = "Quantize", .in = {a}, .out = {q}});
  graph.ops.push_back({.name = "neg", .type = "ElementWiseNeg", .in = {a}, .out = {y}});
  const auto backend = qnn::Backend::open(library(), 57);
  ASSERT_TRUE(backend.ok());
  auto context = qnn::Context::build(*backend, {&graph, 1});
  ASSERT_TRUE(context.ok()) << context.error().message();
  const Floats x{1 + 0x1p-12f, 3 + 0x1p-13f};
  Floats out(2);
  std::vector<uint16_t> numbers(2);
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(x))};
  const std::span<std::byte> results[] = {std::as_writable_bytes(std::span(numbers)),
                                          std::as_writable_bytes(std::span(out))};
  ASSERT_TRUE(context->graphs().front().execute(in, results).ok());
  EXPECT_EQ(numbers, (std::vector<uint16_t>{16388, 49154}));
  EXPECT_EQ(out, (Floats{-1 - 0x1p-23f, -3 - 0x1p-22f}));
}

TEST(DeviceHalf, ops_go_beyond_65504_as_the_library_does) {
  struct Fact {
    const char* type;
    std::vector<Floats> x;
    Floats y;
  };
  const Fact facts[] = {
      {"ElementWiseSubtract",
       {{65504, 65504, kInf, 80000, -kInf}, {-5504, -100, kInf, 70000, 5}},
       {71040, 65600, 0, 9984, -131008}},
      {"ElementWiseMultiply",
       {{60000, 30000, 30000, kInf, 512}, {1.1f, 4, -4.4f, 0, 256}},
       {65984, 120000, -131008, 0, 131008}},
      {"ElementWiseDivide", {{1, -1, 0, 1}, {0, 0, 0, 1e-5f}}, {65504, -65504, 0, 65504}},
      {"ElementWiseExp", {{11, 11.1f, 11.77f, 20}}, {59872, 66304, 129728, 131008}},
      {"ElementWiseLog", {{0, 1}}, {-7.625, 0}},
      {"ElementWiseSquareRoot", {{kInf, 70000, -4}}, {362, 264.5f, -131008}},
      {"ElementWiseNeg", {{kInf, 70000}}, {-131008, -70016}},
      {"Relu", {{kInf, -kInf, 70000, 65504}}, {65536, 0, 65536, 65504}},
      // Of 16 channels and more: IEEE's sums.
      {"ElementWiseAdd", {{70000, 65504}, {-80000, 5504}}, {-9984, 71040}},
      {"ElementWiseAdd",
       {{70000, 1, -70000, 65536, 80000, -70000, kInf, 65504, 65504, 60000, 1, 2, 3, 4, 5, 6},
        {1, 70000, 80000, -65536, -70000, 65536, -kInf, 20, 12, 5504, 1, 1, 1, 1, 1, 1}},
       {102784, 102784, 112768, -98304, -102784, -102784, -131008, 65536, 65504, 65504, 2, 3, 4, 5, 6, 7}},
  };
  for (const Fact& fact : facts) {
    const Result<Floats> y = run(fact.type, fact.x);
    ASSERT_TRUE(y.ok()) << fact.type << ": " << y.error().message();
    EXPECT_EQ(*y, fact.y) << fact.type;
  }
}

}  // namespace
}  // namespace sixfold::emulator
