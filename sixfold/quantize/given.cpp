#include "sixfold/quantize/given.h"

namespace sixfold {

Encoding unit_grid(int bits) {
  Encoding e = encoding_for({0, 1}, bits, /*symmetric=*/false);
  e.scales[0] = 1.0f / static_cast<float>(e.quant_max + 1);
  e.zero_points[0] = 0;
  return e;
}
Encoding signed_unit_grid() {
  Encoding e = encoding_for({-1, 1}, 16, /*symmetric=*/false);
  e.scales[0] = 1.0f / 32768;
  e.zero_points[0] = 32768;
  return e;
}

namespace {

std::string told(const Encoding& e) { return cat(e.storage, " in steps of ", e.scales[0]); }

// The device's grid, where it has one only.
std::optional<Encoding> own_grid(const Node& node, int bits) {
  const QuantizeRule rule = quantize_rule(node.op);
  if (rule == QuantizeRule::unit) return unit_grid(bits);
  if (rule == QuantizeRule::signed_unit && bits == 16) return signed_unit_grid();
  return {};
}

}  // namespace

void tell_given(const Graph& graph, const Node& node, QuantizePlan& plan) {
  if (node.outputs.empty() || !is_float(graph.dtype(node.output()))) return;
  const auto violate = [&](const char* reason, const std::string& instead) {
    plan.violations[reason].push_back(cat(graph.origin(node).name, " ", instead));
  };
  const auto& result = graph.value(node.output()).encoding;
  if (result)
    if (const auto own = own_grid(node, size_of(result->storage) == 1 ? 8 : 16); own && *own != *result)
      violate("sigmoid, hardsigmoid and, in 16 bits, tanh have a grid of their own [htp.fixed.1]",
              cat("has ", told(*result), ", the device's own are ", own->scales[0]));
  const QuantizeRule rule = quantize_rule(node);
  const bool moves = rule == QuantizeRule::move || rule == QuantizeRule::join;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.input(i);
    if (!v.valid() || graph.constant(v) || !graph.value(v).encoding || graph.value(v).encoding->axis >= 0)
      continue;
    const Encoding& given = *graph.value(v).encoding;
    const std::string& name = graph.value(v).name;
    if (rule == QuantizeRule::product && i == 1 && given.storage == DType::u16)
      violate("the second operand of a product is symmetric in 16 bits [htp.matmul.2]",
              cat("reads ", name, " requantized to i16"));
    if (!result) continue;
    if (moves && given != *result && (i == 0 || rule == QuantizeRule::join))
      violate("elements that are only moved keep their encoding [htp.shared.1]",
              cat("requantizes ", name, " from ", told(given), " to ", told(*result)));
    if ((rule == QuantizeRule::compute || rule == QuantizeRule::weights || rule == QuantizeRule::norm ||
         rule == QuantizeRule::product) &&
        i == 0 && size_of(given.storage) != size_of(result->storage))
      violate("operands are as wide as the result [htp.dtype.1]",
              cat("reads ", name, " requantized from ", given.storage, " to ", result->storage));
  }
}

}  // namespace sixfold
