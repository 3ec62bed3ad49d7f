// The simulated graph rounds where encodings say so, and what it tells of layers and biases is right.
#include "sixfold/quantize/simulate.h"

#include <cmath>
#include <cstring>
#include <set>

#include "sixfold/quantize/bias.h"
#include "sixfold/quantize/calibrate.h"
#include "sixfold/quantize/equalize.h"
#include "sixfold/quantize/improve.h"
#include "sixfold/quantize/round.h"
#include "sixfold/quantize/rounding.h"
#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

Encoding grid(float scale, int32_t zero) { return {DType::u8, 0, 255, -1, 0, {scale}, {zero}}; }

TEST(Round, constants_by_channel_and_block) {
  std::byte* bytes = nullptr;
  Tensor w = Tensor::allocate(DType::f32, {2, 4}, &bytes);
  const float values[] = {0.6f, 1.4f, -2.5f, 9, 0.6f, 1.4f, -2.5f, 9};
  std::memcpy(bytes, values, sizeof values);
  Encoding e{DType::i8, -7, 7, 0, 0, {1, 2}, {0, 0}};
  const Tensor channels = rounded(w, e);
  const float want[] = {1, 1, -2, 7, 0, 2, -2, 8};  // -2.5 / 2 = -1.25
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(channels.values<float>()[i], want[i]) << i;
  e.block = 2;
  e.scales = {1, 0.5f, 2, 4};
  e.zero_points = {0, 0, 0, 0};
  const Tensor blocks = rounded(w, e);
  const float by_block[] = {1, 1, -2.5f, 3.5f, 0, 2, -4, 8};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(blocks.values<float>()[i], by_block[i]) << i;
}

TEST(Round, a_table_is_left_whose_rows_are_rounded) {
  Graph graph = graph_of(R"(input %i: i64[2]
constant %t: f32[3, 2] = [0.31, -0.83, 0.52, 0.27, -0.4, 0.9]
%y = embedding(%t, %i) : f32[2, 2]
output %y
)");
  const ValueId table = named(graph, "t"), rows = named(graph, "y");
  graph.value(table).encoding = graph.value(rows).encoding = grid(0.1f, 128);
  cpu::Pool pool(1);
  const std::byte* const data = graph.value(table).constant.data;
  EXPECT_EQ(with_rounded_constants(graph, pool).value(table).constant.data, data);
  graph.value(rows).encoding = grid(0.2f, 128);
  const Graph rounds = with_rounded_constants(graph, pool);
  EXPECT_FLOAT_EQ(rounds.value(table).constant.values<float>()[1], -0.8f);
}

const char* kNet = R"(input %x: f32[1, 2, 4, 4]
constant %w: f32[3, 2, 1, 1] = [0.31, -0.83, 0.52, 0.27, -0.4, 0.9]
constant %v: f32[2, 3, 1, 1] = [0.7, -0.36, 0.44, 0.1, 0.61, -0.55]
%y = convolution(%x, %w, stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=1, activation="none") : f32[1, 3, 4, 4]
%z = relu(%y) : f32[1, 3, 4, 4]
%o = convolution(%z, %v, stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=1, activation="none") : f32[1, 2, 4, 4]
output %o
)";

const char* kLog = R"(input %x: f32[4]
%y = log(%x) : f32[4]
output %y
)";

// The graph with coarse weights; activations fine.
Graph coarse(const Graph& real) {
  Graph q = real;
  for (const NodeId id : q.order()) {
    const Node& node = q.node(id);
    if (node.op != Op::convolution) continue;
    q.value(node.input(1)).encoding = Encoding{DType::i8, -7, 7, -1, 0, {0.13f}, {0}};
  }
  return q;
}

