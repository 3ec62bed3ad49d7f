// Rules that merge what follows a product into it.
#include <algorithm>
#include <cmath>

#include "sixfold/cpu/pool.h"
#include "sixfold/rewrite/rules.h"

namespace sixfold {
namespace {

// The convolution or linear that makes v, if nothing else reads v and it ends in no activation yet.
const Node* open_product(const Graph& graph, ValueId v) {
  const Node* node = graph.producer(v);
  if (!node || (node->op != Op::convolution && node->op != Op::linear)) return nullptr;
  if (graph.value(v).users.size() != 1 || node->attrs.text("activation") != "none") return nullptr;
  for (const Leaf& leaf : graph.outputs)
    if (leaf.value == v) return nullptr;
  for (const auto& mutation : graph.mutations)
    if (mutation.next == v) return nullptr;
  return node;
}

constexpr int64_t kManyElements = 1 << 18;  // worth other threads

bool is_present(const Node& node, size_t i) { return node.input(i).valid(); }

Tensor from_doubles(const std::vector<double>& values, DType dtype, Shape shape) {
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(dtype, std::move(shape), &bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::f64)
      reinterpret_cast<double*>(bytes)[i] = values[i];
    else
      reinterpret_cast<float*>(bytes)[i] = static_cast<float>(values[i]);
  }
  return out;
}

// Elements [begin, begin + n) times s, formed in double.
void scale_run(const Tensor& from, int64_t begin, int64_t n, double s, std::byte* to) {
  if (from.dtype == DType::f32) {
    const float* x = from.values<float>().data() + begin;
    float* y = reinterpret_cast<float*>(to) + begin;
    constexpr int64_t kLanes = 8;  // so that the compiler uses vectors
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t k = i; k < i + kLanes; ++k) y[k] = static_cast<float>(static_cast<double>(x[k]) * s);
    for (; i < n; ++i) y[i] = static_cast<float>(static_cast<double>(x[i]) * s);
    return;
  }
  for (int64_t i = begin; i < begin + n; ++i) reinterpret_cast<double*>(to)[i] = element_real(from, i) * s;
}

// v with its last dimensions and without those of extent 1 is [n]: one number per channel at `axis` from the
// end.
bool is_per_channel(const Dims& dims, size_t axis_from_end, const Dim& n) {
  if (dims.size() < axis_from_end) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool channel = dims.size() - i == axis_from_end;
    if (!(dims[i] == (channel ? n : Dim(1)))) return false;
  }
  return true;
}

}  // namespace

// batch_norm(conv(x, w, b), gamma, beta, mean, var)  ->  conv(x, w, b, scale s, shift beta - mean * s), s =
// gamma / sqrt(var + eps)
//
// For the CPU engine: the sum is rounded as eager torch rounds it, then scaled while it is in the cache.
// Folding the scale into the weights (fold_batch_norm) is as accurate but rounds elsewhere, and a deep net
// with a hundred norms ends up 1.4 times as far from torch's numbers.
Match fuse_batch_norm(const Graph& graph, const Node& norm) {
  if (norm.op != Op::batch_norm) return no_match("not a batch_norm");
  const Node* product = open_product(graph, norm.input(0));
  if (!product || product->op != Op::convolution) return no_match("input is not a convolution of its own");
  if (is_present(*product, 3) || is_present(*product, 4)) return no_match("it has a residual or a norm");
  if (graph.dtype(norm.output()) != DType::f32) return no_match("not f32");
  const int64_t channels = graph.dims(norm.output())[1].value_or(0);
  std::vector<double> parameters[4];  // gamma, beta, mean, var
  for (size_t i = 0; i < 4; ++i) {
    const ValueId v = norm.input(i + 1);
    parameters[i].assign(static_cast<size_t>(channels), i == 0 || i == 3 ? 1.0 : 0.0);
    if (!v.valid()) continue;
    const Tensor* t = graph.constant(v);
    if (!t || t->count() != channels) return no_match("a parameter is not constant");
    for (int64_t c = 0; c < channels; ++c) parameters[i][static_cast<size_t>(c)] = element_real(*t, c);
  }
  const double eps = norm.attrs.real("eps");
  std::vector<double> scale, shift;
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    scale.push_back(static_cast<float>(parameters[0][c] / std::sqrt(parameters[3][c] + eps)));
    shift.push_back(parameters[1][c] - parameters[2][c] * scale[c]);
  }
  Patch patch(graph, norm);
  const ValueId s = patch.constant(from_doubles(scale, DType::f32, {channels}));
  const ValueId t = patch.constant(from_doubles(shift, DType::f32, {channels}));
  patch.replace(
      norm.output(),
      patch.add(Op::convolution, {product->input(0), product->input(1), product->input(2), kNoValue, s, t},
                product->attrs));
  return patch;
}

