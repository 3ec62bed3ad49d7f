// Gathers, scatters and TopK.
#include "sixfold/lower/lowering.h"

namespace sixfold::lower {
namespace {

uint32_t axis_of(const Lowering& l) { return static_cast<uint32_t>(l.attrs().integer("dim")); }

}  // namespace

void gather(Lowering& l) { l.add("GatherElements", {l.in(0), l.in(1)}, {l.out()}, {{"axis", axis_of(l)}}); }

void index_select(Lowering& l) {
  l.add("Gather", {l.in(0), l.in(1)}, {l.out()}, {{"axis", static_cast<int32_t>(axis_of(l))}});
}

// A table of one scale is read as it is stored, and what was read is brought to the result's scale. One with
// scales of its own for each row has them no more in the result: it is stored with the result's scale.
void embedding(Lowering& l) {
  const Param axis{"axis", int32_t{0}};
  const Encoding *table = l.encoding(0), *result = l.out_encoding();
  if (!l.quantized() || !table || !result || *table == *result) {
    l.add("Gather", {l.in(0), l.in(1)}, {l.out()}, {axis});
    return;
  }
  if (table->axis < 0) {
    const TensorRef stored = l.in(0);
    const TensorRef rows = l.temp(l.spec(l.out()).dims, stored);
    l.add("Gather", {stored, l.in(1)}, {rows}, {axis});
    l.add("Convert", {rows}, {l.out()});
    return;
  }
  const Tensor* data = l.constant(0);
  if (!data) return l.refuse("its table has several scales and is not constant");
  if (table->block > 0 || table->axis != 0) return l.refuse("its table has scales within a row");
  const Tensor plain = to_contiguous(*data);
  std::byte* bytes = nullptr;
  Tensor reals = Tensor::allocate(DType::f32, plain.shape, &bytes);
  auto* out = reinterpret_cast<float*>(bytes);
  const int64_t width = plain.shape[0] == 0 ? 0 : plain.count() / plain.shape[0];
  const bool integers = !is_float(plain.dtype);
  for (int64_t i = 0; i < plain.count(); ++i) {
    const auto row = static_cast<size_t>(i / width);
    const double v = element_real(plain, i);
    const int32_t zero = row < table->zero_points.size() ? table->zero_points[row] : 0;
    out[i] = static_cast<float>(integers ? (v - zero) * table->scales[row] : v);
  }
  l.add("Gather", {l.constant(std::move(reals), result), l.in(1)}, {l.out()}, {axis});
}

void scatter(Lowering& l) {
  l.add("ScatterElements", {l.in(0), l.in(1), l.in(2)}, {l.out()}, {{"axis", axis_of(l)}, {"reduction", 0u}});
}

// index_put of rows: x [rows, rest], values [count, rest], index [count]
void scatter_nd(Lowering& l) {
  const Shape x = l.shape(0), values = l.shape(1), index = l.shape(2);
  if (l.inputs() != 3 || x.size() != 2 || index.size() != 1 || values != Shape{index[0], x[1]})
    return l.refuse("it is not the assignment of rows");
  const TensorRef at = l.reshape(l.in(2), {static_cast<uint32_t>(index[0]), 1});
  l.add("ScatterNd", {l.in(0), at, l.in(1)}, {l.out()},
        {{"reduction", l.attrs().flag("accumulate") ? 1u : 0u}});
}

// The largest k of the last axis; sort was made of it.
void topk(Lowering& l) {
  const auto dim = static_cast<size_t>(l.attrs().integer("dim"));
  if (l.op() != Op::topk || dim + 1 != l.rank() || !l.attrs().flag("largest"))
    return l.refuse("the device sorts the last axis only, the largest first [htp.topk.1]");
  l.add("TopK", {l.in()}, {l.out(0), l.out(1)},
        {{"k", static_cast<uint32_t>(l.attrs().integer("k"))}, {"largest", true}});
}

}  // namespace sixfold::lower
