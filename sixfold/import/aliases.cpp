#include "sixfold/import/aliases.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "sixfold/import/functionalize.h"

namespace sixfold {
namespace {

// Far above any model; they bound what a small file can make us build.
constexpr size_t kMaxViews = 64;
constexpr size_t kMaxValues = size_t{1} << 20;

std::string_view op_name(std::string_view target) {
  const size_t begin = target.find('.') + 1;
  return target.substr(begin, target.rfind('.') - begin);
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_row_major(const TensorMeta& meta) {
  Dim step = 1;
  for (size_t i = meta.type.rank(); i-- > 0;) {
    if (!(meta.type.dims[i] == Dim(1)) && !(meta.strides[i] == step)) return false;
    step = step * meta.type.dims[i];
  }
  return true;
}

// Whether torch's reshape of a strided tensor is a view: each run of dims that lie in memory as one must
// become whole dims of the result.
bool can_view(const Shape& shape, const Shape& strides, const Shape& result) {
  if (numel(shape) == 0 || shape.empty()) return true;
  auto at = static_cast<int64_t>(result.size()) - 1;
  __int128 base = strides.back(), run = 1, made = 1;  // strides in a file may be any number
  for (size_t d = shape.size(); d-- > 0;) {
    run *= shape[d];
    if (d != 0 && (shape[d - 1] == 1 || strides[d - 1] == run * base)) continue;
    while (at >= 0 && (made < run || result[static_cast<size_t>(at)] == 1))
      made *= result[static_cast<size_t>(at--)];
    if (made != run) return false;
    if (d > 0) {
      base = strides[d - 1];
      run = made = 1;
    }
  }
  return at == -1;
}

// The axes of a tensor from the outermost in memory to the innermost, where it fills its memory without gaps.
std::optional<Shape> memory_order(const TensorMeta& meta) {
  Shape order(meta.type.rank());
  std::iota(order.begin(), order.end(), 0);
  if (is_row_major(meta)) return order;
  if (!is_static(meta.type.dims) || !is_static(meta.strides)) return std::nullopt;
  const Shape shape = static_shape(meta.type.dims), strides = static_shape(meta.strides);
  const auto stride_of = [&](int64_t axis) { return strides[static_cast<size_t>(axis)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return stride_of(a) > stride_of(b); });
  __int128 step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const int64_t extent = shape[static_cast<size_t>(order[i])];
    if (extent == 1) continue;
    if (stride_of(order[i]) != step) return std::nullopt;
    step *= extent;
  }
  return order;
}

const Aliases::Place* place_of(const Aliases::ArgumentPlaces& places, std::string_view name) {
  for (const auto& [argument, list] : places)
    if (argument == name && list.size() == 1) return &list[0];
  return nullptr;
}

int64_t integer(const Node& node, std::string_view name) {
  const Attr* attr = node.attrs.find(name);
  const Dim* d = attr ? std::get_if<Dim>(attr) : nullptr;
  return d ? d->value_or(0) : 0;
}

Argument copy_of(const Node& node, std::string_view name) {
  const Attr* attr = node.attrs.find(name);
  return Argument(attr ? *attr : Attr());
}

}  // namespace

Aliases::Place Aliases::add(ValueId value, const TensorMeta& meta) {
  storages_.push_back({value, value, static_cast<Place>(places_.size())});
  places_.push_back({static_cast<uint32_t>(storages_.size() - 1), {}, value, 0, meta});
  return static_cast<Place>(places_.size() - 1);
}

Aliases::Place Aliases::add_view(Place base, const View& view, ValueId value, const TensorMeta& meta) {
  PlaceInfo info = places_[base];
  info.views.push_back(view);
  info.value = value;
  info.version = storages_[info.storage].version;
  info.meta = meta;
  places_.push_back(std::move(info));
  return static_cast<Place>(places_.size() - 1);
}

Result<ValueId> Aliases::replay(const View& view, ValueId base, uint32_t origin) {
  if (graph_.value_count() > kMaxValues)
    return unsupported("in-place ops and views give more than ", kMaxValues, " values");
  const Node& node = graph_.node(view.node);
  std::vector<ValueId> inputs = node.inputs;
  inputs[view.operand] = base;
  std::vector<Type> types;
  for (const ValueId out : node.outputs) types.push_back(graph_.type(out));
  const NodeId copy = graph_.add_node(Op::call, node.target, std::move(inputs), node.attrs, types, origin);
  return graph_.node(copy).outputs[view.output];
}

Result<ValueId> Aliases::read(Place place, uint32_t origin) {
  PlaceInfo& info = places_[place];
  const Storage& storage = storages_[info.storage];
  if (info.version != storage.version) {
    info.value = storage.current;
    for (const View& view : info.views) {
      SF_ASSIGN(info.value, replay(view, info.value, origin));
    }
    info.version = storage.version;
  }
  return info.value;
}

const SchemaArg* Aliases::viewed_argument(const Schema& schema, size_t output) const {
  // These return their input itself when they have nothing to do, though their schemas do not say so.
  if (is_one_of(op_name(schema.target), {"dropout", "feature_dropout", "alpha_dropout",
                                         "feature_alpha_dropout", "type_as", "_unsafe_view"}))
    return &schema.args[0];
  if (schema.returns.empty()) return nullptr;
  const SchemaReturn& result =
      schema.returns[schema.returns.front().list ? 0 : std::min(output, schema.returns.size() - 1)];
  if (result.alias.empty()) return nullptr;
  for (const SchemaArg& arg : schema.args)
    if (arg.alias == result.alias && !arg.list && arg.type == ArgType::tensor) return &arg;
  return nullptr;
}

Aliases::Sharing Aliases::sharing(const Schema& schema, const Node& node, const PlaceInfo& base,
                                  const TensorMeta& result) const {
  const std::string_view op = op_name(schema.target);
  const auto when = [](bool shares) { return shares ? Sharing::shares : Sharing::none; };
  const TensorMeta& from = base.meta;
  if (op.ends_with("dropout")) {
    const Attr* train = node.attrs.find("train");
    return when(train && std::holds_alternative<bool>(*train) && !std::get<bool>(*train));
  }
  const bool same_memory = from.type.dtype == result.type.dtype && from.strides == result.strides;
  if (is_one_of(op, {"to", "type_as"})) {
    const Attr* copy = node.attrs.find("copy");
    return when(same_memory && !(copy && std::holds_alternative<bool>(*copy) && std::get<bool>(*copy)));
  }
  if (op == "contiguous") return when(same_memory);
  if (is_one_of(op, {"reshape", "reshape_as", "flatten", "ravel"})) {
    if (is_row_major(from)) return Sharing::shares;
    if (op == "ravel") return Sharing::none;
    if (!is_static(from.type.dims) || !is_static(from.strides) || !is_static(result.type.dims))
      return Sharing::unsure;
    return when(
        can_view(static_shape(from.type.dims), static_shape(from.strides), static_shape(result.type.dims)));
  }
  return Sharing::shares;
}

Result<std::vector<Aliases::Place>> Aliases::add_results(const Schema* schema, NodeId id,
                                                         const ArgumentPlaces& arguments,
                                                         const std::vector<TensorMeta>& metas) {
  const Node& node = graph_.node(id);
  std::vector<Place> out;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const SchemaArg* viewed = tracking_ && schema ? viewed_argument(*schema, i) : nullptr;
    const Place* base = viewed ? place_of(arguments, viewed->name) : nullptr;
    const Sharing shares = base ? sharing(*schema, node, places_[*base], metas[i]) : Sharing::none;
    if (shares == Sharing::shares && places_[*base].views.size() >= kMaxViews)
      return unsupported("views of views nest deeper than ", kMaxViews, " levels");
    if (shares == Sharing::shares) {
      const auto& operands = std::get<Operands>(*node.attrs.find(viewed->name));
      out.push_back(
          add_view(*base, {id, operands.first, static_cast<uint32_t>(i)}, node.outputs[i], metas[i]));
      continue;
    }
    out.push_back(add(node.outputs[i], metas[i]));
    if (shares == Sharing::unsure) {
      storages_.back().unsure = true;
      storages_[places_[*base].storage].unsure = true;
    }
  }
  return out;
}

