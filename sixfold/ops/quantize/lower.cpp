// Between grids: Quantize, Dequantize and Convert.
#include "sixfold/lower/lowering.h"

namespace sixfold::lower {

// From one grid to another. Without a grid before it there is nothing to convert: who reads the result
// quantizes it.
void convert(Lowering& l) { l.add(l.quantized() ? "Convert" : "Reshape", {l.in()}, {l.out()}); }

// Reals to integers that leave the model. On the same grid the integers are there already.
void quantize(Lowering& l) {
  const Encoding *from = l.encoding(0), *to = l.out_encoding();
  if (!to) return l.refuse("its integers are computed with, or its scale is");
  if (!from)
    l.add("Quantize", {l.in()}, {l.out()});
  else
    l.add(*from == *to ? "Reshape" : "Convert", {l.in_fixed()}, {l.out()});
}

// Integers that the caller gives.
void dequantize(Lowering& l) {
  const Encoding *from = l.encoding(0), *to = l.out_encoding();
  if (!from) return l.refuse("its integers are computed, or its scale is");
  if (to && l.quantized())
    l.add("Reshape", {l.in()}, {l.out()});
  else
    l.add("Dequantize", {l.in()}, {l.out()});
}

}  // namespace sixfold::lower
