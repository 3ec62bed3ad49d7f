// Matrix products as ops that the NPU has.
#include "sixfold/rewrite/htp.h"

namespace sixfold::htp {

// Both operands get the same rank.
Match matmul(Htp& h) {
  const ValueId a = h.in(0), b = h.in(1);
  if (!is_float(h.dtype(a))) return h.unsupported("the device has products of floats only");
  const int64_t rank = std::max(h.rank(a), h.rank(b));
  const auto widened = [&](ValueId v) {
    Dims d = h.dims(v);
    d.insert(d.begin(), static_cast<size_t>(rank) - d.size(), Dim(1));
    return h.reshape(v, std::move(d));
  };
  if (h.rank(a) == h.rank(b)) return no_match("the device has it");
  return h.result(h.add(Op::matmul, {widened(a), widened(b)}));
}

Match linear(Htp& h) {
  if (h.rank(h.in()) == 1) {  // a row
    const Dims& d = h.dims(h.in());
    std::vector<ValueId> inputs = h.node().inputs;
    inputs[0] = h.reshape(h.in(), {Dim(1), d[0]});
    return h.result(h.reshape(h.add(Op::linear, std::move(inputs), h.attrs()), h.out_type().dims));
  }
  return no_match("the device has it");
}

}  // namespace sixfold::htp
