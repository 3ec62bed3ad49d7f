// Products and sums of constants: batch norms that they spell, and what of them a product takes into its
// weights; the list of the rules that recompose.
#include <algorithm>
#include <cmath>

#include "sixfold/rewrite/expression.h"
#include "sixfold/rewrite/recompose.h"
#include "sixfold/rewrite/rules.h"

namespace sixfold {
namespace {

using Numbers = std::vector<double>;  // one for each channel

// A constant that meets x: one number for all, or one for each index of axis 1.
std::optional<Numbers> per_channel(const Graph& graph, ValueId constant, ValueId x) {
  const Tensor* t = graph.constant(constant);
  const Dims& out = graph.dims(x);
  if (!t || graph.value(constant).encoding || t->shape.size() > out.size()) return {};
  const int64_t channels = out[1].value_or(0);
  for (size_t i = 0; i < t->shape.size(); ++i) {
    const size_t axis = out.size() - t->shape.size() + i;
    if (t->shape[i] != 1 && (axis != 1 || t->shape[i] != channels)) return {};
  }
  Numbers n(static_cast<size_t>(channels));
  const Tensor flat = to_contiguous(*t);
  for (int64_t c = 0; c < channels; ++c)
    n[static_cast<size_t>(c)] = element_real(flat, flat.count() == 1 ? 0 : c);
  return n;
}

// What an affine step does: v = a * x + b with constants.
struct Step {
  ValueId x;
  Numbers a, b;
  bool varies = false;  // from channel to channel
};
std::optional<Step> read_step(const Graph& graph, const Node& node) {
  if (node.op != Op::add && node.op != Op::sub && node.op != Op::mul && node.op != Op::div) return {};
  if (node.op == Op::div && node.attrs.text("rounding") != "none") return {};
  for (const size_t side : {0, 1}) {
    if (side == 1 && node.op == Op::div) break;
    Step s{.x = node.input(side), .a = {}, .b = {}};
    if (graph.constant(s.x) || !(graph.type(s.x) == graph.type(node.output()))) continue;
    const auto n = per_channel(graph, node.input(1 - side), s.x);
    if (!n) continue;
    s.a.assign(n->size(), 1);
    s.b.assign(n->size(), 0);
    s.varies = std::any_of(n->begin(), n->end(), [&](double v) { return v != n->front(); });
    for (size_t c = 0; c < n->size(); ++c) {
      if (node.op == Op::add) s.b[c] = (*n)[c];
      if (node.op == Op::sub) s.b[c] = side == 0 ? -(*n)[c] : (*n)[c];
      if (node.op == Op::sub && side == 1) s.a[c] = -1;
      if (node.op == Op::mul) s.a[c] = (*n)[c];
      if (node.op == Op::div) s.a[c] = 1 / (*n)[c];
    }
    return s;
  }
  return {};
}

Tensor as_tensor(const Numbers& values) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(DType::f32, {static_cast<int64_t>(values.size())}, &bytes);
  for (size_t i = 0; i < values.size(); ++i)
    reinterpret_cast<float*>(bytes)[i] = static_cast<float>(values[i]);
  return t;
}

}  // namespace

// ((x - m) / s) * g + b, two or more steps with constants of the channels  ->  batch_norm(x)
//
// One step is enough behind a convolution, into which a batch norm is folded.
Match form_batch_norm(const Graph& graph, const Node& node) {
  const Dims& dims = graph.dims(node.output());
  if (graph.dtype(node.output()) != DType::f32 || dims.size() < 2 || !is_static(dims))
    return no_match("not f32 [N, C, ...]");
  auto all = read_step(graph, node);
  if (!all) return no_match("no affine step");
  // The last step of a chain sees it whole.
  const std::vector<NodeId>& users = graph.value(node.output()).users;
  if (users.size() == 1 && !graph.value(node.output()).encoding && read_step(graph, graph.node(users[0])))
    return no_match("another step follows");
  size_t steps = 1;
  while (const Node* before = made_by(graph, all->x)) {
    if (graph.value(all->x).users.size() != 1) break;
    const auto s = read_step(graph, *before);
    if (!s) break;
    for (size_t c = 0; c < all->a.size(); ++c) {
      all->b[c] += all->a[c] * s->b[c];
      all->a[c] *= s->a[c];
    }
    all->varies = all->varies || s->varies;
    all->x = s->x;
    ++steps;
  }
  const Node* product = made_by(graph, all->x, Op::convolution);
  const bool folds = product && graph.value(all->x).users.size() == 1 && graph.constant(product->input(1)) &&
                     !graph.value(product->input(1)).encoding;
  const bool shifts_only = std::all_of(all->a.begin(), all->a.end(), [](double v) { return v == 1; });
  if (!folds && (steps < 2 || !all->varies || shifts_only)) return no_match("one step alone");
  const size_t channels = all->a.size();
  Patch patch(graph, node);
  const ValueId mean = patch.constant(as_tensor(Numbers(channels, 0)));
  const ValueId var = patch.constant(as_tensor(Numbers(channels, 1)));
  patch.replace(node.output(), patch.add(Op::batch_norm,
                                         {all->x, patch.constant(as_tensor(all->a)),
                                          patch.constant(as_tensor(all->b)), mean, var},
                                         {{"eps", 0.0}}));
  return patch;
}

