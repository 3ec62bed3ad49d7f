#include "sixfold/emulator/graph.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "sixfold/cpu/broadcast.h"
#include "sixfold/emulator/numbers.h"
#include "sixfold/emulator/op_table.h"
#include "sixfold/emulator/rules.h"
#include "sixfold/emulator/widen.h"
#include "sixfold/plan/arena.h"

namespace sixfold::emulator {
namespace {

constexpr uint64_t kNoPlace = UINT64_MAX;

bool is_input(TensorKind kind) { return kind == TensorKind::app_write; }
bool is_output(TensorKind kind) { return kind == TensorKind::app_read; }

void copy_as_halves(const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = to_half(from[i]);
}
// What the vector unit makes of a half that leaves as a float: one more unit of 2^-23 of its power of two,
// the last bit of its own floats (cpu/qfloat.h).
void widen_halves(float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(x[i]), magnitude = bits & 0x7fffffffu;
    const float more = magnitude < 0x38800000u ? x[i] + std::copysign(0x1p-37f, x[i])  // below 2^-14
                                               : std::bit_cast<float>(bits + 1);
    x[i] = magnitude == 0 ? x[i] : more;
  }
}
bool changes_type(const OpDef& op) {
  return op.type == "Cast" || op.type == "Quantize" || op.type == "Convert";
}
// Constants are converted when a graph is prepared, not by the vector unit.
void round_constants(float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = to_ieee_half(x[i]);
}

}  // namespace

// Where one op is prepared: packs are made, or taken from what a binary has.
class PrepareRoom final : public Prepare {
 public:
  PrepareRoom(Graph& graph, OpDef& op, bool loading) : graph_(graph), op_(op), loading_(loading) {}

  void use_constant(size_t input) override {
    if (input >= op_.in.size() || op_.in[input] == kNone) return;
    const uint32_t t = op_.in[input];
    if (!graph_.tensors_[t].is_constant() || graph_.stored_[t] != kNone) return;
    if (loading_) {
      error_ = invalid_model("the binary lacks the bytes of constant ", graph_.tensors_[t].name);
      return;
    }
    const size_t bytes = graph_.tensors_[t].size_bytes();
    graph_.stored_[t] = graph_.constants_.add(std::move(graph_.given_[t]), bytes);
    graph_.tensors_[t].data = graph_.constants_[graph_.stored_[t]].data;
  }
  void need_scratch(size_t bytes) override {
    graph_.scratch_bytes_ = std::max<uint64_t>(graph_.scratch_bytes_, bytes);
  }
  Status finish() {
    if (!error_.ok()) return error_.take_error();
    if (loading_ && next_ != op_.packs.size())
      return invalid_model("the binary has ", op_.packs.size(), " packed constants for op ", op_.name,
                           ", expected ", next_);
    return {};
  }

 private:
  Result<const std::byte*> pack_bytes(size_t bytes, void (*fill)(const void*, std::span<std::byte>),
                                      const void* context) override {
    if (loading_) {
      if (next_ >= op_.packs.size())
        return invalid_model("the binary has ", op_.packs.size(), " packed constants for op ", op_.name,
                             ", expected more");
      const Constants::Item& item = graph_.constants_[op_.packs[next_++]];
      if (item.size_bytes != bytes)
        return invalid_model("a packed constant of op ", op_.name, " has ", item.size_bytes,
                             " bytes, expected ", bytes);
      return item.data;
    }
    for (const uint32_t t : op_.in)
      if (t != kNone && graph_.tensors_[t].is_constant() && !graph_.tensors_[t].data)
        return fail(Code::Internal, "constant ", graph_.tensors_[t].name, " has no bytes to pack");
    SF_ASSIGN(OwnedBlock block,
              OwnedBlock::take(graph_.allocator_, std::max<size_t>(bytes, 1), "packed weights"));
    std::memset(block.data(), 0, bytes);  // what fill leaves out (padding) is the same in every run
    fill(context, {block.data(), bytes});
    op_.packs.push_back(graph_.constants_.add(std::move(block), bytes));
    return graph_.constants_[op_.packs.back()].data;
  }
  void own(void* state, void (*free)(void*)) override { graph_.states_.push_back({state, free}); }

  Graph& graph_;
  OpDef& op_;
  const bool loading_;
  size_t next_ = 0;
  Status error_;
};

Graph::~Graph() {
  for (const Owned& o : states_) o.free(o.state);
}

