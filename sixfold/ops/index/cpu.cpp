// index, index_select, embedding: rows of x at the positions that indices name; index_put writes them.
// slice_scatter.
//
// x is seen as x[rest][position][inner]: `inner` are the axes behind the last indexed one, one contiguous
// run; `rest` the other axes that are not indexed. Indexed axes that are adjacent leave the result as
// [rest][n][inner], others as [n][rest][inner], as in torch.
#include <algorithm>
#include <cstring>

#include "sixfold/cpu/copy.h"
#include "sixfold/ops/index/positions.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kTaskBytes = 32 << 10;

struct Rows {
  Positions positions;
  std::vector<int64_t> rest;  // offsets in x, in elements
  int64_t inner = 1;          // elements of a row
  bool rest_first = true;

  // Where in the result row (r, n) stands, counted in rows.
  int64_t row(int64_t r, int64_t n) const {
    return rest_first ? r * positions.count() + n : n * static_cast<int64_t>(rest.size()) + r;
  }
};

Result<Rows> make_rows(const TensorDesc& x, const Shape& dims, std::span<const TensorDesc> indices) {
  std::vector<Positions::Index> list;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<size_t>(dims[i]);
    list.push_back({indices[i], x.shape[d], x.strides[d]});
  }
  SF_ASSIGN(Positions positions, Positions::make(list));
  Rows rows{
      std::move(positions), {0}, 1, dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size())};
  for (size_t d = static_cast<size_t>(dims.back()) + 1; d < x.rank(); ++d) rows.inner *= x.shape[d];
  for (size_t d = 0; d < static_cast<size_t>(dims.back()); ++d) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end()) continue;
    std::vector<int64_t> next;
    for (const int64_t base : rows.rest)
      for (int64_t i = 0; i < x.shape[d]; ++i) next.push_back(base + i * x.strides[d]);
    rows.rest = std::move(next);
  }
  return rows;
}

// Copies rows of `bytes`; short ones by a fixed size, which the compiler turns into one move.
inline void copy_row(std::byte* dst, const std::byte* src, int64_t bytes) {
  switch (bytes) {
    case 1:
      *dst = *src;
      return;
    case 2:
      std::memcpy(dst, src, 2);
      return;
    case 4:
      std::memcpy(dst, src, 4);
      return;
    case 8:
      std::memcpy(dst, src, 8);
      return;
    default:
      std::memcpy(dst, src, static_cast<size_t>(bytes));
  }
}

KernelResult take_rows(const KernelCall& call, const Shape& dims) {
  const TensorDesc& x = call.in[0];
  SF_ASSIGN(Rows rows, make_rows(x, dims, call.in.subspan(1)));
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  const size_t scratch = rows.positions.scratch_bytes();
  return make_kernel(
      [rows = std::move(rows), size](const Buffers& b) -> Status {
        auto* at = reinterpret_cast<int64_t*>(b.scratch);
        SF_TRY(rows.positions.read(b.in.data() + 1, at));
        const auto* x = b.input<std::byte>(0);
        auto* out = b.output<std::byte>();
        const int64_t bytes = rows.inner * size, n = rows.positions.count(),
                      rest = static_cast<int64_t>(rows.rest.size());
        const int64_t total = n * rest, minor = rows.rest_first ? n : rest;
        b.pool.for_ranges(bytes == 0 ? 0 : total, kTaskBytes / std::max<int64_t>(bytes, 1),
                          [&](int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) {
                              const int64_t major = i / minor, m = i % minor;
                              const int64_t from =
                                  at[rows.rest_first ? m : major] +
                                  rows.rest[static_cast<size_t>(rows.rest_first ? major : m)];
                              copy_row(out + i * bytes, x + from * size, bytes);
                            }
                          });
        return ok_status();
      },
      {.scratch_bytes = scratch});
}

template <typename T>
void add_row(std::byte* dst, const std::byte* src, int64_t n) {
  auto* to = reinterpret_cast<T*>(dst);
  const auto* from = reinterpret_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, bool>)
      to[i] = to[i] || from[i];
    else
      to[i] = static_cast<T>(to[i] + from[i]);  // halves round after each addition, as torch's do
  }
}

}  // namespace

KernelResult index(const KernelCall& call) { return take_rows(call, call.attrs.ints("dims")); }
KernelResult index_select(const KernelCall& call) { return take_rows(call, {call.attrs.integer("dim")}); }
KernelResult embedding(const KernelCall& call) { return take_rows(call, {0}); }

