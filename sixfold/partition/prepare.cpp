#include <algorithm>
#include <set>
#include <span>

#include "sixfold/lower/lowering.h"
#include "sixfold/partition/partition.h"

namespace sixfold {
namespace {

using Nodes = std::span<const NodeId>;

constexpr int kMostSearches =
    24;  // nodes that are looked for; each takes the logarithm of an island's length

// Why the device does not prepare some nodes; empty: it does. Errors that say nothing of the device are
// errors.
class Trials {
 public:
  Trials(const Graph& graph, Device& device) : graph_(graph), device_(device) {}

  Result<std::string> operator()(Nodes nodes) {
    std::vector<NodeId> key(nodes.begin(), nodes.end());
    if (prepared_.contains(key)) return std::string();
    const Extract part = extract(graph_, key);
    Status status = prepare(part.graph);
    if (status.ok()) {
      prepared_.insert(std::move(key));
      return std::string();
    }
    const Code code = status.error().code();
    if (code != Code::Device && code != Code::Unsupported && code != Code::OutOfMemory)
      return status.take_error();
    const std::string& why = status.error().message();
    return why.substr(0, why.find(" (while "));
  }

 private:
  Status prepare(const Graph& part) {
    SF_ASSIGN(const qnn::GraphSpec spec, lower_island(part, choose_forms(part), "part"));
    return device_.prepare(spec);
  }

  const Graph& graph_;
  Device& device_;
  std::set<std::vector<NodeId>> prepared_;
};

std::string alone_text(const std::string& why) {
  return cat("the device accepts it and cannot prepare it [htp.prepare.1]: ", why);
}

// An island that fails: the shortest beginning that does ends with a node that fails alone, or together with
// what is before it. The library's words name none, so it is looked for by halves.
Status find_culprit(const Graph& graph, Nodes island, std::string reason, Trials& why_not,
                    PartitionOptions& options) {
  size_t good = 0, bad = island.size();
  while (bad - good > 1) {
    const size_t middle = good + (bad - good) / 2;
    SF_ASSIGN(std::string why, why_not(island.first(middle)));
    (why.empty() ? good : bad) = middle;
    if (!why.empty()) reason = std::move(why);
  }
  const NodeId culprit = island[bad - 1];
  SF_ASSIGN(const std::string alone, why_not({&culprit, 1}));
  if (alone.empty()) {
    options.cuts[culprit] = std::move(reason);
    return {};
  }
  // Where one fails others of its kind often do, and alone they are soon tried.
  for (const NodeId id : island) {
    if (graph.node(id).op != graph.node(culprit).op) continue;
    SF_ASSIGN(const std::string why, why_not({&id, 1}));
    if (!why.empty()) options.denied[id] = alone_text(why);
  }
  return {};
}

}  // namespace

Status prepare_islands(const Graph& graph, Device& device, PartitionOptions& options, Partition& parts) {
  Trials why_not(graph, device);
  for (int searches = 0;; ++searches) {
    bool changed = false;
    for (const std::vector<NodeId>& island : parts.islands) {
      SF_ASSIGN(const std::string why, why_not(island));
      if (why.empty()) continue;
      changed = true;
      if (searches < kMostSearches) {
        SF_TRY(find_culprit(graph, island, why, why_not, options));
        continue;
      }
      for (const NodeId id : island)
        options.denied[id] = cat("the device cannot prepare the graph that it is in [htp.prepare.1]: ", why);
    }
    if (!changed) return {};
    SF_ASSIGN(parts, partition(graph, device, options));
  }
}

}  // namespace sixfold
