// Eight threads at once: programs, methods, pools and delegates. What races here, ThreadSanitizer reports
// (make tsan).
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "sixfold/execute/program_test.h"

namespace sixfold {
namespace {

using testing::golden;
using testing::golden_path;
using testing::message;
using testing::run_method;

constexpr size_t kThreads = 8;
const char* const kGoldens[] = {"mlp.pte", "conv.pte", "rows.pte", "counter.pte", "counter_sixfold.pte"};
constexpr size_t kGoldenCount = std::size(kGoldens);

template <typename F>
void in_threads(const F& f) {
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) threads.emplace_back([&f, t] { f(t); });
  for (std::thread& t : threads) t.join();
}

// Three runs, of two sizes, in a new method.
Result<std::vector<std::byte>> load_and_run(const Program& program, const MethodOptions& options = {}) {
  SF_ASSIGN(const auto method, Method::load(program, "forward", options));
  std::vector<std::byte> all;
  for (const int64_t extent : {3, 5, 3}) {
    SF_ASSIGN(const auto out, run_method(*method, extent));
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

std::vector<std::vector<std::byte>> expected() {
  std::vector<std::vector<std::byte>> out;
  for (const char* name : kGoldens) {
    auto result = load_and_run(golden(name));
    EXPECT_TRUE(result.ok()) << result.error().message();
    out.push_back(std::move(result).value());
  }
  return out;
}

TEST(Threads, each_opens_loads_and_runs_programs_of_its_own) {
  const auto wanted = expected();
  std::atomic<size_t> right = 0;
  in_threads([&](size_t t) {
    for (size_t k = 0; k < kGoldenCount; ++k) {
      const size_t i = (k + t) % kGoldenCount;
      const auto program = Program::open(golden_path(kGoldens[i]));
      if (!program.ok()) continue;
      const auto out = load_and_run(*program);
      right += out.ok() && *out == wanted[i];
    }
  });
  EXPECT_EQ(right, kThreads * kGoldenCount);
}

TEST(Threads, methods_of_shared_programs_are_independent) {
  const auto wanted = expected();
  std::vector<Program> programs;
  for (const char* name : kGoldens) programs.push_back(golden(name));
  std::atomic<size_t> right = 0;
  in_threads([&](size_t t) {
    for (size_t k = 0; k < kGoldenCount; ++k) {
      const size_t i = (k + t) % kGoldenCount;
      const auto out = load_and_run(programs[i]);
      right += out.ok() && *out == wanted[i];
    }
  });
  EXPECT_EQ(right, kThreads * kGoldenCount);
}

TEST(Threads, methods_share_a_pool) {
  const auto wanted = expected();
  cpu::Pool pool(3);
  std::vector<Program> programs;
  for (const char* name : kGoldens) programs.push_back(golden(name));
  std::atomic<size_t> right = 0;
  in_threads([&](size_t t) {
    const size_t i = t % kGoldenCount;
    MethodOptions options;
    options.pool = &pool;
    const auto out = load_and_run(programs[i], options);
    right += out.ok() && *out == wanted[i];
  });
  EXPECT_EQ(right, kThreads);
}

// Callers of one method, all at once: each call is done alone or refused, and what comes out is right.
TEST(Threads, a_method_takes_one_caller_at_a_time) {
  const Program program = golden("conv.pte");
  auto method = Method::load(program);
  ASSERT_TRUE(method.ok()) << method.error().message();
  const auto wanted = run_method(**method, 1);
  ASSERT_TRUE(wanted.ok());
  const auto& input = std::get<TensorState>((*method)->input(0));
  const Shape sizes = input.sizes;
  const std::vector<uint8_t> order = input.dim_order;
  std::vector<float> data(static_cast<size_t>(numel(sizes)));
  for (size_t k = 0; k < data.size(); ++k) data[k] = static_cast<float>(k % 7) - 2.5f;
  const TensorView view{DType::f32, sizes, order, reinterpret_cast<const std::byte*>(data.data())};
  std::atomic<size_t> done = 0, refused = 0, other = 0, ready = 0;
  in_threads([&](size_t) {
    for (++ready; ready < kThreads;) std::this_thread::yield();
    for (int i = 0; i < 50; ++i) {
      for (const std::string& answer :
           {message((*method)->set_input(0, view)), message((*method)->execute())}) {
        const auto has = [&](std::string_view part) { return answer.find(part) != answer.npos; };
        if (answer == "ok")
          ++done;
        else if (has("in use by another thread"))
          ++refused;
        else if (!has("was not set since the last run"))  // another caller's run came between
          ++other;
      }
    }
  });
  EXPECT_GT(done, 0u);
  EXPECT_EQ(other, 0u);
  EXPECT_GT(done + refused, kThreads * 50);
  const auto after = run_method(**method, 1);
  ASSERT_TRUE(after.ok()) << after.error().message();
  EXPECT_EQ(*after, *wanted);
}

// One caller is inside for as long as the delegate waits: all others are refused, whatever they ask for.
std::atomic<bool> inside = false, leave = false;
Status wait_inside(void*, std::span<MethodValue* const>) {
  for (inside = true; !leave;) std::this_thread::yield();
  return {};
}

TEST(Threads, whoever_comes_while_one_is_inside_is_refused) {
  ASSERT_TRUE(register_delegate("WaitsInside", {[](const DelegateInit&) -> Result<void*> { return nullptr; },
                                                wait_inside, [](void*) {}})
                  .ok());
  testing::MethodWriter w;
  const auto x = w.planned(testing::MethodWriter::tensor({2}));
  w.method().delegates.push_back({"WaitsInside", {}, true, {}});
  w.emit(pte::DelegateCall{0, {x}});
  w.method().inputs = {x};
  w.method().outputs = {x};
  const auto method = w.load_method();
  ASSERT_TRUE(method);
  inside = leave = false;
  ASSERT_TRUE(testing::feed(*method, 0, {1, 2}, {2}).ok());
  std::string first;
  std::thread caller([&] { first = message(method->execute()); });
  while (!inside) std::this_thread::yield();
  std::atomic<size_t> refused = 0;
  in_threads([&](size_t) {
    for (const std::string& answer : {message(method->execute()), message(method->reset_state()),
                                      message(testing::feed(*method, 0, {3, 4}, {2}))})
      refused += answer.find("in use by another thread") != answer.npos;
  });
  EXPECT_EQ(refused, 3 * kThreads);
  leave = true;
  caller.join();
  EXPECT_EQ(first, "ok");
  EXPECT_EQ(testing::floats(*method, 0), (std::vector<float>{1, 2}));
  EXPECT_TRUE(testing::feed(*method, 0, {3, 4}, {2}).ok());  // it is free again
  EXPECT_TRUE(unregister_delegate("WaitsInside"));
}

TEST(Threads, delegates_come_and_go) {
  const DelegateFunctions functions{[](const DelegateInit&) -> Result<void*> { return nullptr; },
                                    [](void*, std::span<MethodValue* const>) { return ok_status(); },
                                    [](void*) {}};
  std::atomic<size_t> right = 0;
  in_threads([&](size_t t) {
    const std::string id = cat("threads_test.", t);
    for (int i = 0; i < 100; ++i) {
      const bool added = register_delegate(id, functions).ok(), there = find_delegate(id) != nullptr;
      right += added && there && unregister_delegate(id);
    }
  });
  EXPECT_EQ(right, kThreads * 100);
}

}  // namespace
}  // namespace sixfold
