#include "sixfold/emulator/objects.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdarg>

#include "sixfold/emulator/emulator.h"

namespace sixfold::emulator {
namespace {

uint64_t microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace

void LogObject::write(abi::LogLevel at, const char* format, ...) const {
  if (!function || static_cast<uint32_t>(at) > level) return;
  va_list arguments;
  va_start(arguments, format);
  function(format, static_cast<uint32_t>(at), microseconds(), arguments);
  va_end(arguments);
}

MemoryObject::~MemoryObject() {
  if (mapped) ::munmap(mapped, mapped_bytes);
}

// Never destroyed: clients may free handles while the process ends.
Objects& objects() {
  static auto* all = new Objects;
  return *all;
}

void set_memory(Allocator& memory) { objects().allocator = &memory; }

namespace {
// Threads begin with the first graph that runs.
struct SharedPool {
  std::mutex mutex;
  size_t threads = 0;
  std::unique_ptr<cpu::Pool> pool;
};
SharedPool& shared_pool() {
  static auto* pool = new SharedPool;
  return *pool;
}
}  // namespace

cpu::Pool& pool() {
  SharedPool& shared = shared_pool();
  const std::lock_guard lock(shared.mutex);
  if (!shared.pool) shared.pool = std::make_unique<cpu::Pool>(shared.threads);
  return *shared.pool;
}

void set_threads(size_t threads) {
  SharedPool& shared = shared_pool();
  const std::lock_guard lock(shared.mutex);
  shared.threads = threads;
  shared.pool.reset();
}

abi::ErrorCode refuse(const LogObject* log, abi::ErrorCode code, const Error& error) {
  if (log) log->write(abi::LogLevel::error, "%s\n", error.message().c_str());
  return code;
}

void ProfileObject::begin() {
  events.clear();
  roots.clear();
}

uint64_t ProfileObject::add(uint32_t type, uint32_t unit, uint64_t value, std::string_view name,
                            uint64_t parent) {
  const char* text = names.emplace(name).first->c_str();
  const uint64_t event = (id << 24) | events.size();
  events.push_back({type, unit, value, text, microseconds(), {}});
  if (parent == 0)
    roots.push_back(event);
  else
    events[parent & 0xFFFFFF].parts.push_back(event);
  return event;
}

}  // namespace sixfold::emulator
