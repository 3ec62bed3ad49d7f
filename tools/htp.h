// The NPU's part of compiling and auditing: from canonical graphs to host graphs and delegates.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "sixfold/package/package.h"
#include "sixfold/partition/partition.h"
#include "sixfold/qnn/backend.h"
#include "tools/command.h"

namespace sixfold::tools {

// A chip and who answers for it.
struct HtpTargetDevice {
  std::string soc_name;
  uint32_t soc = 0;
  int arch = 0;
  uint32_t vtcm_mb = 0;
  std::optional<qnn::Backend> backend;
  std::string engine;  // for people: "QNN 2.49.40"
};
Result<HtpTargetDevice> open_device(const HtpChoice& choice);

class EngineDevice final : public Device {
 public:
  explicit EngineDevice(qnn::Backend& backend) : backend_(backend) {}
  Status validate(const qnn::GraphSpec& graph, const qnn::OpSpec& op) override {
    return backend_.validate(graph, op);
  }

 private:
  qnn::Backend& backend_;
};

// A method on its way: the graph goes in canonical and comes out for the host, with nodes for its delegates.
struct HtpMethod {
  MethodSource* source = nullptr;
  nlohmann::ordered_json cpu_nodes = nlohmann::ordered_json::array();
  std::vector<std::string> notes;  // what differs from what was asked for
  size_t islands = 0, device_nodes = 0;
  size_t qnn_ops = 0, transposes = 0;  // as they are handed to the library
  size_t converts = 0;                 // from grid to grid
};

// Rewrites the graph for the device and says which nodes go there; explains the rest in method.cpu_nodes.
Result<Partition> plan_for_htp(HtpMethod& method, const HtpChoice& choice, HtpTargetDevice& device);

// Encodings for a prepared graph, by samples. What the device has on no grid computes in float.
Status quantize_method(HtpMethod& method, const HtpChoice& choice, HtpTargetDevice& device);

struct HtpReport {
  double qnn_cpu_s = 0;  // inside the engine
  std::string engine, soc;
};
Status compile_for_htp(std::vector<HtpMethod>& methods, const HtpChoice& choice, HtpReport* report);

}  // namespace sixfold::tools
