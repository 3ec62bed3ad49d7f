// What calibration sees: exact extremes, histograms that do not depend on threads, masks and bad samples.
#include "sixfold/quantize/calibrate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "sixfold/quantize/statistics.h"
#include "sixfold/quantize/watched.h"

namespace sixfold {
namespace {

Graph graph_of(const std::string& text) {
  auto graph = parse(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  return std::move(graph).value();
}

Tensor floats(Shape shape, const std::vector<float>& values) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(DType::f32, std::move(shape), &bytes);
  std::memcpy(bytes, values.data(), values.size() * sizeof(float));
  return t;
}

std::vector<float> wave(size_t n, float seed) {
  std::vector<float> out;
  for (size_t i = 0; i < n; ++i) out.push_back(3 * std::sin(static_cast<float>(i) * 1.7f + seed));
  return out;
}

TEST(Statistics, errors_of_every_length_within_a_range) {
  std::vector<float> a, b;
  for (size_t n = 0; n < 70; ++n) {
    double power = 0, error = 0;
    for (size_t i = 0; i < n; ++i) {
      const auto cut = [](double x) { return std::clamp(x, -2.0, 3.0); };
      power += static_cast<double>(a[i]) * a[i];
      error += std::pow(cut(a[i]) - cut(b[i]), 2);
    }
    const ErrorSums got = error_sums(a.data(), b.data(), static_cast<int64_t>(n), -2, 3);
    EXPECT_DOUBLE_EQ(got.power, power) << n;
    EXPECT_DOUBLE_EQ(got.error, error) << n;
    a.push_back(static_cast<float>(n % 9) - 4);
    b.push_back(static_cast<float>(n % 5) * 2 - 3.5f);
  }
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> want(40, 1);
  for (const float wrong : {kInf, std::nanf("")}) {
    std::vector<float> got = want;
    got[7] = wrong;
    const ErrorSums sums = error_sums(want.data(), got.data(), 40, -kInf, kInf);
    EXPECT_FALSE(std::isfinite(sums.error));
    EXPECT_EQ(sums.power, 40);
  }
}

TEST(Statistics, extremes_of_every_length) {
  for (size_t n = 1; n < 80; ++n) {
    std::vector<float> x = wave(n, 0.5f);
    x[n / 2] = -9;
    x[n - 1] = 11;
    const Extremes e = extremes_of(x.data(), static_cast<int64_t>(n));
    EXPECT_EQ(e.max, 11);
    EXPECT_EQ(e.min, n > 2 ? -9 : *std::min_element(x.begin(), x.end()));
    EXPECT_TRUE(e.finite);
    x[n / 3] = std::nanf("");
    EXPECT_FALSE(extremes_of(x.data(), static_cast<int64_t>(n)).finite);
    x[n / 3] = -INFINITY;
    EXPECT_FALSE(extremes_of(x.data(), static_cast<int64_t>(n)).finite);
  }
}

TEST(Statistics, histograms_do_not_depend_on_the_order) {
  const std::vector<std::vector<float>> parts = {
      wave(100, 0), {0, 0, 0}, {-700, 3e-4f}, wave(50, 1), {90, 5}};
  const auto add = [](Histogram& h, const std::vector<float>& x) {
    const Extremes e = extremes_of(x.data(), static_cast<int64_t>(x.size()));
    h.cover(e.min, e.max);
    h.add(x.data(), static_cast<int64_t>(x.size()));
  };
  Histogram forward, backward, merged;
  for (const auto& p : parts) add(forward, p);
  for (size_t i = parts.size(); i-- > 0;) add(backward, parts[i]);
  for (size_t i : {2u, 0u, 4u, 1u, 3u}) {
    Histogram one;
    add(one, parts[i]);
    merged.merge(one);
  }
  EXPECT_EQ(forward, backward);
  EXPECT_EQ(forward, merged);
  uint64_t total = 0;
  for (const uint64_t c : forward.counts()) total += c;
  EXPECT_EQ(total, 157u);
  EXPECT_LE(forward.counts().size(), 2048u);
  EXPECT_LE(forward.low(), -700);
  EXPECT_GT(forward.high(), 90);
}

const char* kMlp = R"(input %x: f32[2, 4]
constant %w: f32[3, 4] = [1, 2, 3, 4, -1, -2, -3, -4, 0, 1, 0, 1]
%y = linear(%x, %w, none, activation="none") : f32[2, 3]
%z = relu(%y) : f32[2, 3]
%s = add(%z, %z, alpha=1) : f32[2, 3]
output %s
)";

TEST(Choose, ranges_have_zero_and_are_not_empty) {
  Observation zeros;
  zeros.min = zeros.max = 0;
  zeros.count = 4;
  for (const Observer o : {Observer::min_max, Observer::moving_average, Observer::mse, Observer::entropy,
                           Observer::percentile}) {
    const Range r = choose_range(zeros, o, 8, false);
    EXPECT_LE(r.min, 0);
    EXPECT_GT(r.max, r.min);
    Observation high = zeros;
    high.min = high.max = high.average_min = high.average_max = 5;
    EXPECT_EQ(choose_range(high, o, 8, false), (Range{0, 5}));
  }
}

Observation observed(const std::vector<float>& x) {
  Observation out;
  const Extremes e = extremes_of(x.data(), static_cast<int64_t>(x.size()));
  Histogram h;
  h.cover(e.min, e.max);
  h.add(x.data(), static_cast<int64_t>(x.size()));
  out.min = out.average_min = e.min;
  out.max = out.average_max = e.max;
  out.histogram.assign(h.counts().begin(), h.counts().end());
  out.count = x.size();
  out.low = static_cast<float>(h.low());
  out.high = static_cast<float>(h.high());
  return out;
}

double error_of(const std::vector<float>& x, Range r, int steps) {
  const double step = (static_cast<double>(r.max) - r.min) / steps;
  double sum = 0;
  for (const float v : x) {
    const double q = std::round((std::clamp(v, r.min, r.max) - r.min) / step) * step + r.min;
    sum += (q - v) * (q - v);
  }
  return sum;
}

TEST(Choose, least_error_clips_what_is_rare_and_keeps_what_is_not) {
  std::vector<float> x = wave(20000, 0);
  x.push_back(40);
  const Observation seen = observed(x);
  const Range all = choose_range(seen, Observer::min_max, 8, false);
  EXPECT_EQ(all.max, 40);
  const Range mse = choose_range(seen, Observer::mse, 4, false);
  EXPECT_LT(mse.max, 30);
  EXPECT_LT(error_of(x, mse, 15), 0.9 * error_of(x, all, 15));
  EXPECT_NEAR(choose_range(seen, Observer::mse, 16, false).max, 60, 0.5);  // room for what was not seen
  EXPECT_LT(choose_range(seen, Observer::percentile, 8, false).max, 4);
  EXPECT_LE(choose_range(seen, Observer::entropy, 8, false).max, 40);
  const Range both = choose_range(seen, Observer::mse, 4, true);
  EXPECT_LT(both.max, 40);
}

TEST(Choose, sixteen_bits_leave_more_room_where_few_numbers_were_seen) {
  const auto wide = [](const std::vector<float>& x, Range can_be) {
    return choose_range(observed(x), Observer::mse, 16, false, kEverything, &can_be);
  };
  EXPECT_EQ(wide({2, 3, 4}, kEverything), (Range{0, 12}));
  EXPECT_EQ(wide({0.5f, 3, 4}, kEverything), (Range{-3, 12}));  // may be below zero, though none of them was
  EXPECT_EQ(wide({0.5f, 3, 4}, {0, 5}), (Range{0, 5}));
  EXPECT_NEAR(wide(wave(20000, 0), kEverything).max, 4.5, 0.1);  // many
  EXPECT_EQ(choose_range(observed({2, 3, 4}), Observer::mse, 16, false).max, 6);
  Observation masked = observed({0.5f, 3, 4});
  masked.unmasked_min = masked.min;
  masked.min = -10000;
  EXPECT_EQ(choose_range(masked, Observer::mse, 16, false, kEverything, &kEverything).max, 12);
}

TEST(Calibrate, sees_every_value_the_same_for_any_number_of_threads) {
  const Graph graph = graph_of(kMlp);
  std::vector<std::vector<Tensor>> rows;
  for (int i = 0; i < 7; ++i) rows.push_back({floats({2, 4}, wave(8, static_cast<float>(i)))});
  const auto samples = samples_of(rows);
  CalibrateOptions options{.threads = 1, .channels = true};
  auto one = calibrate(graph, *samples, options);
  ASSERT_TRUE(one.ok()) << one.error().message();
  options.threads = 3;
  auto three = calibrate(graph, *samples, options);
  ASSERT_TRUE(three.ok()) << three.error().message();
  size_t seen = 0;
  for (size_t i = 0; i < one->values.size(); ++i) {
    const Observation &a = one->values[i], &b = three->values[i];
    EXPECT_EQ(a.min, b.min);
    EXPECT_EQ(a.max, b.max);
    EXPECT_EQ(a.average_min, b.average_min);
    EXPECT_EQ(a.average_max, b.average_max);
    EXPECT_EQ(a.histogram, b.histogram);
    EXPECT_EQ(a.channels, b.channels);
    seen += a.seen();
  }
  EXPECT_EQ(seen, 4u);  // x, w, z and s: nobody needs y, which only the activation reads
  const ValueId s = graph.outputs[0].value, x = graph.inputs[0].value;
  float low = 9, high = -9;
  for (const auto& row : rows)
    for (const float v : row[0].values<float>()) low = std::min(low, v), high = std::max(high, v);
  EXPECT_EQ(one->values[x.index].min, low);
  EXPECT_EQ(one->values[x.index].max, high);
  EXPECT_EQ(one->values[s.index].min, 0);
  EXPECT_EQ(one->values[s.index].count, 42u);
  EXPECT_EQ(one->values[s.index].channels.size(), 3u);
}

TEST(Calibrate, with_rough_factors_sees_nearly_the_same) {
  Graph graph = graph_of(R"(input %x: f32[16, 64]
input %w: f32[64, 64]
%y = linear(%x, %w, none, activation="none") : f32[16, 64]
output %y
)");
  const ValueId w = graph.inputs[1].value;
  graph.inputs.pop_back();
  graph.value(w).kind = ValueKind::constant;
  graph.value(w).constant = floats({64, 64}, wave(64 * 64, 0.3f));
  std::vector<std::vector<Tensor>> rows;
  for (int i = 0; i < 3; ++i) rows.push_back({floats({16, 64}, wave(16 * 64, static_cast<float>(i)))});
  const auto samples = samples_of(rows);
  auto exact = calibrate(graph, *samples, {.threads = 1});
  auto rough = calibrate(graph, *samples, {.threads = 1, .bf16 = true});
  auto again = calibrate(graph, *samples, {.threads = 2, .bf16 = true});
  ASSERT_TRUE(exact.ok() && rough.ok() && again.ok());
  const size_t y = graph.outputs[0].value.index, x = graph.inputs[0].value.index;
  const Observation &a = exact->values[y], &b = rough->values[y];
  EXPECT_NEAR(a.min, b.min, 0.005f * (a.max - a.min));
  EXPECT_NEAR(a.max, b.max, 0.005f * (a.max - a.min));
  EXPECT_EQ(exact->values[x].max, rough->values[x].max);  // only factors are rounded
  EXPECT_EQ(b.max, again->values[y].max);
  EXPECT_EQ(b.histogram, again->values[y].histogram);
}

TEST(Calibrate, looks_at_channels_of_the_first_samples_alone_when_told) {
  const Graph graph = graph_of(kMlp);
  std::vector<std::vector<Tensor>> rows;
  for (int i = 0; i < 5; ++i) rows.push_back({floats({2, 4}, wave(8, static_cast<float>(i)))});
  auto few = calibrate(graph, *samples_of(rows), {.threads = 2, .channels = true, .channel_samples = 1});
  rows.resize(1);
  auto first = calibrate(graph, *samples_of(rows), {.threads = 1, .channels = true});
  ASSERT_TRUE(few.ok() && first.ok());
  for (size_t i = 0; i < few->values.size(); ++i)
    EXPECT_EQ(few->values[i].channels, first->values[i].channels);
  EXPECT_NE(few->values[graph.inputs[0].value.index].min, first->values[graph.inputs[0].value.index].min);
}

TEST(Calibrate, names_the_layer_that_is_not_finite) {
  const Graph graph = graph_of(kMlp);
  auto bad = calibrate(graph, *samples_of({{floats({2, 4}, {3e38f, 3e38f, 3e38f, 3e38f, 0, 0, 0, 0})}}));
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message().find("an infinity among its values"), std::string::npos)
      << bad.error().message();
  auto nan = calibrate(graph, *samples_of({{floats({2, 4}, {NAN, 0, 0, 0, 0, 0, 0, 0})}}));
  ASSERT_FALSE(nan.ok());
  EXPECT_NE(nan.error().message().find("input x has a NaN"), std::string::npos) << nan.error().message();
}

