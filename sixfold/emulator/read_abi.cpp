#include "sixfold/emulator/read_abi.h"

#include <cmath>
#include <cstring>

#include "sixfold/qnn/binary_info.h"

namespace sixfold::emulator {
namespace {

Status check_scale(const ScaleOffset& q) {
  if (!std::isfinite(q.scale) || q.scale < 0) return invalid_argument("an encoding has scale ", q.scale);
  return {};
}

// An encoding against the dims of its tensor.
struct CheckEncoding {
  std::span<const uint32_t> dims;

  Status operator()(std::monostate) const { return {}; }
  Status operator()(const ScaleOffset& q) const { return check_scale(q); }
  Status operator()(const qnn::AxisScaleOffset& q) const { return check_channels(q.axis, q.channels); }
  Status operator()(const qnn::BitWidthScaleOffset& q) const {
    SF_TRY(check_bits(q.bits));
    return check_scale(q.all);
  }
  Status operator()(const qnn::BitWidthAxisScaleOffset& q) const {
    SF_TRY(check_bits(q.bits));
    return check_channels(q.axis, q.channels);
  }
  Status operator()(const qnn::BlockExpansion& q) const {
    SF_TRY(check_channels(q.axis, q.channels));
    const uint64_t channels = dims[static_cast<size_t>(q.axis)];
    if (q.channels.size() != channels || q.blocks == 0 || q.block_scales.size() != channels * q.blocks)
      return invalid_argument("a block encoding has ", q.channels.size(), " scales and ",
                              q.block_scales.size(), " of blocks for ", channels, " channels of ", q.blocks,
                              " blocks");
    if (q.scale_bits == 0 || q.scale_bits > 8)
      return invalid_argument("a block encoding has scales of ", q.scale_bits, " bits");
    return {};
  }

