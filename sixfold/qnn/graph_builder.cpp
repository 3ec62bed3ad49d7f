#include "sixfold/qnn/graph_builder.h"

#include "sixfold/qnn/error.h"
#include "sixfold/qnn/log.h"
#include "sixfold/qnn/stage.h"

namespace sixfold::qnn {

HtpGraphConfigs::HtpGraphConfigs(const GraphOptions& options) {
  add(abi::HtpGraphOption::vtcm_mb).u32 = options.vtcm_mb;
  if (options.fp16) add(abi::HtpGraphOption::precision).u32 = 1;
  optimize(abi::HtpOptimization::level, static_cast<float>(options.optimization_level));
  if (options.hvx_threads > 0) add(abi::HtpGraphOption::hvx_threads).u64 = options.hvx_threads;
  if (options.dlbc) optimize(abi::HtpOptimization::dlbc, 1);
  if (options.dlbc_weights) optimize(abi::HtpOptimization::dlbc_weights, 1);
  if (options.slc_allocator) optimize(abi::HtpOptimization::slc_allocator, 1);
  if (!options.fold_relu) add(abi::HtpGraphOption::no_relu_folding).flag = true;
  if (!options.short_conv_on_hmx) add(abi::HtpGraphOption::no_short_conv_on_hmx).flag = true;
  for (const abi::HtpGraphConfig& custom : customs_) configs_.push_back({.option = 0, .custom = &custom});
  if (options.priority != Priority::normal)
    configs_.push_back({.option = abi::kGraphPriority, .priority = static_cast<uint32_t>(options.priority)});
  for (const abi::Config& config : configs_) list_.push_back(&config);
  list_.push_back(nullptr);
}

abi::HtpGraphConfig& HtpGraphConfigs::add(abi::HtpGraphOption option) {
  abi::HtpGraphConfig& c = customs_.emplace_back(abi::HtpGraphConfig{});
  c.option = option;
  return c;
}

void HtpGraphConfigs::optimize(abi::HtpOptimization type, float value) {
  add(abi::HtpGraphOption::optimization).optimization = {type, value};
}

Status GraphBuilder::build(abi::Handle context, const GraphOptions& options, const Profile* profile) {
  SF_TRY(create(context, options));
  // Inputs and outputs first, all of them and in order: it is the order in which the binary lists them.
  for (uint32_t i = 0; i < spec_.tensors.size(); ++i)
    if (const TensorKind kind = spec_.tensors[i].kind;
        kind == TensorKind::app_write || kind == TensorKind::app_read)
      SF_TRY(make_tensor({i}));
  for (const OpSpec& op : spec_.ops)
    if (Status s = add_node(op); !s.ok()) return s.take_error().during(cat("adding ", op.type, " ", op.name));
  return finalize(profile);
}

Status GraphBuilder::create(abi::Handle context, const GraphOptions& options) {
  const HtpGraphConfigs configs(options);
  const LogCapture log;
  const LibraryTimer timer;
  if (const abi::ErrorCode e = functions_.graph_create(context, spec_.name.c_str(), configs.list(), &graph_);
      e != 0)
    return device_error("graphCreate", e, log.reason());
  return {};
}

Status GraphBuilder::register_tensor(abi::Tensor& tensor) {
  const LogCapture log;
  const LibraryTimer timer;
  if (const abi::ErrorCode e = functions_.tensor_create_graph(graph_, &tensor); e != 0)
    return device_error("tensorCreateGraphTensor", e, log.reason())
        .during(cat("making tensor ", tensor.v1.name));
  tensor.v1.buffer = {};  // the library has its copy
  return {};
}

Status GraphBuilder::make_static(const TensorSpec& spec, abi::Tensor& tensor) {
  Result<Tensor> data = materialize(spec.data);
  if (!data.ok()) return data.take_error().during(cat("making constant ", spec.name));
  SF_ASSIGN(const size_t bytes, tensor_bytes(spec.name, spec.dtype, spec.dims));
  if (data->size_bytes() != bytes)
    return fail(Code::Internal, "constant ", spec.name, " has ", data->size_bytes(), " bytes, expected ",
                bytes, " of ", to_text(spec));
  tensor.v1.buffer = {const_cast<std::byte*>(data->data), static_cast<uint32_t>(bytes)};
  return register_tensor(tensor);
}

Status GraphBuilder::make_tensor(TensorRef ref) {
  if (made_[ref.index]) return {};
  made_[ref.index] = true;
  const TensorSpec& spec = spec_.tensor(ref);
  abi::Tensor& tensor = tensors_[ref.index] = abi_tensor(spec, arrays_);
  return spec.kind == TensorKind::constant ? make_static(spec, tensor) : register_tensor(tensor);
}

Result<abi::Tensor> GraphBuilder::operand(TensorRef ref) {
  if (!ref.valid()) return null_tensor();
  if (ref.index >= tensors_.size())
    return fail(Code::Internal, "operand ", ref.index, " of ", tensors_.size(), " tensors");
  SF_TRY(make_tensor(ref));
  return tensors_[ref.index];
}

Status GraphBuilder::add_node(const OpSpec& spec) {
  const Stage stage({kPreparing, spec_.name, ", adding ", spec.type, " ", spec.name});
  AbiOp op(spec);
  for (size_t i = 0; i < operand_count(spec); ++i) {
    SF_ASSIGN(const abi::Tensor t, operand(spec.in[i]));
    op.inputs.push_back(t);
  }
  for (const TensorRef ref : spec.out) {
    SF_ASSIGN(const abi::Tensor t, operand(ref));
    op.outputs.push_back(t);
  }
  for (const Param& p : spec.params)
    if (const auto* words = std::get_if<Words>(&p.value)) {
      abi::Tensor t = abi_tensor(*words, names_.emplace_back(cat(spec.name, "_", p.name)).c_str());
      SF_TRY(register_tensor(t));
      op.add_tensor(p.name, t);
    } else {
      op.add_scalar(p);
    }
  const LogCapture log;
  const LibraryTimer timer;
  if (const abi::ErrorCode e = functions_.graph_add_node(graph_, op.get()); e != 0)
    return device_error("graphAddNode", e, log.reason());
  return {};
}

Status GraphBuilder::finalize(const Profile* profile) {
  const Stage stage({kPreparing, spec_.name});
  const QuietOutput quiet;
  const LogCapture log;
  const LibraryTimer timer;
  if (const abi::ErrorCode e =
          functions_.graph_finalize(graph_, profile ? profile->handle() : nullptr, nullptr);
      e != 0)
    return device_error("graphFinalize", e, log.reason());
  return {};
}

Result<GraphInfo> GraphBuilder::info() const {
  GraphInfo out;
  out.name = spec_.name;
  for (uint32_t i = 0; i < spec_.tensors.size(); ++i) {
    const TensorSpec& t = spec_.tensors[i];
    const bool input = t.kind == TensorKind::app_write;
    if (!input && t.kind != TensorKind::app_read) continue;
    SF_ASSIGN(const size_t bytes, tensor_bytes(t.name, t.dtype, t.dims));
    (input ? out.inputs : out.outputs)
        .push_back({t.name, tensors_[i].v1.id, t.kind, t.dtype, t.dims, t.quantization, bytes});
  }
  return out;
}

}  // namespace sixfold::qnn
