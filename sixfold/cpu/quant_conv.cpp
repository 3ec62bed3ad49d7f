#include "sixfold/cpu/quant_conv.h"

#include <algorithm>
#include <cstring>

#include "sixfold/cpu/quant_matrix.h"

namespace sixfold::cpu {
namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The activations as planes of bytes, in place or copied.
struct View {
  QuantCopy copy;
  const uint8_t* data = nullptr;
  const uint8_t* pad = nullptr;
  int64_t high = 0;  // to the plane of high bytes; 0: there is none
};

// n numbers into a plane, or two.
void split(const QuantInput& in, int64_t from, int64_t n, uint8_t* to, int64_t high) {
  if (in.wide) {
    split_bytes(reinterpret_cast<const uint16_t*>(in.data) + from, n, in.flip, to, to + high);
  } else {
    const auto* x = reinterpret_cast<const uint8_t*>(in.data) + from;
    const uint8_t flip = in.flip ? 0x80 : 0;
    for (int64_t i = 0; i < n; ++i) to[i] = x[i] ^ flip;
  }
}

void fill_zero_points(const QuantInput& in, int64_t n, uint8_t* to, int64_t high) {
  std::memset(to, in.zero_point & 255, static_cast<size_t>(n));
  if (in.wide) std::memset(to + high, (in.zero_point >> 8) & 255, static_cast<size_t>(n));
}

View view_of(const QuantWindow& w, const QuantInput& in, std::byte* scratch, Pool& pool) {
  auto* bytes = reinterpret_cast<uint8_t*>(scratch);
  View v{quant_copy(w, in)};
  const QuantCopy& c = v.copy;
  v.high = in.wide ? c.plane : 0;
  v.pad = bytes + c.pad_at;
  v.data = c.copied ? bytes : reinterpret_cast<const uint8_t*>(in.data);
  fill_zero_points(in, c.plane - c.pad_at - 64, bytes + c.pad_at, v.high);
  if (!c.copied) return v;
  const int64_t rows = w.batch * w.in_height, numbers = w.in_width * w.in_channels;
  pool.for_ranges(rows, std::max<int64_t>(1, 65536 / (c.width * c.pixel + 1)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) {
                      uint8_t* to = bytes + row * c.width * c.pixel;
                      if (c.group == w.inputs()) {
                        fill_zero_points(in, c.left * c.pixel, to, v.high);
                        split(in, row * numbers, numbers, to + c.left * c.pixel, v.high);
                        const int64_t used = (c.left + w.in_width) * c.pixel;
                        fill_zero_points(in, c.width * c.pixel - used, to + used, v.high);
                      } else {  // the bytes between groups are multiplied by zeros
                        for (int64_t i = 0; i < w.in_width * w.groups; ++i)
                          split(in, row * numbers + i * w.inputs(), w.inputs(), to + i * c.group, v.high);
                      }
                    }
                  });
  return v;
}

struct Job {
  const QuantWindow& w;
  const QuantLayout& l;
  const View& v;
  const QuantOutput& out;
  const QuantResult& result;
  const QuantKernels& kernels;
  const int8_t* weights;
  const QuantChannels* channels;
  int64_t element;  // bytes of a result
};

// Where the taps of rows [begin, end) are and where their results go. Tap k of row begin + i is put at
// pointers[slots[i] + k * tap_step].
void point_at_taps(const Job& j, int64_t begin, int64_t end, const int32_t* slots, int64_t tap_step,
                   const uint8_t** pointers, std::byte** results) {
  const QuantWindow& w = j.w;
  const QuantCopy& c = j.v.copy;
  const int64_t columns = j.l.joined ? 1 : w.width;
  for (int64_t row = begin; row < end;) {
    const int64_t x0 = row % w.out_width, y = row / w.out_width % w.out_height;
    const int64_t batch = row / w.out_width / w.out_height;
    const int64_t n = std::min(end - row, w.out_width - x0);  // in one row of the output
    const int32_t* slot = slots + (row - begin);
    std::byte* to = j.result.data + batch * j.result.step_batch + y * j.result.step_y + x0 * j.result.step_x;
    for (int64_t i = 0; i < n; ++i, to += j.result.step_x) results[row - begin + i] = to;
    for (int64_t ky = 0; ky < w.height; ++ky) {
      const int64_t iy = y * w.stride_y - w.pad_top + ky * w.dilation_y;
      const bool inside = iy >= 0 && iy < w.in_height;
      const uint8_t* base = inside ? j.v.data + (batch * w.in_height + iy) * c.width * c.pixel : j.v.pad;
      for (int64_t kx = 0; kx < columns; ++kx) {
        const uint8_t** p = pointers + (ky * columns + kx) * tap_step;
        const int64_t ix = x0 * w.stride_x - w.pad_left + kx * w.dilation_x + c.left;
        // Steps i at which ix + i * stride lies within the row.
        int64_t first = 0, last = n;
        if (!j.l.joined) {
          first = ix < 0 ? std::min(n, (-ix + w.stride_x - 1) / w.stride_x) : 0;
          last = ix >= c.width ? first : std::clamp((c.width - 1 - ix) / w.stride_x + 1, first, n);
          if (!inside) first = last = n;
        }
        for (int64_t i = 0; i < first; ++i) p[slot[i]] = j.v.pad;
        for (int64_t i = first; i < last; ++i) p[slot[i]] = base + (ix + i * w.stride_x) * c.pixel;
        for (int64_t i = last; i < n; ++i) p[slot[i]] = j.v.pad;
      }
    }
    row += n;
  }
}

constexpr int64_t kPointers = 4096;  // of the taps of some tiles, in a task's stack
constexpr int64_t kMostTiles = 16;

