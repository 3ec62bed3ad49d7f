// Gradients against what they are gradients of: along any direction d, <g, f'(x) d> = <backward(g), d>.
#include <gtest/gtest.h>

#include <cmath>

#include "sixfold/ops/aten_call_test.h"
#include "sixfold/ops/op_test.h"

namespace sixfold {
namespace {

Type type_of(const Tensor& t) { return {t.dtype, to_dims(t.shape)}; }
Tensor random_double(const Shape& shape, unsigned seed) { return to_double(random_tensor(shape, seed)); }
double dot(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += element_real(a, i) * element_real(b, i);
  return sum;
}
Tensor moved(const Tensor& x, const Tensor& direction, double step) {
  std::vector<double> values;
  for (int64_t i = 0; i < x.count(); ++i)
    values.push_back(element_real(x, i) + step * element_real(direction, i));
  return tensor_of<double>(x.shape, values);
}

// f(x) by `forward`, whose argument `name` is x; `gradient` is what backward gives for g.
void expect_gradient(std::string_view forward, Given given, const std::string& name, const Type& result,
                     const Tensor& g, const Tensor& gradient) {
  const auto find = [&](const std::string& n) {
    return std::find_if(given.begin(), given.end(), [&](const auto& a) { return a.first == n; });
  };
  const Tensor x = std::get<Tensor>(find(name)->second), direction = random_double(x.shape, 77);
  constexpr double kStep = 1e-5;
  find(name)->second = moved(x, direction, kStep);
  const double above = dot(g, run_aten(forward, given, {result})[0]);
  find(name)->second = moved(x, direction, -kStep);
  const double below = dot(g, run_aten(forward, given, {result})[0]);
  EXPECT_NEAR(dot(gradient, direction), (above - below) / (2 * kStep), 1e-6) << forward;
}

TEST(Backward, of_activations_is_g_times_their_derivative) {
  const Tensor x = random_double({40}, 3), g = random_double({40}, 4);
  const Type type = type_of(x);
  struct Case {
    const char *forward, *backward;
    Given parameters;
  };
  const Case cases[] = {
      {"aten.silu.default", "aten.silu_backward.default", {}},
      {"aten.mish.default", "aten.mish_backward.default", {}},
      {"aten.hardswish.default", "aten.hardswish_backward.default", {}},
      {"aten.hardsigmoid.default", "aten.hardsigmoid_backward.default", {}},
      {"aten.gelu.default", "aten.gelu_backward.default", {{"approximate", Attr(std::string("none"))}}},
      {"aten.gelu.default", "aten.gelu_backward.default", {{"approximate", Attr(std::string("tanh"))}}},
      {"aten.softplus.default",
       "aten.softplus_backward.default",
       {{"beta", Attr(2.0)}, {"threshold", Attr(1.0)}}},
      {"aten.hardtanh.default",
       "aten.hardtanh_backward.default",
       {{"min_val", Attr(-0.5)}, {"max_val", Attr(0.4)}}},
  };
  for (const Case& c : cases) {
    Given given{{"self", x}}, back{{"grad_output", g}, {"self", x}};
    given.insert(given.end(), c.parameters.begin(), c.parameters.end());
    back.insert(back.end(), c.parameters.begin(), c.parameters.end());
    expect_gradient(c.forward, given, "self", type, g, run_aten(c.backward, back, {type})[0]);
  }
}

TEST(Backward, of_a_convolution_is_that_of_its_input_and_weights) {
  for (const bool transposed : {false, true}) {
    const Tensor x = random_double({2, 4, 7, 6}, 1);
    const Tensor w = random_double(transposed ? Shape{4, 3, 3, 2} : Shape{6, 2, 3, 2}, 2);
    const Given window{{"stride", Attr(Dims{2, 1})},         {"padding", Attr(Dims{1, 0})},
                       {"dilation", Attr(Dims{1, 2})},       {"transposed", Attr(transposed)},
                       {"output_padding", Attr(Dims{0, 0})}, {"groups", Attr(Dim(2))}};
    const Type out{DType::f64, transposed ? Dims{2, 6, 13, 8} : Dims{2, 6, 4, 4}};
    const Tensor g = random_double(static_shape(out.dims), 5);
    Given forward{{"input", x}, {"weight", w}, {"bias", Attr()}};
    forward.insert(forward.end(), window.begin(), window.end());
    Given back{{"grad_output", g}, {"input", x}, {"weight", w}, {"bias_sizes", Attr()}};
    back.insert(back.end(), window.begin(), window.end());
    back.emplace_back("output_mask", Attr(Dims{1, 1, 0}));
    const auto gradients = run_aten("aten.convolution_backward.default", back, {type_of(x), type_of(w)});
    expect_gradient("aten.convolution.default", forward, "input", out, g, gradients[0]);
    expect_gradient("aten.convolution.default", forward, "weight", out, g, gradients[1]);
  }
}

TEST(Backward, of_resizing_and_pooling_takes_each_axis_by_itself) {
  const Tensor x = random_double({1, 2, 5, 7}, 1);
  const Type larger{DType::f64, {1, 2, 8, 9}}, smaller{DType::f64, {1, 2, 3, 4}};
  for (const char* mode : {"bilinear2d", "bicubic2d"}) {
    const Tensor g = random_double({1, 2, 8, 9}, 2);
    const Given size{{"output_size", Attr(Dims{8, 9})}, {"align_corners", Attr(false)}};
    const auto dx = run_aten(cat("aten.upsample_", mode, "_backward.default"),
                             {{"grad_output", g}, size[0], {"input_size", Attr(Dims{1, 2, 5, 7})}, size[1]},
                             {type_of(x)});
    expect_gradient(cat("aten.upsample_", mode, ".default"), {{"self", x}, size[0], size[1]}, "self", larger,
                    g, dx[0]);
  }
  const Tensor g = random_double({1, 2, 3, 4}, 3);
  const Given window{{"kernel_size", Attr(Dims{3, 2})},  {"stride", Attr(Dims{2, 2})},
                     {"padding", Attr(Dims{1, 0})},      {"ceil_mode", Attr(true)},
                     {"count_include_pad", Attr(false)}, {"divisor_override", Attr()}};
  Given forward{{"self", x}}, back{{"grad_output", g}, {"self", x}};
  forward.insert(forward.end(), window.begin(), window.end());
  back.insert(back.end(), window.begin(), window.end());
  const auto dx = run_aten("aten.avg_pool2d_backward.default", back, {type_of(x)});
  expect_gradient("aten.avg_pool2d.default", forward, "self", smaller, g, dx[0]);
}

TEST(Backward, of_layer_norm_goes_through_its_statistics) {
  const Tensor x = random_double({3, 5}, 1), w = random_double({5}, 2), g = random_double({3, 5}, 4);
  const Tensor b = random_double({5}, 3);
  const Given given{
      {"input", x}, {"normalized_shape", Attr(Dims{5})}, {"weight", w}, {"bias", b}, {"eps", Attr(1e-5)}};
  const Type rows{DType::f64, {3, 1}};
  const auto y = run_aten("aten.native_layer_norm.default", given, {type_of(x), rows, rows});
  const auto gradients = run_aten("aten.native_layer_norm_backward.default",
                                  {{"grad_out", g},
                                   {"input", x},
                                   given[1],
                                   {"mean", y[1]},
                                   {"rstd", y[2]},
                                   {"weight", w},
                                   {"bias", b},
                                   {"output_mask", Attr(Dims{1, 1, 0})}},
                                  {type_of(x), type_of(w)});
  expect_gradient("aten.layer_norm.default", given, "input", type_of(x), g, gradients[0]);
  expect_gradient("aten.layer_norm.default", given, "weight", type_of(x), g, gradients[1]);
}

TEST(Backward, of_nll_loss_gives_nothing_to_ignored_places) {
  const Tensor x = random_double({3, 4}, 1);
  const Tensor target = tensor_of<int64_t>({3}, {2, -100, 0});
  const auto dx = run_aten("aten.nll_loss_backward.default",
                           {{"grad_output", tensor_of<double>({}, {6.0})},
                            {"self", x},
                            {"target", target},
                            {"weight", Attr()},
                            {"reduction", Attr(Dim(1))},
                            {"ignore_index", Attr(Dim(-100))},
                            {"total_weight", tensor_of<double>({}, {2.0})}},
                           {type_of(x)});
  EXPECT_EQ(values_of<double>(dx[0]), (std::vector<double>{0, 0, -3, 0, 0, 0, 0, 0, -3, 0, 0, 0}));
}

}  // namespace
}  // namespace sixfold
