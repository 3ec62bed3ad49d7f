// The driver of rules: walks the graph, applies what matches, checks each patch, and keeps a log.
//
// A patch is applied only if every value it replaces keeps its dtype and shape: a rule that would change a
// type, or a file whose metadata disagrees with what its ops compute, is an error that names the node.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sixfold/rewrite/patch.h"

namespace sixfold {

struct RewriteOptions {
  std::set<std::string, std::less<>> disabled;  // rules not to apply, by name
  size_t stop_after = SIZE_MAX;                 // patches to apply in all, over every stage
  std::set<std::string, std::less<>> whole;     // nodes of the model, by name, that rewrite_each leaves alone
  bool keep_unknown = false;                    // calls without canonical form stay, instead of failing
};

struct Applied {
  std::string rule;
  std::string node;  // name of the node it matched
};

// Collects nodes that have no canonical form, so that all are reported at once.
struct Unsupported {
  std::string node, target, source, reason;
};

struct PipelineReport {
  std::vector<Applied> log;
  std::vector<Unsupported> unsupported;
  std::map<NodeId, std::string> refused;  // by rewrite_each: nodes that stay, and why
};

class Rewriter {
 public:
  explicit Rewriter(Graph& graph, RewriteOptions options = {})
      : graph_(graph), options_(std::move(options)) {}

  // Every call becomes canonical ops (ops/*/aten.cpp). All that cannot are collected; one or more is an error
  // that names the first and counts the rest.
  Status canonicalize();
  // The other way: every canonical op becomes calls that ExecuTorch has kernels for (ops/*/legalize.cpp).
  // Collects and reports in the same way.
  Status legalize();
  const std::vector<Unsupported>& unsupported() const { return unsupported_; }

  // Applies the rules over and over, in order, until none matches.
  Status apply(std::span<const Rule> rules);

  // The same for one function of a node, whose name is its prefix and the node's op ("htp gelu"). A node that
  // it refuses (Unsupported) stays as it is.
  Status rewrite_each(std::string_view prefix, const std::function<Match(const Node&)>& rule);

  const std::vector<Applied>& log() const { return log_; }
  // The end of a pipeline: what was done is added to the report, if there is one.
  Status finish(Status status, PipelineReport* report) const;
  const std::map<NodeId, std::string>& refused() const { return refused_; }

 private:
  bool allowed(std::string_view rule) const {
    return log_.size() < options_.stop_after && !options_.disabled.contains(rule);
  }
  Status apply_patch(Patch& patch, NodeId anchor, std::string_view rule);

  Graph& graph_;
  RewriteOptions options_;
  std::vector<Applied> log_;
  std::vector<Unsupported> unsupported_;
  std::map<NodeId, std::string> refused_;
};

}  // namespace sixfold
