#include "sixfold/ops/op.h"

#include <array>

namespace sixfold {
namespace {

constexpr std::array<std::string_view, kOpCount> kNames = {
    "call",
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) #id,
#include "sixfold/ops/aten.def"
#undef OP
};
constexpr std::array<Layout, kOpCount> kLayouts = {
    Layout::plain,
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) Layout::layout,
#include "sixfold/ops/aten.def"
#undef OP
};

}  // namespace

Usage*& usage_of_this_thread() {
  static thread_local Usage* usage = nullptr;
  return usage;
}

std::string_view to_text(Op op) { return kNames[static_cast<size_t>(op)]; }
Layout layout_of(Op op) { return kLayouts[static_cast<size_t>(op)]; }

std::optional<Op> find_op(std::string_view name) {
  for (size_t i = 1; i < kOpCount; ++i)
    if (kNames[i] == name) return static_cast<Op>(i);
  return std::nullopt;
}

}  // namespace sixfold
