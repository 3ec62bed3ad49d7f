#include "sixfold/cpu/quant_conv.h"

#include <algorithm>
#include <cstring>

namespace sixfold::cpu {
namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The activations as planes of bytes, in place or copied.
struct View {
  const uint8_t* data = nullptr;
  int64_t pixel = 0, group = 0;  // bytes from pixel to pixel, and between the channels of two groups
  int64_t high = 0;              // to the plane of high bytes
  const uint8_t* pad = nullptr;  // a pixel of zero points
};

// Copies pixels [begin, end) into planes, each group's channels padded to `group` bytes.
void split_pixels(const QuantWindow& w, const QuantInput& in, int64_t group, int64_t high, uint8_t* to,
                  int64_t begin, int64_t end) {
  const int64_t channels = w.inputs(), count = w.groups;
  const bool dense = group == channels;
  const int64_t runs = dense ? end - begin : (end - begin) * count;
  const int64_t run = dense ? channels * count : channels, step = dense ? group * count : group;
  const int64_t first = begin * (dense ? 1 : count);
  for (int64_t i = 0; i < runs; ++i) {
    uint8_t* low = to + (first + i) * step;
    if (in.wide) {
      const auto* x = reinterpret_cast<const uint16_t*>(in.data) + (first + i) * run;
      const uint16_t flip = in.flip ? 0x8000 : 0;
      for (int64_t c = 0; c < run; ++c) low[c] = static_cast<uint8_t>(x[c]);
      for (int64_t c = 0; c < run; ++c) low[high + c] = static_cast<uint8_t>((x[c] ^ flip) >> 8);
    } else {
      const auto* x = reinterpret_cast<const uint8_t*>(in.data) + (first + i) * run;
      const uint8_t flip = in.flip ? 0x80 : 0;
      for (int64_t c = 0; c < run; ++c) low[c] = x[c] ^ flip;
    }
  }
}

View view_of(const QuantWindow& w, const QuantLayout& l, const QuantInput& in, std::byte* scratch,
             Pool& pool) {
  auto* bytes = reinterpret_cast<uint8_t*>(scratch);
  View v;
  const bool padded = !l.depthwise && !l.gathered && w.inputs() % kQuantGroup != 0;
  v.group = padded ? round_up(w.inputs(), kQuantGroup) : w.inputs();
  v.pixel = w.groups * v.group;
  const int64_t pixels = w.batch * w.in_height * w.in_width;
  const bool copied = in.wide || in.flip || padded;
  const int64_t pad_at = copied ? pixels * v.pixel : 0;
  if (in.wide) v.high = round_up(pad_at + v.pixel + 64, 64);
  std::memset(bytes + pad_at, in.zero_point & 255, static_cast<size_t>(v.pixel));
  if (in.wide) std::memset(bytes + v.high + pad_at, (in.zero_point >> 8) & 255, static_cast<size_t>(v.pixel));
  v.pad = bytes + pad_at;
  v.data = copied ? bytes : reinterpret_cast<const uint8_t*>(in.data);
  if (!copied) return v;
  // The bytes that pad a group are multiplied by zeros; they need to be readable only.
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, v.pixel));
  pool.for_ranges(pixels, grain, [&](int64_t begin, int64_t end) {
    split_pixels(w, in, v.group, v.high, bytes, begin, end);
  });
  return v;
}

struct Row {
  int64_t batch, y, x;
};
Row row_at(const QuantWindow& w, int64_t row) {
  const int64_t x = row % w.out_width, rest = row / w.out_width;
  return {rest / w.out_height, rest % w.out_height, x};
}

const uint8_t* tap_of(const QuantWindow& w, const View& v, const Row& row, int64_t ky, int64_t kx) {
  const int64_t y = row.y * w.stride_y - w.pad_top + ky * w.dilation_y;
  const int64_t x = row.x * w.stride_x - w.pad_left + kx * w.dilation_x;
  if (y < 0 || y >= w.in_height || x < 0 || x >= w.in_width) return v.pad;
  return v.data + ((row.batch * w.in_height + y) * w.in_width + x) * v.pixel;
}

