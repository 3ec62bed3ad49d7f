#include "sixfold/qnn/context.h"

#include "sixfold/qnn/error.h"
#include "sixfold/qnn/graph_builder.h"
#include "sixfold/qnn/guard.h"
#include "sixfold/qnn/log.h"
#include "sixfold/qnn/stage.h"

namespace sixfold::qnn {
namespace {

// Tensors are found by id; of the rest only dims are looked at.
abi::Tensor execute_tensor(const TensorInfo& info) {
  abi::Tensor t{};
  t.version = 1;
  t.v1.id = info.id;
  t.v1.name = info.name.c_str();
  t.v1.kind = info.kind;
  t.v1.dtype = info.dtype;
  t.v1.quantize.definition = abi::kUndefined;
  t.v1.quantize.encoding = abi::Encoding::undefined;
  t.v1.rank = static_cast<uint32_t>(info.dims.size());
  t.v1.dims = info.dims.data();
  return t;
}

template <typename Bytes>
Status bind_buffers(std::vector<abi::Tensor>& tensors, const std::vector<TensorInfo>& infos,
                    std::span<const Bytes> given, const char* what) {
  if (given.size() != tensors.size())
    return invalid_argument("the graph has ", tensors.size(), " ", what, "s, got ", given.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (given[i].size() != infos[i].size_bytes)
      return invalid_argument(what, " ", i, " (", infos[i].name, ") has ", infos[i].size_bytes,
                              " bytes, got ", given[i].size());
    tensors[i].v1.buffer = {const_cast<std::byte*>(given[i].data()), static_cast<uint32_t>(given[i].size())};
  }
  return {};
}

}  // namespace

ContextGraph::ContextGraph(const abi::Functions& functions, abi::Handle handle, GraphInfo info)
    : functions_(functions), handle_(handle), info_(std::move(info)) {
  now_in_ = info_.inputs;
  now_out_ = info_.outputs;
  for (const TensorInfo& t : now_in_) inputs_.push_back(execute_tensor(t));
  for (const TensorInfo& t : now_out_) outputs_.push_back(execute_tensor(t));
}

namespace {

// dims stay where they are, since a tensor of the API points to them.
Status resize(TensorInfo& now, const TensorInfo& most, std::span<const int64_t> sizes) {
  bool fits = sizes.size() == most.dims.size();
  for (size_t d = 0; fits && d < sizes.size(); ++d)
    fits = d < most.dynamic.size() && most.dynamic[d] ? sizes[d] >= 0 && sizes[d] <= most.dims[d]
                                                      : sizes[d] == most.dims[d];
  if (!fits)
    return invalid_argument("tensor ", most.name, " of the graph cannot be ",
                            std::vector<int64_t>(sizes.begin(), sizes.end()), ", it was prepared as ",
                            most.dims);
  for (size_t d = 0; d < sizes.size(); ++d) now.dims[d] = static_cast<uint32_t>(sizes[d]);
  SF_ASSIGN(now.size_bytes, tensor_bytes(now.name, now.dtype, now.dims));
  return {};
}

}  // namespace

Status ContextGraph::resize_input(size_t i, std::span<const int64_t> sizes) {
  return resize(now_in_[i], info_.inputs[i], sizes);
}
Status ContextGraph::resize_output(size_t i, std::span<const int64_t> sizes) {
  return resize(now_out_[i], info_.outputs[i], sizes);
}

Status ContextGraph::execute(std::span<const std::span<const std::byte>> inputs,
                             std::span<const std::span<std::byte>> outputs, const Profile* profile) {
  SF_TRY(bind_buffers(inputs_, now_in_, inputs, "input"));
  SF_TRY(bind_buffers(outputs_, now_out_, outputs, "output"));
  const Stage stage({"running graph ", name()});
  const LogCapture log;
  const LibraryTimer timer;
  const abi::ErrorCode e = functions_.graph_execute(
      handle_, inputs_.data(), static_cast<uint32_t>(inputs_.size()), outputs_.data(),
      static_cast<uint32_t>(outputs_.size()), profile ? profile->handle() : nullptr, nullptr);
  if (e != 0) return device_error("graphExecute", e, log.reason()).during(cat("running graph ", name()));
  return {};
}

Result<Context> Context::build(const Backend& backend, std::span<const GraphSpec> graphs,
                               const ContextOptions& options) {
  SF_TRY(backend.select());
  const abi::Functions& f = backend.functions();
  Context out;
  out.backend_ = &backend;
  {
    abi::HtpContextConfig sharing{};
    sharing.option = abi::HtpContextOption::weight_sharing;
    sharing.flag = true;
    const abi::Config config{.option = 0, .custom = &sharing};
    const abi::Config* const configs[] = {&config, nullptr};
    const QuietOutput quiet;
    const LogCapture log;
    const LibraryTimer timer;
    abi::Handle handle = nullptr;
    if (const abi::ErrorCode e = f.context_create(backend.handle(), backend.device(),
                                                  options.weight_sharing ? configs : nullptr, &handle);
        e != 0)
      return device_error("contextCreate", e, log.reason());
    out.handle_ = {f, handle};
  }
  for (const GraphSpec& spec : graphs) {
    GraphBuilder builder(backend, spec);
    if (Status s = builder.build(out.handle_.get(), options.graph, options.profile); !s.ok())
      return s.take_error().during(cat("preparing graph ", spec.name));
    SF_ASSIGN(GraphInfo info, builder.info());
    out.graphs_.emplace_back(f, builder.handle(), std::move(info));
  }
  return out;
}

Result<Context> Context::load(const Backend& backend, std::span<const std::byte> bytes,
                              const BinaryInfo& info, const ContextOptions& options) {
  const abi::Functions& f = backend.functions();
  Context out;
  out.backend_ = &backend;
  const Stage stage({"loading a context binary"});
  const QuietOutput quiet;
  const LogCapture log;
  const LibraryTimer timer;
  abi::Handle handle = nullptr;
  const abi::Handle profile = options.profile ? options.profile->handle() : nullptr;
  const abi::Config stay{.option = abi::kContextPersistentBinary, .priority = 1};
  const abi::Config* const configs[] = {&stay, nullptr};
  if (const abi::ErrorCode e =
          f.context_from_binary(backend.handle(), backend.device(), options.bytes_stay ? configs : nullptr,
                                bytes.data(), bytes.size(), &handle, profile);
      e != 0)
    return device_error("contextCreateFromBinary", e, log.reason());
  out.handle_ = {f, handle};
  for (const GraphInfo& graph : info.graphs) {
    abi::Handle g = nullptr;
    if (const abi::ErrorCode e = f.graph_retrieve(handle, graph.name.c_str(), &g); e != 0)
      return device_error("graphRetrieve", e, log.reason()).during(cat("looking for graph ", graph.name));
    out.graphs_.emplace_back(f, g, graph);
  }
  return out;
}

Result<Bytes> Context::binary(size_t room) const {
  const abi::Functions& f = backend_->functions();
  const Stage stage({kPreparing, graphs_.empty() ? "" : graphs_.front().name(), ", writing its context"});
  const QuietOutput quiet;
  const LogCapture log;
  const LibraryTimer timer;
  uint64_t size = 0, written = 0;
  if (const abi::ErrorCode e = f.context_binary_size(handle_.get(), &size); e != 0)
    return device_error("contextGetBinarySize", e, log.reason());
  Bytes out(room + size);
  if (const abi::ErrorCode e = f.context_binary(handle_.get(), out.data() + room, size, &written); e != 0)
    return device_error("contextGetBinary", e, log.reason());
  if (written > size) return fail(Code::Device, "contextGetBinary wrote ", written, " bytes into ", size);
  out.resize(room + written);
  return out;
}

Result<Bytes> prepare_binary(const Backend& backend, std::span<const GraphSpec> graphs,
                             const ContextOptions& options, size_t room) {
  const auto prepare = [&](const Backend& by) -> Result<Bytes> {
    SF_ASSIGN(const Context context, Context::build(by, graphs, options));
    return context.binary(room);
  };
  if (!crashed_before()) return prepare(backend);
  // A backend of its own: threads of this one are not in the child.
  constexpr double kLimitSeconds = 3600;
  return run_guarded("preparing a graph", kLimitSeconds, [&]() -> Result<Bytes> {
    SF_ASSIGN(const Backend own, Backend::open(backend.library(), backend.soc()));
    return prepare(own);
  });
}

ContextGraph* Context::graph(std::string_view name) {
  for (ContextGraph& g : graphs_)
    if (g.name() == name) return &g;
  return nullptr;
}

}  // namespace sixfold::qnn
