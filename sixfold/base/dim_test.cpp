#include "sixfold/base/dim.h"

#include <gtest/gtest.h>

namespace sixfold {
namespace {

TEST(Dim, numbers_compute_as_numbers) {
  EXPECT_EQ(Dim(3) + Dim(4) * Dim(2), Dim(11));
  EXPECT_EQ(floordiv(Dim(-7), Dim(2)), Dim(-4));
  EXPECT_EQ(mod(Dim(-7), Dim(2)), Dim(1));
}

TEST(Dim, like_terms_merge) {
  const Dim s = Dim::symbol("s0");
  EXPECT_EQ(s + s, Dim(2) * s);
  EXPECT_EQ(s - s, Dim(0));
  EXPECT_EQ(floordiv(Dim(4) * s + Dim(5), Dim(4)), s + Dim(1));
}

TEST(Dim, text_reads_back) {
  const Dim s = Dim::symbol("s0"), t = Dim::symbol("s1");
  for (const Dim& d :
       {s, Dim(3) * s * t - Dim(2), floordiv(s + Dim(1), Dim(2)) * t, max(s, t), mod(s, Dim(3)) - t}) {
    auto back = parse_dim(to_text(d));
    ASSERT_TRUE(back.ok()) << to_text(d);
    EXPECT_EQ(*back, d);
  }
}

TEST(Dim, overflow_saturates) { EXPECT_EQ(Dim(kMaxDim) * Dim(kMaxDim), Dim(kMaxDim)); }

TEST(Dim, equivalence_sees_through_spelling) {
  const Dim s = Dim::symbol("s0");
  EXPECT_TRUE(equivalent(floordiv(s + Dim(1), Dim(2)) * Dim(2), s + mod(s, Dim(2))));
  EXPECT_FALSE(equivalent(floordiv(s, Dim(2)), floordiv(s + Dim(1), Dim(2))));
}

}  // namespace
}  // namespace sixfold
