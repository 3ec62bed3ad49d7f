// Indexing as the device's gathers: one axis, one index.
#include "sixfold/ops/index/htp.h"

#include <algorithm>

namespace sixfold::htp {
namespace {

// ScatterNd writes rows of 65,536 halves to the wrong places, and crashes with some that are longer
// [htp.scatter_nd.1].
constexpr int64_t kMaxRow = 16384;

bool all_nonnegative(const Tensor& t) {
  const Tensor plain = to_contiguous(t);
  for (int64_t i = 0; i < plain.count(); ++i)
    if (element_real(plain, i) < 0) return false;
  return true;
}

// Whether no element can be negative, as far as the nodes before it tell.
bool is_nonnegative(const Graph& g, ValueId v, int depth = 12) {
  if (const Tensor* data = g.constant(v)) return all_nonnegative(*data);
  const Node* n = g.producer(v);
  if (!n || depth == 0) return false;
  const auto operand = [&](size_t i) { return is_nonnegative(g, n->input(i), depth - 1); };
  switch (n->op) {
    case Op::argmax:
    case Op::argmin:
      return true;
    case Op::topk:
    case Op::sort:
    case Op::cummax:
    case Op::cummin:
    case Op::max_pool:
      return g.value(v).output_index == 1;
    case Op::searchsorted:
      return true;
    case Op::to:
      return g.dtype(n->input(0)) == DType::boolean || g.dtype(n->input(0)) == DType::u8 || operand(0);
    case Op::reshape:
    case Op::permute:
    case Op::expand:
    case Op::slice:
    case Op::flip:
    case Op::repeat:
    case Op::relu:
    case Op::sum:
    case Op::cumsum:
    case Op::gather:
    case Op::index_select:
    case Op::embedding:
    case Op::index:
      return operand(0);
    case Op::add:
    case Op::mul:
    case Op::minimum:
    case Op::concat: {
      bool all = true;
      for (size_t i = 0; i < n->inputs.size(); ++i) all = all && operand(i);
      return all;
    }
    case Op::maximum:
      return operand(0) || operand(1);
    case Op::remainder:
      return operand(1);
    case Op::clamp: {
      const Attr* min = n->attrs.find("min");
      return min && !std::holds_alternative<std::monostate>(*min) && n->attrs.real("min") >= 0;
    }
    case Op::where: {
      // where(i < 0, i + n, i): from_start's own.
      const Node* less = g.producer(n->input(0));
      if (less && less->op == Op::lt && less->input(0) == n->input(2)) return true;
      return operand(1) && operand(2);
    }
    default:
      return false;
  }
}

// torch refuses negative indices of these.
bool refuses_negative(const std::string& target) {
  for (const char* name : {"aten.gather", "aten.embedding", "aten.index_select", "aten.scatter",
                           "aten.index_copy", "aten.index_add", "aten.one_hot"})
    if (target.starts_with(name)) return true;
  return false;
}

// An index that counts up by equal steps, which is a slice.
std::optional<std::pair<int64_t, int64_t>> progression(const Tensor* index) {
  if (!index || index->count() == 0) return {};
  const Tensor t = to_contiguous(*index);
  const int64_t first = element_integer(t, 0);
  const int64_t step = t.count() > 1 ? element_integer(t, 1) - first : 1;
  if (first < 0 || step < 1) return {};
  for (int64_t i = 0; i < t.count(); ++i)
    if (element_integer(t, i) != first + i * step) return {};
  return std::pair{first, step};
}

std::vector<ValueId> counted(Htp& h, size_t first, const Shape& dims, Shape& extents) {
  const Shape x = h.shape(h.in());
  std::vector<ValueId> out;
  for (size_t i = 0; i < dims.size(); ++i) {
    extents.push_back(x[static_cast<size_t>(dims[i])]);
    out.push_back(from_start(h, h.in(first + i), extents.back()));
  }
  return out;
}

// The shape that indices broadcast to.
Shape joint_shape(Htp& h, std::span<const ValueId> indices) {
  Shape out;
  for (const ValueId v : indices) {
    const Shape s = h.shape(v);
    if (s.size() > out.size()) out.insert(out.begin(), s.size() - out.size(), 1);
    for (size_t i = 0; i < s.size(); ++i) {
      int64_t& o = out[out.size() - s.size() + i];
      o = std::max(o, s[i]);
    }
  }
  return out;
}

bool are_adjacent(const Shape& dims) {
  for (size_t i = 1; i < dims.size(); ++i)
    if (dims[i] != dims[i - 1] + 1) return false;
  return true;
}

// [indexed axes..., the others...]
Shape indexed_first(const Shape& dims, int64_t rank) {
  Shape order = dims;
  for (int64_t i = 0; i < rank; ++i)
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) order.push_back(i);
  return order;
}

int64_t product_of(const Shape& shape) { return numel(shape); }

}  // namespace