Result<ValueId> Aliases::emit(std::string_view target, NamedArguments arguments, const Type& type,
                              uint32_t origin) {
  const Schema* schema = find_schema(target);
  if (!schema) return fail(Code::Internal, "the schema table lacks ", target);
  SF_ASSIGN(CallOperands call, complete_call(schema, std::move(arguments)));
  const NodeId node = graph_.add_node(Op::call, std::string(target), std::move(call.inputs),
                                      std::move(call.attrs), {type}, origin);
  return graph_.node(node).output();
}

Result<Aliases::Place> Aliases::emit_view(Place base, std::string_view target, std::string_view argument,
                                          const Dims& numbers, const Dims& shape, uint32_t origin) {
  SF_ASSIGN(const ValueId from, read(base, origin));
  TensorMeta meta{{graph_.dtype(from), shape}, {}, 0};
  SF_ASSIGN(const ValueId value,
            emit(target, {{"self", from}, {std::string(argument), Attr(numbers)}}, meta.type, origin));
  return add_view(base, {graph_.value(value).producer, 0, 0}, value, meta);
}

Status Aliases::address_storage(NamedArguments& arguments, ArgumentPlaces& places, uint32_t origin) {
  const auto named = [&](std::string_view name) {
    return std::find_if(arguments.begin(), arguments.end(), [&](const auto& a) { return a.first == name; });
  };
  const auto self_place = std::find_if(
      places.begin(), places.end(), [](const auto& p) { return p.first == "self" && p.second.size() == 1; });
  const auto self = named("self");
  if (self_place == places.end() || self == arguments.end() || !self->second.is_tensor)
    return invalid_model("argument 'self' is not a tensor");
  const PlaceInfo info = places_[self_place->second[0]];
  if (named("src") !=
      arguments.end()) {  // as_strided_scatter gives a tensor of self's shape, not of memory's
    if (is_row_major(info.meta) && info.meta.storage_offset == Dim(0)) return ok_status();
    return unsupported("it writes to memory of a tensor with strides ", info.meta.strides, " from ",
                       info.meta.storage_offset);
  }
  const Storage storage = storages_[info.storage];
  const TensorMeta root = places_[storage.root].meta;
  const auto order = memory_order(root);
  if (storage.unsure || !order)
    return unsupported("it addresses memory of ", root.type, " with strides ", root.strides,
                       ", of which this file does not have every element");
  if (root.type.dtype != info.meta.type.dtype)
    return unsupported("it addresses memory of ", root.type.dtype, " as ", info.meta.type.dtype);

  Dim offset = info.meta.storage_offset;
  auto given = named("storage_offset");
  if (given != arguments.end() && !std::holds_alternative<std::monostate>(given->second.attr)) {
    if (!std::holds_alternative<Dim>(given->second.attr))
      return invalid_model("argument 'storage_offset' is not an integer");
    offset = std::get<Dim>(given->second.attr);
  }
  offset = offset - root.storage_offset;
  if (offset.is_static() && offset.value() < 0)
    return unsupported("it addresses memory that lies before the tensor that it looks at");

  Place flat = storage.root;
  Dims shape;
  for (const int64_t axis : *order) shape.push_back(root.type.dims[static_cast<size_t>(axis)]);
  if (!std::is_sorted(order->begin(), order->end())) {
    SF_ASSIGN(flat, emit_view(flat, "aten.permute.default", "dims", to_dims(*order), shape, origin));
  }
  if (shape.size() != 1) {
    SF_ASSIGN(flat, emit_view(flat, "aten.reshape.default", "shape", {numel(shape)}, {numel(shape)}, origin));
  }
  self_place->second[0] = flat;
  SF_ASSIGN(self->second.tensors[0], read(flat, origin));
  if (given == arguments.end())
    arguments.emplace_back("storage_offset", Attr(offset));
  else
    given->second = Argument(Attr(offset));
  return ok_status();
}

