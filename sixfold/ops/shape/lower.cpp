// Data movement: Reshape, Transpose, Tile, StridedSlice, Concat and Pad.
#include <algorithm>
#include <cmath>
#include <utility>

#include "sixfold/lower/merge_axes.h"

namespace sixfold::lower {
namespace {

// Numbers of torch's axes in the order of the node's.
Shape in_order(const Lowering& l, const Shape& values) {
  if (!l.channels_last() || values.size() < 3) return values;
  Shape out;
  for (const int64_t a : channels_last_order(values.size())) out.push_back(values[static_cast<size_t>(a)]);
  return out;
}

// begin, end and step of each axis.
Param ranges(const Lowering& l, const Shape& begin, const Shape& end, const Shape& step) {
  std::vector<int32_t> out;
  const Shape b = in_order(l, begin), e = in_order(l, end), s = in_order(l, step);
  for (size_t i = 0; i < b.size(); ++i)
    for (const int64_t v : {b[i], e[i], s[i]}) out.push_back(static_cast<int32_t>(v));
  return qnn::signed_words("ranges", {static_cast<uint32_t>(b.size()), 3}, out);
}

// perm for a tensor in one form whose result is in another; torch's axes are permuted by dims.
Shape combined(const Shape& dims, Form from, Form to) {
  const size_t rank = dims.size();
  Shape source(rank), out;  // source[a]: where torch's axis a of the operand stands
  for (size_t i = 0; i < rank; ++i) {
    const auto a = static_cast<int64_t>(i);
    source[i] = from == Form::plain ? a : channels_last_axis(a, rank);
  }
  for (size_t i = 0; i < rank; ++i) {
    const int64_t a = to == Form::plain ? static_cast<int64_t>(i) : channels_last_order(rank)[i];
    out.push_back(source[static_cast<size_t>(dims[static_cast<size_t>(a)])]);
  }
  return out;
}

// Between other ops the device leaves out a Pad behind the last axis that ends in the same block of 32: the
// places hold what was there. On a grid it makes such a Pad of a Concat with one number, too. What helps is a
// Concat of floats whose rows are in a line, and on a grid one with a number that is computed.  [htp.pad.2]
bool is_left_out(int64_t extent, int64_t before, int64_t after) {
  constexpr int64_t kBlock = 32;
  return before == 0 && after > 0 && (extent + kBlock - 1) / kBlock == (extent + after + kBlock - 1) / kBlock;
}

bool is_one_number(const Tensor& data) {
  if (!is_float(data.dtype) || data.count() == 0) return false;
  const Tensor flat = to_contiguous(data);
  for (int64_t i = 1; i < flat.count(); ++i)
    if (element_real(flat, i) != element_real(flat, 0)) return false;
  return true;
}

// So many places of a number behind the last axis of x, computed of it: what is a constant is left out.
TensorRef number_behind(Lowering& l, TensorRef x, int64_t places, double value) {
  std::vector<uint32_t> dims = l.spec(x).dims;
  dims.back() = 1;
  TensorRef y = beginning(l, x, dims);
  dims.back() = static_cast<uint32_t>(places);
  Tensor number = Tensor::scalar(value, DType::f32);
  number.shape = {places};
  number.strides = {0};
  const TensorRef bound = l.constant(to_contiguous(number), l.out_encoding());
  for (const char* type : {"ElementWiseMaximum", "ElementWiseMinimum"}) {
    const TensorRef part = l.temp(dims, x);
    l.add(type, {y, bound}, {part});
    y = part;
  }
  return y;
}

// y: x and so many places of a number along its last axis.
void join_number(Lowering& l, TensorRef x, int64_t places, double value, TensorRef y) {
  if (!l.status().ok()) return;
  const std::vector<uint32_t> dims = l.spec(x).dims;
  const auto last = static_cast<uint32_t>(dims.size() - 1);
  if (l.quantized()) return l.add("Concat", {x, number_behind(l, x, places, value)}, {y}, {{"axis", last}});
  uint32_t rows = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) rows *= dims[i];
  const auto line = [&](int64_t n) { return std::vector<uint32_t>{1, 1, rows, static_cast<uint32_t>(n)}; };
  Tensor number = Tensor::scalar(value, DType::f32);
  number.shape = {1, 1, rows, places};
  number.strides = {0, 0, 0, 0};
  const TensorRef border = l.constant(to_contiguous(number));
  const TensorRef joined = l.temp(line(dims.back() + places), y);
  l.add("Concat", {l.reshape(x, line(dims.back())), border}, {joined}, {{"axis", uint32_t{3}}});
  l.add("Reshape", {joined}, {y});
}

// Whether whole windows of a filter or an average that reads it lie in what it adds: the library makes it
// their padding. Then floats give anything, and fixed point may crash, unless it is padded apart. [htp.pad.3]
bool holds_windows(const Lowering& l) {
  const Shape before = l.attrs().ints("before"), after = l.attrs().ints("after");
  const auto is_held = [&](NodeId id) {
    const Node& user = l.graph().node(id);
    const bool filter = user.op == Op::convolution && !user.attrs.flag("transposed");
    if ((!filter && user.op != Op::avg_pool) || before.size() < 3 || before.size() > 4) return false;
    for (size_t i = 0; i + 2 < before.size(); ++i) {
      const int64_t reach = filter ? (l.graph().type(user.input(1)).dims[i + 2].value_or(1) - 1) *
                                         user.attrs.ints("dilation")[i]
                                   : user.attrs.ints("kernel")[i] - 1;
      if (std::max(before[i + 2], after[i + 2]) > reach) return true;
    }
    return false;
  };
  const std::vector<NodeId>& users = l.graph().value(l.node().output()).users;
  return std::any_of(users.begin(), users.end(), is_held);
}

// A square matrix as a tensor of five axes. Of a linear layer, Qualcomm's library has its first row alone,
// and with floats it crashes where such a one is repeated. What goes through a line is whole. [htp.reshape.1]
bool is_square_of_five(const std::vector<uint32_t>& dims) {
  return dims.size() == 5 && dims[0] * dims[1] * dims[2] == 1 && dims[3] == dims[4] && dims[3] > 1;
}

}  // namespace