TEST(Simulate, tells_nothing_of_graphs_that_are_equal_and_the_error_of_others) {
  const Graph real = graph_of(kNet);
  std::vector<std::vector<Tensor>> rows;
  for (int i = 0; i < 5; ++i) rows.push_back({wave({1, 2, 4, 4}, static_cast<float>(i))});
  const auto samples = samples_of(rows);
  auto same = measure(real, real, *samples, {.threads = 2});
  ASSERT_TRUE(same.ok()) << same.error().message();
  EXPECT_EQ(same->sqnr_db, 200);
  EXPECT_EQ(same->layers.size(), 2u);  // the value inside the product is nobody's

  Graph q = real;
  q.value(real.outputs[0].value).encoding = grid(0.25f, 128);
  auto told = measure(real, q, *samples, {.threads = 1});
  ASSERT_TRUE(told.ok()) << told.error().message();
  // Uniform errors of a step: its square over 12.
  const LayerError& e = told->outputs[0];
  EXPECT_NEAR(e.error / (5 * 32) / (0.25 * 0.25 / 12), 1.0, 0.35);
  EXPECT_EQ(told->layers[told->worst()[0]].value, real.outputs[0].value);
  auto twice = measure(real, q, *samples, {.threads = 3});
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(told->sqnr_db, twice->sqnr_db);
  auto heavy = measure(real, q, *samples, {.threads = 2, .most_bytes = 0});
  ASSERT_TRUE(heavy.ok());
  EXPECT_EQ(told->sqnr_db, heavy->sqnr_db);
  EXPECT_EQ(told->layers.size(), heavy->layers.size());
}

// The smallest becomes 0, and its logarithm has no number.
TEST(Simulate, results_without_a_number_are_no_success) {
  const Graph real = graph_of(kLog);
  std::vector<std::vector<Tensor>> rows{{wave({4}, 1)}};
  const auto samples = samples_of(rows);
  Graph q = real;
  for (const Leaf& leaf : real.inputs) q.value(leaf.value).encoding = grid(8, 0);
  auto told = measure(real, q, *samples, {.threads = 1});
  ASSERT_TRUE(told.ok()) << told.error().message();
  EXPECT_EQ(told->sqnr_db, -200);
  auto meter = Meter::create(real, *samples, 1, 0);
  ASSERT_TRUE(meter.ok()) << meter.error().message();
  auto decibels = (**meter)(q);
  ASSERT_TRUE(decibels.ok()) << decibels.error().message();
  EXPECT_EQ(*decibels, -200);
}

TEST(Bias, takes_back_what_rounding_shifts) {
  const Graph real = graph_of(kNet);
  std::vector<std::vector<Tensor>> rows;
  for (int i = 0; i < 6; ++i) rows.push_back({wave({1, 2, 4, 4}, static_cast<float>(i))});
  const auto samples = samples_of(rows);
  Graph q = coarse(real);
  auto before = measure(real, q, *samples, {.threads = 1});
  ASSERT_TRUE(before.ok()) << before.error().message();
  auto found = find_bias_corrections(real, q, *samples, {.threads = 2});
  ASSERT_TRUE(found.ok()) << found.error().message();
  Graph first = q;
  EXPECT_EQ(correct_biases(first, *found, /*last=*/false), 1u);
  EXPECT_EQ(correct_biases(q, *found), 2u);
  ASSERT_TRUE(verify(q).ok()) << verify(q).error().message();
  auto after = measure(real, q, *samples, {.threads = 1});
  ASSERT_TRUE(after.ok()) << after.error().message();
  EXPECT_GT(after->sqnr_db, before->sqnr_db + 3);
  Graph again = coarse(real);
  auto alone = find_bias_corrections(real, again, *samples, {.threads = 1});
  ASSERT_TRUE(alone.ok());
  correct_biases(again, *alone);
  EXPECT_EQ(print(again), print(q));
}

