// Values whose range a few elements take, with 8 and with 16 bits.
#include "sixfold/quantize/widen.h"

#include "sixfold/quantize/statistics.h"
#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

// Ten thousand numbers within 2 of zero and one that is `largest`.
Observation with_outlier(float largest) {
  std::vector<float> x;
  for (int i = 0; i < 10000; ++i) x.push_back(2 * std::sin(static_cast<float>(i)));
  x.push_back(largest);
  Histogram h;
  h.cover(-2, largest);
  h.add(x.data(), static_cast<int64_t>(x.size()));
  Observation out;
  out.min = out.unmasked_min = -2;
  out.max = largest;
  out.histogram.assign(h.counts().begin(), h.counts().end());
  out.low = static_cast<float>(h.low());
  out.high = static_cast<float>(h.high());
  return out;
}

size_t wide_nodes(float largest, int bits) {
  const Graph graph = graph_of(R"(
input %x: f32[1, 4]
input %y: f32[1, 4]
%z = add(%x, %y) : f32[1, 4]
%r = exp(%z) : f32[1, 4]
output %r
)");
  Observations seen = seen_all(graph, -2, 2);
  seen.values[named(graph, "z").index] = with_outlier(largest);
  QuantizeOptions options;
  options.scheme.activation_bits = bits;
  const auto plan = annotate(graph, options);
  EXPECT_TRUE(plan.ok());
  return find_wide_nodes(graph, *plan, seen, bits).size();
}

TEST(Widen, eight_bits_do_not_tell_numbers_beside_one_of_hundreds) {
  EXPECT_EQ(wide_nodes(4, 8), 0u);
  EXPECT_EQ(wide_nodes(400, 8), 2u);  // what gives it and what reads it
}

TEST(Widen, sixteen_bits_do_not_tell_numbers_beside_one_of_ten_thousands) {
  EXPECT_EQ(wide_nodes(400, 16), 0u);
  EXPECT_EQ(wide_nodes(24000, 16), 2u);
}

// Five linear layers with a relu after each, and a sum around the last.
TEST(Widen, ends_are_three_first_products_and_what_the_last_one_reads) {
  std::string text = "input %x: f32[1, 2]\nconstant %w: f32[2, 2] = [1, 2, 3, 4]\n";
  std::string before = "x";
  for (const char* k : {"1", "2", "3", "4"}) {
    text += cat("%l", k, " = linear(%", before, ", %w, activation=\"none\") : f32[1, 2]\n");
    text += cat("%r", k, " = relu(%l", k, ") : f32[1, 2]\n");
    before = cat("r", k);
  }
  text += "%s = add(%r4, %r3) : f32[1, 2]\n%o = linear(%s, %w, activation=\"none\") : f32[1, 2]\n";
  text += "%z = sigmoid(%o) : f32[1, 2]\noutput %z\n";
  const Graph graph = graph_of(text);
  const auto names = [&](const std::set<uint32_t>& nodes) {
    std::set<std::string> out;
    for (const uint32_t i : nodes) out.insert(graph.value(graph.node({i}).output()).name);
    return out;
  };
  EXPECT_EQ(names(find_first_nodes(graph)), (std::set<std::string>{"l1", "r1", "l2", "r2", "l3", "r3"}));
  EXPECT_EQ(names(find_last_nodes(graph)), (std::set<std::string>{"r3", "r4", "s", "o", "z"}));
}

