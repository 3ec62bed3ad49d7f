// A .pte as plain data: what the reader makes of a file after it has verified the file's structure, and what
// the writer serializes. Indices mean what the format says they mean; verify() checks them all, so that who
// takes a verified Program checks nothing again.
//
// Bytes (constants, delegates' blobs) are views: of the file that was read, or of what the writer's caller
// owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sixfold/base/dtype.h"

namespace sixfold::pte {

using Index = int32_t;  // of Method::values; -1 for None in a list of optional tensors

enum class Dynamism : uint8_t { fixed, bounded, unbounded };  // bounded: sizes are the most that it may have
enum class Location : uint8_t { segment, external };          // external: in a .ptd, found by its name

// Where a tensor lives while the method runs: memory_id counts from 1.
struct Allocation {
  uint32_t memory_id = 0;
  uint64_t offset = 0;
  bool operator==(const Allocation&) const = default;
};

struct Tensor {
  DType dtype = DType::none;
  std::vector<int32_t> sizes;
  std::vector<uint8_t> dim_order;  // axes from outermost to innermost
  Dynamism dynamism = Dynamism::fixed;
  // Into Program::constants, or, with an allocation, into Program::mutable_data (the initial value). 0: none.
  uint32_t data_index = 0;
  std::optional<Allocation> allocation;
  Location location = Location::segment;
  std::string name;  // fully qualified; required when external, otherwise optional
  bool operator==(const Tensor&) const = default;
};

// Sizes times element size; nothing for a negative size or more than 63 bits.
std::optional<uint64_t> size_bytes(DType dtype, std::span<const int32_t> sizes);
inline std::optional<uint64_t> size_bytes(const Tensor& tensor) {
  return size_bytes(tensor.dtype, tensor.sizes);
}

struct None {
  bool operator==(const None&) const = default;
};
struct IntList {  // indices of values that are integers, so that computed ones can stand among constants
  std::vector<int64_t> items;
  bool operator==(const IntList&) const = default;
};
struct TensorList {
  std::vector<Index> items;
  bool optional = false;
  bool operator==(const TensorList&) const = default;
};
using Value = std::variant<None, int64_t, bool, double, Tensor, std::string, IntList, std::vector<double>,
                           std::vector<bool>, TensorList>;

struct Operator {
  std::string name;      // "aten::add"
  std::string overload;  // "out"
  bool operator==(const Operator&) const = default;
};

// Arguments of a kernel: every one of its schema, out included, then once more what it returns.
struct KernelCall {
  uint32_t operator_index = 0;
  std::vector<Index> args;
  bool operator==(const KernelCall&) const = default;
};
struct DelegateCall {
  uint32_t delegate_index = 0;
  std::vector<Index> args;  // inputs, then outputs
  bool operator==(const DelegateCall&) const = default;
};
struct Move {
  Index from = 0, to = 0;
  bool operator==(const Move&) const = default;
};
struct JumpFalse {
  Index condition = 0;
  uint32_t destination = 0;  // instruction of the same chain; its length: the end
  bool operator==(const JumpFalse&) const = default;
};
struct Free {
  Index value = 0;
  bool operator==(const Free&) const = default;
};
using Instruction = std::variant<KernelCall, DelegateCall, Move, JumpFalse, Free>;

struct CompileSpec {
  std::string key;
  std::span<const std::byte> value;
};
struct Delegate {
  std::string id;
  std::span<const std::byte> blob;
  bool inlined = false;  // kept in the flatbuffer instead of a segment of its own
  std::vector<CompileSpec> specs;
};

struct Method {
  std::string name;
  std::vector<Value> values;
  std::vector<Index> inputs, outputs;
  std::vector<std::vector<Instruction>> chains;
  std::vector<Operator> operators;
  std::vector<Delegate> delegates;
  std::vector<int64_t> buffer_sizes;              // [0] is reserved; [i] has the tensors of memory_id i
  std::string input_structure, output_structure;  // pytree text; may be empty
};

struct NamedData {
  std::string key;
  std::span<const std::byte> data;
};

struct Program {
  std::vector<Method> methods;
  // By Tensor::data_index; entry 0 is a placeholder. The file has no lengths: read() cuts each to the largest
  // tensor that uses it and fits, and leaves one that nobody uses empty.
  std::vector<std::span<const std::byte>> constants, mutable_data;
  std::vector<NamedData> named_data;
};

}  // namespace sixfold::pte
