// Structs of clients as values: every pointer, count, size and encoding is looked at before it is used. What
// they point to is copied, but for the bytes of constants.
#pragma once

#include "sixfold/emulator/graph.h"
#include "sixfold/qnn/abi.h"

namespace sixfold::emulator {

namespace abi = qnn::abi;

inline constexpr uint32_t kMostRank = 8, kMostTensors = 4096, kMostParams = 256, kMostChannels = 1u << 20;
inline constexpr size_t kMostName = 4096;

// A name of a client: null and what does not end within kMostName are refused.
Result<std::string> read_name(const char* name, std::string_view what);

// with_data: a constant must have its bytes, as many as its dims say.
Result<TensorDef> read_tensor(const abi::Tensor& tensor, bool with_data);

// What every tensor has to be: kind, rank, dims, size, and an encoding that fits them.
Status check_form(const TensorDef& tensor);

// Version, counts, pointers and names of an op, before its tensors are looked at.
Status check_form(const abi::Op& op);
// One that is a scalar; tensors are the caller's to find.
Result<ParamDef> read_scalar(const abi::Param& param);
// A tensor of parameters, with its bytes when they are there.
ParamDef param_of(std::string name, const TensorDef& tensor);

// Name, type and parameters of an op whose form was checked; tensor_param(name, tensor) makes a ParamDef of
// one that is a tensor.
template <typename F>
Result<OpDef> read_op_params(const abi::Op& op, const F& tensor_param) {
  OpDef out{.name = op.name, .type = op.type};
  for (uint32_t i = 0; i < op.param_count; ++i) {
    const abi::Param& p = op.params[i];
    if (p.type > 1)
      return invalid_argument("a parameter of op ", out.name, " has type ", p.type, ", expected 0 or 1");
    if (p.type == 0) {
      SF_ASSIGN(ParamDef param, read_scalar(p));
      out.params.push_back(std::move(param));
      continue;
    }
    SF_ASSIGN(std::string name, read_name(p.name, "a parameter"));
    SF_ASSIGN(ParamDef param, tensor_param(std::move(name), p.tensor));
    out.params.push_back(std::move(param));
  }
  return out;
}

}  // namespace sixfold::emulator
