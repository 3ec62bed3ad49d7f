#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "sixfold/base/count_allocations.h"
#include "sixfold/engine/session.h"

namespace sixfold {
namespace {

// Convolutions, elementwise ops, pools, a residual, products and reductions: every layout and alias the
// planner knows.
constexpr const char* kNet = R"(input %x: f32[2, 3, 10, 9]
constant %w1: f32[8, 3, 3, 3] = ...
constant %w2: f32[8, 1, 3, 3] = ...
constant %bias: f32[8] = [0.5, -0.25, 1.0, 0.0, 2.0, -1.0, 0.125, 0.75]
constant %scale: f32[8, 1, 1] = [1.0, 2.0, 0.5, -1.0, 1.5, 0.25, -0.5, 1.0]
constant %w3: f32[4, 8] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6, -0.7, -0.8, 0.3, 0.1, 0.4, 0.1, 0.5, 0.9, 0.2, 0.6, 0.5, 0.3, 0.5, 0.8, 0.9, 0.7, 0.9, 0.3]
%c1 = convolution(%x, %w1, %bias, stride=[1, 1], padding=[1, 1], padding_end=[1, 1], dilation=[1, 1], groups=1, transposed=false, output_padding=[0, 0], activation="none")
%r1 = relu(%c1)
%m1 = mul(%r1, %scale)
%c2 = convolution(%m1, %w2, none, stride=[1, 1], padding=[1, 1], padding_end=[1, 1], dilation=[1, 1], groups=8, transposed=false, output_padding=[0, 0], activation="none")
%s = add(%c2, %r1)
%t = permute(%s, dims=[0, 2, 3, 1])
%l = linear(%t, %w3, none, activation="none")
%g = mean(%l, dims=[1, 2], keepdim=false)
%k = softmax(%g, dim=1)
%v = reshape(%s, shape=[2, 720])
output %k
output %v
)";

Graph net() {
  auto graph = parse(kNet);
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  // The text leaves large constants at zero: give them values.
  for (uint32_t i = 0; i < graph->value_count(); ++i) {
    Value& v = graph->value(ValueId{i});
    if (v.kind != ValueKind::constant || v.constant.count() <= 64) continue;
    auto* p = reinterpret_cast<float*>(const_cast<std::byte*>(v.constant.data));
    for (int64_t k = 0; k < v.constant.count(); ++k) p[k] = static_cast<float>(k * 37 % 23 - 11) / 16.0f;
  }
  return std::move(graph).value();
}

Tensor input() {
  std::byte* bytes = nullptr;
  Tensor x = Tensor::allocate(DType::f32, {2, 3, 10, 9}, &bytes);
  auto* p = reinterpret_cast<float*>(bytes);
  for (int64_t k = 0; k < x.count(); ++k) p[k] = static_cast<float>(k * 29 % 31 - 15) / 8.0f;
  return x;
}

std::vector<float> run(const PlanOptions& options, size_t threads, bool optimize) {
  Graph graph = net();
  EXPECT_TRUE(canonicalize(graph).ok());
  if (optimize) {
    EXPECT_TRUE(optimize_for_cpu(graph).ok());
  }
  auto program = to_program(graph);
  EXPECT_TRUE(program.ok());
  auto plan = make_plan(std::move(program).value(), options);
  EXPECT_TRUE(plan.ok()) << plan.error().message();
  cpu::Pool pool(threads);
  auto executor = Executor::create(std::move(plan).value(), pool);
  EXPECT_TRUE(executor.ok());
  const Tensor x = input();
  const void* in = x.data;
  std::vector<float> out;
  for (int i = 0; i < 2; ++i) {  // the second run starts from used memory
    const Status status = (*executor)->run(std::span(&in, 1));
    EXPECT_TRUE(status.ok()) << status.error().message();
    out.clear();
    for (size_t k = 0; k < (*executor)->output_count(); ++k) {
      const auto* p = static_cast<const float*>((*executor)->output(k));
      out.insert(out.end(), p, p + (*executor)->output_desc(k).count());
    }
  }
  return out;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5f * std::max(1.0f, std::abs(b[i]))) << i;
}

TEST(Engine, layouts_and_in_place_change_no_result) {
  const auto plain = run({.channels_last = false, .in_place = false}, 1, false);
  EXPECT_NE(plain[0], plain[1]);
  expect_near(run({.channels_last = true, .in_place = false}, 1, false), plain);
  expect_near(run({.channels_last = true, .in_place = true}, 1, true), plain);
  expect_near(run({.channels_last = false, .in_place = true}, 1, true), plain);
}

