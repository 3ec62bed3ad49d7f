// Tensors made of others or of copies of themselves: cat, stack, pad, repeat, roll.
#include <algorithm>
#include <numeric>

#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shape/build.h"

namespace sixfold::aten {
namespace {

// Concatenation with type promotion. Empty tensors of rank 1 join anything, a rule of old that exporters
// still use.
Status cat_values(Call& call, std::vector<ValueId> xs, int64_t axis) {
  if (!ok(call)) return stop(call);
  if (xs.empty()) return invalid_model("cat of no tensors");
  DType dtype = DType::none;
  std::vector<ValueId> parts;
  for (const ValueId x : xs) dtype = promote(dtype, call.dtype_of(x));
  for (const ValueId x : xs)
    if (!(call.dims_of(x) == Dims{0})) parts.push_back(call.to(x, dtype));
  if (parts.empty()) return call.result(call.to(xs[0], dtype));
  return call.result(concat(call, parts, call.normalize(axis, parts[0])));
}
Status cat_rule(Call& call) { return cat_values(call, call.tensors("tensors"), call.integer("dim")); }

Status stack(Call& call) {
  std::vector<ValueId> xs = call.tensors("tensors");
  if (xs.empty()) return invalid_model("stack of no tensors");
  auto axis = normalize_axis(call.integer("dim"), call.type(xs[0]).rank() + 1);
  if (!axis.ok()) return axis.take_error();
  if (!ok(call)) return stop(call);
  for (ValueId& x : xs) x = call.unsqueeze(x, std::min(*axis, call.rank(x)));
  DType dtype = DType::none;
  for (const ValueId x : xs) dtype = promote(dtype, call.dtype_of(x));
  for (ValueId& x : xs) x = call.to(x, dtype);
  return call.result(concat(call, xs, *axis));
}
template <int64_t kRank>
Status xstack(Call& call) {  // hstack, vstack, dstack
  std::vector<ValueId> xs = call.tensors("tensors");
  for (ValueId& x : xs) x = at_least(call, x, kRank);
  const int64_t axis = kRank == 1 ? (!xs.empty() && call.rank(xs[0]) == 1 ? 0 : 1) : kRank == 2 ? 0 : 2;
  return cat_values(call, std::move(xs), axis);
}
Status column_stack(Call& call) {
  std::vector<ValueId> xs = call.tensors("tensors");
  for (ValueId& x : xs)
    if (call.rank(x) < 2) x = call.reshape(x, {numel(call.dims_of(x)), Dim(1)});
  return cat_values(call, std::move(xs), 1);
}

// Where each element of an axis padded by (front, back) comes from, for amounts that may be negative:
// positions are those of the whole axis, so a reflection may show elements that the other side crops.
// (Circular padding wraps around what is left.)
std::optional<std::vector<int64_t>> padded_positions(int64_t size, int64_t front, int64_t back,
                                                     const std::string& mode) {
  std::vector<int64_t> out;
  for (int64_t i = -front; i < size + back; ++i) {
    int64_t from = i;
    if (mode == "replicate")
      from = std::clamp<int64_t>(i, 0, size - 1);
    else if (mode == "reflect")
      from = i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
    if (from < 0 || from >= size) return std::nullopt;
    out.push_back(from);
  }
  return out;
}

// pad lists (before, after) from the last axis; negative entries crop.
Status pad_by(Call& call, const Dims& pad, const std::string& mode, Attr value) {
  ValueId x = call.tensor("self");
  const int64_t rank = call.rank(x);
  if (!ok(call)) return stop(call);
  if (pad.size() % 2 != 0 || static_cast<int64_t>(pad.size()) / 2 > rank)
    return invalid_model("padding ", pad, " for a tensor of rank ", rank);
  Dims before(static_cast<size_t>(rank), Dim(0)), after = before;
  bool pads = false;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const auto axis = static_cast<size_t>(rank) - 1 - i;
    const Dim front = pad[2 * i], back = pad[2 * i + 1], size = call.dims_of(x)[axis];
    const bool crops = front.value_or(0) < 0 || back.value_or(0) < 0;
    if (crops && (mode == "replicate" || mode == "reflect") && size.value_or(0) > 0 && front.is_static() &&
        back.is_static()) {
      const auto positions = padded_positions(size.value(), front.value(), back.value(), mode);
      if (!positions)
        return invalid_model("pad: ", front, " and ", back, " by ", mode, " beside an axis of ", size);
      x = index_select(call, x, static_cast<int64_t>(axis), integers(call, *positions));
      continue;
    }
    if (crops) {
      const Dim start(std::max<int64_t>(-front.value_or(0), 0));
      const Dim end = size - Dim(std::max<int64_t>(-back.value_or(0), 0));
      x = call.slice(x, static_cast<int64_t>(axis), start, end);
    }
    before[axis] = Dim(front.is_static() ? Dim(std::max<int64_t>(front.value(), 0)) : front);
    after[axis] = Dim(back.is_static() ? Dim(std::max<int64_t>(back.value(), 0)) : back);
    pads = pads || !(before[axis] == Dim(0)) || !(after[axis] == Dim(0));
  }
  if (pads)
    x = call.op(Op::pad, {x},
                {{"before", before}, {"after", after}, {"mode", mode}, {"value", std::move(value)}});
  return call.result(x);
}
Attr number_or_zero(Call& call, std::string_view name) {
  const Attr* a = call.attr(name);
  return a && !std::holds_alternative<std::monostate>(*a) ? *a : Attr(0.0);
}
Status constant_pad(Call& call) {
  return pad_by(call, call.dims("pad"), "constant", number_or_zero(call, "value"));
}
Status pad_rule(Call& call) {
  return pad_by(call, call.dims("pad"), call.text("mode"), number_or_zero(call, "value"));
}
Status pad_enum(Call& call) {
  static constexpr const char* kModes[] = {"constant", "reflect", "replicate", "circular"};
  const int64_t mode = call.integer("mode");
  if (mode < 0 || mode > 3) return invalid_model("padding mode ", mode);
  return pad_by(call, call.dims("pad"), kModes[mode], number_or_zero(call, "value"));
}
Status pad_circular(Call& call) { return pad_by(call, call.dims("pad"), "circular", Attr(0.0)); }
Status reflection_pad(Call& call) { return pad_by(call, call.dims("padding"), "reflect", Attr(0.0)); }
Status replication_pad(Call& call) { return pad_by(call, call.dims("padding"), "replicate", Attr(0.0)); }

Status flip_axes(Call& call, ValueId x, const Shape& axes) {
  if (!ok(call) || axes.empty() || call.rank(x) == 0) return call.result(x);
  return call.result(call.op(Op::flip, {x}, {{"dims", to_dims(axes)}}));
}
Status flip(Call& call) {
  const ValueId x = call.tensor("self");
  Shape axes = call.ints("dims");
  for (int64_t& a : axes) a = call.normalize(a, x);
  return flip_axes(call, x, axes);
}
Status flipud(Call& call) { return flip_axes(call, call.tensor("self"), {0}); }
Status fliplr(Call& call) {
  const ValueId x = call.tensor("self");
  if (call.rank(x) < 2) return invalid_model("fliplr of ", call.type(x));
  return flip_axes(call, x, {1});
}

// k quarter turns from axis a to axis b: flips and a transpose.
Status rot90(Call& call) {
  ValueId x = call.tensor("self");
  Shape axes = call.ints("dims");
  for (int64_t& a : axes) a = call.normalize(a, x);
  const int64_t turns = ((call.integer("k") % 4) + 4) % 4;
  if (!ok(call)) return stop(call);
  if (axes.size() != 2 || axes[0] == axes[1]) return invalid_model("rot90 of axes ", axes);
  if (turns == 2) return flip_axes(call, x, axes);
  if (turns == 0) return call.result(x);
  Shape order(call.type(x).rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axes[0])], order[static_cast<size_t>(axes[1])]);
  x = call.op(Op::flip, {x}, {{"dims", Dims{axes[turns == 1 ? 1 : 0]}}});
  return call.result(call.permute(x, order));
}

