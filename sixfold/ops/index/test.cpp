#include <cmath>

#include "sixfold/ops/testing.h"

namespace sixfold {
namespace {

using testing::counting;
using testing::run_one;
using testing::run_op;
using testing::tensor_of;
using testing::values_of;

constexpr float kNan = NAN;

TEST(Gather, takes_along_the_axis_and_counts_negative_indices_from_the_end) {
  const Tensor x = counting<float>({2, 3});
  EXPECT_EQ(run_one<float>(Op::gather, {x, tensor_of<int64_t>({1, 3}, {1, 0, -1})}, {{"dim", Dim(0)}}),
            (std::vector<float>{3, 1, 5}));
  EXPECT_EQ(run_one<float>(Op::gather, {x, tensor_of<int32_t>({2, 2}, {2, 0, 1, 1})}, {{"dim", Dim(1)}}),
            (std::vector<float>{2, 0, 4, 4}));
}

TEST(Gather, names_an_index_that_is_out_of_range) {
  const auto out =
      run_op(Op::gather, {counting<float>({3}), tensor_of<int64_t>({1}, {3})}, {{"dim", Dim(0)}});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().message(), "index 3 is out of range for an axis of 3");
}

TEST(IndexSelect, moves_rows_of_every_width) {
  const Tensor index = tensor_of<int64_t>({2}, {2, 0});
  EXPECT_EQ(run_one<uint8_t>(Op::index_select, {counting<uint8_t>({2, 3}), index}, {{"dim", Dim(1)}}),
            (std::vector<uint8_t>{2, 0, 5, 3}));
  EXPECT_EQ(run_one<double>(Op::index_select, {counting<double>({3, 2}), index}, {{"dim", Dim(0)}}),
            (std::vector<double>{4, 5, 0, 1}));
}

TEST(Embedding, has_the_shape_of_its_index) {
  EXPECT_EQ(run_one<float>(Op::embedding, {counting<float>({3, 2}), tensor_of<int64_t>({1, 2}, {1, 1})}),
            (std::vector<float>{2, 3, 2, 3}));
}

TEST(Index, puts_adjacent_axes_in_place_and_others_in_front) {
  const Tensor x = counting<float>({2, 3, 2});
  const Tensor a = tensor_of<int64_t>({2}, {1, 0}), b = tensor_of<int64_t>({1}, {-1});
  // x[:, a, b]: [2, 2]
  EXPECT_EQ(run_one<float>(Op::index, {x, a, b}, {{"dims", Dims{1, 2}}}), (std::vector<float>{3, 1, 9, 7}));
  // x[a, :, b]: [2, 3]
  EXPECT_EQ(run_one<float>(Op::index, {x, a, b}, {{"dims", Dims{0, 2}}}),
            (std::vector<float>{7, 9, 11, 1, 3, 5}));
}

TEST(IndexPut, keeps_the_last_of_equal_positions_or_adds_them) {
  const Tensor x = counting<float>({2, 3}), index = tensor_of<int64_t>({2}, {1, 1});
  const Tensor values = tensor_of<float>({2, 2}, {10, 20, 30, 40});
  EXPECT_EQ(run_one<float>(Op::index_put, {x, values, index}, {{"dims", Dims{1}}, {"accumulate", false}}),
            (std::vector<float>{0, 20, 2, 3, 40, 5}));
  EXPECT_EQ(run_one<float>(Op::index_put, {x, values, index}, {{"dims", Dims{1}}, {"accumulate", true}}),
            (std::vector<float>{0, 31, 2, 3, 74, 5}));
}

TEST(IndexPut, spreads_one_value) {
  EXPECT_EQ(run_one<int32_t>(
                Op::index_put,
                {counting<int32_t>({2, 2}), tensor_of<int32_t>({}, {9}), tensor_of<int64_t>({1}, {-1})},
                {{"dims", Dims{0}}, {"accumulate", false}}),
            (std::vector<int32_t>{0, 1, 9, 9}));
}

TEST(Scatter, reduces_as_torch_does) {
  const Tensor x = tensor_of<float>({3}, {1, 2, 3}), index = tensor_of<int64_t>({3}, {0, 0, 2});
  const Tensor src = tensor_of<float>({3}, {4, 6, kNan});
  const auto run = [&](const char* reduce, bool include_self) {
    return run_one<float>(Op::scatter, {x, index, src},
                          {{"dim", Dim(0)}, {"reduce", reduce}, {"include_self", include_self}});
  };
  EXPECT_EQ(run("none", true)[0], 6);
  EXPECT_EQ(run("add", true)[0], 11);
  EXPECT_EQ(run("add", false)[0], 10);
  EXPECT_EQ(run("mul", false)[0], 24);
  EXPECT_EQ(run("mean", false)[0], 5);
  EXPECT_FLOAT_EQ(run("mean", true)[0], 11.0f / 3);
  EXPECT_EQ(run("amax", true)[1], 2);
  EXPECT_TRUE(std::isnan(run("amax", true)[2]));
}

TEST(SliceScatter, writes_only_the_slice) {
  EXPECT_EQ(run_one<float>(Op::slice_scatter, {counting<float>({4}), tensor_of<float>({2}, {8, 9})},
                           {{"dim", Dim(0)}, {"start", Dim(1)}, {"end", Dim(4)}, {"step", Dim(2)}}),
            (std::vector<float>{0, 8, 2, 9}));
}

TEST(Sort, is_stable_and_puts_nan_last) {
  const Tensor x = tensor_of<float>({4}, {2, kNan, 1, 2});
  auto up = run_op(Op::sort, {x}, {{"dim", Dim(0)}, {"descending", false}});
  ASSERT_TRUE(up.ok());
  EXPECT_EQ(values_of<int64_t>(up->at(1)), (std::vector<int64_t>{2, 0, 3, 1}));
  auto down = run_op(Op::sort, {x}, {{"dim", Dim(0)}, {"descending", true}});
  ASSERT_TRUE(down.ok());
  EXPECT_EQ(values_of<int64_t>(down->at(1)), (std::vector<int64_t>{1, 0, 3, 2}));
}

TEST(Sort, works_along_any_axis) {
  EXPECT_EQ(run_one<int64_t>(Op::sort, {tensor_of<int64_t>({2, 2}, {3, 0, 1, 2})},
                             {{"dim", Dim(0)}, {"descending", false}}),
            (std::vector<int64_t>{1, 0, 3, 2}));
}

TEST(TopK, gives_the_smallest_too) {
  auto out = run_op(Op::topk, {tensor_of<float>({5}, {3, 1, 4, 1, 5})},
                    {{"k", Dim(2)}, {"dim", Dim(0)}, {"largest", false}});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(values_of<float>(out->at(0)), (std::vector<float>{1, 1}));
  EXPECT_EQ(values_of<int64_t>(out->at(1)), (std::vector<int64_t>{1, 3}));
}

TEST(SearchSorted, tells_left_from_right) {
  const Tensor rows = tensor_of<float>({2, 3}, {1, 3, 5, 2, 4, 6}),
               values = tensor_of<float>({2, 1}, {3, kNan});
  EXPECT_EQ(run_one<int64_t>(Op::searchsorted, {rows, values}, {{"right", false}}),
            (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(run_one<int64_t>(Op::searchsorted, {rows, values}, {{"right", true}}),
            (std::vector<int64_t>{2, 3}));
}

}  // namespace
}  // namespace sixfold
