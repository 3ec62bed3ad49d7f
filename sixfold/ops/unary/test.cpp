#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sixfold/cpu/kernel.h"

namespace sixfold::cpu {
namespace {

template <typename Out, typename In>
Result<std::vector<Out>> run(Op op, const std::vector<In>& x, DType result, Attrs attrs = {}) {
  const Shape shape{static_cast<int64_t>(x.size())};
  const TensorDesc in[] = {{dtype_of<In>(), shape, {1}, nullptr}};
  const TensorDesc out[] = {{result, shape, {1}, nullptr}};
  SF_ASSIGN(auto kernel, make({op, in, out, attrs}));
  std::vector<Out> y(x.size());
  const void* inputs[] = {x.data()};
  void* outputs[] = {y.data()};
  Pool pool(2);
  SF_TRY(kernel->run({inputs, outputs, nullptr, pool}));
  return y;
}

TEST(Unary, integers_keep_their_type) {
  const std::vector<int64_t> x{-3, 0, (int64_t{1} << 60) + 1};
  EXPECT_EQ(*run<int64_t>(Op::abs, x, DType::i64), (std::vector<int64_t>{3, 0, (int64_t{1} << 60) + 1}));
  EXPECT_EQ(*run<int64_t>(Op::sign, x, DType::i64), (std::vector<int64_t>{-1, 0, 1}));
  EXPECT_EQ(*run<int64_t>(Op::bitwise_not, x, DType::i64),
            (std::vector<int64_t>{2, -1, -(int64_t{1} << 60) - 2}));
  EXPECT_EQ(*run<int64_t>(Op::clamp, x, DType::i64, {{"min", Dim(-1)}, {"max", Attr()}}),
            (std::vector<int64_t>{-1, 0, (int64_t{1} << 60) + 1}));
  EXPECT_EQ(*run<int8_t>(Op::neg, std::vector<int8_t>{-128, 5}, DType::i8), (std::vector<int8_t>{-128, -5}));
}

TEST(Unary, half_types_compute_in_float) {
  const auto y = run<Half>(Op::exp, std::vector<Half>{Half(1.0f), Half(-2.0f)}, DType::f16);
  ASSERT_TRUE(y.ok());
  EXPECT_NEAR(static_cast<float>((*y)[0]), 2.71828f, 2e-3f);
  EXPECT_NEAR(static_cast<float>((*y)[1]), 0.135335f, 1e-4f);
}

TEST(Unary, predicates_give_bool) {
  const std::vector<float> x{NAN, INFINITY, 0, 2};
  EXPECT_EQ(*run<uint8_t>(Op::isnan, x, DType::boolean), (std::vector<uint8_t>{1, 0, 0, 0}));
  EXPECT_EQ(*run<uint8_t>(Op::isinf, x, DType::boolean), (std::vector<uint8_t>{0, 1, 0, 0}));
  EXPECT_EQ(*run<uint8_t>(Op::logical_not, x, DType::boolean), (std::vector<uint8_t>{0, 0, 1, 0}));
}

TEST(Unary, conversion_truncates_and_never_traps) {
  const std::vector<float> x{-1.9f, 2.5f, 300.0f, NAN, 1e30f};
  const Attrs to_i32{{"dtype", DType::i32}};
  EXPECT_EQ(*run<int32_t>(Op::to, x, DType::i32, to_i32),
            (std::vector<int32_t>{-1, 2, 300, INT32_MIN, INT32_MIN}));
  const auto u8 = run<uint8_t>(Op::to, x, DType::u8, {{"dtype", DType::u8}});
  ASSERT_TRUE(u8.ok());
  EXPECT_EQ((*u8)[0], 255);
  EXPECT_EQ((*u8)[2], 44);
  EXPECT_EQ(*run<uint8_t>(Op::to, x, DType::boolean, {{"dtype", DType::boolean}}),
            (std::vector<uint8_t>{1, 1, 1, 1, 1}));
}

TEST(Unary, an_integer_has_no_exponential) {
  const Type in[] = {{DType::i64, {Dim(2)}}};
  const auto types = infer_types(Op::exp, in, {});
  ASSERT_FALSE(types.ok());
  EXPECT_EQ(types.error().message(), "exp needs a float operand, got i64[2]");
}

}  // namespace
}  // namespace sixfold::cpu