TEST(Calibrate, refuses_samples_that_do_not_fit) {
  const Graph graph = graph_of(kMlp);
  const Tensor good = floats({2, 4}, wave(8, 0));
  EXPECT_FALSE(calibrate(graph, *samples_of({})).ok());
  EXPECT_FALSE(calibrate(graph, *samples_of({{good, good}})).ok());
  EXPECT_FALSE(calibrate(graph, *samples_of({{good}, {floats({4, 2}, wave(8, 0))}})).ok());
  auto wrong = calibrate(graph, *samples_of({{good}, {Tensor::of_ints(std::vector<int64_t>{1, 2})}}));
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message().find("sample 1"), std::string::npos) << wrong.error().message();
}

TEST(Calibrate, a_mask_sets_no_range) {
  const Graph graph = graph_of(R"(input %x: f32[2, 4]
constant %m: f32[2, 4] = [0, 0, -3.4e38, -3.4e38, 0, 0, 0, -3.4e38]
%y = add(%x, %m, alpha=1) : f32[2, 4]
%z = softmax(%y, dim=1) : f32[2, 4]
output %z
)");
  auto seen = calibrate(graph, *samples_of({{floats({2, 4}, {1, 5, 9, 2, -4, 3, 2, 1})}}));
  ASSERT_TRUE(seen.ok()) << seen.error().message();
  const Node& softmax = graph.node(graph.last());
  const Observation& scores = seen->values[softmax.input(0).index];
  EXPECT_EQ(scores.row_max, 3);
  const Range r = choose_range(scores, Observer::min_max, 8, false);
  EXPECT_EQ(r, (Range{-5, 5}));  // what is 8 below the least of the rows' largest has no weight
  const Observation& mask = seen->values[graph.node(graph.first()).input(1).index];
  const Range m = choose_range(mask, Observer::mse, 8, false);
  EXPECT_GE(m.min, -100);
  EXPECT_LE(m.min, r.min - r.max);
}