ValueId roll_axis(Call& call, ValueId x, int64_t axis, int64_t shift) {
  const Dim size = extent(call, x, axis);
  if (size == Dim(0)) return x;
  if (size.is_static()) shift = ((shift % size.value()) + size.value()) % size.value();
  if (shift == 0) return x;
  const Dim cut =
      shift > 0 ? size - Dim(shift) : Dim(-shift);  // over a symbol: the shift is shorter than the axis
  return concat(call, {call.slice(x, axis, cut, size), call.slice(x, axis, Dim(0), cut)}, axis);
}
// The middle of each axis to its front, or back.
Status shift_by_half(Call& call, bool back) {
  ValueId x = call.tensor("self");
  const Shape axes = call.axes("dim", x), shape = call.shape(x);
  if (!ok(call)) return stop(call);
  for (const int64_t axis : axes) {
    const int64_t size = shape[static_cast<size_t>(axis)];
    x = roll_axis(call, x, axis, back ? (size + 1) / 2 : size / 2);
  }
  return call.result(x);
}
Status fftshift(Call& call) { return shift_by_half(call, /*back=*/false); }
Status ifftshift(Call& call) { return shift_by_half(call, /*back=*/true); }

// Each tensor cut into num_chunks along dim (zeros fill the last), its chunks laid flat, all joined chunk by
// chunk.
Status chunk_cat(Call& call) {
  const std::vector<ValueId> xs = call.tensors("tensors");
  const int64_t chunks = call.integer("num_chunks");
  if (!ok(call) || xs.empty() || chunks < 1)
    return invalid_model("_chunk_cat of ", xs.size(), " tensors in ", chunks, " chunks");
  const int64_t axis = call.normalize(call.integer("dim"), xs[0]);
  std::vector<ValueId> parts;
  for (ValueId x : xs) {
    const Shape shape = call.shape(x);
    if (!ok(call) || axis >= static_cast<int64_t>(shape.size()))
      return invalid_model("_chunk_cat of ", shape, " along ", axis);
    const int64_t size = shape[static_cast<size_t>(axis)], missing = (chunks - size % chunks) % chunks;
    if (missing > 0) {
      Dims filler = to_dims(shape);
      filler[static_cast<size_t>(axis)] = Dim(missing);
      x = concat(call, {x, full(call, filler, Attr(Dim(0)), call.dtype_of(x))}, axis);
    }
    Dims lead(call.dims_of(x).begin(), call.dims_of(x).begin() + axis);
    const Dim rest = numel(Dims(call.dims_of(x).begin() + axis, call.dims_of(x).end()));
    lead.insert(lead.end(), {Dim(chunks), floordiv(rest, Dim(chunks))});
    parts.push_back(call.reshape(x, lead));
  }
  return call.result(concat(call, parts, axis + 1));
}

