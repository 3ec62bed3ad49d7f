// Our own engine behind the QNN API: computes on the host CPU what Qualcomm's NPU computes.
//
// The providers are static objects, as those of Qualcomm's libraries are: qnn::Library takes them in this
// process, libQnnHtp.so and libQnnSystem.so of this project give them to others.
#pragma once

#include "sixfold/base/allocator.h"
#include "sixfold/qnn/library.h"

namespace sixfold::emulator {

// One, as clients expect it, of the latest API that was seen; its table has as many functions as that
// version's.
const qnn::abi::Provider* const* providers(uint32_t* count);
const qnn::abi::SystemProvider* const* system_providers(uint32_t* count);

qnn::Library library();  // for qnn::Backend
qnn::SystemLibrary system_library();

// Where what graphs size (weights, activations, binaries) comes from, for contexts that are made from now on;
// by default the system. It must outlive them.
void set_memory(Allocator& memory);

// Threads of all kernels of this process; 0: one for each core. No graph may run meanwhile.
void set_threads(size_t threads);

inline constexpr const char* kEngineName = "sixfold emulator";

}  // namespace sixfold::emulator
