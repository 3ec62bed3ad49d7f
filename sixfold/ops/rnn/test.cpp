#include <gtest/gtest.h>

#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

struct Sizes {
  int64_t steps, batch, inputs, units;
};

std::vector<Tensor> operands(Op op, Sizes s, bool biases) {
  const int64_t rows = s.units * (op == Op::lstm ? 4 : op == Op::gru ? 3 : 1);
  std::vector<Tensor> in{random_tensor({s.steps, s.batch, s.inputs}, 1),
                         random_tensor({s.batch, s.units}, 2)};
  if (op == Op::lstm) in.push_back(random_tensor({s.batch, s.units}, 3));
  in.push_back(random_tensor({rows, s.inputs}, 4));
  in.push_back(random_tensor({rows, s.units}, 5));
  in.push_back(biases ? random_tensor({rows}, 6) : Tensor{});
  in.push_back(biases ? random_tensor({rows}, 7) : Tensor{});
  return in;
}

// The double kernel is the definition, step by step.
void expect_like_double(Op op, const Attrs& attrs, Sizes sizes, bool biases) {
  const std::vector<Tensor> in = operands(op, sizes, biases);
  std::vector<Tensor> wide;
  for (const Tensor& t : in) wide.push_back(t.dtype == DType::f32 ? to_double(t) : t);
  const auto expected = run_op(op, wide, attrs);
  const auto out = run_op(op, in, attrs);
  ASSERT_TRUE(expected.ok() && out.ok()) << (out.ok() ? "" : out.error().message());
  for (size_t i = 0; i < out->size(); ++i) expect_near((*out)[i], (*expected)[i], 2e-5);
}

TEST(Recurrent, float_layers_equal_the_definition) {
  for (const Op op : {Op::lstm, Op::gru, Op::rnn})
    for (const bool reverse : {false, true})
      for (const bool biases : {false, true})
        for (const Sizes sizes : {Sizes{5, 1, 7, 19}, Sizes{3, 6, 33, 130}, Sizes{1, 2, 4, 3}}) {
          Attrs attrs{{"reverse", reverse}};
          if (op == Op::rnn) attrs.set("nonlinearity", std::string("tanh"));
          expect_like_double(op, attrs, sizes, biases);
        }
}

TEST(Lstm, one_unit_equals_torch) {
  // torch.lstm_cell with x = 1, h = 0.5, c = -1, all weights of gate k = 0.1 * (k + 1), no biases
  const Tensor w = tensor_of<float>({4, 1}, {0.1f, 0.2f, 0.3f, 0.4f});
  const auto out = run_op(Op::lstm,
                          {tensor_of<float>({1, 1, 1}, {1}), tensor_of<float>({1, 1}, {0.5}),
                           tensor_of<float>({1, 1}, {-1}), w, w},
                          {{"reverse", false}});
  ASSERT_TRUE(out.ok()) << out.error().message();
  const double c = -1 / (1 + std::exp(-0.3)) + std::tanh(0.45) / (1 + std::exp(-0.15));
  EXPECT_NEAR(element_real((*out)[2], 0), c, 1e-6);
  EXPECT_NEAR(element_real((*out)[1], 0), std::tanh(c) / (1 + std::exp(-0.6)), 1e-6);
}

TEST(Lstm, weights_of_another_size_are_refused) {
  std::vector<Tensor> in = operands(Op::lstm, {2, 1, 3, 4}, true);
  in[4] = random_tensor({16, 5}, 1);
  const auto out = run_op(Op::lstm, in, {{"reverse", false}});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), Code::InvalidModel);
}

}  // namespace
}  // namespace sixfold
