// Rules for the NPU keep what a graph computes: the CPU engine runs it before and after.
#include <gtest/gtest.h>

#include "sixfold/lower/lowering.h"
#include "sixfold/rewrite/prepare.h"
#include "sixfold/rewrite/run_graph.h"

namespace sixfold {
namespace {

Graph prepared(const std::string& text, HtpTarget target = {}) {
  Graph graph = graph_of(text);
  const Status status = prepare_for_htp(graph, target);
  EXPECT_TRUE(status.ok()) << status.error().message();
  return graph;
}

std::string lowered(const Graph& graph) {
  auto spec = lower_island(graph, choose_forms(graph), "g");
  EXPECT_TRUE(spec.ok()) << spec.error().message() << "\n" << print(graph);
  return spec.ok() ? qnn::print(*spec) : "";
}

// Before and after give the same, everything has a lowering, and `gone` is no op of the graph any more.
void expect_kept(const std::string& text, std::string_view gone, HtpTarget target = {}) {
  const Graph before = graph_of(text), after = prepared(text, target);
  for (const NodeId id : after.order()) EXPECT_NE(to_text(after.node(id).op), gone) << print(after);
  const auto want = run(before), got = run(after);
  ASSERT_EQ(want.size(), got.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(want[i].size(), got[i].size());
    for (size_t k = 0; k < want[i].size(); ++k)
      ASSERT_NEAR(want[i][k], got[i][k], 1e-4) << "output " << i << " at " << k << "\n" << print(after);
  }
  lowered(after);
}

TEST(HtpRules, a_permute_of_many_axes_is_moves_of_few) {
  const std::string text = R"(
input %x: f32[2, 3, 2, 5, 2, 3, 2]
%1 = permute(%x, dims=[6, 4, 2, 0, 5, 3, 1]) : f32[2, 2, 2, 2, 3, 5, 3]
output %1
)";
  expect_kept(text, "");
  const Graph g = prepared(text);
  for (const NodeId id : g.order())
    if (g.node(id).op == Op::permute) {
      EXPECT_LE(g.type(g.node(id).output()).rank(), 5u);
    }
}

void expect_few_axes(const std::string& text) {
  expect_kept(text, "");
  const Graph g = prepared(text);
  for (const NodeId id : g.order())
    if (g.node(id).op != Op::reshape) {
      EXPECT_LE(g.type(g.node(id).output()).rank(), 5u) << print(g);
    }
}

TEST(HtpRules, a_linear_of_many_axes_has_rows) {
  expect_few_axes(R"(
input %x: f32[2, 3, 1, 2, 2, 4]
input %w: f32[3, 4]
%1 = linear(%x, %w, none, activation="none") : f32[2, 3, 1, 2, 2, 3]
output %1
)");
}

TEST(HtpRules, a_reduction_of_neighbours_among_many_axes_is_of_one_in_three) {
  for (const char* op : {"amax", "sum", "mean"})
    expect_few_axes(cat("input %x: f32[1, 2, 3, 2, 2, 3]\n%1 = ", op,
                        "(%x, dims=[2, 3], keepdim=false) : f32[1, 2, 2, 3]\noutput %1\n"));
}

TEST(HtpRules, a_permute_that_moves_single_places_is_a_reshape) {
  expect_kept(R"(
input %x: f32[1, 4, 1, 6]
%1 = permute(%x, dims=[2, 1, 3, 0]) : f32[1, 4, 6, 1]
output %1
)",
              "permute");
}

