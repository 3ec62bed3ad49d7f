#include <gtest/gtest.h>

#include "sixfold/ops/aten_call_test.h"
#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

TEST(IndexRules, a_mask_takes_its_values_in_order) {
  const Tensor x = tensor_of<float>({2, 2}, {1, 2, 3, 4});
  const Tensor mask = tensor_of<bool>({2, 2}, {true, false, false, true});
  Graph graph;
  const ValueId self = graph.add_input("x", {DType::f32, {2, 2}}),
                at = graph.add_input("m", {DType::boolean, {2, 2}});
  const ValueId values = graph.add_input("v", {DType::f32, {2}});
  auto call = complete_call(find_schema("aten.index_put.default"),
                            {{"self", self}, {"indices", Argument::list({at})}, {"values", values}});
  const Tensor y = run_graph(graph, "aten.index_put.default", std::move(call), {{DType::f32, {2, 2}}},
                             {x, mask, tensor_of<float>({2}, {7, 8})})[0];
  EXPECT_EQ(values_of<float>(y), (std::vector<float>{7, 2, 3, 8}));
}

TEST(IndexRules, nonzero_static_fills_what_is_missing) {
  const Tensor x = tensor_of<float>({2, 2}, {0, 5, 0, 6});
  const auto rows = [&](int64_t size) {
    return values_of<int64_t>(
        run_aten("aten.nonzero_static.default",
                 {{"self", x}, {"size", Attr(Dim(size))}, {"fill_value", Attr(Dim(-1))}},
                 {{DType::i64, {Dim(size), 2}}})[0]);
  };
  EXPECT_EQ(rows(1), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(rows(3), (std::vector<int64_t>{0, 1, 1, 1, -1, -1}));
}

}  // namespace
}  // namespace sixfold
