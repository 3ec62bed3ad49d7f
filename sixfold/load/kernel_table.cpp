#include "sixfold/load/kernel_table.h"

#include <algorithm>

#include "sixfold/load/prim_table.h"

namespace sixfold {
namespace {

constexpr KernelRow kRows[] = {
#include "sixfold/load/out_variants.inc"
};

}  // namespace

std::span<const KernelRow> kernel_table() { return kRows; }

const KernelRow* find_kernel(std::string_view name) {
  const auto* it = std::lower_bound(std::begin(kRows), std::end(kRows), name,
                                    [](const KernelRow& row, std::string_view n) { return row.name < n; });
  return it != std::end(kRows) && it->name == name ? it : nullptr;
}

std::optional<KernelArgument> KernelArguments::next() {
  if (rest_.empty()) return std::nullopt;
  std::string_view item = rest_.substr(0, rest_.find(','));
  rest_.remove_prefix(std::min(item.size() + 1, rest_.size()));
  KernelArgument out;
  switch (item.back()) {
    case '!':
      out.kind = KernelArgument::result;
      break;
    case '&':
      out.kind = KernelArgument::in_out;
      break;
    case '%':
      out.kind = KernelArgument::dtype;
      break;
    case '~':
      out.kind = KernelArgument::silent;
      break;
    case '@':
      out.kind = KernelArgument::out_dtype;
      break;
    default:
      out.name = item;
      return out;
  }
  out.name = item.substr(0, item.size() - 1);
  return out;
}

std::optional<size_t> kernel_arity(std::string_view name) {
  if (const PrimRow* prim = find_prim(name)) return prim->arity;
  const KernelRow* row = find_kernel(name);
  if (!row) return std::nullopt;
  size_t count = 1;  // what it returns
  KernelArguments arguments(*row);
  while (const auto a = arguments.next()) count += a->kind != KernelArgument::out_dtype;
  return count;
}

}  // namespace sixfold
