// Many bytes that are written once and read once: new ones are not set to zero, and their memory is recycled.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "sixfold/base/recycled.h"

namespace sixfold {

template <typename T>
struct UnsetElements {
  using value_type = T;
  UnsetElements() = default;
  template <typename U>
  UnsetElements(const UnsetElements<U>&) {}  // NOLINT(google-explicit-constructor): as allocators are

  T* allocate(size_t n) {
    void* const memory = recycled_memory().allocate(n * sizeof(T), alignof(T));
    if (!memory) std::abort();  // as operator new does where nothing is thrown
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t n) { recycled_memory().release(memory, n * sizeof(T)); }
  template <typename U>
  void construct(U* at) {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
  bool operator==(const UnsetElements&) const { return true; }
};

using Bytes = std::vector<std::byte, UnsetElements<std::byte>>;

}  // namespace sixfold
