#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {
namespace {

template <typename T>
struct Array {
  Shape shape;
  std::vector<T> data;
  Shape strides;  // empty: row-major
};

template <typename T>
TensorDesc describe(const Array<T>& x) {
  return {dtype_of<T>(), x.shape, x.strides.empty() ? contiguous_strides(x.shape) : x.strides, nullptr};
}

// std::vector<bool> has no data(): results of comparisons are read as bytes.
template <typename T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <typename Out, typename T>
Result<std::vector<Stored<Out>>> run(Op op, const Array<T>& a, const Array<T>& b, Shape shape,
                                     Attrs attrs = {}, Shape strides = {}) {
  const TensorDesc in[] = {describe(a), describe(b)};
  const TensorDesc out[] = {
      {dtype_of<Out>(), shape, strides.empty() ? contiguous_strides(shape) : strides, nullptr}};
  SF_ASSIGN(auto kernel, make({op, in, out, attrs}));
  std::vector<Stored<Out>> result(static_cast<size_t>(numel(shape)));
  const void* inputs[] = {a.data.data(), b.data.data()};
  void* outputs[] = {result.data()};
  Pool pool(2);
  SF_TRY(kernel->run({inputs, outputs, nullptr, pool}));
  return result;
}

using Floats = std::vector<float>;
using Longs = std::vector<int64_t>;

TEST(Binary, broadcasts_as_numpy_does) {
  const Array<float> a{{2, 1, 3}, {0, 1, 2, 3, 4, 5}, {}};
  const Array<float> b{{2, 1}, {10, 20}, {}};
  auto y = run<float>(Op::add, a, b, {2, 2, 3});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(*y, (Floats{10, 11, 12, 20, 21, 22, 13, 14, 15, 23, 24, 25}));
}

TEST(Binary, follows_a_channels_last_output) {
  Array<float> a{{1, 2, 1, 2}, {0, 1, 10, 11}, channels_last_strides({1, 2, 1, 2})};  // stored [w][c]
  const Array<float> b{{2, 1, 1}, {100, 200}, {}};
  auto y = run<float>(Op::add, a, b, {1, 2, 1, 2}, {}, channels_last_strides({1, 2, 1, 2}));
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(*y, (Floats{100, 201, 110, 211}));
}

TEST(Binary, splits_large_rows_without_changing_values) {
  const int64_t n = 100003;
  Array<float> a{{2, n}, Floats(static_cast<size_t>(2 * n)), {}};
  for (size_t i = 0; i < a.data.size(); ++i) a.data[i] = static_cast<float>(i % 977);
  const Array<float> b{{2, 1}, {2, 3}, {}};
  auto y = run<float>(Op::mul, a, b, {2, n});
  ASSERT_TRUE(y.ok());
  for (size_t i = 0; i < a.data.size(); ++i)
    ASSERT_EQ((*y)[i], a.data[i] * (i < static_cast<size_t>(n) ? 2 : 3)) << i;
}

TEST(Binary, empty_and_scalar_shapes_work) {
  EXPECT_TRUE(
      run<float>(Op::add, Array<float>{{0, 3}, {}, {}}, Array<float>{{3}, {1, 2, 3}, {}}, {0, 3}).ok());
  auto y = run<float>(Op::sub, Array<float>{{}, {5}, {}}, Array<float>{{}, {3}, {}}, {});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(*y, Floats{2});
}

TEST(Binary, nan_wins_minimum_and_maximum) {
  const Array<float> a{{3}, {NAN, 1, 2}, {}};
  const Array<float> b{{3}, {1, NAN, 3}, {}};
  for (const Op op : {Op::minimum, Op::maximum}) {
    auto y = run<float>(op, a, b, {3});
    ASSERT_TRUE(y.ok());
    EXPECT_TRUE(std::isnan((*y)[0]) && std::isnan((*y)[1]));
    EXPECT_EQ((*y)[2], op == Op::minimum ? 2 : 3);
  }
}

TEST(Binary, integer_division_rounds_as_asked) {
  const Array<int64_t> a{{4}, {7, -7, 7, std::numeric_limits<int64_t>::min()}, {}};
  const Array<int64_t> b{{4}, {2, 2, -2, -1}, {}};
  EXPECT_EQ(*run<int64_t>(Op::div, a, b, {4}, {{"rounding", std::string("floor")}}),
            (Longs{3, -4, -4, std::numeric_limits<int64_t>::min()}));
  EXPECT_EQ(*run<int64_t>(Op::div, a, b, {4}, {{"rounding", std::string("trunc")}}),
            (Longs{3, -3, -3, std::numeric_limits<int64_t>::min()}));
  EXPECT_EQ(*run<int64_t>(Op::remainder, a, b, {4}), (Longs{1, 1, -1, 0}));
  EXPECT_EQ(*run<int64_t>(Op::fmod, a, b, {4}), (Longs{1, -1, 1, 0}));
}

TEST(Binary, integer_division_by_zero_is_an_error) {
  const auto y =
      run<int64_t>(Op::remainder, Array<int64_t>{{2}, {1, 2}, {}}, Array<int64_t>{{2}, {1, 0}, {}}, {2});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.error().code(), Code::InvalidArgument);
}

