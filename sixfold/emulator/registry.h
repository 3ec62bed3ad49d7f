// Handles: numbers that are given out once and looked up, so that a stale or made-up one is an error and no
// crash. What they stand for lives on while a call uses it, whoever frees it meanwhile.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "sixfold/qnn/abi.h"

namespace sixfold::emulator {

// Of all kinds: a handle of one kind is none of another.
inline uint64_t next_handle() {
  static std::atomic<uint64_t> next{0x1000};
  return ++next;
}

template <typename T>
class Registry {
 public:
  qnn::abi::Handle add(std::shared_ptr<T> object) {
    const uint64_t id = next_handle();
    const std::lock_guard lock(mutex_);
    objects_.emplace(id, std::move(object));
    return reinterpret_cast<qnn::abi::Handle>(id);
  }
  std::shared_ptr<T> find(qnn::abi::Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(reinterpret_cast<uint64_t>(handle));
    return at == objects_.end() ? nullptr : at->second;
  }
  // Null when there is none.
  std::shared_ptr<T> remove(qnn::abi::Handle handle) {
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(reinterpret_cast<uint64_t>(handle));
    if (at == objects_.end()) return nullptr;
    std::shared_ptr<T> out = std::move(at->second);
    objects_.erase(at);
    return out;
  }
  template <typename Predicate>
  void remove_if(const Predicate& predicate) {
    const std::lock_guard lock(mutex_);
    std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<T>> objects_;
};

}  // namespace sixfold::emulator
