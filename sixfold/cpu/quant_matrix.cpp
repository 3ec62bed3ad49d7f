#include "sixfold/cpu/quant_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sixfold/cpu/quant_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/cpu/quant_matrix.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kBlock = kQuantBlock, kGroup = kQuantGroup;

// Numbers of four rows and a block's columns, without their zero point; 0 beyond the matrix.
template <typename T>
inline void load_cell(const QuantMatrix& m, int64_t first, int64_t k, int32_t (&v)[kGroup][kBlock]) {
  const auto* data = static_cast<const T*>(m.data);
  const int32_t offset = m.offset;
  const int64_t columns = m.columns - first, rows = m.inner - k;
  if (columns >= kBlock && rows >= kGroup) {
    if (m.transposed) {
      for (int c = 0; c < kBlock; ++c) {
        const T* from = data + (first + c) * m.inner + k;
        for (int j = 0; j < kGroup; ++j) v[j][c] = from[j] + offset;
      }
    } else {
      for (int j = 0; j < kGroup; ++j) {
        const T* from = data + (k + j) * m.columns + first;
        for (int c = 0; c < kBlock; ++c) v[j][c] = from[c] + offset;
      }
    }
    return;
  }
  for (int j = 0; j < kGroup; ++j)
    for (int c = 0; c < kBlock; ++c) {
      const int64_t at = m.transposed ? (first + c) * m.inner + k + j : (k + j) * m.columns + first + c;
      v[j][c] = c < columns && j < rows ? data[at] + offset : 0;
    }
}

inline void store_cell(const int32_t (&v)[kGroup][kBlock], int8_t* to) {
  uint32_t words[kBlock];
  for (int c = 0; c < kBlock; ++c)
    words[c] = (static_cast<uint32_t>(v[0][c]) & 255) | (static_cast<uint32_t>(v[1][c]) & 255) << 8 |
               (static_cast<uint32_t>(v[2][c]) & 255) << 16 | static_cast<uint32_t>(v[3][c]) << 24;
  std::memcpy(to, words, sizeof words);
}

struct Bytes {  // what goes into QuantChannels
  int32_t sum[kBlock] = {}, lowest[kBlock] = {};
  void add(const int32_t (&v)[kGroup][kBlock]) {
    for (int j = 0; j < kGroup; ++j)
      for (int c = 0; c < kBlock; ++c) {
        sum[c] += v[j][c];
        lowest[c] = std::min(lowest[c], v[j][c]);
      }
  }
  void put(QuantChannels& channels) const {
    for (int c = 0; c < kBlock; ++c) {
      channels.sum[c] = sum[c];
      if (lowest[c] == -128) channels.flags[kHasLowest] = 1;
    }
  }
};

template <typename T>
PackedColumns pack_block(const QuantMatrix& m, int64_t block, int8_t* high, int8_t* low,
                         QuantChannels& channels, QuantChannels& low_channels) {
  const int64_t first = block * kBlock;
  int32_t v[kGroup][kBlock];
  PackedColumns out;
  Bytes bytes, low_bytes;
  if constexpr (sizeof(T) == 2) {
    for (int64_t k = 0; k < m.inner; k += kGroup) {
      load_cell<T>(m, first, k, v);
      int32_t rest[kGroup][kBlock];
      for (int j = 0; j < kGroup; ++j)
        for (int c = 0; c < kBlock; ++c) {
          const int32_t x = std::min(std::max(v[j][c], -32768), kLargestPair);
          const int32_t top = (x + 128) >> 8;
          v[j][c] = top;
          rest[j][c] = x - 256 * top;
        }
      bytes.add(v);
      low_bytes.add(rest);
      store_cell(v, high + k * kBlock);
      store_cell(rest, low + k * kBlock);
    }
    low_bytes.put(low_channels);
    bytes.put(channels);
    for (int c = 0; c < kBlock; ++c) out.sum[c] = int64_t{bytes.sum[c]} * 256 + low_bytes.sum[c];
    return out;
  } else {
    int32_t least[kBlock] = {}, most[kBlock] = {};
    for (int64_t k = 0; k < m.inner; k += kGroup) {
      load_cell<T>(m, first, k, v);
      for (int j = 0; j < kGroup; ++j)
        for (int c = 0; c < kBlock; ++c) {
          least[c] = std::min(least[c], v[j][c]);
          most[c] = std::max(most[c], v[j][c]);
        }
    }
    bool scaled = false;
    int32_t reciprocal[kBlock];
    for (int c = 0; c < kBlock; ++c) {
      out.scale[c] = ByteScale::of(least[c], most[c]);
      reciprocal[c] = out.scale[c].reciprocal;
      scaled |= !out.scale[c].is_one();
    }
    for (int64_t k = 0; k < m.inner; k += kGroup) {
      load_cell<T>(m, first, k, v);
      if (scaled)
        for (int j = 0; j < kGroup; ++j)
          for (int c = 0; c < kBlock; ++c) v[j][c] = (v[j][c] * reciprocal[c] + 32768) >> 16;
      bytes.add(v);
      store_cell(v, high + k * kBlock);
    }
    bytes.put(channels);
    for (int c = 0; c < kBlock; ++c) out.sum[c] = bytes.sum[c];
    return out;
  }
}

PackedColumns pack_matrix_block_here(const QuantMatrix& m, int64_t block, int8_t* high, int8_t* low,
                                     QuantChannels& channels, QuantChannels& low_channels) {
  switch (m.stored) {
    case Stored::u8:
      return pack_block<uint8_t>(m, block, high, low, channels, low_channels);
    case Stored::s8:
      return pack_block<int8_t>(m, block, high, low, channels, low_channels);
    case Stored::u16:
      return pack_block<uint16_t>(m, block, high, low, channels, low_channels);
    case Stored::s16:
      break;
  }
  return pack_block<int16_t>(m, block, high, low, channels, low_channels);
}

