// Makes a graph functional while it is imported.
//
// A graph as torch.export writes it may change tensors in place and look at parts of them through views. Here
// every tensor of the file is a Place: a storage and the chain of view ops that leads to it. Writing to a
// place computes a new value, carries it back through the views to a new value of the storage, and so leaves
// every other place of that storage stale; reading a stale place replays its views on the storage's present
// value.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sixfold/graph/graph.h"
#include "sixfold/import/meta.h"
#include "sixfold/ops/arguments.h"
#include "sixfold/ops/schema.h"

namespace sixfold {

class Aliases {
 public:
  using Place = uint32_t;
  using ArgumentPlaces = std::vector<std::pair<std::string, std::vector<Place>>>;

  // Without tracking (a file in which nothing mutates or addresses memory) views are ordinary results.
  Aliases(Graph& graph, bool tracking) : graph_(graph), tracking_(tracking) {}

  // A tensor with memory of its own.
  Place add(ValueId value, const TensorMeta& meta);
  // Its value now; adds nodes where the memory was written since.
  Result<ValueId> read(Place place, uint32_t origin);

  // The places of the outputs of a node that mutates nothing.
  Result<std::vector<Place>> add_results(const Schema* schema, NodeId node, const ArgumentPlaces& arguments,
                                         const std::vector<TensorMeta>& metas);
  // Imports a call whose schema mutates arguments, as functional calls; metas are those of its outputs in the
  // file.
  Result<std::vector<Place>> add_mutating(const Schema& schema, NamedArguments arguments,
                                          const ArgumentPlaces& places, const std::vector<TensorMeta>& metas,
                                          uint32_t origin);

  // as_strided addresses the memory that its operand lies in, whatever view that is. Makes `self` the memory
  // itself, as a tensor of one axis, and storage_offset a position in it.
  Status address_storage(NamedArguments& arguments, ArgumentPlaces& places, uint32_t origin);

  // A functional call of an op in the schema table, defaults filled in.
  Result<ValueId> emit(std::string_view target, NamedArguments arguments, const Type& type, uint32_t origin);
  const TensorMeta& meta(Place place) const { return places_[place].meta; }

  // Whether anything that existed at the mark was written since.
  struct Mark {
    size_t storages, writes;
  };
  Mark mark() const { return {storages_.size(), writes_.size()}; }
  bool wrote_before(const Mark& mark) const;

  // Turns written constants into states, lists graph.mutations, drops nodes that only served unused views.
  Status finish();

 private:
  struct View {
    NodeId node;
    uint32_t operand;  // index into the node's inputs of what it looks at
    uint32_t output;
  };
  struct Storage {
    ValueId original, current;
    Place root;  // the tensor that has this memory as its own
    uint32_t version = 0;
    bool unsure = false;  // something may or may not share this memory
  };
  struct PlaceInfo {
    uint32_t storage;
    std::vector<View> views;
    ValueId value;
    uint32_t version = 0;
    TensorMeta meta;
  };
  enum class Sharing { none, shares, unsure };

  Place add_view(Place base, const View& view, ValueId value, const TensorMeta& meta);
  Result<Place> emit_view(Place base, std::string_view target, std::string_view argument, const Dims& numbers,
                          const Dims& shape, uint32_t origin);
  const SchemaArg* viewed_argument(const Schema& schema, size_t output) const;
  Sharing sharing(const Schema& schema, const Node& node, const PlaceInfo& base,
                  const TensorMeta& result) const;
  Result<ValueId> replay(const View& view, ValueId base, uint32_t origin);
  Status write(Place place, ValueId value, uint32_t origin);
  Result<ValueId> write_back(const View& view, ValueId base, ValueId part, uint32_t origin);
  Result<std::vector<Place>> add_functional(const Schema& schema, const std::string& target,
                                            NamedArguments arguments, const ArgumentPlaces& places,
                                            const std::vector<TensorMeta>& metas, uint32_t origin);

  Graph& graph_;
  bool tracking_;
  std::vector<Storage> storages_;
  std::vector<PlaceInfo> places_;
  std::vector<uint32_t> writes_;  // storages, in the order written
};

}  // namespace sixfold
