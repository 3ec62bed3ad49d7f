#include "sixfold/execute/facts.h"

#include <algorithm>

#include "sixfold/base/dim.h"
#include "sixfold/base/small_sort.h"
#include "sixfold/load/kernel_table.h"
#include "sixfold/load/prim_table.h"
#include "sixfold/pte/verify.h"

namespace sixfold {
namespace {

using pte::Index;

class Finder {
 public:
  explicit Finder(const pte::Method& method)
      : method_(method),
        written_(method.values.size()),
        handled_(method.values.size()),
        ordered_(method.values.size()) {
    facts_.varies = std::make_unique<bool[]>(method.values.size());
    facts_.read = std::make_unique<bool[]>(method.values.size());
  }

  MethodFacts find() {
    for (size_t i = 0; i < method_.values.size(); ++i)
      if (const auto* t = std::get_if<pte::Tensor>(&method_.values[i]))
        facts_.varies[i] = t->dynamism != pte::Dynamism::fixed;
    for (const Index i : method_.inputs) write(i);
    for (const Index i : method_.outputs) {
      read(i);
      handle(i);
    }
    for (const auto& chain : method_.chains)
      for (const pte::Instruction& instruction : chain) visit(instruction);
    find_row_major_inputs();
    read_views();
    find_renamed();
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
    each(i, [&](size_t v) { facts_.read[v] = ordered_[v] = true; });
  }
  void write(Index i) {
    each(i, [&](size_t v) { written_[v] = written_[v] < 2 ? written_[v] + 1 : 2; });
  }
  // Its memory or its handle goes where kernels' arguments do not tell: it must stay what the file says.
  void handle(Index i) {
    each(i, [&](size_t v) { handled_[v] = true; });
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
        handle(i);
      }
    } else if (const auto* move = std::get_if<pte::Move>(&instruction)) {
      read(move->from);
      handle(move->from);
      vary(move->to);
    } else if (const auto* jump = std::get_if<pte::JumpFalse>(&instruction)) {
      read(jump->condition);
      handle(jump->condition);
    }
  }

