#include <gtest/gtest.h>

#include <limits>

#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

Attrs sdpa_attrs(bool causal, double scale) { return {{"causal", causal}, {"scale", scale}}; }

Tensor random_bools(Shape shape, unsigned seed) {
  const Tensor r = random_tensor(shape, seed);
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(DType::boolean, shape, &bytes);
  for (int64_t i = 0; i < t.count(); ++i) reinterpret_cast<bool*>(bytes)[i] = element_real(r, i) > -0.5;
  return t;
}

void expect_like_double(const std::vector<Tensor>& in, const Attrs& attrs) {
  std::vector<Tensor> wide;
  for (const Tensor& t : in) wide.push_back(t.dtype == DType::f32 ? to_double(t) : t);
  const auto expected = run_op(Op::sdpa, wide, attrs);
  const auto out = run_op(Op::sdpa, in, attrs);
  ASSERT_TRUE(expected.ok() && out.ok()) << (out.ok() ? "" : out.error().message());
  expect_near((*out)[0], (*expected)[0], 2e-6);
}

TEST(Sdpa, blocks_and_chunks_equal_the_definition) {
  for (const int64_t queries : {1, 3, 70})
    for (const int64_t keys : {1, 65, 1100})
      for (const bool causal : {false, true})
        expect_like_double({random_tensor({2, 3, queries, 20}, 1), random_tensor({2, 3, keys, 20}, 2),
                            random_tensor({2, 3, keys, 37}, 3)},
                           sdpa_attrs(causal, 0.7));
}

TEST(Sdpa, query_heads_share_key_heads) {
  expect_like_double(
      {random_tensor({2, 6, 9, 16}, 1), random_tensor({2, 2, 11, 16}, 2), random_tensor({2, 2, 11, 16}, 3)},
      sdpa_attrs(false, 0.25));
}

TEST(Sdpa, masks_broadcast_over_any_axis) {
  const Tensor q = random_tensor({2, 3, 9, 16}, 1), k = random_tensor({2, 3, 700, 16}, 2),
               v = random_tensor({2, 3, 700, 8}, 3);
  for (const Shape& shape :
       {Shape{2, 3, 9, 700}, Shape{2, 1, 1, 700}, Shape{9, 700}, Shape{3, 9, 1}, Shape{700}}) {
    expect_like_double({q, k, v, random_tensor(shape, 5)}, sdpa_attrs(false, 0.25));
    expect_like_double({q, k, v, random_bools(shape, 6)}, sdpa_attrs(false, 0.25));
  }
}

TEST(Sdpa, a_row_without_allowed_keys_is_zero) {
  const Tensor mask = tensor_of<bool>({2, 3}, {false, false, false, true, false, false});
  const auto out = run_op(Op::sdpa,
                          {random_tensor({1, 2, 4}, 1), random_tensor({1, 3, 4}, 2),
                           tensor_of<float>({1, 3, 1}, {5, 6, 7}), mask},
                          sdpa_attrs(false, 0.5));
  EXPECT_EQ(values_of<float>((*out)[0]), (std::vector<float>{0, 5}));
}

TEST(Sdpa, a_mask_that_does_not_broadcast_is_refused) {
  const auto out = run_op(Op::sdpa,
                          {random_tensor({1, 2, 4}, 1), random_tensor({1, 3, 4}, 2),
                           random_tensor({1, 3, 4}, 3), random_tensor({5, 3}, 4)},
                          sdpa_attrs(false, 0.5));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), Code::InvalidModel);
}

}  // namespace
}  // namespace sixfold
