#include "sixfold/execute/method.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <thread>

#include "sixfold/base/count_allocations.h"
#include "sixfold/execute/program_test.h"

namespace sixfold {
namespace {

using testing::feed;
using testing::floats;
using testing::message;
using testing::MethodWriter;
using ::testing::Test;

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// x: [2, 3] planned; y = relu(x @ w + x2 ...): a few kernels with a weight, a view without an instruction.
struct Net : MethodWriter {
  Net() {
    const auto x = planned(tensor({2, 3}));
    const auto w = constant(tensor({4, 3}), {1, 2, 3, -1, -2, -3, 0.5, 0, -0.5, 2, 2, 2});
    const auto b = constant(tensor({4}), {0.5, 1, -1, 0});
    const auto y = planned(tensor({2, 4}));
    const auto z = planned(tensor({2, 4}));
    const auto flat = planned(
        tensor({8}), static_cast<int64_t>(
                         std::get<pte::Tensor>(method().values[static_cast<size_t>(z)]).allocation->offset));
    const auto out = planned(tensor({8}));
    const auto alpha = add(int64_t{1});
    call("aten::linear.out", {x, w, b, y, y});
    call("aten::relu.out", {y, z, z});
    call("aten::add.out", {flat, flat, alpha, out, out});
    method().inputs = {x};
    method().outputs = {out};
  }
  static std::vector<float> expected(const std::vector<float>& x) {
    const float w[] = {1, 2, 3, -1, -2, -3, 0.5, 0, -0.5, 2, 2, 2}, b[] = {0.5, 1, -1, 0};
    std::vector<float> out;
    for (int i = 0; i < 2; ++i)
      for (int o = 0; o < 4; ++o) {
        float sum = b[o];
        for (int k = 0; k < 3; ++k) sum += x[static_cast<size_t>(i * 3 + k)] * w[o * 3 + k];
        out.push_back(2 * std::max(sum, 0.0f));
      }
    return out;
  }
};
const std::vector<float> kX = {1, -2, 3, 0.5, 0.25, -1};

TEST(Method, computes_what_its_kernels_say) {
  Net net;
  const auto method = net.load_method();
  ASSERT_TRUE(method);
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(message(feed(*method, 0, kX, {2, 3})), "ok");
    ASSERT_EQ(message(method->execute()), "ok");
    EXPECT_EQ(floats(*method, 0), Net::expected(kX));
  }
}

TEST(Method, allocates_nothing_after_it_was_loaded) {
#ifdef SIXFOLD_SANITIZED
  GTEST_SKIP() << "the sanitizer has allocators of its own";
#endif
  Net net;
  const auto method = net.load_method();
  ASSERT_TRUE(method);
  const Shape sizes{2, 3};
  const TensorView x{DType::f32, sizes, {}, reinterpret_cast<const std::byte*>(kX.data())};
  const size_t before = testing::allocations();
  Status first = method->set_input(0, x), second = method->execute();
  EXPECT_EQ(testing::allocations() - before, 0u);
  EXPECT_TRUE(first.ok() && second.ok());
}

TEST(Method, an_input_must_be_set_before_every_run) {
  Net net;
  const auto method = net.load_method();
  ASSERT_TRUE(method);
  EXPECT_TRUE(has(message(method->execute()), "input 0 was not set"));
  ASSERT_TRUE(feed(*method, 0, kX, {2, 3}).ok());
  ASSERT_TRUE(method->execute().ok());
  EXPECT_TRUE(has(message(method->execute()), "input 0 was not set"));
}

TEST(Method, inputs_of_another_type_or_shape_are_refused_with_both) {
  Net net;
  const auto method = net.load_method();
  ASSERT_TRUE(method);
  EXPECT_TRUE(has(message(feed(*method, 0, kX, {3, 2})), "must be f32[2, 3], f32[3, 2] was given"));
  const Shape sizes{2, 3};
  EXPECT_TRUE(
      has(message(method->set_input(0, TensorView{DType::i32, sizes, {}, nullptr})), "i32[2, 3] was given"));
  EXPECT_TRUE(has(message(method->set_input(0, int64_t{3})), "is a tensor, an integer was given"));
  EXPECT_TRUE(has(message(feed(*method, 1, kX, {2, 3})), "the method has 1"));
  EXPECT_TRUE(has(message(feed(*method, 0, {}, {2, 3})), "has no data"));
}

TEST(Method, memory_of_another_order_is_brought_into_its_own) {
  Net net;
  const auto method = net.load_method();
  ASSERT_TRUE(method);
  const std::vector<float> columns = {1, 0.5, -2, 0.25, 3, -1};  // kX, column by column
  const Shape sizes{2, 3};
  const uint8_t order[] = {1, 0};
  ASSERT_TRUE(method
                  ->set_input(0, TensorView{DType::f32, sizes, order,
                                            reinterpret_cast<const std::byte*>(columns.data())})
                  .ok());
  ASSERT_TRUE(method->execute().ok());
  EXPECT_EQ(floats(*method, 0), Net::expected(kX));
  const uint8_t wrong[] = {1, 1};
  EXPECT_TRUE(
      has(message(method->set_input(
              0, TensorView{DType::f32, sizes, wrong, reinterpret_cast<const std::byte*>(columns.data())})),
          "no permutation"));
}

// A file may call an input column-major, and then read it by a view in the same memory that says row-major:
// the exporter dropped what made the view right for columns. Rows it is, whatever order the caller's memory
// has.
TEST(Method, an_input_that_only_row_major_views_read_is_row_major) {
  for (const bool read_itself : {false, true}) {
    MethodWriter w;
    pte::Tensor columns = MethodWriter::tensor({2, 3});
    columns.dim_order = {1, 0};
    const auto x = w.planned(columns);
    const auto flat = w.planned(MethodWriter::tensor({6}), 0);
    const auto out = w.planned(MethodWriter::tensor({6}));
    w.call("aten::neg.out", {flat, out, out});
    if (read_itself) {
      const auto other = w.planned(columns);
      w.call("aten::neg.out", {x, other, other});
      w.method().outputs = {out, other};
    } else {
      w.method().outputs = {out};
    }
    w.method().inputs = {x};
    const auto method = w.load_method();
    ASSERT_TRUE(method);
    const std::vector<float> rows = {1, 2, 3, 4, 5, 6}, by_column = {1, 4, 2, 5, 3, 6};
    const std::vector<float> expected =
        read_itself ? std::vector<float>{-1, -4, -2, -5, -3, -6} : std::vector<float>{-1, -2, -3, -4, -5, -6};
    ASSERT_EQ(message(feed(*method, 0, rows, {2, 3})), "ok");
    ASSERT_EQ(message(method->execute()), "ok");
    EXPECT_EQ(floats(*method, 0), expected);
    const Shape sizes{2, 3};
    const uint8_t order[] = {1, 0};
    ASSERT_TRUE(method
                    ->set_input(0, TensorView{DType::f32, sizes, order,
                                              reinterpret_cast<const std::byte*>(by_column.data())})
                    .ok());
    ASSERT_EQ(message(method->execute()), "ok");
    EXPECT_EQ(floats(*method, 0), expected);
  }
}

TEST(Method, an_arena_that_is_too_small_is_an_error_with_both_sizes) {
  Net net;
  auto program = net.load();
  ASSERT_TRUE(program.ok());
  const auto needed = static_cast<size_t>(net.arena_bytes());
  std::vector<std::max_align_t> memory(needed / sizeof(std::max_align_t) + 1);
  auto* bytes = reinterpret_cast<std::byte*>(memory.data());
  for (const size_t size : {needed - 1, size_t{0}}) {
    const std::span<std::byte> arena(bytes, size);
    MethodOptions options;
    options.arenas = std::span(&arena, 1);
    auto method = Method::load(*program, "forward", options);
    ASSERT_FALSE(method.ok());
    EXPECT_EQ(method.error().code(), Code::OutOfMemory);
    EXPECT_TRUE(has(method.error().message(), cat("needs ", needed, " bytes, and has ", size)));
  }
  const std::span<std::byte> arena(bytes, needed);
  MethodOptions options;
  options.arenas = std::span(&arena, 1);
  auto method = Method::load(*program, "forward", options);
  ASSERT_TRUE(method.ok()) << method.error().message();
  ASSERT_TRUE(feed(**method, 0, kX, {2, 3}).ok());
  ASSERT_TRUE((*method)->execute().ok());
  EXPECT_EQ(floats(**method, 0), Net::expected(kX));
}

// Gives memory for the first n requests.
class Stingy final : public Allocator {
 public:
  explicit Stingy(size_t n) : left_(n) {}
  ~Stingy() override { EXPECT_EQ(held_, 0u); }
  void* allocate(size_t bytes, size_t alignment) override {
    if (left_ == 0) return nullptr;
    --left_;
    held_ += bytes;
    return system_allocator().allocate(bytes, alignment);
  }
  void release(void* memory, size_t bytes) override {
    held_ -= bytes;
    system_allocator().release(memory, bytes);
  }

