// The values of a method: each number, text and list once, tensors as they come.
#pragma once

#include <map>

#include "sixfold/pte/program.h"

namespace sixfold {

class Values {
 public:
  explicit Values(pte::Method& method) : method_(method) {}

  pte::Index none() { return shared("none", pte::None{}); }
  pte::Index boolean(bool v) { return shared(v ? "true" : "false", v); }
  pte::Index integer(int64_t v);
  pte::Index real(double v);
  pte::Index text(const std::string& v) { return shared("text " + v, v); }
  pte::Index ints(const std::vector<pte::Index>& items);  // of values that are integers
  pte::Index reals(const std::vector<double>& v);
  pte::Index booleans(const std::vector<bool>& v);
  pte::Index tensors(const std::vector<pte::Index>& items, bool optional);

  pte::Index add(pte::Value value);  // never shared: a tensor, or a number that the program computes

 private:
  pte::Index shared(std::string key, pte::Value value);
  pte::Method& method_;
  std::map<std::string, pte::Index> known_;
};

}  // namespace sixfold
