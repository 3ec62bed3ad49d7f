#include "sixfold/emulator/product.h"

#include "sixfold/emulator/numbers.h"

namespace sixfold::emulator {

template <typename T>
static void copy_apart(const std::byte* data, int64_t index, int64_t step, std::span<int64_t> to) {
  const T* from = reinterpret_cast<const T*>(data) + index;
  for (size_t i = 0; i < to.size(); ++i) to[i] = from[static_cast<int64_t>(i) * step];
}

int64_t FixedWeights::at(int64_t index, int64_t output, int64_t input) const {
  int64_t q = 0;
  read(index, 0, output, input, {&q, 1});
  return q;
}

float FixedWeights::real_at(int64_t index, int64_t output, int64_t input) const {
  const auto q = static_cast<double>(at(index, output, input));
  if (!tensor_.is_per_channel()) return static_cast<float>(q * scale(output));
  if (std::holds_alternative<qnn::BlockExpansion>(tensor_.quantization))
    return to_ieee_half(static_cast<float>(q * scale(output)));
  return to_half(static_cast<float>(q) * to_half(static_cast<float>(scale(output))));
}

void FixedWeights::read(int64_t index, int64_t step, int64_t first, int64_t input,
                        std::span<int64_t> to) const {
  switch (tensor_.dtype) {
    case DataType::ufixed8:
    case DataType::u8:
      copy_apart<uint8_t>(tensor_.data, index, step, to);
      break;
    case DataType::sfixed16:
      copy_apart<int16_t>(tensor_.data, index, step, to);
      break;
    case DataType::ufixed16:
      copy_apart<uint16_t>(tensor_.data, index, step, to);
      break;
    default:
      copy_apart<int8_t>(tensor_.data, index, step, to);
  }
  if (bits_ > 0 && bits_ < 8)
    for (int64_t& q : to) {
      const auto low = static_cast<uint64_t>(q) << (64 - bits_);  // only these bits count
      q = static_cast<int64_t>(low) >> (64 - bits_);
    }
  if (const auto* block = std::get_if<qnn::BlockExpansion>(&tensor_.quantization)) {
    const auto blocks = static_cast<int64_t>(block->blocks);
    const int64_t b = blocks > 0 ? input * blocks / inputs_ : 0;
    for (size_t i = 0; i < to.size(); ++i) {
      const auto at = static_cast<size_t>((first + static_cast<int64_t>(i)) * blocks + b);
      to[i] = at < block->block_scales.size() ? to[i] * block->block_scales[at] : 0;
    }
    return;
  }
  if (one_offset_) {
    for (int64_t& q : to) q += offset_;
    return;
  }
  for (size_t i = 0; i < to.size(); ++i)
    to[i] += tensor_.channel_encoding(static_cast<size_t>(first) + i).offset;
}

bool FixedWeights::are_bytes() const {
  if (qnn::size_of(tensor_.dtype) != 1) return false;
  if (const auto* block = std::get_if<qnn::BlockExpansion>(&tensor_.quantization))
    return block->scale_bits <= 4;
  if (const uint32_t bits = tensor_.bits(); bits > 0 && bits < 8) return true;
  const int32_t offset = tensor_.channel_encoding(0).offset;
  return tensor_.dtype == DataType::ufixed8 ? offset == -128 : offset == 0;
}

const int8_t* FixedWeights::bytes() const {
  const bool plain = tensor_.dtype == DataType::sfixed8 && (bits_ == 0 || bits_ == 8) && one_offset_ &&
                     offset_ == 0 && !std::holds_alternative<qnn::BlockExpansion>(tensor_.quantization);
  return plain ? reinterpret_cast<const int8_t*>(tensor_.data) : nullptr;
}

// One bias that is no 32-bit number, in the units of its channel.
static int64_t rounded_bias(const TensorDef& bias, size_t i, double unit) {
  double value = 0;
  if (bias.dtype == DataType::f32)
    value = static_cast<double>(bias.values<float>()[i]);
  else
    with_type(bias.dtype, [&](auto t) {
      if constexpr (std::is_integral_v<decltype(t)>)
        value = real(static_cast<int64_t>(bias.values<decltype(t)>()[i]), bias.channel_encoding(i));
    });
  return std::llround(std::clamp(value / unit, -2147483648.0, 2147483647.0));
}

// The largest scale of the output channels.
static float largest_scale(const TensorDef& weights, int64_t outputs) {
  float largest = 0;
  for (int64_t o = 0; o < outputs; ++o)
    largest = std::max(largest, weights.channel_encoding(static_cast<size_t>(o)).scale);
  return largest;
}

Factors::Factors(const TensorDef& x, const TensorDef& weights, const TensorDef& y, int64_t outputs)
    : weights_(weights),
      largest_(largest_scale(weights, outputs)),
      all_(x.encoding().scale * largest_ / y.encoding().scale) {}

float Factors::operator()(int64_t output) const {
  return all_ * (weights_.channel_encoding(static_cast<size_t>(output)).scale / largest_);
}

std::vector<int64_t> biases_of(const TensorDef& bias, const TensorDef& x, const TensorDef& weights,
                               int64_t outputs, cpu::Rounding rounding) {
  std::vector<int64_t> out(static_cast<size_t>(outputs), 0);
  if (!bias.is_present() || !bias.data) return out;
  const float in_scale = x.encoding().scale;
  const auto weight_scale = [&weights](size_t i) { return weights.channel_encoding(i).scale; };
  if (bias.dtype != DataType::sfixed32 && bias.dtype != DataType::i32) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = rounded_bias(bias, i, static_cast<double>(in_scale) * static_cast<double>(weight_scale(i)));
    return out;
  }
  const float unit = in_scale * largest_scale(weights, outputs);
  const auto* all = std::get_if<ScaleOffset>(&bias.quantization);
  const float scale = weights.is_per_channel() || !all || all->scale == 0 ? unit : all->scale;
  const auto numbers = bias.values<int32_t>();
  float most = 0;
  for (size_t i = 0; i < out.size(); ++i)
    most = std::max(most, std::fabs(static_cast<float>(numbers[i]) * scale));
  const float step = most / 268435456.0f, steps = 1 / step;
  for (size_t i = 0; i < out.size(); ++i) {
    const float real = static_cast<float>(numbers[i]) * scale;
    const float near = (weights.is_per_channel() ? std::nearbyint(real * steps) * step : real) / unit;
    const bool fits = std::fabs(near) <= 2147483520.0f;  // not so NaN
    // The vector unit's are rounded, the matrix unit's cut.
    const float whole = rounding == cpu::Rounding::vector ? std::nearbyint(near) : near;
    out[i] = fits ? static_cast<int64_t>(whole) : numbers[i];
  }
  return out;
}

