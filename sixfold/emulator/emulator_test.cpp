#include "sixfold/emulator/emulator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "sixfold/qnn/context.h"

namespace sixfold::emulator {
namespace {

using qnn::DataType;
using qnn::GraphSpec;
using qnn::TensorKind;
using qnn::TensorRef;

constexpr uint32_t kSoc = 57;

qnn::TensorSpec tensor(const char* name, TensorKind kind, DataType dtype, std::vector<uint32_t> dims,
                       qnn::Quantization quantization = {}) {
  return {.name = name,
          .kind = kind,
          .dtype = dtype,
          .dims = std::move(dims),
          .quantization = std::move(quantization)};
}

qnn::TensorSpec constant(const char* name, std::vector<float> values, Shape shape) {
  qnn::TensorSpec spec = tensor(name, TensorKind::constant, DataType::f32, {shape.begin(), shape.end()});
  std::byte* bytes = nullptr;
  spec.data.source = Tensor::allocate(DType::f32, shape, &bytes);
  std::memcpy(bytes, values.data(), values.size() * sizeof(float));
  return spec;
}

// y = softmax(transpose(x) + c)
GraphSpec small_graph(const char* name = "forward") {
  GraphSpec g{.name = name};
  const TensorRef x = g.add(tensor("x", TensorKind::app_write, DataType::f32, {2, 3}));
  const TensorRef y = g.add(tensor("y", TensorKind::app_read, DataType::f32, {3, 2}));
  const TensorRef c = g.add(constant("c", {0.5f, 0.25f}, {2}));
  const TensorRef t = g.add(tensor("t", TensorKind::native, DataType::f32, {3, 2}));
  const TensorRef s = g.add(tensor("s", TensorKind::native, DataType::f32, {3, 2}));
  g.ops.push_back({"transpose", "Transpose", {x}, {t}, {qnn::words("perm", {1, 0})}});
  g.ops.push_back({"add", "ElementWiseAdd", {t, c}, {s}, {}});
  g.ops.push_back({"softmax", "Softmax", {s}, {y}, {{"axis", uint32_t{1}}}});
  return g;
}

qnn::Backend open() {
  Result<qnn::Backend> backend = qnn::Backend::open(library(), kSoc);
  EXPECT_TRUE(backend.ok()) << backend.error().message();
  return std::move(backend).value();
}

template <typename T>
std::vector<T> run(qnn::ContextGraph& graph, const std::vector<T>& x, size_t outputs) {
  std::vector<T> y(outputs);
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(x))};
  const std::span<std::byte> out[] = {std::as_writable_bytes(std::span(y))};
  const Status s = graph.execute(in, out);
  EXPECT_TRUE(s.ok()) << s.error().message();
  return y;
}

const std::vector<float> kX = {1, 2, 3, -1, 0.5f, 4};

TEST(Emulator, a_graph_gives_the_same_built_and_loaded) {
  const qnn::Backend backend = open();
  const GraphSpec spec = small_graph();
  auto built = qnn::Context::build(backend, {&spec, 1});
  ASSERT_TRUE(built.ok()) << built.error().message();
  const std::vector<float> y = run(built->graphs().front(), kX, 6);
  for (size_t i = 0; i < 3; ++i) {
    const float a = kX[i] + 0.5f, b = kX[3 + i] + 0.25f;
    EXPECT_NEAR(y[2 * i], 1 / (1 + std::exp(b - a)), 1e-3) << i;
    EXPECT_NEAR(y[2 * i] + y[2 * i + 1], 1, 1e-3) << i;
  }
  const auto binary = built->binary();
  ASSERT_TRUE(binary.ok()) << binary.error().message();
  const auto info = qnn::read_binary_info(system_library(), *binary);
  ASSERT_TRUE(info.ok()) << info.error().message();
  EXPECT_EQ(info->soc_model, kSoc);
  EXPECT_EQ(info->htp_arch, 75u);
  auto loaded = qnn::Context::load(backend, *binary, *info);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_EQ(run(loaded->graphs().front(), kX, 6), y);
}

TEST(Emulator, binaries_are_the_same_every_time_and_share_constants) {
  const qnn::Backend backend = open();
  const GraphSpec one[] = {small_graph("a")};
  const GraphSpec two[] = {small_graph("a"), small_graph("b")};
  const auto a = qnn::Context::build(backend, one)->binary();
  const auto again = qnn::Context::build(backend, one)->binary();
  const auto both = qnn::Context::build(backend, two)->binary();
  ASSERT_TRUE(a.ok() && again.ok() && both.ok());
  EXPECT_EQ(*a, *again);
  EXPECT_LT(both->size(), 2 * a->size());
}