TEST(Engine, weights_that_were_packed_leave_the_plan) {
  Graph graph = net();
  ASSERT_TRUE(canonicalize(graph).ok());
  const auto held = [&](const PlanOptions& options) {
    auto plan = make_plan(to_program(graph).value(), options);
    EXPECT_TRUE(plan.ok()) << plan.error().message();
    size_t bytes = 0;
    for (const PlanValue& v : plan->values)
      if (v.data.data) bytes += v.data.size_bytes();
    return bytes;
  };
  EXPECT_LT(held({.release_packed = true}), held({}) / 2);
  EXPECT_EQ(run({.release_packed = true}, 2, true), run({}, 2, true));
}

TEST(Engine, whoever_makes_the_kernels_changes_no_bit) {
  cpu::Pool pool(3);
  EXPECT_EQ(run({.pool = &pool}, 2, true), run({}, 2, true));
  EXPECT_EQ(run({.release_packed = true, .pool = &pool}, 2, true), run({}, 2, true));
}

TEST(Engine, the_thread_count_changes_no_bit) {
  const auto one = run({}, 1, true);
  for (const size_t threads : {2, 3, 5}) EXPECT_EQ(run({}, threads, true), one) << threads;
}

#ifndef SIXFOLD_SANITIZED
TEST(Engine, running_allocates_nothing) {
  cpu::Pool pool(2);
  auto session = Session::create(net(), {}, pool);
  ASSERT_TRUE(session.ok()) << session.error().message();
  const Tensor x = input();
  const void* in = x.data;
  Executor& executor = (*session)->executor();
  ASSERT_TRUE(executor.run(std::span(&in, 1)).ok());
  const size_t before = testing::allocations();
  ASSERT_TRUE(executor.run(std::span(&in, 1)).ok());
  EXPECT_EQ(testing::allocations() - before, 0u);
  int* volatile one = new int;  // the counter counts
  delete one;
  EXPECT_EQ(testing::allocations() - before, 1u);
}
#endif

TEST(Engine, a_mutated_buffer_keeps_its_value_until_it_is_reset) {
  auto graph =
      parse("input %x: f32[2]\nstate %s: f32[2] = [1.0, 2.0]\n%n = add(%s, %x)\nmutate %s %n\noutput %n\n");
  ASSERT_TRUE(graph.ok());
  cpu::Pool pool(1);
  auto session = Session::create(std::move(graph).value(), {}, pool);
  ASSERT_TRUE(session.ok()) << session.error().message();
  std::byte* bytes = nullptr;
  const Tensor x = Tensor::allocate(DType::f32, {2}, &bytes);
  const float ten[] = {10.0f, 20.0f};
  std::memcpy(bytes, ten, sizeof ten);
  for (const float expected : {11.0f, 21.0f, 31.0f}) {
    ASSERT_TRUE((*session)->run(std::span(&x, 1)).ok());
    EXPECT_EQ((*session)->output(0).values<float>()[0], expected);
  }
  (*session)->executor().reset_state();
  ASSERT_TRUE((*session)->run(std::span(&x, 1)).ok());
  EXPECT_EQ((*session)->output(0).values<float>()[0], 11.0f);
}

TEST(MatchInputs, wrong_inputs_are_refused_with_both_sides) {
  auto graph = parse("symbol s0 2 8\ninput %x: f32[s0, 3]\ninput %y: f32[2*s0]\ninput 7\noutput %x\n");
  ASSERT_TRUE(graph.ok());
  const auto tensor = [](Shape shape, DType dtype = DType::f32) {
    return Tensor::allocate(dtype, std::move(shape), nullptr);
  };
  const auto message = [&](std::vector<Tensor> fed) {
    auto feed = match_inputs(*graph, fed);
    return feed.ok() ? std::string("ok") : feed.error().message();
  };
  const Tensor seven = Tensor::scalar(int64_t{7}, DType::i64);
  EXPECT_EQ(message({tensor({4, 3}), tensor({8}), seven}), "ok");
  EXPECT_EQ(message({tensor({4, 3}), tensor({8})}), "ok");
  EXPECT_NE(message({tensor({4, 3})}).find("takes 3 inputs, 1"), std::string::npos);
  EXPECT_NE(message({tensor({4, 3}), tensor({9}), seven}).find("f32[9]"), std::string::npos);
  EXPECT_NE(message({tensor({4, 3}, DType::f64), tensor({8}), seven}).find("f64[4, 3]"), std::string::npos);
  EXPECT_NE(message({tensor({9, 3}), tensor({18}), seven}).find("outside its range"), std::string::npos);
  EXPECT_NE(message({tensor({4, 3}), tensor({8}), Tensor::scalar(int64_t{8}, DType::i64)}).find("constant 7"),
            std::string::npos);
}

}  // namespace
}  // namespace sixfold