Status roll(Call& call) {
  const ValueId self = call.tensor("self");
  const Shape shifts = call.ints("shifts");
  Shape axes = call.ints("dims");
  for (int64_t& a : axes) a = call.normalize(a, self);
  if (!ok(call)) return stop(call);
  if (axes.empty()) {
    if (shifts.size() != 1) return invalid_model("roll by ", shifts, " without dims");
    return call.result(call.reshape(roll_axis(call, flatten(call, self), 0, shifts[0]), call.dims_of(self)));
  }
  if (axes.size() != shifts.size()) return invalid_model("roll by ", shifts, " along ", axes);
  ValueId x = self;
  for (size_t i = 0; i < axes.size() && call.rank(self) > 0; ++i) x = roll_axis(call, x, axes[i], shifts[i]);
  return call.result(x);
}

Status repeat_by(Call& call, Dims repeats) {
  ValueId x = call.tensor("self");
  Dims shape = call.dims_of(x);
  if (!ok(call)) return stop(call);
  if (repeats.size() < shape.size()) return invalid_model("repeat of ", shape, " by ", repeats);
  shape.insert(shape.begin(), repeats.size() - shape.size(), Dim(1));
  x = call.reshape(x, shape);
  if (std::all_of(repeats.begin(), repeats.end(), [](const Dim& r) { return r == Dim(1); }))
    return call.result(x);
  return call.result(call.op(Op::repeat, {x}, {{"repeats", repeats}}));
}
Status repeat(Call& call) { return repeat_by(call, call.dims("repeats")); }
Status tile(Call& call) {
  Dims repeats = call.dims("dims");
  const size_t rank = call.type(call.tensor("self")).rank();
  if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), Dim(1));
  return repeat_by(call, repeats);
}

Status repeat_interleave_int(Call& call) {
  ValueId x = call.tensor("self");
  const Dim repeats = call.dim("repeats");
  const bool flat = call.is_none("dim");
  const int64_t axis = flat ? 0 : call.axis("dim", x);
  if (!ok(call)) return stop(call);
  x = flat ? flatten(call, x) : at_least(call, x, 1);
  Dims shape = call.dims_of(x), out = shape;
  out[static_cast<size_t>(axis)] *= repeats;
  shape.insert(shape.begin() + axis + 1, repeats);
  return call.result(call.reshape(expand(call, call.unsqueeze(x, axis + 1), shape), out));
}