// Rows [begin, end) of a group, blocks [first, last).
void product_rows(const Job& j, int64_t group, int64_t begin, int64_t end, int64_t first, int64_t last) {
  const int64_t most = j.v.high ? j.kernels.rows16 : j.kernels.rows;
  const int64_t wide = j.v.high ? j.kernels.blocks16 : j.kernels.blocks;
  const int64_t tile_pointers = j.l.segments * kQuantRows;
  const uint8_t* pointers[kPointers];
  std::byte* results[kMostTiles * kQuantRows];
  int32_t slots[kMostTiles * kQuantRows] = {};
  for (int64_t i = 0; i < end - begin; ++i)
    slots[i] = static_cast<int32_t>(i / most * tile_pointers + i % most);
  point_at_taps(j, begin, end, slots, kQuantRows, pointers, results);
  const int64_t tiles = (end - begin + most - 1) / most;
  if (group > 0)
    for (int64_t i = 0; i < end - begin; ++i)
      for (int64_t s = 0; s < j.l.segments; ++s)
        pointers[slots[i] + s * kQuantRows] += group * j.v.copy.group;
  QuantTile t;
  t.segments = j.l.segments;
  t.groups = j.l.groups;
  t.high = j.v.high;
  t.out = &j.out;
  for (int64_t block = first; block < last; block += wide) {
    const int64_t count = std::min(last - block, wide), index = group * j.l.blocks + block;
    t.weights = j.weights + index * j.l.block_bytes;
    t.channels = j.channels + index;
    t.count = std::min(count * kQuantBlock, j.w.outputs() - block * kQuantBlock);
    const int64_t channel = group * j.w.outputs() + block * kQuantBlock;
    std::byte* places[kQuantRows];
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t rows = std::min(most, end - begin - tile * most);
      t.rows = pointers + tile * tile_pointers;
      for (int64_t r = 0; r < rows; ++r) places[r] = results[tile * most + r] + channel * j.element;
      t.results = places;
      j.kernels.product(t, rows);
    }
  }
}

void product(const Job& j, Pool& pool) {
  const int64_t most = j.v.high ? j.kernels.rows16 : j.kernels.rows;
  const int64_t wide = j.v.high ? j.kernels.blocks16 : j.kernels.blocks;
  // As many tiles of rows at once as their pointers have room for, up to where weights are read often enough.
  const int64_t tiles = std::clamp<int64_t>(kPointers / (j.l.segments * kQuantRows), 1, kMostTiles);
  const int64_t rows = j.w.rows(), chunk = tiles * most, chunks = (rows + chunk - 1) / chunk;
  // Few rows: tasks over channels as well.
  int64_t part = round_up(j.l.blocks, wide);
  while (chunks * j.w.groups * ((j.l.blocks + part - 1) / part) < 8 && part > wide)
    part = round_up(part / 2, wide);
  const int64_t parts = (j.l.blocks + part - 1) / part;
  pool.for_each(static_cast<size_t>(chunks * j.w.groups * parts), [&](size_t task) {
    const auto i = static_cast<int64_t>(task);
    const int64_t p = i % parts, group = i / parts % j.w.groups, begin = i / parts / j.w.groups * chunk;
    product_rows(j, group, begin, std::min(begin + chunk, rows), p * part,
                 std::min((p + 1) * part, j.l.blocks));
  });
}

constexpr int64_t kDepthwiseRows = 128;

void depthwise(const Job& j, Pool& pool) {
  const int64_t taps = j.l.groups * 4, rows = j.w.rows();
  const int64_t chunk = std::clamp<int64_t>(kPointers / taps, 1, kDepthwiseRows);
  pool.for_ranges(rows, chunk, [&](int64_t begin, int64_t end) {
    const uint8_t* pointers[kPointers];
    std::byte* results[kDepthwiseRows];
    int32_t slots[kDepthwiseRows] = {};
    for (int64_t i = 0; i < end - begin; ++i) slots[i] = static_cast<int32_t>(i);
    point_at_taps(j, begin, end, slots, chunk, pointers, results);
    for (int64_t k = j.w.taps(); k < taps; ++k)
      for (int64_t i = 0; i < end - begin; ++i) pointers[k * chunk + i] = j.v.pad;
    QuantTaps t;
    t.rows = pointers;
    t.row_step = chunk;
    t.row_count = end - begin;
    t.taps = taps;
    if (j.w.dilation_x == 1 && j.w.stride_x <= j.w.width) {
      t.height = j.w.height, t.width = j.w.width, t.stride = j.w.stride_x;
      t.first_run = j.w.out_width - begin % j.w.out_width, t.run = j.w.out_width;
    }
    t.high = j.v.high;
    t.weights = j.weights;
    t.channels = j.channels;
    t.out = &j.out;
    t.results = results;
    t.count = j.w.out_channels;
    j.kernels.depthwise(t);
  });
}

}  // namespace

bool quant_fits(const QuantWindow& w) {
  const QuantLayout l = quant_layout(w);
  return (l.depthwise ? l.groups * 4 : l.segments * kQuantRows) <= kPointers;
}

void run_quant(const QuantWindow& w, const std::byte* packed, const QuantInput& input,
               const QuantOutput& output, const QuantResult& result, std::byte* scratch, Pool& pool,
               const QuantKernels& kernels) {
  const QuantLayout l = quant_layout(w);
  const View v = view_of(w, input, scratch, pool);
  const Job job{w,
                l,
                v,
                output,
                result,
                kernels,
                reinterpret_cast<const int8_t*>(packed),
                reinterpret_cast<const QuantChannels*>(packed + l.weight_bytes),
                output.rounding == Rounding::none ? 4
                : output.wide                     ? 2
                                                  : 1};
  l.depthwise ? depthwise(job, pool) : product(job, pool);
}

}  // namespace sixfold::cpu
