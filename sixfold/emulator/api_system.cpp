// The system library's part: what a context binary says of itself, without a backend.
#include "sixfold/emulator/api_system.h"

#include <cstring>
#include <deque>

#include "sixfold/emulator/api.h"
#include "sixfold/emulator/binary.h"
#include "sixfold/qnn/abi_op.h"
#include "sixfold/qnn/soc.h"

namespace sixfold::emulator::api {
namespace {

// The info's structs point into this; it lives until its context is freed.
struct SystemObject {
  BinaryContent content;
  qnn::AbiArrays arrays;
  std::deque<qnn::TensorSpec> specs;
  std::deque<std::vector<abi::Tensor>> tensors;
  std::deque<abi::HtpGraphBlob> blobs;
  std::vector<abi::GraphInfo> graphs;
  abi::HtpContextMeta meta{};
  std::string soc_name;
  abi::BinaryInfo info{};
};
void list_tensors(SystemObject& out, const GraphDescription& graph, TensorKind kind) {
  auto& list = out.tensors.emplace_back();
  for (uint32_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorDef& t = graph.tensors[i];
    if (t.kind != kind) continue;
    const qnn::TensorSpec& spec = out.specs.emplace_back(qnn::TensorSpec{
        .name = t.name, .kind = t.kind, .dtype = t.dtype, .dims = t.dims, .quantization = t.quantization});
    list.push_back(qnn::abi_tensor(spec, out.arrays));
    list.back().v1.id = i + 1;
  }
}

std::shared_ptr<SystemObject> describe(BinaryContent content, uint64_t size) {
  auto object = std::make_shared<SystemObject>();
  SystemObject& out = *object;
  out.content = std::move(content);
  for (const GraphDescription& g : out.content.graphs) {
    list_tensors(out, g, TensorKind::app_write);
    list_tensors(out, g, TensorKind::app_read);
    const auto& inputs = out.tensors[out.tensors.size() - 2];
    const auto& outputs = out.tensors.back();
    out.blobs.push_back({.version = 1,
                         .vtcm_bytes = g.vtcm_mb << 20,
                         .optimization_level = g.optimization_level,
                         .hvx_threads = g.hvx_threads});
    out.graphs.push_back({.version = 3,
                          .name = g.name.c_str(),
                          .input_count = static_cast<uint32_t>(inputs.size()),
                          .inputs = inputs.data(),
                          .output_count = static_cast<uint32_t>(outputs.size()),
                          .outputs = outputs.data(),
                          .blob_size = sizeof(abi::HtpGraphBlob),
                          .blob = &out.blobs.back(),
                          .first_op = 0,
                          .last_op = static_cast<uint32_t>(g.ops.size())});
  }
  out.meta = {1, out.content.device.arch};
  const qnn::Soc* soc = qnn::find_soc(out.content.device.soc);
  out.soc_name = soc ? soc->name : "";
  out.info.version = 3;
  out.info.backend_id = abi::kHtpBackend;
  out.info.build_id = kBuildId;
  out.info.core_api = kCoreApi;
  out.info.backend_api = kHtpApi;
  out.info.soc_name = out.soc_name.c_str();
  out.info.blob_version = kBlobVersion;
  out.info.blob_size = size;
  out.info.graph_count = static_cast<uint32_t>(out.graphs.size());
  out.info.graphs = out.graphs.data();
  out.info.meta_size = sizeof out.meta;
  out.info.meta = &out.meta;
  out.info.soc_model = out.content.device.soc;
  return object;
}

struct SystemHandle {
  std::mutex mutex;
  std::vector<std::shared_ptr<SystemObject>> infos;  // all that were given out
};
Registry<SystemHandle>& handles() {
  static auto* all = new Registry<SystemHandle>;
  return *all;
}

}  // namespace

ErrorCode system_context_create(Handle* out) {
  if (!out) return kSystemArgument;
  *out = handles().add(std::make_shared<SystemHandle>());
  return kOk;
}

ErrorCode system_meta_data(Handle handle, const void* bytes, uint64_t size, const abi::BinaryInfo** out) {
  const auto object = handles().find(handle);
  if (!object || !bytes || size == 0 || !out) return kSystemArgument;
  Result<BinaryContent> content = read_binary({static_cast<const std::byte*>(bytes), size});
  if (!content.ok()) return kSystemMalformed;
  const std::lock_guard lock(object->mutex);
  object->infos.push_back(describe(std::move(content).value(), size));
  *out = &object->infos.back()->info;
  return kOk;
}

ErrorCode system_binary_info(Handle handle, void* bytes, uint64_t size, const abi::BinaryInfo** out,
                             uint64_t* info_size) {
  const ErrorCode e = system_meta_data(handle, bytes, size, out);
  if (e == kOk && info_size) *info_size = sizeof(abi::BinaryInfo);
  return e;
}

ErrorCode system_context_free(Handle handle) { return handles().remove(handle) ? kOk : kSystemArgument; }

namespace {
struct ProfileFile {};
Registry<ProfileFile>& profile_files() {
  static auto* all = new Registry<ProfileFile>;
  return *all;
}
}  // namespace

ErrorCode system_profile_create(ProfileTarget, const void*, uint32_t, Handle* out) {
  if (!out) return kSystemArgument;
  *out = profile_files().add(std::make_shared<ProfileFile>());
  return kOk;
}
ErrorCode system_profile_serialize(Handle target, const void* const*, uint64_t) {
  return profile_files().find(target) ? kOk : kSystemArgument;
}
ErrorCode system_profile_free(Handle target) {
  return profile_files().remove(target) ? kOk : kSystemArgument;
}

ErrorCode system_tensor_footprint(abi::Tensor tensor, uint64_t* out) {
  if (!out || tensor.v1.rank > 16 || (tensor.v1.rank > 0 && !tensor.v1.dims)) return kSystemArgument;
  uint64_t bytes = qnn::size_of(tensor.v1.dtype);
  for (uint32_t i = 0; i < tensor.v1.rank; ++i)
    if (__builtin_mul_overflow(bytes, uint64_t{tensor.v1.dims[i]}, &bytes)) return kSystemArgument;
  *out = bytes;
  return kOk;
}

}  // namespace sixfold::emulator::api
