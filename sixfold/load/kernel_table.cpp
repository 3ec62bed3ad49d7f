#include "sixfold/load/kernel_table.h"

#include <algorithm>
#include <array>

#include "sixfold/base/selection.h"
#include "sixfold/load/prim_table.h"

namespace sixfold {
namespace {

// A row of the table that keeps its place in a selective build, or vanishes.
struct Candidate : KernelRow {
  consteval Candidate(const char* n, const char* t, const char* a)
      : KernelRow{n, t, a}, kept(keeps(Part::kernel, n)) {}
  bool kept;
};
consteval auto candidates() {
  return std::to_array<Candidate>({
#include "sixfold/load/out_variants.inc"
  });
}
consteval size_t kept_count() {
  size_t n = 0;
  for (const Candidate& c : candidates()) n += c.kept;
  return n;
}
consteval auto kept_rows() {
  std::array<KernelRow, kept_count()> out{};
  size_t n = 0;
  for (const Candidate& c : candidates())
    if (c.kept) out[n++] = c;
  return out;
}
constexpr auto kRows = kept_rows();

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