void reshape(Lowering& l) {
  TensorRef x = l.in();
  const TensorRef y = l.out();
  if (!l.status().ok()) return;
  const std::vector<uint32_t>& dims = l.spec(y).dims;
  if (is_square_of_five(dims)) x = l.reshape(x, {1, dims[3] * dims[4]});
  l.add("Reshape", {x}, {y});
}

// The operand as it is there, the result as its users want it: one Transpose between them, or none.
void permute(Lowering& l) {
  const Shape dims = l.attrs().ints("dims");
  const Form wanted = l.wanted_form();
  const Dims in = to_dims(l.shape());
  // Axes of one place may go anywhere.
  const auto moves = [&](const Shape& perm, Form f) {
    const Dims extents = in_form(in, f);
    Shape order;
    for (const int64_t a : perm)
      if (!(extents[static_cast<size_t>(a)] == Dim(1))) order.push_back(a);
    return !std::is_sorted(order.begin(), order.end());
  };
  if (!l.status().ok()) return;
  Form from = Form::plain, to = wanted;
  size_t best = 3;
  for (const Form f : {Form::plain, Form::channels_last})
    for (const Form t : {Form::plain, Form::channels_last}) {
      const Shape perm = combined(dims, f, t);
      const size_t cost = (l.has_form(0, f) ? 0 : 1) + (t == wanted ? 0 : 1) + (moves(perm, f) ? 1 : 0);
      if (cost < best) {
        best = cost;
        from = f;
        to = t;
      }
    }
  const Shape order = combined(dims, from, to);
  const TensorRef x = l.in_form(0, from), y = l.out_form(0, to);
  if (!moves(order, from)) {
    l.add("Reshape", {x}, {y});
    return;
  }
  std::vector<uint32_t> perm;
  for (const int64_t a : order) perm.push_back(static_cast<uint32_t>(a));
  l.add("Transpose", {x}, {y}, {words("perm", std::move(perm))});
}

// expand and repeat
void expand(Lowering& l) {
  const Shape in = l.shape(), out = l.out_shape();
  if (in.size() != out.size()) return l.refuse("it adds axes");
  Shape multiples;
  for (size_t i = 0; i < in.size(); ++i) multiples.push_back(in[i] == 0 ? 1 : out[i] / in[i]);
  const TensorRef x = l.in(), y = l.out();
  if (!l.status().ok()) return;
  const std::vector<uint32_t>&from = l.spec(x).dims, &to = l.spec(y).dims;
  if (is_square_of_five(from) && to[3] == from[3] && to[4] == from[4]) {
    const uint32_t copies = to[0] * to[1] * to[2], line = to[3] * to[4];
    const TensorRef part = l.temp({copies, line}, y);
    l.add("Tile", {l.reshape(x, {1, line})}, {part}, {words("multiples", {2}, {copies, 1})});
    return l.add("Reshape", {part}, {y});
  }
  l.add("Tile", {x}, {y}, {words("multiples", l.per_axis(multiples))});
}

