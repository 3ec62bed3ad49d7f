// sixfold audit: what would run where, why not, at what cost, and what would help.
#include "tools/audit.h"

#include <algorithm>

#include "sixfold/import/import.h"
#include "sixfold/lower/limits.h"
#include "sixfold/rewrite/pipeline.h"
#include "tools/bounds.h"

namespace sixfold::tools {
namespace {

// A model on its way through the audit.
struct Audited {
  Graph imported, canonical;  // imported: kept where sizes are symbolic
  Plan plan;
  PlanOptions options;
  std::vector<AuditedNode> nodes;
  std::vector<std::string> notes;
};

// An argument is a number that item() or a size of the data gave.
bool depends_on_data(const Graph& graph, const Node& node) {
  std::vector<std::string> symbols = symbols_of(graph, node);
  for (const auto& [name, value] : node.attrs)
    if (const auto* dim = std::get_if<Dim>(&value)) dim->collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(), is_data_dependent);
}

Result<Graph> canonical_of(Graph graph) {
  RewriteOptions rewrite;
  rewrite.keep_unknown = true;
  PipelineReport report;
  SF_TRY(canonicalize(graph, rewrite, &report));
  // What has no canonical form says why in the plan.
  std::map<std::string, std::string> reasons;
  for (const Unsupported& u : report.unsupported) reasons.emplace(u.node, u.reason);
  for (const NodeId id : graph.order()) {
    Node& node = graph.node(id);
    if (node.op != Op::call || node.attrs.has("unknown")) continue;
    const auto it = reasons.find(graph.origin(node).name);
    const bool no_rule = it == reasons.end() || it->second.starts_with("no rule for this op");
    if (!no_rule)
      node.attrs.set("unknown",
                     cat(it->second, depends_on_data(graph, node) ? "; its value depends on data" : ""));
  }
  return graph;
}

// Whether all nodes of this name that compute are on the device.
bool is_on_device(const Plan& plan, const std::string& name) {
  for (const Fallback& f : plan.parts.fallbacks) {
    const Node& node = plan.graph.node(f.node);
    if (plan.graph.origin(node).name == name && !is_view(node)) return false;
  }
  return true;
}

std::string bounds_text(const Bindings& sizes) {
  std::string out;
  for (const auto& [name, n] : sizes)
    if (!is_data_dependent(name)) out += cat(out.empty() ? "" : " ", "--bound ", name, "=", n);
  return out;
}

// Sizes that are symbols become numbers: the most that the model allows, or a few usual ones.
struct StaticTry {
  Bindings sizes;
  Graph canonical;
  Plan plan;
};
std::optional<StaticTry> try_static(const Audited& a, Device& device) {
  auto sizes = choose_static_sizes(a.imported);
  if (!sizes) return {};
  Graph fixed = a.imported;
  specialize(fixed, *sizes);
  auto canonical = canonical_of(std::move(fixed));
  if (!canonical.ok()) return {};
  auto plan = plan_graph(*canonical, device, a.options);
  if (!plan.ok()) return {};
  return StaticTry{*std::move(sizes), std::move(canonical).value(), std::move(plan).value()};
}

// "needs HTP v73 or later": the first chip that has it and takes the node.
std::optional<OfferedFix> offer_newer_chip(const Audited& a, const CpuNode& node, const HtpChoice& choice) {
  if (node.reason.find("needs HTP v") == std::string::npos && node.reason.find("FP16") == std::string::npos)
    return {};
  for (const char* soc : {"SM8550", "SM8650", "SM8750"}) {
    HtpChoice newer = choice;
    newer.soc = soc;
    newer.soc_file.clear();
    auto device = open_device(newer);
    if (!device.ok()) continue;
    EngineDevice asked(*device->backend);
    PlanOptions options = a.options;
    options.target.arch = device->arch;
    if (options.grids) {
      auto grids = trial_grids(newer, *device);
      if (!grids.ok()) continue;
      options.grids = std::move(grids).value();
    }
    const auto plan = plan_graph(a.canonical, asked, options);
    if (plan.ok() && is_on_device(*plan, node.name))
      return OfferedFix{
          .name = "newer_chip", .what = cat("a chip with HTP v", device->arch), .option = cat("--soc ", soc)};
  }
  return {};
}

// The CPU must run what is left: what ExecuTorch has no kernel for is said too.
void check_kernels(Audited& a) {
  Graph host = a.plan.graph;
  if (auto pieces = cut(a.plan.graph, a.plan.parts); pieces.ok()) host = std::move(pieces->host);
  std::map<std::string, std::string> missing;
  for (const NodeId id : host.order()) {
    const Node& node = host.node(id);
    if (node.op == Op::call && node.target != kDelegateTarget)
      missing.emplace(host.origin(node).name,
                      cat("neither ExecuTorch nor sixfold has a kernel for ", node.target));
  }
  PipelineReport report;
  if (!legalize(host, {}, &report).ok())
    for (const Unsupported& u : report.unsupported) missing.emplace(u.node, u.reason);
  for (AuditedNode& n : a.nodes)
    if (const auto it = missing.find(n.node.name); it != missing.end())
      n.no_kernel = cat("a .pte cannot hold it on the CPU either: ", it->second);
}

Result<Audited> audit_model(const AuditOptions& options, HtpTargetDevice& device) {
  Audited a;
  SF_ASSIGN(Graph graph, import_pt2(options.model, {.keep_unknown = true}));
  SF_ASSIGN(const Bindings bounds, parse_bounds(options.bounds));
  SF_TRY(apply_bounds(graph, bounds));
  specialize(graph, bounds);
  for (const auto& [name, n] : bounds) graph.symbols.erase(name);
  if (!graph.symbols.empty()) a.imported = graph;
  SF_ASSIGN(a.canonical, canonical_of(std::move(graph)));
  SF_TRY(check_skips({&a.canonical}, options.htp));
  EngineDevice asked(*device.backend);
  MethodSource source;
  source.graph = std::move(a.canonical);
  HtpMethod method{.source = &source};
  HtpChoice choice = options.htp;
  choice.apply_fixes = false;
  choice.assume_ranges = true;
  SF_ASSIGN(PlannedMethod planned, plan_for_htp(method, choice, device));
  SF_TRY(try_preparing(planned, choice, device, method.notes));
  a.canonical = std::move(planned.canonical);
  a.plan = std::move(planned.plan);
  a.options = std::move(planned.options);
  a.notes = std::move(method.notes);
  a.nodes = audit_nodes(a.canonical, a.plan, asked, a.options);
  const auto fixed_sizes = try_static(a, asked);
  for (AuditedNode& n : a.nodes)
    if (fixed_sizes && !n.fix && n.node.reason.find("[htp.shape.1]") != std::string::npos &&
        is_on_device(fixed_sizes->plan, n.node.name))
      n.fix = OfferedFix{.name = "static_shape",
                         .what = "its dynamic sizes as numbers",
                         .option = bounds_text(fixed_sizes->sizes)};
  for (AuditedNode& n : a.nodes) {
    if (n.fix) continue;
    if (n.node.reason.find("FP16") != std::string::npos ||
        n.node.reason.find("8-bit encoding") != std::string::npos)
      n.fix = offer_quantized(a.canonical, n.node, asked, a.options);
    if (!n.fix) n.fix = offer_newer_chip(a, n.node, options.htp);
  }
  check_kernels(a);
  if (!options.htp.apply_fixes) return a;

  // All fixes at once, and what is left then.
  Audited after;
  after.options = a.options;
  after.notes = a.notes;
  const bool pinned = fixed_sizes && std::any_of(a.nodes.begin(), a.nodes.end(), [](const AuditedNode& n) {
                        return n.fix && n.fix->name == "static_shape";
                      });
  after.canonical = pinned ? fixed_sizes->canonical : a.canonical;
  if (pinned) after.notes.push_back(cat("sizes are fixed: ", bounds_text(fixed_sizes->sizes)));
  SF_TRY(apply_offered(after.canonical, a.nodes, a.options.target, &after.notes));
  SF_ASSIGN(after.plan, plan_graph(after.canonical, asked, a.options));
  PlannedMethod fixed{std::move(after.canonical), std::move(after.plan), a.options};
  SF_TRY(try_preparing(fixed, choice, device, after.notes));
  after.canonical = std::move(fixed.canonical);
  after.plan = std::move(fixed.plan);
  after.nodes = audit_nodes(after.canonical, after.plan, asked, after.options);
  check_kernels(after);
  return after;
}

size_t device_nodes(const Plan& plan) {
  size_t n = 0;
  for (const auto& island : plan.parts.islands) n += island.size();
  return n;
}

// Islands that compute nothing: they only move data that the CPU would have at hand.
std::vector<std::string> idle_islands(const Plan& plan) {
  std::vector<std::string> out;
  for (size_t i = 0; i < plan.parts.islands.size(); ++i) {
    const auto& island = plan.parts.islands[i];
    bool computes = false;
    for (const NodeId id : island) {
      const Op op = plan.graph.node(id).op;
      computes = computes || !(op == Op::reshape || op == Op::permute || op == Op::slice ||
                               op == Op::concat || op == Op::expand || op == Op::to || op == Op::pad);
    }
    if (!computes)
      out.push_back(cat("delegate ", i, " computes nothing: its ", counted(island.size(), "node"), " (",
                        plan.graph.origin(plan.graph.node(island[0])).name, ") only move data"));
  }
  return out;
}

Json describe(const Audited& a, const AuditOptions& options, const HtpTargetDevice& device) {
  const size_t delegates = a.plan.parts.islands.size();
  Json nodes = Json::array();
  for (const AuditedNode& n : a.nodes) nodes.push_back(to_json(n, delegates));
  return {{"model", options.model},
          {"soc", device.soc_name},
          {"htp_arch", device.arch},
          {"engine", device.engine},
          {"precision", options.htp.precision},
          {"delegates", delegates},
          {"device_nodes", device_nodes(a.plan)},
          {"cpu_nodes", nodes},
          {"notes", a.notes}};
}

void print(const Audited& a, const AuditOptions& options, const HtpTargetDevice& device) {
  const size_t delegates = a.plan.parts.islands.size();
  print_line(cat(options.model, " on ", device.soc_name, " (HTP v", device.arch, ", ", device.engine, "), ",
                 options.htp.precision));
  print_line(
      cat("on the NPU    ", counted(device_nodes(a.plan), "node"), " in ", counted(delegates, "delegate")));
  print_line(cat("on the CPU    ", counted(a.nodes.size(), "node"), " of the model"));
  for (const std::string& note : a.notes) print_line(cat("note: ", note));
  for (const AuditedNode& n : a.nodes)
    for (const std::string& line : to_lines(n, delegates)) print_line(line);
}

}  // namespace

Status audit_command(const AuditOptions& options) {
  SF_ASSIGN(HtpTargetDevice device, open_device(options.htp));
  auto audited = audit_model(options, device);
  if (!audited.ok()) return audited.take_error().during(cat("auditing ", options.model));
  for (std::string& note : idle_islands(audited->plan)) audited->notes.push_back(std::move(note));
  if (options.json)
    print_line(describe(*audited, options, device).dump());
  else
    print(*audited, options, device);
  if (!options.fail_on_fallback || audited->nodes.empty()) return {};
  std::string names;
  for (const AuditedNode& n : audited->nodes) names += cat(names.empty() ? "" : ", ", n.node.name);
  return unsupported(counted(audited->nodes.size(), "node"), " would run on the CPU: ", names);
}

}  // namespace sixfold::tools