 private:
  size_t left_, held_ = 0;
};

TEST(Method, each_failing_allocation_is_an_error_and_leaks_nothing) {
  Net net;
  net.method().outputs.push_back(net.add(MethodWriter::tensor({2, 4})));  // not planned
  net.call("aten::sigmoid.out", {3, net.method().outputs[1], net.method().outputs[1]});
  auto program = net.load();
  ASSERT_TRUE(program.ok()) << program.error().message();
  size_t n = 0;
  for (bool loaded = false; !loaded; ++n) {
    ASSERT_LT(n, 20u);
    Stingy allocator(n);
    MethodOptions options;
    options.allocator = &allocator;
    auto method = Method::load(*program, "forward", options);
    loaded = method.ok();
    if (!loaded) {
      EXPECT_EQ(method.error().code(), Code::OutOfMemory) << method.error().message();
      EXPECT_TRUE(has(method.error().message(), "bytes")) << method.error().message();
    }
  }
  EXPECT_GE(n, 3u);  // the arena and the output were refused once each
}

TEST(Method, all_kernels_and_delegates_that_are_missing_are_named_at_once) {
  MethodWriter w;
  const auto x = w.planned(MethodWriter::tensor({2}));
  w.call("aten::no_such_op.out", {x, x, x});
  w.call("custom::other", {x, x});
  w.call("aten::relu.out", {x, x, x});
  w.method().delegates.push_back({"NoSuchBackend", {}, true, {}});
  auto program = w.load();
  ASSERT_TRUE(program.ok()) << program.error().message();
  auto method = Method::load(*program);
  ASSERT_FALSE(method.ok());
  EXPECT_EQ(method.error().code(), Code::Unsupported);
  EXPECT_TRUE(has(method.error().message(),
                  "kernels aten::no_such_op.out, custom::other and delegates NoSuchBackend"))
      << method.error().message();
  EXPECT_TRUE(has(message(Method::load(*program, "other").take_error()), "it has forward"));
}

TEST(Method, results_over_their_operands_are_right) {
  // Both results lie where x is: one kernel may work in place, the other may not.
  for (const bool transposed : {false, true}) {
    MethodWriter w;
    const auto x = w.planned(MethodWriter::tensor({3, 3}), 0);
    const auto y = w.planned(MethodWriter::tensor({3, 3}), 0);
    if (transposed) {
      const auto dims = w.add(pte::IntList{{w.add(int64_t{1}), w.add(int64_t{0})}});
      w.call("aten::permute_copy.out", {x, dims, y, y});
    } else {
      w.call("aten::mul.out", {x, x, y, y});
    }
    w.method().inputs = {x};
    w.method().outputs = {y};
    const auto method = w.load_method();
    ASSERT_TRUE(method);
    const std::vector<float> data = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    ASSERT_TRUE(feed(*method, 0, data, {3, 3}).ok());
    ASSERT_EQ(message(method->execute()), "ok");
    const std::vector<float> want = transposed ? std::vector<float>{1, 4, 7, 2, 5, 8, 3, 6, 9}
                                               : std::vector<float>{1, 4, 9, 16, 25, 36, 49, 64, 81};
    EXPECT_EQ(floats(*method, 0), want);
  }
}

TEST(Method, sizes_change_up_to_their_bound) {
  MethodWriter w;
  auto bounded = MethodWriter::tensor({4, 2});
  bounded.dynamism = pte::Dynamism::bounded;
  const auto x = w.planned(bounded), y = w.planned(bounded);
  const auto one = w.add(int64_t{1});
  const auto rows = w.add(int64_t{0});
  const auto axis = w.add(int64_t{0});
  w.call("aten::sym_size.int", {x, axis, rows});
  w.call("aten::add.out", {x, x, one, y, y});
  w.method().inputs = {x};
  w.method().outputs = {y, rows};
  const auto method = w.load_method();
  ASSERT_TRUE(method);
  const std::vector<float> data = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const int64_t n : {4, 1, 3, 3, 0}) {
    ASSERT_EQ(message(feed(*method, 0, data, {n, 2})), "ok");
    ASSERT_EQ(message(method->execute()), "ok");
    const auto got = floats(*method, 0);
    ASSERT_EQ(got.size(), static_cast<size_t>(n * 2));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 2 * data[i]);
    EXPECT_EQ(std::get<int64_t>(method->output(1)), n);
  }
  EXPECT_TRUE(has(message(feed(*method, 0, data, {5, 2})), "must be f32[4, 2] at most, f32[5, 2] was given"));
}

