#include "sixfold/quantize/doubts.h"

#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

struct Doubts : ::testing::Test {
  Graph graph = graph_of(R"(
input %x: f32[1, 4]
input %m: f32[1, 4]
%a = mul(%x, %m) : f32[1, 4]
%b = relu(%a) : f32[1, 4]
%c = exp(%b) : f32[1, 4]
output %c
)");
  Observations seen = seen_all(graph, -1, 1);
  Doubts() {
    for (Observation& o : seen.values) o.count = 4;
  }
  void was(std::string_view name, float min, float max) {
    Observation& o = seen.values[named(graph, name).index];
    o.min = o.unmasked_min = min;
    o.max = max;
  }
  // All of them, a line each.
  std::string told() const {
    std::string out;
    for (const std::string& what : doubts_about(graph, seen)) out += what + "\n";
    return out;
  }
};

TEST_F(Doubts, samples_that_vary_leave_none) { EXPECT_EQ(told(), ""); }

TEST_F(Doubts, a_constant_input_is_named_and_what_follows_from_it_is_not) {
  was("m", 0, 0);
  was("a", 0, 0);
  was("b", 0, 0);
  EXPECT_EQ(
      told(),
      "input m (0) has one number throughout the 1 sample: no sample shows what else it can be, and its "
      "range is a guess\n");
}

TEST_F(Doubts, a_layer_that_gives_one_number_is_named) {
  graph.origins.push_back({.name = "relu_7"});
  graph.node(graph.value(named(graph, "b")).producer).origin = 1;
  was("b", 0, 0);
  EXPECT_EQ(told().find("relu_7 (0) has one number"), 0u) << told();
}

TEST_F(Doubts, one_element_of_one_sample_is_no_constant) {
  was("m", 3, 3);
  seen.values[named(graph, "m").index].count = 1;
  EXPECT_EQ(told(), "");
}

TEST_F(Doubts, numbers_that_no_model_computes_with_are_told_where_they_begin) {
  was("x", 0, 1e30f);
  seen.values[named(graph, "a").index] = {};  // inside a product nobody looks
  was("b", 0, 1e30f);
  EXPECT_EQ(told(),
            "input x (0 to 1e+30) has values beyond 1e8: are the samples scaled as the model wants them?\n");
  was("x", 0, 1e-30f);
  was("b", -1, 1);
  EXPECT_EQ(told().find("input x (0 to 1e-30) has no value beyond 1e-12"), 0u) << told();
}

TEST_F(Doubts, what_the_model_multiplies_with_zeros_is_none) {
  graph = graph_of(R"(
input %x: f32[1, 2]
constant %c: f32[1, 2] = [0, 0]
%y = mul(%x, %c) : f32[1, 2]
output %y
)");
  was("c", 0, 0);
  was("y", 0, 0);
  EXPECT_EQ(told(), "");
}

TEST_F(Doubts, a_mask_may_be_as_low_as_it_likes) {
  was("a", -3.4e38f, 1);
  seen.values[named(graph, "a").index].unmasked_min = -2;
  EXPECT_EQ(told(), "");
}

}  // namespace
}  // namespace sixfold
