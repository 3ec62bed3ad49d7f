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

struct DelegateFunctions {
  // A handle, which may be null. Called when a method is loaded.
  Result<void*> (*init)(const DelegateInit& init) = nullptr;
  // Inputs, then outputs: the split is the delegate's to know. Tensors have memory; a resizable one may be
  // given other sizes with resize().
  Status (*execute)(void* handle, std::span<MethodValue* const> args) = nullptr;
  // Once for every init that succeeded.
  void (*destroy)(void* handle) = nullptr;
};

// Thread-safe. InvalidArgument for an id that is taken or functions that are missing.
Status register_delegate(std::string_view id, const DelegateFunctions& functions);
// False when there was none. Methods that use it keep its functions.
bool unregister_delegate(std::string_view id);
const DelegateFunctions* find_delegate(std::string_view id);  // null when there is none

}  // namespace sixfold
