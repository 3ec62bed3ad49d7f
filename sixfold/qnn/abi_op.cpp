#include "sixfold/qnn/abi_op.h"

namespace sixfold::qnn {
namespace {

struct ToAbi {
  AbiArrays& arrays;
  abi::Quantize& out;

  void operator()(std::monostate) const {}
  void operator()(const ScaleOffset& q) const {
    define(abi::Encoding::scale_offset);
    out.all = {q.scale, q.offset};
  }
  void operator()(const AxisScaleOffset& q) const {
    define(abi::Encoding::axis_scale_offset);
    out.axis = {q.axis, static_cast<uint32_t>(q.channels.size()), q.channels.data()};
  }
  void operator()(const BitWidthScaleOffset& q) const {
    define(abi::Encoding::bit_width_scale_offset);
    out.bit_width = {q.bits, q.all.scale, q.all.offset};
  }
  void operator()(const BitWidthAxisScaleOffset& q) const {
    auto& scales = arrays.scales.emplace_back();
    auto& offsets = arrays.offsets.emplace_back();
    for (const ScaleOffset& c : q.channels) {
      scales.push_back(c.scale);
      offsets.push_back(c.offset);
    }
    define(abi::Encoding::bit_width_axis_scale_offset);
    out.bit_width_axis = {q.bits, q.axis, static_cast<uint32_t>(q.channels.size()), scales.data(),
                          offsets.data()};
  }
  void operator()(const BlockExpansion& q) const {
    define(abi::Encoding::block_expansion);
    out.block_expansion = &arrays.expansions.emplace_back(abi::BlockExpansion{
        q.axis, q.channels.data(), q.blocks, q.scale_bits, /*scale_storage=*/0, q.block_scales.data()});
  }
  void define(abi::Encoding encoding) const {
    out.definition = abi::kDefined;
    out.encoding = encoding;
  }
};

abi::Tensor empty_tensor() {
  abi::Tensor t{};
  t.version = 1;
  t.v1.quantize.definition = abi::kUndefined;
  t.v1.quantize.encoding = abi::Encoding::undefined;
  return t;
}

struct ToScalar {
  abi::Scalar& out;
  void operator()(bool v) const {
    out.dtype = DataType::boolean;
    out.boolean = v;
  }
  void operator()(uint32_t v) const {
    out.dtype = DataType::u32;
    out.u32 = v;
  }
  void operator()(int32_t v) const {
    out.dtype = DataType::i32;
    out.i32 = v;
  }
  void operator()(float v) const {
    out.dtype = DataType::f32;
    out.f32 = v;
  }
  void operator()(const Words&) const { assert(false); }
};

}  // namespace

abi::Tensor abi_tensor(const TensorSpec& spec, AbiArrays& arrays) {
  abi::Tensor t = empty_tensor();
  t.v1.name = spec.name.c_str();
  t.v1.kind = spec.kind;
  t.v1.dtype = spec.dtype;
  t.v1.rank = static_cast<uint32_t>(spec.dims.size());
  t.v1.dims = spec.dims.empty() ? nullptr : spec.dims.data();
  std::visit(ToAbi{arrays, t.v1.quantize}, spec.quantization);
  return t;
}

abi::Tensor abi_tensor(const Words& words, const char* name) {
  abi::Tensor t = empty_tensor();
  t.v1.name = name;
  t.v1.kind = TensorKind::constant;
  t.v1.dtype = words.dtype;
  t.v1.rank = static_cast<uint32_t>(words.dims.size());
  t.v1.dims = words.dims.data();
  // The API's struct serves both directions; of a static tensor it only reads.
  t.v1.buffer = {const_cast<uint32_t*>(words.values.data()), static_cast<uint32_t>(words.values.size() * 4)};
  return t;
}

abi::Tensor null_tensor() {
  abi::Tensor t = empty_tensor();
  t.v1.name = "";
  t.v1.kind = TensorKind::null;
  t.v1.dtype = DataType::undefined;
  return t;
}

void AbiOp::add_scalar(const Param& param) {
  abi::Param& p = params_.emplace_back(abi::Param{});
  p.name = param.name;
  p.scalar = {};
  std::visit(ToScalar{p.scalar}, param.value);
}

void AbiOp::add_tensor(const char* name, const abi::Tensor& tensor) {
  abi::Param& p = params_.emplace_back(abi::Param{});
  p.type = 1;
  p.name = name;
  p.tensor = tensor;
}

abi::Op AbiOp::get() const {
  return {.version = 1,
          .name = spec_->name.c_str(),
          .package = abi::kPackage,
          .type = spec_->type,
          .param_count = static_cast<uint32_t>(params_.size()),
          .params = params_.data(),
          .input_count = static_cast<uint32_t>(inputs.size()),
          .inputs = inputs.data(),
          .output_count = static_cast<uint32_t>(outputs.size()),
          .outputs = outputs.data()};
}

size_t operand_count(const OpSpec& op) {
  size_t count = op.in.size();
  while (count > 0 && !op.in[count - 1].valid()) --count;
  return count;
}

}  // namespace sixfold::qnn
