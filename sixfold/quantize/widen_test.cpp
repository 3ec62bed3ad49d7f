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

}  // namespace
}  // namespace sixfold
