// The words of the QNN API as plain values: what lowering writes and engines read.
//
// These own what they hold and know nothing of the C structs (qnn/abi.h): a graph can be made, printed,
// hashed and tested without any library.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "sixfold/base/tensor.h"

namespace sixfold::qnn {

// The enumerators have the API's numbers: the digits are decimal bit widths.
enum class DataType : uint32_t {
  i8 = 0x0008,
  i16 = 0x0016,
  i32 = 0x0032,
  i64 = 0x0064,
  u8 = 0x0108,
  u16 = 0x0116,
  u32 = 0x0132,
  u64 = 0x0164,
  f16 = 0x0216,
  f32 = 0x0232,
  sfixed8 = 0x0308,
  sfixed16 = 0x0316,
  sfixed32 = 0x0332,
  ufixed8 = 0x0408,
  ufixed16 = 0x0416,
  ufixed32 = 0x0432,
  boolean = 0x0508,
  undefined = 0x7FFFFFFF,
};
size_t size_of(DataType dtype);            // bytes of an element; 0 for undefined
std::string_view to_text(DataType dtype);  // "UFIXED_POINT_8"
bool is_fixed(DataType dtype);             // quantized
DataType plain_type(DType dtype);          // f64 and bf16 have none: undefined
DType storage_of(DataType dtype);          // ufixed8 -> u8

// real = (q + offset) * scale: the offset is minus the zero point.
struct ScaleOffset {
  float scale = 0;
  int32_t offset = 0;
  friend bool operator==(const ScaleOffset&, const ScaleOffset&) = default;
};
struct AxisScaleOffset {  // one for each index of axis
  int32_t axis = 0;
  std::vector<ScaleOffset> channels;
  friend bool operator==(const AxisScaleOffset&, const AxisScaleOffset&) = default;
};
struct BitWidthScaleOffset {  // fewer bits than the bytes have
  uint32_t bits = 0;
  ScaleOffset all;
  friend bool operator==(const BitWidthScaleOffset&, const BitWidthScaleOffset&) = default;
};
struct BitWidthAxisScaleOffset {
  uint32_t bits = 0;
  int32_t axis = 0;
  std::vector<ScaleOffset> channels;
  friend bool operator==(const BitWidthAxisScaleOffset&, const BitWidthAxisScaleOffset&) = default;
};
// 4-bit weights: real = q * channels[o].scale * block_scales[o * blocks + b], b along the input channels.
struct BlockExpansion {
  int32_t axis = 0;
  std::vector<ScaleOffset> channels;
  uint32_t blocks = 0;  // for each channel
  uint32_t scale_bits = 4;
  std::vector<uint8_t> block_scales;
  friend bool operator==(const BlockExpansion&, const BlockExpansion&) = default;
};
using Quantization = std::variant<std::monostate, ScaleOffset, AxisScaleOffset, BitWidthScaleOffset,
                                  BitWidthAxisScaleOffset, BlockExpansion>;
std::string to_text(const Quantization& quantization);

// The bytes of a static tensor: a tensor of the model and what has to happen to it. They are made when they
// are asked for and go as soon as the library has copied them, so that a compile holds one layer's weights,
// not all.
struct StaticData {
  Tensor source;
  Shape order;  // axes of source in the order of the result; empty: as they are
  // Floats with a grid to round to: q = clamp(round(x / scale[c] + zero_point[c]), min, max). Empty:
  // converted only.
  struct Grid {
    int64_t min = 0, max = 0;
    int32_t axis = -1;  // of source; -1: one scale for all
    int64_t block = 0;  // > 0: scales are [extent of axis][blocks], a block being so many indices of axis 1
                        // (or 0, when axis is 1)
    std::vector<float> scales;
    std::vector<int32_t> zero_points;
    friend bool operator==(const Grid&, const Grid&) = default;
  };
  Grid grid;
  DType dtype = DType::none;  // of the result; none: the source's
  uint32_t mask = 0;          // bits that stay in each byte; 0: all
};
Result<Tensor> materialize(const StaticData& data);

enum class TensorKind : uint32_t {
  app_write = 0,  // an input of the graph
  app_read = 1,   // an output
  native = 3,
  constant = 4,  // STATIC
  null = 5,      // an operand that is left out
};

struct TensorSpec {
  std::string name;
  TensorKind kind = TensorKind::native;
  DataType dtype = DataType::undefined;
  std::vector<uint32_t> dims;
  Quantization quantization;
  StaticData data;  // kind constant
};
std::string to_text(const TensorSpec& tensor);  // "UFIXED_POINT_8[1, 28, 28, 64] scale 0.02 offset -12"

// Index into GraphSpec::tensors.
struct TensorRef {
  uint32_t index = UINT32_MAX;
  bool valid() const { return index != UINT32_MAX; }
  friend auto operator<=>(const TensorRef&, const TensorRef&) = default;
};

// A tensor as parameter: always static, small, and of 32-bit words (UINT_32 or INT_32).
struct Words {
  DataType dtype = DataType::u32;
  std::vector<uint32_t> dims;
  std::vector<uint32_t> values;  // INT_32: two's complement
  friend bool operator==(const Words&, const Words&) = default;
};
struct Param {
  const char* name;  // a literal
  std::variant<bool, uint32_t, int32_t, float, Words> value;
};
Param words(const char* name, std::vector<uint32_t> values);  // UINT_32[n]
Param words(const char* name, std::vector<uint32_t> dims, std::vector<uint32_t> values);
Param signed_words(const char* name, std::vector<uint32_t> dims, const std::vector<int32_t>& values);

struct OpSpec {
  std::string name;
  const char* type;           // a literal: "Conv2d"
  std::vector<TensorRef> in;  // not valid: left out
  std::vector<TensorRef> out;
  std::vector<Param> params;
  uint32_t node = UINT32_MAX;  // the graph's node it came from (NodeId::index), for messages
};

struct GraphSpec {
  std::string name = "forward";
  std::deque<TensorSpec> tensors;  // inputs and outputs among them are in the order of the signature
  std::vector<OpSpec> ops;

  const TensorSpec& tensor(TensorRef ref) const { return tensors[ref.index]; }
  TensorRef add(TensorSpec tensor) {
    tensors.push_back(std::move(tensor));
    return {static_cast<uint32_t>(tensors.size() - 1)};
  }
};
std::string print(const GraphSpec& graph);  // one line for each op, for people and golden tests

}  // namespace sixfold::qnn
