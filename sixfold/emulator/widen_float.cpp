#include "sixfold/emulator/widen_float.h"

#include <optional>
#include <vector>

namespace sixfold::emulator {
namespace {

enum class Function : uint8_t { sigmoid, tanh, gelu };
enum class Maker : uint8_t { convolution, linear, matmul, sum };

std::optional<Function> function_of(const OpDef& op) {
  if (is_neuron(op, "Sigmoid")) return Function::sigmoid;
  if (is_neuron(op, "Tanh")) return Function::tanh;
  if (is_neuron(op, "Gelu")) return Function::gelu;
  return std::nullopt;
}

class Floats {
 public:
  Floats(std::span<const TensorDef> tensors, const Wiring& wiring)
      : tensors_(tensors), maker_(wiring.maker), readers_(wiring.readers) {}

  // A product that `op` adds a number for each column to.
  std::optional<uint32_t> product_below(const OpDef& op) const {
    if (op.type != "ElementWiseAdd" || op.in.size() != 2 || op.in[0] == kNone || op.in[1] == kNone)
      return std::nullopt;
    for (size_t i = 0; i < 2; ++i)
      if (const OpDef* made = maker_[op.in[i]];
          made && made->type == "MatMul" && is_between(op.in[i]) && is_row(tensors_[op.in[1 - i]], op.in[i]))
        return op.in[i];
    return std::nullopt;
  }

  struct Product {
    std::vector<uint32_t> tensors;  // from what the function reads up to what the matrix unit gives
    bool keeps_sums = false, is_gate = false;
  };
  std::optional<Product> product_of(const OpDef& op) const {
    const auto function = function_of(op);
    if (!function || op.in.empty() || op.in[0] == kNone || tensors_[op.in[0]].dtype != DataType::f32)
      return std::nullopt;
    Product out{{op.in[0]}, true};
    while (const OpDef* made = maker_[out.tensors.back()]) {
      if (made->type != "Reshape" || made->in[0] == kNone) break;
      out.tensors.push_back(made->in[0]);
    }
    const uint32_t result = out.tensors.back();
    const OpDef* made = maker_[result];
    const auto maker = made ? maker_of(*made) : std::nullopt;
    if (!maker || tensors_[result].dtype != DataType::f32) return std::nullopt;
    const OpDef* gated = *function == Function::sigmoid ? product_with_gate(op) : nullptr;
    out.is_gate = gated != nullptr;
    bool alone = true;
    for (const uint32_t t : out.tensors) {
      alone = alone && tensors_[t].kind == TensorKind::native;
      for (const OpDef* reader : readers_[t]) {
        alone = alone && readers_[t].size() == 1;
        const bool rounds = reader == &op || reader == gated || (t != op.in[0] && readers_[t].size() == 1);
        out.keeps_sums = out.keeps_sums && rounds && tensors_[t].kind == TensorKind::native;
      }
    }
    out.keeps_sums = out.keeps_sums && *maker != Maker::sum && made->type != "ElementWiseAdd";
    if (!computes(*function, *maker, tensors_[op.in[0]].dims, alone)) return std::nullopt;
    return out;
  }

 private:
  // The product of x with its sigmoid; null: there is none, or others read the sigmoid.
  const OpDef* product_with_gate(const OpDef& sigmoid) const {
    if (sigmoid.out.size() != 1 || !is_between(sigmoid.out[0])) return nullptr;
    const OpDef* user = readers_[sigmoid.out[0]].front();
    const bool gated = user->type == "ElementWiseMultiply" && user->in.size() == 2 &&
                       (user->in[0] == sigmoid.in[0] || user->in[1] == sigmoid.in[0]);
    return gated ? user : nullptr;
  }
  bool is_between(uint32_t t) const {
    return readers_[t].size() == 1 && tensors_[t].kind == TensorKind::native &&
           tensors_[t].dtype == DataType::f32;
  }
  // Whether `row` is a number for each column of tensor t.
  bool is_row(const TensorDef& row, uint32_t t) const {
    if (tensors_[t].rank() == 0 || row.rank() == 0) return false;
    const int64_t columns = tensors_[t].dims.back();
    return columns > 1 && row.count() == columns && row.dims.back() == columns;
  }

  std::optional<Maker> maker_of(const OpDef& op) const {
    if (op.type == "Conv2d") return Maker::convolution;
    if (op.type == "FullyConnected") return Maker::linear;
    if (op.type == "MatMul") return Maker::matmul;
    if (op.type != "ElementWiseAdd" || op.in.size() != 2 || op.in[0] == kNone || op.in[1] == kNone)
      return std::nullopt;
    const TensorDef &a = tensors_[op.in[0]], &b = tensors_[op.in[1]];
    constexpr uint32_t kFewest = 16;  // channels of a sum that the matrix unit computes
    if (a.dims == b.dims && !a.is_constant() && !b.is_constant() && a.rank() > 0 && a.dims.back() >= kFewest)
      return Maker::sum;
    for (size_t i = 0; i < 2; ++i)
      if (const OpDef* made = maker_[op.in[i]]; made && is_row(tensors_[op.in[1 - i]], op.in[i]))
        return made->type == "ElementWiseAdd" ? std::nullopt : maker_of(*made);
    return std::nullopt;
  }

  // As the library chooses.
  static bool computes(Function function, Maker maker, std::span<const uint32_t> dims, bool alone) {
    int64_t height = 1;
    for (size_t d = 0; d + 2 < dims.size(); ++d) height *= dims[d];
    const uint32_t width = dims.size() > 1 ? dims[dims.size() - 2] : 1;
    constexpr uint32_t kTile = 32, kColumns = 8;
    const bool sigmoid = function == Function::sigmoid;
    if (height > 1 || width == 1) return sigmoid || alone;
    if (maker == Maker::sum) return sigmoid && width <= kTile;
    if (width <= kTile) return sigmoid || alone;
    if (sigmoid) return maker == Maker::matmul ? alone : alone == (width % kColumns == 0);
    if (maker == Maker::convolution) return false;
    return alone && (function == Function::gelu || maker == Maker::matmul);
  }

  std::span<const TensorDef> tensors_;
  const std::vector<const OpDef*>& maker_;
  const std::vector<std::vector<const OpDef*>>& readers_;
};

}  // namespace

void widen_floats(std::span<const TensorDef> tensors, std::span<const OpDef> ops, const Wiring& wiring,
                  std::map<uint32_t, TensorDef>& out) {
  const Floats floats(tensors, wiring);
  const auto wide = [&](uint32_t t) -> TensorDef& { return out.emplace(t, tensors[t]).first->second; };
  for (const OpDef& op : ops) {
    if (const auto t = floats.product_below(op)) wide(*t).keeps_sums = true;
    const auto product = floats.product_of(op);
    if (!product) continue;
    wide(op.in[0]).is_product = true;
    for (const uint32_t t : product->tensors)
      if (product->keeps_sums) wide(t).keeps_sums = true;
    if (product->is_gate) wide(op.out[0]).keeps_sums = true;
  }
}

}  // namespace sixfold::emulator
