#include "sixfold/qnn/binary_info.h"

#include <cstring>

#include "sixfold/qnn/error.h"
#include "sixfold/qnn/log.h"
#include "sixfold/qnn/soc.h"

namespace sixfold::qnn {
namespace {

// More than any real binary has; what is above comes from damaged bytes.
constexpr uint32_t kMostGraphs = 1024, kMostTensors = 65536, kMostRank = 16, kMostChannels = 1u << 20;

class SystemContext {
 public:
  explicit SystemContext(const abi::SystemFunctions& functions) : functions_(functions) {}
  ~SystemContext() {
    if (handle_) functions_.context_free(handle_);
  }
  SystemContext(const SystemContext&) = delete;
  SystemContext& operator=(const SystemContext&) = delete;
  abi::Handle handle_ = nullptr;

 private:
  const abi::SystemFunctions& functions_;
};

Result<Quantization> read_quantization(const abi::Quantize& q) {
  if (q.definition != abi::kDefined) return Quantization{};
  switch (q.encoding) {
    case abi::Encoding::scale_offset:
      return Quantization{ScaleOffset{q.all.scale, q.all.offset}};
    case abi::Encoding::bit_width_scale_offset:
      return Quantization{BitWidthScaleOffset{q.bit_width.bits, {q.bit_width.scale, q.bit_width.offset}}};
    case abi::Encoding::axis_scale_offset:
      if (q.axis.count > kMostChannels || (q.axis.count > 0 && !q.axis.channels))
        return invalid_model("an encoding has ", q.axis.count, " channels, expected at most ", kMostChannels);
      return Quantization{AxisScaleOffset{q.axis.axis, {q.axis.channels, q.axis.channels + q.axis.count}}};
    default:
      return Quantization{};  // others are for weights, never for what a graph takes or gives
  }
}

Result<TensorInfo> read_tensor(const abi::Tensor& t) {
  if (t.version != 1 && t.version != 2)
    return invalid_model("a tensor of the binary has version ", t.version, ", expected 1 or 2");
  TensorInfo out;
  out.name = t.v1.name ? t.v1.name : "";
  out.id = t.v1.id;
  out.kind = t.v1.kind;
  out.dtype = t.v1.dtype;
  if (t.v1.rank > kMostRank || (t.v1.rank > 0 && !t.v1.dims))
    return invalid_model("tensor ", out.name, " of the binary has rank ", t.v1.rank, ", expected at most ",
                         kMostRank);
  out.dims.assign(t.v1.dims, t.v1.dims + t.v1.rank);
  SF_ASSIGN(out.quantization, read_quantization(t.v1.quantize));
  SF_ASSIGN(out.size_bytes, tensor_bytes(out.name, out.dtype, out.dims));
  if (t.version == 2 && t.v2.is_dynamic) out.dynamic.assign(t.v2.is_dynamic, t.v2.is_dynamic + t.v1.rank);
  return out;
}

Result<std::vector<TensorInfo>> read_tensors(const abi::Tensor* list, uint32_t count) {
  if (count > kMostTensors || (count > 0 && !list))
    return invalid_model("a graph of the binary has ", count, " inputs or outputs, expected at most ",
                         kMostTensors);
  std::vector<TensorInfo> out;
  for (uint32_t i = 0; i < count; ++i) {
    SF_ASSIGN(TensorInfo t, read_tensor(list[i]));
    out.push_back(std::move(t));
  }
  return out;
}

Result<BinaryInfo> read_info(const abi::BinaryInfo& info) {
  if (info.version != 3)
    return unsupported("the context binary has an info of version ", info.version,
                       ", expected 3 (SDK 2.47 and later)");
  BinaryInfo out;
  out.backend_id = info.backend_id;
  out.build_id = info.build_id ? info.build_id : "";
  out.core_api = info.core_api;
  out.backend_api = info.backend_api;
  out.blob_version = info.blob_version;
  out.soc_model = info.soc_model;
  if (info.meta && info.meta_size >= sizeof(abi::HtpContextMeta)) {
    abi::HtpContextMeta meta;
    std::memcpy(&meta, info.meta, sizeof meta);
    out.htp_arch = meta.dsp_arch;
  }
  if (info.graph_count > kMostGraphs || (info.graph_count > 0 && !info.graphs))
    return invalid_model("the context binary has ", info.graph_count, " graphs, expected at most ",
                         kMostGraphs);
  for (uint32_t i = 0; i < info.graph_count; ++i) {
    SF_ASSIGN(GraphInfo graph, read_graph_info(info.graphs[i]));
    out.graphs.push_back(std::move(graph));
  }
  return out;
}

}  // namespace

Result<GraphInfo> read_graph_info(const abi::GraphInfo& g) {
  GraphInfo out;
  out.name = g.name ? g.name : "";
  SF_ASSIGN(out.inputs, read_tensors(g.inputs, g.input_count));
  SF_ASSIGN(out.outputs, read_tensors(g.outputs, g.output_count));
  if (g.version >= 3 && g.blob && g.blob_size >= sizeof(abi::HtpGraphBlob)) {
    abi::HtpGraphBlob blob;
    std::memcpy(&blob, g.blob, sizeof blob);
    if (blob.version == 1) {
      out.spill_fill_bytes = blob.spill_fill_bytes;
      out.vtcm_bytes = blob.vtcm_bytes;
      out.optimization_level = blob.optimization_level;
      out.hvx_threads = blob.hvx_threads;
      out.dlbc = blob.dlbc != 0;
    }
  }
  return out;
}

const GraphInfo* BinaryInfo::graph(std::string_view name) const {
  for (const GraphInfo& g : graphs)
    if (g.name == name) return &g;
  return nullptr;
}

Result<size_t> tensor_bytes(std::string_view name, DataType dtype, std::span<const uint32_t> dims) {
  uint64_t bytes = size_of(dtype);
  if (bytes == 0)
    return unsupported("tensor ", name, " has QNN data type ", static_cast<uint32_t>(dtype),
                       ", which has no size here");
  for (const uint32_t d : dims)
    if (__builtin_mul_overflow(bytes, uint64_t{d}, &bytes) || bytes > UINT32_MAX)
      return unsupported("tensor ", name, " of ", to_text(dtype),
                         std::vector<uint32_t>(dims.begin(), dims.end()),
                         " is larger than the 4 GiB that the API can say");
  return static_cast<size_t>(bytes);
}

Result<BinaryInfo> read_binary_info(const SystemLibrary& system, std::span<const std::byte> bytes) {
  const abi::SystemFunctions& f = system.functions();
  const QuietOutput quiet;
  const LibraryTimer timer;
  SystemContext context(f);
  if (const abi::ErrorCode e = f.context_create(&context.handle_); e != 0)
    return device_error("systemContextCreate", e);
  const abi::BinaryInfo* info = nullptr;
  uint64_t size = 0;
  // Read only, whatever the signature says.
  auto* data = const_cast<std::byte*>(bytes.data());
  if (const abi::ErrorCode e = f.context_binary_info(context.handle_, data, bytes.size(), &info, &size);
      e != 0)
    return invalid_model("these ", bytes.size(), " bytes are no QNN context binary that ", system.path,
                         " reads: systemContextGetBinaryInfo failed with ", code_of(e), " (",
                         error_name(code_of(e)), ")");
  if (!info) return fail(Code::Device, "systemContextGetBinaryInfo gave nothing");
  return read_info(*info);
}

Status check_fits(const BinaryInfo& info, const Library& library, uint32_t soc) {
  if (info.backend_id != library.provider->backend_id)
    return unsupported("the context binary is for QNN backend ", info.backend_id, ", ", library.path,
                       " is backend ", library.provider->backend_id);
  const Version have = library.core_api();
  if (info.core_api.major != have.major || info.core_api.minor > have.minor)
    return unsupported("the context binary was made by QNN ", info.build_id, " (core API ", info.core_api,
                       "), the library is ", library.build_id, " (core API ", have,
                       "): a library loads its own and older binaries");
  if (soc != 0 && info.soc_model != 0 && info.soc_model != soc)
    return unsupported("the context binary is for ", describe_soc(info.soc_model), ", the device is ",
                       describe_soc(soc));
  return {};
}

}  // namespace sixfold::qnn
