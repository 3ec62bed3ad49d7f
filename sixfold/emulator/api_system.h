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

}  // namespace sixfold::emulator::api
