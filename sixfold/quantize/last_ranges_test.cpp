// What a last layer reads before a sigmoid: large where the answer is sure, so that a smaller range is
// better.
#include "sixfold/quantize/last_ranges.h"

#include "sixfold/quantize/calibrate.h"
#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

constexpr const char* kAnswer = R"(
input %x: f32[1, 64]
constant %w: f32[1, 1] = [2]
%a = mul(%x, %x) : f32[1, 64]
%b = mul(%a, %x) : f32[1, 64]
%c = reshape(%b, shape=[1, 64, 1]) : f32[1, 64, 1]
%l = linear(%c, %w, activation="none") : f32[1, 64, 1]
%s = sigmoid(%l) : f32[1, 64, 1]
output %s
)";

TEST(LastRanges, are_of_what_the_product_before_a_sigmoid_reads) {
  const Graph graph = graph_of(kAnswer);
  const std::vector<ValueId> values = read_before_last_sigmoids(graph);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0], named(graph, "b"));  // and not its reshape, which lies on the same grid
  EXPECT_EQ(values[1], named(graph, "a"));
  EXPECT_TRUE(
      read_before_last_sigmoids(graph_of("input %x: f32[2]\n%y = exp(%x) : f32[2]\noutput %y\n")).empty());
}

// Cubes from -70 to 70, of which those beyond 4 or so are told from each other by nobody.
TEST(LastRanges, are_cut_where_the_answer_is_sure_anyway) {
  const Graph real = graph_of(kAnswer);
  std::vector<std::vector<Tensor>> rows;
  for (int k = 0; k < 2; ++k) {
    Tensor t = wave({1, 64}, static_cast<float>(k));
    auto* x = reinterpret_cast<float*>(const_cast<std::byte*>(t.data));
    for (int64_t i = 0; i < t.count(); ++i) x[i] = 4 * (x[i] - 1.2f);
    rows.push_back({t});
  }
  const auto samples = samples_of(rows);
  const auto seen = calibrate(real, *samples, {.threads = 1});
  ASSERT_TRUE(seen.ok());
  const auto make = [&](const RangeChoice& ranges) -> Result<Graph> {
    QuantizeOptions options;
    options.ranges = ranges;
    SF_ASSIGN(const QuantizePlan plan, annotate(real, options));
    Graph out = real;
    SF_TRY(quantize(out, plan, *seen));
    return out;
  };
  auto meter = Meter::create(real, *samples, 2, 1);
  ASSERT_TRUE(meter.ok());
  const auto plain = make({});
  ASSERT_TRUE(plain.ok());
  const std::vector<ValueId> last{named(real, "b")};
  auto cut = cut_last_ranges(*plain, last, {}, make, **meter, 10);
  ASSERT_TRUE(cut.ok());
  ASSERT_TRUE(cut->ranges.cut.contains(last[0].index));
  EXPECT_GT(cut->now_db, cut->least_db + 3);
  const auto smaller = make(cut->ranges);
  ASSERT_TRUE(smaller.ok());
  EXPECT_LT(smaller->value(last[0]).encoding->scales[0], 0.7f * plain->value(last[0]).encoding->scales[0]);
  EXPECT_EQ(smaller->value(named(real, "a")).encoding, plain->value(named(real, "a")).encoding);
  auto none = cut_last_ranges(*plain, last, {}, make, **meter, 0);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->ranges.cut.empty());
}

}  // namespace
}  // namespace sixfold
