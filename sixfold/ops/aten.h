// The canonicalization tables: for every op family, which ATen overloads it reads and how.
#pragma once

#include <span>

#include "sixfold/ops/call.h"

namespace sixfold::aten {

std::span<const AtenRule> unary_rules();      // ops/unary/aten.cpp
std::span<const AtenRule> binary_rules();     // ops/binary/aten.cpp
std::span<const AtenRule> reduce_rules();     // ops/reduce/aten.cpp
std::span<const AtenRule> norm_rules();       // ops/norm/aten.cpp
std::span<const AtenRule> matmul_rules();     // ops/matmul/aten.cpp
std::span<const AtenRule> conv_rules();       // ops/conv/aten.cpp
std::span<const AtenRule> attention_rules();  // ops/attention/aten.cpp
std::span<const AtenRule> rnn_rules();        // ops/rnn/aten.cpp
std::span<const AtenRule> pool_rules();       // ops/pool/aten.cpp
std::span<const AtenRule> image_rules();      // ops/image/aten.cpp
std::span<const AtenRule> shape_rules();      // ops/shape/aten.cpp
std::span<const AtenRule> index_rules();      // ops/index/aten.cpp
std::span<const AtenRule> quantize_rules();   // ops/quantize/aten.cpp
std::span<const AtenRule> special_rules();    // ops/special/aten.cpp
std::span<const AtenRule> linalg_rules();     // ops/linalg/aten.cpp
std::span<const AtenRule> backward_rules();   // ops/backward/aten.cpp

struct Family {
  const char* name;  // its folder under ops/
  std::span<const AtenRule> rules;
};
std::span<const Family> families();

// The rule for an overload, or null: an op that nobody registered.
const AtenRule* find_rule(std::string_view target);

}  // namespace sixfold::aten