TEST(Emulator, a_binary_with_any_byte_changed_is_refused) {
  const qnn::Backend backend = open();
  const GraphSpec spec = small_graph();
  auto built = qnn::Context::build(backend, {&spec, 1});
  ASSERT_TRUE(built.ok());
  Bytes binary = *built->binary();
  const auto info = qnn::read_binary_info(system_library(), binary);
  ASSERT_TRUE(info.ok());
  for (size_t i = 0; i < binary.size(); ++i) {
    binary[i] ^= std::byte{0x10};
    EXPECT_FALSE(qnn::Context::load(backend, binary, *info).ok()) << i;
    binary[i] ^= std::byte{0x10};
  }
  for (size_t n = 0; n < binary.size(); n += 7)
    EXPECT_FALSE(qnn::Context::load(backend, std::span(binary).first(n), *info).ok()) << n;
}

TEST(Emulator, a_binary_of_another_chip_is_refused) {
  const qnn::Backend backend = open();
  const GraphSpec spec = small_graph();
  const auto binary = qnn::Context::build(backend, {&spec, 1})->binary();
  const auto info = qnn::read_binary_info(system_library(), *binary);
  const auto other = qnn::Backend::open(library(), 69);
  ASSERT_TRUE(other.ok());
  const auto loaded = qnn::Context::load(*other, *binary, *info);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message().find("SM8650"), std::string::npos) << loaded.error().message();
}

TEST(Emulator, an_op_that_is_not_there_is_refused_with_a_reason) {
  qnn::Backend backend = open();
  GraphSpec g;
  const TensorRef x = g.add(tensor("x", TensorKind::app_write, DataType::f32, {2, 3}));
  const TensorRef y = g.add(tensor("y", TensorKind::app_read, DataType::f32, {2, 3}));
  g.ops.push_back({"n", "NoSuchOp", {x}, {y}, {}});
  const Status s = backend.validate(g, g.ops[0]);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().message().find("NoSuchOp"), std::string::npos) << s.error().message();
}

TEST(Emulator, types_that_are_not_taken_come_with_the_nearest_that_are) {
  qnn::Backend backend = open();
  GraphSpec g;
  const TensorRef x = g.add(tensor("x", TensorKind::app_write, DataType::f32, {2, 3}));
  const TensorRef y = g.add(tensor("y", TensorKind::app_write, DataType::f32, {3, 4}));
  const TensorRef z = g.add(tensor("z", TensorKind::app_read, DataType::i64, {2, 4}));
  g.ops.push_back({"n", "MatMul", {x, y}, {z}, {}});
  const Status s = backend.validate(g, g.ops[0]);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.error().message().find("it does not take in[0] FLOAT_32, in[1] FLOAT_32, out[0] INT_64; "
                                     "the nearest that it takes has out[0] FLOAT_32"),
            std::string::npos)
      << s.error().message();
}

TEST(Emulator, eight_bit_sums_are_rounded_to_the_nearest_step) {
  const qnn::Backend backend = open();
  GraphSpec g;
  const qnn::ScaleOffset a{0.02f, -10}, b{0.05f, -100}, out{0.06f, -77};
  const TensorRef x = g.add(tensor("x", TensorKind::app_write, DataType::ufixed8, {256}, a));
  const TensorRef w = g.add(tensor("w", TensorKind::app_write, DataType::ufixed8, {256}, b));
  const TensorRef y = g.add(tensor("y", TensorKind::app_read, DataType::ufixed8, {256}, out));
  g.ops.push_back({"add", "ElementWiseAdd", {x, w}, {y}, {}});
  auto built = qnn::Context::build(backend, {&g, 1});
  ASSERT_TRUE(built.ok()) << built.error().message();
  std::vector<uint8_t> p(256), q(256), r(256);
  std::iota(p.begin(), p.end(), 0);
  for (size_t i = 0; i < 256; ++i) q[i] = static_cast<uint8_t>(i * 37);
  const std::span<const std::byte> in[] = {std::as_bytes(std::span(p)), std::as_bytes(std::span(q))};
  const std::span<std::byte> outs[] = {std::as_writable_bytes(std::span(r))};
  ASSERT_TRUE(built->graphs().front().execute(in, outs).ok());
  for (size_t i = 0; i < 256; ++i) {
    const double real =
        (p[i] - 10) * static_cast<double>(a.scale) + (q[i] - 100) * static_cast<double>(b.scale);
    const double exact = std::clamp(real / static_cast<double>(out.scale) + 77, 0.0, 255.0);
    EXPECT_NEAR(r[i], exact, 0.5001) << i;
  }
}

}  // namespace
}  // namespace sixfold::emulator