// Index i appears repeats[i] times; nothing when repeats is not known.
std::optional<std::vector<int64_t>> repeated_positions(Call& call, int64_t length) {
  const auto repeats = call.known(call.tensor("repeats"));
  if (!repeats || repeats->shape.size() > 1) return std::nullopt;
  const int64_t count = length < 0 ? repeats->count() : length;
  if (repeats->count() != count && repeats->count() != 1) {
    call.fail(Code::InvalidModel, repeats->count(), " repeats for an axis of ", count);
    return std::vector<int64_t>{};
  }
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t n = element_integer(*repeats, repeats->count() == 1 ? 0 : i);
    if (n < 0 || n > (1 << 28)) {
      call.fail(Code::InvalidModel, "an element repeated ", n, " times");
      break;
    }
    positions.insert(positions.end(), static_cast<size_t>(n), i);
  }
  return positions;
}
// Element i of the result comes from the first element whose running count of repeats exceeds i.
ValueId sources(Call& call, ValueId repeats, const Dim& total) {
  const ValueId ends = call.op(Op::cumsum, {call.to(repeats, DType::i64)}, {{"dim", Dim(0)}});
  return call.op(Op::searchsorted, {ends, count_up(call, total)}, {{"right", true}});
}

Status repeat_interleave_tensor(Call& call) {
  ValueId x = call.tensor("self");
  const bool flat = call.is_none("dim");
  const int64_t axis = flat ? 0 : call.axis("dim", x);
  x = flat ? flatten(call, x) : at_least(call, x, 1);
  const Shape shape = call.shape(x);
  if (!ok(call)) return stop(call);
  const auto positions = repeated_positions(call, shape[static_cast<size_t>(axis)]);
  if (positions) return call.result(index_select(call, x, axis, integers(call, *positions)));
  // The repeats are data, but their sum is given.
  const Dims& out = expected(call);
  if (!is_static(out) || out.size() != shape.size() || call.rank(call.tensor("repeats")) > 1)
    return call.unsupported("output shape depends on data: the repeats are not constant");
  const Dim length(shape[static_cast<size_t>(axis)]);
  const ValueId repeats = expand(call, at_least(call, call.tensor("repeats"), 1), {length});
  return call.result(index_select(call, x, axis, sources(call, repeats, out[static_cast<size_t>(axis)])));
}
Status repeat_interleave_positions(Call& call) {
  const auto positions = repeated_positions(call, -1);
  const ValueId repeats = call.tensor("repeats");
  if (positions) return call.result(call.to(integers(call, *positions), call.dtype_of(repeats)));
  if (call.is_none("output_size") || call.rank(repeats) != 1)
    return call.unsupported("output shape depends on data: the repeats are not constant");
  const ValueId all = count_up(call, extent(call, repeats, 0));
  return call.result(call.to(index_select(call, all, 0, sources(call, repeats, call.dim("output_size"))),
                             call.dtype_of(repeats)));
}

std::vector<ValueId> grid(Call& call, const std::vector<ValueId>& xs, bool xy) {
  Dims shape;
  for (const ValueId x : xs) shape.push_back(numel(call.dims_of(x)));
  std::vector<ValueId> out;
  for (size_t i = 0; i < xs.size(); ++i) {
    Dims line(xs.size(), Dim(1));
    line[i] = shape[i];
    ValueId y = expand(call, call.reshape(xs[i], line), shape);
    if (xy && xs.size() >= 2) y = move_axis(call, y, 0, 1);
    out.push_back(y);
  }
  return out;
}
Status meshgrid(Call& call) { return call.results(grid(call, call.tensors("tensors"), /*xy=*/false)); }
Status meshgrid_indexing(Call& call) {
  return call.results(grid(call, call.tensors("tensors"), call.text("indexing") == "xy"));
}
Status cartesian_prod(Call& call) {
  const std::vector<ValueId> xs = call.tensors("tensors");
  if (xs.size() == 1) return call.result(xs[0]);
  std::vector<ValueId> columns;
  for (const ValueId y : grid(call, xs, /*xy=*/false))
    columns.push_back(call.reshape(y, {numel(call.dims_of(y)), Dim(1)}));
  return cat_values(call, columns, 1);
}

Status block_diag(Call& call) {
  std::vector<ValueId> rows;
  Dim width(0), left(0);
  std::vector<ValueId> xs = call.tensors("tensors");
  DType dtype = DType::none;
  for (ValueId& x : xs) {
    x = at_least(call, x, 2);
    dtype = promote(dtype, call.dtype_of(x));
    if (call.rank(x) != 2) return invalid_model("block_diag of ", call.type(x));
    width += call.dims_of(x)[1];
  }
  for (const ValueId x : xs) {
    const Dim columns = extent(call, x, 1);
    rows.push_back(call.op(Op::pad, {call.to(x, dtype)},
                           {{"before", Dims{0, left}},
                            {"after", Dims{0, width - left - columns}},
                            {"mode", "constant"},
                            {"value", 0.0}}));
    left += columns;
  }
  return cat_values(call, rows, 0);
}