// base with the part that the view shows replaced.
Result<ValueId> Aliases::write_back(const View& view, ValueId base, ValueId part, uint32_t origin) {
  const Node node = graph_.node(view.node);
  const std::string_view op = op_name(node.target);
  const Type type = graph_.type(base);
  const auto scatter_slice = [&](int64_t dim, const Dim& start, const Dim& end, int64_t step) {
    return emit("aten.slice_scatter.default",
                {{"self", base},
                 {"src", part},
                 {"dim", Attr(Dim(dim))},
                 {"start", Attr(start)},
                 {"end", Attr(end)},
                 {"step", Attr(Dim(step))}},
                type, origin);
  };
  const auto swapped = [&](std::string_view first, std::string_view second) {
    return emit(node.target,
                {{"self", part},
                 {std::string(first), copy_of(node, second)},
                 {std::string(second), copy_of(node, first)}},
                type, origin);
  };
  if (is_one_of(op, {"detach", "alias", "positive", "contiguous", "to", "type_as", "dropout",
                     "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "lift_fresh", "conj",
                     "resolve_conj", "resolve_neg", "real", "view_of"}))
    return part;
  if (is_one_of(op, {"expand", "expand_as", "broadcast_to"}) && graph_.type(part) == type) return part;
  if (is_one_of(op, {"view", "_unsafe_view", "reshape", "_reshape_alias", "view_as", "reshape_as", "flatten",
                     "unflatten", "ravel", "squeeze", "unsqueeze"}) &&
      node.target != "aten.view.dtype")
    return emit("aten.reshape.default", {{"self", part}, {"shape", Attr(type.dims)}}, type, origin);
  if (op == "select") {
    return emit(
        "aten.select_scatter.default",
        {{"self", base}, {"src", part}, {"dim", copy_of(node, "dim")}, {"index", copy_of(node, "index")}},
        type, origin);
  }
  if (op == "slice") {
    return emit("aten.slice_scatter.default",
                {{"self", base},
                 {"src", part},
                 {"dim", copy_of(node, "dim")},
                 {"start", copy_of(node, "start")},
                 {"end", copy_of(node, "end")},
                 {"step", copy_of(node, "step")}},
                type, origin);
  }
  if (op == "diagonal") {
    return emit("aten.diagonal_scatter.default",
                {{"self", base},
                 {"src", part},
                 {"offset", copy_of(node, "offset")},
                 {"dim1", copy_of(node, "dim1")},
                 {"dim2", copy_of(node, "dim2")}},
                type, origin);
  }
  if (op == "as_strided") {
    return emit("aten.as_strided_scatter.default",
                {{"self", base},
                 {"src", part},
                 {"size", copy_of(node, "size")},
                 {"stride", copy_of(node, "stride")},
                 {"storage_offset", copy_of(node, "storage_offset")}},
                type, origin);
  }
  if (is_one_of(op, {"t", "numpy_T", "mT", "mH", "adjoint", "matrix_H"}))
    return emit(node.target, {{"self", part}}, type, origin);
  if (op == "transpose")
    return emit(node.target,
                {{"self", part}, {"dim0", copy_of(node, "dim0")}, {"dim1", copy_of(node, "dim1")}}, type,
                origin);
  if (op == "swapaxes") return swapped("axis0", "axis1");
  if (op == "swapdims") return swapped("dim0", "dim1");
  if (is_one_of(op, {"movedim", "moveaxis"})) return swapped("source", "destination");
  if (op == "permute") {
    const Dims dims = node.attrs.dims("dims");
    Dims inverse(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) {
      SF_ASSIGN(const int64_t axis, normalize_axis(dims[i].value_or(0), dims.size()));
      inverse[static_cast<size_t>(axis)] = Dim(static_cast<int64_t>(i));
    }
    return emit(node.target, {{"self", part}, {"dims", Attr(inverse)}}, type, origin);
  }
  if (is_one_of(op, {"narrow", "split", "split_with_sizes", "chunk", "tensor_split", "unbind"}) &&
      type.rank() > 0) {
    SF_ASSIGN(const int64_t dim, normalize_axis(integer(node, "dim"), type.rank()));
    const auto axis = static_cast<size_t>(dim);
    const auto same_rank = [&](ValueId v) { return graph_.type(v).rank() == type.rank(); };
    if (op != "unbind" &&
        (!same_rank(part) || !std::all_of(node.outputs.begin(), node.outputs.end(), same_rank)))
      return invalid_model("a result of ", node.target, " has another rank than ", type);
    if (op == "unbind") {
      return emit("aten.select_scatter.default",
                  {{"self", base},
                   {"src", part},
                   {"dim", Attr(Dim(dim))},
                   {"index", Attr(Dim(int64_t{view.output}))}},
                  type, origin);
    }
    Dim start = 0;
    if (op == "narrow") {
      const Attr* first = node.attrs.find("start");
      if (first && std::holds_alternative<Dim>(*first)) {
        start = std::get<Dim>(*first);
        if (start.is_static() && start.value() < 0) start = start + type.dims[axis];
        return scatter_slice(dim, start, start + graph_.dims(part)[axis], 1);
      }
    } else {
      for (uint32_t i = 0; i < view.output; ++i) start = start + graph_.dims(node.outputs[i])[axis];
      return scatter_slice(dim, start, start + graph_.dims(part)[axis], 1);
    }
  }
  return unsupported("a tensor is changed in place through ", node.target,
                     ", which sixfold cannot carry back");
}