float float_bias_of(const TensorDef& bias, size_t output) {
  return to_bias(bias.dtype == DataType::f16 ? static_cast<float>(bias.values<DeviceHalf>()[output])
                                             : to_half(bias.values<float>()[output]));
}

cpu::QuantInput quant_input(const TensorDef& x) {
  cpu::QuantInput in;
  in.wide = qnn::size_of(x.dtype) == 2;
  in.flip = limits_of(x.dtype).min < 0;
  in.zero_point = -x.encoding().offset + (in.flip ? (in.wide ? 32768 : 128) : 0);
  return in;
}

cpu::QuantOutput quant_output(const TensorDef& y, cpu::Rounding rounding) {
  cpu::QuantOutput out;
  const Limits limits = limits_of(y.dtype);
  out.rounding = rounding;
  out.zero_point = rounding == cpu::Rounding::vector ? 0 : -y.encoding().offset;
  out.min = static_cast<int32_t>(limits.min);
  out.max = static_cast<int32_t>(limits.max);
  out.wide = qnn::size_of(y.dtype) == 2;
  return out;
}

cpu::Rounding matrix_rounding(const TensorDef& x) {
  return qnn::size_of(x.dtype) == 2 ? cpu::Rounding::matrix16 : cpu::Rounding::matrix8;
}

void FixedProduct::run(const std::byte* x, std::byte* y, std::byte* scratch, cpu::Pool& pool) const {
  cpu::QuantInput in = input;
  in.data = x;
  cpu::QuantResult to = steps;
  to.data = y + offset;
  run_quant(window, packed, in, output, to, scratch, pool);
}

int64_t zero_point_in_sums(const TensorDef& y, double factor) {
  const float quotient = static_cast<float>(-y.encoding().offset) / static_cast<float>(factor);
  const double zero = std::floor(static_cast<double>(quotient) + 0.5);
  return static_cast<int64_t>(std::clamp(zero, -2147483647.0, 2147483647.0));
}

