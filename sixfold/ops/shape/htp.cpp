// Data movement with at most five axes and in types that the device moves.
#include "sixfold/ops/shape/htp.h"

#include <algorithm>

namespace sixfold::htp {
namespace {

// Axes that a permute keeps side by side are one axis, axes of extent 1 are none.
struct Blocks {
  std::vector<int64_t> extents;  // in the operand's order
  std::vector<size_t> order;     // which of them stands where in the result

  Blocks(const Shape& in, const Shape& dims) {
    std::vector<int64_t> moved;  // axes that count, as the result has them
    for (const int64_t d : dims)
      if (in[static_cast<size_t>(d)] != 1) moved.push_back(d);
    const auto next = [&](int64_t a) {
      for (++a; a < static_cast<int64_t>(in.size()) && in[static_cast<size_t>(a)] == 1;) ++a;
      return a;
    };
    std::vector<std::pair<int64_t, int64_t>> blocks;  // first axis, extent
    for (size_t i = 0; i < moved.size(); ++i) {
      const int64_t extent = in[static_cast<size_t>(moved[i])];
      if (i > 0 && moved[i] == next(moved[i - 1]))
        blocks.back().second *= extent;
      else
        blocks.emplace_back(moved[i], extent);
    }
    std::vector<size_t> rank(blocks.size());
    for (size_t i = 0; i < rank.size(); ++i) rank[i] = i;
    std::sort(rank.begin(), rank.end(), [&](size_t a, size_t b) { return blocks[a] < blocks[b]; });
    order.resize(blocks.size());
    for (size_t place = 0; place < rank.size(); ++place) {
      extents.push_back(blocks[rank[place]].second);
      order[rank[place]] = place;
    }
  }
};

// Any permutation is a chain of moves of one block to the front of those that are not placed yet.
ValueId move_one_by_one(Htp& h, ValueId x, Blocks b) {
  std::vector<size_t> at(b.extents.size());  // which block stands where now
  for (size_t i = 0; i < at.size(); ++i) at[i] = i;
  for (size_t done = 0; done < at.size(); ++done) {
    const auto found = static_cast<size_t>(std::find(at.begin(), at.end(), b.order[done]) - at.begin());
    if (found == done) continue;
    const auto extent = [&](size_t first, size_t last) {
      int64_t p = 1;
      for (size_t i = first; i < last; ++i) p *= b.extents[at[i]];
      return p;
    };
    const Shape view{extent(0, done), extent(done, found), extent(found, found + 1),
                     extent(found + 1, at.size())};
    x = h.permute(h.reshape(x, to_dims(view)), {0, 2, 1, 3});
    std::rotate(at.begin() + static_cast<int64_t>(done), at.begin() + static_cast<int64_t>(found),
                at.begin() + static_cast<int64_t>(found) + 1);
  }
  return x;
}

// The op along one axis, with the others merged.
Match merged(Htp& h, Attrs attrs, int64_t axis) {
  attrs.set("dim", Dim(1));
  std::vector<ValueId> in;
  for (const ValueId v : h.node().inputs) in.push_back(h.reshape(v, around(h.dims(v), axis)));
  return h.result(h.reshape(h.add(h.op(), std::move(in), std::move(attrs)), h.out_type().dims));
}

// A constant of this shape for every element alike.
ValueId filled(Htp& h, const Shape& shape, const Attr& value, DType dtype) {
  return h.add(Op::full, {}, {{"shape", to_dims(shape)}, {"value", value}, {"dtype", dtype}});
}

// n places of x along an axis, before or after it, as the mode has them.
ValueId border(Htp& h, const std::string& mode, ValueId x, int64_t axis, int64_t n, bool before) {
  const int64_t extent = h.shape(x)[static_cast<size_t>(axis)];
  if (mode == "circular") return before ? h.slice(x, axis, extent - n, extent) : h.slice(x, axis, 0, n);
  if (mode == "replicate") {
    Dims wide = h.dims(x);
    wide[static_cast<size_t>(axis)] = Dim(n);
    return h.expand(before ? h.slice(x, axis, 0, 1) : h.slice(x, axis, extent - 1, extent), wide);
  }
  const ValueId part = before ? h.slice(x, axis, 1, n + 1) : h.slice(x, axis, extent - 1 - n, extent - 1);
  return h.add(Op::flip, {part}, {{"dims", to_dims({axis})}});
}

}  // namespace

// permute(x)  ->  reshape(permute(reshape(x))) of fewer axes; a reshape alone when no axis of more than one
// place passes another
Match permute(Htp& h) {
  const Shape in = h.shape(h.in()), dims = h.attrs().ints("dims");
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  const Blocks b(in, dims);
  if (std::is_sorted(b.order.begin(), b.order.end()))
    return h.result(h.add(Op::reshape, {h.in()}, {{"shape", h.out_type().dims}}));
  const int64_t most =
      is_float(h.dtype(h.in())) ? kMaxRank : kMaxRank - 1;  // Transpose of integers takes four
  if (static_cast<int64_t>(in.size()) <= most) return no_match("the device has it");
  ValueId y = h.in();
  if (static_cast<int64_t>(b.order.size()) <= most) {
    Shape order;
    for (const size_t i : b.order) order.push_back(static_cast<int64_t>(i));
    y = h.permute(h.reshape(y, to_dims(b.extents)), order);
  } else {
    y = move_one_by_one(h, y, b);
  }
  return h.result(h.reshape(y, h.out_type().dims));
}

// expand(x)  ->  expand(reshape(x)) of equal ranks, axes merged when there are too many
Match expand(Htp& h) {
  const Shape out = static_shape(h.out_type().dims);
  Shape in = h.shape(h.in());
  const int64_t most = max_rank(h.dtype(h.in()));
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  if (in.size() == out.size() && static_cast<int64_t>(out.size()) <= most)
    return no_match("the device has it");
  in.insert(in.begin(), out.size() - in.size(), 1);
  if (static_cast<int64_t>(out.size()) <= most)
    return h.result(h.expand(h.reshape(h.in(), to_dims(in)), h.out_type().dims));
  Shape from, to;
  bool grew = false;
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] == 1) continue;
    const bool grows = in[i] != out[i];
    if (!from.empty() && grows == grew) {
      from.back() *= in[i];
      to.back() *= out[i];
    } else {
      from.push_back(in[i]);
      to.push_back(out[i]);
    }
    grew = grows;
  }
  if (static_cast<int64_t>(to.size()) > most)
    return h.unsupported("it repeats along more than two separate axes of more than five");
  return h.result(h.reshape(h.expand(h.reshape(h.in(), to_dims(from)), to_dims(to)), h.out_type().dims));
}

