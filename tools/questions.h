// Single ops as graphs of their own, what engines answer to them, and how far apart the answers are.
#pragma once

#include <nlohmann/json.hpp>

#include "sixfold/base/bytes.h"
#include "sixfold/graph/graph.h"
#include "sixfold/qnn/library.h"
#include "sixfold/qnn/types.h"

namespace sixfold::tools {

// One op with its constants: what it reads is the graph's input, what it writes its output.
struct Question {
  std::string label;  // where it comes from
  qnn::GraphSpec graph;
  bool run = true;  // otherwise it is only asked whether the device takes it
};

// The ops of a canonical graph after lowering, as if the device took everything. Constants are made once, so
// that engines get the same bytes.
Status ask_graph(Graph graph, const std::string& label, const std::string& precision, int arch,
                 std::vector<Question>& out);

// A float op in fixed point of 8 or 16 bits: activations with random encodings, weights (constants that a
// convolution or product has as in[1]) as SFIXED_8, biases as SFIXED_32. Not for ops on integers.
Question in_fixed_point(const Question& question, uint32_t bits, uint64_t seed);

// The op changed in one way that is probably wrong: a type, rank, dimension, operand, parameter or encoding.
// label says which. Only to be asked, never run.
Question mutate(const Question& question, uint64_t seed);

struct Answer {
  std::string refused;  // why it is not taken; empty: it is
  std::string failed;   // why it does not run
  std::vector<std::vector<std::byte>> outputs;
};
// Inputs are random, by the seed and the question's place in the list.
std::vector<Answer> answer_all(const qnn::Library& library, uint32_t soc, uint32_t vtcm_mb,
                               const std::vector<Question>& questions, uint64_t seed);
Bytes to_bytes(const std::vector<Answer>& answers);
Result<std::vector<Answer>> answers_of(std::span<const std::byte> bytes);

// Elements by distance: steps of fixed point and integers, units in the last place of halves for floats.
struct Distances {
  uint64_t count = 0, equal = 0, within_1 = 0, within_2 = 0;
  uint64_t most = 0;
  double most_relative = 0;  // floats: the largest difference as part of the largest magnitude
};
Distances compare(const qnn::TensorSpec& tensor, std::span<const std::byte> a, std::span<const std::byte> b);

}  // namespace sixfold::tools