Status Aliases::write(Place place, ValueId value, uint32_t origin) {
  const PlaceInfo info = places_[place];
  if (storages_[info.storage].unsure)
    return unsupported(
        "a tensor is changed in place that may share memory with a reshaped one of symbolic shape");
  std::vector<ValueId> bases{storages_[info.storage].current};  // what each view looks at
  for (size_t i = 0; i + 1 < info.views.size(); ++i) {
    SF_ASSIGN(const ValueId base, replay(info.views[i], bases[i], origin));
    bases.push_back(base);
  }
  ValueId whole = value;
  for (size_t i = info.views.size(); i-- > 0;) {
    SF_ASSIGN(whole, write_back(info.views[i], bases[i], whole, origin));
  }
  Storage& storage = storages_[info.storage];
  storage.current = whole;
  ++storage.version;
  places_[place].value = value;
  places_[place].version = storage.version;
  writes_.push_back(info.storage);
  return ok_status();
}

Result<std::vector<Aliases::Place>> Aliases::add_mutating(const Schema& schema, NamedArguments arguments,
                                                          const ArgumentPlaces& places,
                                                          const std::vector<TensorMeta>& metas,
                                                          uint32_t origin) {
  if (const auto target = metadata_target(schema)) {
    const Schema* view = find_schema(*target);
    if (!view) return fail(Code::Internal, "the schema table lacks ", *target);
    if (*target == "aten.detach.default" && arguments.size() > 1)
      arguments.erase(arguments.begin() + 1, arguments.end());
    SF_ASSIGN(CallOperands call, complete_call(view, std::move(arguments)));
    if (metas.size() != 1) return invalid_model(schema.target, " has ", metas.size(), " outputs, expected 1");
    const NodeId node = graph_.add_node(Op::call, *target, std::move(call.inputs), std::move(call.attrs),
                                        {metas[0].type}, origin);
    return add_results(view, node, places, metas);
  }
  const auto target = functional_target(schema);
  if (!target)
    return unsupported(schema.target, " changes a tensor in place and has no functional form here");
  return add_functional(schema, *target, std::move(arguments), places, metas, origin);
}

