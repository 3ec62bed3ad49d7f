// Memory that is not there, and binaries that are damaged behind a right hash: errors, nothing else.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "sixfold/emulator/exercise.h"
#include "sixfold/emulator/exercise_run.h"
#include "sixfold/qnn/context.h"

namespace sixfold::emulator {
namespace {

using qnn::GraphSpec;
using qnn::TensorRef;

// Gives so many blocks and then no more; counts what is not given back.
class Stingy final : public Allocator {
 public:
  explicit Stingy(size_t blocks) : left_(blocks) { objects().allocator = this; }
  ~Stingy() override { objects().allocator = &system_allocator(); }
  Stingy(const Stingy&) = delete;
  Stingy& operator=(const Stingy&) = delete;

  void* allocate(size_t bytes, size_t alignment) override {
    if (left_ == 0) return nullptr;
    --left_;
    ++held;
    return system_allocator().allocate(bytes, alignment);
  }
  void release(void* memory, size_t bytes) override {
    --held;
    system_allocator().release(memory, bytes);
  }
  int held = 0;

 private:
  size_t left_;
};

qnn::TensorSpec tensor(const char* name, TensorKind kind, DataType dtype, std::vector<uint32_t> dims,
                       qnn::Quantization quantization) {
  qnn::TensorSpec spec{.name = name,
                       .kind = kind,
                       .dtype = dtype,
                       .dims = std::move(dims),
                       .quantization = std::move(quantization)};
  if (kind != TensorKind::constant) return spec;
  std::byte* bytes = nullptr;
  spec.data.source = Tensor::allocate(dtype == DataType::sfixed32 ? DType::i32 : DType::i8,
                                      Shape(spec.dims.begin(), spec.dims.end()), &bytes);
  for (size_t i = 0; i < spec.data.source.size_bytes(); ++i) bytes[i] = static_cast<std::byte>(i % 7);
  return spec;
}

// y = softmax(relu(conv(x)) + conv's bias …): packed weights, tables, tensors of parameters, encodings of all
// kinds that convolutions take.
GraphSpec small_net(const char* name) {
  const ScaleOffset u8{0.05f, -100};
  GraphSpec g{.name = name};
  const TensorRef x = g.add(tensor("x", TensorKind::app_write, DataType::ufixed8, {1, 5, 5, 4}, u8));
  const TensorRef y =
      g.add(tensor("y", TensorKind::app_read, DataType::ufixed8, {1, 3, 3, 6}, ScaleOffset{1.0f / 256, 0}));
  const TensorRef w = g.add(tensor("w", TensorKind::constant, DataType::sfixed8, {3, 3, 4, 6},
                                   qnn::AxisScaleOffset{3, std::vector<ScaleOffset>(6, {0.01f, 0})}));
  const TensorRef b =
      g.add(tensor("b", TensorKind::constant, DataType::sfixed32, {6}, ScaleOffset{0.0005f, 0}));
  const TensorRef c = g.add(tensor("c", TensorKind::native, DataType::ufixed8, {1, 3, 3, 6}, u8));
  const TensorRef s =
      g.add(tensor("s", TensorKind::native, DataType::ufixed8, {1, 3, 3, 6}, ScaleOffset{1.0f / 256, 0}));
  const TensorRef m = g.add(tensor("m", TensorKind::native, DataType::ufixed8, {1, 3, 3, 6}, u8));
  g.ops.push_back({"conv",
                   "Conv2d",
                   {x, w, b},
                   {c},
                   {qnn::words("stride", {1, 1}), qnn::words("pad_amount", {2, 2}, {0, 0, 0, 0})}});
  g.ops.push_back({"sigmoid", "Sigmoid", {c}, {s}, {}});
  g.ops.push_back({"multiply", "ElementWiseMultiply", {c, s}, {m}, {}});
  g.ops.push_back({"softmax", "Softmax", {m}, {y}, {{"axis", uint32_t{3}}}});
  return g;
}

Status build_and_run(const qnn::Backend& backend, Bytes* binary) {
  const GraphSpec specs[] = {small_net("one"), small_net("two")};
  SF_ASSIGN(qnn::Context context, qnn::Context::build(backend, specs));
  std::vector<std::byte> in(100, std::byte{120}), out(54);
  const std::span<const std::byte> ins[] = {in};
  const std::span<std::byte> outs[] = {out};
  for (qnn::ContextGraph& g : context.graphs()) SF_TRY(g.execute(ins, outs));
  SF_ASSIGN(*binary, context.binary());
  SF_ASSIGN(const qnn::BinaryInfo info, qnn::read_binary_info(system_library(), *binary));
  SF_ASSIGN(qnn::Context loaded, qnn::Context::load(backend, *binary, info));
  std::vector<std::byte> again(54);
  const std::span<std::byte> outs_again[] = {again};
  for (qnn::ContextGraph& g : loaded.graphs()) SF_TRY(g.execute(ins, outs_again));
  if (again != out) return fail(Code::Internal, "the loaded graph gives something else");
  return {};
}

TEST(EmulatorFaults, every_allocation_may_fail) {
  Result<qnn::Backend> backend = qnn::Backend::open(library(), 57);
  ASSERT_TRUE(backend.ok());
  size_t failures = 0;
  for (size_t blocks = 0;; ++blocks) {
    Stingy memory(blocks);
    Bytes binary;
    const Status s = build_and_run(*backend, &binary);
    ASSERT_EQ(memory.held, 0) << blocks;
    if (s.ok()) break;
    ++failures;
    ASSERT_NE(s.error().message().find("memory"), std::string::npos) << blocks << ": " << s.error().message();
    ASSERT_LT(blocks, 200u);
  }
  EXPECT_GT(failures, 10u);
}

TEST(EmulatorFaults, damage_behind_a_right_hash_is_refused_or_harmless) {
  Result<qnn::Backend> opened = qnn::Backend::open(library(), 57);
  ASSERT_TRUE(opened.ok());
  Bytes binary;
  ASSERT_TRUE(build_and_run(*opened, &binary).ok());
  size_t loaded = 0;
  const auto try_it = [&](std::span<const std::byte> bytes) {
    (void)exercise_reading(bytes);
    if (exercise_binary(opened->handle(), opened->device(), bytes)) ++loaded;
  };
  try_it(binary);
  ASSERT_EQ(loaded, 1u);
  // The graphs come first; of the constants behind them every byte is a weight, and any will do.
  const size_t graphs = std::min<size_t>(binary.size(), 6000);
  for (size_t i = 0; i < graphs; ++i)
    for (const uint8_t change : {0x01, 0x80, 0xFF}) {
      Bytes damaged = binary;
      damaged[i] ^= std::byte{change};
      seal_binary(damaged);
      try_it(damaged);
    }
  EXPECT_GT(loaded, 10u);
  for (size_t n = 0; n < binary.size(); n += 61) {
    std::vector<std::byte> damaged(binary.begin(), binary.begin() + static_cast<std::ptrdiff_t>(n));
    seal_binary(damaged);
    try_it(damaged);
  }
}

}  // namespace
}  // namespace sixfold::emulator
