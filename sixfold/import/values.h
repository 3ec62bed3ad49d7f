// Names of a program's graph, and the Argument unions that mention them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sixfold/import/aliases.h"
#include "sixfold/import/archive.h"
#include "sixfold/ops/arguments.h"

namespace sixfold {

// The names of one graph of the file; a subgraph has its own.
struct Scope {
  using Table = std::unordered_map<std::string_view, Json>;
  Table tensors, sym_ints, sym_floats, sym_bools;
  std::unordered_map<std::string_view, Aliases::Place> places;
  std::unordered_map<std::string_view, Dim> known_ints;  // of sym_ints, those already read
  // Numbers that item() read from tensors of one element. They may be results, and nothing else.
  std::unordered_map<std::string_view, ValueId> items;
  // Tensors of a kind that the graph does not hold (only where unknown nodes are kept).
  std::unordered_set<std::string_view> foreign;
};

class ValueReader {
 public:
  ValueReader(const Pt2Archive& archive, Graph& graph, Aliases& aliases, bool keep_unknown)
      : archive_(archive), graph_(graph), aliases_(aliases), keep_unknown_(keep_unknown) {}

  bool keep_unknown() const { return keep_unknown_; }
  bool read_foreign = false;  // names of Scope::foreign may be read: by nodes that are not understood
  Result<Aliases::Place> define_foreign_input(Scope& scope, std::string_view name);

  // A parameter or buffer: a constant from its first use on.
  struct Weight {
    std::string name;  // in the model, not of the placeholder
    std::optional<ValueId> value;
  };
  using Weights = std::unordered_map<std::string_view, Weight>;  // by placeholder
  Weights weights;                                               // visible in the outermost scope

  static Result<Scope> open_scope(const Json& graph);
  static Result<std::string_view> tensor_name(const Json& tensor);
  Result<TensorMeta> meta_of(const Scope& scope, std::string_view name);

  Status define(Scope& scope, std::string_view name, Aliases::Place place);
  Result<Aliases::Place> find_place(Scope& scope, std::string_view name);
  Result<ValueId> read_named(Scope& scope, std::string_view name);

  // The places that a tensor argument names; nothing for other tags. kNone stands for None in a list.
  static constexpr Aliases::Place kNone = UINT32_MAX;
  Result<std::optional<std::vector<Aliases::Place>>> tensor_places(Scope& scope, std::string_view tag,
                                                                   const Json& value);
  // A number, boolean, text, None or symbolic integer; nothing for other tags.
  Result<std::optional<Attr>> literal(Scope& scope, std::string_view tag, const Json& value);
  // Any argument of a node. Adds the places of its tensors to places.
  Result<Argument> read_argument(Scope& scope, const Json& json, uint32_t origin,
                                 std::vector<Aliases::Place>& places);

  void set_top(Scope& scope) { top_ = &scope; }

 private:
  Result<Aliases::Place> add_weight(const Scope& scope, std::string_view name, Weight& weight);
  Result<Dim> sym_int(Scope& scope, const Json& argument);
  Result<Attr> sym_plain(const Scope::Table& table, const Json& argument);
  Result<std::optional<Attr>> literal_list(Scope& scope, std::string_view tag, const Json& value);
  Result<std::optional<Attr>> enumeration(std::string_view tag, const Json& value);

  const Pt2Archive& archive_;
  Graph& graph_;
  Aliases& aliases_;
  bool keep_unknown_;
  Scope* top_ = nullptr;
};

}  // namespace sixfold
