// Annotation: which values share a grid, of how many bits it is, and which operands need another one.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "sixfold/quantize/recipe.h"

namespace sixfold {

enum class QuantizeRule : uint8_t {
  none,
  compute,
  move,
  select,
  join,
  unit,
  signed_unit,
  product,
  weights,
  norm,
  table,
  convert,
  resample
};
QuantizeRule quantize_rule(Op op);
QuantizeRule quantize_rule(const Node& node);  // that of the op, but for what attributes decide

// What one node is asked for.
struct NodeChoice {
  Scheme scheme;
  Observer observer = Observer::min_max;
  bool per_channel = false;  // its weight
  int64_t block = 0;         // of its weight's input channels; 0: none
};

// How ranges are chosen where no recipe says it.
struct RangeChoice {
  Observer observer = Observer::min_max;
  std::map<Op, Observer> of_ops;  // where what an op gives has another one
  std::map<uint32_t, float> cut;  // ValueId::index: of its range only this part, from zero
  auto operator<=>(const RangeChoice&) const = default;
};

struct QuantizeOptions {
  Scheme scheme;
  RangeChoice ranges;
  bool per_channel_conv = true, per_channel_linear = true, per_channel_embedding = false;
  // By node name or module path: blocks along the weight's axes, as 1,32 or 1,32,1,1.
  std::map<std::string, std::vector<int64_t>> block_sizes;
  Recipe recipe;
  int arch = 75;  // HTP version
  // Nodes that compute with 16-bit activations where their scheme has 8 (NodeId::index).
  std::set<uint32_t> wide;
  // Nodes that compute in float whatever their scheme says (NodeId::index), with the reason.
  std::map<uint32_t, std::string> in_float;
  std::map<uint32_t, Scheme> schemes;  // of single nodes (NodeId::index), where no recipe says another
  bool whole_model = true;  // names that match nothing are errors: a part of a model has not all of them
};

// Values on one grid.
struct GridGroup {
  int bits = 0;
  bool symmetric = false;
  Observer observer = Observer::min_max;
  float part = 1;                                        // of the range that was chosen
  std::optional<Encoding> fixed;                         // by the op or by the model
  bool softmax_result = false, softmax_operand = false;  // with 8 bits the device asks for certain scales
  bool log_result = false;                               // with 16 bits it does
  bool arc_operand = false;                              // beyond 1 an asin has no number
  std::vector<ValueId> members;
  std::vector<ValueId> ranged;  // members, and constants, whose ranges it covers
};

// An operand that stands on another grid than its value: through a convert.
struct OperandGrid {
  NodeId node;
  size_t operand = 0;
  int bits = 0;
  bool symmetric = false;
  Observer observer = Observer::min_max;  // where it has fewer bits than the value
  uint32_t group = UINT32_MAX;            // of this group, or of its own with the value's range
};

struct WeightGrid {
  NodeId node;
  size_t operand = 1;
  int bits = 8;
  int32_t axis = -1;
  int64_t block = 0;
};

struct QuantizePlan {
  std::vector<uint32_t> group;  // by ValueId::index; UINT32_MAX: float, or no float at all
  std::vector<GridGroup> groups;
  std::vector<OperandGrid> operands;
  std::vector<WeightGrid> weights;
  std::vector<NodeId> in_float;  // nodes with a grid around them that compute in float
  // What is not as it was asked for: by reason, the nodes and what they get instead.
  std::map<std::string, std::vector<std::string>> violations;
};

// The graph must be as the device will get it: prepared.
Result<QuantizePlan> annotate(const Graph& graph, const QuantizeOptions& options);

struct QuantizeReport {
  size_t weights = 0;
  std::vector<std::string> converts;  // "conv2d: u8 -> s16"
};
// Encodings for what the plan names, by what calibration saw, and converts where grids differ.
Result<QuantizeReport> quantize(Graph& graph, const QuantizePlan& plan, const Observations& seen);

// The same without samples, to ask the device whether it takes such encodings: every range is -1 to 1.
Status quantize_for_trial(Graph& graph, const QuantizePlan& plan);

}  // namespace sixfold
