#include "sixfold/execute/facts.h"

#include <algorithm>

#include "sixfold/load/kernel_table.h"
#include "sixfold/load/prim_table.h"
#include "sixfold/pte/verify.h"

namespace sixfold {
namespace {

using pte::Index;

class Finder {
 public:
  explicit Finder(const pte::Method& method) : method_(method), written_(method.values.size()) {
    facts_.varies = std::make_unique<bool[]>(method.values.size());
    facts_.read = std::make_unique<bool[]>(method.values.size());
  }

  MethodFacts find() {
    for (size_t i = 0; i < method_.values.size(); ++i)
      if (const auto* t = std::get_if<pte::Tensor>(&method_.values[i]))
        facts_.varies[i] = t->dynamism != pte::Dynamism::fixed;
    for (const Index i : method_.inputs) write(i);
    for (const Index i : method_.outputs) read(i);
    for (const auto& chain : method_.chains)
      for (const pte::Instruction& instruction : chain) visit(instruction);
    read_views();
    return std::move(facts_);
  }

 private:
  template <typename F>
  void each(Index i, F f) {  // the value, and what it lists
    if (i < 0) return;
    f(static_cast<size_t>(i));
    if (const auto* tensors = std::get_if<pte::TensorList>(&method_.values[static_cast<size_t>(i)]))
      for (const Index item : tensors->items)
        if (item >= 0) f(static_cast<size_t>(item));
  }
  void read(Index i) {
    each(i, [&](size_t v) { facts_.read[v] = true; });
  }
  void write(Index i) {
    each(i, [&](size_t v) { written_[v] = true; });
  }
  void vary(Index i) {
    write(i);
    facts_.varies[static_cast<size_t>(i)] = true;
  }

  void visit(const pte::Instruction& instruction) {
    if (const auto* call = std::get_if<pte::KernelCall>(&instruction)) {
      visit(*call);
    } else if (const auto* delegate = std::get_if<pte::DelegateCall>(&instruction)) {
      for (const Index i : delegate->args) {
        read(i);
        write(i);
      }
    } else if (const auto* move = std::get_if<pte::Move>(&instruction)) {
      read(move->from);
      vary(move->to);
    } else if (const auto* jump = std::get_if<pte::JumpFalse>(&instruction)) {
      read(jump->condition);
    }
  }

  void visit(const pte::KernelCall& call) {
    const std::string name = pte::kernel_name(method_.operators[call.operator_index]);
    if (const PrimRow* prim = find_prim(name)) {
      for (const Index i : call.args) read(i);
      vary(prim->prim == Prim::copy_index ? call.args[0] : call.args.back());
      return;
    }
    const KernelRow* row = find_kernel(name);
    if (!row) return;  // refused elsewhere
    KernelArguments arguments(*row);
    for (const Index i : call.args) {
      const auto a = arguments.next();
      if (!a || a->kind == KernelArgument::out_dtype) break;  // what it returns
      if (a->kind != KernelArgument::result) read(i);
      if (a->kind == KernelArgument::result || a->kind == KernelArgument::in_out) write(i);
    }
  }

  // A view without an instruction is a tensor that is read, and never written under its own name: what lies
  // in the same memory is read through it.
  void read_views() {
    struct Range {
      uint32_t memory;
      uint64_t begin, end;
    };
    std::vector<Range> views;
    const auto range_of = [&](size_t i) -> std::optional<Range> {
      const auto* t = std::get_if<pte::Tensor>(&method_.values[i]);
      if (!t || !t->allocation) return std::nullopt;
      return Range{t->allocation->memory_id, t->allocation->offset,
                   t->allocation->offset + pte::size_bytes(*t).value_or(0)};
    };
    for (size_t i = 0; i < written_.size(); ++i)
      if (const auto r = range_of(i); r && facts_.read[i] && !written_[i]) views.push_back(*r);
    if (views.empty()) return;
    std::sort(views.begin(), views.end(), [](const Range& a, const Range& b) {
      return a.memory != b.memory ? a.memory < b.memory : a.begin < b.begin;
    });
    size_t kept = 0;  // merged, so that the one before a place is the only one that can reach it
    for (size_t i = 1; i < views.size(); ++i) {
      if (views[i].memory == views[kept].memory && views[i].begin <= views[kept].end)
        views[kept].end = std::max(views[kept].end, views[i].end);
      else
        views[++kept] = views[i];
    }
    views.resize(kept + 1);
    for (size_t i = 0; i < written_.size(); ++i) {
      const auto r = range_of(i);
      if (!r || facts_.read[i]) continue;
      auto it = std::lower_bound(views.begin(), views.end(), *r, [](const Range& a, const Range& b) {
        return a.memory != b.memory ? a.memory < b.memory : a.end <= b.begin;
      });
      if (it != views.end() && it->memory == r->memory && it->begin < r->end) facts_.read[i] = true;
    }
  }

  const pte::Method& method_;
  MethodFacts facts_;
  std::vector<bool> written_;
};

}  // namespace

MethodFacts find_facts(const pte::Method& method) { return Finder(method).find(); }

}  // namespace sixfold