// Channels that are shifted together are as the least factor asks; sums of the others go to the left
// before, and wrap in 32 bits. Nothing changes where none can.
static void shift_together(const cpu::QuantWindow& w, cpu::QuantChannels* channels) {
  const int64_t reach = w.taps() * 128 * 65535;
  for (int64_t first = 0; first < w.out_channels; first += kShiftedTogether) {
    const int64_t end = std::min(first + kShiftedTogether, w.out_channels);
    int32_t most = 0;
    for (int64_t o = first; o < end; ++o) {
      const auto [block, i] = quant_place(w, o);
      most = std::max(most, channels[block].right[i]);
    }
    for (int64_t o = first; o < end; ++o) {
      const auto [block, i] = quant_place(w, o);
      cpu::QuantChannels& c = channels[block];
      const int32_t more = most - c.right[i];
      if (more == 0 || (reach + std::abs(int64_t{c.bias[i]})) << more <= INT32_MAX) continue;
      c.left[i] += more;
      c.right[i] = most;
    }
  }
}

static bool has_lefts(const cpu::QuantWindow& w, const cpu::QuantChannels* channels) {
  for (int64_t o = 0; o < w.out_channels; ++o)
    if (const auto [block, i] = quant_place(w, o); channels[block].left[i] > 0) return true;
  return false;
}

using PhaseIndex = std::function<int64_t(size_t phase, int64_t tap, int64_t input, int64_t output)>;

// Fills a window's packed bytes. An output channel whose numbers are no bytes is scaled (cpu::ByteScale).
static void fill_product(const ProductSpec& spec, const FixedProduct& p, size_t phase,
                         const PhaseIndex& index, std::byte* packed) {
  const cpu::QuantWindow& w = p.window;
  const FixedWeights weights(spec.weights, w.inputs());
  const bool bytes = weights.are_bytes();
  std::vector<cpu::ByteScale> scales(static_cast<size_t>(w.out_channels));
  std::array<int64_t, cpu::kQuantBlock> values{};
  const int8_t* const plain = weights.bytes();
  // Where a tap's numbers are for the outputs from `first` on: outputs of a group are equally far apart, and
  // so are inputs.
  struct Place {
    int64_t tap = -1, first = -1, input = -1, at = 0, input_step = 0, output_step = 0;
  } place;
  const auto read_plain = [&](int64_t tap, int64_t input, int64_t first, std::span<int32_t> to) {
    const int64_t begin = p.even_inputs > 0 ? input - input % p.even_inputs : 0;
    if (place.tap != tap || place.first != first || place.input != begin) {
      const auto at = [&](int64_t i, int64_t o) { return index(phase, tap, begin + i, first + o); };
      place = {tap, first, begin, at(0, 0), 0, 0};
      if (place.at >= 0 && (p.even_inputs > 0 ? p.even_inputs : w.inputs()) > 1)
        place.input_step = at(1, 0) - place.at;
      if (place.at >= 0 && to.size() > 1) place.output_step = at(0, 1) - place.at;
    }
    if (place.at < 0) return std::fill(to.begin(), to.end(), 0);
    const int8_t* from = plain + place.at + (input - begin) * place.input_step;
    if (place.output_step == 1 && to.size() == cpu::kQuantBlock)  // as nearly all are: a loop of known length
      return std::copy_n(from, cpu::kQuantBlock, to.begin()), void();
    for (size_t i = 0; i < to.size(); ++i) to[i] = from[static_cast<int64_t>(i) * place.output_step];
  };
  const auto read = [&](int64_t tap, int64_t input, int64_t first, size_t count) {
    const auto to = std::span(values).first(count);
    const int64_t at = index(phase, tap, input, first);
    if (at < 0)
      std::fill(to.begin(), to.end(), 0);
    else  // the outputs of a group are equally far apart
      weights.read(at, count > 1 ? index(phase, tap, input, first + 1) - at : 0, first, input, to);
    return to;
  };
  for (int64_t o = 0; !bytes && o < w.out_channels; ++o) {
    int64_t least = 0, most = 0;
    for (int64_t t = 0; t < w.taps(); ++t)
      for (int64_t i = 0; i < w.inputs(); ++i) {
        const int64_t number = read(t, i, o, 1)[0];
        least = std::min(least, number), most = std::max(most, number);
      }
    scales[static_cast<size_t>(o)] = cpu::ByteScale::of(least, most);
  }
  pack_quant(
      w,
      [&](int64_t tap, int64_t input, int64_t first, std::span<int32_t> outputs) {
        if (plain) return read_plain(tap, input, first, outputs);
        const auto numbers = read(tap, input, first, outputs.size());
        for (size_t i = 0; i < outputs.size(); ++i)
          outputs[i] = scales[static_cast<size_t>(first) + i].byte(static_cast<int32_t>(numbers[i]));
      },
      packed);
  cpu::QuantChannels* channels = quant_channels(w, packed);
  const std::vector<int64_t> biases =
      biases_of(spec.bias, spec.x, spec.weights, w.out_channels, p.output.rounding);
  const bool vector = p.output.rounding == cpu::Rounding::vector;
  const bool sums = p.output.rounding == cpu::Rounding::none;  // of 16-bit activations: cut to 256
  const int reach = spec.y.cut_at_zero ? 255 + spec.y.encoding().offset : 0;
  const Factors factors(spec.x, spec.weights, spec.y, w.out_channels);
  for (int64_t o = 0; o < w.out_channels; ++o) {
    const auto [block, i] = quant_place(w, o);
    const float grow = scales[static_cast<size_t>(o)].factor();
    auto factor = static_cast<double>(factors(o) * grow);
    const auto bias =
        static_cast<int64_t>(static_cast<double>(biases[static_cast<size_t>(o)]) / static_cast<double>(grow));
    int64_t folded = cpu::fold_bias(sums ? matrix_rounding(spec.x) : p.output.rounding, bias,
                                    p.input.zero_point, channels[block].sum[i]);
    if (vector && w.depthwise())  // the output's zero point is scaled with the sum, and 32 bits wrap
      folded = static_cast<int32_t>(folded + zero_point_in_sums(spec.y, factor));
    channels[block].bias[i] = static_cast<int32_t>(std::clamp<int64_t>(folded, INT32_MIN, INT32_MAX));
    int e = 0;  // of 16-bit numbers the vector unit's multiplier is at most 32767
    if (vector && p.input.wide && std::frexp(factor, &e) > 32767.0 / 32768)
      factor = std::ldexp(32767.0, e - 15);
    cpu::set_factor(channels[block], i, p.output.rounding, factor, reach);
  }
  if (vector && w.depthwise() && p.input.wide) shift_together(w, channels);
}

