// The nodes of a program's graph, and of subgraphs that can stand in their place.
#pragma once

#include <string_view>
#include <vector>

#include "sixfold/import/values.h"
#include "sixfold/ops/schema.h"

namespace sixfold {

bool mutates(const Schema& schema);
bool is_arange_out(std::string_view target);
bool addresses_memory(std::string_view target);            // as_strided: positions in memory, not in a tensor
std::string_view without_prefix(std::string_view target);  // "torch.ops.aten.add.Tensor" -> "aten.add.Tensor"

class NodeReader {
 public:
  NodeReader(Graph& graph, Aliases& aliases, ValueReader& values)
      : graph_(graph), aliases_(aliases), values_(values) {}

  Status read_nodes(Scope& scope, const Json& graph, int depth = 0);

 private:
  struct Outputs {
    std::vector<std::string_view> tensors;
    bool others = false;    // symbolic numbers
    std::string_view item;  // the name of one
  };
  using Places = std::vector<Aliases::Place>;

  Result<uint32_t> add_origin(const Json& node);
  Result<Outputs> output_names(const Json& node);
  Status read_node(Scope& scope, const Json& node, uint32_t origin, int depth);
  // Instead of a node that was not read, for this reason (nodes_unknown.cpp).
  Status keep_unknown(Scope& scope, const Json& node, uint32_t origin, std::string reason);
  Status read_item(Scope& scope, const Json& node, std::string_view name, uint32_t origin);
  Status read_arange_out(Scope& scope, const Json& node, const Outputs& outputs, uint32_t origin);
  Status check_output_count(const Schema& schema, size_t count);
  Status read_arguments(Scope& scope, const Json& node, const Schema* schema, uint32_t origin,
                        NamedArguments& arguments, Aliases::ArgumentPlaces& all_places);
  // Calls that hold subgraphs (nodes_higher_order.cpp).
  Status read_higher_order(Scope& scope, const Json& node, const Outputs& outputs, uint32_t origin,
                           int depth);
  Result<Places> read_wrapper(Scope& scope, const Json& node, uint32_t origin, int depth);
  Result<Places> read_cond(Scope& scope, const Json& node, uint32_t origin, int depth);
  Result<Places> inline_graph(const Json& graph, const Places& operands, int depth);

  Graph& graph_;
  Aliases& aliases_;
  ValueReader& values_;
};

}  // namespace sixfold
