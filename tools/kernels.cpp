// sixfold kernels: what programs need of the runtime, as the header of a selective build.
#include <cstdio>
#include <set>

#include "sixfold/base/mapped_file.h"
#include "sixfold/execute/method.h"
#include "sixfold/ops/aten.h"
#include "sixfold/pte/verify.h"
#include "tools/command.h"

namespace sixfold::tools {
namespace {

struct Needs {
  std::set<std::string> kernels, rules, families;
  Usage usage;
};

void note_kernels(const pte::Method& method, Needs& needs) {
  for (const pte::Value& value : method.values)
    if (const auto* t = std::get_if<pte::Tensor>(&value); t && t->location != pte::Location::segment)
      needs.kernels.insert("external data");
  for (const pte::Operator& op : method.operators) {
    const KernelRow* row = find_kernel(pte::kernel_name(op));
    if (!row && find_prim(pte::kernel_name(op))) needs.kernels.insert(pte::kernel_name(op));
    if (!row) continue;
    needs.kernels.insert(row->name);
    needs.rules.insert(row->target);
    for (const aten::Family& family : aten::families())
      for (const AtenRule& rule : family.rules)
        if (rule.target == std::string_view(row->target)) needs.families.insert(family.name);
  }
}

// Zeros of the largest sizes: for calls that are prepared with data alone.
Status run_on_zeros(Method& method) {
  std::vector<std::vector<std::byte>> zeros(method.input_count());
  for (size_t i = 0; i < method.input_count(); ++i) {
    const auto* t = std::get_if<TensorState>(&method.input(i));
    if (!t || t->constant) continue;
    zeros[i].resize(t->size_bytes() + 16);
    SF_TRY(method.set_input(i, TensorView{t->dtype, t->sizes, t->dim_order, zeros[i].data()}));
  }
  return method.execute();
}

Status note_program(const Program& program, Needs& needs) {
  for (const pte::Method& plan : program.methods()) {
    note_kernels(plan, needs);
    usage_of_this_thread() = &needs.usage;
    auto method = Method::load(program, plan.name, {.prepare_varying = true});
    // Zeros need not be data that the method takes: what it prepared up to there is noted.
    if (method.ok()) Status ignored = run_on_zeros(**method);
    usage_of_this_thread() = nullptr;
    if (!method.ok()) return method.take_error();
  }
  return {};
}

template <typename List>
std::string array(std::string_view name, const List& items) {
  std::string out = cat("inline constexpr std::string_view ", name, "[] = {\"\"");
  for (const auto& item : items) out += cat(", \"", item, "\"");
  return out + "};\n";
}

}  // namespace

Status kernels_command(const KernelsOptions& options) {
  Needs needs;
  LoadOptions load;
  load.data_files = options.data_files;
  for (const std::string& path : options.programs) {
    SF_ASSIGN(const Program program, Program::open(path, load));
    if (Status s = note_program(program, needs); !s.ok()) return s.take_error().during(cat("reading ", path));
  }
  // A layout that differs from the one that a kernel takes is brought about by these.
  needs.usage.ops.insert({Op::permute, Op::to});
  needs.usage.dtypes.insert(DType::f32);
  needs.usage.dtypes.erase(DType::none);
  std::vector<std::string_view> ops, dtypes;
  for (const Op op : needs.usage.ops) ops.push_back(to_text(op));
  for (const DType dtype : needs.usage.dtypes)
    dtypes.push_back(dtype == DType::boolean ? "boolean" : to_text(dtype));
  const std::string text =
      cat("// Written by `sixfold kernels`: what a selective build keeps.\n",
          "namespace sixfold::selection {\n", array("kKeptKernels", needs.kernels),
          array("kKeptRules", needs.rules), array("kKeptFamilies", needs.families), array("kKeptOps", ops),
          array("kKeptDTypes", dtypes), "}  // namespace sixfold::selection");
  if (options.output.empty()) {
    print_line(text);
    return {};
  }
  const auto bytes = std::as_bytes(std::span(text));
  return write_file(options.output, std::span(&bytes, 1));
}

}  // namespace sixfold::tools
