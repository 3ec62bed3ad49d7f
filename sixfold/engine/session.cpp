#include "sixfold/engine/session.h"

namespace sixfold {
namespace {

bool is_number(const Attr& a) {
  return std::holds_alternative<bool>(a) || std::holds_alternative<Dim>(a) ||
         std::holds_alternative<double>(a);
}

std::string leaf_name(const Graph& graph, size_t i) {
  const std::string& name = graph.inputs[i].name;
  return name.empty() ? cat("input ", i) : cat("input ", i, " (", name, ")");
}

Status check_number(const Tensor& given, const Attr& literal) {
  if (given.count() != 1)
    return invalid_argument("is the constant ", literal, " in this program, a tensor was given");
  bool equal = false;
  if (const double* x = std::get_if<double>(&literal)) {
    const double g = element_real(given, 0);
    equal = g == *x || static_cast<float>(g) == static_cast<float>(*x);
  } else if (const bool* b = std::get_if<bool>(&literal)) {
    equal = (element_integer(given, 0) != 0) == *b;
  } else {
    equal = element_integer(given, 0) == std::get<Dim>(literal).value_or(0);
  }
  if (equal) return {};
  return invalid_argument("is the constant ", literal, " in this program, ", element_real(given, 0),
                          " was given");
}

// What is likely wrong where rows of samples come without the axis of one sample that the model has.
std::string hint(const Type& type, const Tensor& given) {
  if (type.rank() != given.shape.size() + 1 || !(type.dims[0] == Dim(1))) return "";
  for (size_t i = 0; i < given.shape.size(); ++i)
    if (!(type.dims[i + 1] == Dim(given.shape[i]))) return "";
  return ": the first axis, of 1, is missing (of n stacked samples, [n, 1, ...])";
}

// Learns symbols from dims that are a plain multiple of one symbol; match_inputs checks the rest afterwards.
void learn(const Dims& dims, const Shape& shape, Bindings& bindings) {
  for (size_t i = 0; i < dims.size(); ++i) {
    std::vector<std::string> names;
    dims[i].collect_symbols(names);
    if (names.size() != 1 || bindings.contains(names[0])) continue;
    const int64_t at0 = dims[i].substitute({{names[0], 0}}).value_or(0);
    const int64_t slope = dims[i].substitute({{names[0], 1}}).value_or(0) - at0;
    if (slope == 0 || (shape[i] - at0) % slope != 0) continue;
    const int64_t value = (shape[i] - at0) / slope;
    if (dims[i].substitute({{names[0], value}}) == Dim(shape[i])) bindings[names[0]] = value;
  }
}

}  // namespace

std::vector<size_t> fed_leaves(const Graph& graph) {
  std::vector<size_t> out;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].value.valid() || is_number(graph.inputs[i].literal)) out.push_back(i);
  return out;
}

Result<Feed> match_inputs(const Graph& graph, std::span<const Tensor> fed) {
  std::vector<size_t> leaves = fed_leaves(graph);
  std::vector<size_t> tensor_leaves;
  for (const size_t i : leaves)
    if (graph.inputs[i].value.valid()) tensor_leaves.push_back(i);
  if (fed.size() != leaves.size() && fed.size() == tensor_leaves.size()) leaves = tensor_leaves;
  if (fed.size() != leaves.size())
    return invalid_argument("the model takes ", leaves.size(), " inputs, ", fed.size(), " were given");

  Feed feed;
  for (size_t k = 0; k < fed.size(); ++k) {
    const Leaf& leaf = graph.inputs[leaves[k]];
    if (!leaf.value.valid()) {
      if (Status s = check_number(fed[k], leaf.literal); !s.ok())
        return invalid_argument(leaf_name(graph, leaves[k]), " ", s.error().message());
      continue;
    }
    const Type& type = graph.type(leaf.value);
    if (fed[k].dtype != type.dtype || fed[k].shape.size() != type.rank())
      return invalid_argument(leaf_name(graph, leaves[k]), " must be ", type, ", ", fed[k].dtype,
                              fed[k].shape, " was given", hint(type, fed[k]));
    learn(type.dims, fed[k].shape, feed.bindings);
    feed.tensors.push_back(to_contiguous(fed[k]));
  }
  for (const auto& [name, value] : feed.bindings) {
    const auto it = graph.symbols.find(name);
    if (it == graph.symbols.end()) continue;
    if ((it->second.min && value < *it->second.min) || (it->second.max && value > *it->second.max))
      return invalid_argument("symbol ", name, " is ", value, " for these inputs, outside its range of ",
                              it->second.min.value_or(0), " to ",
                              it->second.max ? cat(*it->second.max) : "unbounded");
  }
  size_t k = 0;
  for (const size_t i : tensor_leaves) {
    const Type& type = graph.type(graph.inputs[i].value);
    const Tensor& given = feed.tensors[k++];
    for (size_t d = 0; d < type.rank(); ++d)
      if (!(type.dims[d].substitute(feed.bindings) == Dim(given.shape[d])))
        return invalid_argument(leaf_name(graph, i), " must be ", type, ", ", given.dtype, given.shape,
                                " was given");
  }
  return feed;
}

Result<std::unique_ptr<Session>> Session::create(Graph graph, const Bindings& bindings, cpu::Pool& pool,
                                                 const RewriteOptions& options) {
  auto out = std::make_unique<Session>();
  out->graph_ = std::move(graph);
  Graph& g = out->graph_;
  specialize(g, bindings);
  // Eager torch's numbers: a batch norm is applied after its convolution (fuse_batch_norm), not folded into
  // the weights.
  RewriteOptions canonical = options;
  canonical.disabled.insert("fold_batch_norm");
  SF_TRY(canonicalize(g, canonical, &out->report_));
  SF_TRY(optimize_for_cpu(g, options, &out->report_));
  SF_ASSIGN(FlatProgram program, to_program(g));
  SF_ASSIGN(Plan plan, make_plan(std::move(program)));
  SF_ASSIGN(out->executor_, Executor::create(std::move(plan), pool));
  size_t tensors = 0;
  for (const Leaf& leaf : g.outputs) {
    if (leaf.value.valid()) {
      out->outputs_.push_back({tensors++, {}});
    } else if (const Dim* d = std::get_if<Dim>(&leaf.literal)) {
      if (!d->is_static())
        return unsupported("output ", leaf.name, " is ", *d, ", which the inputs do not determine");
      out->outputs_.push_back({SIZE_MAX, Tensor::scalar(d->value(), DType::i64)});
    } else if (const double* x = std::get_if<double>(&leaf.literal)) {
      out->outputs_.push_back({SIZE_MAX, Tensor::scalar(*x, DType::f32)});
    } else if (const bool* b = std::get_if<bool>(&leaf.literal)) {
      out->outputs_.push_back({SIZE_MAX, Tensor::scalar(static_cast<int64_t>(*b), DType::boolean)});
    }
  }
  return out;
}

Status Session::run(std::span<const Tensor> inputs) {
  std::vector<const void*> pointers;
  for (const Tensor& t : inputs) pointers.push_back(t.data);
  return executor_->run(pointers);
}

Tensor Session::output(size_t i) const {
  const Output& o = outputs_[i];
  if (o.index == SIZE_MAX) return o.literal;
  const cpu::TensorDesc& d = executor_->output_desc(o.index);
  return Tensor{d.dtype, d.shape, {}, static_cast<const std::byte*>(executor_->output(o.index)), nullptr};
}

}  // namespace sixfold
