// ETDump: what happened while a program ran, in the file that ExecuTorch's Inspector opens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "sixfold/base/dtype.h"

namespace sixfold::pte {

inline constexpr int32_t kNoInstruction = -1;

// A span of time. Names that the Inspector knows: "Method::init", "Program::load_method", "Method::execute",
// "OPERATOR_CALL" and "DELEGATE_CALL" around "native_call_add.out" and what the delegate reports.
struct ProfileEvent {
  std::string name;
  int32_t chain = -1;  // of a method; -1: outside of its chains
  int32_t instruction = kNoInstruction;
  // Events inside a delegate have one of these, by which its own map finds the node.
  int32_t delegate_id = -1;
  std::string delegate_name;
  std::vector<std::byte> delegate_metadata;
  uint64_t start_ns = 0, end_ns = 0;
};

// A value as it was then. Tensors' bytes are in another file, the debug buffer.
struct LoggedTensor {
  DType dtype = DType::none;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // in the debug buffer
};
struct DebugEvent {
  int32_t chain = 0;
  int32_t instruction = kNoInstruction;
  int32_t delegate_id = -1;
  std::string name, delegate_name;
  std::variant<LoggedTensor, std::vector<LoggedTensor>, int64_t, double, bool> value;
  bool is_output = false;  // of the program; chain is -1 then
};

struct EtDump {
  struct Run {
    std::string name = "Execute";  // "Default" for what happens before the first
    int32_t bundled_input = -1;    // case of a .bpte
    std::vector<std::variant<ProfileEvent, DebugEvent>> events;
  };
  std::vector<Run> runs;
};

std::vector<std::byte> write_etdump(const EtDump& dump);

}  // namespace sixfold::pte