Status prepare_products(const ProductSpec& spec, std::span<FixedProduct> products, cpu::Rounding rounding,
                        const PhaseIndex& index, Prepare& prepare) {
  // What reads the sums themselves (emulator/widen.h).
  if (spec.y.dtype == DataType::sfixed32) rounding = cpu::Rounding::none;
  int64_t bytes = 0, scratch = 0;
  std::vector<int64_t> at;
  for (FixedProduct& p : products) {
    if (!quant_fits(p.window)) return unsupported("the emulator has no filter of ", p.window.taps(), " taps");
    p.input = quant_input(spec.x);
    p.output = quant_output(spec.y, rounding);
    if (!p.window.depthwise()) p.output.zero_point = -spec.y.encoding().offset;
    const FixedWeights weights(spec.weights, p.window.inputs());
    p.output.lefts = !weights.are_bytes();
    for (int64_t o = 0; o < p.window.out_channels; ++o) {
      cpu::QuantChannels one;
      const double factor = static_cast<double>(spec.x.encoding().scale) * weights.scale(o) /
                            static_cast<double>(spec.y.encoding().scale);
      if (!cpu::set_factor(one, 0, rounding, factor))
        return unsupported("in[0]'s scale times in[1]'s, channel ", o, ", is ", factor, " of out[0]'s");
      p.output.lefts |= one.left[0] > 0;
    }
    at.push_back(bytes);
    bytes += quant_layout(p.window).bytes;
    scratch = std::max(scratch, quant_scratch(p.window, p.input));
  }
  SF_ASSIGN(const std::byte* packed, prepare.pack(static_cast<size_t>(bytes), [&](std::span<std::byte> out) {
    for (size_t i = 0; i < products.size(); ++i)
      fill_product(spec, products[i], i, index, out.data() + at[i]);
  }));
  for (size_t i = 0; i < products.size(); ++i) {
    FixedProduct& p = products[i];
    p.packed = packed + at[i];
    if (rounding == cpu::Rounding::vector && p.window.depthwise() && p.input.wide)
      p.output.lefts = has_lefts(p.window, quant_channels(p.window, p.packed));
  }
  prepare.need_scratch(static_cast<size_t>(scratch));
  return {};
}

}  // namespace sixfold::emulator
