// Which nodes run on the device, and why the others do not.
//
// Every node is lowered alone and its QNN ops are shown to the device; what it accepts is gathered into
// islands as large as they can be without a cycle through the rest.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sixfold/graph/encoding.h"
#include "sixfold/qnn/types.h"

namespace sixfold {

// Says whether it runs an op; an error of code Unsupported is a no, with the reason in words.
class Device {
 public:
  virtual ~Device() = default;
  virtual Status validate(const qnn::GraphSpec& graph, const qnn::OpSpec& op) = 0;
  // Prepares the whole graph, as a trial: some that is accepted op by op fails then.
  virtual Status prepare(const qnn::GraphSpec& graph) {
    (void)graph;
    return {};
  }
};

// Whether the device takes the node, lowered alone; a no is an error of code Unsupported.
Status ask(const Graph& graph, const Node& node, Device& device);
// Of such a no, without what a report says beside it.
std::string reason_of(const Error& error);

struct PartitionOptions {
  std::set<std::string, std::less<>> skip_nodes;  // by name: kept on the CPU
  std::set<std::string, std::less<>>
      skip_ops;                           // by ATen overload ("aten.add.Tensor") or canonical op ("add")
  std::map<NodeId, std::string> refused;  // by a rewrite: said where the device refuses too
  std::map<NodeId, std::string> denied;   // the device accepted them and could not prepare them: not asked
  std::map<NodeId, std::string> cuts;  // nor these together with what is before them: an island begins here
};

// A node that stays on the CPU.
struct Fallback {
  NodeId node;
  std::string reason;
};

struct Partition {
  std::vector<std::vector<NodeId>> islands;  // nodes in topological order
  std::vector<Fallback> fallbacks;
};

Result<Partition> partition(const Graph& graph, Device& device, const PartitionOptions& options = {});

// Has the device prepare every island. Nodes that it fails on alone are denied, and where it fails on nodes
// together the island is cut; parts are then made anew, until the device has prepared all of them. Nothing is
// prepared twice but what failed, and after many tries the rest of an island is denied.
Status prepare_islands(const Graph& graph, Device& device, PartitionOptions& options, Partition& parts);

// Nodes on the device as islands, as large as they can be without a cycle through the rest.
std::vector<std::vector<NodeId>> gather_islands(const Graph& graph, const std::set<NodeId>& on_device);

// What it costs that these nodes, a part of the fallbacks, are on the CPU.
struct FallbackCost {
  size_t islands_without = 0;                     // islands that there would be with them on the device
  int64_t to_cpu_bytes = 0, to_device_bytes = 0;  // what they read of the device and it of them, in every run
  int64_t macs = 0, bytes = 0;                    // their own work
};
FallbackCost fallback_cost(const Graph& graph, const Partition& partition, const std::vector<NodeId>& nodes);

// A reshape: on the CPU it is another look at the same bytes, and costs nothing.
bool is_view(const Node& node);

// Some nodes as a graph of their own, with the stored weights (graph/encoding.h) that they read, which belong
// to no side. What they read from elsewhere are its inputs, what others read its outputs.
struct Extract {
  Graph graph;
  std::vector<ValueId> inputs, outputs;  // in the graph they came from
};
Extract extract(const Graph& graph, const std::vector<NodeId>& nodes);

// The graph with a node for each island: a call of "delegate", attribute "index".
inline constexpr const char* kDelegateTarget = "delegate";
struct Cut {
  Graph host;
  std::vector<Extract> islands;
};
// rounds: the model itself says the grids, so nodes on the CPU round to them as well.
Result<Cut> cut(const Graph& graph, const Partition& partition, bool rounds = false);

}  // namespace sixfold
