// Delegates: parts of a program that somebody else executes. Who does registers functions under an id; a
// program that names an id which nobody registered is refused when it is loaded.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sixfold/execute/values.h"
#include "sixfold/load/program.h"

namespace sixfold {

struct DelegateInit {
  std::string_view method;
  std::span<const std::byte> blob;  // lives as long as the delegate
  std::span<const pte::CompileSpec> specs;
  const Program* program;  // for named data; valid during init
};

// What a delegate did in one call, as far as it can tell.
struct DelegateEvent {
  std::string name;  // with its unit: "conv_0:OpId_3 (cycles)"
  uint64_t value = 0;
};
struct DelegateTensor {  // a value inside, for whoever looks for the layer that went wrong
  std::string name;
  DType dtype = DType::none;
  Shape sizes;
  std::vector<std::byte> bytes;
};
struct DelegateReport {
  std::vector<DelegateEvent> events;
  std::vector<DelegateTensor> tensors;
};

struct DelegateFunctions {
  // A handle, which may be null. Called when a method is loaded.
  Result<void*> (*init)(const DelegateInit& init) = nullptr;
  // Inputs, then outputs: the split is the delegate's to know. Tensors have memory; a resizable one may be
  // given other sizes with resize().
  Status (*execute)(void* handle, std::span<MethodValue* const> args) = nullptr;
  // Once for every init that succeeded.
  void (*destroy)(void* handle) = nullptr;

  // What follows may be missing.
  //
  // Before the first init of a method: all its delegates of this id, for what concerns them together.
  Status (*prepare)(const Program& program, const pte::Method& method) = nullptr;
  // Whether a call with these arguments fits, when a method is loaded: sizes are the largest, data may be
  // null.
  Status (*check)(void* handle, std::span<MethodValue* const> args) = nullptr;
  // State of its own goes back to what it was after init.
  void (*reset)(void* handle) = nullptr;
  // Of the last execute.
  Result<DelegateReport> (*report)(void* handle) = nullptr;
};

// Thread-safe. InvalidArgument for an id that is taken or functions that are missing.
Status register_delegate(std::string_view id, const DelegateFunctions& functions);
// False when there was none. Methods that use it keep its functions.
bool unregister_delegate(std::string_view id);
const DelegateFunctions* find_delegate(std::string_view id);  // null when there is none

}  // namespace sixfold