TEST(Method, a_loop_without_end_is_stopped) {
  MethodWriter w;
  const auto never = w.add(false);
  w.emit(pte::JumpFalse{never, 0});
  MethodOptions options;
  options.max_instructions = 1000;
  const auto method = w.load_method(options);
  ASSERT_TRUE(method);
  EXPECT_TRUE(has(message(method->execute()), "has not ended after 1000 instructions"));
}

TEST(Method, jumps_and_moves_choose_a_branch) {
  MethodWriter w;
  const auto x = w.planned(MethodWriter::tensor({2}));
  const auto a = w.planned(MethodWriter::tensor({2})), b = w.planned(MethodWriter::tensor({2}));
  const auto out = w.add(MethodWriter::tensor({2}));
  const auto sum = w.planned(MethodWriter::tensor({}));
  const auto positive = w.planned(MethodWriter::tensor({}, DType::boolean));
  const auto never = w.add(false), keep = w.add(false), none = w.add(pte::None{}), zero = w.add(int64_t{0});
  const auto axes = w.add(pte::IntList{{zero}});
  w.call("aten::sum.IntList_out", {x, axes, keep, none, sum, sum});
  w.call("aten::gt.Scalar_out", {sum, zero, positive, positive});
  w.emit(pte::JumpFalse{positive, 6});
  w.call("aten::exp.out", {x, a, a});
  w.emit(pte::Move{a, out});
  w.emit(pte::JumpFalse{never, 8});
  w.call("aten::abs.out", {x, b, b});
  w.emit(pte::Move{b, out});
  w.method().inputs = {x};
  w.method().outputs = {out};
  const auto method = w.load_method();
  ASSERT_TRUE(method);
  for (const float sign : {1.0f, -1.0f, 1.0f}) {
    ASSERT_TRUE(feed(*method, 0, {0, 2 * sign}, {2}).ok());
    ASSERT_EQ(message(method->execute()), "ok");
    EXPECT_FLOAT_EQ(floats(*method, 0)[1], sign > 0 ? std::exp(2.0f) : 2.0f);
  }
}