// Two chains that are added: one of them has a value that 8 bits tell little of.
TEST(Widen, sixteen_bits_go_where_eight_cost_most_for_their_time) {
  const Graph graph = graph_of(R"(
input %x: f32[1, 4]
%a = exp(%x) : f32[1, 4]
%b = neg(%a) : f32[1, 4]
%c = abs(%x) : f32[1, 4]
%d = neg(%c) : f32[1, 4]
%s = add(%b, %d) : f32[1, 4]
output %s
)");
  QuantizeOptions options;
  options.scheme.activation_bits = 8;
  const auto plan = annotate(graph, options);
  ASSERT_TRUE(plan.ok());
  Observations seen = seen_all(graph, -2, 2);
  for (const Value& v : graph.values()) seen.values[v.id.index] = with_outlier(4);
  seen.values[named(graph, "a").index] = with_outlier(60);
  const auto found = [&](double micros, double convert = 0, double part = 0.9) {
    const WideCost cost{.node = [](const Node&) { return 1.0; }, .convert = [=](ValueId) { return convert; }};
    std::set<std::string> out;
    for (const uint32_t i : find_costly_nodes(graph, *plan, seen, cost, micros, part))
      out.insert(graph.value(graph.node({i}).output()).name);
    return out;
  };
  const std::set<std::string> around{"a", "b"}, all{"a", "b", "c", "d", "s"};
  EXPECT_EQ(found(2), around);  // what gives it and what reads it
  EXPECT_EQ(found(100), all);
  EXPECT_EQ(found(1), std::set<std::string>());       // not even those
  EXPECT_EQ(found(2, 0.5), std::set<std::string>());  // what it takes to convert around them
  EXPECT_EQ(found(2.5, 0.5), around);
  // Where no value is worse than the others, so few nodes have too little of the noise.
  seen.values[named(graph, "a").index] = with_outlier(4);
  EXPECT_EQ(found(2), std::set<std::string>());
  EXPECT_EQ(found(3, 0, 0.5).size(), 3u);
}

// Probabilities beside numbers to `most`, turned before they are given.
size_t unequal_parts(float most) {
  const Graph graph = graph_of(R"(
input %x: f32[1, 4]
%boxes = exp(%x) : f32[1, 4]
%scores = sigmoid(%x) : f32[1, 4]
%all = concat(%boxes, %scores, dim=0) : f32[2, 4]
%turned = permute(%all, dims=[1, 0]) : f32[4, 2]
%other = neg(%boxes) : f32[1, 4]
output %turned
output %other
)");
  Observations seen = seen_all(graph, 0, most);
  seen.values[named(graph, "scores").index] = {.min = 0, .max = 1};
  QuantizeOptions options;
  options.scheme.activation_bits = 8;
  const auto plan = annotate(graph, options);
  EXPECT_TRUE(plan.ok());
  const UnequalJoins joins = find_unequal_joins(graph, *plan, seen);
  if (joins.nodes.empty()) return joins.parts.size();
  EXPECT_EQ(joins.nodes, (std::set<uint32_t>{graph.producer(named(graph, "all"))->id.index,
                                             graph.producer(named(graph, "turned"))->id.index}));
  return joins.parts.size();
}

TEST(Widen, parts_of_an_output_are_unequal_where_one_has_few_steps_of_all) {
  EXPECT_EQ(unequal_parts(100), 2u);
  EXPECT_EQ(unequal_parts(10), 0u);
}

TEST(Widen, bands_of_a_spectrum_are_part_of_its_logarithm) {
  const Graph graph = graph_of(R"(
input %x: f32[4, 4]
constant %w: f32[4, 4] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
%r = matmul(%w, %x) : f32[4, 4]
%p = mul(%r, %r) : f32[4, 4]
%m = matmul(%w, %p) : f32[4, 4]
%l = log(%m) : f32[4, 4]
%other = matmul(%w, %r) : f32[4, 4]
%k = log(%other) : f32[4, 4]
output %l
output %k
)");
  Observations seen = seen_all(graph, 0, 4000);
  for (const char* name : {"m", "other"}) seen.values[named(graph, name).index] = with_outlier(40000);
  std::set<std::string> out;
  for (const uint32_t i : find_logarithms(graph, seen))
    out.insert(graph.value(graph.node({i}).output()).name);
  EXPECT_EQ(out, (std::set<std::string>{"p", "m", "l", "k"}));  // what is no power ends at its product
}

}  // namespace
}  // namespace sixfold
