#include "sixfold/package/out_kernels.h"

#include <cassert>
#include <map>

namespace sixfold {
namespace {

struct Row {
  std::string_view target, kernel, schema;
};
constexpr Row kRows[] = {
#include "sixfold/package/out_kernels.inc"
};

std::map<std::string_view, OutKernel> parse_rows() {
  std::map<std::string_view, OutKernel> out;
  for (const Row& row : kRows) {
    const size_t dot = std::min(row.kernel.find('.'), row.kernel.size());
    auto schema = parse_schema(row.target, row.schema);
    assert(schema);
    out[row.target] = {row.kernel.substr(0, dot), row.kernel.substr(std::min(dot + 1, row.kernel.size())),
                       std::move(*schema)};
  }
  return out;
}

}  // namespace

const OutKernel* find_out_kernel(std::string_view target) {
  static const std::map<std::string_view, OutKernel> kernels = parse_rows();
  const auto it = kernels.find(target);
  return it == kernels.end() ? nullptr : &it->second;
}

}  // namespace sixfold
