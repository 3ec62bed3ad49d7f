// For tests of lowering rules: a graph as text, prepared for the device and lowered as one island, printed.
#pragma once

#include <gtest/gtest.h>

#include "sixfold/lower/lowering.h"
#include "sixfold/rewrite/htp.h"

namespace sixfold {

inline Result<std::string> lowered(std::string_view text) {
  SF_ASSIGN(Graph graph, parse(text));
  SF_TRY(prepare_for_htp(graph, {}));
  SF_ASSIGN(const qnn::GraphSpec spec, lower_island(graph, choose_forms(graph), "forward"));
  return qnn::print(spec);
}

inline void expect_lowered(std::string_view text, std::initializer_list<const char*> parts) {
  const Result<std::string> printed = lowered(text);
  ASSERT_TRUE(printed.ok()) << printed.error().message();
  for (const char* part : parts)
    EXPECT_NE(printed->find(part), std::string::npos) << part << "\nin\n" << *printed;
}

inline void expect_refused(std::string_view text, const char* reason) {
  const Result<std::string> printed = lowered(text);
  ASSERT_FALSE(printed.ok()) << *printed;
  EXPECT_EQ(printed.error().code(), Code::Unsupported);
  EXPECT_NE(printed.error().message().find(reason), std::string::npos) << printed.error().message();
}

}  // namespace sixfold
