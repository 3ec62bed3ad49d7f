#include <algorithm>
#include <limits>

#include "sixfold/ops/shapes.h"
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

namespace {

// The pad before a window of a pool or convolution, if it adds a number around planes; null: there is none.
const Node* padding_before(const Graph& graph, const Node& window) {
  const Node* pad = graph.producer(window.input(0));
  if (!pad || pad->op != Op::pad || pad->attrs.text("mode") != "constant" ||
      !is_float(graph.dtype(pad->input(0))))
    return nullptr;
  const Shape begin = pad->attrs.ints("before"), end = pad->attrs.ints("after");
  if (begin.size() != window.attrs.ints("stride").size() + 2) return nullptr;
  for (size_t i = 0; i < begin.size(); ++i)
    if (begin[i] < 0 || end[i] < 0 || (i < 2 && begin[i] + end[i] > 0)) return nullptr;
  return pad;
}

}  // namespace

// max_pool(pad(x)) with nothing that could be a maximum  ->  max_pool(x) with that padding
Match merge_padding(const Graph& graph, const Node& pool) {
  if (pool.op != Op::max_pool) return no_match("not a max_pool");
  if (pool.outputs.size() > 1 && graph.is_used(pool.output(1))) return no_match("its indices are used");
  const Node* pad = padding_before(graph, pool);
  if (!pad) return no_match("its planes are not padded with a number");
  const ValueId x = pad->input(0);
  const Node* before_pad = graph.producer(x);
  const double value = pad->attrs.real("value");
  const double least = before_pad && before_pad->op == Op::relu ? 0 : std::numeric_limits<float>::lowest();
  if (!(value <= least)) return no_match("the padding may be a maximum");
  const Shape kernel = pool.attrs.ints("kernel"), stride = pool.attrs.ints("stride"),
              dilation = pool.attrs.ints("dilation"), padding = pool.attrs.ints("padding"),
              begin = pad->attrs.ints("before");
  // Windows begin where they did. How many there are is what ceil_mode has to say, with as much padding at
  // the end as at the beginning.
  Shape first = padding;
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] += begin[i + 2];
    if (first[i] > (dilation[i] * (kernel[i] - 1) + 1) / 2) return no_match("more than half of a window");
  }
  for (const bool ceil_mode : {false, true}) {
    bool same = true;
    for (size_t i = 0; i < first.size(); ++i)
      same = same && window_extent(graph.dims(x)[i + 2], kernel[i], stride[i], first[i], first[i],
                                   dilation[i], ceil_mode) == graph.dims(pool.output())[i + 2];
    if (!same) continue;
    Attrs attrs = pool.attrs;
    attrs.set("padding", to_dims(first));
    attrs.set("ceil_mode", ceil_mode);
    Patch patch(graph, pool);
    patch.replace(pool.output(), patch.add_all(Op::max_pool, {x}, attrs)[0]);
    return patch;
  }
  return no_match("no padding of max_pool gives so many windows");
}

// convolution(pad(x)) with zeros, fewer than its filter reaches  ->  convolution(x) with that padding
Match merge_zeros(const Graph& graph, const Node& conv) {
  if (conv.op != Op::convolution || conv.attrs.flag("transposed"))
    return no_match("not a convolution that pads");
  const Node* pad = padding_before(graph, conv);
  if (!pad || pad->attrs.real("value") != 0) return no_match("its planes are not padded with zeros");
  const Shape begin = pad->attrs.ints("before"), end = pad->attrs.ints("after"),
              dilation = conv.attrs.ints("dilation");
  Shape first = conv.attrs.ints("padding"), last = conv.attrs.ints("padding_end");
  const Dims& filter = graph.dims(conv.input(1));
  for (size_t i = 0; i < first.size(); ++i) {
    first[i] += begin[i + 2];
    last[i] += end[i + 2];
    if (!filter[i + 2].is_static() || std::max(first[i], last[i]) > dilation[i] * (filter[i + 2].value() - 1))
      return no_match("a filter would see nothing but padding");
  }
  Attrs attrs = conv.attrs;
  attrs.set("padding", to_dims(first));
  attrs.set("padding_end", to_dims(last));
  std::vector<ValueId> inputs = conv.inputs;
  inputs[0] = pad->input(0);
  Patch patch(graph, conv);
  patch.replace(conv.output(), patch.add(Op::convolution, inputs, attrs));
  return patch;
}

}  // namespace sixfold
