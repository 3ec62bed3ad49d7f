// What the handles of the emulator's provider stand for.
#pragma once

#include <map>
#include <set>

#include "sixfold/emulator/graph.h"
#include "sixfold/emulator/registry.h"

namespace sixfold::emulator {

namespace abi = qnn::abi;

struct LogObject {
  abi::LogFunction function = nullptr;
  std::atomic<uint32_t> level{0};

  void write(abi::LogLevel at, const char* format, ...) const __attribute__((format(printf, 3, 4)));
};

struct BackendObject {
  std::shared_ptr<LogObject> log;  // may be null
  std::atomic<bool> is_alive{true};
};

struct DeviceObject {
  DeviceModel model;
};

struct ContextObject;

struct GraphObject {
  GraphObject(std::string name, const DeviceModel& device, Constants& constants, Allocator& allocator)
      : graph(std::move(name), device, constants, allocator) {}
  std::mutex building;
  Graph graph;
  std::set<std::string, std::less<>> names;  // of its tensors
  std::weak_ptr<ContextObject> context;
  abi::Handle handle = nullptr;
  // As the client asked; only for the info.
  uint32_t vtcm_mb = 4, optimization_level = 0, hvx_threads = 0;
};

// A client's memory, mapped.
struct MemoryObject {
  MemoryObject() = default;
  ~MemoryObject();
  MemoryObject(const MemoryObject&) = delete;
  MemoryObject& operator=(const MemoryObject&) = delete;

  std::weak_ptr<ContextObject> context;
  std::byte* mapped = nullptr;
  size_t mapped_bytes = 0;
  std::byte* data = nullptr;  // of the tensor
  size_t size_bytes = 0;
};

struct ContextObject {
  std::shared_ptr<BackendObject> backend;
  DeviceModel device;
  Constants constants;
  OwnedBlock bytes;  // of a binary that was loaded and copied
  bool is_loaded = false;
  std::mutex building;  // constants and graphs change under it
  std::vector<std::shared_ptr<GraphObject>> graphs;

  LogObject* log() const { return backend ? backend->log.get() : nullptr; }
};

struct EventData {
  uint32_t type = 0, unit = 0;
  uint64_t value = 0;
  const char* name = "";
  uint64_t time_us = 0;
  std::vector<uint64_t> parts;
};

// Events of the last call. Their ids are the profile's number and a count.
struct ProfileObject {
  uint32_t level = 0;
  uint64_t id = 0;
  std::mutex mutex;
  std::vector<EventData> events;
  std::vector<uint64_t> roots;
  std::set<std::string, std::less<>> names;  // live as long as the profile

  void begin();
  // Its id; parent 0: none.
  uint64_t add(uint32_t type, uint32_t unit, uint64_t value, std::string_view name, uint64_t parent = 0);
};

struct Objects {
  Registry<LogObject> logs;
  Registry<BackendObject> backends;
  Registry<DeviceObject> devices;
  Registry<ContextObject> contexts;
  Registry<GraphObject> graphs;
  Registry<ProfileObject> profiles;
  Registry<MemoryObject> memories;
  // The device that was made last: whom validation answers for.
  std::mutex mutex;
  DeviceModel last_device;
  // Of what is sized by graphs: constants, packed weights, activations, binaries. Tests have their own.
  std::atomic<Allocator*> allocator{&system_allocator()};
};
Objects& objects();

// Threads of kernels, shared by all graphs of the process.
cpu::Pool& pool();

// Says it in the log, and gives the code.
abi::ErrorCode refuse(const LogObject* log, abi::ErrorCode code, const Error& error);

}  // namespace sixfold::emulator
