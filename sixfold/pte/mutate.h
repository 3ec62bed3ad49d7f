// For tests: files that are nearly right, made from files that are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "sixfold/pte/program.h"
#include "sixfold/pte/testing.h"

namespace sixfold::pte {

using Rng = std::mt19937_64;

inline size_t below(Rng& rng, size_t n) { return static_cast<size_t>(rng() % n); }

// Calls f with the file after each byte in turn was given several values; f must not keep it.
template <typename F>
void for_each_neighbour(AlignedBytes& file, F&& f) {
  for (std::byte& at : file.bytes()) {
    const auto original = static_cast<uint8_t>(at);
    for (const int value :
         {0, 1, 0x7f, 0x80, 0xff, original ^ 1, original ^ 0x80, original + 1, original - 1}) {
      if (static_cast<uint8_t>(value) == original) continue;
      at = static_cast<std::byte>(value);
      f(std::span<const std::byte>(file.bytes()));
    }
    at = static_cast<std::byte>(original);
  }
}

// A few bytes or words changed, and now and then the end cut off.
inline AlignedBytes damaged_bytes(Rng& rng, std::span<const std::byte> whole) {
  const size_t size = below(rng, 8) == 0 ? below(rng, whole.size() + 1) : whole.size();
  AlignedBytes file(whole.first(size));
  for (size_t changes = 1 + below(rng, 4); changes > 0 && size >= 8; --changes) {
    if (below(rng, 2)) {
      file.bytes()[below(rng, size)] = static_cast<std::byte>(rng());
    } else {
      const uint32_t words[] = {0,
                                1,
                                0x7fffffff,
                                0x80000000,
                                0xffffffff,
                                static_cast<uint32_t>(rng()),
                                static_cast<uint32_t>(below(rng, size))};
      std::memcpy(&file.bytes()[below(rng, size / 4) * 4], &words[below(rng, std::size(words))], 4);
    }
  }
  return file;
}

// Numbers that are nearly right: what a byte rarely turns into.
template <typename T>
T near(Rng& rng, T value, size_t bound) {
  switch (below(rng, 6)) {
    case 0:
      return static_cast<T>(value + 1);
    case 1:
      return static_cast<T>(value - 1);
    case 2:
      return static_cast<T>(bound);
    case 3:
      return static_cast<T>(rng());
    case 4:
      return static_cast<T>(below(rng, bound + 1));
    default:
      return 0;
  }
}

inline void damage_value(Rng& rng, Method& m, Program& p) {
  if (m.values.empty()) return;
  Value& value = m.values[below(rng, m.values.size())];
  if (below(rng, 12) == 0) {
    value = m.values[below(rng, m.values.size())];
    return;
  }
  if (auto* list = std::get_if<IntList>(&value); list && !list->items.empty()) {
    auto& item = list->items[below(rng, list->items.size())];
    item = near(rng, item, m.values.size());
  }
  if (auto* list = std::get_if<TensorList>(&value); list && !list->items.empty()) {
    auto& item = list->items[below(rng, list->items.size())];
    item = near(rng, item, m.values.size());
  }
  auto* t = std::get_if<Tensor>(&value);
  if (!t) return;
  switch (below(rng, 7)) {
    case 0:
      if (!t->sizes.empty()) t->sizes[below(rng, t->sizes.size())] = static_cast<int32_t>(near(rng, 4, 1000));
      break;
    case 1:
      if (!t->dim_order.empty()) t->dim_order[below(rng, t->dim_order.size())] = static_cast<uint8_t>(rng());
      break;
    case 2:
      t->data_index = near(rng, t->data_index, p.constants.size());
      break;
    case 3:
      if (t->allocation) t->allocation->offset = near(rng, t->allocation->offset, 4096);
      break;
    case 4:
      if (t->allocation)
        t->allocation->memory_id = near(rng, t->allocation->memory_id, m.buffer_sizes.size());
      break;
    case 5:
      t->dtype = static_cast<DType>(1 + below(rng, 13));
      break;
    default:
      t->allocation.reset();
  }
}

inline void damage_instruction(Rng& rng, Method& m) {
  if (m.chains.empty()) return;
  auto& chain = m.chains[below(rng, m.chains.size())];
  if (chain.empty()) return;
  Instruction& instruction = chain[below(rng, chain.size())];
  const auto change = [&](Index& i) { i = near(rng, i, m.values.size()); };
  if (auto* call = std::get_if<KernelCall>(&instruction)) {
    if (!call->args.empty()) change(call->args[below(rng, call->args.size())]);
    if (below(rng, 3) == 0)
      call->operator_index = near(rng, call->operator_index, m.operators.size()) & 0x7fffffff;
    if (below(rng, 5) == 0 && !call->args.empty()) call->args.pop_back();
  }
  if (auto* call = std::get_if<DelegateCall>(&instruction); call && !call->args.empty())
    change(call->args[below(rng, call->args.size())]);
  if (auto* jump = std::get_if<JumpFalse>(&instruction)) {
    if (below(rng, 2)) change(jump->condition);
    jump->destination = near(rng, jump->destination, chain.size()) & 0x7fffffff;
  }
  if (auto* move = std::get_if<Move>(&instruction)) change(below(rng, 2) ? move->from : move->to);
  if (auto* freed = std::get_if<Free>(&instruction)) change(freed->value);
}

// One to three numbers of a program changed, which a change of bytes rarely gets past the reader.
inline void damage_meaning(Rng& rng, Program& p) {
  for (size_t changes = 1 + below(rng, 3); changes > 0; --changes) {
    Method& m = p.methods[below(rng, p.methods.size())];
    switch (below(rng, 5)) {
      case 0:
        if (!m.buffer_sizes.empty()) {
          auto& size = m.buffer_sizes[below(rng, m.buffer_sizes.size())];
          size = near(rng, size, 256);
        }
        break;
      case 1: {
        auto& list = below(rng, 2) ? m.inputs : m.outputs;
        if (!list.empty()) list[0] = near(rng, list[0], m.values.size());
        break;
      }
      case 2:
        damage_instruction(rng, m);
        break;
      default:
        damage_value(rng, m, p);
    }
  }
}

}  // namespace sixfold::pte
