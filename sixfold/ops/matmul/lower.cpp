// Matrix products on the NPU.
#include "sixfold/lower/lowering.h"

namespace sixfold::lower {

void matmul(Lowering& l) {
  l.add("MatMul", {l.in(0), l.in(1)}, {l.out()}, {{"transpose_in0", false}, {"transpose_in1", false}});
}

// x w^T + b. The device's layer is of two axes. With floats a weight that is computed is a matrix product's
// operand; on a grid the library leaves that product's bias out [htp.linear.1].
void linear(Lowering& l) {
  if (l.attrs().text("activation") != "none") return l.refuse("an activation belongs after it");
  const Shape in = l.shape(0), out = l.out_shape();
  const auto width = static_cast<uint32_t>(in.back()), count = static_cast<uint32_t>(out.back());
  uint32_t rows = 1;
  for (size_t i = 0; i + 1 < in.size(); ++i) rows *= static_cast<uint32_t>(in[i]);
  const bool flat = in.size() == 2;
  // With a weight in blocks and more outputs than inputs, FullyConnected takes the scales of other channels
  // [htp.fully_connected.1]; a convolution of single pixels does not.
  if (const Encoding* e = l.encoding(1); l.quantized() && e && e->block > 0 && l.constant(1)) {
    const TensorRef pixels = l.reshape(l.in(0), {1, 1, rows, width}),
                    sums = l.temp({1, 1, rows, count}, l.out());
    l.add("Conv2d", {pixels, l.weight(1, {2, 3, 1, 0}, {count, width, 1, 1}), l.bias(2)}, {sums},
          {words("stride", {1, 1}),
           words("pad_amount", {2, 2}, {0, 0, 0, 0}),
           words("dilation", {1, 1}),
           {"group", 1u}});
    l.add("Reshape", {sums}, {l.out()});
    return;
  }
  const TensorRef x = flat ? l.in(0) : l.reshape(l.in(0), {rows, width});
  const TensorRef y = l.out(), part = flat ? y : l.temp({rows, count}, y);
  if (l.constant(1) || l.quantized())
    l.add("FullyConnected", {x, l.constant(1) ? l.weight(1, {}) : l.in(1), l.bias(2)}, {part});
  else
    l.add("MatMul", {x, l.in(1), l.bias(2)}, {part}, {{"transpose_in0", false}, {"transpose_in1", true}});
  if (!flat) l.add("Reshape", {part}, {y});
}

}  // namespace sixfold::lower
