// Parts of a tensor: select, slice, split and their kin.
#include <algorithm>

#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shape/build.h"

namespace sixfold::aten {

Bounds slice_bounds(Call& call, ValueId x, int64_t axis) {
  const Dim size = extent(call, x, axis);
  const auto clamp = [&](std::string_view name, const Dim& otherwise) -> Dim {
    if (call.is_none(name)) return otherwise;
    const Dim bound = call.dim(name);
    if (bound.is_static() && size.is_static()) {
      const int64_t n = size.value(), b = bound.value();
      return Dim(std::clamp<int64_t>(b < 0 ? b + n : b, 0, n));
    }
    if (bound.is_static() && bound.value() < 0) return size + bound;
    if (bound.value_or(0) >= kMaxDim) return size;  // 2^63 - 1: to the end
    return bound;
  };
  Bounds out{clamp("start", Dim(0)), clamp("end", size), call.integer("step")};
  if (out.step < 1) {
    call.fail(Code::InvalidModel, "slice of step ", out.step, ", expected at least 1");
    out.step = 1;
  }
  if (out.start.is_static() && out.end.is_static() && out.end.value() < out.start.value())
    out.end = out.start;
  return out;
}

namespace {

Status slice(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis("dim", x);
  if (!ok(call)) return stop(call);
  Bounds b = slice_bounds(call, x, axis);
  // Whether a bound over symbols lies inside the axis is in the guards; the file's result extent says what
  // came out.
  const Dims& out = expected(call);
  const bool open = !b.start.is_static() || !b.end.is_static() || !extent(call, x, axis).is_static();
  if (open && b.step == 1 && out.size() == call.type(x).rank()) {
    const Dim& length = out[static_cast<size_t>(axis)];
    if (!(b.start == Dim(0) && length == extent(call, x, axis)))
      b.end = b.start + length;
    else
      b.end = extent(call, x, axis);
  }
  return call.result(call.slice(x, axis, b.start, b.end, b.step));
}

Status select(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis("dim", x);
  Dim index = call.dim("index");
  if (!ok(call)) return stop(call);
  if (call.rank(x) == 0) return invalid_model("select from a scalar");
  const Dim size = extent(call, x, axis);
  if (index.is_static() && size.is_static() &&
      (index.value() < -size.value() || index.value() >= size.value()))
    return invalid_model("select of index ", index, " from an axis of ", size);
  if (index.value_or(0) < 0) index = size + index;
  Dims shape = call.dims_of(x);
  shape.erase(shape.begin() + axis);
  return call.result(call.reshape(call.slice(x, axis, index, index + Dim(1)), shape));
}

Status narrow(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis("dim", x);
  Dim start = call.dim("start");
  const Dim length = call.dim("length");
  if (!ok(call)) return stop(call);
  if (start.value_or(0) < 0) start = extent(call, x, axis) + start;
  return call.result(call.slice(x, axis, start, start + length));
}
// The start is data: an index of length elements, which the kernel checks.
Status narrow_tensor(Call& call) {
  const ValueId x = call.tensor("self"), start = call.tensor("start");
  const int64_t axis = call.axis("dim", x);
  const Dim length = call.dim("length");
  if (!ok(call)) return stop(call);
  const ValueId first = call.reshape(call.to(start, DType::i64), {Dim(1)});
  return call.result(index_select(call, x, axis, call.op(Op::add, {count_up(call, length), first})));
}

// Consecutive parts of x; their sizes must add up to the extent.
Status split_into(Call& call, ValueId x, int64_t axis, const Dims& sizes) {
  if (!ok(call)) return stop(call);
  std::vector<ValueId> parts;
  Dim start(0);
  for (const Dim& size : sizes) {
    if (size.value_or(0) < 0) return invalid_model("split into ", sizes);
    parts.push_back(call.slice(x, axis, start, start + size));
    start += size;
  }
  const Dim size = extent(call, x, axis);
  if (start.is_static() && size.is_static() && !(start == size))
    return invalid_model("split of an axis of ", size, " into ", sizes);
  return call.results(parts);
}

// As many parts as the call has outputs; the last takes what is left.
Dims equal_parts(const Call& call, const Dim& part, const Dim& total) {
  const size_t count = call.output_count();
  Dims sizes(count, part);
  if (count > 0) sizes.back() = total - part * Dim(static_cast<int64_t>(count) - 1);
  return sizes;
}

Status split(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis("dim", x);
  const Dim part = call.dim("split_size"), size = extent(call, x, axis);
  return split_into(call, x, axis, equal_parts(call, part, size));
}
Status split_sizes(Call& call) {
  const ValueId x = call.tensor("self");
  return split_into(call, x, call.axis("dim", x),
                    call.dims(call.attr("split_sizes") ? "split_sizes" : "split_size"));
}
Status chunk(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis("dim", x), chunks = call.integer("chunks");
  const Dim size = extent(call, x, axis);
  if (chunks < 1) return invalid_model("chunk into ", chunks, " parts");
  const Dim part = floordiv(size + Dim(chunks - 1), Dim(chunks));
  return split_into(call, x, axis, equal_parts(call, part, size));
}

Status split_at(Call& call, ValueId x, int64_t axis, const Shape& indices) {
  if (!ok(call)) return stop(call);
  const Dim size = extent(call, x, axis);
  if (!size.is_static()) return call.unsupported("it needs a static extent");
  std::vector<ValueId> parts;
  const auto bound = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + size.value() : i, 0, size.value());
  };
  int64_t start = 0;
  for (size_t i = 0; i <= indices.size(); ++i) {
    const int64_t end = i < indices.size() ? bound(indices[i]) : size.value();
    parts.push_back(call.slice(x, axis, Dim(start), Dim(std::max(start, end))));
    start = end;
  }
  return call.results(parts);
}
Status split_sections(Call& call, ValueId x, int64_t axis, int64_t sections, bool exact) {
  if (!ok(call)) return stop(call);
  const Dim size = extent(call, x, axis);
  if (!size.is_static()) return call.unsupported("it needs a static extent");
  if (sections < 1 || static_cast<size_t>(sections) != call.output_count() ||
      (exact && size.value() % sections != 0))
    return invalid_model("split of an axis of ", size, " into ", sections, " sections");
  Dims sizes;
  for (int64_t i = 0; i < sections; ++i)
    sizes.push_back(Dim(size.value() / sections + (i < size.value() % sections)));
  return split_into(call, x, axis, sizes);
}
Status tensor_split_sections(Call& call) {
  const ValueId x = call.tensor("self");
  return split_sections(call, x, call.axis("dim", x), call.integer("sections"), /*exact=*/false);
}
Status tensor_split_indices(Call& call) {
  const ValueId x = call.tensor("self");
  return split_at(call, x, call.axis("dim", x), call.ints("indices"));
}
Status tensor_split_tensor(Call& call) {
  const ValueId x = call.tensor("self");
  const auto where = call.known(call.tensor("tensor_indices_or_sections"));
  if (!where) return call.unsupported("output shape depends on data");
  if (where->shape.empty())
    return split_sections(call, x, call.axis("dim", x), element_integer(*where, 0), false);
  Shape indices;
  for (int64_t i = 0; i < where->count(); ++i) indices.push_back(element_integer(*where, i));
  return split_at(call, x, call.axis("dim", x), indices);
}
int64_t split_axis(Call& call, ValueId x, int64_t axis) {
  return axis == 1 && call.rank(x) == 1 ? 0 : call.normalize(axis, x);
}
template <int64_t kAxis>
Status xsplit(Call& call) {
  const ValueId x = call.tensor("self");
  return split_sections(call, x, split_axis(call, x, kAxis), call.integer("sections"), /*exact=*/true);
}
template <int64_t kAxis>
Status xsplit_at(Call& call) {
  const ValueId x = call.tensor("self");
  return split_at(call, x, split_axis(call, x, kAxis), call.ints("indices"));
}

