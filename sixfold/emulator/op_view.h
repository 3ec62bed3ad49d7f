// An op of the QNN API as the emulator sees it: values that were copied from a client, or read from a context
// binary, and checked for form (counts, sizes, encodings) before anybody sees them here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sixfold/base/result.h"
#include "sixfold/qnn/types.h"

namespace sixfold::emulator {

using qnn::DataType;
using qnn::ScaleOffset;
using qnn::TensorKind;

struct TensorDef {
  std::string name;
  TensorKind kind = TensorKind::native;
  DataType dtype = DataType::undefined;
  std::vector<uint32_t> dims;  // their product times the element's bytes fits 32 bits
  qnn::Quantization quantization;
  // Of a constant: what the client gave. Null when there are no bytes at hand: an op is only asked about, or
  // a binary was loaded that does not need them any more.
  const std::byte* data = nullptr;
  bool keeps_sums = false;   // floats of 32 bits between two ops, which are not rounded to halves (widen.h)
  bool is_gate = false;      // the sigmoid of what it is multiplied with (widen.h)
  bool is_product = false;   // a function of it is the matrix unit's (widen.h)
  bool cut_at_zero = false;  // of 8 bits: a Relu reads the sums (widen.h)
  // Of 16 bits: converted as the op that made it adds; of 8: becomes floats in tiles (widen.h).
  bool in_tiles = false;
  bool is_factor = false;  // a product with one number that a Softmax does itself (widen.h)
  bool tiled_sum = false;  // of 16 bits: a sum in tiles (widen.h)
  // Of 16 bits: how far each axis went before a transposition, which the device converts first (widen.h).
  std::vector<uint32_t> places;

  bool is_present() const { return kind != TensorKind::null; }
  bool is_constant() const { return kind == TensorKind::constant; }
  size_t rank() const { return dims.size(); }
  int64_t count() const {
    int64_t n = 1;
    for (const uint32_t d : dims) n *= d;
    return n;
  }
  size_t size_bytes() const { return static_cast<size_t>(count()) * qnn::size_of(dtype); }
  // The one scale for all; {1, 0} when there is none, or one for each channel.
  ScaleOffset encoding() const;
  bool is_per_channel() const;  // axis or block encodings
  // Scale and offset of an index of the encoding's axis; the same for all when there is one scale only.
  ScaleOffset channel_encoding(size_t channel) const;
  bool has_one_offset() const;  // for all channels
  // Bits that count in each element: fewer than the type's with a bit-width encoding.
  uint32_t bits() const;
  bool is_float() const { return dtype == DataType::f32 || dtype == DataType::f16; }

  template <typename T>
  std::span<const T> values() const {  // data must be there
    return {reinterpret_cast<const T*>(data), static_cast<size_t>(count())};
  }
};

struct ParamDef {
  std::string name;
  bool is_tensor = false;
  DataType dtype = DataType::undefined;  // of a scalar
  uint64_t bits = 0;                     // its bytes, as the client's union had them
  TensorDef tensor;                      // constant; its data is not set
  std::vector<std::byte> bytes;          // of the tensor; empty when an op is only asked about without them
};

// Operands are always there: one that was left out has kind null.
struct OpView {
  std::string_view name, type;
  std::span<const TensorDef*const> inputs, outputs;
  std::span<const ParamDef> params;

  const TensorDef& in(size_t i) const;  // a null tensor beyond the last
  const TensorDef& out(size_t i = 0) const;
  size_t input_count() const;  // without absent ones at the end

  const ParamDef* find(std::string_view name) const;  // null: not given
  // The value of a scalar parameter, `otherwise` when it is not given. What has another type was refused by
  // check_params (rules.h), so that prepare needs no second look.
  uint32_t u32(std::string_view name, uint32_t otherwise) const;
  int32_t i32(std::string_view name, int32_t otherwise) const;
  float f32(std::string_view name, float otherwise) const;
  bool boolean(std::string_view name, bool otherwise) const;
  // A tensor parameter's 32-bit words, row-major; empty when it is not given.
  std::span<const uint32_t> words(std::string_view name) const;
  std::span<const int32_t> signed_words(std::string_view name) const;
};

// Whom the emulator stands for.
struct DeviceModel {
  uint32_t soc = 0;      // the API's number
  uint32_t arch = 68;    // HTP version
  uint32_t vtcm_mb = 4;  // 0: not known
};

}  // namespace sixfold::emulator
