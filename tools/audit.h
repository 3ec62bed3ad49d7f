// The report of an audit: what runs where, why not, what it costs and what was tried.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/htp.h"
#include "tools/plan.h"

namespace sixfold::tools {

using Json = nlohmann::ordered_json;

// A fix of one node: a rewrite, or options of the command line.
struct OfferedFix {
  std::string name, what, option;
  bool exact = true;
  double difference = -1;  // < 0: not measured
};

struct AuditedNode {
  CpuNode node;
  std::optional<OfferedFix> fix;
  std::string no_kernel;  // why the CPU cannot run it either; empty: it can
};

Json to_json(const AuditedNode& node, size_t delegates);
// Lines for people, as `audit` and `compile` print them.
std::vector<std::string> to_lines(const AuditedNode& node, size_t delegates);

// Every node that is not on the NPU, with a fix where one was found.
std::vector<AuditedNode> audit_nodes(const Graph& canonical, const Plan& plan, Device& device,
                                     const PlanOptions& options);

// Whether the device would take it with 8-bit encodings.
std::optional<OfferedFix> offer_quantized(const Graph& canonical, const CpuNode& node, Device& device,
                                          const PlanOptions& options);

// Makes the fixes in the graph, and says each.
Status apply_offered(Graph& canonical, const std::vector<AuditedNode>& nodes, const HtpTarget& target,
                     std::vector<std::string>* notes);

// --skip-node and --skip-op must name something of one of the graphs.
Status check_skips(const std::vector<const Graph*>& graphs, const HtpChoice& choice);

// "1 delegate", "2 delegates", "no delegates"
std::string counted(size_t n, const char* what);

}  // namespace sixfold::tools
