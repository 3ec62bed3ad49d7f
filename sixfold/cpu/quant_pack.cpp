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
  // Few channels: taps of 4 would be mostly padding, so a row is copied together.
  l.gathered = w.taps() > 1 && w.inputs() < 16 && w.inputs() % 4 != 0 && w.taps() * w.inputs() <= 1024;
  l.segments = l.gathered ? 1 : w.taps();
  l.groups = (w.inputs() * (l.gathered ? w.taps() : 1) + kQuantGroup - 1) / kQuantGroup;
  l.blocks = (w.outputs() + kQuantBlock - 1) / kQuantBlock;
  l.block_bytes = l.segments * l.groups * cell;
  l.weight_bytes = w.groups * l.blocks * l.block_bytes;
  l.bytes = l.weight_bytes + w.groups * l.blocks * static_cast<int64_t>(sizeof(QuantChannels));
  return l;
}

QuantChannels* quant_channels(const QuantWindow& window, std::byte* packed) {
  return reinterpret_cast<QuantChannels*>(packed + quant_layout(window).weight_bytes);
}

QuantPlace quant_place(const QuantWindow& w, int64_t output) {
  if (w.depthwise()) return {output / kQuantBlock, output % kQuantBlock};
  const int64_t blocks = (w.outputs() + kQuantBlock - 1) / kQuantBlock;
  const int64_t group = output / w.outputs(), inner = output % w.outputs();
  return {group * blocks + inner / kQuantBlock, inner % kQuantBlock};
}

void pack_quant(const QuantWindow& w, const QuantWeight& weight, std::byte* packed) {
  const QuantLayout l = quant_layout(w);
  std::memset(packed, 0, static_cast<size_t>(l.bytes));
  auto* bytes = reinterpret_cast<int8_t*>(packed);
  QuantChannels* channels = quant_channels(w, packed);
  const int64_t inputs = w.inputs();
  for (int64_t o = 0; o < w.out_channels; ++o) {
    const QuantPlace place = quant_place(w, o);
    int8_t* block = bytes + place.block * l.block_bytes;
    int32_t sum = 0;
    for (int64_t t = 0; t < w.taps(); ++t) {
      for (int64_t c = 0; c < inputs; ++c) {
        // Position among the groups of four.
        const int64_t at = l.depthwise ? t : l.gathered ? t * inputs + c : t * l.groups * kQuantGroup + c;
        const int32_t value = weight(t, c, o);
        block[(at / kQuantGroup * kQuantBlock + place.i) * kQuantGroup + at % kQuantGroup] =
            static_cast<int8_t>(value);
        sum += value;
        if (value == -128) channels[place.block].flags[kHasLowest] = 1;
      }
    }
    channels[place.block].sum[place.i] = sum;
  }
}

// Whether the input is copied first, and how many bytes a pixel's group takes then.
static bool is_copied(const QuantWindow& w, const QuantLayout& l, const QuantInput& input) {
  return input.wide || input.flip || (!l.depthwise && !l.gathered && w.inputs() % kQuantGroup != 0);
}

int64_t quant_scratch(const QuantWindow& w, const QuantInput& input) {
  const QuantLayout l = quant_layout(w);
  const bool copied = is_copied(w, l, input);
  const int64_t group = l.depthwise || l.gathered ? w.inputs() : round_up(w.inputs(), kQuantGroup);
  const int64_t pixel = w.groups * group;
  const int64_t pixels = copied ? w.batch * w.in_height * w.in_width : 0;
  return (input.wide ? 2 : 1) * round_up((pixels + 1) * pixel + 64, 64);
}

}  // namespace sixfold::cpu
