#include "sixfold/profile/etdump_log.h"

#include <algorithm>
#include <cstring>

#include "sixfold/base/cat.h"
#include "sixfold/base/mapped_file.h"
#include "sixfold/base/tensor.h"

namespace sixfold {
namespace {

constexpr std::string_view kExecute = "Execute";
constexpr size_t kTensorAlignment = 64;  // as ExecuTorch's own buffers have it

pte::ProfileEvent event(std::string name, int64_t start_ns, int64_t end_ns, int32_t chain = -1,
                        int32_t instruction = 0) {
  pte::ProfileEvent out;
  out.name = std::move(name);
  out.chain = chain;
  out.instruction = instruction;
  out.start_ns = static_cast<uint64_t>(start_ns);
  out.end_ns = static_cast<uint64_t>(end_ns);
  return out;
}

// What the Inspector reads: row-major, and no bf16, whose values f32 holds all.
Tensor for_inspector(const TensorState& t) {
  Tensor out{t.dtype, t.sizes, {}, t.data, nullptr};
  if (!is_plain_order(t.dim_order)) out.strides = strides_of(t.sizes, t.dim_order);
  out = to_contiguous(out);
  if (t.dtype != DType::bf16) return out;
  std::byte* bytes = nullptr;
  Tensor wide = Tensor::allocate(DType::f32, t.sizes, &bytes);
  const auto in = out.values<BFloat16>();
  for (size_t i = 0; i < in.size(); ++i) {
    const float f = in[i];
    std::memcpy(bytes + i * sizeof f, &f, sizeof f);
  }
  return wide;
}

}  // namespace

void EtDumpLog::keep_values(size_t most_bytes) {
  keeps_ = true;
  most_bytes_ = most_bytes;
}

void EtDumpLog::forget_runs() {
  std::erase_if(dump_.runs, [](const pte::EtDump::Run& run) { return run.name == kExecute; });
  needed_bytes_ = 0;
  bytes_.clear();
}

void EtDumpLog::begin_run(int32_t inputs) {
  inputs_ = inputs;
  running_ = true;
  values_.clear();
}

pte::LoggedTensor EtDumpLog::keep(const TensorState& tensor) {
  const Tensor t = for_inspector(tensor);
  const auto size = static_cast<size_t>(t.count()) * size_of(t.dtype);
  const size_t at = (needed_bytes_ + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  needed_bytes_ = at + size;
  if (needed_bytes_ <= most_bytes_) {
    bytes_.resize(needed_bytes_);
    if (size > 0) std::memcpy(bytes_.data() + at, t.data, size);
  }
  const Shape strides = contiguous_strides(t.shape);
  return {t.dtype,
          {t.shape.begin(), t.shape.end()},
          {strides.begin(), strides.end()},
          size > 0 ? static_cast<int64_t>(at) : -1};
}

bool EtDumpLog::add_value(const ObservedResult& result, pte::DebugEvent& event) {
  if (result.is_list) {
    std::vector<pte::LoggedTensor> tensors;
    for (const MethodValue* v : result.values)
      if (const auto* t = v ? std::get_if<TensorState>(v) : nullptr; t && (t->data || t->count() == 0))
        tensors.push_back(keep(*t));
    event.value = std::move(tensors);
    return true;
  }
  const MethodValue& v = *result.values[0];
  if (const auto* t = std::get_if<TensorState>(&v)) {
    if (!t->data && t->count() > 0) return false;
    event.value = keep(*t);
  } else if (const auto* n = std::get_if<int64_t>(&v)) {
    event.value = *n;
  } else if (const auto* x = std::get_if<double>(&v)) {
    event.value = *x;
  } else if (const auto* b = std::get_if<bool>(&v)) {
    event.value = *b;
  } else {
    return false;
  }
  return true;
}

void EtDumpLog::ran(uint32_t chain, uint32_t instruction, std::span<const ObservedResult> results) {
  if (!keeps_ || !running_) return;
  auto& events = values_[{chain, instruction}];
  events.clear();  // an instruction that ran again: its last values, as its last time
  for (const ObservedResult& result : results) {
    pte::DebugEvent event;
    event.chain = static_cast<int32_t>(chain);
    event.instruction = static_cast<int32_t>(instruction);
    if (add_value(result, event)) events.push_back(std::move(event));
  }
}

void EtDumpLog::add_load(int64_t start_ns, int64_t end_ns) {
  pte::EtDump::Run run;
  run.name = "Default";
  run.events.emplace_back(event("Method::init", start_ns, end_ns));
  run.events.emplace_back(event("Program::load_method", start_ns, end_ns));
  dump_.runs.push_back(std::move(run));
}

// As ExecuTorch logs them: a value of any unit is the end of an event that starts at 0.
void EtDumpLog::add_delegate(const DelegateReport& report, int32_t chain, int32_t instruction,
                             pte::EtDump::Run& run) {
  for (const DelegateEvent& e : report.events) {
    pte::ProfileEvent out;
    out.chain = chain;
    out.instruction = instruction;
    out.delegate_name = e.name;
    out.end_ns = e.value;
    run.events.emplace_back(std::move(out));
  }
  if (!keeps_) return;
  for (const DelegateTensor& t : report.tensors) {
    TensorState state;
    state.dtype = t.dtype;
    state.sizes = t.sizes;
    for (size_t d = 0; d < t.sizes.size(); ++d) state.dim_order.push_back(static_cast<uint8_t>(d));
    state.data = const_cast<std::byte*>(t.bytes.data());
    pte::DebugEvent out;
    out.chain = chain;
    out.instruction = instruction;
    out.delegate_name = t.name;
    out.value = keep(state);
    run.events.emplace_back(std::move(out));
  }
}

void EtDumpLog::add_run(const Method& method, int64_t start_ns, int64_t end_ns) {
  pte::EtDump::Run run;
  run.name = kExecute;
  run.bundled_input = inputs_;
  for (const Method::Profile& p : method.profile()) {
    if (p.start_ns == 0) continue;  // jumped over
    const auto chain = static_cast<int32_t>(p.chain), instruction = static_cast<int32_t>(p.instruction);
    if (p.delegate) add_delegate(*p.delegate, chain, instruction, run);
    if (const auto it = values_.find({p.chain, p.instruction}); it != values_.end())
      for (pte::DebugEvent& e : it->second) run.events.emplace_back(std::move(e));
    if (p.kind == "OPERATOR_CALL") {  // the kernel's own time inside the instruction's
      const std::string_view name = p.name;
      run.events.emplace_back(event(cat("native_call_", name.substr(name.find("::") + 2)), p.start_ns,
                                    p.end_ns, chain, instruction));
    }
    run.events.emplace_back(event(std::string(p.kind), p.start_ns, p.end_ns, chain, instruction));
  }
  run.events.emplace_back(event("Method::execute", start_ns, end_ns));
  if (keeps_) {
    for (size_t i = 0; i < method.output_count(); ++i) {
      pte::DebugEvent e;
      e.chain = -1;
      e.is_output = true;
      if (add_value({{&method.output(i)}}, e)) run.events.emplace_back(std::move(e));
    }
  }
  dump_.runs.push_back(std::move(run));
  values_.clear();
  running_ = false;
}

Status EtDumpLog::write(const std::string& path) const {
  const std::vector<std::byte> bytes = pte::write_etdump(dump_);
  const std::span<const std::byte> parts[] = {bytes};
  return write_file(path, parts);
}

Status EtDumpLog::write_values(const std::string& path, size_t file_bytes) const {
  if (needed_bytes_ > most_bytes_)
    return fail(Code::OutOfMemory, "the values of all instructions need ", needed_bytes_,
                " bytes, the debug buffer has ", most_bytes_);
  const std::vector<std::byte> zeros(1 << 16);
  std::vector<std::span<const std::byte>> parts = {bytes_};
  for (size_t left = file_bytes - std::min(file_bytes, bytes_.size()); left > 0;) {
    parts.push_back(std::span(zeros).first(std::min(left, zeros.size())));
    left -= parts.back().size();
  }
  return write_file(path, parts);
}

}  // namespace sixfold