TEST(Method, numbers_among_inputs_must_be_those_of_the_program) {
  MethodWriter w;
  w.method().inputs = {w.add(int64_t{7}), w.add(0.5), w.add(true)};
  w.method().outputs = {w.method().inputs[0]};
  const auto method = w.load_method();
  ASSERT_TRUE(method);
  EXPECT_EQ(message(method->set_input(0, int64_t{7})), "ok");
  EXPECT_TRUE(has(message(method->set_input(0, int64_t{8})), "is 7 in the program, and cannot be 8"));
  EXPECT_EQ(message(method->set_input(1, 0.50001)), "ok");
  EXPECT_FALSE(method->set_input(1, 0.6).ok());
  EXPECT_FALSE(method->set_input(2, false).ok());
  EXPECT_EQ(message(method->execute()), "ok");
}

TEST(Method, outputs_may_be_the_callers_memory) {
  MethodWriter w;
  const auto x = w.add(MethodWriter::tensor({4})), y = w.add(MethodWriter::tensor({4}));
  w.call("aten::neg.out", {x, y, y});
  w.method().inputs = {x};
  w.method().outputs = {y};
  const auto method = w.load_method();
  ASSERT_TRUE(method);
  std::vector<float> in = {1, 2, 3, 4}, out(4);
  EXPECT_TRUE(has(message(method->set_output(0, std::as_writable_bytes(std::span(out)).first(15))),
                  "needs 16 bytes, and has 15"));
  ASSERT_EQ(message(method->set_output(0, std::as_writable_bytes(std::span(out)))), "ok");
  ASSERT_TRUE(feed(*method, 0, in, {4}).ok());
  ASSERT_EQ(message(method->execute()), "ok");
  EXPECT_EQ(out, (std::vector<float>{-1, -2, -3, -4}));
  // The same memory for both, and the input stays set: it is where it was.
  ASSERT_TRUE(method->set_output(0, std::as_writable_bytes(std::span(in))).ok());
  ASSERT_EQ(message(method->execute()), "ok");
  EXPECT_EQ(in, out);
}