Result<std::vector<Aliases::Place>> Aliases::add_functional(const Schema& schema, const std::string& target,
                                                            NamedArguments arguments,
                                                            const ArgumentPlaces& places,
                                                            const std::vector<TensorMeta>& metas,
                                                            uint32_t origin) {
  const Schema* functional = find_schema(target);
  std::vector<Place> written;
  for (const SchemaArg& arg : schema.args) {
    if (!arg.mutates) continue;
    const Place* place = place_of(places, arg.name);
    if (!place) return invalid_model("argument '", arg.name, "' of ", schema.target, " is not a tensor");
    written.push_back(*place);
  }
  // An in-place op returns what it wrote; others return results of their own, and their functional form
  // appends what they wrote.
  const bool returns_self = !schema.returns.empty() && schema.returns[0].mutates;
  if (returns_self && written.size() != 1)
    return unsupported(schema.target, " changes several tensors in place");
  std::vector<Type> types;
  if (!returns_self)
    for (const TensorMeta& meta : metas) types.push_back(meta.type);
  std::vector<Type> operands;
  for (const auto& [name, list] : places)
    for (const Place p : list)
      if (!(returns_self && p == written[0])) operands.push_back(places_[p].meta.type);
  for (const Place p : written) {
    Type type = places_[p].meta.type;
    if (returns_self) type.dtype = functional_dtype(target, type, operands);
    types.push_back(type);
  }
  if (types.size() != functional->returns.size())
    return invalid_model(schema.target, " has ", metas.size(), " outputs in the file, ", target,
                         " would have ", functional->returns.size());
  for (auto& [name, argument] : arguments)  // same order, though names may differ
    for (size_t i = 0; i < schema.args.size(); ++i)
      if (name == schema.args[i].name) {
        name = functional->args[i].name;
        break;
      }
  SF_ASSIGN(CallOperands call, complete_call(functional, std::move(arguments)));
  const NodeId node =
      graph_.add_node(Op::call, target, std::move(call.inputs), std::move(call.attrs), types, origin);
  const size_t first_written = types.size() - written.size();
  for (size_t i = 0; i < written.size(); ++i) {
    ValueId value = graph_.node(node).outputs[first_written + i];
    const Type self = places_[written[i]].meta.type;
    if (graph_.dtype(value) != self.dtype) {
      SF_ASSIGN(value,
                emit("aten._to_copy.default", {{"self", value}, {"dtype", Attr(self.dtype)}}, self, origin));
    }
    SF_TRY(write(written[i], value, origin));
  }
  if (returns_self) return std::vector<Place>(metas.size(), written[0]);
  std::vector<Place> out;
  for (size_t i = 0; i < first_written; ++i) out.push_back(add(graph_.node(node).outputs[i], metas[i]));
  return out;
}

bool Aliases::wrote_before(const Mark& mark) const {
  return std::any_of(writes_.begin() + static_cast<std::ptrdiff_t>(mark.writes), writes_.end(),
                     [&](uint32_t storage) { return storage < mark.storages; });
}

Status Aliases::finish() {
  if (writes_.empty()) return ok_status();
  for (const Storage& storage : storages_) {
    if (storage.version == 0) continue;
    Value& original = graph_.value(storage.original);
    if (original.kind == ValueKind::node) continue;
    if (original.kind == ValueKind::constant) original.kind = ValueKind::state;
    graph_.mutations.push_back({storage.original, storage.current});
  }
  graph_.remove_dead();
  return ok_status();
}

}  // namespace sixfold
