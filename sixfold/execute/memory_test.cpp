// Memory that is not enough: at each point where a program asks for some, an error with both sizes, and
// nothing lost.
#include <gtest/gtest.h>

#include <cctype>
#include <cstring>
#include <set>

#include "sixfold/execute/program_test.h"

namespace sixfold {
namespace {

using testing::golden;
using testing::golden_path;
using testing::run_method;

// Convolutions with packed weights, sizes that change from run to run, a state, a branch, several methods.
const char* const kGoldens[] = {"mlp.pte", "conv.pte", "rows.pte", "counter.pte", "counter_sixfold.pte"};

std::set<std::string> numbers_in(std::string_view text) {
  std::set<std::string> out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    if (end > i) out.insert(std::string(text.substr(i, end - i)));
    i = end + 1;
  }
  return out;
}

void expect_both_sizes(const Error& error) {
  EXPECT_EQ(error.code(), Code::OutOfMemory) << error.message();
  const size_t at = error.message().find(" needs ");
  ASSERT_NE(at, std::string::npos) << error.message();
  EXPECT_GE(numbers_in(error.message().substr(at)).size(), 2u) << error.message();
}

// Loads, runs with two sizes, and once more with the first.
Result<std::vector<std::byte>> load_and_run(const Program& program, const MethodOptions& options) {
  SF_ASSIGN(const auto method, Method::load(program, "forward", options));
  std::vector<std::byte> all;
  for (const int64_t extent : {3, 5, 3}) {
    SF_ASSIGN(const auto out, run_method(*method, extent));
    all.insert(all.end(), out.begin(), out.end());
  }
  return all;
}

// Refuses request number `bad`, and all after it unless `once`.
class Failing final : public Allocator {
 public:
  Failing(size_t bad, bool once) : bad_(bad), once_(once) {}
  ~Failing() override { EXPECT_EQ(held_, 0u); }
  void* allocate(size_t bytes, size_t alignment) override {
    const size_t n = requests_++;
    if (once_ ? n == bad_ : n >= bad_) return nullptr;
    held_ += bytes;
    return system_allocator().allocate(bytes, alignment);
  }
  void release(void* memory, size_t bytes) override {
    held_ -= bytes;
    system_allocator().release(memory, bytes);
  }
  size_t available_bytes(size_t) const override { return 17; }
  bool failed() const { return requests_ > bad_; }

 private:
  size_t bad_, requests_ = 0, held_ = 0;
  bool once_;
};

// At least an arena; packed weights of each convolution; what changed sizes need.
size_t requests_of(std::string_view name) { return name == "conv.pte" || name == "rows.pte" ? 6 : 2; }

TEST(Memory, each_failing_allocation_of_a_program_is_an_error_with_both_sizes) {
  for (const char* name : kGoldens) {
    SCOPED_TRACE(name);
    const Program program = golden(name);
    const auto expected = load_and_run(program, {});
    ASSERT_TRUE(expected.ok()) << expected.error().message();
    for (const bool once : {false, true}) {
      size_t n = 0;
      for (bool failed = true; failed; ++n) {
        ASSERT_LT(n, 1000u);
        Failing allocator(n, once);
        MethodOptions options;
        options.allocator = &allocator;
        const auto out = load_and_run(program, options);
        failed = allocator.failed();
        ASSERT_EQ(out.ok(), !failed) << "request " << n << ": " << (out.ok() ? "" : out.error().message());
        if (failed)
          expect_both_sizes(out.error());
        else
          EXPECT_EQ(*out, *expected);
      }
      EXPECT_GE(n, requests_of(name));
    }
  }
}

TEST(Memory, packed_weights_are_the_callers) {
  const Program program = golden("conv.pte");
  size_t weights = 0;
  for (const auto& c : program.contents().constants) weights += c.size();
  struct Counting final : Allocator {
    void* allocate(size_t bytes, size_t alignment) override {
      total += bytes;
      return system_allocator().allocate(bytes, alignment);
    }
    void release(void* memory, size_t bytes) override { system_allocator().release(memory, bytes); }
    size_t total = 0;
  } allocator;
  MethodOptions options;
  options.allocator = &allocator;
  ASSERT_TRUE(Method::load(program, "forward", options).ok());
  size_t arenas = 0;
  for (const int64_t bytes : program.methods()[0].buffer_sizes) arenas += static_cast<size_t>(bytes);
  EXPECT_GT(allocator.total, arenas + weights / 2);
}

// A method whose run failed for want of memory is as it was: with memory it runs.
TEST(Memory, a_run_that_failed_can_be_repeated) {
  struct Switch final : Allocator {
    void* allocate(size_t bytes, size_t alignment) override {
      return left-- > 0 ? system_allocator().allocate(bytes, alignment) : nullptr;
    }
    void release(void* memory, size_t bytes) override { system_allocator().release(memory, bytes); }
    int64_t left = 1 << 30;
  } allocator;
  const Program program = golden("rows.pte");
  MethodOptions options;
  options.allocator = &allocator;
  auto method = Method::load(program, "forward", options);
  ASSERT_TRUE(method.ok()) << method.error().message();
  const auto small = run_method(**method, 3);
  ASSERT_TRUE(small.ok()) << small.error().message();
  size_t refused = 0;
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 100);
    allocator.left = n;
    const auto out = run_method(**method, n % 2 ? 6 : 5);
    if (out.ok()) break;
    expect_both_sizes(out.error());
    ++refused;
    allocator.left = 1 << 30;
    const auto again = run_method(**method, 3);
    ASSERT_TRUE(again.ok()) << again.error().message();
    ASSERT_EQ(*again, *small);
  }
  EXPECT_GE(refused, 2u);
}

