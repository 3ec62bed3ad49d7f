#include "sixfold/emulator/rules.h"

namespace sixfold::emulator {

Status check_rules(const OpView&, const DeviceModel&) { return {}; }

Status check_encodings(const OpView& op) {
  for (const bool output : {false, true}) {
    const auto& list = output ? op.outputs : op.inputs;
    for (size_t i = 0; i < list.size(); ++i) {
      const TensorDef& t = *list[i];
      const bool activation = t.dtype == DataType::ufixed8 || t.dtype == DataType::sfixed8 ||
                              t.dtype == DataType::ufixed16 || t.dtype == DataType::sfixed16;
      if (!t.is_present() || !activation) continue;
      if (std::holds_alternative<std::monostate>(t.quantization))
        return invalid_argument(output ? "out[" : "in[", i, "] (", t.name, ") of ", op.type, " is ",
                                qnn::to_text(t.dtype), " and has no encoding");
      if (!t.is_per_channel() && !(t.encoding().scale > 0))
        return invalid_argument(output ? "out[" : "in[", i, "] (", t.name, ") of ", op.type, " has scale ",
                                t.encoding().scale);
    }
  }
  return {};
}

}  // namespace sixfold::emulator