TEST(Calibrate, keeps_what_a_part_showed_from_its_judges) {
  const Graph graph = graph_of("input %x: f32[1, 4]\n%y = relu(%x) : f32[1, 4]\noutput %y\n");
  std::vector<std::vector<Tensor>> rows;
  for (const float most : {8.0f, 2.0f, 5.0f, 3.0f, 6.0f})
    rows.push_back({floats({1, 4}, {0, 1, -most, most})});
  const auto samples = samples_of(rows);
  CalibrateOptions options{.parts = 2, .part_of = [](size_t sample) -> size_t {
                             return sample == 0 ? 0 : sample == 4 ? 1 : 2;
                           }};
  std::vector<PartedObservations> told;
  for (const size_t threads : {1, 3}) {
    options.threads = threads;
    auto got = calibrate_in_parts(graph, *samples, options);
    ASSERT_TRUE(got.ok()) << got.error().message();
    told.push_back(std::move(got).value());
  }
  const size_t x = graph.inputs[0].value.index;
  for (const PartedObservations& t : told) {
    ASSERT_EQ(t.without.size(), 2u);
    EXPECT_EQ(t.all.values[x].max, 8);
    EXPECT_EQ(t.without[0].values[x].max, 6);  // sample 0 has the largest
    EXPECT_EQ(t.without[1].values[x].max, 8);
    EXPECT_EQ(t.all.samples, 5u);
    EXPECT_EQ(t.without[0].samples, 4u);
    EXPECT_EQ(t.without[0].values[x].count, 16u);
    EXPECT_FLOAT_EQ(t.all.values[x].mean_reach, 24.0f / 5);
    EXPECT_FLOAT_EQ(t.without[0].values[x].mean_reach, 4);
    EXPECT_EQ(t.without[0].values[x].average_max, told[0].without[0].values[x].average_max);
  }
  const auto whole = calibrate(graph, *samples);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->values[x].histogram, told[0].all.values[x].histogram);
  EXPECT_EQ(whole->values[x].average_max, told[0].all.values[x].average_max);
}

TEST(ChooseRange, with_16_bits_has_room_as_far_as_samples_are_from_each_other) {
  Observation seen;
  seen.min = seen.unmasked_min = -1;
  seen.max = 8;
  seen.count = 10000;
  const auto top = [&](float mean_reach, int bits = 16) {
    seen.mean_reach = mean_reach;
    return choose_range(seen, Observer::mse, bits, false).max;
  };
  EXPECT_EQ(top(0), 12);  // nobody asked
  EXPECT_EQ(top(7), 12);  // samples are alike
  EXPECT_EQ(top(2), 32);  // four times the mean one
  EXPECT_EQ(top(0.1f), 48);
  EXPECT_EQ(top(2, 8), 8);  // 8 bits have none
}

}  // namespace
}  // namespace sixfold