// All memory of a method from one piece, 16 bytes larger each time.
TEST(Memory, a_piece_that_grows_until_it_is_enough) {
#ifdef SIXFOLD_SANITIZED
  constexpr size_t kStep = 512;
#else
  constexpr size_t kStep = 16;
#endif
  for (const char* name : {"mlp.pte", "rows.pte", "counter.pte", "conv.pte"}) {
    SCOPED_TRACE(name);
    const Program program = golden(name);
    const auto expected = load_and_run(program, {});
    ASSERT_TRUE(expected.ok());
    std::vector<std::byte> memory(1 << 20);
    size_t size = 0;
    for (bool enough = false; !enough; size += kStep) {
      ASSERT_LT(size, memory.size());
      ArenaAllocator allocator({memory.data(), size});
      MethodOptions options;
      options.allocator = &allocator;
      const auto out = load_and_run(program, options);
      enough = out.ok();
      if (enough)
        EXPECT_EQ(*out, *expected);
      else
        expect_both_sizes(out.error());
      if (HasFailure()) FAIL() << "with " << size << " bytes";
      EXPECT_EQ(allocator.available_bytes(1), size);  // all is back
    }
    size_t planned = 0;
    for (const int64_t bytes : program.find_method("forward")->buffer_sizes)
      planned += static_cast<size_t>(bytes);
    EXPECT_GE(size, planned);
  }
}

TEST(Memory, planned_buffers_that_grow_until_they_are_enough) {
  for (const char* name : kGoldens) {
    SCOPED_TRACE(name);
    const Program program = golden(name);
    const auto expected = load_and_run(program, {});
    ASSERT_TRUE(expected.ok());
    const auto& sizes = program.find_method("forward")->buffer_sizes;
    std::vector<std::vector<std::max_align_t>> memory;
    for (size_t b = 1; b < sizes.size(); ++b)
      memory.emplace_back(static_cast<size_t>(sizes[b]) / sizeof(std::max_align_t) + 1);
    for (size_t b = 1; b < sizes.size(); ++b) {
      const auto needed = static_cast<size_t>(sizes[b]);
      for (size_t size = needed % 8;; size += 8) {
        std::vector<std::span<std::byte>> arenas;
        for (size_t k = 1; k < sizes.size(); ++k)
          arenas.emplace_back(reinterpret_cast<std::byte*>(memory[k - 1].data()),
                              k == b ? size : static_cast<size_t>(sizes[k]));
        // Zeros, as an allocator gives them.
        for (const auto& arena : arenas) std::memset(arena.data(), 0, arena.size());
        MethodOptions options;
        options.arenas = arenas;
        const auto out = load_and_run(program, options);
        ASSERT_EQ(out.ok(), size >= needed) << size << " of " << needed;
        if (out.ok()) {
          EXPECT_EQ(*out, *expected);
          break;
        }
        expect_both_sizes(out.error());
        EXPECT_TRUE(numbers_in(out.error().message()).contains(std::to_string(needed)));
        EXPECT_TRUE(numbers_in(out.error().message()).contains(std::to_string(size)));
      }
    }
  }
}

template <typename T>
void grow_limit(const std::string& name, T pte::Limits::*limit, size_t least) {
  LoadOptions options;
  options.limits.*limit = 0;
  size_t refused = 0;
  for (;; ++refused, ++(options.limits.*limit)) {
    ASSERT_LT(refused, 100'000u);
    const auto program = Program::open(golden_path(name), options);
    if (program.ok()) break;
    ASSERT_EQ(program.error().code(), Code::InvalidModel) << program.error().message();
    ASSERT_TRUE(numbers_in(program.error().message()).contains(std::to_string(refused)))
        << program.error().message();
  }
  EXPECT_GE(refused, least);
}

TEST(Memory, limits_that_grow_until_the_file_is_within) {
  for (const char* name : kGoldens) {
    SCOPED_TRACE(name);
    grow_limit(name, &pte::Limits::methods, 1);
    grow_limit(name, &pte::Limits::values, 5);
    grow_limit(name, &pte::Limits::instructions, 2);
    grow_limit(name, &pte::Limits::segments, 1);
    grow_limit(name, &pte::Limits::arena_bytes, 16);
    grow_limit(name, &pte::Limits::tables, 10);
    grow_limit(name, &pte::Limits::nesting, 2);
  }
  grow_limit("counter_sixfold.pte", &pte::Limits::named_data, 1);
}

}  // namespace
}  // namespace sixfold
