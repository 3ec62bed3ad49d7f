#include "sixfold/ops/cost.h"

#include <algorithm>

namespace sixfold {
namespace {

int64_t count(const Dims& dims) { return numel(dims).value_or(0); }
int64_t extent(const Dims& dims, size_t from_end) { return dims[dims.size() - from_end].value_or(0); }

// Every element of the output is a sum over this many products.
int64_t macs(const Graph& g, const Node& n) {
  const auto in = [&](size_t i) -> const Dims& { return g.dims(n.input(i)); };
  const Dims& out = g.dims(n.output());
  switch (n.op) {
    case Op::matmul:
      return count(out) * extent(in(0), 1);
    case Op::linear:
      return count(out) * extent(in(1), 1);
    case Op::convolution: {
      const int64_t per_filter = count(in(1)) / std::max<int64_t>(in(1)[0].value_or(1), 1);
      return n.attrs.flag("transposed") ? count(in(0)) * per_filter : count(out) * per_filter;
    }
    case Op::sdpa:
      return count(out) / std::max<int64_t>(extent(out, 1), 1) * extent(in(1), 2) *
             (extent(in(0), 1) + extent(out, 1));
    case Op::lstm:
      return extent(in(0), 3) * extent(in(0), 2) * (count(in(3)) + count(in(4)));
    case Op::gru:
    case Op::rnn:
      return extent(in(0), 3) * extent(in(0), 2) * (count(in(2)) + count(in(3)));
    default:
      return 0;
  }
}

}  // namespace

Cost cost_of(const Graph& graph, const Node& node) {
  Cost cost;
  const auto bytes = [&](ValueId v) {
    return count(graph.dims(v)) * static_cast<int64_t>(size_of(graph.dtype(v)));
  };
  for (const ValueId v : node.inputs)
    if (v.valid()) cost.bytes += bytes(v);
  for (const ValueId v : node.outputs) cost.bytes += bytes(v);
  cost.macs = macs(graph, node);
  return cost;
}

}  // namespace sixfold
