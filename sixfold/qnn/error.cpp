#include "sixfold/qnn/error.h"

namespace sixfold::qnn {
namespace {

struct Name {
  uint32_t code;
  const char* text;
};
// Codes that libraries were seen to return.
constexpr Name kNames[] = {
    {1000, "not supported"},
    {1002, "out of memory, or the graph cannot be prepared"},
    {1004, "wrong argument"},
    {1005, "not permitted"},
    {1100, "general failure"},
    {2000, "unknown property"},
    {3110, "op validation failed"},
    {4000, "backend cannot be created"},
    {4003, "backend does not support it"},
    {4005, "op or op package not found"},
    {4012, "wrong backend option"},
    {5000, "wrong argument of a context, or a binary newer than the library"},
    {5002, "context handle is not valid"},
    {5003, "a graph of the context is not finalized"},
    {5005, "context cannot be created from the binary"},
    {5007, "context has no binary to give"},
    {5010, "wrong context option"},
    {6000, "wrong argument of a graph"},
    {6001, "graph handle is not valid"},
    {6003, "graph name is unknown or taken"},
    {6004, "wrong tensor of a graph"},
    {6005, "wrong op configuration"},
    {6007, "graph has a node that is not connected"},
    {6020, "graph cannot be created"},
    {6022, "graph cannot be finalized"},
    {6023, "graph is not finalized"},
    {6024, "graph is finalized already"},
    {7003, "tensor exists already"},
    {7004, "wrong tensor parameter"},
    {7007, "tensor cannot be updated"},
    {10001, "no message for this code"},
    {14001, "wrong device option, or a SoC that the library does not know"},
    {30001, "wrong argument of the system library, or no context binary"},
    {30010, "context binary is malformed"},
};
struct Range {
  uint32_t first;
  const char* text;
};
constexpr Range kRanges[] = {
    {60000, "interface error"}, {30000, "system library error"}, {15000, "global configuration error"},
    {14000, "device error"},    {13000, "performance error"},    {12000, "profiling error"},
    {11000, "log error"},       {10000, "error in an error"},    {9000, "signal error"},
    {8000, "memory error"},     {7000, "tensor error"},          {6000, "graph error"},
    {5000, "context error"},    {4000, "backend error"},         {3000, "op package error"},
    {2000, "property error"},   {1000, "common error"},          {0, "unknown error"},
};

}  // namespace

std::string_view error_name(uint32_t code) {
  for (const Name& n : kNames)
    if (n.code == code) return n.text;
  for (const Range& r : kRanges)
    if (code >= r.first) return r.text;
  return "";
}

Error device_error(std::string_view call, abi::ErrorCode error, std::string_view log) {
  const uint32_t code = code_of(error);
  std::string text = cat("QNN ", call, " failed with ", code, " (", error_name(code), ")");
  if (!log.empty()) text += cat(": ", log);
  return {Code::Device, std::move(text)};
}

}  // namespace sixfold::qnn