TEST(Bias, a_handful_of_numbers_tells_no_mean) {
  const Graph real = graph_of(R"(input %x: f32[1, 4]
constant %w: f32[2, 4] = [0.3, -0.7, 0.2, 0.9, -0.4, 0.6, 0.8, -0.1]
%y = linear(%x, %w, activation="none") : f32[1, 2]
output %y
)");
  Graph q = real;
  q.value(q.node(q.first()).input(1)).encoding = Encoding{DType::i8, -127, 127, -1, 0, {0.25f}, {0}};
  for (const size_t count : {1u, 7u, 8u}) {
    std::vector<std::vector<Tensor>> rows;
    for (size_t i = 0; i < count; ++i) rows.push_back({wave({1, 4}, 1.0f)});
    auto found = find_bias_corrections(real, q, *samples_of(rows));
    ASSERT_TRUE(found.ok()) << found.error().message();
    EXPECT_EQ(found->size(), count < 8 ? 0u : 1u) << count;
  }
}

bool look_with(LayerRows& read, const Graph& real, const Samples& samples) {
  CalibrateOptions looking{.threads = 2};
  looking.look = [&](size_t sample, ValueId v, const cpu::TensorDesc& desc, const void* data) {
    read.look(sample, v, desc, data);
  };
  return calibrate(real, samples, looking).ok();
}

TEST(Rounding, lowers_what_a_layer_errs_and_stays_on_the_grid) {
  std::string weights;
  for (int i = 0; i < 64; ++i) weights += cat(i ? ", " : "", std::sin(i * 2.3) * 0.8);
  const Graph real = graph_of(cat("input %x: f32[5, 16]\nconstant %w: f32[4, 16] = [", weights,
                                  "]\n%y = linear(%x, %w, activation=\"none\") : f32[5, 4]\noutput %y\n"));
  std::vector<std::vector<Tensor>> rows;  // inputs that go up and down together
  for (int k = 0; k < 8; ++k) {
    std::byte* bytes = nullptr;
    Tensor t = Tensor::allocate(DType::f32, {5, 16}, &bytes);
    for (int i = 0; i < 80; ++i)
      reinterpret_cast<float*>(bytes)[i] =
          std::sin(static_cast<float>(k * 5 + i / 16)) + 0.1f * std::sin(static_cast<float>(i * 7 + k));
    rows.push_back({t});
  }
  const auto samples = samples_of(rows);
  LayerRows read(real, rows.size(), 512);
  ASSERT_TRUE(look_with(read, real, *samples));
  const ValueId w = real.node(real.first()).input(1);
  Graph nearest = real;
  nearest.value(w).encoding = Encoding{DType::i8, -7, 7, 0, 0, std::vector<float>(4, 0.16f), {0, 0, 0, 0}};
  auto before = measure(real, nearest, *samples, {.threads = 1});
  ASSERT_TRUE(before.ok());
  for (const bool search : {false, true}) {
    Graph q = nearest;
    auto report = improve_weights(q, read, {.search_scales = search, .choose_rounding = true, .threads = 1});
    ASSERT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->layers, 1u);
    EXPECT_LT(report->after, 0.5 * report->before);
    auto after = measure(real, q, *samples, {.threads = 1});
    ASSERT_TRUE(after.ok());
    EXPECT_GT(after->sqnr_db, before->sqnr_db + 3);
    const Tensor again = rounded(q.value(w).constant, *q.value(w).encoding);
    for (int64_t i = 0; i < again.count(); ++i)
      EXPECT_NEAR(element_real(again, i), element_real(q.value(w).constant, i), 1e-6);
  }
  Graph q = nearest;  // no sigmoid makes the answer
  auto none = improve_weights(q, read, {.choose_rounding = true, .only_last = true, .threads = 1});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->layers, 0u);
}

