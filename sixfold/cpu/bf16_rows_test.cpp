#include "sixfold/cpu/bf16_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sixfold/base/half.h"

namespace sixfold::cpu {
namespace {

TEST(Bf16Rows, are_the_nearest_of_every_length) {
  for (size_t n = 0; n < 70; ++n) {
    std::vector<float> x;
    for (size_t i = 0; i < n; ++i) x.push_back(std::sin(static_cast<float>(i * n) * 1.7f) * 300);
    if (n > 3) {
      x[0] = std::nanf("");
      x[1] = -INFINITY;
      x[2] = 1 + 0x1p-8f;  // between two: the even one
      x[3] = 3.4e38f;      // rounds to infinity
    }
    std::vector<uint16_t> y(n + 1, 7);
    to_bf16(x.data(), y.data(), n);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(y[i], BFloat16(x[i]).bits) << i << " of " << n;
    EXPECT_EQ(y[n], 7);
  }
}

}  // namespace
}  // namespace sixfold::cpu
