#include "sixfold/rewrite/rules.h"

namespace sixfold {

// reshape to its own shape, expand to its own shape, permute by 0, 1, ..., to its own dtype, a slice or pad
// of nothing  ->  x
Match drop_identity(const Graph& graph, const Node& node) {
  switch (node.op) {
    case Op::reshape:
    case Op::expand:
    case Op::to:
    case Op::slice:
    case Op::pad:
    case Op::repeat:
      break;
    case Op::permute: {
      const Shape dims = node.attrs.ints("dims");
      for (size_t i = 0; i < dims.size(); ++i)
        if (dims[i] != static_cast<int64_t>(i)) return no_match("it moves an axis");
      break;
    }
    default:
      return no_match("not an op that can be an identity");
  }
  if (!(graph.type(node.input(0)) == graph.type(node.output()))) return no_match("it changes the type");
  // Equal shapes make each of these ops the identity: a slice or pad that keeps every extent moves nothing,
  // except a pad that crops one end and extends the other, which canonicalization splits.
  Patch patch(graph, node);
  patch.replace(node.output(), node.input(0));
  return patch;
}

// reshape(reshape(x, s), t)  ->  reshape(x, t)
Match merge_reshapes(const Graph& graph, const Node& outer) {
  if (outer.op != Op::reshape) return no_match("not a reshape");
  const Node* inner = graph.producer(outer.input(0));
  if (!inner || inner->op != Op::reshape) return no_match("input is not a reshape");
  Patch patch(graph, outer);
  patch.replace(outer.output(), patch.add(Op::reshape, {inner->input(0)}, outer.attrs));
  return patch;
}

// permute(permute(x, p), q)  ->  permute(x, p[q])
Match merge_permutes(const Graph& graph, const Node& outer) {
  if (outer.op != Op::permute) return no_match("not a permute");
  const Node* inner = graph.producer(outer.input(0));
  if (!inner || inner->op != Op::permute) return no_match("input is not a permute");
  const Shape p = inner->attrs.ints("dims");
  Dims dims;
  for (const int64_t q : outer.attrs.ints("dims")) dims.emplace_back(p[static_cast<size_t>(q)]);
  Patch patch(graph, outer);
  patch.replace(outer.output(), patch.add(Op::permute, {inner->input(0)}, {{"dims", dims}}));
  return patch;
}

}  // namespace sixfold
