#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "sixfold/cpu/quant_conv.h"

namespace sixfold::cpu {

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

QuantLayout quant_layout(const QuantWindow& w) {
  QuantLayout l;
  l.depthwise = w.depthwise();
  const int64_t cell = kQuantBlock * kQuantGroup;
  if (l.depthwise) {
    l.groups = (w.taps() + 3) / 4;
    l.blocks = (w.out_channels + kQuantBlock - 1) / kQuantBlock;
    l.block_bytes = l.groups * cell;
    l.weight_bytes = l.blocks * l.block_bytes;
    l.bytes = l.weight_bytes + l.blocks * static_cast<int64_t>(sizeof(QuantChannels));
    return l;
  }
  // Channels that do not fill groups of four: where a row of taps lies together, it is one segment.
  l.joined = w.groups == 1 && w.dilation_x == 1 && w.width > 1 && w.inputs() % kQuantGroup != 0;
  l.segments = l.joined ? w.height : w.taps();
  l.groups = (w.inputs() * (l.joined ? w.width : 1) + kQuantGroup - 1) / kQuantGroup;
  l.blocks = (w.outputs() + kQuantBlock - 1) / kQuantBlock;
  l.block_bytes = l.segments * l.groups * cell;
  l.weight_bytes = w.groups * l.blocks * l.block_bytes;
  l.bytes = l.weight_bytes + w.groups * l.blocks * static_cast<int64_t>(sizeof(QuantChannels));
  return l;
}

QuantChannels* quant_channels(const QuantWindow& window, std::byte* packed) {
  return reinterpret_cast<QuantChannels*>(packed + quant_layout(window).weight_bytes);
}
const QuantChannels* quant_channels(const QuantWindow& window, const std::byte* packed) {
  return reinterpret_cast<const QuantChannels*>(packed + quant_layout(window).weight_bytes);
}

QuantPlace quant_place(const QuantWindow& w, int64_t output) {
  if (w.depthwise()) return {output / kQuantBlock, output % kQuantBlock};
  const int64_t blocks = (w.outputs() + kQuantBlock - 1) / kQuantBlock;
  const int64_t group = output / w.outputs(), inner = output % w.outputs();
  return {group * blocks + inner / kQuantBlock, inner % kQuantBlock};
}

// Groups of four places of a block of outputs, one word for each output: written when the next group begins,
// since single bytes so far apart would take most of the time.
class BlockWriter {
 public:
  BlockWriter(int8_t* block, QuantChannels& channels) : block_(block), channels_(channels) {}
  ~BlockWriter() { flush(); }
  BlockWriter(const BlockWriter&) = delete;
  BlockWriter& operator=(const BlockWriter&) = delete;

  void write(int64_t place, const std::array<int32_t, kQuantBlock>& values) {
    if (const int64_t group = place / kQuantGroup; group != group_) {
      flush();
      group_ = group;
    }
    const int shift = static_cast<int>(place % kQuantGroup) * 8;
    for (size_t i = 0; i < kQuantBlock; ++i) {
      words_[i] |= (static_cast<uint32_t>(values[i]) & 0xff) << shift;
      channels_.sum[i] += values[i];
      least_[i] = std::min(least_[i], values[i]);
    }
  }
  bool has_lowest() const {
    return std::any_of(least_.begin(), least_.end(), [](int32_t v) { return v == -128; });
  }

 private:
  void flush() {
    if (group_ >= 0) std::memcpy(block_ + group_ * kQuantBlock * kQuantGroup, words_.data(), sizeof words_);
    words_ = {};
  }

  int8_t* block_;
  QuantChannels& channels_;
  int64_t group_ = -1;
  std::array<uint32_t, kQuantBlock> words_{};
  std::array<int32_t, kQuantBlock> least_{};
};

void pack_quant(const QuantWindow& w, const QuantWeight& weight, std::byte* packed) {
  static_assert(kQuantGroup * 8 == 32 && std::endian::native == std::endian::little);
  const QuantLayout l = quant_layout(w);
  std::memset(packed, 0, static_cast<size_t>(l.bytes));
  auto* bytes = reinterpret_cast<int8_t*>(packed);
  QuantChannels* channels = quant_channels(w, packed);
  const int64_t inputs = w.inputs();
  // A block of outputs at a time: weights lie with neighbouring outputs side by side.
  for (int64_t first = 0, last = 0; first < w.out_channels; first = last) {
    const int64_t block = quant_place(w, first).block;
    while (last < w.out_channels && quant_place(w, last).block == block) ++last;
    std::array<int32_t, kQuantBlock> values{};  // zeros behind the last
    BlockWriter writer(bytes + block * l.block_bytes, channels[block]);
    for (int64_t t = 0; t < w.taps(); ++t) {
      for (int64_t c = 0; c < inputs; ++c) {
        // Position among the groups of four.
        const int64_t row = t / w.width, column = t % w.width;
        const int64_t at = l.depthwise ? t
                           : l.joined  ? row * l.groups * kQuantGroup + column * inputs + c
                                       : t * l.groups * kQuantGroup + c;
        weight(t, c, first, std::span(values).first(static_cast<size_t>(last - first)));
        writer.write(at, values);
      }
    }
    if (writer.has_lowest()) channels[block].flags[kHasLowest] = 1;
  }
}

QuantCopy quant_copy(const QuantWindow& w, const QuantInput& input) {
  const QuantLayout l = quant_layout(w);
  QuantCopy c;
  const bool padded = !l.depthwise && !l.joined && w.inputs() % kQuantGroup != 0;
  c.copied = input.wide || input.flip || padded || l.joined;
  c.group = padded ? round_up(w.inputs(), kQuantGroup) : w.inputs();
  c.pixel = w.groups * c.group;
  c.width = w.in_width;
  if (l.joined) {  // with the padding, so that no tap is looked at alone
    c.left = std::max<int64_t>(w.pad_left, 0);
    const int64_t last = (w.out_width - 1) * w.stride_x - w.pad_left + w.width;
    c.width = c.left + std::max(w.in_width, last);
  }
  const int64_t pixels = c.copied ? w.batch * w.in_height * c.width : 0;
  c.pad_at = pixels * c.pixel;
  c.plane = round_up(c.pad_at + (l.joined ? c.width : 1) * c.pixel + 64, 64);
  c.bytes = (input.wide ? 2 : 1) * c.plane;
  return c;
}

int64_t quant_scratch(const QuantWindow& w, const QuantInput& input) { return quant_copy(w, input).bytes; }

}  // namespace sixfold::cpu
