#include "sixfold/ops/op.h"
#include "sixfold/ops/special/functions.h"

namespace sixfold::infer {

InferResult special(const InferCall& call) {
  const std::string name = call.attrs.text("function");
  const bool integers = name == "gcd";
  const special::Function* function = special::find(name);
  const size_t operands = integers || name == "nextafter" ? 2
                          : function                      ? static_cast<size_t>(function->operands)
                                                          : 0;
  if (operands == 0) return invalid_model("no special function is named '", name, "'");
  if (call.in.size() != operands)
    return invalid_model(name, " has ", call.in.size(), " operands, expected ", operands);
  for (const Type& x : call.in) {
    if (x != call.in[0]) return invalid_model(name, " of ", call.in[0], " and ", x, ", expected equal types");
    if (is_float(x.dtype) == integers || x.dtype == DType::boolean)
      return invalid_model(name, " of ", x, ", expected ", integers ? "integers" : "floats");
  }
  return std::vector<Type>{call.in[0]};
}

}  // namespace sixfold::infer