Result<uint32_t> Graph::add_tensor(TensorDef tensor) {
  if (finalized_)
    return invalid_argument("graph ", name_, " is finalized, tensor ", tensor.name, " comes late");
  OwnedBlock block;
  if (tensor.is_constant()) {
    const size_t bytes = tensor.size_bytes();
    SF_ASSIGN(block, OwnedBlock::take(allocator_, std::max<size_t>(bytes, 1), cat("constant ", tensor.name)));
    std::memcpy(block.data(), tensor.data, bytes);
    if (auto* floats = reinterpret_cast<float*>(block.data()); tensor.dtype == DataType::f32)
      round_constants(floats, tensor.count());
    tensor.data = block.data();
  }
  tensors_.push_back(std::move(tensor));
  given_.push_back(std::move(block));
  stored_.push_back(kNone);
  return static_cast<uint32_t>(tensors_.size() - 1);
}

OpView Graph::view(const OpDef& op, std::vector<const TensorDef*>& operands) const {
  static const TensorDef absent{.kind = TensorKind::null};
  operands.clear();
  for (const auto* list : {&op.in, &op.out})
    for (const uint32_t t : *list) operands.push_back(t == kNone ? &absent : &tensors_[t]);
  const std::span<const TensorDef* const> all(operands);
  return {op.name, op.type, all.first(op.in.size()), all.subspan(op.in.size()), op.params};
}

Status Graph::add_op(OpDef op) {
  if (finalized_) return invalid_argument("graph ", name_, " is finalized, op ", op.name, " comes late");
  for (const auto* list : {&op.in, &op.out})
    for (const uint32_t t : *list)
      if (t != kNone && t >= tensors_.size())
        return invalid_argument("op ", op.name, " uses tensor ", t, " of ", tensors_.size());
  std::vector<const TensorDef*> operands;
  const OpView seen = view(op, operands);
  SF_TRY(check_op(seen, device_));
  SF_TRY(check_encodings(seen));
  ops_.push_back(std::move(op));
  return {};
}

// Whether a float that this op writes was a half before: not what is made of integers.
bool Graph::leaves_as_half(const OpDef& op) const {
  if (device_.arch < 69) return false;  // v68 has no halves
  const DataType from = op.in.empty() || op.in[0] == kNone ? DataType::f32 : tensors_[op.in[0]].dtype;
  if (op.type == "Cast") return from != DataType::i32 && from != DataType::u32;
  return !((op.type == "Dequantize" || op.type == "Convert") && qnn::is_fixed(from));
}

// Ops may come in any order; they run in the order in which they came as far as operands allow.
Status Graph::connect() {
  computed_.assign(tensors_.size(), false);
  for (const OpDef& op : ops_) {
    sees_floats_.push_back(changes_type(op));
    for (const uint32_t t : op.in)
      if (t != kNone && !changes_type(op)) computed_[t] = true;
  }
  std::vector<uint32_t> producer(tensors_.size(), kNone);
  for (uint32_t i = 0; i < tensors_.size(); ++i) {
    if (is_input(tensors_[i].kind)) inputs_.push_back(i);
    if (is_output(tensors_[i].kind)) outputs_.push_back(i);
  }
  for (uint32_t i = 0; i < ops_.size(); ++i)
    for (const uint32_t t : ops_[i].out) {
      if (t == kNone) continue;
      const TensorKind kind = tensors_[t].kind;
      if (kind != TensorKind::native && kind != TensorKind::app_read)
        return invalid_argument("op ", ops_[i].name, " writes ", tensors_[t].name, ", which is no result");
      if (producer[t] != kNone)
        return invalid_argument("ops ", ops_[producer[t]].name, " and ", ops_[i].name, " both write ",
                                tensors_[t].name);
      producer[t] = i;
    }
  for (const uint32_t t : outputs_) {
    if (producer[t] == kNone) return invalid_argument("no op writes output ", tensors_[t].name);
    if (tensors_[t].dtype == DataType::f32 && leaves_as_half(ops_[producer[t]]))
      widened_outputs_.push_back(t);
  }

  std::vector<uint32_t> waiting(ops_.size(), 0);
  std::vector<std::vector<uint32_t>> users(ops_.size());
  for (uint32_t i = 0; i < ops_.size(); ++i)
    for (const uint32_t t : ops_[i].in) {
      if (t == kNone) continue;
      const TensorKind kind = tensors_[t].kind;
      if (kind == TensorKind::constant || kind == TensorKind::app_write || kind == TensorKind::null) continue;
      if (producer[t] == kNone)
        return invalid_argument("op ", ops_[i].name, " reads ", tensors_[t].name, ", which no op writes");
      users[producer[t]].push_back(i);
      ++waiting[i];
    }
  std::vector<uint32_t> ready;  // a heap: the earliest first
  for (uint32_t i = 0; i < ops_.size(); ++i)
    if (waiting[i] == 0) ready.push_back(i);
  std::make_heap(ready.begin(), ready.end(), std::greater<>());
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), std::greater<>());
    const uint32_t i = ready.back();
    ready.pop_back();
    order_.push_back(i);
    for (const uint32_t user : users[i])
      if (--waiting[user] == 0) {
        ready.push_back(user);
        std::push_heap(ready.begin(), ready.end(), std::greater<>());
      }
  }
  if (order_.size() != ops_.size())
    return invalid_argument("graph ", name_, " has a cycle: ", ops_.size() - order_.size(), " of ",
                            ops_.size(), " ops wait for each other");
  return {};
}