std::byte* place_of(const QuantResult& r, const Row& row) {
  return r.data + row.batch * r.step_batch + row.y * r.step_y + row.x * r.step_x;
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

constexpr int64_t kPointers = 4096;   // of the taps of some tiles, in a task's stack
constexpr int64_t kGathered = 16384;  // bytes of gathered rows there

// Rows [begin, end) of a group, blocks [first, last). At most `tiles` tiles of rows.
void product_rows(const Job& j, int64_t group, int64_t begin, int64_t end, int64_t first, int64_t last) {
  const int64_t most = j.v.high ? j.kernels.rows16 : j.kernels.rows;
  const int64_t wide = j.v.high ? j.kernels.blocks16 : j.kernels.blocks;
  const int64_t tiles = (end - begin + most - 1) / most;
  const uint8_t* pointers[kPointers];
  std::byte* results[kPointers / 8];
  alignas(64) uint8_t gathered[kGathered];
  const int64_t row_bytes = j.l.groups * kQuantGroup;  // of a gathered row
  uint8_t* next = gathered;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t tile = (row - begin) / most, r = (row - begin) % most;
    const Row at = row_at(j.w, row);
    results[row - begin] = place_of(j.result, at) + group * j.w.outputs() * j.element;
    const uint8_t** to = pointers + tile * j.l.segments * kQuantRows + r;
    const int64_t inputs = j.w.inputs();
    uint8_t* low = next;
    if (j.l.gathered) {
      *to = low;
      next += row_bytes * (j.v.high ? 2 : 1);
    }
    for (int64_t ky = 0; ky < j.w.height; ++ky) {
      for (int64_t kx = 0; kx < j.w.width; ++kx) {
        const uint8_t* tap = tap_of(j.w, j.v, at, ky, kx) + group * j.v.group;
        if (!j.l.gathered) {
          to[(ky * j.w.width + kx) * kQuantRows] = tap;
          continue;
        }
        for (int64_t c = 0; c < inputs; ++c) low[c] = tap[c];
        if (j.v.high)
          for (int64_t c = 0; c < inputs; ++c) low[row_bytes + c] = tap[j.v.high + c];
        low += inputs;
      }
    }
  }
  QuantTile t;
  t.segments = j.l.segments;
  t.groups = j.l.groups;
  t.high = j.v.high && j.l.gathered ? row_bytes : j.v.high;
  t.out = &j.out;
  for (int64_t block = first; block < last; block += wide) {
    const int64_t count = std::min(last - block, wide), index = group * j.l.blocks + block;
    t.weights = j.weights + index * j.l.block_bytes;
    t.channels = j.channels + index;
    t.count = std::min(count * kQuantBlock, j.w.outputs() - block * kQuantBlock);
    std::byte* places[kQuantRows];
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t rows = std::min(most, end - begin - tile * most);
      t.rows = pointers + tile * j.l.segments * kQuantRows;
      for (int64_t r = 0; r < rows; ++r)
        places[r] = results[tile * most + r] + block * kQuantBlock * j.element;
      t.results = places;
      j.kernels.product(t, rows);
    }
  }
}

void product(const Job& j, Pool& pool) {
  const int64_t most = j.v.high ? j.kernels.rows16 : j.kernels.rows;
  const int64_t wide = j.v.high ? j.kernels.blocks16 : j.kernels.blocks;
  // As many tiles of rows at once as their pointers have room for, up to where weights are read often enough.
  int64_t tiles = std::clamp<int64_t>(kPointers / (j.l.segments * kQuantRows), 1, 16);
  if (j.l.gathered)
    tiles = std::clamp<int64_t>(kGathered / (most * j.l.groups * kQuantGroup * (j.v.high ? 2 : 1)), 1, tiles);
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

void depthwise(const Job& j, Pool& pool) {
  const int64_t taps = j.l.groups * 4, rows = j.w.rows();
  const int64_t chunk = std::clamp<int64_t>(kPointers / taps, 1, 64);
  pool.for_ranges(rows, chunk, [&](int64_t begin, int64_t end) {
    const uint8_t* pointers[kPointers];
    std::byte* results[64];
    for (int64_t row = begin; row < end; ++row) {
      const Row at = row_at(j.w, row);
      const int64_t r = row - begin;
      results[r] = place_of(j.result, at);
      for (int64_t ky = 0; ky < j.w.height; ++ky)
        for (int64_t kx = 0; kx < j.w.width; ++kx)
          pointers[(ky * j.w.width + kx) * chunk + r] = tap_of(j.w, j.v, at, ky, kx);
      for (int64_t k = j.w.taps(); k < taps; ++k) pointers[k * chunk + r] = j.v.pad;
    }
    QuantTaps t;
    t.rows = pointers;
    t.row_step = chunk;
    t.row_count = end - begin;
    t.taps = taps;
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
  const View v = view_of(w, l, input, scratch, pool);
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
