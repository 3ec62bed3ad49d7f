#include "sixfold/base/cat.h"

#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <vector>

#include "sixfold/base/attr.h"
#include "sixfold/base/dim.h"
#include "sixfold/base/dtype.h"

namespace sixfold {
namespace {

TEST(Cat, JoinsPartsOfEveryKind) {
  const std::string text = "text";
  const char* c_text = "c";
  EXPECT_EQ(cat("literal ", text, ' ', c_text, ' ', std::string_view("view!", 4)), "literal text c view");
  EXPECT_EQ(cat(true, false, int8_t{-1}, uint8_t{200}), "truefalse-1200");
  EXPECT_EQ(cat(std::numeric_limits<int64_t>::min(), '/', std::numeric_limits<uint64_t>::max()),
            "-9223372036854775808/18446744073709551615");
  EXPECT_EQ(cat(0.1f, " ", 0.1, " ", 1e300), "0.1 0.1 1e+300");
  EXPECT_EQ(cat(DType::f32, Dim(3)), "f323");
  EXPECT_EQ(cat(), "");
}

TEST(Cat, JoinsMorePartsThanRegistersHold) {
  EXPECT_EQ(cat(1, 2.5, 'a', "b", 3, 4.5, std::string("c"), 5u, 6.5f, DType::i8, 7, 8, 9, 0.5, "end"),
            "12.5ab34.5c56.5i87890.5end");
}

TEST(Cat, WritesListsInBrackets) {
  const std::vector<int64_t> numbers{1, -2};
  const std::vector<std::string> words{"a", "b"};
  EXPECT_EQ(cat(numbers, std::span(numbers), std::vector<Dim>{}, words), "[1, -2][1, -2][][a, b]");
  EXPECT_EQ(cat(Dims{2, 3}, Attr(Dims{4})), "[2, 3][4]");  // an Attr converts from Dims, and has a text
  EXPECT_EQ(cat(std::vector<std::vector<int>>{{1}, {2, 3}}), "[[1], [2, 3]]");
}

TEST(Error, SaysWhereItHappened) {
  const Error error = fail(Code::NotFound, "no ", 3).during("reading");
  EXPECT_EQ(error.code(), Code::NotFound);
  EXPECT_EQ(error.message(), "no 3 (while reading)");
}

}  // namespace
}  // namespace sixfold
