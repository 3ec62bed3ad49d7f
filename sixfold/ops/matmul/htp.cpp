// Matrix products as ops that the NPU has.
#include "sixfold/ops/shape/htp.h"

#include "sixfold/graph/encoding.h"

namespace sixfold::htp {

// Both operands get the same rank. More than two batch axes are one, which both have in full: the library
// crashes on broadcasts among five axes.
Match matmul(Htp& h) {
  const ValueId a = h.in(0), b = h.in(1);
  if (!is_float(h.dtype(a))) return h.unsupported("the device has products of floats only");
  const int64_t rank = std::max(h.rank(a), h.rank(b));
  const auto widened = [&](ValueId v) {
    Dims d = h.dims(v);
    d.insert(d.begin(), static_cast<size_t>(rank) - d.size(), Dim(1));
    return h.reshape(v, std::move(d));
  };
  if (rank > 4) {
    const Dims& out = h.out_type().dims;
    Dim batch(1);
    for (size_t i = 0; i + 2 < out.size(); ++i) batch = batch * out[i];
    const auto merged = [&](ValueId v) {
      v = widened(v);
      Dims d = h.dims(v);
      for (size_t i = 0; i + 2 < d.size(); ++i) d[i] = out[i];
      return h.reshape(h.expand(v, d), {batch, d[d.size() - 2], d[d.size() - 1]});
    };
    return h.result(h.reshape(h.add(Op::matmul, {merged(a), merged(b)}), out));
  }
  if (h.rank(a) == h.rank(b)) return no_match("the device has it");
  return h.result(h.add(Op::matmul, {widened(a), widened(b)}));
}

Match linear(Htp& h) {
  if (const int64_t rank = h.rank(h.in()); rank == 1 || rank > kMaxRank) {  // rows are all alike
    const Dims& d = h.dims(h.in());
    Dim rows(1);
    for (size_t i = 0; i + 1 < d.size(); ++i) rows = rows * d[i];
    std::vector<ValueId> inputs = h.node().inputs;
    inputs[0] = h.reshape(h.in(), {rows, d.back()});
    return h.result(h.reshape(h.add(Op::linear, std::move(inputs), h.attrs()), h.out_type().dims));
  }
  // On a grid, a bias that is computed is added: the library crashes on it.
  if (const ValueId bias = h.in(2); bias.valid() && !h.constant_data(bias) &&
                                    !stored_integers(h.graph, bias) &&
                                    (h.target.quantizes || h.graph.value(h.node().outputs[0]).encoding)) {
    const ValueId product = h.add(Op::linear, {h.in(0), h.in(1)}, h.attrs());
    return h.result(h.add(Op::add, {product, bias}));
  }
  return no_match("the device has it");
}

}  // namespace sixfold::htp