// batch_norm(conv(x, w, b), gamma, beta, mean, var)  ->  conv(x, w * s, (b - mean) * s + beta), s = gamma /
// sqrt(var + eps)
//
// The same for linear of rank 2. Weights change by rounding only: products are formed in double.
Match fold_batch_norm(const Graph& graph, const Node& norm) {
  if (norm.op != Op::batch_norm) return no_match("not a batch_norm");
  const Node* product = open_product(graph, norm.input(0));
  if (!product) return no_match("input is not a product of its own");
  if (is_present(*product, 3) || is_present(*product, 4)) return no_match("it has a residual or a norm");
  const DType dtype = graph.dtype(norm.output());
  if (dtype != DType::f32 && dtype != DType::f64) return no_match("halves would round twice");
  if (product->op == Op::linear && graph.dims(norm.output()).size() != 2)
    return no_match("channels are not the last axis");

  const Tensor* w = graph.constant(product->input(1));
  if (!w) return no_match("weights are not constant");
  const bool transposed = product->op == Op::convolution && product->attrs.flag("transposed");
  const int64_t groups = product->op == Op::convolution ? product->attrs.integer("groups") : 1;
  const int64_t channels = transposed ? w->shape[1] * groups : w->shape[0];
  // gamma, beta, mean, var; then the product's own bias
  std::vector<double> parameters[5];
  for (size_t i = 0; i < 5; ++i) {
    const ValueId v = i < 4 ? norm.input(i + 1) : product->input(2);
    parameters[i].assign(static_cast<size_t>(channels), i == 0 || i == 3 ? 1.0 : 0.0);
    if (!v.valid()) continue;
    const Tensor* t = graph.constant(v);
    if (!t || t->count() != channels) return no_match("a parameter is not constant");
    const Tensor flat = to_contiguous(*t);
    for (int64_t c = 0; c < channels; ++c) parameters[i][static_cast<size_t>(c)] = element_real(flat, c);
  }
  const double eps = norm.attrs.real("eps");
  std::vector<double> scale, bias;
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    scale.push_back(parameters[0][c] / std::sqrt(parameters[3][c] + eps));
    bias.push_back((parameters[4][c] - parameters[2][c]) * scale[c] + parameters[1][c]);
  }

  const Tensor flat = to_contiguous(*w);
  std::byte* bytes = nullptr;
  Tensor weights = Tensor::allocate(dtype, flat.shape, &bytes);
  // Elements of one channel that lie side by side.
  const int64_t per_first = flat.count() / std::max<int64_t>(flat.shape[0], 1);
  const int64_t run = transposed ? per_first / std::max<int64_t>(flat.shape[1], 1) : per_first;
  const auto scale_runs = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * run; i < end * run; i += run) {
      const int64_t first = i / per_first;
      const int64_t channel =
          transposed ? first / (flat.shape[0] / groups) * flat.shape[1] + i % per_first / run : first;
      scale_run(flat, i, run, scale[static_cast<size_t>(channel)], bytes);
    }
  };
  const int64_t runs = flat.count() / std::max<int64_t>(run, 1);
  cpu::Pool(flat.count() < kManyElements ? 1 : 0).for_ranges(runs, (runs + 15) / 16, scale_runs);
  Patch patch(graph, norm);
  patch.fold(*product);
  const ValueId new_weights = patch.constant(std::move(weights));
  const ValueId new_bias = patch.constant(from_doubles(bias, dtype, {channels}));
  patch.replace(norm.output(),
                patch.add(product->op, {product->input(0), new_weights, new_bias}, product->attrs));
  return patch;
}