KernelResult index_put(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &values = call.in[1];
  const Shape dims = call.attrs.ints("dims");
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  SF_ASSIGN(Rows rows, make_rows(x, dims, call.in.subspan(2)));

  // Values of another shape than the region are spread out in scratch first.
  Shape joint, region;
  for (const TensorDesc& i : call.in.subspan(2)) {
    if (i.rank() > joint.size()) joint.insert(joint.begin(), i.rank() - joint.size(), 1);
    for (size_t d = 0; d < i.rank(); ++d)
      if (i.shape[d] != 1) joint[joint.size() - i.rank() + d] = i.shape[d];
  }
  if (!rows.rest_first) region = joint;
  for (size_t d = 0; d < x.rank(); ++d) {
    if (rows.rest_first && static_cast<int64_t>(d) == dims[0])
      region.insert(region.end(), joint.begin(), joint.end());
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end())
      region.push_back(x.shape[d]);
  }
  Shape strides(region.size(), 0);
  for (size_t d = 0; d < values.rank(); ++d)
    if (values.shape[d] != 1) strides[region.size() - values.rank() + d] = values.strides[d];
  SF_ASSIGN(const StridedCopy spread,
            StridedCopy::make(size_of(x.dtype), region, strides, contiguous_strides(region)));
  const bool whole = values.count() == numel(region);
  const size_t index_bytes = (rows.positions.scratch_bytes() + 63) / 64 * 64;
  const size_t value_bytes = whole ? 0 : static_cast<size_t>(numel(region) * size);

  using AddRow = void (*)(std::byte*, const std::byte*, int64_t);
  AddRow add = nullptr;
  if (call.attrs.flag("accumulate")) {
    add = with_type(x.dtype, [](auto tag) -> AddRow { return add_row<decltype(tag)>; });
  }
  const size_t x_bytes = x.size_bytes();
  return make_kernel(
      [=, rows = std::move(rows)](const Buffers& b) -> Status {
        auto* at = reinterpret_cast<int64_t*>(b.scratch);
        SF_TRY(rows.positions.read(b.in.data() + 2, at));
        const auto* from = b.input<std::byte>(1);
        if (!whole) {
          spread.run(b.pool, from, b.scratch + index_bytes);
          from = b.scratch + index_bytes;
        }
        copy_bytes(b.pool, b.in[0], b.out[0], x_bytes);
        auto* out = b.output<std::byte>();
        const int64_t bytes = rows.inner * size, n = rows.positions.count();
        if (bytes == 0) return ok_status();
        // Of equal positions the last one stays, so n runs in order; only what cannot meet runs in parallel.
        const int64_t grain = kTaskBytes / std::max<int64_t>(bytes * n, 1);
        b.pool.for_ranges(static_cast<int64_t>(rows.rest.size()), grain, [&](int64_t begin, int64_t end) {
          for (int64_t r = begin; r < end; ++r) {
            for (int64_t i = 0; i < n; ++i) {
              std::byte* to = out + (at[i] + rows.rest[static_cast<size_t>(r)]) * size;
              const std::byte* row = from + rows.row(r, i) * bytes;
              if (add)
                add(to, row, rows.inner);
              else
                copy_row(to, row, bytes);
            }
          }
        });
        return ok_status();
      },
      {.scratch_bytes = index_bytes + value_bytes, .in_place = true});
}

KernelResult slice_scatter(const KernelCall& call) {
  const TensorDesc &x = call.in[0], &src = call.in[1], &y = call.out[0];
  const auto axis = static_cast<size_t>(call.attrs.integer("dim"));
  Shape dst = y.strides;
  dst[axis] *= call.attrs.integer("step");
  SF_ASSIGN(const StridedCopy copy, StridedCopy::make(size_of(x.dtype), src.shape, src.strides, dst, 0,
                                                      call.attrs.integer("start") * y.strides[axis]));
  const size_t bytes = x.size_bytes();
  return make_kernel(
      [=](const Buffers& b) {
        copy_bytes(b.pool, b.in[0], b.out[0], bytes);
        copy.run(b.pool, b.in[1], b.out[0]);
        return ok_status();
      },
      {.in_place = true});
}

}  // namespace sixfold::cpu
