// The same bits on every CPU: hashes of what ops give for inputs that are made of numbers alone.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "sixfold/emulator/emulator.h"
#include "sixfold/qnn/context.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sixfold::emulator {
namespace {

using qnn::DataType;
using qnn::GraphSpec;
using qnn::ScaleOffset;
using qnn::TensorKind;
using qnn::TensorRef;

uint32_t next(uint32_t& state) { return (state = state * 1664525u + 1013904223u) >> 8; }

// Random bytes; floats within [-4, 4).
void fill(DataType dtype, std::span<std::byte> bytes, uint32_t seed) {
  uint32_t state = seed;
  if (dtype != DataType::f32) {
    for (std::byte& b : bytes) b = static_cast<std::byte>(next(state));
    return;
  }
  for (size_t i = 0; i < bytes.size(); i += 4) {
    const float x = static_cast<float>(next(state) % 4096) / 512 - 4;
    std::memcpy(bytes.data() + i, &x, 4);
  }
}

class Net {
 public:
  Net() { graph_.name = "bits"; }
  TensorRef input(DataType dtype, std::vector<uint32_t> dims) {
    return add(TensorKind::app_write, dtype, dims);
  }
  TensorRef output(DataType dtype, std::vector<uint32_t> dims) {
    return add(TensorKind::app_read, dtype, dims);
  }
  TensorRef constant(DataType dtype, std::vector<uint32_t> dims) {
    return add(TensorKind::constant, dtype, dims);
  }
  void op(const char* type, std::vector<TensorRef> in, TensorRef out, std::vector<qnn::Param> params = {}) {
    graph_.ops.push_back({type, type, std::move(in), {out}, std::move(params)});
  }
  uint64_t run() {
    Result<qnn::Backend> backend = qnn::Backend::open(library(), 57);
    EXPECT_TRUE(backend.ok());
    auto context = qnn::Context::build(*backend, {&graph_, 1});
    EXPECT_TRUE(context.ok()) << context.error().message();
    if (!context.ok()) return 0;
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::span<const std::byte>> ins;
    std::vector<std::span<std::byte>> outs;
    memory.reserve(graph_.tensors.size());
    for (const qnn::TensorSpec& t : graph_.tensors) {
      size_t bytes = qnn::size_of(t.dtype);
      for (const uint32_t d : t.dims) bytes *= d;
      if (t.kind == TensorKind::constant) continue;
      auto& m = memory.emplace_back(bytes);
      if (t.kind == TensorKind::app_write) {
        fill(t.dtype, m, static_cast<uint32_t>(memory.size()));
        ins.emplace_back(m);
      } else {
        outs.emplace_back(m);
      }
    }
    const Status s = context->graphs().front().execute(ins, outs);
    EXPECT_TRUE(s.ok()) << s.error().message();
    uint64_t hash = 0;
    for (const auto& out : outs) hash = XXH3_64bits_withSeed(out.data(), out.size(), hash);
    return hash;
  }

