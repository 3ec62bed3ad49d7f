#include "sixfold/quantize/watched.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "sixfold/base/recycled.h"
#include "sixfold/ops/conv/conv.h"
#include "sixfold/rewrite/pipeline.h"

namespace sixfold {

bool is_inside_product(const Graph& graph, ValueId value) {
  const Node* node = graph.producer(value);
  if (!node || (node->op != Op::convolution && node->op != Op::linear)) return false;
  if (graph.value(value).users.size() != 1) return false;
  for (const Leaf& leaf : graph.outputs)
    if (leaf.value == value) return false;
  for (const Graph::Mutation& m : graph.mutations)
    if (m.next == value) return false;
  const Op next = graph.node(graph.value(value).users[0]).op;
  return next == Op::relu || next == Op::clamp;
}

size_t constant_bytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::constant && graph.is_used(v.id)) bytes += v.constant.size_bytes();
  return bytes;
}

std::shared_ptr<const cpu::SharePacked> share_constants(const Graph& graph) {
  constexpr size_t kMostShared = size_t{128} << 20;
  if (constant_bytes(graph) > kMostShared) return nullptr;
  std::vector<Tensor> constants;
  for (const Value& v : graph.values())
    if (v.kind == ValueKind::constant && graph.is_used(v.id)) constants.push_back(v.constant);
  return std::make_shared<const cpu::SharePacked>(std::move(constants));
}

Lanes lanes_for(const Graph& graph, size_t samples, size_t threads) {
  constexpr size_t kLargeBytes = size_t{64} << 20;
  if (threads == 0) threads = std::max<size_t>(std::thread::hardware_concurrency(), 1);
  // A model is worth as much as some runs.
  const size_t fit = constant_bytes(graph) < kLargeBytes ? samples : (samples + 3) / 4;
  const size_t count = std::max<size_t>(std::min(threads, fit), 1);
  return {count, std::max<size_t>(threads / count, 1)};
}

namespace {

struct Watchable {
  FlatProgram program;
  std::vector<ValueId> value_of;  // by slot
};

Result<Watchable> make_watchable(Graph g, bool inside, bool bf16) {
  Watchable out;
  // A value that is an output is not fused away, and whoever replaces it replaces it there too: so outputs
  // tell afterwards which value is which. They are no outputs any more when memory is planned.
  const size_t outputs = g.outputs.size();
  std::vector<ValueId> watched;
  for (const NodeId id : g.order())
    for (const ValueId v : g.node(id).outputs)
      if ((inside || !is_inside_product(g, v)) && g.is_used(v)) watched.push_back(v);
  for (const ValueId v : watched) g.outputs.push_back({{}, v, {}});
  // What is fused rounds elsewhere; two graphs that are compared must not differ in that.
  SF_TRY(optimize_for_cpu(g));
  std::vector<ValueId> was(g.value_count(), kNoValue);
  for (size_t i = 0; i < watched.size(); ++i) was[g.outputs[outputs + i].value.index] = watched[i];
  g.outputs.resize(outputs);
  if (bf16)
    for (const NodeId id : g.order())
      if (Node& node = g.node(id); node.op == Op::convolution || node.op == Op::linear)
        node.attrs.set(cpu::kFactors, std::string("bf16"));
  std::vector<ValueId> value_of_slot;
  SF_ASSIGN(out.program, to_program(g, &value_of_slot));
  for (const ValueId v : value_of_slot) out.value_of.push_back(was[v.index]);
  return out;
}

}  // namespace

Result<std::unique_ptr<Watched>> Watched::create(Graph graph, cpu::Pool& pool, bool inside, bool bf16,
                                                 cpu::Pool* making) {
  auto out = std::make_unique<Watched>();
  // The graph is gone before weights are packed, so that those only it has are let go one after the other.
  SF_ASSIGN(Watchable made, make_watchable(std::move(graph), inside, bf16));
  out->value_of_ = std::move(made.value_of);
  SF_ASSIGN(Plan plan, make_plan(std::move(made.program), {.release_packed = true,
                                                           .allocator = &recycled_memory(),
                                                           .pool = making ? making : &pool}));
  SF_ASSIGN(out->executor_, Executor::create(std::move(plan), pool, recycled_memory()));
  return out;
}

void Watched::set_watch(Watch watch) {
  if (!watch) {
    executor_->set_hook({});
    return;
  }
  executor_->set_hook([this, watch = std::move(watch)](Slot slot, const cpu::TensorDesc& desc, void* data) {
    const ValueId value = value_of_[slot];
    return value.valid() ? watch(value, desc, data) : ok_status();
  });
}

Status Watched::run(std::span<const Tensor> inputs) {
  std::vector<const void*> pointers;
  pointers.reserve(inputs.size());
  for (const Tensor& t : inputs) pointers.push_back(t.data);
  executor_->reset_state();
  return executor_->run(pointers);
}

std::vector<Tensor> Watched::copy_outputs() const {
  std::vector<Tensor> out;
  for (size_t i = 0; i < output_count(); ++i) {
    const Tensor from = output(i);
    std::byte* bytes = nullptr;
    out.push_back(Tensor::allocate(from.dtype, from.shape, &bytes));
    std::memcpy(bytes, from.data, from.size_bytes());
  }
  return out;
}

Tensor Watched::output(size_t i) const {
  const cpu::TensorDesc& d = executor_->output_desc(i);
  return Tensor{d.dtype, d.shape, {}, static_cast<const std::byte*>(executor_->output(i)), nullptr};
}

}  // namespace sixfold