Region::Region(Htp& h, ValueId x, const Shape& places, int64_t dim) : h_(h), places_(places), parts_{x} {
  const Shape whole = h.shape(x);
  for (size_t i = 0; i < whole.size(); ++i)
    if (static_cast<int64_t>(i) != dim && places[i] != whole[i]) {
      parts_.push_back(h.slice(parts_.back(), static_cast<int64_t>(i), 0, places[i]));
      cut_.push_back(static_cast<int64_t>(i));
    }
}

ValueId Region::put_back(ValueId y) {
  for (size_t i = cut_.size(); i-- > 0;)
    y = h_.add(Op::slice_scatter, {parts_[i], y},
               {{"dim", Dim(cut_[i])},
                {"start", Dim(0)},
                {"end", Dim(places_[static_cast<size_t>(cut_[i])])},
                {"step", Dim(1)}});
  return y;
}

ValueId from_start(Htp& h, ValueId index, int64_t extent) {
  if (const Tensor* data = h.constant_data(index)) {
    if (all_nonnegative(*data)) return index;
    const Tensor plain = to_contiguous(*data);
    std::vector<int64_t> values;
    for (int64_t i = 0; i < plain.count(); ++i) {
      const int64_t v = element_integer(plain, i);
      values.push_back(v < 0 ? v + extent : v);
    }
    return h.to(h.ints(plain.shape, values), h.dtype(index));
  }
  if (refuses_negative(h.origin().target) || is_nonnegative(h.graph, index)) return index;
  const Term i(h, index);
  return where(i.apply(Op::lt, i.number(0)), i + static_cast<double>(extent), i);
}

ValueId joint_index(Htp& h, std::span<const ValueId> indices, std::span<const int64_t> extents,
                    const Shape& shape) {
  std::optional<Term> sum;
  int64_t stride = 1;
  for (size_t i = indices.size(); i-- > 0; stride *= extents[i]) {
    Term part(h, h.to(indices[i], DType::i64));
    if (stride != 1) part = part * static_cast<double>(stride);
    sum = sum ? *sum + part : part;
  }
  const Dims joint = to_dims(shape);
  return h.reshape(h.expand(*sum, joint), {numel(joint)});
}

Match gather(Htp& h) {
  if (is_narrow(h.dtype(h.in()))) return h.computed_in(DType::i32);
  const int64_t dim = h.attrs().integer("dim");
  const Shape x = h.shape(h.in()), index = h.shape(h.in(1));
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  const ValueId at = from_start(h, h.in(1), x.empty() ? 1 : x[static_cast<size_t>(dim)]);
  ValueId from = h.in();
  for (size_t i = 0; i < x.size(); ++i)
    if (static_cast<int64_t>(i) != dim && index[i] != x[i])
      from = h.slice(from, static_cast<int64_t>(i), 0, index[i]);
  if (static_cast<int64_t>(x.size()) > max_rank(h.dtype(h.in()))) {
    const ValueId y = h.add(
        Op::gather, {h.reshape(from, around(h.dims(from), dim)), h.reshape(at, around(h.dims(at), dim))},
        {{"dim", Dim(1)}});
    return h.result(h.reshape(y, h.out_type().dims));
  }
  if (at == h.in(1) && from == h.in()) return no_match("the device has it");
  return h.result(h.add(Op::gather, {from, at}, {{"dim", Dim(dim)}}));
}

Match index_select(Htp& h) {
  const int64_t dim = h.attrs().integer("dim");
  const Shape x = h.shape(h.in());
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  if (const auto p = progression(h.constant_data(h.in(1)))) {
    const int64_t n = h.shape(h.in(1))[0];
    return h.result(h.slice(h.in(), dim, p->first, p->first + (n - 1) * p->second + 1, p->second));
  }
  if (is_narrow(h.dtype(h.in()))) return h.computed_in(DType::i32);
  const ValueId at = from_start(h, h.in(1), x.empty() ? 1 : x[static_cast<size_t>(dim)]);
  if (static_cast<int64_t>(x.size()) > max_rank(h.dtype(h.in()))) {
    const ValueId y =
        h.add(Op::index_select, {h.reshape(h.in(), around(h.dims(h.in()), dim)), at}, {{"dim", Dim(1)}});
    return h.result(h.reshape(y, h.out_type().dims));
  }
  if (at == h.in(1)) return no_match("the device has it");
  return h.result(h.add(Op::index_select, {h.in(), at}, {{"dim", Dim(dim)}}));
}

