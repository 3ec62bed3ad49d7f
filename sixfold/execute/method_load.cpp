// Loading a method: memory, constants, delegates, kernels.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>

#include "sixfold/execute/facts.h"
#include "sixfold/execute/method.h"
#include "sixfold/execute/turn.h"
#include "sixfold/ops/aten.h"
#include "sixfold/pte/verify.h"

namespace sixfold {
namespace {

constexpr size_t kArenaAlignment = 16;

std::string listed(const std::set<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += out.empty() ? n : cat(", ", n);
  return out;
}

size_t capacity_bytes(const TensorState& t) { return static_cast<size_t>(t.most) * size_of(t.dtype); }

}  // namespace

Method::Method(Program program, const pte::Method& plan, const MethodOptions& options)
    : program_(std::move(program)),
      plan_(&plan),
      allocator_(options.allocator ? *options.allocator : system_allocator(), program_),
      own_pool_(options.pool ? nullptr : std::make_unique<cpu::Pool>(options.threads)),
      pool_(options.pool ? options.pool : own_pool_.get()),
      max_instructions_(options.max_instructions),
      prepare_varying_(options.prepare_varying),
      values_(plan.values),
      observer_(options.observer),
      input_set_(plan.inputs.size()) {
  scratch_.allocator = &allocator_;
}

Method::~Method() {
  for (const BoundDelegate& d : delegates_) d.functions->destroy(d.handle);
}

Result<std::unique_ptr<Method>> Method::load(const Program& program, std::string_view name,
                                             const MethodOptions& options) {
  const pte::Method* plan = program.find_method(name);
  if (!plan) {
    std::set<std::string> names;
    for (const pte::Method& m : program.methods()) names.insert(m.name);
    return fail(Code::NotFound, "the program has no method ", name, "; it has ", listed(names));
  }
  std::unique_ptr<Method> out(new Method(program, *plan, options));
  Status status = out->check_names();
  if (status.ok()) status = out->bind_memory(options);
  if (status.ok()) status = out->bind_constants();
  if (status.ok()) status = out->bind_unplanned();
  if (status.ok()) status = out->reset_state();
  if (status.ok()) status = out->init_delegates();
  if (status.ok()) status = out->bind_steps();
  if (!status.ok()) return status.take_error().during(cat("loading method ", name));
  return out;
}

// All that is missing at once.
Status Method::check_names() const {
  std::set<std::string> kernels, delegates;
  for (const auto& chain : plan_->chains) {
    for (const pte::Instruction& instruction : chain) {
      if (const auto* call = std::get_if<pte::KernelCall>(&instruction)) {
        const std::string name = pte::kernel_name(plan_->operators[call->operator_index]);
        const KernelRow* row = find_kernel(name);
        if (!find_prim(name) && !(row && aten::find_rule(row->target))) kernels.insert(name);
      } else if (const auto* move = std::get_if<pte::Move>(&instruction)) {
        const pte::Value& v = plan_->values[static_cast<size_t>(move->from)];
        if (std::holds_alternative<pte::IntList>(v) || std::holds_alternative<pte::TensorList>(v))
          return unsupported("value ", move->from, " is a list, and lists cannot be moved");
      }
    }
  }
  for (const pte::Delegate& d : plan_->delegates)
    if (!find_delegate(d.id)) delegates.insert(d.id);
  if (kernels.empty() && delegates.empty()) return {};
  std::string what;
  if (!kernels.empty()) what = cat("kernels ", listed(kernels));
  if (!delegates.empty()) what += cat(what.empty() ? "" : " and ", "delegates ", listed(delegates));
  return unsupported("this build has no ", what);
}

Status Method::bind_memory(const MethodOptions& options) {
  const size_t count = plan_->buffer_sizes.empty() ? 0 : plan_->buffer_sizes.size() - 1;
  if (!options.arenas.empty() && options.arenas.size() < count)
    return invalid_argument("the method needs ", count, " planned buffers, ", options.arenas.size(),
                            " were given");
  for (size_t i = 0; i < count; ++i) {
    const auto bytes = static_cast<size_t>(plan_->buffer_sizes[i + 1]);
    if (options.arenas.empty()) {
      SF_ASSIGN(OwnedBlock block, OwnedBlock::take(allocator_, bytes, cat("planned buffer ", i + 1)));
      block.fill_with_zeros();  // a buffer that nobody writes first reads as zeros
      arenas_.emplace_back(block.data(), bytes);
      blocks_.push_back(std::move(block));
      continue;
    }
    const std::span<std::byte> arena = options.arenas[i];
    if (arena.size() < bytes)
      return fail(Code::OutOfMemory, "planned buffer ", i + 1, " needs ", bytes, " bytes, and has ",
                  arena.size());
    if (reinterpret_cast<uintptr_t>(arena.data()) % kArenaAlignment != 0)
      return invalid_argument("planned buffer ", i + 1, " is not aligned to ", kArenaAlignment, " bytes");
    arenas_.push_back(arena.first(bytes));
  }
  for (size_t i = 0; i < plan_->values.size(); ++i) {
    const auto* t = std::get_if<pte::Tensor>(&plan_->values[i]);
    if (t && t->allocation)
      values_.tensor(static_cast<pte::Index>(i))->data =
          arenas_[t->allocation->memory_id - 1].data() + t->allocation->offset;
  }
  return {};
}

Status Method::bind_constants() {
  for (size_t i = 0; i < plan_->values.size(); ++i) {
    const auto* t = std::get_if<pte::Tensor>(&plan_->values[i]);
    if (!t || t->allocation) continue;
    SF_ASSIGN(const std::span<const std::byte> data, program_.data_of(*t));
    // Never written: verify() refuses a program that would, and the memory is mapped for reading only.
    if (values_.tensor(static_cast<pte::Index>(i))->constant)
      values_.tensor(static_cast<pte::Index>(i))->data = const_cast<std::byte*>(data.data());
  }
  return {};
}

// Outputs that the plan has no place for are ours until the caller gives theirs. The same for tensors that
// only instructions use: a program that was written to give them memory later has none that we could wait
// for.
Status Method::bind_unplanned() {
  std::vector<bool> from_caller(plan_->values.size());
  for (const pte::Index i : plan_->inputs) from_caller[static_cast<size_t>(i)] = true;
  for (const pte::Index i : plan_->outputs) {
    TensorState* t = values_.tensor(i);
    if (!t || t->planned || t->constant || t->data || from_caller[static_cast<size_t>(i)]) continue;
    SF_ASSIGN(OwnedBlock block, OwnedBlock::take(allocator_, capacity_bytes(*t), cat("output value ", i)));
    block.fill_with_zeros();
    t->data = block.data();
    blocks_.push_back(std::move(block));
  }
  return {};
}

Status Method::reset_state() {
  Turn turn(busy_);
  if (!turn.ok()) return turn.refusal();
  for (size_t i = 0; i < plan_->values.size(); ++i) {
    const auto* t = std::get_if<pte::Tensor>(&plan_->values[i]);
    if (!t || !t->allocation) continue;
    SF_ASSIGN(const std::span<const std::byte> initial, program_.data_of(*t));
    if (initial.empty()) continue;
    const size_t bytes = capacity_bytes(*values_.tensor(static_cast<pte::Index>(i)));
    std::memcpy(arenas_[t->allocation->memory_id - 1].data() + t->allocation->offset, initial.data(),
                std::min(bytes, initial.size()));
  }
  for (const BoundDelegate& d : delegates_)
    if (d.functions->reset) d.functions->reset(d.handle);
  return {};
}

Status Method::init_delegates() {
  std::set<const DelegateFunctions*> prepared;
  for (const pte::Delegate& d : plan_->delegates) {
    const DelegateFunctions* functions = find_delegate(d.id);
    if (!functions) return unsupported("this build has no delegates ", d.id);
    if (functions->prepare && prepared.insert(functions).second) {
      Status status = functions->prepare(program_, *plan_);
      if (!status.ok()) return status.take_error().during(cat("initializing delegates ", d.id));
    }
    auto handle = functions->init({plan_->name, d.blob, d.specs, &program_});
    if (!handle.ok()) return handle.take_error().during(cat("initializing delegate ", d.id));
    delegates_.push_back({functions, *handle});
  }
  return {};
}

Result<Method::Step> Method::bind_step(const pte::Instruction& instruction, const KernelStep::Facts& facts,
                                       int64_t seed) {
  if (const auto* call = std::get_if<pte::KernelCall>(&instruction)) {
    const std::string name = pte::kernel_name(plan_->operators[call->operator_index]);
    if (const PrimRow* prim = find_prim(name)) return Step(PrimStep{prim->prim, call->args});
    const KernelRow* row = find_kernel(name);
    SF_ASSIGN(KernelStep step,
              KernelStep::create(*row, *aten::find_rule(row->target), call->args, values_, facts, seed));
    SF_TRY(step.prepare_static(values_, scratch_, prepare_varying_));
    // The file's pages of weights that are packed now need not stay beside them.
    for (const auto data : step.unread_constants(values_)) program_.forget(data);
    return Step(std::move(step));
  }
  if (const auto* call = std::get_if<pte::DelegateCall>(&instruction)) {
    DelegateStep step{call->delegate_index, {}};
    for (const pte::Index i : call->args) step.args.push_back(&values_[i]);
    const BoundDelegate& bound = delegates_[call->delegate_index];
    if (bound.functions->check) SF_TRY(bound.functions->check(bound.handle, step.args));
    return Step(std::move(step));
  }
  if (const auto* move = std::get_if<pte::Move>(&instruction)) return Step(*move);
  if (const auto* jump = std::get_if<pte::JumpFalse>(&instruction)) return Step(*jump);
  return Step(std::get<pte::Free>(instruction));
}

ObservedResult Method::observed(pte::Index i) const {
  const auto* list = std::get_if<TensorItems>(&values_[i]);
  if (!list) return {{&values_[i]}};
  ObservedResult out{{}, /*is_list=*/true};
  for (const pte::Index item : list->items) out.values.push_back(item < 0 ? nullptr : &values_[item]);
  return out;
}

void Method::bind_observed() {
  for (const auto& chain : plan_->chains) {
    auto& steps = observed_.emplace_back();
    for (const pte::Instruction& instruction : chain) {
      auto& results = steps.emplace_back();
      if (const auto* call = std::get_if<pte::DelegateCall>(&instruction)) {
        for (const pte::Index i : call->args) results.push_back(observed(i));
      } else if (const auto* kernel = std::get_if<pte::KernelCall>(&instruction)) {
        const KernelRow* row = find_kernel(pte::kernel_name(plan_->operators[kernel->operator_index]));
        if (!row) continue;  // a prim
        KernelArguments arguments(*row);
        for (const pte::Index i : kernel->args) {
          const auto a = arguments.next();
          if (!a) break;
          if (a->kind == KernelArgument::result || a->kind == KernelArgument::in_out)
            results.push_back(observed(i));
        }
      }
    }
  }
}

Status Method::bind_steps() {
  const MethodFacts found = find_facts(*plan_);
  if (observer_) {
    std::fill_n(found.read.get(), plan_->values.size(), true);
    bind_observed();
  }
  const KernelStep::Facts facts{{found.varies.get(), plan_->values.size()},
                                {found.read.get(), plan_->values.size()}};
  for (const pte::Index i : found.row_major_inputs) {
    std::vector<uint8_t>& order = values_.tensor(i)->dim_order;
    std::iota(order.begin(), order.end(), uint8_t{0});
  }
  std::set<std::pair<size_t, size_t>> done;
  for (const RenamedConstant& r : found.renamed) {
    const TensorState& from = *values_.tensor(r.from);
    TensorState& to = *values_.tensor(r.to);
    to.constant = true;
    to.planned = false;
    to.data = from.data;
    to.dim_order = r.dim_order;
    done.insert({r.chain, r.instruction});
  }
  int64_t seed = 0;
  for (size_t c = 0; c < plan_->chains.size(); ++c) {
    chains_.emplace_back();
    times_.emplace_back(plan_->chains[c].size());
    for (size_t i = 0; i < plan_->chains[c].size(); ++i) {
      ++seed;
      if (done.contains({c, i})) {
        chains_[c].emplace_back(NoStep{});
        continue;
      }
      auto step = bind_step(plan_->chains[c][i], facts, seed);
      if (!step.ok()) return step.take_error().during(cat("preparing ", describe(c, i)));
      chains_[c].push_back(std::move(step).value());
    }
  }
  return {};
}

}  // namespace sixfold
