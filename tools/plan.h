// What of a model goes to the NPU, what does not, and what would bring it there.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "sixfold/partition/partition.h"
#include "sixfold/rewrite/fixes.h"

namespace sixfold::tools {

struct PlanOptions {
  HtpTarget target;
  PartitionOptions partition;
  std::set<std::string, std::less<>> whole;     // nodes of the model that are not taken apart
  std::set<std::string, std::less<>> disabled;  // rules that are not applied
  std::function<Status(Graph&)> grids;  // gives a prepared graph its encodings; empty: it stays as it is
};

// The graph in words of the device, and which of its nodes go there.
struct Plan {
  Graph graph;
  Partition parts;
  PartitionOptions asked;                    // as the parts were
  std::set<std::string, std::less<>> whole;  // nodes of the model that were not taken apart
};

// Prepares a copy of the canonical graph and asks the device. An op that rules take apart for the device, and
// whose parts that compute are refused, stays whole: the CPU has a better way than those parts.
Result<Plan> plan_graph(const Graph& canonical, Device& device, PlanOptions options);

// Nodes of the model of which something that computes stays on the CPU, and why.
std::map<std::string, std::string> reasons_of_parts(const Plan& plan);

// What is not as it was asked for: nodes by reason.
using Violations = std::map<std::string, std::vector<std::string>>;
// A note for each reason; strictly all of them are an error.
Status tell(const Violations& violations, bool strict, std::vector<std::string>& notes);

// A model that returns its inputs computes nothing; the copy is what is asked of the NPU.
void copy_outputs(Graph& graph);

// A node of the model, as the user has it, of which something stays on the CPU.
struct CpuNode {
  std::string name, op, canonical, reason, source, module_path;
  std::vector<NodeId> nodes;  // of Plan::graph
  std::set<Op> ops;           // what the device refuses of it
  bool view = false;          // no more than reshapes, which cost nothing there
  FallbackCost cost;
};
std::vector<CpuNode> cpu_nodes(const Graph& canonical, const Plan& plan);

// A fix that was applied to a copy of the node and that the device then took.
struct TriedFix {
  const Fix* fix = nullptr;  // null: none was found
  double difference = 0;     // the largest, of outputs for random inputs, where the fix is not exact
  bool compared = false;
};
TriedFix find_fix_for(const Graph& canonical, const CpuNode& node, Device& device,
                      const PlanOptions& options);

// Names that are near to one that is not there, for messages: "conv2d, conv2d_1".
std::string nearest_names(std::string_view name, const std::set<std::string, std::less<>>& names);

}  // namespace sixfold::tools
