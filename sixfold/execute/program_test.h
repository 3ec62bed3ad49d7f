// For tests of the runtime: methods written by hand, and the file that they become.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "sixfold/execute/method.h"
#include "sixfold/pte/testing.h"
#include "sixfold/pte/write.h"

namespace sixfold::testing {

// One method, "forward". Values are added in order and named by their index.
class MethodWriter {
 public:
  MethodWriter() {
    method().name = "forward";
    method().chains.emplace_back();
    program_.constants.emplace_back();
    program_.mutable_data.emplace_back();
  }
  pte::Method& method() {
    return program_.methods.empty() ? program_.methods.emplace_back() : program_.methods[0];
  }

  pte::Index add(pte::Value value) {
    method().values.push_back(std::move(value));
    return static_cast<pte::Index>(method().values.size() - 1);
  }
  static pte::Tensor tensor(std::vector<int32_t> sizes, DType dtype = DType::f32) {
    pte::Tensor t;
    t.dtype = dtype;
    for (size_t i = 0; i < sizes.size(); ++i) t.dim_order.push_back(static_cast<uint8_t>(i));
    t.sizes = std::move(sizes);
    return t;
  }
  // In planned buffer 1, at `offset`, or after all others.
  pte::Index planned(pte::Tensor t, int64_t offset = -1) {
    const auto bytes = static_cast<int64_t>(pte::size_bytes(t).value());
    if (offset < 0) offset = arena_bytes_;
    t.allocation = pte::Allocation{1, static_cast<uint64_t>(offset)};
    arena_bytes_ = std::max(arena_bytes_, (offset + bytes + 63) / 64 * 64);
    return add(std::move(t));
  }
  pte::Index constant(pte::Tensor t, const std::vector<float>& data) {
    data_.push_back(std::make_unique<std::vector<float>>(data));
    program_.constants.push_back(std::as_bytes(std::span(*data_.back())));
    t.data_index = static_cast<uint32_t>(program_.constants.size() - 1);
    return add(std::move(t));
  }
  // name is "aten::add.out"
  void call(const std::string& name, std::vector<pte::Index> args) {
    const size_t dot = name.find('.');
    pte::Operator op{name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)};
    method().operators.push_back(std::move(op));
    emit(pte::KernelCall{static_cast<uint32_t>(method().operators.size() - 1), std::move(args)});
  }
  void emit(pte::Instruction instruction) { method().chains[0].push_back(std::move(instruction)); }

  int64_t arena_bytes() const { return arena_bytes_; }

  // The program of the file that these become; the file lives in the writer.
  Result<Program> load() {
    method().buffer_sizes = {0, arena_bytes_};
    SF_ASSIGN(const std::vector<std::byte> bytes, pte::write(program_));
    file_ = std::make_unique<pte::AlignedBytes>(bytes);
    return Program::from_memory(file_->bytes());
  }
  std::unique_ptr<Method> load_method(const MethodOptions& options = {}) {
    auto program = load();
    EXPECT_TRUE(program.ok()) << program.error().message();
    if (!program.ok()) return nullptr;
    auto method = Method::load(*program, "forward", options);
    EXPECT_TRUE(method.ok()) << method.error().message();
    return method.ok() ? std::move(method).value() : nullptr;
  }

 private:
  pte::Program program_;
  std::vector<std::unique_ptr<std::vector<float>>> data_;
  std::unique_ptr<pte::AlignedBytes> file_;
  int64_t arena_bytes_ = 0;
};

inline Status feed(Method& method, size_t i, const std::vector<float>& data, const Shape& sizes) {
  return method.set_input(i,
                          TensorView{DType::f32, sizes, {}, reinterpret_cast<const std::byte*>(data.data())});
}
inline std::vector<float> floats(const Method& method, size_t i) {
  auto t = method.output_tensor(i);
  EXPECT_TRUE(t.ok());
  const auto* data = reinterpret_cast<const float*>(t->data);
  return {data, data + t->size_bytes() / sizeof(float)};
}
// Files in test/pte, by name.
inline std::string golden_path(const std::string& name) { return SIXFOLD_SOURCE_DIR "/test/pte/" + name; }
inline Program golden(const std::string& name) {
  auto program = Program::open(golden_path(name));
  EXPECT_TRUE(program.ok()) << program.error().message();
  return std::move(program).value();
}

// A run with inputs of `extent` along an axis that may change: outputs as bytes.
inline Result<std::vector<std::byte>> run_method(Method& method, int64_t extent) {
  for (size_t i = 0; i < method.input_count(); ++i) {
    const auto* t = std::get_if<TensorState>(&method.input(i));
    if (!t) continue;
    Shape sizes = t->sizes;
    if (t->resizable && !sizes.empty()) sizes[0] = extent;
    std::vector<float> data(static_cast<size_t>(numel(sizes)));
    for (size_t k = 0; k < data.size(); ++k) data[k] = static_cast<float>(k % 7) - 2.5f;
    SF_TRY(method.set_input(
        i, TensorView{t->dtype, sizes, t->dim_order, reinterpret_cast<const std::byte*>(data.data())}));
    if (!t->planned) return unsupported("an input that is not copied");
  }
  SF_TRY(method.execute());
  std::vector<std::byte> out;
  for (size_t i = 0; i < method.output_count(); ++i)
    if (auto t = method.output_tensor(i); t.ok()) out.insert(out.end(), t->data, t->data + t->size_bytes());
  return out;
}

inline std::string message(const Status& status) { return status.ok() ? "ok" : status.error().message(); }

}  // namespace sixfold::testing
