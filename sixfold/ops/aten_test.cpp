#include "sixfold/ops/aten.h"

#include <gtest/gtest.h>

#include <map>

namespace sixfold {
namespace {

TEST(AtenRules, each_overload_has_one_row) {
  std::map<std::string, std::string> owner;
  for (const aten::Family& family : aten::families())
    for (const AtenRule& rule : family.rules) {
      const auto [it, fresh] = owner.emplace(rule.target, family.name);
      EXPECT_TRUE(fresh) << rule.target << " is claimed by " << it->second << " and " << family.name;
    }
}

}  // namespace
}  // namespace sixfold
