// Nodes that cannot be read stay as calls that nothing runs, when that is asked for: an audit names them all.
#include <algorithm>

#include "sixfold/graph/unknown.h"
#include "sixfold/import/nodes.h"

namespace sixfold {
namespace {

// Sizes as the file has them; the dtype of a tensor that the graph cannot hold (complex, float8, sparse) is
// said to be f32, and whoever reads it is not read either.
TensorMeta stand_in(const Json& json, bool* foreign) {
  TensorMeta out;
  if (auto meta = read_tensor_meta(json); meta.ok()) return std::move(meta).value();
  *foreign = true;
  out.type.dtype = DType::f32;
  if (const auto sizes = json.get("sizes"); sizes.ok())
    if (const auto items = sizes->items(); items.ok() && items->size() <= 16)
      for (const Json& item : *items) {
        const auto dim = read_sym_int(item);
        const bool plain = dim.ok() && (!dim->is_static() || (dim->value() >= 0 && dim->value() < 1 << 24));
        out.type.dims.push_back(plain ? *dim : Dim(1));
      }
  Dim stride(1);
  out.strides.assign(out.type.rank(), Dim(1));
  for (size_t i = out.type.rank(); i-- > 0; stride = stride * out.type.dims[i]) out.strides[i] = stride;
  return out;
}

}  // namespace

Status NodeReader::keep_unknown(Scope& scope, const Json& node, uint32_t origin, std::string reason) {
  SF_ASSIGN(const Outputs outputs, output_names(node));
  if (outputs.tensors.empty()) return ok_status();
  // Where in the file it stands helps nobody here.
  reason = reason.substr(0, std::min(reason.find(" (at "), reason.find(" (while ")));
  if (reason.find("complex") != reason.npos) reason += "; the device has no complex numbers";
  if (graph_.origins[origin].target.starts_with("higher_order."))
    reason += "; control flow has no form on the device";
  std::vector<ValueId> inputs;
  values_.read_foreign = true;
  if (const auto list = node.get("inputs"); list.ok())
    if (const auto items = list->items(); items.ok())
      for (const Json& item : *items) {
        const auto arg = item.get("arg");
        std::vector<Aliases::Place> places;
        auto argument = arg.ok() ? values_.read_argument(scope, *arg, origin, places) : Argument(Attr());
        if (argument.ok() && argument->is_tensor)
          inputs.insert(inputs.end(), argument->tensors.begin(), argument->tensors.end());
      }
  values_.read_foreign = false;
  std::vector<TensorMeta> metas;
  std::vector<Type> types;
  for (const std::string_view name : outputs.tensors) {
    const auto json = scope.tensors.find(name);
    if (json == scope.tensors.end()) return invalid_model("tensor ", name, " has no entry in tensor_values");
    bool foreign = false;
    metas.push_back(stand_in(json->second, &foreign));
    types.push_back(metas.back().type);
    if (foreign) scope.foreign.insert(name);
  }
  const NodeId id = graph_.add_node(Op::call, graph_.origins[origin].target, std::move(inputs),
                                    {{kUnknown, std::move(reason)}}, types, origin);
  for (size_t i = 0; i < metas.size(); ++i) {
    const ValueId value = graph_.node(id).outputs[i];
    graph_.value(value).name = outputs.tensors[i];
    if (!scope.places.contains(outputs.tensors[i]))
      SF_TRY(values_.define(scope, outputs.tensors[i], aliases_.add(value, metas[i])));
  }
  return ok_status();
}

Result<Aliases::Place> ValueReader::define_foreign_input(Scope& scope, std::string_view name) {
  const auto json = scope.tensors.find(name);
  if (json == scope.tensors.end()) return invalid_model("tensor ", name, " has no entry in tensor_values");
  bool foreign = false;
  const TensorMeta meta = stand_in(json->second, &foreign);
  if (foreign) scope.foreign.insert(name);
  const ValueId id = graph_.add_input(std::string(name), meta.type);
  graph_.inputs.push_back({std::string(name), id, {}});
  return aliases_.add(id, meta);
}

}  // namespace sixfold