Match embedding(Htp& h) {
  const ValueId weight = h.in(0);
  if (is_narrow(h.dtype(weight))) return h.computed_in(DType::i32);
  const Shape table = h.shape(weight), index = h.shape(h.in(1));
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  const ValueId at = from_start(h, h.in(1), table[0]);
  const bool wide = static_cast<int64_t>(table.size() - 1 + index.size()) > kMaxRank;
  if (!wide && at == h.in(1) && !index.empty()) return no_match("the device has it");
  const ValueId flat = h.reshape(at, {numel(h.dims(at))});
  return h.result(h.reshape(h.add(Op::embedding, {weight, flat}), h.out_type().dims));
}

// x[i, j, ...]  ->  a gather of rows by i * stride + j, of the indexed axes as one
Match index(Htp& h) {
  const Shape dims = h.attrs().ints("dims"), x = h.shape(h.in());
  Shape extents;
  const std::vector<ValueId> at = counted(h, 1, dims, extents);
  const Shape joint = joint_shape(h, at);
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  const ValueId flat = joint_index(h, at, extents, joint);
  ValueId from = h.in();
  Shape rows = x;
  auto axis = static_cast<size_t>(dims[0]);
  if (!are_adjacent(dims)) {
    const Shape order = indexed_first(dims, static_cast<int64_t>(x.size()));
    from = h.permute(from, order);
    for (size_t i = 0; i < x.size(); ++i) rows[i] = x[static_cast<size_t>(order[i])];
    axis = 0;
  }
  rows[axis] = product_of(extents);
  rows.erase(rows.begin() + static_cast<int64_t>(axis) + 1,
             rows.begin() + static_cast<int64_t>(axis + dims.size()));
  const ValueId y = h.add(Op::index_select, {h.reshape(from, to_dims(rows)), flat},
                          {{"dim", Dim(static_cast<int64_t>(axis))}});
  return h.result(h.reshape(y, h.out_type().dims));
}

// index_put(x, values, i, j, ...)  ->  the same of [rows, width] with one index. All axes up to the last that
// is indexed make the rows, those in between counted out; values are in that order already, so that nothing
// moves.
Match index_put(Htp& h) {
  if (is_narrow(h.dtype(h.in())) && h.dtype(h.in()) != DType::boolean) return h.computed_in(DType::i32);
  const Shape dims = h.attrs().ints("dims"), x = h.shape(h.in()), values = h.shape(h.in(1));
  Shape extents;
  const std::vector<ValueId> at = counted(h, 2, dims, extents);
  const Shape joint = joint_shape(h, at);
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  const bool simple = dims == Shape{0} && x.size() == 2 && joint.size() == 1 && at[0] == h.in(2) &&
                      values == Shape{joint[0], x[1]} && x[1] <= kMaxRow;
  if (simple) return no_match("the device has it");
  const Shape strides = contiguous_strides(x);
  const auto rank = static_cast<int64_t>(x.size());
  int64_t cut = dims.back() + 1;  // axes before it make the rows
  while (cut < rank && strides[static_cast<size_t>(cut - 1)] > kMaxRow) ++cut;
  const int64_t width = strides[static_cast<size_t>(cut - 1)];
  // The region that is written: the joint axes stand where the indexed ones stood, or in front.
  Shape region;
  int64_t joint_at = 0, lead = 0;
  std::vector<std::pair<int64_t, int64_t>> counted_out;  // place in the region, axis of x
  const auto first = are_adjacent(dims) ? dims[0] : 0;
  for (int64_t i = 0; i < rank; ++i) {
    if (i == first) {
      joint_at = static_cast<int64_t>(region.size());
      region.insert(region.end(), joint.begin(), joint.end());
    }
    if (std::find(dims.begin(), dims.end(), i) != dims.end()) continue;
    if (i < cut) counted_out.emplace_back(static_cast<int64_t>(region.size()), i);
    region.push_back(x[static_cast<size_t>(i)]);
  }
  lead = static_cast<int64_t>(region.size()) - (rank - cut);
  const Shape leading(region.begin(), region.begin() + lead);
  DType dtype = DType::i32;
  for (const ValueId v : at)
    if (h.dtype(v) == DType::i64) dtype = DType::i64;
  std::optional<Term> sum;
  for (size_t k = 0; k < at.size(); ++k) {
    // [joint...] with ones after it, up to the row's last axis.
    Shape shape = h.shape(at[k]);
    shape.insert(shape.end(), static_cast<size_t>(lead - joint_at) - joint.size(), 1);
    Term part = Term(h, h.to(at[k], dtype)).reshape(to_dims(shape));
    const int64_t stride = strides[static_cast<size_t>(dims[k])] / width;
    if (stride != 1) part = part * static_cast<double>(stride);
    sum = sum ? *sum + part : part;
  }
  std::vector<int64_t> fixed(static_cast<size_t>(numel(leading)), 0);
  const Shape places = contiguous_strides(leading);
  for (const auto& [place, axis] : counted_out)
    for (size_t i = 0; i < fixed.size(); ++i) {
      const auto p = static_cast<size_t>(place);
      fixed[i] +=
          static_cast<int64_t>(i) / places[p] % leading[p] * (strides[static_cast<size_t>(axis)] / width);
    }
  if (!counted_out.empty()) sum = *sum + Term(h, h.to(h.ints(leading, fixed), dtype));
  const int64_t count = numel(leading);
  const ValueId rows = h.reshape(h.expand(*sum, to_dims(leading)), {Dim(count)});
  const ValueId v = h.reshape(h.expand(h.in(1), to_dims(region)), to_dims({count, width}));
  const ValueId table = h.reshape(h.in(), to_dims({width == 0 ? 0 : numel(x) / width, width}));
  const ValueId y = h.add(Op::index_put, {table, v, rows},
                          {{"dims", to_dims({0})}, {"accumulate", h.attrs().flag("accumulate")}});
  return h.result(h.reshape(y, h.out_type().dims));
}