struct PairSums {
  const int32_t *low_high, *low_low, *high_high, *high_low;
};

// Columns [*at, n) from `first` on, a block's or fewer, as many as vectors hold. As requantize() with
// Rounding::matrix16; the product of 27 and 22 bits is exact in a double.
template <typename D, typename U>
void finish_columns(D d, const PairSums& sums, int64_t first, int64_t n, const QuantChannels& c,
                    const QuantOutput& out, U* y, int64_t* at) {
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<U, D> du;
  const auto limit = hn::Set(di, kLimit16), least = hn::Set(di, -kLimit16), none = hn::Zero(di);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = *at;
  for (; i + lanes <= n; i += lanes) {
    const int64_t from = first + i;
    // Biases are in both high sums; one stays.
    auto sum = hn::LoadU(di, sums.low_high + from);
    const auto low = hn::ShiftRight<8>(hn::LoadU(di, sums.low_low + from));
    if (sums.high_high) {
      auto cross = hn::Sub(sum, hn::LoadU(di, c.bias + i));
      cross = hn::Add(hn::Add(cross, hn::LoadU(di, sums.high_low + from)), low);
      sum = hn::Add(hn::LoadU(di, sums.high_high + from), hn::ShiftRight<8>(cross));
    } else {
      sum = hn::Add(sum, low);
    }
    const auto left = hn::LoadU(di, c.left + i), right = hn::LoadU(di, c.right + i);
    const auto most = hn::Shr(limit, left);
    const auto cut = hn::Min(hn::Max(sum, hn::Sub(none, most)), most);
    sum = hn::Shl(hn::IfThenElse(hn::Eq(left, none), sum, cut), left);
    const auto t = hn::Min(hn::Max(hn::Shr(sum, right), least), limit);
    const auto odd = hn::Add(hn::Add(t, t), hn::Set(di, 1));
    const auto product = hn::Mul(hn::PromoteTo(d, odd), hn::PromoteTo(d, hn::LoadU(di, c.multiplier + i)));
    const auto q = hn::Floor(hn::Mul(hn::Add(product, hn::Set(d, 0x1p29)), hn::Set(d, 0x1p-30)));
    const auto stored = hn::Add(hn::DemoteTo(di, q), hn::Set(di, out.zero_point));
    const auto bounded = hn::Min(hn::Max(stored, hn::Set(di, out.min)), hn::Set(di, out.max));
    hn::StoreU(hn::DemoteTo(du, bounded), du, y + from);
  }
  *at = i;
}

template <typename U>
void finish_as(const PairSums& sums, int64_t columns, const QuantChannels* channels, const QuantOutput& out,
               std::byte* y) {
  for (int64_t first = 0; first < columns; first += kBlock) {
    const QuantChannels& c = channels[first / kBlock];
    const int64_t n = std::min<int64_t>(kBlock, columns - first);
    int64_t i = 0;
    finish_columns(hn::CappedTag<double, kBlock>(), sums, first, n, c, out, reinterpret_cast<U*>(y), &i);
    finish_columns(hn::CappedTag<double, 1>(), sums, first, n, c, out, reinterpret_cast<U*>(y), &i);
  }
}

void finish_pairs_here(const int32_t* low_high, const int32_t* low_low, const int32_t* high_high,
                       const int32_t* high_low, int64_t columns, const QuantChannels* channels,
                       const QuantOutput& out, std::byte* y) {
  const PairSums sums{low_high, low_low, high_high, high_low};
  const bool negative = out.min < 0;  // signed numbers
  if (out.wide)
    negative ? finish_as<int16_t>(sums, columns, channels, out, y)
             : finish_as<uint16_t>(sums, columns, channels, out, y);
  else
    negative ? finish_as<int8_t>(sums, columns, channels, out, y)
             : finish_as<uint8_t>(sums, columns, channels, out, y);
}

void split_bytes_here(const uint16_t* x, int64_t n, bool flip, uint8_t* low, uint8_t* high) {
  const uint16_t sign = flip ? 0x8000 : 0;
  for (int64_t i = 0; i < n; ++i) {
    low[i] = static_cast<uint8_t>(x[i]);
    high[i] = static_cast<uint8_t>((x[i] ^ sign) >> 8);
  }
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(pack_matrix_block_here);
HWY_EXPORT(finish_pairs_here);
HWY_EXPORT(split_bytes_here);

PackedColumns pack_matrix_block(const QuantMatrix& matrix, int64_t block, int8_t* high, int8_t* low,
                                QuantChannels& channels, QuantChannels& low_channels) {
  return HWY_DYNAMIC_DISPATCH(pack_matrix_block_here)(matrix, block, high, low, channels, low_channels);
}
void finish_pairs(const int32_t* low_high, const int32_t* low_low, const int32_t* high_high,
                  const int32_t* high_low, int64_t columns, const QuantChannels* channels,
                  const QuantOutput& out, std::byte* y) {
  HWY_DYNAMIC_DISPATCH(finish_pairs_here)(low_high, low_low, high_high, high_low, columns, channels, out, y);
}
void split_bytes(const uint16_t* x, int64_t n, bool flip, uint8_t* low, uint8_t* high) {
  HWY_DYNAMIC_DISPATCH(split_bytes_here)(x, n, flip, low, high);
}

}  // namespace sixfold::cpu
#endif