// As the steps of a recurrent layer do: each of them alone has fewer rows than tell anything.
TEST(Rounding, layers_that_share_a_weight_are_rounded_by_what_all_of_them_read) {
  std::string weights;
  for (int i = 0; i < 64; ++i) weights += cat(i ? ", " : "", std::sin(i * 2.3) * 0.8);
  std::string text = cat("input %x: f32[1, 16]\nconstant %w: f32[16, 16] = [", weights, ", ", weights, ", ",
                         weights, ", ", weights, "]\nconstant %b: f32[16] = [");
  for (int i = 0; i < 16; ++i) text += cat(i ? ", " : "", std::cos(i * 1.7));
  text += "]\n";
  for (int k = 0; k < 6; ++k)
    text += cat("%h", k, " = linear(%", k ? cat("t", k - 1) : "x",
                ", %w, %b, activation=\"none\") : f32[1, 16]\n%t", k, " = tanh(%h", k, ") : f32[1, 16]\n");
  const Graph real = graph_of(text + "output %t5\n");
  std::vector<std::vector<Tensor>> rows;
  for (int k = 0; k < 8; ++k) {
    std::byte* bytes = nullptr;
    Tensor t = Tensor::allocate(DType::f32, {1, 16}, &bytes);
    for (int i = 0; i < 16; ++i)
      reinterpret_cast<float*>(bytes)[i] = std::sin(static_cast<float>(k * 5 + i / 16));
    rows.push_back({t});
  }
  const auto samples = samples_of(rows);
  LayerRows read(real, rows.size(), 512);
  ASSERT_TRUE(look_with(read, real, *samples));
  const ValueId w = real.node(real.first()).input(1);
  Graph q = real;
  q.value(w).encoding =
      Encoding{DType::i8, -7, 7, 0, 0, std::vector<float>(16, 0.16f), std::vector<int32_t>(16, 0)};
  auto before = measure(real, q, *samples, {.threads = 1});
  auto report = improve_weights(q, read, {.choose_rounding = true, .shift_biases = true, .threads = 1});
  ASSERT_TRUE(before.ok() && report.ok());
  EXPECT_EQ(report->layers, 1u);
  EXPECT_LT(report->after, 0.5 * report->before);
  EXPECT_EQ(q.value(w).users.size(), 6u);
  auto after = measure(real, q, *samples, {.threads = 1});
  ASSERT_TRUE(after.ok());
  EXPECT_GT(after->sqnr_db, before->sqnr_db + 3);
}

// Both kinds of convolutions, on inputs whose mean is most of them; the first one's bias takes that.
TEST(Rounding, of_convolutions_both_ways_with_biases_that_take_the_mean) {
  for (const bool transposed : {false, true}) {
    std::string weights;
    for (int i = 0; i < 144; ++i) weights += cat(i ? ", " : "", std::sin(i * 2.3) * 0.8);
    const std::string rest =
        cat("padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], transposed=", transposed ? "true" : "false",
            ", output_padding=[0, 0], groups=1");
    const char *shape = "[4, 4, 3, 3]", *out = transposed ? "[1, 4, 13, 13]" : "[1, 4, 4, 4]";
    const char* stride = transposed ? "[2, 2]" : "[1, 1]";
    const char* end = transposed ? "[1, 1, 13, 13]" : "[1, 1, 4, 4]";
    const Graph real = graph_of(cat(
        "input %x: f32[1, 4, 6, 6]\nconstant %w: f32", shape, " = [", weights,
        "]\nconstant %v: f32[1, 4, 1, 1] = [0.5, -0.4, 0.3, 0.2]\n%y = convolution(%x, %w, stride=", stride,
        ", ", rest, ", activation=\"none\") : f32", out,
        "\n%o = convolution(%y, %v, stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], "
        "transposed=false, output_padding=[0, 0], groups=1, activation=\"none\") : f32",
        end, "\noutput %o\n"));
    std::vector<std::vector<Tensor>> rows;
    for (int i = 0; i < 8; ++i) rows.push_back({wave({1, 4, 6, 6}, static_cast<float>(i))});
    const auto samples = samples_of(rows);
    LayerRows read(real, rows.size(), 512);
    ASSERT_TRUE(look_with(read, real, *samples));
    ASSERT_EQ(read.layers().size(), 2u);
    const NodeId first = real.first();
    const ValueId w = real.node(first).input(1);
    Graph nearest = real;
    nearest.value(w).encoding =
        Encoding{DType::i8, -7, 7, transposed ? 1 : 0, 0, std::vector<float>(4, 0.16f), {0, 0, 0, 0}};
    auto before = measure(real, nearest, *samples, {.threads = 1});
    ASSERT_TRUE(before.ok());
    double without = 0;
    for (const bool shifts : {false, true}) {
      Graph q = nearest;
      auto report = improve_weights(q, read, {.choose_rounding = true, .shift_biases = shifts, .threads = 2});
      ASSERT_TRUE(report.ok()) << report.error().message();
      EXPECT_EQ(report->layers, 1u);
      EXPECT_EQ(q.node(first).input(2).valid(), shifts);
      ASSERT_TRUE(verify(q).ok()) << verify(q).error().message();
      auto after = measure(real, q, *samples, {.threads = 1});
      ASSERT_TRUE(after.ok());
      EXPECT_GT(after->sqnr_db, before->sqnr_db + 6) << transposed << shifts;
      EXPECT_TRUE(!shifts || after->sqnr_db > without) << after->sqnr_db << " and " << without;
      without = after->sqnr_db;
      const Tensor again = rounded(q.value(w).constant, *q.value(w).encoding);
      for (int64_t i = 0; i < again.count(); ++i)
        EXPECT_NEAR(element_real(again, i), element_real(q.value(w).constant, i), 1e-6);
    }
  }
}