TEST(HtpRules, permutes_around_a_follower_cost_nothing) {
  const std::string text = lowered(prepared(R"(
input %x: f32[1, 6, 5, 8]
%1 = permute(%x, dims=[0, 3, 1, 2]) : f32[1, 8, 6, 5]
%2 = relu(%1) : f32[1, 8, 6, 5]
%3 = permute(%2, dims=[0, 2, 3, 1]) : f32[1, 6, 5, 8]
output %3
)"));
  EXPECT_EQ(text.find("Transpose"), std::string::npos) << text;
}

TEST(HtpRules, a_permute_whose_other_order_is_there_is_a_reshape) {
  const std::string text = lowered(prepared(R"(
input %x: f32[1, 6, 5]
constant %w: f32[4, 5, 3, 1] = ...
%1 = reshape(%x, shape=[1, 6, 5, 1]) : f32[1, 6, 5, 1]
%2 = permute(%1, dims=[0, 2, 1, 3]) : f32[1, 5, 6, 1]
%3 = convolution(%2, %w, stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], groups=1, transposed=false, output_padding=[0, 0], activation="none") : f32[1, 4, 4, 1]
%4 = permute(%3, dims=[0, 2, 3, 1]) : f32[1, 4, 1, 4]
output %4
)"));
  EXPECT_EQ(text.find("Transpose"), std::string::npos) << text;
}

TEST(HtpRules, points_of_an_image_become_rows_and_back_without_moving) {
  const std::string text = lowered(prepared(R"(
input %x: f32[1, 6, 6, 4]
constant %w: f32[8, 4, 1, 1] = ...
constant %u: f32[4, 8, 1, 1] = ...
%1 = permute(%x, dims=[0, 3, 1, 2]) : f32[1, 4, 6, 6]
%2 = convolution(%1, %w, stride=[2, 2], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], groups=1, transposed=false, output_padding=[0, 0], activation="none") : f32[1, 8, 3, 3]
%3 = reshape(%2, shape=[1, 8, 9]) : f32[1, 8, 9]
%4 = permute(%3, dims=[0, 2, 1]) : f32[1, 9, 8]
%5 = softmax(%4, dim=2) : f32[1, 9, 8]
%6 = permute(%5, dims=[0, 2, 1]) : f32[1, 8, 9]
%7 = reshape(%6, shape=[1, 8, 3, 3]) : f32[1, 8, 3, 3]
%8 = convolution(%7, %u, stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], groups=1, transposed=false, output_padding=[0, 0], activation="none") : f32[1, 4, 3, 3]
%9 = permute(%8, dims=[0, 2, 3, 1]) : f32[1, 3, 3, 4]
output %9
)"));
  EXPECT_EQ(text.find("Transpose"), std::string::npos) << text;
}

