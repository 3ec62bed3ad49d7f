// For tests and fuzzing: opens any bytes as the file that they say they are, and reads all that is in reach.
#pragma once

#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "sixfold/pte/bpte.h"
#include "sixfold/pte/open.h"
#include "sixfold/pte/ptd.h"

namespace sixfold::pte {

// Reads every byte that is in reach, so that the sanitizer sees a view that is too long.
inline unsigned touch(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const std::byte b : bytes) sum += static_cast<unsigned>(b);
  return sum;
}

// What everyone may do with a verified program without looking.
inline unsigned use(const Program& program) {
  unsigned sum = 0;
  for (const Method& m : program.methods) {
    std::vector<size_t> buffers(m.buffer_sizes.begin(), m.buffer_sizes.end());
    const auto kind = [&](int64_t i) {
      return static_cast<unsigned>(m.values.at(static_cast<size_t>(i)).index());
    };
    for (const Value& value : m.values) {
      if (const auto* list = std::get_if<IntList>(&value))
        for (const int64_t i : list->items)
          sum += static_cast<unsigned>(std::get<int64_t>(m.values.at(static_cast<size_t>(i))));
      if (const auto* list = std::get_if<TensorList>(&value))
        for (const Index i : list->items)
          if (i >= 0) sum += kind(i);
      const auto* t = std::get_if<Tensor>(&value);
      if (!t) continue;
      const size_t bytes = *size_bytes(*t);
      if (t->allocation && t->allocation->offset + bytes > buffers.at(t->allocation->memory_id)) std::abort();
      if (t->data_index == 0 || t->location == Location::external) continue;
      sum += touch((t->allocation ? program.mutable_data : program.constants).at(t->data_index).first(bytes));
    }
    for (const Index i : m.inputs) sum += kind(i);
    for (const Index i : m.outputs) sum += kind(i);
    for (const Delegate& d : m.delegates) {
      sum += touch(d.blob);
      for (const CompileSpec& spec : d.specs) sum += touch(spec.value);
    }
    for (const auto& chain : m.chains) {
      for (const Instruction& instruction : chain) {
        if (const auto* call = std::get_if<KernelCall>(&instruction)) {
          sum += static_cast<unsigned>(m.operators.at(call->operator_index).name.size());
          for (const Index i : call->args) sum += kind(i);
        }
        if (const auto* call = std::get_if<DelegateCall>(&instruction))
          for (const Index i : call->args)
            sum += kind(i) + static_cast<unsigned>(m.delegates.at(call->delegate_index).id.size());
        if (const auto* jump = std::get_if<JumpFalse>(&instruction)) sum += kind(jump->condition);
        if (const auto* move = std::get_if<Move>(&instruction)) sum += kind(move->from) + kind(move->to);
        if (const auto* freed = std::get_if<Free>(&instruction)) sum += kind(freed->value);
      }
    }
  }
  for (const NamedData& item : program.named_data) sum += touch(item.data);
  return sum;
}

// Keeps what was read from being optimized away.
inline volatile unsigned exercise_sink;

// True for a file that is right.
inline bool exercise_program(std::span<const std::byte> bytes) {
  const auto program = open(bytes, {.check_data = CheckData::all});
  if (!program.ok()) return false;
  exercise_sink = use(*program);
  return true;
}

inline bool exercise(std::span<const std::byte> bytes) {
  const std::string_view id =
      bytes.size() < 8 ? "" : std::string_view(reinterpret_cast<const char*>(bytes.data()) + 4, 4);
  if (id == "FT01") {
    const auto data = read_ptd(bytes);
    if (!data.ok()) return false;
    for (const DataEntry& entry : data->entries) exercise_sink = touch(entry.data);
    return true;
  }
  if (id == "BP08") {
    const auto bundle = read_bpte(bytes);
    if (!bundle.ok()) return false;
    for (const BundledSuite& suite : bundle->suites)
      for (const BundledCase& test : suite.cases)
        for (const BundledValue& value : test.inputs)
          if (const auto* t = std::get_if<BundledTensor>(&value)) exercise_sink = touch(t->data);
    return exercise_program(bundle->program);
  }
  return exercise_program(bytes);
}

}  // namespace sixfold::pte