Match repeat(Htp& h) {
  if (h.rank(h.in()) <= max_rank(h.dtype(h.in()))) return no_match("the device has it");
  const Shape in = h.shape(h.in()), repeats = h.attrs().ints("repeats");
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  ValueId y = h.in();
  for (size_t i = 0; i < in.size(); ++i) {
    if (repeats[i] == 1) continue;
    const Dims now = h.dims(y), view = around(now, static_cast<int64_t>(i));
    Dims after = now;
    after[i] = Dim(in[i] * repeats[i]);
    y = h.reshape(h.add(Op::repeat, {h.reshape(y, view)}, {{"repeats", to_dims({1, repeats[i], 1})}}), after);
  }
  return h.result(y);
}

Match slice(Htp& h) {
  if (is_narrow(h.dtype(h.in()))) return h.computed_in(DType::i32);
  if (h.rank(h.in()) <= max_rank(h.dtype(h.in()))) return no_match("the device has it");
  return merged(h, h.attrs(), h.attrs().integer("dim"));
}

// Empty operands go; nothing is left of one operand.
Match concat(Htp& h) {
  const int64_t dim = h.attrs().integer("dim");
  std::vector<ValueId> parts;
  for (const ValueId v : h.node().inputs)
    if (!(h.dims(v)[static_cast<size_t>(dim)] == Dim(0))) parts.push_back(v);
  if (parts.size() == 1) return h.result(parts[0]);
  if (!parts.empty() && parts.size() < h.node().inputs.size()) return h.result(h.concat(parts, dim));
  const DType d = h.dtype(h.in());
  if (is_narrow(d) && d != DType::boolean) return h.computed_in(DType::i32);
  if (h.rank(h.in()) <= max_rank(h.dtype(h.in()))) return no_match("the device has it");
  return merged(h, h.attrs(), dim);
}

Match flip(Htp& h) {
  if (is_narrow(h.dtype(h.in()))) return h.computed_in(DType::i32);
  if (h.rank(h.in()) <= max_rank(h.dtype(h.in()))) return no_match("the device has it");
  ValueId y = h.in();
  for (const int64_t axis : h.attrs().ints("dims")) {
    const ValueId part = h.add(Op::flip, {h.reshape(y, around(h.dims(y), axis))}, {{"dims", to_dims({1})}});
    y = h.reshape(part, h.out_type().dims);
  }
  return h.result(y);
}

// pad(x)  ->  concat(border, x, border), axis by axis, where the device's Pad has no such type, mode or rank.
// Pad pads floats only; it mirrors up to four axes, and its copies of the edge are wrong in float
// [htp.pad.1].
Match pad(Htp& h) {
  const std::string& mode = h.attrs().text("mode");
  const Shape before = h.attrs().ints("before"), after = h.attrs().ints("after");
  const DType dtype = h.dtype(h.in());
  const int64_t rank = h.rank(h.in());
  const bool constant = mode == "constant";
  if (is_float(dtype) && ((constant && rank <= kMaxRank) || (mode == "reflect" && rank <= 4)))
    return no_match("the device has it");
  ValueId y = h.in();
  for (size_t i = 0; i < before.size(); ++i) {
    const auto axis = static_cast<int64_t>(i);
    const auto piece = [&](int64_t n, bool first) {
      if (!constant) return border(h, mode, y, axis, n, first);
      Shape shape = h.shape(y);
      shape[i] = n;
      return filled(h, shape, *h.attrs().find("value"), dtype);
    };
    std::vector<ValueId> parts;
    if (before[i] > 0) parts.push_back(piece(before[i], true));
    parts.push_back(y);
    if (after[i] > 0) parts.push_back(piece(after[i], false));
    y = h.concat(std::move(parts), axis);
  }
  return h.result(y);
}

}  // namespace sixfold::htp
