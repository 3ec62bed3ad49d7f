// Quantization as formulas, in the order that torch's decomposed ops compute in.
#include "sixfold/ops/legalize.h"

namespace sixfold::legalize {
namespace {

// x with every axis that has several scales split into [scales, block], and the scales' shape beside it.
struct Blocks {
  Dims split, scales;

  Blocks(const Dims& x, const Dims& block) {
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] == block[i]) {
        split.push_back(x[i]);
        scales.emplace_back(1);
      } else if (block[i] == Dim(1)) {
        split.push_back(x[i]);
        scales.push_back(x[i]);
      } else {
        split.push_back(floordiv(x[i], block[i]));
        scales.push_back(split.back());
        split.push_back(block[i]);
        scales.emplace_back(1);
      }
    }
  }
};

}  // namespace

// clamp(round(x * (1 / scale)) + zero_point, quant_min, quant_max)
Match quantize(Legal& legal) {
  const Attrs& a = legal.attrs();
  const Blocks blocks(legal.dims(legal.in()), a.dims("block"));
  const bool several = !(legal.dims(legal.in(1)).empty());
  const DType wide = legal.dtype(legal.in(1)) == DType::f64 && several ? DType::f64 : DType::f32;
  const Term inverse = legal.term(1).apply(Op::reciprocal).to(wide).reshape(blocks.scales);
  Term q = (legal.term().to(wide).reshape(blocks.split) * inverse).apply(Op::round);
  if (legal.in(2).valid()) q = q + legal.term(2).to(wide).reshape(blocks.scales);
  const int64_t low = a.integer("quant_min"), high = a.integer("quant_max");
  // Limits beyond 24 bits are no floats.
  if (low <= -(1 << 24) || high >= 1 << 24) q = q.to(DType::f64);
  q = clamped(q, static_cast<double>(low), static_cast<double>(high));
  return legal.result(q.to(a.dtype("dtype")).reshape(legal.dims(legal.in())));
}

// (q - zero_point) * scale
Match dequantize(Legal& legal) {
  const Attrs& a = legal.attrs();
  const Blocks blocks(legal.dims(legal.in()), a.dims("block"));
  const bool several = !(legal.dims(legal.in(1)).empty());
  const DType wide = legal.dtype(legal.in(1)) == DType::f64 && several ? DType::f64 : DType::f32;
  Term x = legal.term().to(wide).reshape(blocks.split);
  if (legal.in(2).valid()) x = x - legal.term(2).to(wide).reshape(blocks.scales);
  x = x * legal.term(1).to(wide).reshape(blocks.scales);
  return legal.result(x.to(a.dtype("dtype")).reshape(legal.dims(legal.in())));
}

// Floats are not rounded between two encodings.
Match convert(Legal& legal) { return legal.result(legal.in()); }

}  // namespace sixfold::legalize