 private:
  static Status check_bits(uint32_t bits) {
    if (bits == 0 || bits > 32) return invalid_argument("an encoding has ", bits, " bits");
    return {};
  }
  Status check_channels(int32_t axis, const std::vector<ScaleOffset>& channels) const {
    if (axis < 0 || static_cast<size_t>(axis) >= dims.size())
      return invalid_argument("an encoding has axis ", axis, " of ", dims.size());
    if (const uint32_t extent = dims[static_cast<size_t>(axis)];
        channels.size() != 1 && channels.size() != extent)
      return invalid_argument("an encoding has ", channels.size(), " scales for ", extent, " channels");
    for (const ScaleOffset& q : channels) SF_TRY(check_scale(q));
    return {};
  }
};

// Only what is needed to copy safely is looked at here; the rest is CheckEncoding's.
Result<qnn::Quantization> read_expansion(const abi::BlockExpansion* block, std::span<const uint32_t> dims) {
  if (!block || !block->channels || !block->scales)
    return invalid_argument("a block encoding has no content");
  if (block->axis < 0 || static_cast<size_t>(block->axis) >= dims.size())
    return invalid_argument("an encoding has axis ", block->axis, " of ", dims.size());
  const uint64_t channels = dims[static_cast<size_t>(block->axis)];
  if (channels > kMostChannels || channels * block->blocks > uint64_t{kMostChannels} * 64)
    return invalid_argument("a block encoding has ", block->blocks, " blocks for ", channels, " channels");
  if (block->scale_storage != 0)
    return unsupported("a block encoding keeps its scales as ", block->scale_storage, ", expected bytes (0)");
  const auto* scales = static_cast<const uint8_t*>(block->scales);
  return qnn::Quantization{qnn::BlockExpansion{.axis = block->axis,
                                               .channels = {block->channels, block->channels + channels},
                                               .blocks = block->blocks,
                                               .scale_bits = block->scale_bits,
                                               .block_scales = {scales, scales + channels * block->blocks}}};
}

Result<qnn::Quantization> read_quantization(const abi::Quantize& q, std::span<const uint32_t> dims) {
  if (q.definition != abi::kDefined) return qnn::Quantization{};
  switch (q.encoding) {
    case abi::Encoding::undefined:
      return qnn::Quantization{};
    case abi::Encoding::scale_offset:
      return qnn::Quantization{ScaleOffset{q.all.scale, q.all.offset}};
    case abi::Encoding::axis_scale_offset:
      if (!q.axis.channels || q.axis.count > kMostChannels)
        return invalid_argument("an encoding has ", q.axis.count, " channels, or no scales");
      return qnn::Quantization{
          qnn::AxisScaleOffset{q.axis.axis, {q.axis.channels, q.axis.channels + q.axis.count}}};
    case abi::Encoding::bit_width_scale_offset:
      return qnn::Quantization{
          qnn::BitWidthScaleOffset{q.bit_width.bits, {q.bit_width.scale, q.bit_width.offset}}};
    case abi::Encoding::bit_width_axis_scale_offset: {
      const abi::BitWidthAxisScaleOffset& a = q.bit_width_axis;
      if (!a.scales || a.count > kMostChannels)
        return invalid_argument("an encoding has ", a.count, " channels, or no scales");
      qnn::BitWidthAxisScaleOffset out{.bits = a.bits, .axis = a.axis};
      for (uint32_t i = 0; i < a.count; ++i)
        out.channels.push_back({a.scales[i], a.offsets ? a.offsets[i] : 0});
      return qnn::Quantization{std::move(out)};
    }
    case abi::Encoding::block_expansion:
      return read_expansion(q.block_expansion, dims);
  }
  return unsupported("encoding ", static_cast<uint32_t>(q.encoding), " is not known here");
}

}  // namespace

Result<std::string> read_name(const char* name, std::string_view what) {
  if (!name) return invalid_argument("the name of ", what, " is null");
  const size_t length = ::strnlen(name, kMostName + 1);
  if (length > kMostName) return invalid_argument("the name of ", what, " is longer than ", kMostName);
  return std::string(name, length);
}

Status check_form(const TensorDef& t) {
  if (const auto kind = static_cast<uint32_t>(t.kind); kind != 0 && kind != 1 && kind != 3 && kind != 4)
    return unsupported("tensor ", t.name, " has kind ", kind, ", which the emulator does not have");
  if (t.rank() > kMostRank)
    return invalid_argument("tensor ", t.name, " has rank ", t.rank(), ", expected at most ", kMostRank);
  for (const uint32_t d : t.dims)
    if (d == 0) return invalid_argument("tensor ", t.name, " has a dimension of 0");
  SF_TRY(qnn::tensor_bytes(t.name, t.dtype, t.dims));
  if (Status s = std::visit(CheckEncoding{t.dims}, t.quantization); !s.ok())
    return s.take_error().during(cat("reading tensor ", t.name));
  return {};
}

Result<TensorDef> read_tensor(const abi::Tensor& t, bool with_data) {
  if (t.version != 1 && t.version != 2)
    return invalid_argument("a tensor has version ", t.version, ", expected 1 or 2");
  TensorDef out;
  out.kind = t.v1.kind;
  if (out.kind == TensorKind::null) return out;
  if (t.v1.name) {
    SF_ASSIGN(out.name, read_name(t.v1.name, "a tensor"));
  }
  if (t.v1.format != 0)
    return unsupported("tensor ", out.name, " has format ", t.v1.format, ", expected dense (0)");
  out.dtype = t.v1.dtype;
  if (t.v1.rank > kMostRank || (t.v1.rank > 0 && !t.v1.dims))
    return invalid_argument("tensor ", out.name, " has rank ", t.v1.rank, ", expected at most ", kMostRank);
  out.dims.assign(t.v1.dims, t.v1.dims + t.v1.rank);
  Result<qnn::Quantization> q = read_quantization(t.v1.quantize, out.dims);
  if (!q.ok()) return q.take_error().during(cat("reading tensor ", out.name));
  out.quantization = std::move(q).value();
  SF_TRY(check_form(out));
  if (out.kind != TensorKind::constant) return out;
  if (t.v1.memory_type == 0 && t.v1.buffer.data) {
    if (t.v1.buffer.size_bytes != out.size_bytes())
      return invalid_argument("constant ", out.name, " has ", t.v1.buffer.size_bytes, " bytes, expected ",
                              out.size_bytes());
    out.data = static_cast<const std::byte*>(t.v1.buffer.data);
  } else if (with_data) {
    return invalid_argument("constant ", out.name, " has no bytes");
  }
  return out;
}

Status check_form(const abi::Op& op) {
  if (op.version != 1) return invalid_argument("an op has version ", op.version, ", expected 1");
  SF_TRY(read_name(op.name, "an op"));
  SF_TRY(read_name(op.package, "a package"));
  SF_TRY(read_name(op.type, "an op's type"));
  if (op.param_count > kMostParams || (op.param_count > 0 && !op.params))
    return invalid_argument("op ", op.name, " has ", op.param_count, " parameters, expected at most ",
                            kMostParams);
  if (op.input_count > kMostTensors || (op.input_count > 0 && !op.inputs))
    return invalid_argument("op ", op.name, " has ", op.input_count, " inputs, expected at most ",
                            kMostTensors);
  if (op.output_count > kMostTensors || (op.output_count > 0 && !op.outputs))
    return invalid_argument("op ", op.name, " has ", op.output_count, " outputs, expected at most ",
                            kMostTensors);
  return {};
}

Result<ParamDef> read_scalar(const abi::Param& param) {
  ParamDef out;
  SF_ASSIGN(out.name, read_name(param.name, "a parameter"));
  out.dtype = param.scalar.dtype;
  const size_t bytes = qnn::size_of(out.dtype);
  if (bytes == 0)
    return invalid_argument("parameter ", out.name, " has type ", static_cast<uint32_t>(out.dtype));
  std::memcpy(&out.bits, &param.scalar.room, bytes);
  return out;
}

ParamDef param_of(std::string name, const TensorDef& tensor) {
  ParamDef out;
  out.name = std::move(name);
  out.is_tensor = true;
  out.tensor = tensor;
  out.tensor.data = nullptr;
  if (tensor.data) out.bytes.assign(tensor.data, tensor.data + tensor.size_bytes());
  return out;
}

}  // namespace sixfold::emulator
