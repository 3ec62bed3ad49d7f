#include "tools/htp.h"

#include <algorithm>

#include "sixfold/emulator/emulator.h"
#include "sixfold/lower/lowering.h"
#include "sixfold/pte/qnn_options.h"
#include "sixfold/qnn/context.h"
#include "sixfold/qnn/soc.h"
#include "sixfold/qnn/wrapper.h"
#include "sixfold/quantize/scheme.h"
#include "sixfold/quantize/weights.h"
#include "sixfold/rewrite/prepare.h"
#include "tools/soc_file.h"

namespace sixfold::tools {
namespace {

// A model that returns its inputs computes nothing; the copy is what is asked of the NPU.
void copy_outputs(Graph& graph) {
  for (Leaf& leaf : graph.outputs) {
    if (!leaf.value.valid() || graph.value(leaf.value).kind != ValueKind::input) continue;
    const Type type = graph.type(leaf.value);
    const NodeId id = graph.add_node(Op::reshape, "", {leaf.value}, {{"shape", type.dims}}, {type}, 0);
    leaf.value = graph.node(id).output();
    graph.value(leaf.value).name = "copy";
  }
}

void explain(HtpMethod& method, const Graph& graph, const Partition& partition) {
  for (const Fallback& f : partition.fallbacks) {
    const Node& node = graph.node(f.node);
    const Origin& origin = graph.origin(node);
    method.cpu_nodes.push_back({{"node", origin.name},
                                {"op", origin.target},
                                {"canonical", to_text(node.op)},
                                {"reason", f.reason},
                                {"source", origin.source},
                                {"module", origin.module_path}});
  }
}

}  // namespace

Result<HtpTargetDevice> open_device(const HtpChoice& choice) {
  if (choice.engine != "qnn" && choice.engine != "emulator")
    return invalid_argument("--engine is ", choice.engine, ", expected emulator or qnn");
  HtpTargetDevice out;
  SF_ASSIGN(const qnn::Soc soc, choose_soc(choice.soc, choice.soc_file));
  out.soc_name = soc.name;
  out.soc = soc.id;
  out.arch = static_cast<int>(soc.htp_arch);
  out.vtcm_mb = soc.vtcm_mb;
  qnn::Library library = emulator::library();
  out.engine = emulator::kEngineName;
  if (choice.engine == "qnn") {
    SF_ASSIGN(const std::string folder, qnn::find_library_folder(choice.qnn_lib_dir));
    SF_ASSIGN(library, qnn::Library::load(folder));
    out.engine = cat("QNN ", library.sdk_version());
  }
  SF_ASSIGN(out.backend, qnn::Backend::open(library, out.soc));
  return out;
}

Result<Partition> plan_for_htp(HtpMethod& method, const HtpChoice& choice, HtpTargetDevice& device) {
  Graph& graph = method.source->graph;
  SF_ASSIGN(const Scheme scheme, scheme_of(choice.precision));
  if (scheme.computes_in_float() && scheme.weight_bits > 0)
    method.notes =
        quantize_weights(graph, {choice.per_channel_conv, choice.per_channel_linear.value_or(false)});
  const bool quantizes = !scheme.computes_in_float();
  SF_TRY(prepare_for_htp(graph,
                         {.arch = device.arch, .single_heads = choice.single_heads, .quantizes = quantizes}));
  if (quantizes) SF_TRY(quantize_method(method, choice, device));
  if (graph.node_count() == 0) copy_outputs(graph);
  PartitionOptions options;
  options.skip_nodes.insert(choice.skip_nodes.begin(), choice.skip_nodes.end());
  options.skip_ops.insert(choice.skip_ops.begin(), choice.skip_ops.end());
  EngineDevice asked(*device.backend);
  SF_ASSIGN(Partition parts, partition(graph, asked, options));
  explain(method, graph, parts);
  method.islands = parts.islands.size();
  for (const auto& island : parts.islands) method.device_nodes += island.size();
  return parts;
}

Status compile_for_htp(std::vector<HtpMethod>& methods, const HtpChoice& choice, HtpReport* report) {
  SF_ASSIGN(HtpTargetDevice device, open_device(choice));
  std::vector<Cut> cuts;
  size_t most = 0;
  for (HtpMethod& method : methods) {
    SF_ASSIGN(const Partition parts, plan_for_htp(method, choice, device));
    SF_ASSIGN(Cut pieces, cut(method.source->graph, parts));
    most = std::max(most, method.islands);
    cuts.push_back(std::move(pieces));
  }
  // Island i of every method goes into one context, which keeps equal weights once; ExecuTorch wants the same
  // number of them in each method for that, so otherwise each method has contexts of its own.
  const bool together =
      std::all_of(methods.begin(), methods.end(), [&](const HtpMethod& m) { return m.islands == most; });
  const pte::QnnOptions options{.soc = static_cast<int32_t>(device.soc),
                                .arch = device.arch,
                                .vtcm_mb = device.vtcm_mb,
                                .fp16 = choice.precision.starts_with("fp16"),
                                .weight_sharing = methods.size() > 1,
                                .single_heads = choice.single_heads};
  const qnn::ContextOptions context_options{
      .graph = {.fp16 = choice.precision.starts_with("fp16"),
                .vtcm_mb = choice.vtcm_mb ? static_cast<uint32_t>(choice.vtcm_mb) : device.vtcm_mb,
                .optimization_level = static_cast<uint32_t>(choice.optimization),
                .hvx_threads = static_cast<uint32_t>(choice.hvx_threads)},
      .weight_sharing = methods.size() > 1};
  const auto compile_one = [&](std::span<const qnn::GraphSpec> specs) -> Result<DelegateSource> {
    SF_ASSIGN(const qnn::Context context, qnn::Context::build(*device.backend, specs, context_options));
    SF_ASSIGN(const std::vector<std::byte> binary, context.binary());
    DelegateSource delegate;
    delegate.id = pte::kQnnBackend;
    const auto header = qnn::wrapper_of(binary);
    std::vector<std::byte> blob(header.begin(), header.end());
    blob.insert(blob.end(), binary.begin(), binary.end());
    delegate.blob = std::make_shared<const std::vector<std::byte>>(std::move(blob));
    delegate.specs.emplace_back(pte::kQnnSpecKey, pte::write_qnn_options(options));
    return delegate;
  };
  for (size_t i = 0; i < most; ++i) {
    std::vector<qnn::GraphSpec> specs;
    for (size_t m = 0; m < methods.size(); ++m) {
      if (i >= cuts[m].islands.size()) continue;
      const Graph& island = cuts[m].islands[i].graph;
      const Forms forms = choose_forms(island);
      SF_ASSIGN(qnn::GraphSpec spec, lower_island(island, forms, methods[m].source->name));
      methods[m].qnn_ops += spec.ops.size();
      methods[m].transposes +=
          static_cast<size_t>(std::count_if(spec.ops.begin(), spec.ops.end(), [](const auto& op) {
            return op.type == std::string_view("Transpose");
          }));
      if (!together) {
        SF_ASSIGN(DelegateSource delegate, compile_one({&spec, 1}));
        methods[m].source->delegates.push_back(std::move(delegate));
      } else {
        specs.push_back(std::move(spec));
      }
    }
    if (!together) continue;
    SF_ASSIGN(const DelegateSource shared, compile_one(specs));
    for (HtpMethod& method : methods) method.source->delegates.push_back(shared);
  }
  for (size_t m = 0; m < methods.size(); ++m) methods[m].source->graph = std::move(cuts[m].host);
  report->qnn_cpu_s = qnn::library_usage().cpu_s;
  report->engine = device.engine;
  report->soc = device.soc_name;
  return {};
}

}  // namespace sixfold::tools
