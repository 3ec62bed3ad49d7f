#include "tools/htp.h"

#include <algorithm>

#include "sixfold/emulator/emulator.h"
#include "sixfold/lower/lowering.h"
#include "sixfold/pte/qnn_options.h"
#include "sixfold/qnn/context.h"
#include "sixfold/qnn/soc.h"
#include "sixfold/quantize/scheme.h"
#include "sixfold/rewrite/encodings.h"
#include "sixfold/rewrite/prepare.h"
#include "tools/audit.h"
#include "tools/contexts.h"
#include "tools/integer_weights.h"
#include "tools/soc_file.h"

namespace sixfold::tools {
namespace {

Result<qnn::Priority> priority_of(std::string_view name) {
  if (name == "low") return qnn::Priority::low;
  if (name == "normal") return qnn::Priority::normal;
  if (name == "normal_high") return qnn::Priority::normal_high;
  if (name == "high") return qnn::Priority::high;
  return invalid_argument("--priority is ", name, ", expected low, normal, normal_high or high");
}

// The library takes any number, and silently something else than what it does not know.
Status check_graph_options(const HtpChoice& choice) {
  const auto within = [](const char* name, int n, int least, int most) -> Status {
    if (n >= least && n <= most) return {};
    return invalid_argument(name, " is ", n, ", expected ", least, " to ", most);
  };
  SF_TRY(within("--optimization", choice.optimization, 1, 3));
  SF_TRY(within("--hvx-threads", choice.hvx_threads, 0, 64));
  return within("--vtcm-mb", choice.vtcm_mb, 0, 256);
}

void explain(HtpMethod& method, const PlannedMethod& planned, Device& device) {
  method.islands = planned.plan.parts.islands.size();
  method.device_nodes = 0;
  for (const auto& island : planned.plan.parts.islands) method.device_nodes += island.size();
  method.cpu_nodes = Json::array();
  method.cpu_lines.clear();
  for (const AuditedNode& a : audit_nodes(planned.canonical, planned.plan, device, planned.options)) {
    method.cpu_nodes.push_back(to_json(a, method.islands));
    for (std::string& line : to_lines(a, method.islands)) method.cpu_lines.push_back(std::move(line));
  }
}

}  // namespace

Status EngineDevice::prepare(const qnn::GraphSpec& graph) {
  SF_TRY(qnn::prepare_binary(backend_, {&graph, 1}, options_));
  return {};
}

Result<HtpTargetDevice> open_device(const HtpChoice& choice) {
  if (choice.engine != "qnn" && choice.engine != "emulator")
    return invalid_argument("--engine is ", choice.engine, ", expected emulator or qnn");
  if (choice.engine == "emulator" && !choice.qnn_lib_dir.empty())
    return invalid_argument("--qnn-lib-dir is for --engine qnn: the emulator is part of sixfold");
  HtpTargetDevice out;
  SF_ASSIGN(const qnn::Soc soc, choose_soc(choice.soc, choice.soc_file));
  out.soc_name = soc.name;
  out.soc = soc.id;
  out.arch = static_cast<int>(soc.htp_arch);
  out.vtcm_mb = soc.vtcm_mb;
  qnn::Library library = emulator::library();
  out.engine = emulator::kEngineName;
  out.library = {"emulator", SIXFOLD_VERSION};
  if (choice.engine == "qnn") {
    SF_ASSIGN(const std::string folder, qnn::find_library_folder(choice.qnn_lib_dir));
    SF_ASSIGN(library, qnn::Library::load(folder));
    out.engine = cat("QNN ", library.sdk_version());
    out.library = {"qnn", library.sdk_version()};
  }
  SF_ASSIGN(out.backend, qnn::Backend::open(library, out.soc));
  return out;
}

namespace {

// With grids: the prepared graph is calibrated before the device is asked. The plan so far was made with
// ranges that nobody saw.
Status plan_quantized(PlannedMethod& planned, HtpMethod& method, const HtpChoice& choice,
                      HtpTargetDevice& device) {
  Plan& plan = planned.plan;
  method.source->graph = planned.canonical;
  RewriteOptions rewrite;
  rewrite.whole = plan.whole;
  rewrite.disabled = planned.options.disabled;
  PipelineReport report;
  SF_TRY(prepare_for_htp(method.source->graph, planned.options.target, rewrite, &report));
  SF_TRY(quantize_method(method, choice, device));
  SF_TRY(drop_idle_bounds(method.source->graph));
  plan.graph = std::move(method.source->graph);
  if (plan.graph.node_count() == 0) copy_outputs(plan.graph);
  plan.asked = planned.options.partition;
  plan.asked.refused.insert(report.refused.begin(), report.refused.end());
  EngineDevice asked(*device.backend);
  SF_ASSIGN(plan.parts, partition(plan.graph, asked, plan.asked));
  return {};
}

// What is asked of the quantizer where nothing is quantized.
Status refuse_idle_options(const HtpChoice& choice, std::vector<std::string>& notes) {
  const std::pair<const char*, bool> asked[] = {{"--recipe", !choice.recipe.empty()},
                                                {"--encodings", !choice.encodings.empty()},
                                                {"--export-encodings", !choice.export_encodings.empty()},
                                                {"--simulated", !choice.simulated.empty()},
                                                {"--block-size", !choice.block_sizes.empty()},
                                                {"--smooth", choice.smooth > 0},
                                                {"--equalize", choice.equalize},
                                                {"--balance", choice.balance != "auto"},
                                                {"--search-scales", choice.search_scales}};
  for (const auto& [name, given] : asked)
    if (given)
      return invalid_argument(name, " is for values with encodings, and --precision ", choice.precision,
                              " gives them none");
  if (!choice.calib.empty())
    notes.push_back(cat("no sample of --calib is read: --precision ", choice.precision, " needs no ranges"));
  return {};
}

}  // namespace

Result<PlannedMethod> plan_for_htp(HtpMethod& method, const HtpChoice& choice, HtpTargetDevice& device) {
  PlannedMethod out{std::move(method.source->graph), {}, {}};
  SF_ASSIGN(const Scheme scheme, scheme_of(choice));
  const bool quantizes = !scheme.computes_in_float();
  if (!quantizes) SF_TRY(refuse_idle_options(choice, method.notes));
  out.options.target = {.arch = device.arch, .single_heads = choice.single_heads, .quantizes = quantizes};
  out.options.disabled.insert(choice.disabled_rules.begin(), choice.disabled_rules.end());
  out.options.partition.skip_nodes.insert(choice.skip_nodes.begin(), choice.skip_nodes.end());
  out.options.partition.skip_ops.insert(choice.skip_ops.begin(), choice.skip_ops.end());
  EngineDevice asked(*device.backend);
  if (quantizes) {
    SF_ASSIGN(out.options.grids, trial_grids(choice, device));
  }
  if (scheme.computes_in_float() && scheme.weight_bits > 0) {
    SF_ASSIGN(out.plan,
              plan_integer_weights(out.canonical, {choice.per_channel_conv, choice.per_channel_linear}, asked,
                                   out.options, choice.strict, method.notes));
  } else {
    SF_ASSIGN(out.plan, plan_graph(out.canonical, asked, out.options));
  }
  if (choice.apply_fixes && !out.plan.parts.fallbacks.empty()) {
    SF_TRY(apply_offered(out.canonical, audit_nodes(out.canonical, out.plan, asked, out.options),
                         out.options.target, &method.notes));
    SF_ASSIGN(out.plan, plan_graph(out.canonical, asked, out.options));
  }
  if (quantizes) SF_TRY(plan_quantized(out, method, choice, device));
  return out;
}

namespace {

struct Compiling {
  std::vector<HtpMethod>& methods;
  std::vector<PlannedMethod>& planned;
  HtpTargetDevice& device;
  pte::QnnOptions options;
  qnn::ContextOptions context;
  bool apart = false;  // no context for several methods
};

Result<DelegateSource> make_delegate(Compiling& c, std::span<const qnn::GraphSpec> specs,
                                     ContextCache& cache) {
  SF_ASSIGN(Bytes blob, cache.payload(*c.device.backend, specs, c.context));
  DelegateSource delegate;
  delegate.id = pte::kQnnBackend;
  delegate.blob = std::make_shared<const Bytes>(std::move(blob));
  delegate.specs.emplace_back(pte::kQnnSpecKey, pte::write_qnn_options(c.options));
  return delegate;
}

Status compile_islands(Compiling& c, ContextCache& cache) {
  std::vector<Cut> cuts;
  size_t most = 0;
  for (size_t m = 0; m < c.methods.size(); ++m) {
    c.methods[m].islands = c.planned[m].plan.parts.islands.size();
    c.methods[m].transposes = c.methods[m].qnn_ops = 0;
    c.methods[m].source->delegates.clear();
    SF_ASSIGN(Cut pieces, cut(c.planned[m].plan.graph, c.planned[m].plan.parts,
                              /*rounds=*/!c.planned[m].options.target.quantizes));
    most = std::max(most, c.methods[m].islands);
    cuts.push_back(std::move(pieces));
  }
  // Island i of every method goes into one context, which keeps equal weights once; ExecuTorch wants the same
  // number of them in each method for that, so otherwise each method has contexts of its own.
  const bool together = !c.apart && std::all_of(c.methods.begin(), c.methods.end(),
                                                [&](const HtpMethod& m) { return m.islands == most; });
  for (size_t i = 0; i < most; ++i) {
    std::vector<qnn::GraphSpec> specs;
    for (size_t m = 0; m < c.methods.size(); ++m) {
      if (i >= cuts[m].islands.size()) continue;
      const Graph& island = cuts[m].islands[i].graph;
      const Forms forms = choose_forms(island);
      SF_ASSIGN(qnn::GraphSpec spec, lower_island(island, forms, c.methods[m].source->name));
      c.methods[m].qnn_ops += spec.ops.size();
      c.methods[m].transposes +=
          static_cast<size_t>(std::count_if(spec.ops.begin(), spec.ops.end(), [](const auto& op) {
            return op.type == std::string_view("Transpose");
          }));
      if (!together) {
        SF_ASSIGN(DelegateSource delegate, make_delegate(c, {&spec, 1}, cache));
        c.methods[m].source->delegates.push_back(std::move(delegate));
      } else {
        specs.push_back(std::move(spec));
      }
    }
    if (!together) continue;
    SF_ASSIGN(const DelegateSource shared, make_delegate(c, specs, cache));
    for (HtpMethod& method : c.methods) method.source->delegates.push_back(shared);
  }
  for (size_t m = 0; m < c.methods.size(); ++m) c.methods[m].source->graph = std::move(cuts[m].host);
  return {};
}

// What was cut is no fallback, and no secret.
void note_cuts(const Plan& plan, std::vector<std::string>& notes) {
  for (const auto& [id, why] : plan.asked.cuts) {
    const Origin& origin = plan.graph.origin(plan.graph.node(id));
    notes.push_back(
        cat("a delegate begins with ", origin.name, " (", origin.target,
            "), which the device cannot prepare together with what is before it [htp.prepare.2]: ", why));
  }
}

// Islands of several methods share a context, if the device prepares them together.
Status compile_or_cut(Compiling& c, ContextCache& cache) {
  Status first = compile_islands(c, cache);
  if (first.ok() || (first.error().code() != Code::Device && first.error().code() != Code::Unsupported))
    return first;
  EngineDevice device(*c.device.backend, c.context);
  for (size_t m = 0; m < c.methods.size(); ++m) {
    Plan& plan = c.planned[m].plan;
    SF_TRY(prepare_islands(plan.graph, device, plan.asked, plan.parts));
    note_cuts(plan, c.methods[m].notes);
  }
  Status again = compile_islands(c, cache);
  if (again.ok() || c.methods.size() == 1) return again;
  c.apart = true;
  for (HtpMethod& method : c.methods)
    method.notes.push_back(
        cat("every method has a context of its own, since the device cannot prepare them "
            "together [htp.prepare.3]: ",
            again.error().message()));
  return compile_islands(c, cache);
}

}  // namespace

Status try_preparing(PlannedMethod& planned, const HtpChoice& choice, HtpTargetDevice& device,
                     std::vector<std::string>& notes) {
  EngineDevice asked(
      *device.backend,
      {.graph = {.fp16 = choice.precision.starts_with("fp16"),
                 .vtcm_mb = choice.vtcm_mb ? static_cast<uint32_t>(choice.vtcm_mb) : device.vtcm_mb}});
  SF_TRY(prepare_islands(planned.plan.graph, asked, planned.plan.asked, planned.plan.parts));
  note_cuts(planned.plan, notes);
  return {};
}

Status compile_for_htp(std::vector<HtpMethod>& methods, const HtpChoice& choice, HtpReport* report) {
  std::vector<const Graph*> graphs;
  for (const HtpMethod& method : methods) graphs.push_back(&method.source->graph);
  SF_TRY(check_skips(graphs, choice));
  SF_TRY(check_graph_options(choice));
  SF_ASSIGN(HtpTargetDevice device, open_device(choice));
  if (device.vtcm_mb != 0 && static_cast<uint32_t>(choice.vtcm_mb) > device.vtcm_mb)
    return invalid_argument("--vtcm-mb is ", choice.vtcm_mb, ", ", device.soc_name, " has ", device.vtcm_mb);
  SF_ASSIGN(const qnn::Priority priority, priority_of(choice.priority));
  const bool share = choice.weight_sharing && methods.size() > 1;
  std::vector<PlannedMethod> planned;
  for (HtpMethod& method : methods) {
    SF_ASSIGN(PlannedMethod p, plan_for_htp(method, choice, device));
    planned.push_back(std::move(p));
  }
  // Floats that are left on the device are halves there.
  bool halves = choice.precision.starts_with("fp16");
  for (const HtpMethod& method : methods) halves = halves || method.computes_in_float;
  Compiling c{.methods = methods,
              .planned = planned,
              .device = device,
              .options = {.soc = static_cast<int32_t>(device.soc),
                          .arch = device.arch,
                          .vtcm_mb = device.vtcm_mb,
                          .fp16 = halves,
                          .weight_sharing = share,
                          .single_heads = choice.single_heads,
                          .dlbc = choice.dlbc},
              .context = {.graph = {.fp16 = halves,
                                    .vtcm_mb = choice.vtcm_mb ? static_cast<uint32_t>(choice.vtcm_mb)
                                                              : device.vtcm_mb,
                                    .optimization_level = static_cast<uint32_t>(choice.optimization),
                                    .hvx_threads = static_cast<uint32_t>(choice.hvx_threads),
                                    .priority = priority,
                                    .dlbc = choice.dlbc},
                          .weight_sharing = share}};
  ContextCache cache(choice.cache);
  SF_TRY(compile_or_cut(c, cache));
  EngineDevice asked(*device.backend);
  for (size_t m = 0; m < methods.size(); ++m) explain(methods[m], planned[m], asked);
  report->qnn_cpu_s = qnn::library_usage().cpu_s;
  report->engine = device.engine;
  report->soc = device.soc_name;
  report->precision = choice.precision;
  report->library = device.library;
  report->cache_hits = cache.hits();
  report->cache_misses = cache.misses();
  report->notes = cache.notes();
  return {};
}

}  // namespace sixfold::tools