Status pad_sequence(Call& call) {
  std::vector<ValueId> xs = call.tensors("sequences");
  const bool left = call.text("padding_side") == "left";
  int64_t longest = 0;
  for (const ValueId x : xs) {
    const Shape shape = call.shape(x);
    if (!ok(call)) return stop(call);
    if (shape.empty()) return invalid_model("pad_sequence of a scalar");
    longest = std::max(longest, shape[0]);
  }
  for (ValueId& x : xs) {
    Dims before(call.type(x).rank(), Dim(0)), after = before;
    (left ? before : after)[0] = Dim(longest) - extent(call, x, 0);
    x = call.op(
        Op::pad, {x},
        {{"before", before}, {"after", after}, {"mode", "constant"}, {"value", call.real("padding_value")}});
    x = call.unsqueeze(x, call.flag("batch_first") ? 0 : 1);
  }
  return cat_values(call, xs, call.flag("batch_first") ? 0 : 1);
}

Status combinations(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t r = call.integer("r");
  const bool repeats = call.flag("with_replacement");
  const Shape shape = call.shape(x);
  if (!ok(call)) return stop(call);
  if (shape.size() != 1 || r < 1 || r > 8) return call.unsupported("combinations of this size");
  std::vector<int64_t> index, at;
  for (int64_t i = 0; i < r; ++i) at.push_back(repeats ? 0 : i);
  int64_t count = 0;
  while (shape[0] > 0 && at.back() < shape[0]) {  // rising tuples in lexicographic order
    index.insert(index.end(), at.begin(), at.end());
    if (++count > (1 << 22)) return call.unsupported("combinations of this size");
    size_t i = at.size() - 1;
    const auto limit = [&](size_t k) {
      return shape[0] - 1 - (repeats ? 0 : static_cast<int64_t>(at.size() - 1 - k));
    };
    while (i > 0 && at[i] >= limit(i)) --i;
    ++at[i];
    for (size_t k = i + 1; k < at.size(); ++k) at[k] = at[k - 1] + (repeats ? 0 : 1);
  }
  return call.result(call.reshape(index_select(call, x, 0, integers(call, index)), {Dim(count), Dim(r)}));
}

constexpr AtenRule kRules[] = {
    {"aten.cat.default", cat_rule},
    {"aten.concat.default", cat_rule},
    {"aten.concatenate.default", cat_rule},
    {"aten.stack.default", stack},
    {"aten.hstack.default", xstack<1>},
    {"aten.vstack.default", xstack<2>},
    {"aten.row_stack.default", xstack<2>},
    {"aten.dstack.default", xstack<3>},
    {"aten.column_stack.default", column_stack},
    {"aten.constant_pad_nd.default", constant_pad},
    {"aten.pad.default", pad_rule},
    {"aten._pad_enum.default", pad_enum},
    {"aten._pad_circular.default", pad_circular},
    {"aten.reflection_pad1d.default", reflection_pad},
    {"aten.reflection_pad2d.default", reflection_pad},
    {"aten.reflection_pad3d.default", reflection_pad},
    {"aten.replication_pad1d.default", replication_pad},
    {"aten.replication_pad2d.default", replication_pad},
    {"aten.replication_pad3d.default", replication_pad},
    {"aten.flip.default", flip},
    {"aten.flipud.default", flipud},
    {"aten.fliplr.default", fliplr},
    {"aten.rot90.default", rot90},
    {"aten.roll.default", roll},
    {"aten.fft_fftshift.default", fftshift},
    {"aten.fft_ifftshift.default", ifftshift},
    {"aten._chunk_cat.default", chunk_cat},
    {"aten.repeat.default", repeat},
    {"aten.tile.default", tile},
    {"aten.repeat_interleave.self_int", repeat_interleave_int},
    {"aten.repeat_interleave.self_Tensor", repeat_interleave_tensor},
    {"aten.repeat_interleave.Tensor", repeat_interleave_positions},
    {"aten.meshgrid.default", meshgrid},
    {"aten.meshgrid.indexing", meshgrid_indexing},
    {"aten.cartesian_prod.default", cartesian_prod},
    {"aten.block_diag.default", block_diag},
    {"aten.pad_sequence.default", pad_sequence},
    {"aten.combinations.default", combinations},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> join_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