Status Graph::prepare_all(bool loading) {
  steps_.resize(ops_.size());
  widened_ = widened_tensors(tensors_, ops_);
  std::vector<const TensorDef*> operands;
  for (const uint32_t i : order_) {
    PrepareRoom room(*this, ops_[i], loading);
    const OpView seen = view(ops_[i], operands);
    size_t at = 0;
    for (const auto* list : {&ops_[i].in, &ops_[i].out})
      for (const uint32_t t : *list) {
        if (const auto wide = widened_.find(t); wide != widened_.end()) operands[at] = &wide->second;
        ++at;
      }
    Result<Step> step = find_op(ops_[i].type)->prepare(seen, room);
    if (!step.ok()) return step.take_error().during(cat("preparing ", ops_[i].type, " ", ops_[i].name));
    SF_TRY(room.finish());
    steps_[i] = *step;
    most_operands_ = std::max(most_operands_, ops_[i].in.size() + ops_[i].out.size());
  }
  return {};
}

// Leaves out steps that need not run: clamps, when the op that makes their input cuts its results itself, and
// copies, whose result is the input's bytes.
void Graph::fuse() {
  left_out_.assign(ops_.size(), false);
  place_of_.resize(tensors_.size());
  std::vector<uint32_t> maker(tensors_.size(), kNone), readers(tensors_.size(), 0);
  for (uint32_t t = 0; t < tensors_.size(); ++t) place_of_[t] = t;
  for (uint32_t i = 0; i < ops_.size(); ++i) {
    for (const uint32_t t : ops_[i].in)
      if (t != kNone) ++readers[t];
    for (const uint32_t t : ops_[i].out)
      if (t != kNone) maker[t] = i;
  }
  for (const uint32_t i : order_) {
    const Step& step = steps_[i];
    if (ops_[i].in.empty() || ops_[i].out.size() != 1 || ops_[i].in[0] == kNone) continue;
    const uint32_t from = ops_[i].in[0], to = ops_[i].out[0];
    if (step.copies && tensors_[to].kind == TensorKind::native) {
      place_of_[to] = place_of_[from];
      left_out_[i] = true;
    }
    // The maker writes where the clamp would have; nobody else sees what was not cut.
    if (step.clamps && tensors_[from].kind == TensorKind::native && readers[from] == 1 &&
        maker[from] != kNone && place_of_[from] == from && ops_[maker[from]].out.size() == 1) {
      const Step& makes = steps_[maker[from]];
      if (!makes.absorb) continue;
      makes.absorb(const_cast<void*>(makes.state), step.clamp);
      place_of_[from] = to;
      left_out_[i] = true;
    }
  }
}

// Inputs that are floats are copied as halves, for all ops but those that change their type: Cast and
// Quantize see all bits, where the client has them. Other inputs and all outputs are used where the client
// has them, so they need a place only when theirs is not aligned: then room is taken for one execution.
bool Graph::is_staged(uint32_t tensor) const {
  return is_input(tensors_[tensor].kind) && tensors_[tensor].dtype == DataType::f32 && computed_[tensor];
}

void Graph::plan() {
  std::vector<Block> blocks(tensors_.size(), Block{0, -1, -1});
  std::vector<bool> placed(tensors_.size(), false);
  for (uint32_t step = 0; step < order_.size(); ++step) {
    const OpDef& op = ops_[order_[step]];
    for (const auto* list : {&op.in, &op.out})
      for (const uint32_t tensor : *list) {
        if (tensor == kNone) continue;
        const uint32_t t = place_of_[tensor];
        if (tensors_[t].kind != TensorKind::native && !is_staged(t)) continue;
        Block& block = blocks[t];
        if (!placed[t]) block.first = is_staged(t) ? 0 : static_cast<int>(step);
        placed[t] = true;
        block.last = static_cast<int>(step);
      }
  }
  std::vector<Block> list;
  std::vector<uint32_t> of;
  for (uint32_t t = 0; t < tensors_.size(); ++t)
    if (placed[t]) {
      const auto wide = widened_.find(t);
      blocks[t].bytes = (wide == widened_.end() ? tensors_[t] : wide->second).size_bytes();
      list.push_back(blocks[t]);
      of.push_back(t);
    }
  const Arena arena = plan_arena(list, 64);
  offsets_.assign(tensors_.size(), kNoPlace);
  for (size_t i = 0; i < of.size(); ++i) offsets_[of[i]] = arena.offsets[i];
  scratch_at_ = (arena.size_bytes + 63) / 64 * 64;
  arena_bytes_ = scratch_at_ + scratch_bytes_;
}