void slice(Lowering& l) {
  const Attrs& a = l.attrs();
  const auto axis = static_cast<size_t>(a.integer("dim"));
  Shape begin(l.rank(), 0), end = l.shape(), step(l.rank(), 1);
  begin[axis] = a.integer("start");
  step[axis] = a.integer("step");
  // The end is where the last step would go: validation counts (end - begin) / step.
  end[axis] = std::min(a.integer("end"), begin[axis] + l.out_shape()[axis] * step[axis]);
  l.add("StridedSlice", {l.in()}, {l.out()}, {ranges(l, begin, end, step)});
}

void flip(Lowering& l) {
  Shape begin(l.rank(), 0), end = l.shape(), step(l.rank(), 1);
  for (const int64_t d : l.attrs().ints("dims")) {
    const auto axis = static_cast<size_t>(d);
    begin[axis] = end[axis] - 1;
    end[axis] = step[axis] = -1;
  }
  l.add("StridedSlice", {l.in()}, {l.out()}, {ranges(l, begin, end, step)});
}

void concat(Lowering& l) {
  const int64_t dim = l.attrs().integer("dim"), axis = l.axis(dim);
  const bool is_last = static_cast<size_t>(axis) + 1 == l.rank();
  const bool may_join = l.quantized() && l.inputs() == 2 && is_last && is_static(l.type().dims);
  const Tensor* end = may_join ? l.constant(1) : nullptr;
  if (end && is_one_number(*end)) {
    const int64_t places = end->shape[static_cast<size_t>(dim)];
    if (is_left_out(l.shape()[static_cast<size_t>(dim)], 0, places))
      return join_number(l, l.in(), places, element_real(to_contiguous(*end), 0), l.out());
  }
  std::vector<TensorRef> parts;
  for (size_t i = 0; i < l.inputs(); ++i) parts.push_back(l.in(i));
  l.add("Concat", std::move(parts), {l.out()}, {{"axis", static_cast<uint32_t>(axis)}});
}

void pad(Lowering& l) {
  const Attrs& a = l.attrs();
  const bool constant = a.text("mode") == "constant";
  // Halves end at 65504: infinities would make NaNs of the zeros they meet.
  const double value = constant ? std::clamp(a.real("value"), -65504.0, 65504.0) : 0;
  const Shape before = in_order(l, a.ints("before"));
  Shape after = in_order(l, a.ints("after"));
  TensorRef x = l.in();
  if (!l.status().ok()) return;
  std::vector<uint32_t> dims = l.spec(x).dims;
  if (constant && l.channels_last() && holds_windows(l)) {
    if (!l.quantized())
      return l.refuse("whole windows of floats in the padding give anything on the device  [htp.pad.3]");
    for (size_t i = 0; i < dims.size(); ++i)
      x = padded_apart(l, x, i, static_cast<uint32_t>(before[i]), static_cast<uint32_t>(after[i]),
                       static_cast<float>(value));
    return l.add("Reshape", {x}, {l.out()});
  }
  int64_t joined = 0;
  if (constant && is_static(l.type().dims) && is_left_out(dims.back(), before.back(), after.back()))
    joined = std::exchange(after.back(), 0);

  const auto is_none = [](int64_t n) { return n == 0; };
  if (!joined || !std::ranges::all_of(before, is_none) || !std::ranges::all_of(after, is_none)) {
    std::vector<uint32_t> amount;
    for (size_t i = 0; i < before.size(); ++i) {
      for (const int64_t v : {before[i], after[i]}) amount.push_back(static_cast<uint32_t>(v));
      dims[i] += static_cast<uint32_t>(before[i] + after[i]);
    }
    std::vector<Param> params{
        {"scheme", constant ? 0u : 2u},
        words("pad_amount", {static_cast<uint32_t>(before.size()), 2}, std::move(amount))};
    if (constant) params.push_back({"pad_constant_value", static_cast<float>(value)});
    const TensorRef y = joined ? l.temp(dims, x) : l.out();
    l.add("Pad", {x}, {y}, std::move(params));
    x = y;
  }
  if (joined) join_number(l, x, joined, value, l.out());
}

}  // namespace sixfold::lower