TEST(Method, a_permuted_constant_is_the_constant_itself) {
  // The result is used by a product, and by one that returns it: then it must be in its planned place.
  for (const bool returned : {false, true}) {
    MethodWriter w;
    const auto x = w.planned(MethodWriter::tensor({2, 3}));
    const auto weight = w.constant(MethodWriter::tensor({4, 3}), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    const auto t = w.planned(MethodWriter::tensor({3, 4})), y = w.planned(MethodWriter::tensor({2, 4}));
    const auto dims = w.add(pte::IntList{{w.add(int64_t{-1}), w.add(int64_t{0})}});
    w.call("aten::permute_copy.out", {weight, dims, t, t});
    w.call("aten::mm.out", {x, t, y, y});
    w.method().inputs = {x};
    w.method().outputs = {y};
    if (returned) w.method().outputs.push_back(t);
    const auto method = w.load_method();
    ASSERT_TRUE(method);
    ASSERT_TRUE(feed(*method, 0, {1, 0, 0, 0, 1, 1}, {2, 3}).ok());
    ASSERT_EQ(message(method->execute()), "ok");
    EXPECT_EQ(floats(*method, 0), (std::vector<float>{1, 4, 7, 10, 5, 11, 17, 23}));
    if (!returned) continue;
    EXPECT_EQ(floats(*method, 1), (std::vector<float>{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12}));
    EXPECT_EQ(method->output_tensor(1)->dim_order[0], 0);
  }
}

TEST(Method, ten_thousand_loads_leave_no_memory_behind) {
#ifdef SIXFOLD_SANITIZED
  GTEST_SKIP() << "a sanitizer keeps freed memory for a while";
#endif
  Net net;
  auto program = net.load();
  ASSERT_TRUE(program.ok());
  const auto resident_pages = [] {
    std::ifstream file("/proc/self/statm");
    int64_t total = 0, resident = 0;
    file >> total >> resident;
    return resident;
  };
  // What leaks grows all along; once, a whole huge page may come (qemu's, for what it translates).
  int64_t before = 0, between = 0;
  for (int i = 0; i < 10000; ++i) {
    auto method = Method::load(*program);
    ASSERT_TRUE(method.ok());
    if (i % 100 == 0) {
      ASSERT_TRUE(feed(**method, 0, kX, {2, 3}).ok() && (*method)->execute().ok());
    }
    if (i == 1000) before = resident_pages();
    if (i == 5500) between = resident_pages();
  }
  EXPECT_LT(std::min(between - before, resident_pages() - between), 32);
}

// ---- delegates

struct Calls {
  int init = 0, execute = 0, destroy = 0;
  Method* method = nullptr;
  std::string refusal;
} calls;

Result<void*> init(const DelegateInit& init) {
  ++calls.init;
  if (init.specs.size() != 1 || init.specs[0].key != "fine")
    return invalid_model("the delegate has ", init.specs.size(), " specs");
  return &calls;
}
Status execute(void* handle, std::span<MethodValue* const> args) {
  auto* c = static_cast<Calls*>(handle);
  ++c->execute;
  if (c->method) c->refusal = message(c->method->execute());
  const auto& in = std::get<TensorState>(*args[0]);
  auto& out = std::get<TensorState>(*args[1]);
  for (int64_t i = 0; i < in.count(); ++i)
    reinterpret_cast<float*>(out.data)[i] = reinterpret_cast<const float*>(in.data)[i] + 100;
  return {};
}
void destroy(void* handle) { ++static_cast<Calls*>(handle)->destroy; }

struct Delegated : MethodWriter {
  explicit Delegated(const std::string& spec) {
    const auto x = planned(tensor({2})), y = planned(tensor({2}));
    method().delegates.push_back({"TestBackend", {}, true, {{spec, {}}}});
    emit(pte::DelegateCall{0, {x, y}});
    method().inputs = {x};
    method().outputs = {y};
  }
};

class Delegates : public Test {
 protected:
  void SetUp() override {
    calls = {};
    ASSERT_TRUE(register_delegate("TestBackend", {init, execute, destroy}).ok());
  }
  void TearDown() override { EXPECT_TRUE(unregister_delegate("TestBackend")); }
};

TEST_F(Delegates, are_made_run_and_destroyed_with_the_method) {
  EXPECT_TRUE(has(message(register_delegate("TestBackend", {init, execute, destroy})), "registered already"));
  Delegated w("fine");
  auto method = w.load_method();
  ASSERT_TRUE(method);
  ASSERT_TRUE(feed(*method, 0, {1, 2}, {2}).ok());
  ASSERT_EQ(message(method->execute()), "ok");
  EXPECT_EQ(floats(*method, 0), (std::vector<float>{101, 102}));
  method.reset();
  EXPECT_EQ(calls.init, 1);
  EXPECT_EQ(calls.execute, 1);
  EXPECT_EQ(calls.destroy, 1);
}

TEST_F(Delegates, that_cannot_start_refuse_the_method) {
  Delegated w("other");
  auto program = w.load();
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(has(Method::load(*program).error().message(), "initializing delegate TestBackend"));
  EXPECT_EQ(calls.destroy, 0);
}

TEST_F(Delegates, a_second_call_while_one_runs_is_an_error) {
  Delegated w("fine");
  const auto method = w.load_method();
  ASSERT_TRUE(method);
  calls.method = method.get();
  ASSERT_TRUE(feed(*method, 0, {1, 2}, {2}).ok());
  ASSERT_EQ(message(method->execute()), "ok");
  EXPECT_TRUE(has(calls.refusal, "in use by another thread")) << calls.refusal;
}

TEST(Method, bools_that_a_plan_laid_over_other_values_are_refused) {
  testing::MethodWriter w;
  const auto x = w.planned(testing::MethodWriter::tensor({4}), 0);
  const auto mask = w.planned(testing::MethodWriter::tensor({4}, DType::boolean), 0);  // over x
  const auto y = w.planned(testing::MethodWriter::tensor({4}));
  w.call("aten::where.self_out", {mask, x, x, y, y});
  w.method().inputs = {x};
  w.method().outputs = {y};
  const auto method = w.load_method();
  ASSERT_TRUE(method);
  ASSERT_TRUE(testing::feed(*method, 0, {0, 0, 0, 0}, {4}).ok());
  EXPECT_TRUE(method->execute().ok());
  ASSERT_TRUE(testing::feed(*method, 0, {1, 2, 3, 4}, {4}).ok());
  EXPECT_NE(message(method->execute()).find("value 1 of bools has other bytes"), std::string::npos);
}

TEST(Method, many_threads_run_methods_of_one_program) {
  Net net;
  auto program = net.load();
  ASSERT_TRUE(program.ok());
  cpu::Pool pool(2);
  std::vector<std::thread> threads;
  std::vector<int> wrong(8);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      MethodOptions options;
      if (t % 2) options.pool = &pool;  // half of them share one
      for (int load = 0; load < 5; ++load) {
        auto method = Method::load(*program, "forward", options);
        if (!method.ok()) ++wrong[t];
        std::vector<float> x = kX;
        for (float& v : x) v += static_cast<float>(t);
        for (int run = 0; run < 20 && method.ok(); ++run) {
          const bool ran = feed(**method, 0, x, {2, 3}).ok() && (*method)->execute().ok();
          wrong[t] += !ran || floats(**method, 0) != Net::expected(x);
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, std::vector<int>(8));
}

}  // namespace
}  // namespace sixfold
