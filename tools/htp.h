// The NPU's part of compiling and auditing: from canonical graphs to host graphs and delegates.
#pragma once

#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "sixfold/package/package.h"
#include "sixfold/partition/partition.h"
#include "sixfold/qnn/context.h"
#include "sixfold/quantize/scheme.h"
#include "tools/command.h"
#include "tools/plan.h"

namespace sixfold::tools {

// A chip and who answers for it.
struct HtpTargetDevice {
  std::string soc_name;
  uint32_t soc = 0;
  int arch = 0;
  uint32_t vtcm_mb = 0;
  std::optional<qnn::Backend> backend;
  std::string engine;                           // for people: "QNN 2.49.40"
  std::pair<std::string, std::string> library;  // for the manifest
};
Result<HtpTargetDevice> open_device(const HtpChoice& choice);

// Answers for a plan.
class EngineDevice final : public Device {
 public:
  explicit EngineDevice(qnn::Backend& backend, const qnn::ContextOptions& options = {})
      : backend_(backend), options_(options) {}
  Status validate(const qnn::GraphSpec& graph, const qnn::OpSpec& op) override {
    return backend_.validate(graph, op);
  }
  Status prepare(const qnn::GraphSpec& graph) override;

 private:
  qnn::Backend& backend_;
  qnn::ContextOptions options_;
};

// A method on its way: the graph goes in canonical and comes out for the host, with nodes for its delegates.
struct HtpMethod {
  MethodSource* source = nullptr;
  nlohmann::ordered_json cpu_nodes = nlohmann::ordered_json::array();
  std::vector<std::string> cpu_lines;  // the same for people
  std::vector<std::string> notes;      // what differs from what was asked for
  size_t islands = 0, device_nodes = 0;
  size_t qnn_ops = 0, transposes = 0;  // as they are handed to the library
  nlohmann::ordered_json accuracy;     // null: not quantized here
  // The rest of it, which is measured while the method is lowered; not valid: nobody asked.
  std::future<Result<nlohmann::ordered_json>> judged;
  nlohmann::ordered_json search;         // null: no precisions were searched
  std::vector<std::string> conversions;  // from grid to grid
  bool computes_in_float = false;        // some of a quantized method
  double quantize_s = 0;                 // annotating, asking, choosing encodings: without running samples
};

// What --precision says; auto begins with 8a8w.
Result<Scheme> scheme_of(const HtpChoice& choice);

// Encodings for a prepared graph, by samples. What the device has on no grid computes in float.
Status quantize_method(HtpMethod& method, const HtpChoice& choice, HtpTargetDevice& device);
// Encodings of the same kind for a prepared graph, or a part of one, to ask the device: every range is
// assumed.
Result<std::function<Status(Graph&)>> trial_grids(const HtpChoice& choice, HtpTargetDevice& device);

struct HtpReport {
  double qnn_cpu_s = 0;  // inside the engine
  std::string engine, soc, precision;
  std::pair<std::string, std::string> library;  // for the manifest: "qnn", "2.49.40"
  size_t cache_hits = 0, cache_misses = 0;
  std::vector<std::string> notes;
};

// Canonical graphs planned, with fixes when those are asked for; nothing is compiled.
struct PlannedMethod {
  Graph canonical;
  Plan plan;
  PlanOptions options;
};
Result<PlannedMethod> plan_for_htp(HtpMethod& method, const HtpChoice& choice, HtpTargetDevice& device);

// Has the device prepare every island; nodes that it accepted and cannot prepare go to the CPU, and notes say
// where an island is cut for it.
Status try_preparing(PlannedMethod& planned, const HtpChoice& choice, HtpTargetDevice& device,
                     std::vector<std::string>& notes);

// Compiles the islands. What the device accepts and cannot prepare goes to the CPU or is cut, with its
// reason.
Status compile_for_htp(std::vector<HtpMethod>& methods, const HtpChoice& choice, HtpReport* report);

}  // namespace sixfold::tools
