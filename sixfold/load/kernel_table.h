// The kernels that a .pte may call, and what each computes: a functional ATen overload, whose rule in
// ops/*/aten*.cpp is the meaning of the kernel too.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "sixfold/base/result.h"

namespace sixfold {

struct KernelRow {
  const char* name;       // "aten::add.out"
  const char* target;     // "aten.add.Tensor"
  const char* arguments;  // "self,other,alpha,out!": tools/gen_out_variants.py says how to read it
};

// Null for a kernel that is not in this build.
const KernelRow* find_kernel(std::string_view name);
std::span<const KernelRow> kernel_table();

// Arguments of a row, one after the other.
struct KernelArgument {
  enum Kind : uint8_t {
    plain,
    result,     // written
    in_out,     // read, then written
    dtype,      // a dtype as torch's number
    silent,     // says nothing about values
    out_dtype,  // no argument of the call: the dtype of the first result
  } kind = plain;
  std::string_view name;
};
class KernelArguments {
 public:
  explicit KernelArguments(const KernelRow& row) : rest_(row.arguments) {}
  std::optional<KernelArgument> next();

 private:
  std::string_view rest_;
};

// How many arguments a call of the kernel has, the returned one counted; also of the prims. Nothing for an
// unknown kernel.
std::optional<size_t> kernel_arity(std::string_view name);

}  // namespace sixfold