std::unique_ptr<Samples> waves(size_t n) {
  std::vector<std::vector<Tensor>> rows;
  for (size_t i = 0; i < n; ++i) rows.push_back({wave({1, 2, 4, 4}, static_cast<float>(i))});
  return samples_of(rows);
}

TEST(Equalize, computes_the_same_with_channels_of_like_ranges) {
  const Graph real = graph_of(kNet);
  Graph equal = real;
  EXPECT_EQ(equalize_weights(equal), 1u);
  const auto samples = waves(3);
  auto told = measure(real, equal, *samples, {.threads = 1});
  ASSERT_TRUE(told.ok()) << told.error().message();
  EXPECT_GT(told->sqnr_db, 110);
  const auto weights = [](const Graph& g) { return to_contiguous(*g.constant(g.node(g.first()).input(1))); };
  const Tensor w = weights(equal);
  EXPECT_NE(element_real(w, 0), element_real(weights(real), 0));

  auto seen = calibrate(real, *samples, {.threads = 1, .channels = true});
  ASSERT_TRUE(seen.ok());
  Graph smooth = real;
  EXPECT_EQ(smooth_activations(smooth, *seen, 0.5f), 1u);
  auto same = measure(real, smooth, *samples, {.threads = 1});
  ASSERT_TRUE(same.ok());
  EXPECT_GT(same->sqnr_db, 110);
}

TEST(Meter, runs_graphs_that_differ_in_grids_by_the_same_models) {
  const Graph real = graph_of(kNet);
  const auto samples = waves(5);
  const ValueId out = real.outputs[0].value;
  Graph fine = coarse(real), rough = coarse(real), biased = coarse(real);
  fine.value(out).encoding = grid(0.05f, 128);
  rough.value(out).encoding = grid(0.5f, 128);
  biased.value(out).encoding = grid(0.5f, 128);
  const BiasCorrection shift{.node = real.first(), .shift = {0.5, 0.5, 0.5}};
  ASSERT_EQ(correct_biases(biased, {&shift, 1}), 1u);
  const auto fresh = [&](const Graph& graph, bool real_weights) {
    return Meter::create(real, *samples, 4, 1).value()->operator()(graph, real_weights).value();
  };
  const auto meter = std::move(Meter::create(real, *samples, 4, 2)).value();
  std::vector<double> told;
  for (const Graph* graph : {&fine, &rough, &biased, &fine})
    for (const bool real_weights : {false, false, true}) {
      told.push_back((*meter)(*graph, real_weights).value());
      EXPECT_EQ(told.back(), fresh(*graph, real_weights));
    }
  EXPECT_GT(told[2], told[0]);  // what rounding weights costs
  EXPECT_NE(told[3], told[0]);
  EXPECT_NE(told[6], told[3]);
  EXPECT_EQ(told[9], told[0]);
}

