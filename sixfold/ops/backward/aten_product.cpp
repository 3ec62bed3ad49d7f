// Gradients of convolutions, as convolutions.
#include "sixfold/ops/backward/gradient.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

struct Window {
  Shape stride, padding, dilation;
  int64_t groups = 1;
};

Expr convolve(const Expr& x, const Expr& w, const Window& window, bool transposed,
              const Shape& output_padding) {
  return x.apply(Op::convolution, w,
                 {{"stride", to_dims(window.stride)},
                  {"padding", to_dims(window.padding)},
                  {"padding_end", to_dims(window.padding)},
                  {"dilation", to_dims(window.dilation)},
                  {"groups", Dim(window.groups)},
                  {"transposed", transposed},
                  {"output_padding", to_dims(output_padding)},
                  {"activation", std::string("none")}});
}

Expr permuted(const Expr& x, const Shape& order) { return {x.call(), x.call().permute(x, order)}; }
// The axes of x with the first two (of `lead` more) in another order, the rest as they are.
Expr swapped(const Expr& x) {
  Shape order = axes_between(0, x.rank());
  std::swap(order[0], order[1]);
  return permuted(x, order);
}
// The first extents of each spatial axis.
Expr cropped(Expr x, const Shape& extents) {
  for (size_t i = 0; i < extents.size(); ++i)
    x = Expr(x.call(), x.call().slice(x, static_cast<int64_t>(i) + 2, Dim(0), Dim(extents[i])));
  return x;
}

// What of g goes to x, for y = convolution(x, w): the transposed convolution. Positions that no window of x
// reached are output padding.
Expr to_input(const Expr& g, const Expr& w, const Shape& input, const Window& window) {
  Call& call = g.call();
  const Shape out = call.shape(g), kernel = call.shape(w);
  Shape rest;
  for (size_t i = 0; call.ok() && i < window.stride.size(); ++i)
    rest.push_back(input[i + 2] - ((out[i + 2] - 1) * window.stride[i] - 2 * window.padding[i] +
                                   window.dilation[i] * (kernel[i + 2] - 1) + 1));
  return convolve(g, w, window, /*transposed=*/true, rest);
}

// What goes to w: x, its batch and channel axes exchanged, convolved with g in the place of weights; what was
// a stride is a dilation. Each group of channels takes its turn as part of the batch.
Expr to_weight(const Expr& x, const Expr& g, const Shape& weight, const Window& window) {
  Call& call = x.call();
  const Shape in = call.shape(x);
  if (!call.ok()) return x;
  const Dim n(in[0]), groups(window.groups), width(in[1] / window.groups);
  Dims split{n, groups, width}, joined{width, groups * n};
  Shape order{2, 1, 0};
  for (size_t i = 2; i < in.size(); ++i) {
    split.push_back(Dim(in[i]));
    joined.push_back(Dim(in[i]));
    order.push_back(static_cast<int64_t>(i) + 1);
  }
  const Expr images = permuted(x.reshape(split), order).reshape(joined);
  const Window across{window.dilation, window.padding, window.stride, window.groups};
  const Expr sums = convolve(images, swapped(g), across, false, Shape(window.stride.size(), 0));
  return swapped(cropped(sums, Shape(weight.begin() + 2, weight.end())));
}

Status convolution_backward(Call& call) {
  const Gradient at(call, "input");
  const Expr w = Expr(call, call.tensor("weight")).to(at.g.dtype());
  const Shape input = call.shape(at.x), weight = call.shape(w), out = call.shape(at.g);
  if (!call.ok()) return {};
  const size_t n = weight.size() - 2;
  if (weight.size() < 3 || weight.size() > 5 || input.size() != weight.size() || out.size() != weight.size())
    return invalid_model("convolution of ", input, " by ", weight, " to ", out);
  const Window window{call.ints_n("stride", n, 1), call.ints_n("padding", n), call.ints_n("dilation", n, 1),
                      call.integer("groups")};
  if (!call.ok() || window.groups < 1 || input[1] % window.groups != 0 || out[1] % window.groups != 0)
    return invalid_model("convolution of ", input, " in ", window.groups, " groups");
  const bool transposed = call.flag("transposed");
  std::vector<ValueId> gradients(3, kNoValue);
  if (is_wanted(call, 0)) {
    const Expr dx = transposed ? cropped(convolve(at.g, w, window, false, Shape(n, 0)),
                                         Shape(input.begin() + 2, input.end()))
                               : to_input(at.g, w, input, window);
    gradients[0] = dx.to(at.result);
  }
  if (is_wanted(call, 1))
    gradients[1] =
        (transposed ? to_weight(at.g, at.x, weight, window) : to_weight(at.x, at.g, weight, window))
            .to(at.result);
  if (is_wanted(call, 2)) {
    Shape over = axes_between(1, static_cast<int64_t>(n) + 2);
    over[0] = 0;
    for (size_t i = 1; i < over.size(); ++i) over[i] = static_cast<int64_t>(i) + 1;
    gradients[2] = sum(at.g, over).to(at.result);
  }
  return give_wanted(call, gradients);
}

constexpr AtenRule kRules[] = {
    {"aten.convolution_backward.default", convolution_backward},
    {"aten.convolution_backward_overrideable.default", convolution_backward},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> backward_product_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
