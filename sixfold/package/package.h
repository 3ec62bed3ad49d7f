// Graphs of kernel calls (rewrite's legalize) and delegates to a program that ExecuTorch runs.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sixfold/base/bytes.h"
#include "sixfold/graph/graph.h"
#include "sixfold/pte/program.h"

namespace sixfold {

// What a node "delegate" (its attribute index) stands for.
struct DelegateSource {
  std::string id;
  std::shared_ptr<const Bytes> blob;  // methods may share one
  std::vector<std::pair<std::string, std::vector<std::byte>>> specs;
};

struct MethodSource {
  std::string name = "forward";
  Graph graph;                                    // every node is a call that has a kernel, or of "delegate"
  std::string input_structure, output_structure;  // pytree text; may be empty
  std::vector<DelegateSource> delegates;
};

struct PackageOptions {
  uint64_t alignment = 64;   // of tensors in the arena
  bool plan_inputs = true;   // otherwise the caller's memory is used as it is
  bool plan_outputs = true;  // otherwise the caller brings memory
  bool in_place = true;
};

// What became of a method.
struct MethodReport {
  std::string name;
  size_t delegates = 0;
  size_t kernel_calls = 0, size_calls = 0;  // size_calls: arithmetic on symbolic extents
  size_t views = 0, in_place = 0;           // results that cost no memory
  uint64_t constant_bytes = 0, state_bytes = 0, arena_bytes = 0;
  uint64_t naive_bytes = 0;                  // the arena without sharing
  std::map<std::string, size_t> kernels;     // calls by kernel name
  std::vector<std::string> bounded_symbols;  // "s0 <= 64"
};

// A program and what its views point into.
struct Package {
  pte::Program program;
  std::vector<MethodReport> methods;
  std::deque<Tensor> data;
  std::deque<DelegateSource> delegates;
};

Result<Package> make_package(const std::vector<MethodSource>& methods, const PackageOptions& options = {});

}  // namespace sixfold