// slice_scatter(x, src)  ->  concat(x before, src, x after); with steps, the places of both in turn
Match slice_scatter(Htp& h) {
  const Attrs& a = h.attrs();
  const int64_t dim = a.integer("dim"), start = a.integer("start"), step = a.integer("step");
  const Shape x = h.shape(h.in()), src = h.shape(h.in(1));
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  const int64_t extent = x[static_cast<size_t>(dim)], count = src[static_cast<size_t>(dim)];
  if (count == 0) return h.result(h.in());
  if (step == 1 || count == 1) {
    std::vector<ValueId> parts;
    if (start > 0) parts.push_back(h.slice(h.in(), dim, 0, start));
    parts.push_back(h.in(1));
    if (start + count < extent) parts.push_back(h.slice(h.in(), dim, start + count, extent));
    return h.result(h.concat(std::move(parts), dim));
  }
  std::vector<int64_t> places;
  for (int64_t i = 0; i < extent; ++i) places.push_back(i);
  for (int64_t i = 0; i < count; ++i) places[static_cast<size_t>(start + i * step)] = extent + i;
  return h.result(h.index_select(h.concat({h.in(0), h.in(1)}, dim), dim, places));
}

Match scatter(Htp& h) {
  const int64_t dim = h.attrs().integer("dim");
  const Shape x = h.shape(h.in()), index = h.shape(h.in(1)), source = h.shape(h.in(2));
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  if (is_narrow(h.dtype(h.in()))) return h.computed_in(DType::i32);
  const ValueId at = from_start(h, h.in(1), x.empty() ? 1 : x[static_cast<size_t>(dim)]);
  ValueId src = h.in(2);
  for (size_t i = 0; i < index.size(); ++i)
    if (source[i] != index[i]) src = h.slice(src, static_cast<int64_t>(i), 0, index[i]);
  if (h.attrs().text("reduce") != "none") return scatter_compared(h, at, src);
  if (static_cast<int64_t>(x.size()) > 4) {  // ScatterElements takes four axes
    Region region(h, h.in(), index, dim);
    const auto merged = [&](ValueId v) { return h.reshape(v, around(h.dims(v), dim)); };
    const ValueId y = h.add(Op::scatter, {merged(region.part()), merged(at), merged(src)},
                            {{"dim", Dim(1)}, {"reduce", "none"}, {"include_self", true}});
    return h.result(region.put_back(h.reshape(y, h.dims(region.part()))));
  }
  if (at == h.in(1) && src == h.in(2)) return no_match("the device has it");
  return h.result(h.add(Op::scatter, {h.in(), at, src}, h.attrs()));
}

}  // namespace sixfold::htp
