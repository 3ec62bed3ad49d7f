#include "sixfold/emulator/tiles.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

namespace sixfold::emulator {

bool is_wide(const TensorDef& t) { return qnn::is_fixed(t.dtype) && qnn::size_of(t.dtype) == 2; }

uint32_t rows_of(const TensorDef& t) { return t.rank() > 1 ? t.dims[t.rank() - 2] : 1; }

bool has_whole_tiles(uint32_t rows) { return rows > 8 && rows % 8 == 0; }

bool has_one_matrix(const TensorDef& t) {
  for (size_t d = 0; d + 2 < t.rank(); ++d)
    if (t.dims[d] != 1) return false;
  return true;
}

std::vector<uint32_t> axes_of(const TensorDef& t) {  // but those of one
  std::vector<uint32_t> out;
  std::ranges::copy_if(t.dims, std::back_inserter(out), [](uint32_t extent) { return extent != 1; });
  return out;
}

// A Reshape that adds or drops axes of one.
static bool is_same_in_other_axes(const OpDef& op, std::span<const TensorDef> tensors) {
  return op.type == "Reshape" && !op.in.empty() && op.in[0] != kNone &&
         axes_of(tensors[op.in[0]]) == axes_of(tensors[op.out[0]]);
}

// What made t, before axes of one were added or dropped.
static const OpDef* maker_past_ones(uint32_t t, std::span<const TensorDef> tensors, const Wiring& wiring) {
  const OpDef* made = wiring.maker[t];
  while (made && is_same_in_other_axes(*made, tensors)) made = wiring.maker[made->in[0]];
  return made;
}

// The op whose results the device computed into its tiles, if tensor t has them there.
static const OpDef* made_in_tiles(uint32_t t, std::span<const TensorDef> tensors, const Wiring& wiring) {
  bool same_axes = true;
  const OpDef* made = wiring.maker[t];
  for (; made && made->type == "Reshape" && !made->in.empty() && made->in[0] != kNone;
       made = wiring.maker[made->in[0]]) {
    const std::vector<uint32_t> from = axes_of(tensors[made->in[0]]), to = axes_of(tensors[made->out[0]]);
    if (from.empty() || to.empty() || from.back() != to.back()) return nullptr;
    same_axes = same_axes && from == to;
  }
  if (!made) return nullptr;
  if (made->type == "FullyConnected") return made;
  if (!same_axes) return nullptr;
  if (made->type == "MatMul")
    return made->in.size() > 1 && made->in[1] != kNone && has_one_matrix(tensors[made->in[1]]) ? made
                                                                                               : nullptr;
  for (const char* type : {"Conv2d", "DepthWiseConv2d", "TransposeConv2d", "ElementWiseAdd", "LayerNorm",
                           "RmsNorm", "Softmax", "PoolAvg2d"})
    if (made->type == type) return made;
  return nullptr;
}

// Which axes of what it reads a Transpose's result has; none where it cannot say.
static std::vector<uint32_t> order_of(const OpDef& transpose, size_t rank) {
  for (const ParamDef& p : transpose.params) {
    if (p.name != "perm" || p.bytes.size() != rank * sizeof(uint32_t)) continue;
    std::vector<uint32_t> order(rank);
    std::memcpy(order.data(), p.bytes.data(), p.bytes.size());
    return order;
  }
  return {};
}

void place(uint32_t t, std::span<const TensorDef> tensors, const Wiring& wiring, TensorDef& out) {
  const OpDef* made = maker_past_ones(t, tensors, wiring);
  if (!made || made->type != "Transpose" || made->in.empty() || made->in[0] == kNone) {
    out.in_tiles = made_in_tiles(t, tensors, wiring) != nullptr;
    return;
  }
  const TensorDef& before = tensors[made->in[0]];
  std::vector<uint32_t> order = order_of(*made, before.rank());
  if (order.empty()) return;
  std::erase_if(order, [&](uint32_t axis) { return before.dims[axis] == 1; });
  const OpDef* maker = made_in_tiles(made->in[0], tensors, wiring);
  const auto is = [maker](const char* type) { return maker && maker->type == type; };
  const bool last_is_first =
      order.size() > 2 && order.front() > order.back() && std::is_sorted(order.begin() + 1, order.end());
  if (is("FullyConnected") || is("Conv2d") || is("DepthWiseConv2d") || is("TransposeConv2d") ||
      is("Softmax") || (last_is_first && before.kind == TensorKind::native)) {
    out.in_tiles = true;
    return;
  }
  std::vector<uint32_t> strides(before.rank(), 1);
  for (size_t d = before.rank(); d-- > 1;) strides[d - 1] = strides[d] * before.dims[d];
  out.places.assign(out.rank(), 0);
  for (size_t d = 0, axis = 0; d < out.rank(); ++d)
    if (out.dims[d] != 1) out.places[d] = strides[order[axis++]];
}

// The first axis that an op makes longer or shorter.
static size_t first_changed_axis(const OpDef& op, std::span<const TensorDef> tensors) {
  const std::vector<uint32_t>&from = tensors[op.in[0]].dims, &to = tensors[op.out[0]].dims;
  return static_cast<size_t>(std::ranges::mismatch(from, to).in1 - from.begin());
}

// What is computed number by number from 16 bits lies as its operand does.
static bool keeps_places(const OpDef& op, std::span<const TensorDef> tensors) {
  constexpr std::string_view kFunctions[] = {"Quantize", "Sigmoid", "Tanh", "Relu", "HardSwish"};
  return std::ranges::find(kFunctions, op.type) != std::end(kFunctions) ||
         (op.type == "Convert" && is_wide(tensors[op.in[0]]));
}

bool is_factor_in_tiles(const OpDef& convert, std::span<const TensorDef> tensors, const Wiring& wiring) {
  const uint32_t t = convert.in[0], y = convert.out[0];
  const auto multiplies = [&](const OpDef* reader) {
    return reader->type == "MatMul" && reader->in.size() > 1 && reader->in[0] != y && reader->in[1] == y;
  };
  const TensorDef& x = tensors[t];
  if (!is_wide(x) || !is_wide(tensors[y]) || x.rank() < 2 || wiring.readers[y].empty() ||
      !std::ranges::all_of(wiring.readers[y], multiplies))
    return false;
  const size_t rank = x.rank(), rows = rank - 2;
  uint32_t matrices = 1;
  for (size_t d = 0; d < rows; ++d) matrices *= x.dims[d];
  const uint32_t heads = rows > 0 ? x.dims[rows - 1] : 1;
  const bool many = heads > 1 && matrices > 2, batches = many && matrices > heads;
  const OpDef* made = wiring.maker[t];
  if (!made || made->in.empty() || made->in[0] == kNone) return false;
  if (made->type == "Transpose") {
    std::vector<uint32_t> order = order_of(*made, tensors[made->in[0]].rank());
    if (order.size() < 2) return false;
    std::swap(order[order.size() - 2], order.back());
    if (!batches && !std::ranges::is_sorted(order)) return false;
    while (made && (made->type == "Transpose" || made->type == "Reshape") && !made->in.empty() &&
           made->in[0] != kNone)
      made = wiring.maker[made->in[0]];
    if (!made || made->in.empty() || made->in[0] == kNone) return made != nullptr;
    if (keeps_places(*made, tensors)) return false;
    // A part of the first axis goes before what was transposed before.
    return batches || made->type != "StridedSlice" || first_changed_axis(*made, tensors) != 0;
  }
  const bool reshaped = made->type == "Reshape";
  made = maker_past_ones(t, tensors, wiring);
  if (!made || made->in.empty() || made->in[0] == kNone) return false;
  if (made->type == "Convert") return qnn::size_of(tensors[made->in[0]].dtype) == 1;
  if (made->type == "Tile") return many;
  if (made->type == "ElementWiseMultiply") return many && has_whole_tiles(rows_of(x));
  const size_t axis = first_changed_axis(*made, tensors), own = tensors[made->out[0]].rank();
  if (made->type == "Concat") return many && axis + 2 >= own;
  if (made->type != "StridedSlice") return false;
  if (axis + 1 < own) return batches && reshaped && axis == 0;
  // The device takes the part before it transposes, unless others read the whole.
  const OpDef* before = wiring.maker[made->in[0]];
  const bool moves = before && before->type == "Transpose" && wiring.readers[made->in[0]].size() == 1;
  return moves ? batches : many;
}

std::optional<qnn::ScaleOffset> converted_sum(const OpDef& convert, std::span<const TensorDef> tensors,
                                              const Wiring& wiring) {
  uint32_t t = convert.in[0];
  const OpDef* made = wiring.maker[t];
  for (; made && is_same_in_other_axes(*made, tensors) && wiring.readers[t].size() == 1;
       made = wiring.maker[t])
    t = made->in[0];
  if (!made || made->type != "ElementWiseAdd" || wiring.readers[t].size() != 1 ||
      tensors[t].kind != TensorKind::native)
    return std::nullopt;
  const TensorDef &x = tensors[convert.in[0]], &y = tensors[convert.out[0]];
  const auto is_signed = [](const TensorDef& t) {
    return t.dtype == DataType::sfixed8 || t.dtype == DataType::sfixed16;
  };
  if (!qnn::is_fixed(y.dtype) || y.is_per_channel() || qnn::size_of(x.dtype) != qnn::size_of(y.dtype) ||
      qnn::size_of(y.dtype) > 2)
    return std::nullopt;
  qnn::ScaleOffset q = y.encoding();
  q.offset += ((is_signed(x) ? 1 : 0) - (is_signed(y) ? 1 : 0)) * (is_wide(y) ? 32768 : 128);
  return q;
}

// Whether op reads tensor t in tiles, so that what made it computes there, too.
static bool reads_tiles(const OpDef& op, uint32_t t, std::span<const TensorDef> tensors,
                        const Wiring& wiring) {
  if (op.in.empty() || op.in[0] != t || op.out.empty() || op.out[0] == kNone) return false;
  if (op.type == "LayerNorm" || op.type == "FullyConnected") return true;
  if (op.type == "Reshape") {
    const auto& readers = wiring.readers[op.out[0]];
    return !readers.empty() && std::ranges::all_of(readers, [&](const OpDef* next) {
      return next->type == "FullyConnected" && next->in[0] == op.out[0];
    });
  }
  // Matrices of whole tiles' rows are one matrix.
  const TensorDef& x = tensors[t];
  return op.type == "MatMul" && x.rank() > 1 && (has_one_matrix(x) || x.dims[x.rank() - 2] % 8 != 0);
}

bool is_tiled_product(const OpDef& op, const std::vector<bool>& tiled, std::span<const TensorDef> tensors,
                      const Wiring& wiring) {
  if (op.type != "ElementWiseMultiply" || op.in.size() != 2 || op.out.size() != 1) return false;
  const uint32_t y = op.out[0];
  if (op.in[0] == kNone || op.in[1] == kNone) return false;
  const bool first = tensors[op.in[0]].is_constant();
  const TensorDef &one = tensors[op.in[first ? 0 : 1]], &x = tensors[op.in[first ? 1 : 0]];
  if (!one.is_constant() || one.count() != 1 || x.is_constant() || !is_wide(one) || !is_wide(x) ||
      !is_wide(tensors[y]) || x.dims != tensors[y].dims)
    return false;
  const uint32_t of = op.in[first ? 1 : 0];
  if (tiled[of] && wiring.maker[of] && wiring.maker[of]->type == "Convert") return true;
  return tensors[y].kind == TensorKind::native && !wiring.readers[y].empty() &&
         std::ranges::all_of(wiring.readers[y],
                             [&](const OpDef* reader) { return reads_tiles(*reader, y, tensors, wiring); });
}

static bool is_wide_sum(const OpDef* op, std::span<const TensorDef> tensors) {
  return op && (op->type == "ElementWiseAdd" || op->type == "ElementWiseSubtract") && op->in.size() == 2 &&
         op->out.size() == 1 && op->in[0] != kNone && op->in[1] != kNone &&
         std::ranges::all_of(std::array{op->in[0], op->in[1], op->out[0]}, [&](uint32_t t) {
           return is_wide(tensors[t]) && tensors[t].dims == tensors[op->out[0]].dims;
         });
}

bool adds_in_tiles(const OpDef& op, const std::vector<bool>& tiled, std::span<const TensorDef> tensors,
                   const Wiring& wiring) {
  if (op.in.empty() || op.in[0] == kNone || op.out.size() != 1 || op.out[0] == kNone) return false;
  const TensorDef &x = tensors[op.in[0]], &y = tensors[op.out[0]];
  if (!is_wide(y)) return false;
  if (op.type == "Convert") {
    const size_t n = y.rank();
    const bool one_tile = n > 1 && y.dims[n - 2] == 8 && (n < 3 || y.dims[n - 3] == 1);
    return qnn::is_fixed(x.dtype) && qnn::size_of(x.dtype) == 1 && !one_tile;
  }
  if (op.type == "FullyConnected") return is_wide(x);
  if (op.type == "MatMul") {
    const uint32_t rows = rows_of(x);
    return is_wide(x) && rows != 12 && rows != 20 && rows != 28 && op.in.size() > 1 && op.in[1] != kNone &&
           tensors[op.in[1]].is_constant() && has_one_matrix(tensors[op.in[1]]);
  }
  if (!is_wide_sum(&op, tensors) || x.kind != TensorKind::native ||
      tensors[op.in[1]].kind != TensorKind::native)
    return false;
  return tiled[op.in[1]] && (tiled[op.in[0]] || is_wide_sum(wiring.maker[op.in[0]], tensors));
}

bool leaves_in_tiles(uint32_t t, std::span<const TensorDef> tensors, const Wiring& wiring) {
  const auto maker = [&](uint32_t of) {
    const OpDef* made = wiring.maker[of];
    while (made && made->type == "Reshape" && !made->in.empty() && made->in[0] != kNone)
      made = wiring.maker[made->in[0]];
    return made;
  };
  const OpDef* made = maker(t);
  if (!made || made->type != "FullyConnected" || made->out.empty() || made->in.empty() ||
      made->in[0] == kNone)
    return false;
  const TensorDef& y = tensors[made->out[0]];
  if (y.rank() < 2 || !has_one_matrix(y)) return false;
  const uint32_t rows = rows_of(y), columns = y.dims.back();
  const bool whole = has_whole_tiles(rows);
  if (columns > 2048 && !whole) return true;
  if (uint64_t{rows} * columns <= 6300 || columns < (whole && rows < 128 ? 256 : 512)) return false;
  const OpDef* before = maker(made->in[0]);
  if (before && before->type == "Convert" && !before->in.empty() && before->in[0] != kNone)
    before = maker(before->in[0]);
  return !whole || (before && (before->type == "LayerNorm" || before->type == "RmsNorm" ||
                               before->type == "ElementWiseAdd"));
}

}  // namespace sixfold::emulator
