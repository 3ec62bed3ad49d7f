#include "sixfold/import/symbolic.h"

#include <gtest/gtest.h>

#include <string>

namespace sixfold {
namespace {

constexpr const char* kS = "Symbol('s77', positive=True, integer=True)";

std::string text_of(const std::string& srepr) {
  const auto dim = parse_srepr(srepr);
  return dim.ok() ? to_text(*dim) : cat("error: ", dim.error().message());
}

TEST(Srepr, sums_and_products_become_polynomials) {
  EXPECT_EQ(text_of("Integer(4)"), "4");
  EXPECT_EQ(text_of("Integer(-1)"), "-1");
  EXPECT_EQ(text_of(cat("Mul(Integer(4), ", kS, ")")), "4*s77");
  EXPECT_EQ(*parse_srepr(cat("Add(", kS, ", Integer(-1))")), Dim::symbol("s77") - 1);
  EXPECT_EQ(*parse_srepr(cat("Pow(", kS, ", Integer(2))")), Dim::symbol("s77") * Dim::symbol("s77"));
}

TEST(Srepr, torchs_own_functions_are_known) {
  const Dim s = Dim::symbol("s77");
  EXPECT_EQ(*parse_srepr(cat("FloorDiv(Add(", kS, ", Integer(-1)), Integer(2))")), floordiv(s - 1, 2));
  EXPECT_EQ(*parse_srepr(cat("Mod(", kS, ", Integer(3))")), mod(s, 3));
  EXPECT_EQ(*parse_srepr(cat("Max(Integer(1), ", kS, ")")), max(1, s));
  EXPECT_EQ(parse_srepr(cat("CeilToInt(IntTrueDiv(", kS, ", Integer(4)))"))->substitute({{"s77", 9}}),
            Dim(3));
  EXPECT_EQ(*parse_srepr(cat("TruncToInt(Mul(Float('2.0', precision=53), ToFloat(", kS, ")))")), Dim(2) * s);
  EXPECT_EQ(parse_srepr(cat("FloorToInt(Mul(Float('0.5', precision=53), ToFloat(", kS, ")))"))
                ->substitute({{"s77", 9}}),
            Dim(4));
}

TEST(Srepr, unknown_functions_are_refused_by_name) {
  const auto dim = parse_srepr(cat("BitwiseFn_bitwise_and(", kS, ", Integer(3))"));
  EXPECT_EQ(dim.error().code(), Code::Unsupported);
  EXPECT_NE(dim.error().message().find("BitwiseFn_bitwise_and"), std::string::npos);
}

TEST(Srepr, text_that_is_no_expression_is_an_error) {
  for (const char* text :
       {"", "Add(", "Integer()", "Integer(4", "Integer(99999999999999999999)", "Symbol('')", "Symbol('s", "4",
        "Add()x", "Mul(Integer(1),)", "Float('nan', precision=53)", "Rational(1, 0)", "Symbol('0', a=b)"})
    EXPECT_FALSE(parse_srepr(text).ok()) << text;
}

TEST(Srepr, deep_nesting_and_exploding_products_are_errors) {
  std::string deep;
  for (int i = 0; i < 500; ++i) deep += "Add(";
  EXPECT_NE(text_of(deep).find("nests deeper"), std::string::npos);
  std::string product = "Mul(Integer(1)";
  for (int i = 0; i < 60; ++i) product += cat(", Add(Symbol('a", i, "', x=1), Symbol('b", i, "', x=1))");
  EXPECT_FALSE(parse_srepr(product + ")").ok());
}

TEST(Srepr, unbacked_symbols_are_found) {
  EXPECT_EQ(unbacked_symbol(Dim::symbol("s0") + 1), "");
  EXPECT_EQ(unbacked_symbol(Dim::symbol("s0") * Dim::symbol("u12")), "u12");
}

}  // namespace
}  // namespace sixfold