Status unbind(Call& call) {
  const ValueId x = call.tensor("self");
  const int64_t axis = call.axis("dim", x);
  const auto count = static_cast<int64_t>(call.output_count());
  if (!ok(call)) return stop(call);
  if (extent(call, x, axis).value_or(count) != count || call.rank(x) == 0)
    return invalid_model("unbind of ", call.type(x), " along ", axis, " into ", count, " tensors");
  Dims shape = call.dims_of(x);
  shape.erase(shape.begin() + axis);
  std::vector<ValueId> parts;
  for (int64_t i = 0; i < count; ++i)
    parts.push_back(call.reshape(call.slice(x, axis, Dim(i), Dim(i + 1)), shape));
  return call.results(parts);
}

// Windows of size elements every step along an axis; the window becomes the last axis.
Status unfold(Call& call) {
  const ValueId self = call.tensor("self");
  const ValueId x = at_least(call, self, 1);
  const int64_t axis = call.axis("dimension", self), size = call.integer("size"), step = call.integer("step");
  const Shape shape = call.shape(x);
  if (!ok(call)) return stop(call);
  const int64_t length = shape[static_cast<size_t>(axis)];
  if (size < 0 || step < 1 || size > length)
    return invalid_model("unfold of windows of ", size, " by ", step, " from an axis of ", length);
  const int64_t windows = (length - size) / step + 1;
  std::vector<int64_t> index;
  for (int64_t w = 0; w < windows; ++w)
    for (int64_t i = 0; i < size; ++i) index.push_back(w * step + i);
  Dims split = to_dims(shape);
  split[static_cast<size_t>(axis)] = Dim(windows);
  split.insert(split.begin() + axis + 1, Dim(size));
  const ValueId windowed = call.reshape(index_select(call, x, axis, integers(call, index)), split);
  const ValueId out = move_axis(call, windowed, axis + 1, call.rank(windowed) - 1);
  return call.result(call.rank(self) == 0 ? call.reshape(out, {Dim(size)}) : out);
}

