// Matrices that are packed when they are multiplied, and products of 16-bit numbers by 16-bit ones.
#pragma once

#include "sixfold/cpu/fixed_rows.h"
#include "sixfold/cpu/quant.h"

namespace sixfold::cpu {

// [inner, columns], or [columns, inner] when transposed.
struct QuantMatrix {
  const void* data = nullptr;
  Stored stored = Stored::u8;
  int32_t offset = 0;  // to be added to stored numbers
  int64_t inner = 0, columns = 0;
  bool transposed = false;
};
inline constexpr int32_t kLargestPair = 32639;  // of two signed bytes: 127 * 256 + 127

// What packing a block finds out of each of its columns.
struct PackedColumns {
  ByteScale scale[kQuantBlock];  // of 8-bit numbers
  int64_t sum[kQuantBlock];      // of the numbers as they were packed
};
// One block of columns as [inner / 4][column][4] bytes, zeros in the padding, and the sums and flags of its
// channels. 8-bit numbers of a column that reaches beyond bytes are scaled (ByteScale). 16-bit ones, cut to
// kLargestPair, are two bytes, 256 high + low, the low one signed.
PackedColumns pack_matrix_block(const QuantMatrix& matrix, int64_t block, int8_t* high, int8_t* low,
                                QuantChannels& channels, QuantChannels& low_channels);

// A row of products of 16-bit numbers from the sums of their bytes, each [columns]: low byte of x with high
// of w (its bias added), low with low, and if x has two bytes, high with high (its bias added) and high with
// low.
void finish_pairs(const int32_t* low_high, const int32_t* low_low, const int32_t* high_high,
                  const int32_t* high_low, int64_t columns, const QuantChannels* channels,
                  const QuantOutput& out, std::byte* y);

// Bytes of 16-bit numbers apart; flip: the sign bit is flipped.
void split_bytes(const uint16_t* x, int64_t n, bool flip, uint8_t* low, uint8_t* high);

}  // namespace sixfold::cpu
