#include "sixfold/execute/evaluate.h"
#include "sixfold/rewrite/rules.h"

namespace sixfold {
namespace {

// A result much larger than what it is made from stays a computation: an expanded scalar must not fill the
// file.
constexpr int64_t kMaxGrownBytes = 16 << 20;

}  // namespace

// f(constants...)  ->  constant
//
// Computed by the CPU engine, so the result has the bits that running it would give.
Match fold_constants(const Graph& graph, const Node& node) {
  if (node.op == Op::call || node.op == Op::rand || node.op == Op::randn)
    return no_match("not a pure function");
  std::vector<Tensor> inputs;
  int64_t bytes_in = 0;
  for (const ValueId v : node.inputs) {
    const Tensor* t = graph.constant(v);
    if (v.valid() && !t) return no_match("an operand is not constant");
    inputs.push_back(t ? *t : Tensor{});
    if (t) bytes_in += static_cast<int64_t>(t->size_bytes());
  }
  int64_t bytes_out = 0;
  for (const ValueId v : node.outputs) {
    if (!is_static(graph.dims(v))) return no_match("symbolic shape");
    bytes_out += numel(static_shape(graph.dims(v))) * static_cast<int64_t>(size_of(graph.dtype(v)));
  }
  for (const auto& [name, attr] : node.attrs) {
    const Dim* d = std::get_if<Dim>(&attr);
    const Dims* dims = std::get_if<Dims>(&attr);
    if ((d && !d->is_static()) || (dims && !is_static(*dims))) return no_match("a number is symbolic");
  }
  if (bytes_out > kMaxGrownBytes && bytes_out > bytes_in) return no_match("the result is too large to keep");
  // Weights stored as integers stay integers: they are what an NPU computes with.
  if (node.op == Op::dequantize) return no_match("a quantized constant");

  auto results = evaluate(node.op, inputs, node.attrs);
  if (!results.ok()) return no_match("the CPU engine does not compute it");
  Patch patch(graph, node);
  for (size_t i = 0; i < node.outputs.size(); ++i)
    patch.replace(node.outputs[i], patch.constant(std::move((*results)[i])));
  return patch;
}

}  // namespace sixfold