// add(linear(x, w), b: [N])  ->  linear(x, w, b); add(conv(x, w), b: constant [O, 1, ..])  ->  conv(x, w, b)
Match fuse_bias(const Graph& graph, const Node& add) {
  if (add.op != Op::add) return no_match("not an add");
  for (const size_t side : {0, 1}) {
    const Node* product = open_product(graph, add.input(side));
    if (!product || is_present(*product, 2) || is_present(*product, 3) || is_present(*product, 4)) continue;
    const Dims& out = graph.dims(product->output());
    if (!(graph.type(add.output()) == graph.type(product->output()))) continue;
    const ValueId b = add.input(1 - side);
    const size_t axis_from_end = product->op == Op::linear ? 1 : out.size() - 1;
    const Dim& channels = out[out.size() - axis_from_end];
    if (!is_per_channel(graph.dims(b), axis_from_end, channels)) continue;
    Patch patch(graph, add);
    patch.fold(*product);
    const ValueId bias =
        graph.dims(b).size() == 1 ? b : patch.add(Op::reshape, {b}, {{"shape", Dims{channels}}});
    patch.replace(add.output(),
                  patch.add(product->op, {product->input(0), product->input(1), bias}, product->attrs));
    return patch;
  }
  return no_match("no side is a product without bias, with a number per channel on the other side");
}

// add(conv(x, w, b), y)  ->  conv(x, w, b, y), equal shapes
Match fuse_residual(const Graph& graph, const Node& add) {
  if (add.op != Op::add) return no_match("not an add");
  for (const size_t side : {0, 1}) {
    const Node* product = open_product(graph, add.input(side));
    if (!product || product->op != Op::convolution || is_present(*product, 3)) continue;
    const ValueId other = add.input(1 - side);
    if (!(graph.type(other) == graph.type(product->output()))) continue;
    Patch patch(graph, add);
    std::vector<ValueId> inputs = product->inputs;
    inputs.resize(std::max<size_t>(inputs.size(), 4), kNoValue);
    inputs[3] = other;
    patch.replace(add.output(), patch.add(Op::convolution, std::move(inputs), product->attrs));
    return patch;
  }
  return no_match("no side is a convolution of its own and of the result's shape");
}

// f(conv(x, w, b))  ->  conv(x, w, b) with activation f; the same for linear
Match fuse_activation(const Graph& graph, const Node& unary) {
  switch (unary.op) {
    case Op::relu:
    case Op::clamp:
    case Op::hardswish:
    case Op::hardsigmoid:
    case Op::sigmoid:
    case Op::silu:
    case Op::mish:
    case Op::tanh:
    case Op::gelu:
    case Op::elu:
    case Op::leaky_relu:
    case Op::softplus:
      break;
    default:
      return no_match("not an activation");
  }
  const DType dtype = graph.dtype(unary.output());
  if (dtype != DType::f32 && !is_half(dtype)) return no_match("only f32 kernels take an activation");
  const Node* product = open_product(graph, unary.input(0));
  if (!product) return no_match("input is not a product of its own");
  Attrs attrs = product->attrs;
  attrs.set("activation", std::string(to_text(unary.op)));
  for (const auto& [name, value] : unary.attrs) attrs.set(name, value);
  Patch patch(graph, unary);
  patch.replace(unary.output(), patch.add(product->op, product->inputs, std::move(attrs)));
  return patch;
}

// x * sigmoid(x)  ->  silu(x)
Match form_silu(const Graph& graph, const Node& mul) {
  if (mul.op != Op::mul) return no_match("not a mul");
  for (const size_t side : {0, 1}) {
    const Node* sigmoid = graph.producer(mul.input(side));
    if (!sigmoid || sigmoid->op != Op::sigmoid || sigmoid->input(0) != mul.input(1 - side)) continue;
    Patch patch(graph, mul);
    patch.replace(mul.output(), patch.add(Op::silu, {sigmoid->input(0)}));
    return patch;
  }
  return no_match("no side is the sigmoid of the other");
}

}  // namespace sixfold