TEST(Binary, floor_division_and_remainder_of_floats_follow_the_divisor) {
  const Array<float> a{{4}, {7, -7, 7, 1}, {}};
  const Array<float> b{{4}, {2, 2, -2, 0}, {}};
  auto q = run<float>(Op::div, a, b, {4}, {{"rounding", std::string("floor")}});
  ASSERT_TRUE(q.ok());
  EXPECT_EQ(*q, (Floats{3, -4, -4, INFINITY}));
  auto r = run<float>(Op::remainder, a, b, {4});
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(Floats(r->begin(), r->begin() + 3), (Floats{1, 1, -1}));
  EXPECT_TRUE(std::isnan((*r)[3]));
}

TEST(Binary, neighbouring_int64_compare_exactly) {
  const int64_t big = int64_t{1} << 53;
  const auto y =
      run<bool>(Op::eq, Array<int64_t>{{2}, {big, big + 1}, {}}, Array<int64_t>{{2}, {big, big}, {}}, {2});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(*y, (std::vector<uint8_t>{1, 0}));
}

TEST(Binary, integer_power_and_shifts_stay_in_their_type) {
  const Array<int64_t> a{{4}, {3, 2, -1, -8}, {}};
  EXPECT_EQ(*run<int64_t>(Op::pow, a, Array<int64_t>{{4}, {4, -1, -3, 0}, {}}, {4}), (Longs{81, 0, -1, 1}));
  EXPECT_EQ(*run<int64_t>(Op::shift_left, a, Array<int64_t>{{4}, {1, 64, 3, -1}, {}}, {4}),
            (Longs{6, 0, -8, 0}));
  EXPECT_EQ(*run<int64_t>(Op::shift_right, a, Array<int64_t>{{4}, {1, 64, 3, 99}, {}}, {4}),
            (Longs{1, 0, -1, -1}));
}

TEST(Binary, where_chooses_by_element) {
  const Shape shape{2, 2};
  const TensorDesc in[] = {{DType::boolean, {2, 1}, {1, 1}, nullptr},
                           {DType::i64, {2, 2}, {2, 1}, nullptr},
                           {DType::i64, {}, {}, nullptr}};
  const TensorDesc out[] = {{DType::i64, shape, {2, 1}, nullptr}};
  const Attrs attrs;
  auto kernel = make({Op::where, in, out, attrs});
  ASSERT_TRUE(kernel.ok());
  const bool condition[] = {true, false};
  const int64_t a[] = {1, 2, 3, 4}, b = -9;
  int64_t y[4];
  const void* inputs[] = {condition, a, &b};
  void* outputs[] = {y};
  Pool pool(1);
  ASSERT_TRUE((*kernel)->run({inputs, outputs, nullptr, pool}).ok());
  EXPECT_EQ(Longs(y, y + 4), (Longs{1, 2, -9, -9}));
}

TEST(Binary, prelu_takes_its_weight_by_channel) {
  const Array<float> x{{1, 2, 2}, {-1, 2, -3, 4}, {}};
  auto y = run<float>(Op::prelu, x, Array<float>{{2}, {0.5f, 0.1f}, {}}, {1, 2, 2});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ(*y, (Floats{-0.5f, 2, -0.3f, 4}));
}

TEST(Binary, operands_of_different_dtypes_are_refused) {
  const Type in[] = {{DType::f32, {Dim(2)}}, {DType::i64, {Dim(2)}}};
  const auto types = infer_types(Op::add, in, {});
  ASSERT_FALSE(types.ok());
  EXPECT_EQ(types.error().message(), "add needs operands of one dtype, got f32[2] and i64[2]");
}

TEST(Binary, shapes_that_do_not_broadcast_are_refused) {
  const Type in[] = {{DType::f32, {Dim(2)}}, {DType::f32, {Dim(3)}}};
  EXPECT_FALSE(infer_types(Op::add, in, {}).ok());
}

}  // namespace
}  // namespace sixfold::cpu