namespace {

// a * x + b with one number each for all elements.
struct Line {
  ValueId x;
  double a = 1, b = 0;
};
std::optional<Line> read_line(const Graph& graph, ValueId v) {
  Line line{.x = v};
  while (const Node* node = made_by(graph, line.x)) {
    if (graph.dims(line.x).size() < 2 || !is_static(graph.dims(line.x))) break;
    if (line.x != v && graph.value(line.x).users.size() != 1) break;
    const auto s = read_step(graph, *node);
    if (!s || s->varies) break;
    line.b += line.a * s->b[0];
    line.a *= s->a[0];
    line.x = s->x;
  }
  if (line.x == v || line.a == 0) return {};
  return line;
}

// With weights of its own that may change.
bool is_plain_product(const Graph& graph, const Node& node) {
  if (node.op != Op::linear && node.op != Op::convolution) return false;
  if (node.op == Op::convolution && node.attrs.flag("transposed")) return false;
  const bool has_bias = node.inputs.size() > 2 && node.input(2).valid();
  for (size_t i = 3; i < node.inputs.size(); ++i)
    if (node.input(i).valid()) return false;
  const Tensor* w = graph.constant(node.input(1));
  return w && w->dtype == DType::f32 && !graph.value(node.input(1)).encoding &&
         (!has_bias || (graph.constant(node.input(2)) && !graph.value(node.input(2)).encoding));
}

// What the product pads with is zero of a * x + b: padded apart with that number of x.
ValueId padded_operand(const Graph& graph, const Line& line, Attrs& attrs, Patch& patch) {
  const Shape first = attrs.ints("padding"), last = attrs.ints("padding_end");
  const auto none = [](const Shape& s) {
    return std::all_of(s.begin(), s.end(), [](int64_t n) { return n == 0; });
  };
  if (line.b == 0 || (none(first) && none(last))) return line.x;
  Shape before(graph.dims(line.x).size(), 0), after = before;
  std::copy(first.begin(), first.end(), before.begin() + 2);
  std::copy(last.begin(), last.end(), after.begin() + 2);
  attrs.set("padding", to_dims(Shape(first.size(), 0)));
  attrs.set("padding_end", to_dims(Shape(last.size(), 0)));
  return patch.add(Op::pad, {line.x},
                   {{"before", to_dims(before)},
                    {"after", to_dims(after)},
                    {"mode", "constant"},
                    {"value", -line.b / line.a}});
}

}  // namespace

// convolution(a * x + b)  ->  convolution(x) with a in its weights and b in its bias; linear alike
//
// Each step would round to a grid of its own, and the device's sums round both operands first.
Match fold_line_before(const Graph& graph, const Node& node) {
  constexpr double kMostPadding = 4;  // beside what activations give: a grid has to have it
  if (!is_plain_product(graph, node)) return no_match("no product with weights of its own");
  const ValueId v = node.input(0);
  const auto line = read_line(graph, v);
  if (!line) return no_match("its operand is no a * x + b");
  if (!(std::abs(line->b) <= kMostPadding * std::abs(line->a))) return no_match("what pads x would be large");
  const auto absorbs = [&](NodeId u) {
    return is_plain_product(graph, graph.node(u)) && graph.node(u).input(0) == v;
  };
  const Value& value = graph.value(v);
  if (value.encoding || !std::all_of(value.users.begin(), value.users.end(), absorbs))
    return no_match("others read its operand");
  if (const Node* before = made_by(graph, line->x);
      before && is_plain_product(graph, *before) && graph.value(line->x).users.size() == 1)
    return no_match("it folds into the product before");
  const Tensor w = to_contiguous(*graph.constant(node.input(1)));
  const int64_t channels = w.shape[0], run = w.count() / std::max<int64_t>(channels, 1);
  const Tensor* old =
      node.inputs.size() > 2 && node.input(2).valid() ? graph.constant(node.input(2)) : nullptr;
  const Tensor old_bias = old ? to_contiguous(*old) : Tensor();
  std::byte* bytes = nullptr;
  Tensor weights = Tensor::allocate(DType::f32, w.shape, &bytes);
  Numbers bias(static_cast<size_t>(channels));
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t i = c * run; i < (c + 1) * run; ++i) {
      const double x = element_real(w, i);
      reinterpret_cast<float*>(bytes)[i] = static_cast<float>(x * line->a);
      sum += x;
    }
    bias[static_cast<size_t>(c)] = (old ? element_real(old_bias, c) : 0) + sum * line->b;
  }
  Patch patch(graph, node);
  Attrs attrs = node.attrs;
  const ValueId x = node.op == Op::convolution ? padded_operand(graph, *line, attrs, patch) : line->x;
  std::vector<ValueId> inputs{x, patch.constant(std::move(weights))};
  if (old || line->b != 0) inputs.push_back(patch.constant(as_tensor(bias)));
  for (size_t i = inputs.size(); i < node.inputs.size(); ++i) inputs.push_back(kNoValue);
  patch.replace(node.output(), patch.add(node.op, std::move(inputs), attrs));
  return patch;
}

std::span<const Rule> recompose_rules() {
  static const std::vector<Rule> rules = [] {
    // Means before norms, which are read from them; a product whose gain is a constant folds into its norm.
    std::vector<Rule> all = {{"form_norm", form_norm},
                             {"fold_norm_gain", fold_norm_gain},
                             {"fold_norm_bias", fold_norm_bias},
                             {"form_softmax", form_softmax},
                             {"form_log_softmax", form_log_softmax},
                             {"ask_the_mask", ask_the_mask}};
    for (const Rule& rule : activation_rules()) all.push_back(rule);
    all.push_back({"form_batch_norm", form_batch_norm});
    all.push_back({"fold_batch_norm", fold_batch_norm});
    all.push_back({"fold_line_before", fold_line_before});
    all.push_back({"mean_of_sum", mean_of_sum});
    all.push_back({"finite_halves", finite_halves});
    return all;
  }();
  return rules;
}

}  // namespace sixfold
