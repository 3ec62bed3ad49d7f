// sixfold show: a model so that a person understands it, or as JSON for programs.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "sixfold/base/mapped_file.h"
#include "sixfold/import/import.h"
#include "sixfold/ops/cost.h"
#include "sixfold/rewrite/pipeline.h"
#include "tools/command.h"
#include "tools/show_pte.h"

namespace sixfold::tools {
namespace {

using Json = nlohmann::ordered_json;

ShowOptions options;

std::string shortened(int64_t n) {
  char buffer[32];
  if (n >= 10'000'000'000)
    std::snprintf(buffer, sizeof buffer, "%.1f G", static_cast<double>(n) / 1e9);
  else if (n >= 10'000'000)
    std::snprintf(buffer, sizeof buffer, "%.1f M", static_cast<double>(n) / 1e6);
  else if (n >= 10'000)
    std::snprintf(buffer, sizeof buffer, "%.1f k", static_cast<double>(n) / 1e3);
  else
    std::snprintf(buffer, sizeof buffer, "%lld", static_cast<long long>(n));
  return buffer;
}

std::string schema_text(const ImportInfo& info) { return cat(info.schema_major, ".", info.schema_minor); }

Json leaves_json(const Graph& graph, const std::vector<Leaf>& leaves) {
  Json out = Json::array();
  for (const Leaf& leaf : leaves) {
    Json j{{"name", leaf.name}};
    if (leaf.value.valid()) {
      const Type& t = graph.type(leaf.value);
      j["dtype"] = to_text(t.dtype);
      j["shape"] = Json::array();
      for (const Dim& d : t.dims)
        d.is_static() ? j["shape"].push_back(d.value()) : j["shape"].push_back(to_text(d));
    } else {
      j["constant"] = to_text(leaf.literal);
    }
    out.push_back(std::move(j));
  }
  return out;
}

std::string op_name(const Node& n) { return n.op == Op::call ? n.target : std::string(to_text(n.op)); }

Json nodes_json(const Graph& graph) {
  Json out = Json::array();
  for (const NodeId id : graph.order()) {
    const Node& n = graph.node(id);
    const Origin& o = graph.origin(n);
    const Cost cost = cost_of(graph, n);
    Json outputs = Json::array();
    for (const ValueId v : n.outputs) outputs.push_back(to_text(graph.type(v)));
    out.push_back({{"op", op_name(n)},
                   {"node", o.name},
                   {"aten", o.target},
                   {"outputs", outputs},
                   {"macs", cost.macs},
                   {"bytes", cost.bytes},
                   {"module", o.module_path},
                   {"source", o.source}});
  }
  return out;
}

struct Tally {
  size_t count = 0;
  int64_t macs = 0, bytes = 0;
};
std::vector<std::pair<std::string, Tally>> tally_ops(const Graph& graph) {
  std::map<std::string, Tally> by_op;
  for (const NodeId id : graph.order()) {
    const Node& n = graph.node(id);
    const Cost cost = cost_of(graph, n);
    Tally& t = by_op[op_name(n)];
    ++t.count;
    t.macs += cost.macs;
    t.bytes += cost.bytes;
  }
  std::vector<std::pair<std::string, Tally>> rows(by_op.begin(), by_op.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second.macs != b.second.macs ? a.second.macs > b.second.macs : a.second.bytes > b.second.bytes;
  });
  return rows;
}

struct Parameters {
  size_t tensors = 0;
  int64_t elements = 0, bytes = 0;
};
// Data that several values share is counted once.
Parameters count_parameters(const Graph& graph) {
  Parameters p;
  std::set<const std::byte*> seen;
  for (const Value& v : graph.values()) {
    if ((v.kind != ValueKind::constant && v.kind != ValueKind::state) || v.users.empty()) continue;
    if (v.constant.count() && !seen.insert(v.constant.data).second) continue;
    ++p.tensors;
    p.elements += v.constant.count();
    p.bytes += static_cast<int64_t>(v.constant.size_bytes());
  }
  return p;
}

Json unsupported_json(const PipelineReport& report) {
  Json out = Json::array();
  for (const Unsupported& u : report.unsupported)
    out.push_back({{"node", u.node}, {"op", u.target}, {"reason", u.reason}, {"source", u.source}});
  return out;
}

void print_leaves(const char* title, const Graph& graph, const std::vector<Leaf>& leaves) {
  std::printf("\n%s\n", title);
  for (const Leaf& leaf : leaves)
    std::printf("  %-28s %s\n", leaf.name.empty() ? "-" : leaf.name.c_str(),
                leaf.value.valid() ? to_text(graph.type(leaf.value)).c_str()
                                   : cat("constant ", leaf.literal).c_str());
}

void print_graph(const Graph& graph) {
  std::printf("\ngraph\n");
  std::string module = "\n";
  for (const NodeId id : graph.order()) {
    const Node& n = graph.node(id);
    const Origin& o = graph.origin(n);
    if (o.module_path != module) {
      module = o.module_path;
      std::printf("  %s\n", module.empty() ? "(top)" : module.c_str());
    }
    std::string types;
    for (size_t i = 0; i < n.outputs.size(); ++i) types += cat(i ? ", " : "", graph.type(n.outputs[i]));
    const int64_t macs = cost_of(graph, n).macs;
    std::printf("    %-22s %-18s %-30s %10s  %s\n", o.name.c_str(), op_name(n).c_str(), types.c_str(),
                macs ? shortened(macs).c_str() : "", o.source.c_str());
  }
}

void print_person(const Graph& graph, const ImportInfo& info, const PipelineReport& report) {
  const Parameters p = count_parameters(graph);
  std::printf("%s: .pt2, schema %s, torch %s, %s bytes\n", options.model.c_str(), schema_text(info).c_str(),
              info.torch_version.c_str(), shortened(static_cast<int64_t>(info.file_bytes)).c_str());
  print_leaves("inputs", graph, graph.inputs);
  print_leaves("outputs", graph, graph.outputs);
  if (!graph.symbols.empty()) {
    std::printf("\nsymbols\n");
    for (const auto& [name, r] : graph.symbols)
      std::printf("  %-28s %s to %s\n", name.c_str(), r.min ? cat(*r.min).c_str() : "unbounded",
                  r.max ? cat(*r.max).c_str() : "unbounded");
  }
  if (!graph.mutations.empty()) {
    std::printf("\nmutated\n");
    for (const auto& m : graph.mutations)
      std::printf("  %-28s %s\n", graph.value(m.state).name.c_str(), to_text(graph.type(m.state)).c_str());
  }
  std::printf("\nparameters\n  %zu tensors, %s elements, %s bytes\n", p.tensors,
              shortened(p.elements).c_str(), shortened(p.bytes).c_str());
  std::printf("\n%-26s %7s %12s %12s\n", "ops", "count", "MACs", "bytes");
  Tally all;
  for (const auto& [op, t] : tally_ops(graph)) {
    std::printf("  %-24s %7zu %12s %12s\n", op.c_str(), t.count, t.macs ? shortened(t.macs).c_str() : "-",
                shortened(t.bytes).c_str());
    all.count += t.count;
    all.macs += t.macs;
    all.bytes += t.bytes;
  }
  std::printf("  %-24s %7zu %12s %12s\n", "all", all.count, shortened(all.macs).c_str(),
              shortened(all.bytes).c_str());
  if (!report.unsupported.empty()) {
    std::printf("\nnot supported\n");
    for (const Unsupported& u : report.unsupported)
      std::printf("  %s (%s)%s: %s\n", u.node.c_str(), u.target.c_str(),
                  u.source.empty() ? "" : cat(" at ", u.source).c_str(), u.reason.c_str());
  }
  if (!options.summary) print_graph(graph);
}

Json to_json(const Graph& graph, const ImportInfo& info, const PipelineReport& report) {
  const Parameters p = count_parameters(graph);
  Json ops = Json::array();
  for (const auto& [op, t] : tally_ops(graph))
    ops.push_back({{"op", op}, {"count", t.count}, {"macs", t.macs}, {"bytes", t.bytes}});
  Json symbols = Json::object();
  for (const auto& [name, r] : graph.symbols) {
    symbols[name] = {{"min", nullptr}, {"max", nullptr}};
    if (r.min) symbols[name]["min"] = *r.min;
    if (r.max) symbols[name]["max"] = *r.max;
  }
  Json mutated = Json::array();
  for (const auto& m : graph.mutations) mutated.push_back(graph.value(m.state).name);
  Json out{{"model", options.model},
           {"format", "pt2"},
           {"schema_version", schema_text(info)},
           {"torch_version", info.torch_version},
           {"dialect", info.dialect},
           {"file_bytes", info.file_bytes},
           {"stage", options.stage},
           {"inputs", leaves_json(graph, graph.inputs)},
           {"outputs", leaves_json(graph, graph.outputs)},
           {"symbols", symbols},
           {"mutated", mutated},
           {"parameters", {{"tensors", p.tensors}, {"elements", p.elements}, {"bytes", p.bytes}}},
           {"ops", ops},
           {"unsupported", unsupported_json(report)}};
  if (!options.summary) out["nodes"] = nodes_json(graph);
  return out;
}

Status run_it() {
  if (options.stage != "imported" && options.stage != "canonical" && options.stage != "cpu")
    return invalid_argument("stage ", options.stage, " is not known: imported, canonical or cpu");
  ImportInfo info;
  SF_ASSIGN(Graph graph, import_pt2(options.model, {}, &info));
  PipelineReport report;
  if (options.stage != "imported") {
    // Folding computes with the weights; a look at the model must not read them. Ops without support are
    // listed.
    RewriteOptions rewrite{.disabled = {"fold_batch_norm"}};
    if (options.stage == "canonical") rewrite.disabled.insert("fold_constants");
    Status s = canonicalize(graph, rewrite, &report);
    if (s.ok() && options.stage == "cpu") s = optimize_for_cpu(graph, rewrite, &report);
    if (!s.ok() && report.unsupported.empty()) return s;
  }
  if (options.text)
    print_line(print(graph));
  else if (options.json)
    print_line(to_json(graph, info, report).dump());
  else
    print_person(graph, info, report);
  return {};
}

}  // namespace

Status show_command(const ShowOptions& given) {
  options = given;
  {
    SF_ASSIGN(const auto file, MappedFile::open(options.model));
    if (is_pte_family(file->bytes())) return show_pte_command(options, file->bytes());
  }
  return run_it();
}

}  // namespace sixfold::tools