TEST(Improve, leaves_weights_alone_that_cost_nothing) {
  const Graph real = graph_of(kNet);
  const auto samples = waves(16);
  for (const bool rough : {false, true}) {
    const auto make = [&](const Observations&, const RangeChoice&, Wide) -> Result<Graph> {
      Graph q = coarse(real);
      for (const NodeId id : q.order())  // else steps so fine that nothing is seen of them
        if (Value* w = q.node(id).op == Op::convolution ? &q.value(q.node(id).input(1)) : nullptr;
            w && !rough)
          w->encoding = Encoding{DType::i8, -127, 127, -1, 0, {0.008f}, {0}};
      q.value(real.outputs[0].value).encoding = grid(0.2f, 128);
      return q;
    };
    const ImproveOptions options{
        .observers = {Observer::mse}, .automatic = true, .choose_rounding = true, .threads = 1};
    auto got = quantize_well(real, *samples, make, options);
    ASSERT_TRUE(got.ok()) << got.error().message();
    bool tried = false;
    for (const Improved::Step& step : got->steps) tried |= std::string_view(step.what) == "rounding";
    EXPECT_EQ(tried, rough);
  }
}

TEST(Improve, of_few_samples_cuts_nothing_off_and_leaves_the_room_that_there_is) {
  const Graph real = graph_of(kNet);
  const auto make = [&](const Observations&, const RangeChoice&, Wide) -> Result<Graph> {
    return coarse(real);
  };
  const auto chosen = [&](std::vector<Observer> observers, int samples = 4) {
    auto got = quantize_well(real, *waves(samples), make,
                             {.observers = std::move(observers), .automatic = true, .threads = 1});
    EXPECT_TRUE(got.ok());
    return got->ranges.observer;
  };
  EXPECT_EQ(chosen({Observer::mse, Observer::percentile}), Observer::min_max);
  EXPECT_EQ(chosen({Observer::mse}), Observer::mse);  // as with 16 bits
  EXPECT_EQ(chosen({Observer::mse}, 1), Observer::min_max);
}

// A convolution of one tap after the other.
std::string chain(int layers) {
  std::string text = "input %x0: f32[1, 2, 4, 4]\nconstant %w: f32[2, 2, 1, 1] = [0.31, -0.83, 0.52, 0.27]\n";
  for (int i = 0; i < layers; ++i)
    text +=
        cat("%x", i + 1, " = convolution(%x", i,
            ", %w, stride=[1, 1], padding=[0, 0], padding_end=[0, 0], dilation=[1, 1], "
            "transposed=false, output_padding=[0, 0], groups=1, activation=\"none\") : f32[1, 2, 4, 4]\n");
  return cat(text, "output %x", layers, "\n");
}

TEST(Improve, one_sample_of_a_model_says_little_of_others_and_one_of_an_op_is_there_to_be_tried) {
  for (const int layers : {2, 3}) {
    const Graph real = graph_of(chain(layers));
    const auto make = [&](const Observations&, const RangeChoice&, Wide) -> Result<Graph> {
      return coarse(real);
    };
    std::set<Wide> asked;
    ImproveOptions options{.observers = {Observer::mse}, .automatic = true, .threads = 1};
    options.find_wide = [&](const Observations&, Wide which, Wide) -> Result<bool> {
      asked.insert(which);
      return false;
    };
    auto got = quantize_well(real, *waves(1), make, options);
    ASSERT_TRUE(got.ok()) << got.error().message();
    EXPECT_EQ(got->ranges.observer, layers < 3 ? Observer::min_max : Observer::mse);
    EXPECT_EQ(asked.contains(Wide::more), layers >= 3);
    EXPECT_FALSE(asked.contains(Wide::last));
  }
}

