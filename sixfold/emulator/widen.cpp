#include "sixfold/emulator/widen.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <optional>
#include <vector>

#include "sixfold/emulator/product.h"
#include "sixfold/emulator/tiles.h"
#include "sixfold/emulator/widen_float.h"
#include "sixfold/emulator/wiring.h"

namespace sixfold::emulator {
namespace {

// The tensor itself, to a reshape that only adds or drops ones in front: the library sees none.
uint32_t before_ones(uint32_t t, std::span<const TensorDef> tensors, const Wiring& wiring) {
  const auto same = [&](uint32_t a, uint32_t b) {
    const auto past_ones = [&](uint32_t v) {
      const std::vector<uint32_t>& dims = tensors[v].dims;
      return std::span(std::find_if(dims.begin(), dims.end(), [](uint32_t d) { return d != 1; }), dims.end());
    };
    return std::ranges::equal(past_ones(a), past_ones(b));
  };
  for (const OpDef* op = wiring.maker[t];
       op && op->type == "Reshape" && op->in.size() == 1 && op->in[0] != kNone && same(op->in[0], t);
       op = wiring.maker[t])
    t = op->in[0];
  return t;
}

// Whether all products with what `sigmoid` gives, or with `gate`, which is a reshape of that, are with its
// operand, all of one kind of numbers.
bool is_gate(const OpDef& sigmoid, uint32_t gate, std::span<const TensorDef> tensors, const Wiring& wiring) {
  if (!is_neuron(sigmoid, "Sigmoid") || sigmoid.in.empty() || sigmoid.in[0] == kNone ||
      sigmoid.out.size() != 1)
    return false;
  const DataType dtype = tensors[gate].dtype;
  const auto is_such = [&](uint32_t t) { return tensors[t].dtype == dtype; };
  if ((dtype != DataType::ufixed8 && dtype != DataType::ufixed16) || !is_such(sigmoid.in[0])) return false;
  const uint32_t x = before_ones(sigmoid.in[0], tensors, wiring);
  bool found = false;
  for (const OpDef* op : wiring.readers[gate]) {
    if (op->type != "ElementWiseMultiply" || op->in.size() != 2 || op->out.size() != 1) continue;
    const uint32_t other = op->in[op->in[0] == gate ? 1 : 0];
    if (other == kNone || before_ones(other, tensors, wiring) != x) return false;
    if (!is_such(op->out[0])) return false;
    found = true;
  }
  return found;
}

// What a MatMul reads as its second operand, back to the sum or linear layer that gives it to nobody else:
// where the zero point is near the middle, the library has those write signed bytes, with it there. Empty:
// not so.
std::vector<uint32_t> written_as_bytes(const OpDef& op, std::span<const TensorDef> tensors,
                                       const Wiring& wiring) {
  constexpr int32_t kMiddle = -128, kNear = 16;
  if (op.type != "MatMul" || op.in.size() < 2 || op.in[1] == kNone ||
      std::abs(tensors[op.in[1]].encoding().offset - kMiddle) > kNear)
    return {};
  std::vector<uint32_t> out;
  for (uint32_t t = op.in[1]; t != kNone;) {
    const OpDef* maker = wiring.maker[t];
    if (!maker || tensors[t].dtype != DataType::ufixed8 || tensors[t].kind != TensorKind::native ||
        wiring.readers[t].size() != 1)
      return {};
    out.push_back(t);
    if (maker->type == "ElementWiseAdd" || maker->type == "ElementWiseSubtract") return out;
    if (maker->type == "FullyConnected" && maker->in.size() > 1 && maker->in[1] != kNone &&
        !tensors[maker->in[1]].is_per_channel())
      return out;
    if ((maker->type != "Reshape" && maker->type != "Transpose") || maker->in.empty()) return {};
    t = maker->in[0];
  }
  return {};
}

// Whether a parameter of numbers, a stride or dilation, has one but 1.
bool skips(const OpDef& op, std::string_view name) {
  for (const ParamDef& p : op.params)
    if (p.name == name)
      for (size_t i = 0; i < p.bytes.size(); i += sizeof(uint32_t))
        if (p.bytes[i] != std::byte{1}) return true;
  return false;
}
// Filters of one channel that skip pixels are the vector unit's, which hands on what its tensor holds.
bool skips_pixels(const OpDef& op) { return op.type == "DepthWiseConv2d" && skips(op, "stride"); }

// A bias that is computed is prepared in each run, and then tensors are what their ops say.
bool has_known_bias(const OpDef& made, std::span<const TensorDef> tensors) {
  return made.in.size() < 3 || made.in[2] == kNone || !tensors[made.in[2]].is_present() ||
         tensors[made.in[2]].is_constant();
}

// Whether `made` computes what a Relu alone reads of it with the Relu's encoding, y's.
bool merges_relu(const OpDef& made, std::span<const TensorDef> tensors, const TensorDef& y) {
  const bool has_zero = y.encoding().offset != 0;
  if (made.type == "FullyConnected") return has_zero || is_wide(y) || has_one_matrix(tensors[made.in[0]]);
  return made.type == "Conv2d" || (made.type == "DepthWiseConv2d" && !has_zero);
}

// Whether a HardSwish that alone reads what `made` gives sees its sums. With 16 bits not those of a linear
// layer of many rows that do not fill tiles.
bool hands_on_sums(const OpDef& made, std::span<const TensorDef> tensors) {
  const TensorDef& x = tensors[made.in[0]];
  if (made.type != "FullyConnected") return made.type == "Conv2d" || made.type == "DepthWiseConv2d";
  const uint32_t rows = rows_of(x);
  return has_one_matrix(x) && (!is_wide(x) || rows <= 32 || rows % 8 == 0);
}

bool is_filter(const OpDef& op) {
  return op.type == "Conv2d" || op.type == "DepthWiseConv2d" || op.type == "TransposeConv2d";
}

// What made tensor t, behind reshapes that keep the last axis, of 16 bits behind a filter all axes but those
// of one. Null where somebody else reads it, too. `between`: the tensors.
const OpDef* made_for_one(uint32_t t, std::span<const TensorDef> tensors, const Wiring& wiring,
                          std::vector<uint32_t>& between) {
  bool same_axes = true;
  while (true) {
    if (wiring.readers[t].size() != 1 || tensors[t].kind != TensorKind::native) return nullptr;
    between.push_back(t);
    const OpDef* made = wiring.maker[t];
    if (!made || made->in.empty() || made->in[0] == kNone) return nullptr;
    if (made->type != "Reshape")
      return same_axes || !is_wide(tensors[t]) || !is_filter(*made) ? made : nullptr;
    const TensorDef &from = tensors[made->in[0]], &to = tensors[t];
    if (from.rank() == 0 || to.rank() == 0 || from.dims.back() != to.dims.back()) return nullptr;
    same_axes = same_axes && axes_of(from) == axes_of(to);
    t = made->in[0];
  }
}

// Whether a Prelu that alone reads what `made` gives sees its sums. Not so those of one channel that are
// dilated, or have one tap of 16 bits, nor with 8 bits dilated ones; of transposed ones those of 8 bits do
// that have several phases.
bool hands_on_to_prelu(const OpDef& made, std::span<const TensorDef> tensors) {
  const std::vector<uint32_t>& filter = tensors[made.in[1]].dims;
  const bool wide = is_wide(tensors[made.in[0]]);
  if (made.type == "DepthWiseConv2d")
    return !skips_pixels(made) && !skips(made, "dilation") && filter.size() > 1 &&
           (!wide || filter[0] * filter[1] > 1);
  if (made.type == "TransposeConv2d") return !wide && skips(made, "stride");
  if (made.type == "Conv2d") return wide || !skips(made, "dilation");
  return made.type == "FullyConnected" && has_one_matrix(tensors[made.in[0]]);
}

// The sums in their unit, which differs by channel; of 16 bits in parts of 256 of it.
std::optional<TensorDef> sums(const TensorDef& between, const TensorDef& x, const TensorDef& weights) {
  if (between.rank() == 0 || !FixedWeights(weights, 1).are_bytes()) return std::nullopt;
  TensorDef wide = between;
  wide.dtype = DataType::sfixed32;
  qnn::AxisScaleOffset q{static_cast<int32_t>(between.rank()) - 1, {}};
  const float parts = qnn::size_of(x.dtype) == 2 ? 256 : 1;
  for (uint32_t c = 0; c < between.dims.back(); ++c)
    q.channels.push_back({parts * x.encoding().scale * weights.channel_encoding(c).scale, 0});
  wide.quantization = std::move(q);
  return wide;
}

// Sums that a Prelu alone reads; a channel's unit is a share of the largest.
void widen_for_prelu(const OpDef& prelu, std::span<const TensorDef> tensors, const Wiring& wiring,
                     std::map<uint32_t, TensorDef>& out) {
  if (prelu.type != "Prelu" || prelu.in.size() != 2 || prelu.in[0] == kNone || prelu.in[1] == kNone ||
      prelu.out.size() != 1)
    return;
  std::vector<uint32_t> between;
  const OpDef* made = made_for_one(prelu.in[0], tensors, wiring, between);
  if (!made || made->in.size() < 2 || made->in[1] == kNone || !hands_on_to_prelu(*made, tensors)) return;
  const TensorDef &x = tensors[made->in[0]], &weights = tensors[made->in[1]], &y = tensors[prelu.out[0]],
                  &slopes = tensors[prelu.in[1]];
  const int64_t channels = y.rank() > 0 ? y.dims.back() : 0;
  if (!has_known_bias(*made, tensors) || !weights.is_constant() ||
      (x.dtype != DataType::ufixed8 && x.dtype != DataType::ufixed16) || y.dtype != x.dtype ||
      y.dims != tensors[between[0]].dims || !slopes.is_constant() || !slopes.data ||
      slopes.is_per_channel() || slopes.rank() == 0 ||
      (slopes.count() != 1 && (slopes.count() != channels || slopes.dims.back() != channels)))
    return;
  float largest = 0;
  for (int64_t c = 0; c < channels; ++c)
    largest = std::max(largest, weights.channel_encoding(static_cast<size_t>(c)).scale);
  const float unit = x.encoding().scale * largest * (is_wide(x) ? 256 : 1);
  for (const uint32_t t : between) {
    std::optional<TensorDef> wide = sums(tensors[t], x, weights);
    if (!wide || tensors[t].dtype != x.dtype) return;
    auto& q = std::get<qnn::AxisScaleOffset>(wide->quantization);
    for (size_t c = 0; c < q.channels.size(); ++c)
      q.channels[c].scale = unit * (weights.channel_encoding(c).scale / largest);
    out.emplace(t, std::move(*wide));
  }
}

// A Softmax of a product with one constant number above zero, the second operand, takes the number into its
// own scale: what lies between are the other operand's numbers, in steps that are as much larger.
void scale_softmax(const OpDef& softmax, std::span<const TensorDef> tensors, const Wiring& wiring,
                   std::map<uint32_t, TensorDef>& out) {
  if (softmax.type != "Softmax" || softmax.in.empty() || softmax.in[0] == kNone) return;
  std::vector<uint32_t> between;
  const OpDef* made = made_for_one(softmax.in[0], tensors, wiring, between);
  if (!made || made->type != "ElementWiseMultiply" || made->in.size() != 2 || made->in[1] == kNone) return;
  const TensorDef &x = tensors[made->in[0]], &one = tensors[made->in[1]], &y = tensors[between.back()];
  if (!(x.dtype == DataType::ufixed8 || x.dtype == DataType::ufixed16) || x.is_constant() ||
      x.dtype != y.dtype || x.dims != y.dims || !one.is_constant() || !one.data || one.count() != 1 ||
      one.dtype != x.dtype)
    return;
  const int32_t code = is_wide(one) ? one.values<uint16_t>()[0] : one.values<uint8_t>()[0];
  const float factor = static_cast<float>(code + one.encoding().offset) * one.encoding().scale;
  if (!(factor > 0)) return;
  for (const uint32_t t : between) {
    TensorDef scaled = tensors[t];
    scaled.quantization = ScaleOffset{x.encoding().scale * factor, x.encoding().offset};
    scaled.is_factor = true;
    out.insert_or_assign(t, std::move(scaled));
  }
}

}  // namespace

std::map<uint32_t, TensorDef> widened_tensors(std::span<const TensorDef> tensors,
                                              std::span<const OpDef> ops) {
  const Wiring wiring(tensors.size(), ops);
  std::map<uint32_t, TensorDef> out;
  std::vector<bool> tiled(tensors.size());
  for (const OpDef& op : ops) {
    if (adds_in_tiles(op, tiled, tensors, wiring)) {
      tiled[op.out[0]] = true;
      if (op.type == "ElementWiseAdd")
        out.emplace(op.out[0], tensors[op.out[0]]).first->second.tiled_sum = true;
    }
    if (op.type == "ElementWiseMultiply" && op.in.size() == 2)
      for (const uint32_t t : op.in) {
        const OpDef* maker = t != kNone ? wiring.maker[before_ones(t, tensors, wiring)] : nullptr;
        if (maker && is_gate(*maker, t, tensors, wiring))
          out.emplace(t, tensors[t]).first->second.is_gate = true;
      }
    for (const uint32_t t : written_as_bytes(op, tensors, wiring)) {
      TensorDef& to = out.emplace(t, tensors[t]).first->second;
      to.quantization = ScaleOffset{to.encoding().scale, -128};
    }
    if (is_tiled_product(op, tiled, tensors, wiring))
      out.emplace(op.out[0], tensors[op.out[0]]).first->second.in_tiles = true;
    if (op.type == "Convert" && op.in.size() == 1 && op.in[0] != kNone &&
        tensors[op.in[0]].kind == TensorKind::native && qnn::is_fixed(tensors[op.in[0]].dtype)) {
      TensorDef& converted = out.emplace(op.in[0], tensors[op.in[0]]).first->second;
      if (op.out.size() != 1 || op.out[0] == kNone) continue;
      if (const auto q = converted_sum(op, tensors, wiring)) {
        converted.quantization = *q;
        // What lies between moves numbers as they are.
        for (const OpDef* made = wiring.maker[op.in[0]]; made->type == "Reshape";
             made = wiring.maker[made->in[0]])
          out.emplace(made->in[0], tensors[made->in[0]]).first->second.quantization = *q;
      } else if (is_factor_in_tiles(op, tensors, wiring))
        converted.in_tiles = true;
      else
        place(op.in[0], tensors, wiring, converted);
    }
    if (op.type == "Dequantize" && op.in.size() == 1 && op.in[0] != kNone && op.out.size() == 1 &&
        tensors[op.in[0]].dtype == DataType::ufixed8 && tensors[op.in[0]].kind == TensorKind::native &&
        leaves_in_tiles(op.in[0], tensors, wiring))
      out.emplace(op.in[0], tensors[op.in[0]]).first->second.in_tiles = true;
    widen_for_prelu(op, tensors, wiring, out);
    scale_softmax(op, tensors, wiring, out);
    const bool swish = is_neuron(op, "HardSwish"), relu = is_neuron(op, "Relu");
    if (!(swish || relu) || op.in.empty() || op.in[0] == kNone || op.out.size() != 1) continue;
    const uint32_t t = op.in[0];
    const TensorDef& between = tensors[t];
    const OpDef* made = wiring.maker[t];
    if (!made || wiring.readers[t].size() != 1 || between.kind != TensorKind::native || made->in.size() < 2 ||
        made->in[1] == kNone)
      continue;
    if (relu ? !merges_relu(*made, tensors, tensors[op.out[0]]) : !hands_on_sums(*made, tensors)) continue;
    const TensorDef &x = tensors[made->in[0]], &weights = tensors[made->in[1]];
    const auto all_are = [&](DataType dtype) {
      return x.dtype == dtype && between.dtype == dtype && tensors[op.out[0]].dtype == dtype;
    };
    const bool known = weights.is_constant() && has_known_bias(*made, tensors);
    if (relu) {
      if (!known || !(all_are(DataType::ufixed8) || all_are(DataType::ufixed16)) ||
          qnn::size_of(weights.dtype) != 1)
        continue;
      TensorDef& cut = out.emplace(t, between).first->second;
      cut.quantization = tensors[op.out[0]].quantization;
      const bool in_whole_tiles =
          made->type == "FullyConnected" && has_one_matrix(x) && has_whole_tiles(rows_of(x));
      cut.cut_at_zero = cut.encoding().offset != 0 && !in_whole_tiles;
      continue;
    }
    std::optional<TensorDef> wide;
    if (known && (all_are(DataType::ufixed8) || all_are(DataType::ufixed16)) && !skips_pixels(*made))
      wide = sums(between, x, weights);
    if (wide) out.emplace(t, std::move(*wide));
  }
  widen_floats(tensors, ops, wiring, out);
  return out;
}

}  // namespace sixfold::emulator
