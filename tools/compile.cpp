// sixfold compile: import, canonicalize, give the NPU its parts, legalize the rest, package, write.
#include <sys/resource.h>

#include <bit>
#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "sixfold/base/mapped_file.h"
#include "sixfold/base/recycled.h"
#include "sixfold/emulator/emulator.h"
#include "sixfold/import/import.h"
#include "sixfold/package/package.h"
#include "sixfold/pte/manifest.h"
#include "sixfold/pte/verify.h"
#include "sixfold/pte/write.h"
#include "sixfold/quantize/ranks.h"
#include "sixfold/rewrite/pipeline.h"
#include "tools/accuracy.h"
#include "tools/audit.h"
#include "tools/bounds.h"
#include "tools/command.h"
#include "tools/htp.h"
#include "tools/search.h"

namespace sixfold::tools {
namespace {

// A method that is compiled, and what it was before.
struct Compiled {
  std::string file;
  std::shared_future<std::string> hash;  // of the file, computed meanwhile
  MethodSource source;
  size_t imported = 0, canonical = 0;
  Json cpu_nodes = Json::array();
  HtpMethod htp;
};

Result<Compiled> compile_method(const std::string& name, const std::string& path,
                                const CompileOptions& options, const Bindings& bounds) {
  Compiled out;
  out.file = path;
  ImportInfo info;
  SF_ASSIGN(out.source.graph, import_pt2(path, {}, &info));
  Graph& graph = out.source.graph;
  out.source.name = name;
  out.source.input_structure = info.input_structure;
  out.source.output_structure = info.output_structure;
  out.imported = graph.node_count();
  SF_TRY(apply_bounds(graph, bounds));
  if (options.backend == "htp") {
    // The NPU needs numbers: a bound is the size itself.
    Bindings sizes = bounds;
    if (options.htp.apply_fixes && sizes.size() < graph.symbols.size())
      if (const auto chosen = choose_static_sizes(graph)) sizes.insert(chosen->begin(), chosen->end());
    specialize(graph, sizes);
    for (const auto& [symbol, n] : sizes) {
      graph.symbols.erase(symbol);
      out.htp.notes.push_back(cat("the size ", symbol, " is ", n, ", no other"));
    }
  }
  RewriteOptions rewrite;
  rewrite.disabled.insert(options.disabled.begin(), options.disabled.end());
  // A norm after its convolution rounds where eager torch rounds.
  if (options.backend == "cpu" && options.keep_batch_norm) rewrite.disabled.insert("fold_batch_norm");
  SF_TRY(canonicalize(graph, rewrite));
  out.canonical = graph.node_count();
  // Not sooner: until here threads wait for memory rather than for each other.
  SF_ASSIGN(auto file, MappedFile::open(path));
  out.hash = std::async([file = std::move(file)]() mutable {
    std::string hash = pte::hash_hex(file->bytes());
    file.reset();  // its pages would count twice
    return hash;
  });
  return out;
}

// What is left for the host, in the words of ExecuTorch's kernels.
Status legalize_method(Compiled& c, const CompileOptions& options) {
  RewriteOptions rewrite;
  rewrite.disabled.insert(options.disabled.begin(), options.disabled.end());
  PipelineReport report;
  Status status = legalize(c.source.graph, rewrite, &report);
  if (status.ok() || report.unsupported.size() < 2) return status;
  std::string all;
  for (const Unsupported& u : report.unsupported)
    all += cat(all.empty() ? "" : "; ", u.node, " (", u.target, ")",
               u.source.empty() ? "" : cat(" at ", u.source), ": ", u.reason);
  return unsupported(report.unsupported.size(), " nodes cannot be said with ExecuTorch's kernels: ", all);
}

// Everything on the CPU, because that is what was asked for.
void keep_on_cpu(Compiled& c) {
  const Graph& graph = c.source.graph;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    c.cpu_nodes.push_back(
        {{"node", graph.origin(node).name}, {"op", to_text(node.op)}, {"reason", "backend cpu"}});
  }
}

Status give_to_npu(std::vector<Compiled>& compiled, const CompileOptions& options, HtpReport* report) {
  std::vector<HtpMethod> methods;
  for (Compiled& c : compiled) methods.push_back({.source = &c.source, .notes = c.htp.notes});
  HtpChoice choice = options.htp;
  choice.disabled_rules = options.disabled;
  SF_TRY(compile_for_htp(methods, choice, report));
  for (size_t i = 0; i < compiled.size(); ++i) {
    compiled[i].cpu_nodes = methods[i].cpu_nodes;
    compiled[i].htp = std::move(methods[i]);
  }
  return {};
}

// What was measured meanwhile.
Status add_judged(Compiled& c) {
  if (!c.htp.judged.valid()) return {};
  auto judged = c.htp.judged.get();
  if (!judged.ok()) return judged.take_error().during(cat("compiling ", c.file));
  c.htp.accuracy.update(*judged);
  return {};
}

Status refuse_fallbacks(const std::vector<Compiled>& compiled) {
  std::string names;
  size_t count = 0;
  for (const Compiled& c : compiled)
    for (const Json& node : c.cpu_nodes) {
      names += cat(count++ ? ", " : "", node["node"].get<std::string>(), " (",
                   node["reason"].get<std::string>(), ")");
    }
  if (count == 0) return {};
  return unsupported(counted(count, "node"), " would run on the CPU: ", names);
}

// NAME=FILE, or a file whose method is "forward".
Result<std::vector<Compiled>> compile_all(const CompileOptions& options) {
  SF_ASSIGN(const Bindings bounds, parse_bounds(options.bounds));
  std::vector<Compiled> out;
  std::set<std::string> names;
  for (const std::string& text : options.models) {
    const size_t equals = text.find('=');
    const bool named = equals != std::string::npos && text.find('/') > equals;
    const std::string name = named ? text.substr(0, equals) : "forward";
    const std::string path = named ? text.substr(equals + 1) : text;
    if (!names.insert(name).second)
      return invalid_argument("two methods are called ", name,
                              ": name them as in prefill=a.pt2 decode=b.pt2");
    auto compiled = compile_method(name, path, options, bounds);
    if (!compiled.ok()) return compiled.take_error().during(cat("compiling ", path));
    out.push_back(std::move(compiled).value());
  }
  return out;
}

Status check_alignment(const char* name, uint64_t n, uint64_t most) {
  if (std::has_single_bit(n) && n <= most) return {};
  return invalid_argument(name, " is ", n, ", expected a power of two up to ", most);
}

// What a caller brings for each input: numbers and None must be those that the model was exported with.
Json input_kinds(const pte::Method& method) {
  static constexpr const char* kKinds[] = {"none", "int", "bool", "real", "tensor", "text"};
  Json kinds = Json::array();
  for (const pte::Index i : method.inputs) {
    const size_t kind = method.values[static_cast<size_t>(i)].index();
    kinds.push_back(kind < std::size(kKinds) ? kKinds[kind] : "list");
  }
  return kinds;
}

Json describe(const std::vector<Compiled>& compiled, const Package& package, const HtpReport& htp,
              uint64_t file_bytes) {
  Json methods = Json::array(), cpu_nodes = Json::array();
  size_t delegates = 0;
  for (size_t i = 0; i < compiled.size(); ++i) {
    const MethodReport& m = package.methods[i];
    methods.push_back({{"name", m.name},
                       {"model", compiled[i].file},
                       {"inputs", input_kinds(package.program.methods[i])},
                       {"imported_nodes", compiled[i].imported},
                       {"canonical_nodes", compiled[i].canonical},
                       {"delegates", m.delegates},
                       {"device_nodes", compiled[i].htp.device_nodes},
                       {"qnn_ops", compiled[i].htp.qnn_ops},
                       {"transposes", compiled[i].htp.transposes},
                       {"converts", compiled[i].htp.conversions},
                       {"notes", compiled[i].htp.notes},
                       {"accuracy", compiled[i].htp.accuracy},
                       {"quantize_s", compiled[i].htp.quantize_s},
                       {"search", compiled[i].htp.search},
                       {"kernel_calls", m.kernel_calls},
                       {"size_calls", m.size_calls},
                       {"views", m.views},
                       {"in_place", m.in_place},
                       {"constant_bytes", m.constant_bytes},
                       {"state_bytes", m.state_bytes},
                       {"arena_bytes", m.arena_bytes},
                       {"arena_bytes_without_sharing", m.naive_bytes},
                       {"bounds", m.bounded_symbols},
                       {"kernels", m.kernels}});
    delegates += m.delegates;
    for (const Json& node : compiled[i].cpu_nodes) cpu_nodes.push_back(node);
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return {{"delegates", delegates},
          {"engine", htp.engine},
          {"soc", htp.soc},
          {"precision", htp.precision},
          {"cpu_nodes", cpu_nodes},
          {"cache", {{"hits", htp.cache_hits}, {"misses", htp.cache_misses}}},
          {"notes", htp.notes},
          {"methods", methods},
          {"file_bytes", file_bytes},
          {"cpu_s", seconds(used.ru_utime) + seconds(used.ru_stime)},
          {"qnn_cpu_s", htp.qnn_cpu_s},
          {"peak_rss_mb", static_cast<double>(used.ru_maxrss) / 1024}};
}

// Never silent: what the NPU does not run, and why.
void print_fallbacks(const std::vector<Compiled>& compiled, const Json& report) {
  const size_t left = report["cpu_nodes"].size();
  print_line(cat("on the NPU (", report["soc"].get<std::string>(), ", ", report["engine"].get<std::string>(),
                 ", ", report["precision"].get<std::string>(),
                 "): ", left == 0 ? std::string("all nodes") : cat("all but ", counted(left, "node"))));
  for (const Compiled& c : compiled)
    for (const std::string& line : c.htp.cpu_lines) print_line(line);
}

void print(const std::vector<Compiled>& compiled, const Json& report, const std::string& path) {
  for (const Json& m : report["methods"]) {
    print_line(cat("method ", m["name"].get<std::string>(), " of ", m["model"].get<std::string>()));
    print_line(cat("  nodes      ", m["imported_nodes"].dump(), " imported, ", m["canonical_nodes"].dump(),
                   " canonical"));
    print_line(cat("  kernels    ", m["kernel_calls"].dump(), " calls of ", m["kernels"].size(), " kernels, ",
                   m["views"].dump(), " views and ", m["in_place"].dump(),
                   " results in place cost no memory"));
    if (m["size_calls"] != 0) {
      std::string bounds;
      for (const Json& b : m["bounds"]) bounds += cat(bounds.empty() ? "" : ", ", b.get<std::string>());
      print_line(cat("  sizes      ", m["size_calls"].dump(), " calls; ", bounds));
    }
    print_line(cat("  constants  ", m["constant_bytes"].dump(), " bytes, states ", m["state_bytes"].dump(),
                   " bytes"));
    print_line(cat("  arena      ", m["arena_bytes"].dump(), " bytes, ",
                   m["arena_bytes_without_sharing"].dump(), " without sharing"));
  }
  for (const Json& m : report["methods"]) print_search(m["search"]);
  for (const Json& m : report["methods"]) print_accuracy(m["accuracy"]);
  for (const Json& m : report["methods"])
    for (const Json& note : m["notes"]) print_line(cat("note: ", note.get<std::string>()));
  for (const Json& note : report["notes"]) print_line(cat("note: ", note.get<std::string>()));
  if (!report["soc"].get<std::string>().empty()) print_fallbacks(compiled, report);
  const auto delegates = report["delegates"].get<size_t>();
  const bool emulated = delegates > 0 && report["engine"] == "sixfold emulator";
  print_line(cat("wrote ", path, ", ", report["file_bytes"].dump(), " bytes, ",
                 counted(delegates, "delegate"),
                 emulated ? " for the emulator (--engine qnn: for devices)" : ""));
}

}  // namespace

Status compile_command(const CompileOptions& options) {
  const bool htp = options.backend == "htp";
  if (!htp && options.backend != "cpu")
    return invalid_argument("--backend is ", options.backend, ", expected htp or cpu");
  if (!htp && !options.npu_option.empty())
    return invalid_argument(options.npu_option, " is for --backend htp, and the backend is cpu");
  SF_TRY(check_alignment("--alignment", options.alignment, 1 << 20));
  SF_TRY(check_alignment("--segment-alignment", options.segment_alignment, 1 << 20));
  SF_TRY(check_alignment("--constant-alignment", options.constant_alignment, 1 << 20));
  // What tries leave serves the lowering.
  const KeepMemory keep;
  emulator::set_memory(recycled_memory());
  SF_ASSIGN(std::vector<Compiled> compiled, compile_all(options));
  HtpReport htp_report;
  if (htp) SF_TRY(give_to_npu(compiled, options, &htp_report));
  if (htp && options.fail_on_fallback) SF_TRY(refuse_fallbacks(compiled));
  for (Compiled& c : compiled) {
    if (!htp) keep_on_cpu(c);
    if (Status s = legalize_method(c, options); !s.ok())
      return s.take_error().during(cat("compiling ", c.file));
  }
  std::vector<MethodSource> sources;
  for (Compiled& c : compiled) sources.push_back(std::move(c.source));
  SF_ASSIGN(const Package package, make_package(sources, {.alignment = options.alignment,
                                                          .plan_inputs = options.plan_inputs,
                                                          .plan_outputs = options.plan_outputs,
                                                          .in_place = options.in_place}));
  for (const MethodReport& m : package.methods)
    if (m.arena_bytes > pte::Limits{}.arena_bytes)
      return unsupported("method ", m.name, " needs an arena of ", m.arena_bytes, " bytes, the limit is ",
                         pte::Limits{}.arena_bytes,
                         m.bounded_symbols.empty() ? "" : "; --bound lowers what symbolic sizes take");
  if (Status s = pte::verify(package.program); !s.ok())
    return fail(Code::Internal, "the program that was made is wrong: ", s.error().message());
  pte::Manifest manifest{.tool = "sixfold " SIXFOLD_VERSION,
                         .precision = htp ? options.htp.precision : "fp32",
                         .target = htp ? htp_report.soc : "cpu"};
  if (htp) manifest.libraries.push_back(htp_report.library);
  for (const Compiled& c : compiled) manifest.sources.push_back(c.hash.get());
  SF_ASSIGN(const pte::Image image,
            pte::lay_out(package.program,
                         {.segment_alignment = options.page_align ? pte::kPageBytes
                                               : htp ? std::max<uint64_t>(options.segment_alignment, 256)
                                                     : options.segment_alignment,
                          .constant_alignment = options.constant_alignment,
                          .manifest = manifest}));
  SF_ASSIGN(const Ranks ranks, Ranks::get());
  if (!ranks.writes()) return {};
  SF_ASSIGN(NewFile file, NewFile::write(options.output, image.parts()));
  for (Compiled& m : compiled) SF_TRY(add_judged(m));
  SF_TRY(file.appear());
  const Json report = describe(compiled, package, htp_report, image.size_bytes());
  if (options.json)
    print_line(report.dump());
  else
    print(compiled, report, options.output);
  return {};
}

}  // namespace sixfold::tools