 private:
  TensorRef add(TensorKind kind, DataType dtype, const std::vector<uint32_t>& dims) {
    names_.push_back("t" + std::to_string(names_.size()));
    qnn::TensorSpec spec{.name = names_.back(), .kind = kind, .dtype = dtype, .dims = dims};
    if (dtype == DataType::ufixed8) spec.quantization = ScaleOffset{0.031f, -113};
    if (dtype == DataType::sfixed8) spec.quantization = ScaleOffset{0.0123f, 0};
    if (dtype == DataType::ufixed16) spec.quantization = ScaleOffset{0.00013f, -31000};
    if (dtype == DataType::sfixed32) spec.quantization = ScaleOffset{0.031f * 0.0123f, 0};
    if (kind == TensorKind::constant) {
      std::byte* bytes = nullptr;
      spec.data.source = Tensor::allocate(dtype == DataType::sfixed32 ? DType::i32
                                          : dtype == DataType::f32    ? DType::f32
                                                                      : DType::i8,
                                          Shape(dims.begin(), dims.end()), &bytes);
      fill(dtype, {bytes, spec.data.source.size_bytes()}, 77);
      if (dtype == DataType::sfixed32)  // biases of a size that sums have
        for (int64_t i = 0; i < spec.data.source.count(); ++i)
          reinterpret_cast<int32_t*>(bytes)[i] /= 1 << 18;
    }
    return graph_.add(std::move(spec));
  }
  std::vector<std::string> names_;
  GraphSpec graph_;
};

uint64_t conv(DataType activation, const char* type, std::vector<uint32_t> filter, uint32_t stride) {
  Net net;
  const uint32_t out = (9 - filter[0]) / stride + 1;
  const TensorRef x = net.input(activation, {1, 9, 9, 20}), w = net.constant(DataType::sfixed8, filter),
                  b = net.constant(DataType::sfixed32, {filter[3]}),
                  y = net.output(activation, {1, out, out, filter[3]});
  net.op(type, {x, w, b}, y,
         {qnn::words("stride", {stride, stride}), qnn::words("pad_amount", {2, 2}, {0, 0, 0, 0})});
  return net.run();
}

uint64_t unary(DataType dtype, const char* type, std::vector<qnn::Param> params = {}) {
  Net net;
  const TensorRef x = net.input(dtype, {3, 1000}), y = net.output(dtype, {3, 1000});
  net.op(type, {x}, y, std::move(params));
  return net.run();
}

uint64_t binary(DataType dtype, const char* type) {
  Net net;
  const TensorRef a = net.input(dtype, {3, 1000}), b = net.input(dtype, {1, 1000}),
                  y = net.output(dtype, {3, 1000});
  net.op(type, {a, b}, y);
  return net.run();
}

uint64_t product(DataType dtype, DataType second) {
  Net net;
  const TensorRef a = net.input(dtype, {2, 13, 50}), b = net.input(second, {2, 50, 17}),
                  y = net.output(dtype, {2, 13, 17});
  net.op("MatMul", {a, b}, y);
  return net.run();
}

constexpr DataType u8 = DataType::ufixed8, u16 = DataType::ufixed16, f32 = DataType::f32;

using Hashes = std::vector<std::pair<std::string, uint64_t>>;

Hashes hashes() {
  return {
      {"conv u8", conv(u8, "Conv2d", {3, 3, 20, 24}, 1)},
      {"conv u16", conv(u16, "Conv2d", {3, 3, 20, 24}, 2)},
      {"depthwise u8", conv(u8, "DepthWiseConv2d", {3, 3, 1, 20}, 1)},
      {"depthwise u8 by 2", conv(u8, "DepthWiseConv2d", {3, 3, 1, 20}, 2)},
      {"matmul u8", product(u8, u8)},
      {"matmul u16", product(u16, u16)},
      {"matmul f32", product(f32, f32)},
      {"add u8", binary(u8, "ElementWiseAdd")},
      {"multiply u16", binary(u16, "ElementWiseMultiply")},
      {"divide f32", binary(f32, "ElementWiseDivide")},
      {"sigmoid u8", unary(u8, "Sigmoid")},
      {"sigmoid u16", unary(u16, "Sigmoid")},
      {"tanh f32", unary(f32, "Tanh")},
      {"gelu f32", unary(f32, "Gelu")},
      {"exp f32", unary(f32, "ElementWiseExp")},
      {"softmax u8", unary(u8, "Softmax", {{"axis", uint32_t{1}}})},
      {"softmax f32", unary(f32, "Softmax", {{"axis", uint32_t{1}}})},
  };
}

// SIXFOLD_BITS_WRITE names a file for the hashes of this CPU, SIXFOLD_BITS_READ those of another one.
TEST(EmulatorBits, are_those_of_every_cpu_and_number_of_threads) {
  set_threads(1);
  const Hashes alone = hashes();
  set_threads(3);
  const Hashes together = hashes();
  set_threads(0);
  EXPECT_EQ(alone, together);
  if (const char* path = std::getenv("SIXFOLD_BITS_WRITE")) {
    std::ofstream file(path);
    for (const auto& [name, hash] : alone) file << hash << ' ' << name << '\n';
  }
  if (const char* path = std::getenv("SIXFOLD_BITS_READ")) {
    std::ifstream file(path);
    for (const auto& [name, hash] : alone) {
      uint64_t theirs = 0;
      std::string label;
      ASSERT_TRUE(file >> theirs && std::getline(file, label)) << name;
      EXPECT_EQ(hash, theirs) << name;
    }
  }
}

}  // namespace
}  // namespace sixfold::emulator
