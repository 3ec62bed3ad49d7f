#include "sixfold/emulator/widen.h"

#include <vector>

namespace sixfold::emulator {
namespace {

constexpr int32_t kParts = 32, kRoom = 16384;  // the kernels' sums of 8 bits have no more parts

bool is_hard_swish(const OpDef& op) {
  if (op.type == "HardSwish") return true;
  if (op.type != "ElementWiseNeuron") return false;
  for (const ParamDef& p : op.params)
    if (p.name == "operation") return static_cast<uint32_t>(p.bits) == 3;
  return false;
}

}  // namespace

std::map<uint32_t, TensorDef> widened_tensors(std::span<const TensorDef> tensors,
                                              std::span<const OpDef> ops) {
  std::vector<uint32_t> readers(tensors.size(), 0);
  std::vector<const OpDef*> maker(tensors.size(), nullptr);
  for (const OpDef& op : ops) {
    for (const uint32_t t : op.in)
      if (t != kNone) ++readers[t];
    for (const uint32_t t : op.out)
      if (t != kNone) maker[t] = &op;
  }
  std::map<uint32_t, TensorDef> out;
  for (const OpDef& op : ops) {
    if (!is_hard_swish(op) || op.in.empty() || op.in[0] == kNone || op.out.size() != 1) continue;
    const uint32_t t = op.in[0];
    const TensorDef& between = tensors[t];
    const OpDef* made = maker[t];
    if (!made || readers[t] != 1 || between.kind != TensorKind::native ||
        between.dtype != DataType::ufixed8 || tensors[op.out[0]].dtype != DataType::ufixed8)
      continue;
    if ((made->type != "Conv2d" && made->type != "DepthWiseConv2d") || made->in.size() < 2 ||
        made->in[1] == kNone || !tensors[made->in[1]].is_constant() ||
        tensors[made->in[0]].dtype != DataType::ufixed8)
      continue;
    const auto* q = std::get_if<ScaleOffset>(&between.quantization);
    if (!q || q->offset > 0 || q->offset < -255) continue;
    TensorDef wide = between;
    wide.dtype = DataType::ufixed16;
    wide.quantization = ScaleOffset{q->scale / kParts, q->offset * kParts - kRoom};
    out.emplace(t, std::move(wide));
  }
  return out;
}

}  // namespace sixfold::emulator
