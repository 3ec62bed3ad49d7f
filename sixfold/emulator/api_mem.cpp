// Memory that the client shares: mapped here from its descriptor, as the device would, so that graphs read
// and write it where it lies. Qualcomm's library on a host refuses every kind.
#include <sys/mman.h>
#include <unistd.h>

#include "sixfold/emulator/api.h"

namespace sixfold::emulator::api {
namespace {

constexpr uint32_t kMostRank = 8, kMostRegistered = 1u << 16;

// The part of a file that a tensor has.
struct Place {
  int fd = -1;
  uint64_t offset = 0, bytes = 0;
};

Result<uint64_t> bytes_of(const abi::MemoryDescriptor& d) {
  if (d.rank > kMostRank || (d.rank > 0 && !d.dims))
    return invalid_argument("memory has ", d.rank, " dimensions, expected up to ", kMostRank);
  uint64_t bytes = qnn::size_of(d.dtype);
  for (uint32_t i = 0; i < d.rank; ++i)
    if (__builtin_mul_overflow(bytes, uint64_t{d.dims[i]}, &bytes) || bytes > SIZE_MAX / 2)
      return invalid_argument("the dimensions of memory are more than memory can have");
  if (bytes == 0) return invalid_argument("memory has no bytes: type ", static_cast<uint32_t>(d.dtype));
  return bytes;
}

ErrorCode find_place(const abi::MemoryDescriptor& d, Place& out, const LogObject* log) {
  Result<uint64_t> bytes = bytes_of(d);
  if (!bytes.ok()) return refuse(log, kMemoryShape, bytes.error());
  out.bytes = *bytes;
  switch (d.type) {
    case abi::MemoryType::ion:
    case abi::MemoryType::dma_buffer:
      out.fd = d.fd;
      return kOk;
    case abi::MemoryType::custom: {
      const auto* shared = static_cast<const abi::HtpMemory*>(d.custom);
      if (!shared) return refuse(log, kMemoryArgument, invalid_argument("shared memory has no description"));
      if (shared->type != abi::kHtpSharedBuffer)
        return refuse(log, kMemoryType, unsupported("there is no HTP memory of type ", shared->type));
      if (shared->offset > shared->size_bytes || out.bytes > shared->size_bytes - shared->offset)
        return refuse(log, kMemoryShape,
                      invalid_argument(out.bytes, " bytes at ", shared->offset,
                                       " are beyond a shared buffer of ", shared->size_bytes));
      out.fd = shared->fd;
      out.offset = shared->offset;
      return kOk;
    }
  }
  return refuse(log, kMemoryType, unsupported("there is no memory of type ", static_cast<uint32_t>(d.type)));
}

// A mapping may not reach beyond its file: touching that would end the process.
ErrorCode map(const Place& place, MemoryObject& out, const LogObject* log) {
  const off_t end = ::lseek(place.fd, 0, SEEK_END);
  if (end < 0)
    return refuse(log, kMemoryMapping, invalid_argument("descriptor ", place.fd, " is of no memory"));
  if (place.bytes > static_cast<uint64_t>(end) || place.offset > static_cast<uint64_t>(end) - place.bytes)
    return refuse(log, kMemoryShape,
                  invalid_argument(place.bytes, " bytes at ", place.offset, " are beyond the ", end,
                                   " of descriptor ", place.fd));
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t skipped = place.offset % page;
  void* const at = ::mmap(nullptr, place.bytes + skipped, PROT_READ | PROT_WRITE, MAP_SHARED, place.fd,
                          static_cast<off_t>(place.offset - skipped));
  if (at == MAP_FAILED)
    return refuse(log, kMemoryMapping, invalid_argument("descriptor ", place.fd, " cannot be mapped"));
  out.mapped = static_cast<std::byte*>(at);
  out.mapped_bytes = place.bytes + skipped;
  out.data = out.mapped + skipped;
  out.size_bytes = place.bytes;
  return kOk;
}

}  // namespace

ErrorCode memory_register(Handle handle, const abi::MemoryDescriptor* all, uint32_t count, Handle* out) {
  const auto context = objects().contexts.find(handle);
  if (!context || !context->backend->is_alive) return kContextHandle;
  if (!all || !out || count == 0 || count > kMostRegistered) return kMemoryArgument;
  std::vector<std::shared_ptr<MemoryObject>> made;
  for (uint32_t i = 0; i < count; ++i) {
    Place place;
    if (const ErrorCode e = find_place(all[i], place, context->log()); e != kOk) return e;
    made.push_back(std::make_shared<MemoryObject>());
    made.back()->context = context;
    if (const ErrorCode e = map(place, *made.back(), context->log()); e != kOk) return e;
  }
  for (uint32_t i = 0; i < count; ++i) out[i] = objects().memories.add(std::move(made[i]));
  return kOk;
}

ErrorCode memory_deregister(const Handle* handles, uint32_t count) {
  if (!handles || count == 0) return kMemoryArgument;
  for (uint32_t i = 0; i < count; ++i)
    if (!objects().memories.find(handles[i])) return kMemoryHandle;
  for (uint32_t i = 0; i < count; ++i) objects().memories.remove(handles[i]);
  return kOk;
}

}  // namespace sixfold::emulator::api
