#include "sixfold/qnn/backend.h"

#include <sys/mman.h>

#include "sixfold/qnn/abi_op.h"
#include "sixfold/qnn/error.h"
#include "sixfold/qnn/log.h"
#include "sixfold/qnn/reason.h"
#include "sixfold/qnn/stage.h"

namespace sixfold::qnn {
namespace {

// Everything that decides an answer, as bytes.
class Content {
 public:
  template <typename T>
  void add(const T& value) requires std::is_trivially_copyable_v<T> {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <typename T>
  void add_all(const std::vector<T>& values) {
    add(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void add(std::string_view text) {
    add(text.size());
    bytes_ += text;
  }
  void add(const TensorSpec& t) {
    add(t.kind);
    add(t.dtype);
    add_all(t.dims);
    add(t.quantization.index());
    std::visit([this](const auto& q) { add_quantization(q); }, t.quantization);
  }
  void add(const Param& p) {
    add(std::string_view(p.name));
    add(p.value.index());
    std::visit(
        [this](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, Words>) {
            add(v.dtype);
            add_all(v.dims);
            add_all(v.values);
          } else {
            add(v);
          }
        },
        p.value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  void add_quantization(std::monostate) {}
  void add_quantization(const ScaleOffset& q) { add(q); }
  void add_quantization(const AxisScaleOffset& q) {
    add(q.axis);
    add_all(q.channels);
  }
  void add_quantization(const BitWidthScaleOffset& q) {
    add(q.bits);
    add(q.all);
  }
  void add_quantization(const BitWidthAxisScaleOffset& q) {
    add(q.bits);
    add(q.axis);
    add_all(q.channels);
  }
  void add_quantization(const BlockExpansion& q) {
    add(q.axis);
    add(q.blocks);
    add(q.scale_bits);
    add_all(q.channels);
    add_all(q.block_scales);
  }
  std::string bytes_;
};

std::string content_of(const GraphSpec& graph, const OpSpec& op) {
  Content content;
  content.add(std::string_view(op.type));
  content.add(op.in.size());
  for (const TensorRef ref : op.in) {
    content.add(ref.valid());
    if (ref.valid()) content.add(graph.tensor(ref));
  }
  content.add(op.out.size());
  for (const TensorRef ref : op.out) content.add(graph.tensor(ref));
  for (const Param& p : op.params) content.add(p);
  return content.take();
}

// Zeros for static tensors: the library wants no data of them to answer, but may look at it. Pages that are
// only read cost no memory.
class Zeros {
 public:
  ~Zeros() {
    for (const auto& [data, bytes] : mapped_) ::munmap(data, bytes);
  }
  Zeros() = default;
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;

  void point_to(abi::Tensor& t) {
    uint64_t bytes = size_of(t.v1.dtype);
    for (uint32_t i = 0; i < t.v1.rank; ++i)
      if (__builtin_mul_overflow(bytes, uint64_t{t.v1.dims[i]}, &bytes)) return;
    if (bytes == 0 || bytes > UINT32_MAX) return;
    void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return;
    mapped_.emplace_back(data, bytes);
    t.v1.buffer = {data, static_cast<uint32_t>(bytes)};
  }

 private:
  std::vector<std::pair<void*, size_t>> mapped_;
};

struct LastDevice {
  const abi::Provider* provider = nullptr;
  uint32_t soc = 0;
  friend bool operator==(const LastDevice&, const LastDevice&) = default;
};
LastDevice& last_device() {
  static LastDevice last;
  return last;
}

}  // namespace

Result<Backend> Backend::open(Library library, uint32_t soc, abi::LogLevel level) {
  Backend out(std::move(library), soc);
  const abi::Functions& f = out.functions();
  const QuietOutput quiet;
  const LogCapture log;
  const LibraryTimer timer;
  abi::Handle handle = nullptr;
  if (const abi::ErrorCode e = f.log_create(log_function(), static_cast<uint32_t>(level), &handle); e != 0)
    return device_error("logCreate", e);
  out.log_ = {f, handle};
  handle = nullptr;
  if (const abi::ErrorCode e = f.backend_create(out.log_.get(), nullptr, &handle); e != 0)
    return device_error("backendCreate", e, log.reason());
  out.backend_ = {f, handle};
  SF_ASSIGN(out.device_, out.make_device());
  return out;
}

Result<DeviceHandle> Backend::make_device() const {
  const QuietOutput quiet;
  const LogCapture log;
  const LibraryTimer timer;
  const abi::HtpDeviceConfig custom{0, soc_, soc_, 0};
  const abi::Config config{.option = 0, .custom = &custom};
  const abi::Config* const configs[] = {&config, nullptr};
  abi::Handle handle = nullptr;
  last_device() = {};  // also when it fails
  if (const abi::ErrorCode e = functions().device_create(log_.get(), configs, &handle); e != 0)
    return device_error("deviceCreate", e, log.reason()).during(cat("making a device for SoC ", soc_));
  last_device() = {library_.provider, soc_};
  return DeviceHandle(functions(), handle);
}

Status Backend::select() const {
  if (last_device() == LastDevice{library_.provider, soc_}) return {};
  SF_TRY(make_device());  // freeing it changes nothing
  return {};
}

Result<std::string> Backend::ask(const GraphSpec& graph, const OpSpec& spec) const {
  SF_TRY(select());
  AbiArrays arrays;
  AbiOp op(spec);
  Zeros zeros;
  for (size_t i = 0; i < operand_count(spec); ++i) {
    const TensorRef ref = spec.in[i];
    abi::Tensor& t =
        op.inputs.emplace_back(ref.valid() ? abi_tensor(graph.tensor(ref), arrays) : null_tensor());
    t.v1.id = kInputIds + static_cast<uint32_t>(i);
    if (t.v1.kind == TensorKind::constant) zeros.point_to(t);
  }
  for (size_t i = 0; i < spec.out.size(); ++i) {
    abi::Tensor& t = op.outputs.emplace_back(abi_tensor(graph.tensor(spec.out[i]), arrays));
    t.v1.id = kOutputIds + static_cast<uint32_t>(i);
  }
  for (const Param& p : spec.params)
    if (const auto* words = std::get_if<Words>(&p.value))
      op.add_tensor(p.name, abi_tensor(*words, p.name));
    else
      op.add_scalar(p);

  const Stage stage({"validating ", spec.type, " ", spec.name});
  const LogCapture log;
  const LibraryTimer timer;
  const abi::ErrorCode e = functions().backend_validate_op(backend_.get(), op.get());
  if (e == 0) return std::string();
  const uint32_t code = code_of(e);
  if (code == 4005) return cat("HTP has no op ", spec.type);
  if (code != 3110) return device_error("backendValidateOpConfig", e, log.reason());
  const std::string reason = refusal(log.lines());
  return cat("HTP refuses ", spec.type, ": ", reason.empty() ? "the library gave no reason" : reason);
}

Status Backend::validate(const GraphSpec& graph, const OpSpec& op) {
  std::string content = content_of(graph, op);
  auto at = answers_.find(content);
  if (at == answers_.end()) {
    ++asked_;
    SF_ASSIGN(std::string reason, ask(graph, op));
    at = answers_.emplace(std::move(content), std::move(reason)).first;
  }
  if (at->second.empty()) return {};
  return unsupported(at->second);
}

Result<std::vector<std::string>> Backend::supported_ops() const {
  const LibraryTimer timer;
  uint32_t count = 0;
  const abi::OpName* list = nullptr;
  if (!functions().backend_supported_ops) return fail(Code::Device, "the library cannot list its ops");
  if (const abi::ErrorCode e = functions().backend_supported_ops(handle(), &count, &list); e != 0)
    return device_error("backendGetSupportedOperations", e);
  std::vector<std::string> out;
  for (uint32_t i = 0; list && i < count; ++i)
    if (list[i].name) out.emplace_back(list[i].name);
  return out;
}

}  // namespace sixfold::qnn
