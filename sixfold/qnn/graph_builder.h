// One graph of a context, from its spec: tensors, nodes, finalize.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "sixfold/qnn/abi_op.h"
#include "sixfold/qnn/context.h"

namespace sixfold::qnn {

// The backend's own options, each behind a config of the API, in a list that ends with null.
class HtpGraphConfigs {
 public:
  explicit HtpGraphConfigs(const GraphOptions& options);
  HtpGraphConfigs(const HtpGraphConfigs&) = delete;
  HtpGraphConfigs& operator=(const HtpGraphConfigs&) = delete;
  abi::ConfigList list() const { return list_.data(); }

 private:
  abi::HtpGraphConfig& add(abi::HtpGraphOption option);
  void optimize(abi::HtpOptimization type, float value);
  std::deque<abi::HtpGraphConfig> customs_;
  std::deque<abi::Config> configs_;
  std::vector<const abi::Config*> list_;
};

class GraphBuilder {
 public:
  // spec must outlive it.
  GraphBuilder(const Backend& backend, const GraphSpec& spec)
      : functions_(backend.functions()),
        spec_(spec),
        tensors_(spec.tensors.size()),
        made_(spec.tensors.size()) {}

  // Everything, in order. The graph belongs to the context, also when this fails halfway.
  Status build(abi::Handle context, const GraphOptions& options, const Profile* profile);

  abi::Handle handle() const { return graph_; }
  Result<GraphInfo> info() const;  // with the ids that the library gave

 private:
  Status create(abi::Handle context, const GraphOptions& options);
  Status make_tensor(TensorRef ref);
  Status make_static(const TensorSpec& spec, abi::Tensor& tensor);
  Status register_tensor(abi::Tensor& tensor);
  Status add_node(const OpSpec& op);
  Result<abi::Tensor> operand(TensorRef ref);
  Status finalize(const Profile* profile);

  const abi::Functions& functions_;
  const GraphSpec& spec_;
  abi::Handle graph_ = nullptr;
  AbiArrays arrays_;
  std::vector<abi::Tensor> tensors_;  // of the spec's tensors, those that are made
  std::vector<bool> made_;
  std::deque<std::string> names_;  // of parameters
};

}  // namespace sixfold::qnn
