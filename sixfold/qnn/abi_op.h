// Values of qnn/types.h as structs of the C API.
#pragma once

#include <deque>
#include <vector>

#include "sixfold/qnn/abi.h"

namespace sixfold::qnn {

// Arrays that the structs point to and the values do not have in that shape. Addresses stay valid.
struct AbiArrays {
  std::deque<std::vector<float>> scales;
  std::deque<std::vector<int32_t>> offsets;
  std::deque<abi::BlockExpansion> expansions;
};

// Without id and data. Points into the spec and into arrays, which must outlive it.
abi::Tensor abi_tensor(const TensorSpec& spec, AbiArrays& arrays);
// Words as the tensor that they are: static, with their data. Points into both.
abi::Tensor abi_tensor(const Words& words, const char* name);
abi::Tensor null_tensor();  // an operand that is left out

// An op and all tensors of it. It can be moved, not copied, and lives no longer than the specs.
class AbiOp {
 public:
  explicit AbiOp(const OpSpec& spec) : spec_(&spec) {}
  AbiOp(const AbiOp&) = delete;
  AbiOp& operator=(const AbiOp&) = delete;

  std::vector<abi::Tensor> inputs, outputs;
  void add_scalar(const Param& param);  // not Words
  void add_tensor(const char* name, const abi::Tensor& tensor);
  abi::Op get() const;  // valid until something is added

 private:
  const OpSpec* spec_;
  std::vector<abi::Param> params_;
};

// Operands without those that are left out at the end; what is left out before is a null tensor.
size_t operand_count(const OpSpec& op);

}  // namespace sixfold::qnn
