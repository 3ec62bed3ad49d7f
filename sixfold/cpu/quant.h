// Fixed-point products: sums of 8-bit (or 16-bit) activations times 8-bit weights, exact, and their
// conversion to the output's steps in integers alone, so that every CPU gives the same bits.
//
// Activations are taken as unsigned: a signed tensor is its bytes with the sign bit flipped and a zero point
// that is 128 (32768) higher. 16-bit ones are two planes of bytes, x = 256 high + low: sums of both planes
// are kept apart, and (sum >> 8) = high sum + (low sum >> 8) is what is converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sixfold::cpu {

inline constexpr int64_t kQuantBlock = 16;  // output channels of a block of weights
inline constexpr int64_t kQuantGroup = 4;   // inputs that lie together

// How sums become steps of the output, f 2^e being the exact factor, 1/2 <= f < 1:
enum class Rounding : uint8_t {
  // The sum is cut to 2^(e+3) of a step, and taken to lie in the middle; f has 12 bits.
  matrix8,
  // As above for 16-bit activations: 2^(e+7) of a step of sums that were cut to 256, f has 22 bits.
  matrix16,
  // round(sum * f 2^e), half up, f with 15 bits. Sums of 16-bit activations are not cut: they must fit 32
  // bits. Shifts to the left wrap.
  vector,
  // The sums themselves, as 32-bit integers.
  none,
};

// What a block of output channels needs, beside its weights.
struct alignas(64) QuantChannels {
  int32_t bias[kQuantBlock];                      // with the zero point's part; matrix16: of 256
  int32_t sum[kQuantBlock];                       // of the weights, for kernels that shift activations
  int32_t multiplier[kQuantBlock];                // f
  int32_t left[kQuantBlock], right[kQuantBlock];  // e as shifts
  int32_t flags[kQuantBlock];                     // of the block
};
inline constexpr int64_t kHasLowest = 0;  // flag: some weight is -128

// Sets channel i: factor is input scale * weight scale / output scale. False: not a positive finite number,
// or beyond 2^-45 and 2^30. reach, with matrix8: the steps above zero that results have where a Relu cuts
// them; sums are cut to 2^-12 of these then, or to 2 where that is more.
bool set_factor(QuantChannels& channels, int64_t i, Rounding rounding, double factor, int reach = 0);
// The bias of an output channel: bias + the part of the input's zero point, where sum is that of its weights.
int32_t fold_bias(Rounding rounding, int64_t bias, int64_t zero_point, int64_t sum);

// The matrix unit multiplies by signed bytes. A column that reaches beyond [-128, 127] is scaled until the
// number that does is -128 or 127: by a reciprocal of 16 bits after the point of what its factor grows by,
// which has 11.
struct ByteScale {
  int64_t growth = 2048;       // of the factor, in 1/2048
  int32_t reciprocal = 65536;  // of that, in 2^-16

  static ByteScale of(int64_t least, int64_t most) {
    const int64_t below = least < -128 ? -least * 16 : 0;
    const int64_t above = most > 127 ? (most * 4096 + 127) / 254 : 0;
    if (below == 0 && above == 0) return {};
    const int64_t growth = below > above ? below : above;
    return {growth, static_cast<int32_t>(((int64_t{1} << 27) + growth / 2) / growth)};
  }
  bool is_one() const { return growth == 2048; }
  int32_t byte(int32_t number) const { return (number * reciprocal + 32768) >> 16; }
  float factor() const { return static_cast<float>(growth) / 2048; }
};

struct QuantOutput {
  Rounding rounding = Rounding::matrix8;
  int32_t zero_point = 0;
  int32_t min = 0, max = 255;  // clamp, in stored numbers
  bool wide = false;           // 16-bit numbers; Rounding::none: 32
  bool lefts = false;          // some channel has left > 0
};

// One sum to its stored number, as all kernels do it.
int32_t requantize(int32_t sum, const QuantChannels& channels, int64_t i, const QuantOutput& out);

// Rows of activations times blocks of weights. Row r's input k is at rows[(k / segment) * kQuantRows + r] +
// k % segment: a segment is what lies together in memory (a pixel's channels, one of a filter's taps).
inline constexpr int64_t kQuantRows = 8;
struct QuantTile {
  const uint8_t* const* rows = nullptr;
  int64_t segments = 1, groups = 0;  // groups of kQuantGroup inputs in a segment; up to 3 bytes more are read
  int64_t high = 0;  // 16-bit activations: bytes from a low byte's place to the high byte's; 0: 8-bit
  const int8_t* weights = nullptr;          // [block][segments * groups][kQuantBlock][kQuantGroup]
  const QuantChannels* channels = nullptr;  // [block]
  const QuantOutput* out = nullptr;
  std::byte* const* results = nullptr;  // [row]: where channel 0 of the first block goes
  int64_t count = 0;                    // channels to write; blocks = ceil(count / kQuantBlock)
};

// A depthwise filter: as many outputs as inputs, channel by channel. Tap t of row r is at
// rows[t * row_step + r]; weights are [block][taps / 4][kQuantBlock][4], zeros after the last tap, where rows
// must still be readable.
struct QuantTaps {
  const uint8_t* const* rows = nullptr;
  int64_t row_step = 0, row_count = 0;
  int64_t taps = 0;  // multiple of 4
  // The filter, if neighbours share taps: within a run of rows, tap x of row r + 1 is tap x + stride of row
  // r.
  int64_t height = 0, width = 0, stride = 0;  // 0: they do not
  int64_t first_run = 0, run = 0;             // rows of the first run, and of those that follow
  int64_t high = 0;
  const int8_t* weights = nullptr;
  const QuantChannels* channels = nullptr;
  const QuantOutput* out = nullptr;
  std::byte* const* results = nullptr;
  int64_t count = 0;  // channels
};

struct QuantKernels {
  const char* name;
  int64_t rows, blocks;      // the most that product() takes at once
  int64_t rows16, blocks16;  // with 16-bit activations
  void (*product)(const QuantTile& tile, int64_t row_count);
  void (*depthwise)(const QuantTaps& taps);
};

// The best for this CPU, or the one whose name is in SIXFOLD_QUANT_KERNELS (plain; avx2, vnni; neon, dot).
const QuantKernels& quant_kernels();
// All that this CPU can run, plain first.
std::span<const QuantKernels* const> all_quant_kernels();

}  // namespace sixfold::cpu