TEST(Improve, gives_kinds_of_ops_other_ranges_where_that_gains) {
  const Graph real = graph_of(kNet);
  const auto samples = waves(16);
  for (const float better : {0.02f, 0.48f}) {  // steps; those of the others are 0.5
    const auto make = [&](const Observations&, const RangeChoice& ranges, Wide) -> Result<Graph> {
      Graph q = real;
      const auto own = ranges.of_ops.find(Op::convolution);
      const bool other = own != ranges.of_ops.end() && own->second != ranges.observer;
      q.value(real.outputs[0].value).encoding = grid(other ? better : 0.5f, 128);
      return q;
    };
    const ImproveOptions options{
        .observers = {Observer::mse, Observer::min_max}, .automatic = true, .threads = 1};
    auto got = quantize_well(real, *samples, make, options);
    ASSERT_TRUE(got.ok()) << got.error().message();
    EXPECT_EQ(got->ranges.of_ops.contains(Op::convolution), better < 0.4f);
    const auto judged = judge(real, got->graph, *samples, {.held_back = got->held_back, .threads = 1});
    ASSERT_TRUE(judged.ok());
    EXPECT_EQ(judged->sqnr_db > 30, better < 0.4f) << judged->sqnr_db;
    // Rounded factors tell what is far from float, and nothing else.
    const auto in_bf16 =
        judge(real, got->graph, *samples, {.held_back = got->held_back, .bf16 = true, .threads = 1});
    ASSERT_TRUE(in_bf16.ok());
    EXPECT_EQ(in_bf16->bf16, in_bf16->sqnr_db < 25) << in_bf16->sqnr_db;
    EXPECT_NEAR(in_bf16->sqnr_db, judged->sqnr_db, 0.3);
  }
}

TEST(Improve, stops_where_nobody_wants_the_rest) {
  const Graph real = graph_of(kNet);
  const auto make = [&](const Observations&, const RangeChoice&, Wide) -> Result<Graph> {
    return coarse(real);
  };
  for (const bool goes_on : {false, true}) {
    ImproveOptions options{.observers = {Observer::mse}, .correct_biases = false, .threads = 1};
    double told = 0;
    options.goes_on = [&](const Improved&, double decibels) -> Result<bool> {
      told = decibels;
      return goes_on;
    };
    auto got = quantize_well(real, *waves(16), make, options);
    ASSERT_TRUE(got.ok()) << got.error().message();
    EXPECT_EQ(got->stopped, !goes_on);
    EXPECT_GT(told, 0);
    EXPECT_LT(told, 100);
  }
}

TEST(Improve, takes_the_observer_that_gives_most_and_holds_samples_back) {
  const Graph real = graph_of(kNet);
  const auto samples = waves(16);
  const auto make = [&](const Observations& seen, const RangeChoice& ranges, Wide) -> Result<Graph> {
    Graph q = coarse(real);
    const ValueId out = real.outputs[0].value;
    const Range r = choose_range(seen.values[out.index], ranges.observer, 8, false);
    const float scale = ranges.observer == Observer::min_max ? 0.5f : (r.max - r.min) / 255;
    q.value(out).encoding = grid(scale, static_cast<int32_t>(std::lround(-r.min / scale)));
    return q;
  };
  ImproveOptions options{
      .observers = {Observer::min_max, Observer::mse}, .choose_rounding = true, .threads = 1};
  auto got = quantize_well(real, *samples, make, options);
  ASSERT_TRUE(got.ok()) << got.error().message();
  EXPECT_EQ(got->ranges.observer, Observer::mse);
  EXPECT_EQ(got->calibrated, 14u);
  EXPECT_EQ(got->held_back, 2u);
  const auto judged = judge(real, got->graph, *samples, {.held_back = got->held_back, .threads = 1});
  ASSERT_TRUE(judged.ok());
  EXPECT_EQ(judged->samples, 2u);
  EXPECT_EQ(got->biases, 2u);
  EXPECT_GT(judged->sqnr_db, 15);
  EXPECT_EQ(held_back(15), 0u);
  EXPECT_EQ(held_back(1000), 8u);
}

