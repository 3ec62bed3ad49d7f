// Functions of the system provider.
#pragma once

#include "sixfold/emulator/api.h"

namespace sixfold::emulator::api {

ErrorCode system_context_create(Handle* out);
ErrorCode system_binary_info(Handle context, void* bytes, uint64_t size, const abi::BinaryInfo** out,
                             uint64_t* info_size);
ErrorCode system_meta_data(Handle context, const void* bytes, uint64_t size, const abi::BinaryInfo** out);
ErrorCode system_context_free(Handle context);
ErrorCode system_tensor_footprint(abi::Tensor tensor, uint64_t* out);

// Where a client wants its profile's events in the vendor's own file format, which is not known here: taken,
// so that it goes on and reads the events themselves, and nothing is written.
struct ProfileTarget {  // by value
  uint32_t type;
  const char *file, *folder;
};
ErrorCode system_profile_create(ProfileTarget target, const void* configs, uint32_t count, Handle* out);
ErrorCode system_profile_serialize(Handle target, const void* const* events, uint64_t count);
ErrorCode system_profile_free(Handle target);

}  // namespace sixfold::emulator::api
