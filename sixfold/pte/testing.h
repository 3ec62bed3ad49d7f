// For tests of .pte files: a small program with one of everything, and comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sixfold/pte/program.h"
#include "sixfold/pte/pte_generated.h"

namespace sixfold::pte {

// Bytes at an address of 64-byte alignment, in a block of exactly their size, so that a sanitizer sees a read
// past the end.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::span<const std::byte> bytes)
      : data_(static_cast<std::byte*>(::operator new(bytes.size(), kAlignment))), size_(bytes.size()) {
    if (size_) std::memcpy(data_.get(), bytes.data(), size_);
  }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  std::span<std::byte> bytes() { return {data_.get(), size_}; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_;
};

// forward(x) = x + w, with every kind of value, instruction and data somewhere.
struct Sample {
  std::vector<float> weight = {1, 2, 3, 4, 5, 6}, state = {7, 8};
  std::vector<int64_t> table = {9, 10, 11};
  std::string blob = "a delegate's blob", spec = "spec", named = "named bytes";
  Program program;

  template <typename T>
  static std::span<const std::byte> view(const T& data) {
    return std::as_bytes(std::span(data.data(), data.size()));
  }

  Sample() {
    program.constants = {{}, view(weight), view(table)};
    program.mutable_data = {{}, view(state)};
    program.named_data = {{"some/name", view(named)}};
    Method& m = program.methods.emplace_back();
    m.name = "forward";
    m.values = {
        Tensor{.dtype = DType::f32, .sizes = {2, 3}, .dim_order = {0, 1}, .data_index = 1, .name = "weight"},
        Tensor{.dtype = DType::i64, .sizes = {3}, .dim_order = {0}, .data_index = 2},
        Tensor{.dtype = DType::f32,
               .sizes = {2},
               .dim_order = {0},
               .data_index = 1,
               .allocation = Allocation{1, 64}},
        Tensor{.dtype = DType::f32,
               .sizes = {2, 3},
               .dim_order = {0, 1},
               .dynamism = Dynamism::bounded,
               .allocation = Allocation{1, 0}},
        Tensor{.dtype = DType::f32, .sizes = {2, 3}, .dim_order = {1, 0}, .allocation = Allocation{2, 0}},
        Tensor{.dtype = DType::f32, .sizes = {}, .dim_order = {}},
        None{},
        int64_t{1},
        true,
        -0.5,
        std::string("none"),
        IntList{{7, 7}},
        std::vector<double>{0.25, 1e300},
        std::vector<bool>{true, false, true},
        TensorList{.items = {0, 4}},
        TensorList{.items = {0, -1}, .optional = true},
        Tensor{.dtype = DType::bf16,
               .sizes = {4},
               .dim_order = {0},
               .location = Location::external,
               .name = "far.away"},
    };
    m.inputs = {3};
    m.outputs = {4, 7};
    m.operators = {{"aten::add", "out"}, {"executorch_prim::et_view", "default"}};
    m.delegates = {{.id = "SomeBackend", .blob = view(blob), .specs = {{"key", view(spec)}}}};
    m.chains = {
        {KernelCall{0, {3, 0, 7, 4, 4}}, JumpFalse{8, 3}, DelegateCall{0, {3, 4}}, Move{4, 3}, Free{5}},
        {KernelCall{1, {3, 11, 4}}}};
    m.buffer_sizes = {0, 128, 64};
    m.input_structure = "in";
    m.output_structure = "out";
    program.methods.push_back(
        {.name = "get_n", .values = {int64_t{7}}, .outputs = {0}, .chains = {{}}, .buffer_sizes = {0}});
  }
};

inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// The first thing in which two programs differ, or nothing.
inline std::string difference(const Program& a, const Program& b) {
  if (a.methods.size() != b.methods.size()) return "the number of methods";
  for (size_t i = 0; i < a.methods.size(); ++i) {
    const Method &m = a.methods[i], &n = b.methods[i];
    if (m.name != n.name) return "the name of a method";
    if (m.values.size() != n.values.size()) return "the number of values";
    for (size_t v = 0; v < m.values.size(); ++v)
      if (m.values[v] != n.values[v]) return cat("value ", v);
    if (m.inputs != n.inputs || m.outputs != n.outputs) return "inputs or outputs";
    if (m.chains != n.chains) return "instructions";
    if (m.operators != n.operators) return "operators";
    if (m.buffer_sizes != n.buffer_sizes) return "buffer sizes";
    if (m.input_structure != n.input_structure || m.output_structure != n.output_structure)
      return "structure";
    if (m.delegates.size() != n.delegates.size()) return "the number of delegates";
    for (size_t d = 0; d < m.delegates.size(); ++d) {
      const Delegate &p = m.delegates[d], &q = n.delegates[d];
      if (p.id != q.id || p.inlined != q.inlined || !same(p.blob, q.blob)) return cat("delegate ", d);
      if (p.specs.size() != q.specs.size()) return "the number of compile specs";
      for (size_t s = 0; s < p.specs.size(); ++s)
        if (p.specs[s].key != q.specs[s].key || !same(p.specs[s].value, q.specs[s].value))
          return "compile specs";
    }
  }
  for (const auto data : {&Program::constants, &Program::mutable_data}) {
    const auto &x = a.*data, &y = b.*data;
    // A list of the placeholder alone is as good as none.
    if (std::max<size_t>(x.size(), 1) != std::max<size_t>(y.size(), 1)) return "the number of constants";
    for (size_t i = 1; i < x.size(); ++i)
      if (!same(x[i], y[i])) return cat("constant ", i);
  }
  if (a.named_data.size() != b.named_data.size()) return "the number of named data";
  for (size_t i = 0; i < a.named_data.size(); ++i)
    if (a.named_data[i].key != b.named_data[i].key || !same(a.named_data[i].data, b.named_data[i].data))
      return cat("named data ", i);
  return "";
}

// A method whose values are all the same list.
inline std::vector<std::byte> shared_list_file(size_t values, size_t items) {
  flatbuffers::FlatBufferBuilder builder;
  const auto list = wire::CreateIntList(builder, builder.CreateVector(std::vector<int64_t>(items)));
  const auto value = wire::CreateValue(builder, wire::AnyValue::IntList, list.Union());
  const auto all = builder.CreateVector(std::vector(values, value));
  const auto method = wire::CreateMethod(builder, builder.CreateString("forward"), 0, all);
  wire::FinishProgramBuffer(builder, wire::CreateProgram(builder, 0, builder.CreateVector(&method, 1)));
  const auto flat = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {flat.begin(), flat.end()};
}

}  // namespace sixfold::pte
