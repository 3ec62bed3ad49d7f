// libQnnHtp.so for tests: another one (SIXFOLD_TEST_LIBRARY), except that graphs with an op of the type
// SIXFOLD_TEST_TYPE, and of SIXFOLD_TEST_WITH if that is set, crash it when they are finalized; with
// SIXFOLD_TEST_FAILS they only fail. With SIXFOLD_TEST_ALONE so does every context's second graph.
#include <dlfcn.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "sixfold/qnn/abi.h"

namespace abi = sixfold::qnn::abi;

namespace {

abi::Functions real;
std::map<abi::Handle, std::set<std::string>> types;  // by graph
std::map<abi::Handle, abi::Handle> contexts;         // by graph
std::map<abi::Handle, int> finalized;                // graphs, by context

bool has(abi::Handle graph, const char* variable, bool otherwise) {
  const char* type = std::getenv(variable);
  return type ? types[graph].count(type) > 0 : otherwise;
}

abi::ErrorCode create_context(abi::Handle backend, abi::Handle device, abi::ConfigList list,
                              abi::Handle* context) {
  const abi::ErrorCode e = real.context_create(backend, device, list, context);
  finalized[*context] = 0;  // the address may have been another one's
  return e;
}

abi::ErrorCode create_graph(abi::Handle context, const char* name, abi::ConfigList list, abi::Handle* graph) {
  const abi::ErrorCode e = real.graph_create(context, name, list, graph);
  contexts[*graph] = context;
  return e;
}

abi::ErrorCode add_node(abi::Handle graph, abi::Op op) {
  types[graph].insert(op.type);
  return real.graph_add_node(graph, op);
}

abi::ErrorCode finalize(abi::Handle graph, abi::Handle profile, abi::Handle signal) {
  const bool second = ++finalized[contexts[graph]] > 1 && std::getenv("SIXFOLD_TEST_ALONE");
  const bool hit =
      second || (has(graph, "SIXFOLD_TEST_TYPE", false) && has(graph, "SIXFOLD_TEST_WITH", true));
  types.erase(graph);  // the address may serve another graph
  if (!hit) return real.graph_finalize(graph, profile, signal);
  if (!std::getenv("SIXFOLD_TEST_FAILS")) std::raise(SIGSEGV);
  return 6020;
}

}  // namespace

extern "C" abi::ErrorCode QnnInterface_getProviders(const abi::Provider* const** list, uint32_t* count) {
  static abi::Provider changed;
  static const abi::Provider* all[] = {&changed};
  void* library = ::dlopen(std::getenv("SIXFOLD_TEST_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  if (!library) return 1;
  const auto original = reinterpret_cast<abi::GetProviders>(::dlsym(library, "QnnInterface_getProviders"));
  if (const abi::ErrorCode e = original(list, count); e != 0) return e;
  std::memcpy(static_cast<void*>(&changed), (*list)[0], sizeof changed);
  real = changed.functions;
  changed.functions.context_create = create_context;
  changed.functions.graph_create = create_graph;
  changed.functions.graph_add_node = add_node;
  changed.functions.graph_finalize = finalize;
  *list = all;
  *count = 1;
  return 0;
}