  void visit(const pte::KernelCall& call) {
    const std::string name = pte::kernel_name(method_.operators[call.operator_index]);
    if (const PrimRow* prim = find_prim(name)) {
      const bool viewed = prim->prim == Prim::view && is_row_major(call.args.back());
      for (size_t k = 0; k < call.args.size(); ++k) {
        if (k == 0 && viewed)
          facts_.read[static_cast<size_t>(call.args[0])] = true;
        else
          read(call.args[k]);
        handle(call.args[k]);
      }
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

  struct Range {
    uint32_t memory;
    uint64_t begin, end;
    bool operator==(const Range&) const = default;
  };
  std::optional<Range> range_of(size_t i) const {
    const auto* t = std::get_if<pte::Tensor>(&method_.values[i]);
    if (!t || !t->allocation) return std::nullopt;
    return Range{t->allocation->memory_id, t->allocation->offset,
                 t->allocation->offset + pte::size_bytes(*t).value_or(0)};
  }
  bool is_row_major(Index i) const {
    const auto* t = std::get_if<pte::Tensor>(&method_.values[static_cast<size_t>(i)]);
    return t && std::is_sorted(t->dim_order.begin(), t->dim_order.end());
  }

  void find_row_major_inputs() {
    for (const Index i : method_.inputs) {
      const auto at = static_cast<size_t>(i);
      const auto range = range_of(at);
      if (!range || ordered_[at] || is_row_major(i)) continue;
      bool viewed = facts_.read[at], all = true;
      for (size_t v = 0; v < written_.size(); ++v) {
        const auto other = range_of(v);
        if (v == at || !other || !facts_.read[v] || written_[v] || other->memory != range->memory ||
            other->begin >= range->end || range->begin >= other->end)
          continue;
        viewed = true;
        all = all && *other == *range && is_row_major(static_cast<Index>(v));
      }
      if (viewed && all) facts_.row_major_inputs.push_back(i);
    }
  }

  // A view without an instruction is a tensor that is read, and never written under its own name: what lies
  // in the same memory is read through it.
  void read_views() {
    std::vector<Range> views;
    for (size_t i = 0; i < written_.size(); ++i)
      if (const auto r = range_of(i); r && facts_.read[i] && !written_[i]) views.push_back(*r);
    if (views.empty()) return;
    sort_small(views, [](const Range& a, const Range& b) {
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
      if (!r) continue;
      auto it = std::lower_bound(views.begin(), views.end(), *r, [](const Range& a, const Range& b) {
        return a.memory != b.memory ? a.memory < b.memory : a.end <= b.begin;
      });
      if (it != views.end() && it->memory == r->memory && it->begin < r->end) {
        facts_.read[i] = true;
        handled_[i] = true;
      }
    }
  }

  std::optional<int64_t> fixed_integer(Index i) const {
    const auto* n = std::get_if<int64_t>(&method_.values[static_cast<size_t>(i)]);
    return n && !facts_.varies[static_cast<size_t>(i)] ? std::optional(*n) : std::nullopt;
  }

  // The axes of self in the order of the result's; nothing when the call is no such call, or not sure to stay
  // one.
  std::optional<std::vector<int64_t>> permutation(const pte::KernelCall& call, size_t rank) const {
    const std::string name = pte::kernel_name(method_.operators[call.operator_index]);
    std::vector<int64_t> dims;
    if (name == "aten::t_copy.out" && rank == 2) {
      dims = {1, 0};
    } else if (name == "aten::transpose_copy.int_out") {
      const auto a = fixed_integer(call.args[1]), b = fixed_integer(call.args[2]);
      const auto x = a ? normalize_axis(*a, rank) : Result<int64_t>(0),
                 y = b ? normalize_axis(*b, rank) : Result<int64_t>(0);
      if (!a || !b || !x.ok() || !y.ok() || rank == 0) return std::nullopt;
      for (size_t i = 0; i < rank; ++i) dims.push_back(static_cast<int64_t>(i));
      std::swap(dims[static_cast<size_t>(*x)], dims[static_cast<size_t>(*y)]);
    } else if (name == "aten::permute_copy.out") {
      const auto* list = std::get_if<pte::IntList>(&method_.values[static_cast<size_t>(call.args[1])]);
      if (!list || list->items.size() != rank) return std::nullopt;
      for (const int64_t item : list->items) {
        const auto d = fixed_integer(static_cast<Index>(item));
        const auto axis = d ? normalize_axis(*d, rank) : Result<int64_t>(0);
        if (!d || !axis.ok() || std::find(dims.begin(), dims.end(), *axis) != dims.end()) return std::nullopt;
        dims.push_back(*axis);
      }
    }
    if (dims.size() != rank || rank == 0) return std::nullopt;
    return dims;
  }

  void find_renamed() {
    for (size_t c = 0; c < method_.chains.size(); ++c) {
      for (size_t k = 0; k < method_.chains[c].size(); ++k) {
        const auto* call = std::get_if<pte::KernelCall>(&method_.chains[c][k]);
        if (!call || call->args.size() < 3) continue;
        const Index from = call->args.front(), to = call->args.back();
        const auto* x = std::get_if<pte::Tensor>(&method_.values[static_cast<size_t>(from)]);
        const auto* y = std::get_if<pte::Tensor>(&method_.values[static_cast<size_t>(to)]);
        if (!x || !y || x->allocation || (x->data_index == 0 && x->location != pte::Location::external))
          continue;
        const auto only = static_cast<size_t>(to);
        if (written_[only] != 1 || handled_[only] || facts_.varies[only] || !y->allocation ||
            y->data_index != 0 || facts_.varies[static_cast<size_t>(from)] || x->dtype != y->dtype ||
            x->sizes.size() != y->sizes.size())
          continue;
        const auto dims = permutation(*call, x->sizes.size());
        if (!dims) continue;
        bool fits = true;
        std::vector<uint8_t> place(dims->size());  // of self's axes in the result
        for (size_t a = 0; a < dims->size(); ++a) {
          const auto axis = static_cast<size_t>((*dims)[a]);
          fits = fits && x->sizes[axis] == y->sizes[a];
          place[axis] = static_cast<uint8_t>(a);
        }
        if (!fits) continue;
        RenamedConstant renamed{c, k, from, to, {}};
        for (const uint8_t axis : x->dim_order) renamed.dim_order.push_back(place[axis]);
        facts_.renamed.push_back(std::move(renamed));
      }
    }
  }

  const pte::Method& method_;
  MethodFacts facts_;
  std::vector<uint8_t> written_;  // how often, at most 2
  std::vector<bool> handled_;
  std::vector<bool> ordered_;  // read by somebody who sees its dim order
};

}  // namespace

MethodFacts find_facts(const pte::Method& method) { return Finder(method).find(); }

}  // namespace sixfold
