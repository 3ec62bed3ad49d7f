// For tests of rules: one ATen call, canonicalized and run.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sixfold/engine/session.h"
#include "sixfold/ops/arguments.h"

namespace sixfold {

// A graph that has its input values, the call on them, and the results.
inline std::vector<Tensor> run_graph(Graph graph, std::string_view target, Result<CallOperands> call,
                                     const std::vector<Type>& outputs, const std::vector<Tensor>& fed) {
  EXPECT_TRUE(call.ok()) << call.error().message();
  if (!call.ok()) return {};
  for (uint32_t i = 0; i < fed.size(); ++i)
    graph.inputs.push_back({graph.value(ValueId{i}).name, ValueId{i}, {}});
  graph.origins.emplace_back();
  const NodeId node = graph.add_node(Op::call, std::string(target), std::move(call->inputs),
                                     std::move(call->attrs), outputs, 0);
  for (const ValueId v : graph.node(node).outputs) graph.outputs.push_back({"y", v, {}});
  static cpu::Pool pool(2);
  auto session = Session::create(std::move(graph), {}, pool);
  EXPECT_TRUE(session.ok()) << session.error().message();
  if (!session.ok()) return {};
  const Status status = (*session)->run(fed);
  EXPECT_TRUE(status.ok()) << status.error().message();
  std::vector<Tensor> out;
  for (size_t i = 0; i < outputs.size(); ++i) {  // a copy: the session's memory ends with it
    const Tensor y = (*session)->output(i);
    std::byte* bytes = nullptr;
    out.push_back(Tensor::allocate(y.dtype, y.shape, &bytes));
    std::memcpy(bytes, y.data, y.size_bytes());
  }
  return out;
}

// The results of a call, of the given types. Arguments that are not given take their defaults.
using Given = std::vector<std::pair<std::string, std::variant<Tensor, Attr>>>;
inline std::vector<Tensor> run_aten(std::string_view target, const Given& given,
                                    const std::vector<Type>& outputs) {
  Graph graph;
  NamedArguments arguments;
  std::vector<Tensor> fed;
  for (const auto& [name, value] : given) {
    if (const Tensor* t = std::get_if<Tensor>(&value)) {
      arguments.emplace_back(name, graph.add_input(name, {t->dtype, to_dims(t->shape)}));
      fed.push_back(*t);
    } else {
      arguments.emplace_back(name, std::get<Attr>(value));
    }
  }
  return run_graph(std::move(graph), target, complete_call(find_schema(target), std::move(arguments)),
                   outputs, fed);
}

}  // namespace sixfold