// Positions in x of every element of the view. Import made x the memory that the call addresses.
bool storage_positions(Call& call, ValueId x, std::vector<int64_t>& positions) {
  const Shape size = call.ints("size"), stride = call.ints("stride");
  const int64_t offset = call.integer_or("storage_offset", 0);
  const int64_t count = numel(call.shape(x));
  if (!ok(call)) return false;
  if (size.size() != stride.size() || offset < 0) {
    call.fail(Code::InvalidModel, "as_strided of sizes ", size, " and strides ", stride, " from ", offset);
    return false;
  }
  __int128 last = offset;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] < 0 || stride[i] < 0)
      call.fail(Code::InvalidModel, "as_strided of sizes ", size, ", strides ", stride);
    if (size[i] > 0) last += static_cast<__int128>(size[i] - 1) * stride[i];
  }
  const int64_t total = numel(size);
  if (total > 0 && last >= count)
    call.fail(Code::InvalidModel, "as_strided reads beyond the ", count, " elements of its operand");
  if (total > (int64_t{1} << 28)) call.fail(Code::Unsupported, "as_strided of ", total, " elements");
  if (!ok(call)) return false;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, at = offset;
    for (size_t d = size.size(); d-- > 0;) {
      at += rest % size[d] * stride[d];
      rest /= size[d];
    }
    positions.push_back(at);
  }
  return true;
}

Status as_strided(Call& call) {
  const ValueId x = call.tensor("self");
  std::vector<int64_t> positions;
  if (!storage_positions(call, x, positions)) return stop(call);
  const auto count = static_cast<int64_t>(positions.size());
  bool in_order = count == numel(call.shape(x));
  for (int64_t i = 0; in_order && i < count; ++i) in_order = positions[static_cast<size_t>(i)] == i;
  const ValueId flat = in_order ? x : index_select(call, flatten(call, x), 0, integers(call, positions));
  return call.result(call.reshape(flat, to_dims(call.ints("size"))));
}

Status as_strided_scatter(Call& call) {
  const ValueId x = call.tensor("self"), src = call.tensor("src");
  std::vector<int64_t> positions;
  if (!storage_positions(call, x, positions)) return stop(call);
  const ValueId out =
      call.op(Op::index_put, {flatten(call, x), flatten(call, src), integers(call, positions)},
              {{"dims", Dims{0}}, {"accumulate", false}});
  return call.result(call.reshape(out, call.dims_of(x)));
}

constexpr AtenRule kRules[] = {
    {"aten.slice.Tensor", slice},
    {"aten.slice_copy.Tensor", slice},
    {"aten.select.int", select},
    {"aten.select_copy.int", select},
    {"aten.narrow.default", narrow},
    {"aten.narrow_copy.default", narrow},
    {"aten.narrow.Tensor", narrow_tensor},
    {"aten.split.Tensor", split},
    {"aten.split_copy.Tensor", split},
    {"aten.unsafe_split.Tensor", split},
    {"aten.split.sizes", split_sizes},
    {"aten.split_with_sizes.default", split_sizes},
    {"aten.split_with_sizes_copy.default", split_sizes},
    {"aten.unsafe_split_with_sizes.default", split_sizes},
    {"aten.chunk.default", chunk},
    {"aten.unsafe_chunk.default", chunk},
    {"aten.tensor_split.sections", tensor_split_sections},
    {"aten.tensor_split.indices", tensor_split_indices},
    {"aten.tensor_split.tensor_indices_or_sections", tensor_split_tensor},
    {"aten.hsplit.int", xsplit<1>},
    {"aten.vsplit.int", xsplit<0>},
    {"aten.dsplit.int", xsplit<2>},
    {"aten.hsplit.array", xsplit_at<1>},
    {"aten.vsplit.array", xsplit_at<0>},
    {"aten.dsplit.array", xsplit_at<2>},
    {"aten.unbind.int", unbind},
    {"aten.unbind_copy.int", unbind},
    {"aten.unfold.default", unfold},
    {"aten.unfold_copy.default", unfold},
    {"aten.as_strided.default", as_strided},
    {"aten.as_strided_copy.default", as_strided},
    {"aten.as_strided_scatter.default", as_strided_scatter},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> split_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