TEST(Meter, of_graphs_by_part_each_judges_its_own_samples) {
  const Graph real = graph_of(kNet);
  const auto samples = waves(4);
  const auto meter = std::move(Meter::create(real, *samples, 4, 2)).value();
  Graph fine = real, rough = real;
  fine.value(real.outputs[0].value).encoding = grid(0.02f, 128);
  rough.value(real.outputs[0].value).encoding = grid(0.5f, 128);
  const Graph both[] = {fine, rough}, same[] = {rough, rough};
  const double mixed = (*meter)(both).value(), alone = (*meter)(rough).value();
  EXPECT_GT(mixed, alone + 2);  // half of the noise
  EXPECT_LT(mixed, alone + 4);
  EXPECT_EQ((*meter)(same).value(), alone);
}

TEST(Improve, tries_are_judged_by_samples_that_had_no_part_in_them) {
  const Graph real = graph_of(kNet);
  for (const auto& [count, apart] : {std::pair(24, 6u), std::pair(8, 2u)}) {  // of few, each third its own
    std::set<uint64_t> tried;
    uint64_t last = 0;
    const auto make = [&](const Observations& seen, const RangeChoice&, Wide) -> Result<Graph> {
      tried.insert(last = seen.samples);
      return coarse(real);
    };
    auto got =
        quantize_well(real, *waves(count), make,
                      {.observers = {Observer::min_max, Observer::mse}, .automatic = true, .threads = 1});
    ASSERT_TRUE(got.ok()) << got.error().message();
    EXPECT_TRUE(tried.contains(got->calibrated - apart)) << count;
    EXPECT_EQ(last, got->calibrated);  // what is taken is made of all
  }
}

TEST(Improve, cuts_nothing_off_that_gains_a_trifle) {
  const Graph real = graph_of(kNet);
  for (const float cut : {0.495f, 0.4f}) {  // steps with a range that is cut; else 0.5
    const auto make = [&](const Observations&, const RangeChoice& ranges, Wide) -> Result<Graph> {
      Graph q = real;
      q.value(real.outputs[0].value).encoding =
          grid(ranges.observer == Observer::percentile ? cut : 0.5f, 128);
      return q;
    };
    auto got = quantize_well(
        real, *waves(16), make,
        {.observers = {Observer::min_max, Observer::percentile}, .automatic = true, .threads = 1});
    ASSERT_TRUE(got.ok()) << got.error().message();
    EXPECT_EQ(got->ranges.observer, cut > 0.45f ? Observer::min_max : Observer::percentile);
  }
}

TEST(Improve, room_for_other_samples_stays_where_it_costs_nothing) {
  const Graph real = graph_of(kNet);
  for (const auto& [costs, samples] : {std::pair{false, 16}, {true, 16}, {false, 4}}) {
    const auto make = [&, costs = costs](const Observations& seen, const RangeChoice&,
                                         Wide) -> Result<Graph> {
      Graph q = real;
      const bool roomy = seen.values[real.outputs[0].value.index].mean_reach > 0;
      q.value(real.outputs[0].value).encoding = grid(roomy && costs ? 0.3f : 0.2f, 128);
      return q;
    };
    ImproveOptions options{.observers = {Observer::mse}, .automatic = true, .threads = 1};
    options.halves = true;
    auto got = quantize_well(real, *waves(samples), make, options);
    ASSERT_TRUE(got.ok()) << got.error().message();
    EXPECT_EQ(got->seen.values[real.outputs[0].value.index].mean_reach > 0, !costs);
  }
}

}  // namespace
}  // namespace sixfold
