#include "sixfold/cpu/copy.h"
#include "sixfold/ops/testing.h"

namespace sixfold {
namespace {

using testing::counting;
using testing::run_one;
using testing::run_op;
using testing::tensor_of;

// out[i] = x[...] by definition: element i of the permuted tensor.
template <typename T>
std::vector<T> permuted(const Tensor& x, const Shape& dims) {
  Shape shape;
  for (const int64_t d : dims) shape.push_back(x.shape[static_cast<size_t>(d)]);
  const Shape strides = contiguous_strides(x.shape);
  std::vector<T> out;
  const int64_t count = x.count();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, from = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      from += rest % shape[d] * strides[static_cast<size_t>(dims[d])];
      rest /= shape[d];
    }
    out.push_back(x.values<T>()[static_cast<size_t>(from)]);
  }
  return out;
}

template <typename T>
void check_permute(const Shape& shape, const Shape& dims) {
  const Tensor x = counting<T>(shape);
  EXPECT_EQ(run_one<T>(Op::permute, {x}, {{"dims", to_dims(dims)}}), permuted<T>(x, dims))
      << cat(shape, dims);
}

TEST(Permute, matches_its_definition_for_every_width_and_order) {
  check_permute<float>({2, 3, 37, 41}, {0, 2, 3, 1});
  check_permute<float>({2, 37, 41, 3}, {0, 3, 1, 2});
  check_permute<float>({2, 7, 12, 64}, {0, 2, 1, 3});
  check_permute<float>({300, 500}, {1, 0});
  check_permute<uint8_t>({19, 33}, {1, 0});
  check_permute<int16_t>({3, 19, 2}, {2, 1, 0});
  check_permute<int64_t>({4, 5, 6, 7}, {3, 1, 0, 2});
  check_permute<float>({5, 4, 2}, {1, 0, 2});  // pairs move as one
  check_permute<float>({0, 4}, {1, 0});
  check_permute<float>({}, {});
}

TEST(Permute, rejects_what_is_no_permutation) {
  EXPECT_FALSE(run_op(Op::permute, {counting<float>({2, 3})}, {{"dims", Dims{0, 0}}}).ok());
}

TEST(Reshape, rejects_another_number_of_elements) {
  const auto out = run_op(Op::reshape, {counting<float>({2, 3})}, {{"shape", Dims{7}}});
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.error().message().find("from 6 to 7"), std::string::npos) << out.error().message();
}

TEST(Expand, repeats_along_new_and_unit_axes) {
  EXPECT_EQ(run_one<int32_t>(Op::expand, {counting<int32_t>({2, 1})}, {{"shape", Dims{2, 2, 3}}}),
            (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}));
}

TEST(Slice, takes_every_step_th_element) {
  const Attrs attrs{{"dim", Dim(1)}, {"start", Dim(1)}, {"end", Dim(5)}, {"step", Dim(2)}};
  EXPECT_EQ(run_one<float>(Op::slice, {counting<float>({2, 5})}, attrs), (std::vector<float>{1, 3, 6, 8}));
}

TEST(Slice, rejects_bounds_outside_the_axis) {
  const Attrs attrs{{"dim", Dim(0)}, {"start", Dim(1)}, {"end", Dim(6)}, {"step", Dim(1)}};
  EXPECT_FALSE(run_op(Op::slice, {counting<float>({5})}, attrs).ok());
}

TEST(Flip, reverses_the_named_axes) {
  EXPECT_EQ(run_one<uint8_t>(Op::flip, {counting<uint8_t>({2, 3})}, {{"dims", Dims{0, 1}}}),
            (std::vector<uint8_t>{5, 4, 3, 2, 1, 0}));
}

TEST(Repeat, tiles) {
  EXPECT_EQ(run_one<int64_t>(Op::repeat, {counting<int64_t>({1, 2})}, {{"repeats", Dims{2, 2}}}),
            (std::vector<int64_t>{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(Concat, joins_along_an_inner_axis) {
  const Tensor a = tensor_of<float>({2, 1}, {1, 2}), b = tensor_of<float>({2, 2}, {3, 4, 5, 6});
  EXPECT_EQ(run_one<float>(Op::concat, {a, b}, {{"dim", Dim(1)}}), (std::vector<float>{1, 3, 4, 2, 5, 6}));
}

TEST(Pad, has_every_mode_of_torch) {
  const Tensor x = counting<float>({3});
  const auto pad = [&](const char* mode) {
    return run_one<float>(Op::pad, {x},
                          {{"before", Dims{2}}, {"after", Dims{1}}, {"mode", mode}, {"value", 9.0}});
  };
  EXPECT_EQ(pad("constant"), (std::vector<float>{9, 9, 0, 1, 2, 9}));
  EXPECT_EQ(pad("reflect"), (std::vector<float>{2, 1, 0, 1, 2, 1}));
  EXPECT_EQ(pad("replicate"), (std::vector<float>{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(pad("circular"), (std::vector<float>{1, 2, 0, 1, 2, 0}));
}

TEST(Pad, fills_corners) {
  EXPECT_EQ(
      run_one<int32_t>(Op::pad, {counting<int32_t>({2, 2})},
                       {{"before", Dims{1, 1}}, {"after", Dims{0, 1}}, {"mode", "reflect"}, {"value", 0.0}}),
      (std::vector<int32_t>{3, 2, 3, 2, 1, 0, 1, 0, 3, 2, 3, 2}));
}

TEST(Pad, rejects_a_reflection_longer_than_the_axis) {
  EXPECT_FALSE(run_op(Op::pad, {counting<float>({3})},
                      {{"before", Dims{3}}, {"after", Dims{0}}, {"mode", "reflect"}, {"value", 0.0}})
                   .ok());
}

TEST(Full, converts_the_value) {
  EXPECT_EQ(run_one<int32_t>(Op::full, {}, {{"shape", Dims{3}}, {"value", Dim(7)}, {"dtype", DType::i32}}),
            (std::vector<int32_t>{7, 7, 7}));
}

TEST(Arange, counts_past_what_float_can_hold) {
  const auto out = run_one<double>(
      Op::arange, {}, {{"start", 0.5}, {"step", -0.25}, {"length", Dim(3)}, {"dtype", DType::f64}});
  EXPECT_EQ(out, (std::vector<double>{0.5, 0.25, 0.0}));
}

TEST(Random, is_the_same_each_time_and_looks_normal) {
  const Attrs attrs{{"shape", Dims{20000}}, {"dtype", DType::f32}, {"seed", Dim(3)}};
  const auto a = run_one<float>(Op::randn, {}, attrs), b = run_one<float>(Op::randn, {}, attrs);
  EXPECT_EQ(a, b);
  double sum = 0, squares = 0;
  for (const float x : a) sum += x, squares += x * x;
  EXPECT_NEAR(sum / 20000, 0.0, 0.05);
  EXPECT_NEAR(squares / 20000, 1.0, 0.05);
}

}  // namespace
}  // namespace sixfold
