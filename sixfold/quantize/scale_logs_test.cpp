// A logarithm's operand is scaled without changing what the model computes.
#include "sixfold/quantize/scale_logs.h"

#include "sixfold/quantize/calibrate.h"
#include "sixfold/quantize/simulate.h"
#include "sixfold/quantize/testing.h"

namespace sixfold {
namespace {

// The power of what a product gives, its bands, and an eps or a bound.
std::string spectrum(const std::string& tail, const std::string& outputs = "output %y\n") {
  return "input %x: f32[1, 4]\n"
         "constant %w: f32[4, 4] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]\n"
         "constant %b: f32[4] = [1, -1, 2, -2]\n"
         "constant %f: f32[4, 4] = [1, 0, 0.5, 0, 0, 1, 0, 2, 0, 1, 1, 0, 3, 0, 0, 1]\n"
         "constant %e: f32[] = [0.25]\n"
         "%r = linear(%x, %w, %b, activation=\"none\") : f32[1, 4]\n"
         "%p = mul(%r, %r) : f32[1, 4]\n"
         "%m = matmul(%p, %f) : f32[1, 4]\n" +
         tail + outputs;
}

std::unique_ptr<Samples> loud() {
  std::vector<std::vector<Tensor>> rows;
  for (int i = 0; i < 3; ++i) {
    Tensor x = wave({1, 4}, static_cast<float>(i));
    for (int64_t k = 0; k < x.count(); ++k)
      reinterpret_cast<float*>(const_cast<std::byte*>(x.data))[k] *= 30000;
    rows.push_back({x});
  }
  return samples_of(rows);
}

TEST(ScaleLogarithms, keeps_what_the_model_computes_and_makes_its_powers_small) {
  for (const char* tail : {"%s = add(%m, %e) : f32[1, 4]\n%y = log(%s) : f32[1, 4]\n",
                           "%s = clamp(%m, min=0.5, max=none) : f32[1, 4]\n%y = log10(%s) : f32[1, 4]\n",
                           "%s = sqrt(%m) : f32[1, 4]\n%y = log2(%s) : f32[1, 4]\n"}) {
    const Graph real = graph_of(spectrum(tail));
    const auto samples = loud();
    ASSERT_TRUE(has_logarithms_of_products(real)) << tail;
    Graph scaled = real;
    ASSERT_EQ(scale_logarithms(scaled, std::move(calibrate(real, *samples)).value()), 1u) << tail;
    ASSERT_TRUE(verify(scaled).ok());
    const auto told = measure(real, scaled, *samples, {.threads = 1});
    ASSERT_TRUE(told.ok()) << told.error().message();
    EXPECT_GT(told->outputs[0].sqnr_db(), 120) << tail;
    const Observations seen = std::move(calibrate(scaled, *samples)).value();
    for (const char* name : {"p", "m", "s"})
      EXPECT_LT(seen.values[named(scaled, name).index].max, 65504) << name << " of " << tail;
    EXPECT_EQ(scale_logarithms(scaled, seen), 0u) << tail;  // once is enough
  }
}

TEST(ScaleLogarithms, leaves_what_others_read_or_what_no_constant_takes) {
  const char* log = "%y = log(%m) : f32[1, 4]\n";
  EXPECT_FALSE(has_logarithms_of_products(graph_of(spectrum(log, "output %y\noutput %m\n"))));
  EXPECT_FALSE(has_logarithms_of_products(
      graph_of("input %x: f32[1, 4]\n%p = mul(%x, %x) : f32[1, 4]\n%y = log(%p) : f32[1, 4]\noutput %y\n")));
  EXPECT_FALSE(has_logarithms_of_products(graph_of(spectrum("%y = log1p(%m) : f32[1, 4]\n"))));
  // What is read before the bands is left, and they take the factor.
  EXPECT_TRUE(has_logarithms_of_products(graph_of(spectrum(log, "output %y\noutput %p\n"))));
}

}  // namespace
}  // namespace sixfold