Status Graph::finalize() {
  if (finalized_) return invalid_argument("graph ", name_, " is finalized already");
  if (failed_) return invalid_argument("graph ", name_, " could not be finalized before");
  failed_ = true;  // until it has worked
  SF_TRY(connect());
  SF_TRY(prepare_all(/*loading=*/false));
  given_.clear();
  for (uint32_t t = 0; t < tensors_.size(); ++t)
    if (stored_[t] == kNone) tensors_[t].data = nullptr;
  fuse();
  plan();
  finalized_ = true;
  return {};
}

Status Graph::restore(std::vector<TensorDef> tensors, std::vector<OpDef> ops, std::vector<uint32_t> stored) {
  tensors_ = std::move(tensors);
  stored_ = std::move(stored);
  for (uint32_t t = 0; t < tensors_.size(); ++t) {
    if (stored_[t] == kNone) continue;
    const Constants::Item& item = constants_[stored_[t]];
    if (!tensors_[t].is_constant() || item.size_bytes != tensors_[t].size_bytes())
      return invalid_model("constant ", tensors_[t].name, " has ", item.size_bytes, " bytes, expected ",
                           tensors_[t].size_bytes());
    tensors_[t].data = item.data;
  }
  for (OpDef& op : ops) SF_TRY(add_op(std::move(op)));
  SF_TRY(connect());
  SF_TRY(prepare_all(/*loading=*/true));
  fuse();
  plan();
  finalized_ = true;
  return {};
}

Result<std::unique_ptr<Graph::Workspace>> Graph::workspace() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Workspace> w = std::move(idle_.back());
      idle_.pop_back();
      return w;
    }
  }
  auto w = std::make_unique<Workspace>();
  SF_ASSIGN(w->memory, OwnedBlock::take(allocator_, std::max<uint64_t>(arena_bytes_, 64), "activations"));
  w->at.assign(tensors_.size(), nullptr);
  w->floats.assign(tensors_.size(), nullptr);
  w->operands.assign(most_operands_, nullptr);
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (offsets_[t] != kNoPlace) w->at[t] = w->memory.data() + offsets_[t];
    if (stored_[t] != kNone) w->at[t] = const_cast<std::byte*>(constants_[stored_[t]].data);
  }
  return w;
}

Status Graph::execute(std::span<const Binding> bindings, cpu::Pool& pool, std::span<StepTime> times) const {
  SF_ASSIGN(std::unique_ptr<Workspace> w, workspace());
  for (const Binding& b : bindings)
    if (is_staged(b.tensor)) {
      w->floats[b.tensor] = b.data;
      if (w->at[b.tensor])
        copy_as_halves(reinterpret_cast<const float*>(b.data), reinterpret_cast<float*>(w->at[b.tensor]),
                       tensors_[b.tensor].count());
    } else {
      w->at[b.tensor] = b.data;
    }
  std::byte* const scratch = w->memory.data() + scratch_at_;
  for (size_t s = 0; s < order_.size(); ++s) {
    if (left_out_[order_[s]]) continue;
    const OpDef& op = ops_[order_[s]];
    size_t n = 0;
    for (const auto* list : {&op.in, &op.out})
      for (const uint32_t t : *list)
        w->operands[n++] = t == kNone                                           ? nullptr
                           : sees_floats_[order_[s]] && w->floats[t] != nullptr ? w->floats[t]
                                                                                : w->at[place_of_[t]];
    const Run run{{w->operands.data(), op.in.size()},
                  {w->operands.data() + op.in.size(), op.out.size()},
                  scratch,
                  pool};
    const Step& step = steps_[order_[s]];
    if (times.empty()) {
      step.run(step.state, run);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    step.run(step.state, run);
    times[order_[s]].nanoseconds += static_cast<uint64_t>((std::chrono::steady_clock::now() - start).count());
  }
  for (const uint32_t t : widened_outputs_) {
    auto* const floats = reinterpret_cast<float*>(w->at[t]);
    pool.for_ranges(tensors_[t].count(), cpu::kElementwiseGrain,
                    [&](int64_t begin, int64_t end) { widen_halves(floats + begin, end - begin); });
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(w));
  return {};
}

}  // namespace sixfold::emulator
