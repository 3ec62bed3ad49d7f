#include "sixfold/cpu/copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "sixfold/base/small_sort.h"

namespace sixfold::cpu {
namespace {

constexpr int64_t kTaskBytes = 64 << 10;  // a task that moves less is not worth a thread
constexpr int64_t kTile = 16;             // a transpose goes by square tiles, so that both sides stay in L1

struct Bytes16 {
  uint64_t a, b;
};

// Calls f(T{}) with a type of that many bytes.
template <typename F>
void with_width(size_t width, const F& f) {
  switch (width) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(Bytes16{});
  }
}

template <typename T>
T load(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
template <typename T>
void store(std::byte* p, const T& value) {
  std::memcpy(p, &value, sizeof value);
}

// Vectors of the compiler, not of Highway: 128 bits are in every target's baseline, and no dispatch is
// needed.
typedef uint32_t Lanes4 __attribute__((vector_size(16)));
void transpose_4x4(const std::byte* src, int64_t src_row, std::byte* dst, int64_t dst_row) {
  const auto a = load<Lanes4>(src), b = load<Lanes4>(src + src_row);
  const auto c = load<Lanes4>(src + 2 * src_row), d = load<Lanes4>(src + 3 * src_row);
  const Lanes4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
               ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Lanes4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
               cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(dst, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  store(dst + dst_row, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  store(dst + 2 * dst_row, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  store(dst + 3 * dst_row, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

// dst[c][r] = src[r][c]: src rows are contiguous, dst rows are contiguous.
template <typename T>
void transpose_tile(const std::byte* src, int64_t src_row, std::byte* dst, int64_t dst_row, int64_t rows,
                    int64_t columns) {
  constexpr int64_t kWidth = sizeof(T);
  int64_t r = 0;
  if constexpr (sizeof(T) == 4) {
    for (; r + 4 <= rows; r += 4) {
      int64_t c = 0;
      for (; c + 4 <= columns; c += 4)
        transpose_4x4(src + r * src_row + c * kWidth, src_row, dst + c * dst_row + r * kWidth, dst_row);
      for (; c < columns; ++c)
        for (int64_t i = r; i < r + 4; ++i)
          store(dst + c * dst_row + i * kWidth, load<T>(src + i * src_row + c * kWidth));
    }
  }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t i = r; i < rows; ++i)
      store(dst + c * dst_row + i * kWidth, load<T>(src + i * src_row + c * kWidth));
}

}  // namespace

void transpose(const float* in, int64_t in_step, int64_t rows, int64_t columns, float* out,
               int64_t out_step) {
  constexpr auto kWidth = static_cast<int64_t>(sizeof(float));
  for (int64_t r = 0; r < rows; r += kTile)
    for (int64_t c = 0; c < columns; c += kTile)
      transpose_tile<uint32_t>(reinterpret_cast<const std::byte*>(in + r * in_step + c), in_step * kWidth,
                               reinterpret_cast<std::byte*>(out + c * out_step + r), out_step * kWidth,
                               std::min(kTile, rows - r), std::min(kTile, columns - c));
}

Result<StridedCopy> StridedCopy::make(size_t element_size, const Shape& shape, const Shape& src_strides,
                                      const Shape& dst_strides, int64_t src_offset, int64_t dst_offset) {
  const auto size = static_cast<int64_t>(element_size);
  StridedCopy out;
  out.width_ = element_size;
  out.src_offset_ = src_offset * size;
  out.dst_offset_ = dst_offset * size;
  std::vector<Axis> axes;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1) axes.push_back({shape[i], src_strides[i] * size, dst_strides[i] * size});
  // Writing in order of memory; axes that follow each other on both sides are one.
  sort_short(axes, [](const Axis& a, const Axis& b) { return a.dst > b.dst; });
  for (const Axis& axis : axes) {
    if (!out.outer_.empty()) {
      Axis& last = out.outer_.back();
      if (last.src == axis.src * axis.size && last.dst == axis.dst * axis.size) {
        last = {last.size * axis.size, axis.src, axis.dst};
        continue;
      }
    }
    out.outer_.push_back(axis);
  }
  if (out.outer_.size() > kMaxAxes)
    return unsupported("moving data along ", out.outer_.size(), " separate axes; at most ", kMaxAxes);
  out.choose_inner();
  return out;
}

void StridedCopy::choose_inner() {
  const auto is_row = [&](const Axis& a) {
    const auto width = static_cast<int64_t>(width_);
    return a.src == width && a.dst == width;
  };
  // A short contiguous row moves as one wide element.
  while (!outer_.empty() && is_row(outer_.back())) {
    const auto bytes = static_cast<size_t>(outer_.back().size) * width_;
    if (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16) break;
    width_ = bytes;
    outer_.pop_back();
  }
  const auto width = static_cast<int64_t>(width_);
  int64_t inner_bytes = width;
  if (!outer_.empty()) {
    along_ = outer_.back();
    outer_.pop_back();
    inner_ = is_row(along_)                           ? Inner::rows
             : along_.src == 0 && along_.dst == width ? Inner::fill
                                                      : Inner::strided;
    if (inner_ == Inner::strided && along_.dst == width) {
      const auto it =
          std::find_if(outer_.begin(), outer_.end(), [&](const Axis& a) { return a.src == width; });
      if (it != outer_.end() && it->size >= 4 && along_.size >= 2) {
        inner_ = Inner::transpose;
        across_ = *it;
        outer_.erase(it);
        split_across();
      }
    }
    // Split a long inner axis; a transpose in whole tiles.
    const int64_t step_bytes = width * across_.size;
    chunk_ = std::max<int64_t>((kTaskBytes + step_bytes - 1) / std::max<int64_t>(step_bytes, 1), 1);
    if (inner_ == Inner::transpose) chunk_ = (chunk_ + kTile - 1) / kTile * kTile;
    chunk_ = std::clamp<int64_t>(along_.size, 1, chunk_);
    chunks_ = (along_.size + chunk_ - 1) / chunk_;
    inner_bytes = chunk_ * step_bytes;
  }
  for (const Axis& a : outer_) outer_count_ *= a.size;
  if (across_.size == 0) outer_count_ = 0;
  grain_ = std::max<int64_t>(kTaskBytes / std::max<int64_t>(inner_bytes, 1), 1);
}

// Few long rows, as of an image's colors: tasks over parts of them.
void StridedCopy::split_across() {
  const auto width = static_cast<int64_t>(width_);
  for (int64_t parts = 2; parts <= 64 && across_.size * along_.size * width > kTaskBytes; ++parts) {
    const int64_t part = across_.size / parts;
    if (across_.size % parts != 0 || part * along_.size * width > kTaskBytes || part < 4 * kTile) continue;
    outer_.push_back({parts, across_.src * part, across_.dst * part});
    across_.size = part;
  }
}

void StridedCopy::run(Pool& pool, const void* src, void* dst) const {
  const auto* from = static_cast<const std::byte*>(src) + src_offset_;
  auto* to = static_cast<std::byte*>(dst) + dst_offset_;
  pool.for_ranges(outer_count_ * chunks_, grain_,
                  [&](int64_t begin, int64_t end) { run_items(from, to, begin, end); });
}

void StridedCopy::run_items(const std::byte* src, std::byte* dst, int64_t begin, int64_t end) const {
  std::array<int64_t, kMaxAxes> at{};
  int64_t rest = begin / chunks_, chunk = begin % chunks_;
  for (size_t i = outer_.size(); i-- > 0;) {
    at[i] = rest % outer_[i].size;
    rest /= outer_[i].size;
    src += at[i] * outer_[i].src;
    dst += at[i] * outer_[i].dst;
  }
  for (int64_t item = begin; item < end; ++item) {
    const int64_t first = chunk * chunk_;
    run_inner(src, dst, first, std::min(first + chunk_, along_.size));
    if (++chunk < chunks_) continue;
    chunk = 0;
    for (size_t i = outer_.size(); i-- > 0;) {
      src += outer_[i].src;
      dst += outer_[i].dst;
      if (++at[i] < outer_[i].size) break;
      src -= outer_[i].src * at[i];
      dst -= outer_[i].dst * at[i];
      at[i] = 0;
    }
  }
}

void StridedCopy::run_inner(const std::byte* src, std::byte* dst, int64_t begin, int64_t end) const {
  const auto width = static_cast<int64_t>(width_);
  src += begin * along_.src;
  dst += begin * along_.dst;
  const int64_t n = end - begin;
  switch (inner_) {
    case Inner::none:
      return with_width(width_, [&](auto tag) { store(dst, load<decltype(tag)>(src)); });
    case Inner::rows:
      std::memcpy(dst, src, static_cast<size_t>(n * width));
      return;
    case Inner::fill:
      return with_width(width_, [&](auto tag) {
        using T = decltype(tag);
        const T value = load<T>(src);
        for (int64_t i = 0; i < n; ++i) store(dst + i * static_cast<int64_t>(sizeof(T)), value);
      });
    case Inner::strided:
      return with_width(width_, [&](auto tag) {
        using T = decltype(tag);
        for (int64_t i = 0; i < n; ++i) store(dst + i * along_.dst, load<T>(src + i * along_.src));
      });
    case Inner::transpose:
      // Source rows are along_ apart and contiguous along across_; destination rows the other way round.
      return with_width(width_, [&](auto tag) {
        using T = decltype(tag);
        for (int64_t r = 0; r < n; r += kTile) {
          const int64_t rows = std::min(kTile, n - r);
          for (int64_t c = 0; c < across_.size; c += kTile)
            transpose_tile<T>(src + r * along_.src + c * across_.src, along_.src,
                              dst + r * along_.dst + c * across_.dst, across_.dst, rows,
                              std::min(kTile, across_.size - c));
        }
      });
  }
}

void copy_bytes(Pool& pool, const void* src, void* dst, size_t n) {
  if (src == dst) return;
  pool.for_ranges(static_cast<int64_t>(n), 4 * kTaskBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(dst) + begin, static_cast<const std::byte*>(src) + begin,
                static_cast<size_t>(end - begin));
  });
}

Shape memory_order(const Shape& shape, const Shape& strides) {
  Shape order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  sort_short(order, [&](int64_t a, int64_t b) {
    return strides[static_cast<size_t>(a)] > strides[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace sixfold::cpu
