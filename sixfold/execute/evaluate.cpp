#include "sixfold/execute/evaluate.h"

#include <cstring>

#include "sixfold/execute/executor.h"

namespace sixfold {

Result<std::vector<Tensor>> evaluate(Op op, std::span<const Tensor> inputs, const Attrs& attrs,
                                     Allocator& allocator) {
  FlatProgram program;
  std::vector<Type> types;
  ProgramStep step{op, {}, {}, attrs, std::string(to_text(op))};
  for (const Tensor& t : inputs) {
    types.push_back({t.dtype, to_dims(t.shape)});
    if (t.dtype == DType::none) {
      step.inputs.push_back(kNoSlot);
      continue;
    }
    step.inputs.push_back(static_cast<Slot>(program.values.size()));
    program.values.push_back({ProgramValue::constant, t.dtype, t.shape, t, ""});
  }
  SF_ASSIGN(const std::vector<Type> out_types, infer_types(op, types, attrs));
  for (const Type& t : out_types) {
    if (!is_static(t.dims)) return unsupported("the result ", t, " is symbolic");
    step.outputs.push_back(static_cast<Slot>(program.values.size()));
    program.outputs.push_back(step.outputs.back());
    program.values.push_back({ProgramValue::temporary, t.dtype, static_shape(t.dims), {}, ""});
  }
  program.steps.push_back(std::move(step));
  SF_ASSIGN(Plan plan, make_plan(std::move(program), {.allocator = &allocator}));
  cpu::Pool pool(1);
  SF_ASSIGN(const std::unique_ptr<Executor> executor, Executor::create(std::move(plan), pool, allocator));
  SF_TRY(executor->run({}));
  std::vector<Tensor> results;
  for (size_t i = 0; i < out_types.size(); ++i) {
    std::byte* bytes = nullptr;
    SF_ASSIGN(Tensor t,
              Tensor::allocate(allocator, out_types[i].dtype, static_shape(out_types[i].dims), &bytes));
    std::memcpy(bytes, executor->output(i), t.size_bytes());
    results.push_back(std::move(t));
  }
  return results;
}

}  // namespace sixfold
