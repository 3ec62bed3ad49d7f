// Convolutions of volumes of bytes, as convolutions of images: the planes of the input that a plane of the
// output takes are laid side by side as channels. Of a transposed one that is so for every stride-th plane.
#include <algorithm>
#include <cstring>

#include "sixfold/emulator/product.h"
#include "sixfold/ops/conv/emulate.h"
#include "sixfold/ops/conv/emulate_volume.h"

namespace sixfold::emulator {
namespace {

constexpr int64_t kStack = int64_t{4} << 20;  // bytes of planes at once

// Every `every`-th plane of the output, from `first` on.
struct Planes {
  int64_t first = 0, every = 1, count = 0;
  std::vector<int64_t> taps;           // along the depth; empty: none reaches them
  std::vector<FixedProduct> products;  // one for each phase of an image
  std::vector<ConvPhase> phases;
  int64_t sources() const { return std::max<int64_t>(1, static_cast<int64_t>(taps.size())); }
};

struct VolumeProducts {
  Volume v;
  std::vector<Planes> parts;
  uint8_t zero = 0;       // a stored zero
  size_t scratch_at = 0;  // of the products, behind the stack

  int64_t plane() const { return v.in[1] * v.in[2]; }  // pixels
  int64_t at_once(const Planes& p) const {
    return std::clamp<int64_t>(kStack / (p.sources() * plane() * v.in_channels), 1, p.count);
  }

  // Stack b of `count` has the planes for plane first + b of the part. Channels are group by group, and in a
  // group tap by tap.
  void stack(const Run& run, const Planes& p, int64_t batch, int64_t first, int64_t count) const {
    const int64_t sources = p.sources(), inputs = v.inputs(), channels = sources * v.in_channels;
    auto* all = reinterpret_cast<uint8_t*>(run.scratch);
    run.pool.for_ranges(count * sources, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / sources, t = i % sources, out = p.first + (first + b) * p.every;
        const int64_t from = p.taps.empty() ? -1 : v.source(0, out, p.taps[static_cast<size_t>(t)]);
        uint8_t* to = all + b * plane() * channels + t * inputs;
        const uint8_t* x =
            run.in<uint8_t>(0) + (batch * v.in[0] + std::max<int64_t>(from, 0)) * plane() * v.in_channels;
        for (int64_t pixel = 0; pixel < plane(); ++pixel, to += channels, x += v.in_channels)
          for (int64_t g = 0; g < v.groups; ++g) {
            uint8_t* row = to + g * sources * inputs;
            if (from < 0)
              std::fill_n(row, inputs, zero);
            else
              std::copy_n(x + g * inputs, inputs, row);
          }
      }
    });
  }

  void run(const Run& run) const {
    const int64_t out_plane = v.out[1] * v.out[2] * v.out_channels;
    for (int64_t batch = 0; batch < v.batch; ++batch)
      for (const Planes& p : parts)
        for (int64_t first = 0; first < p.count; first += at_once(p)) {
          const int64_t count = std::min(at_once(p), p.count - first);
          stack(run, p, batch, first, count);
          std::byte* y = run.outs[0] + (batch * v.out[0] + p.first + first * p.every) * out_plane;
          for (FixedProduct product : p.products) {
            product.window.batch = count;
            product.run(run.scratch, y, run.scratch + scratch_at, run.pool);
          }
        }
  }
  void absorb(Clamp clamp) {
    for (Planes& p : parts)
      for (FixedProduct& product : p.products) product.absorb(clamp);
  }
};

// The image's side of the convolution; its weights' places are those of taps alone.
ConvShape image_of(const Volume& v) {
  ConvShape s;
  s.transposed = v.transposed;
  s.stride_y = v.stride[1], s.stride_x = v.stride[2];
  cpu::QuantWindow& w = s.window;
  w.in_height = v.in[1], w.in_width = v.in[2], w.out_height = v.out[1], w.out_width = v.out[2];
  w.height = v.taps[1], w.width = v.taps[2], w.pad_top = v.pad[1], w.pad_left = v.pad[2];
  w.dilation_y = v.dilation[1], w.dilation_x = v.dilation[2];
  if (!v.transposed) w.stride_y = v.stride[1], w.stride_x = v.stride[2];
  return s;
}

std::vector<Planes> parts_of(const Volume& v) {
  std::vector<Planes> parts;
  const int64_t every = v.transposed ? v.stride[0] : 1;
  for (int64_t first = 0; first < std::min(every, v.out[0]); ++first) {
    Planes p{.first = first, .every = every, .count = (v.out[0] - first + every - 1) / every};
    for (int64_t t = 0; t < v.taps[0]; ++t)
      if (!v.transposed || (first + v.pad[0] - t) % every == 0) p.taps.push_back(t);
    parts.push_back(std::move(p));
  }
  return parts;
}

}  // namespace

Result<Step> prepare_volume_products(const OpView& op, const Volume& v, Prepare& prepare) {
  const ProductSpec spec{op.in(0), op.in(1), op.in(2), op.out()};
  const ConvShape image = image_of(v);
  const int64_t row = v.out[2] * v.out_channels, plane = row * v.out[1];
  VolumeProducts state{.v = v, .parts = parts_of(v)};
  state.zero = static_cast<uint8_t>(-op.in(0).encoding().offset);
  std::vector<FixedProduct> products;
  std::vector<std::pair<size_t, size_t>> owners;  // a product's part, and its phase there
  size_t stack = 0;
  for (size_t i = 0; i < state.parts.size(); ++i) {
    Planes& p = state.parts[i];
    p.phases = phases_of(image);
    const int64_t at_once = state.at_once(p);
    stack = std::max(stack, static_cast<size_t>(at_once * p.sources() * state.plane() * v.in_channels));
    for (size_t k = 0; k < p.phases.size(); ++k) {
      const ConvPhase& phase = p.phases[k];
      FixedProduct product;
      product.window = phase.window;
      product.window.batch = at_once;
      product.window.in_channels = p.sources() * v.in_channels;
      product.window.out_channels = v.out_channels;
      product.window.groups = v.groups;
      product.even_inputs = v.inputs();
      product.offset = phase.out_y * row + phase.out_x * v.out_channels;
      product.steps = {nullptr, v.out_channels * phase.every_x, row * phase.every_y, plane * p.every};
      products.push_back(product);
      owners.emplace_back(i, k);
    }
  }
  const auto index = [&](size_t product, int64_t tap, int64_t input, int64_t output) -> int64_t {
    const Planes& p = state.parts[owners[product].first];
    const int64_t at = p.phases[owners[product].second].weight_index(image, tap, 0, 0);
    if (at < 0 || p.taps.empty()) return -1;
    const int64_t depth = p.taps[static_cast<size_t>(input / v.inputs())];
    return v.weight_index(depth * v.taps[1] * v.taps[2] + at, output / v.outputs(), input % v.inputs(),
                          output % v.outputs());
  };
  SF_TRY(prepare_products(spec, products, cpu::Rounding::matrix8, index, prepare));
  stack = (stack + 63) / 64 * 64 + 64;  // kernels read some bytes more
  int64_t scratch = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    state.parts[owners[i].first].products.push_back(products[i]);
    scratch = std::max(scratch, quant_scratch(products[i].window, products[i].input));
  }
  state.scratch_at = stack;
  prepare.need_scratch(stack + static_cast<size_t>(scratch));
  const uint64_t macs = static_cast<uint64_t>(op.out().count()) *
                        static_cast<uint64_t>(v.inputs() * v.taps[0] * v.taps[1] * v.taps[2]);
  return prepare.step(std::move(state), macs);
}

}  // namespace sixfold::emulator