TEST(HtpRules, what_is_added_to_a_token_and_the_others_is_added_before_they_are_joined) {
  const std::string text = lowered(prepared(R"(
input %x: f32[1, 3, 4]
constant %token: f32[1, 1, 4] = ...
constant %places: f32[1, 4, 4] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
%1 = concat(%token, %x, dim=1) : f32[1, 4, 4]
%2 = add(%1, %places) : f32[1, 4, 4]
output %2
)"));
  const size_t add = text.find("ElementWiseAdd"), concat = text.find("Concat");
  ASSERT_NE(add, std::string::npos) << text;
  ASSERT_NE(concat, std::string::npos) << text;
  EXPECT_LT(add, concat) << text;
  EXPECT_EQ(text.find("ElementWiseAdd", add + 1), std::string::npos) << text;
}

TEST(HtpRules, what_adds_nothing_or_multiplies_by_one_is_dropped) {
  const std::string text = lowered(prepared(R"(
input %x: f32[1, 3, 4]
constant %nothing: f32[1, 3, 4] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
constant %one: f32[4] = [1, 1, 1, 1]
constant %some: f32[4] = [0, 0, 1, 0]
constant %wider: f32[2, 3, 4] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
%1 = exp(%x) : f32[1, 3, 4]
%2 = add(%1, %nothing) : f32[1, 3, 4]
%3 = mul(%one, %2) : f32[1, 3, 4]
%4 = sub(%nothing, %3) : f32[1, 3, 4]
%5 = add(%4, %some) : f32[1, 3, 4]
%6 = add(%5, %wider) : f32[2, 3, 4]
output %6
)"));
  const auto count = [&](std::string_view type) {
    size_t n = 0;
    for (size_t at = text.find(type); at != std::string::npos; at = text.find(type, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("ElementWiseAdd("), 2u) << text;
  EXPECT_EQ(count("ElementWiseSubtract("), 1u) << text;
  EXPECT_EQ(count("ElementWiseMultiply("), 0u) << text;
}

TEST(HtpRules, a_log_softmax_is_of_bounded_numbers) {
  expect_kept(R"(
input %x: f32[3, 8]
%1 = log_softmax(%x, dim=1) : f32[3, 8]
output %1
)",
              "");
  const std::string text = lowered(prepared(R"(
input %x: f32[3, 8]
%1 = log_softmax(%x, dim=1) : f32[3, 8]
output %1
)"));
  for (const char* part : {"ReduceMax(", "ElementWiseSubtract(", "ReluMinMax(", "LogSoftmax("})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(HtpRules, borders_are_slices) {
  for (const char* mode : {"replicate", "circular"})
    expect_kept(cat(R"(
input %x: f32[1, 2, 4, 5]
%1 = pad(%x, before=[0, 0, 1, 2], after=[0, 0, 2, 3], mode=")",
                    mode, R"(", value=0) : f32[1, 2, 7, 10]
output %1
)"),
                "pad");
  expect_kept(R"(
input %x: i64[3, 4]
%1 = pad(%x, before=[1, 0], after=[0, 2], mode="constant", value=7) : i64[4, 6]
output %1
)",
              "pad");
}

// What lies around planes is one of their numbers: no grid has room for one below all others.
TEST(HtpRules, what_pads_a_maximum_is_no_number_below_all_others) {
  const char* kPools[] = {
      R"(
%p = pad(%x, before=[0, 0, 1, 0], after=[0, 0, 0, 2], mode="constant", value=-inf) : f32[1, 2, 8, 11]
%y, %i = max_pool(%p, kernel=[2, 3], stride=[1, 1], padding=[0, 0], dilation=[1, 1], ceil_mode=false) : f32[1, 2, 7, 9], i64[1, 2, 7, 9]
)",
      R"(
%y, %i = max_pool(%x, kernel=[3, 3], stride=[1, 2], padding=[1, 1], dilation=[2, 3], ceil_mode=false) : f32[1, 2, 5, 3], i64[1, 2, 5, 3]
)"};
  for (const char* pool : kPools)
    for (const char* first : {"%x = sub(%a, %b)", "%x = relu(%a)"}) {
      const std::string text = cat("input %a: f32[1, 2, 7, 9]\ninput %b: f32[1, 2, 7, 9]\n", first,
                                   " : f32[1, 2, 7, 9]", pool, "output %y\n");
      expect_kept(text, "");
      const Graph g = prepared(text);
      for (const NodeId id : g.order())
        if (g.node(id).op == Op::pad) {
          EXPECT_EQ(g.node(id).attrs.real("value"), 0) << print(g);
        }
    }
}

TEST(HtpRules, several_indices_are_one) {
  // adjacent, and apart; negative ones count from the end
  expect_kept(R"(
input %x: f32[2, 3, 4, 5]
input %i: i64[6]
input %j: i64[2, 1]
%1 = index(%x, %i, %j, dims=[1, 2]) : f32[2, 2, 6, 5]
%2 = index(%x, %i, %j, dims=[1, 3]) : f32[2, 6, 2, 4]
output %1
output %2
)",
              "index");
}

TEST(HtpRules, assigned_places_are_rows) {
  for (const char* accumulate : {"false", "true"})
    expect_kept(cat(R"(
input %x: f32[2, 3, 4, 5]
input %v: f32[2, 5]
input %i: i64[2]
%1 = index_put(%x, %v, %i, dims=[2], accumulate=)",
                    accumulate, R"() : f32[2, 3, 4, 5]
%2 = index_put(%x, %v, %i, %i, dims=[1, 2], accumulate=)",
                    accumulate, R"() : f32[2, 3, 4, 5]
output %1
output %2
)"),
                "");
}

TEST(HtpRules, a_scatter_that_reduces_compares) {
  for (const char* reduce : {"add", "mul", "mean", "amax", "amin"})
    for (const char* self : {"true", "false"})
      expect_kept(cat(R"(
input %x: f32[4, 5]
input %k: i64[3, 4]
input %s: f32[3, 5]
constant %four: i64[] = [2]
%i = add(%k, %four) : i64[3, 4]
%1 = scatter(%x, %i, %s, dim=0, reduce=")",
                      reduce, "\", include_self=", self, R"() : f32[4, 5]
output %1
)"),
                  "scatter");
}

TEST(HtpRules, slices_are_assigned_by_concatenation) {
  for (const auto* range : {"start=1, end=3, step=1", "start=0, end=4, step=2"})
    expect_kept(cat(R"(
input %x: f32[3, 4]
input %s: f32[3, 2]
%1 = slice_scatter(%x, %s, dim=1, )",
                    range, R"() : f32[3, 4]
output %1
)"),
                "slice_scatter");
}

TEST(HtpRules, sorting_is_topk_of_the_last_axis) {
  expect_kept(R"(
input %x: f32[5, 3]
%1, %2 = sort(%x, dim=0, descending=false) : f32[5, 3], i64[5, 3]
%3, %4 = topk(%x, k=2, dim=1, largest=false) : f32[5, 2], i64[5, 2]
output %1
output %2
output %3
output %4
)",
              "sort");
}

TEST(HtpRules, attention_is_products_and_a_softmax) {
  constexpr const char* kMasks[] = {"", ", %b", ", %f"};
  for (const char* mask : kMasks)
    for (const char* causal : {"false", "true"})
      for (const bool heads : {false, true})
        expect_kept(cat(R"(
input %q: f32[2, 4, 3, 8]
input %k: f32[2, 2, 5, 8]
input %v: f32[2, 2, 5, 6]
input %b: bool[3, 5]
input %f: f32[2, 1, 3, 5]
%1 = sdpa(%q, %k, %v)",
                        mask, ", causal=", causal, R"(, scale=0.5) : f32[2, 4, 3, 6]
output %1
)"),
                    "sdpa", {.single_heads = heads});
}

TEST(HtpRules, a_query_without_keys_gives_zero) {
  const auto out = run(prepared(R"(
input %q: f32[1, 1, 2, 4]
input %k: f32[1, 1, 3, 4]
input %v: f32[1, 1, 3, 4]
constant %m: bool[2, 3] = [1, 0, 1, 0, 0, 0]
%1 = sdpa(%q, %k, %v, %m, causal=false, scale=1) : f32[1, 1, 2, 4]
output %1
)"));
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(out[0][i] == 0, i >= 4) << i;
}

TEST(HtpRules, recurrent_layers_are_steps) {
  expect_kept(R"(
input %x: f32[4, 2, 3]
input %h: f32[2, 5]
input %c: f32[2, 5]
input %wi: f32[20, 3]
input %wh: f32[20, 5]
input %bi: f32[20]
input %bh: f32[20]
%1, %2, %3 = lstm(%x, %h, %c, %wi, %wh, %bi, %bh, reverse=true) : f32[4, 2, 5], f32[2, 5], f32[2, 5]
output %1
output %2
output %3
)",
              "lstm");
  expect_kept(R"(
input %x: f32[4, 2, 3]
input %h: f32[2, 5]
input %wi: f32[15, 3]
input %wh: f32[15, 5]
input %bi: f32[15]
input %bh: f32[15]
%1, %2 = gru(%x, %h, %wi, %wh, %bi, %bh, reverse=false) : f32[4, 2, 5], f32[2, 5]
output %1
output %2
)",
              "gru");
}

}  // namespace
}  // namespace sixfold
