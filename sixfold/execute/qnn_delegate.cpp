#include "sixfold/execute/qnn_delegate.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>

#include "sixfold/execute/qnn_binary.h"

namespace sixfold {
namespace {

// "input_12_x@0" -> 12; nothing for a name of another form, whose place is where it stands.
std::optional<uint64_t> number_in(std::string_view name) {
  const size_t at = name.find('_');
  if (at == std::string_view::npos) return {};
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(name.data() + at + 1, name.data() + name.size(), n);
  return error == std::errc() ? std::optional(n) : std::nullopt;
}

bool is_mutable_buffer(std::string_view name) { return name.find("mutbuf_") != std::string_view::npos; }

// "input_3_mutbuf_12_x@0" -> "mutbuf_12"
std::string buffer_key(std::string_view name) {
  const size_t at = name.find("mutbuf_");
  return std::string(name.substr(at, name.find('_', at + 7) - at));
}

// Extents without those that are 1: what decides where elements are.
template <typename T>
std::vector<uint64_t> extents(const T& dims) {
  std::vector<uint64_t> out;
  for (const auto d : dims)
    if (d != 1) out.push_back(static_cast<uint64_t>(d));
  return out;
}

// The names of QNN's events as ExecuTorch writes them.
std::string name_with_unit(const qnn::Event& event) {
  switch (event.unit) {
    case qnn::EventUnit::microseconds:
    case qnn::EventUnit::bytes:
    case qnn::EventUnit::count:
      return cat(event.name, " (", qnn::to_text(event.unit), ")");
    default:
      return event.name;
  }
}

// The API's numbers: cycles of the whole graph on the accelerator, and of one op in it.
constexpr uint32_t kAcceleratorCycles = 3003, kNode = 404;

// One graph of a binary, bound to the arguments of a method's call.
class QnnDelegate {
 public:
  QnnDelegate(std::shared_ptr<QnnBinary> binary, qnn::ContextGraph* graph, const pte::QnnOptions& options)
      : binary_(std::move(binary)), graph_(graph), options_(options) {}

  // Which argument is which tensor, as ExecuTorch's delegate has it: inputs by the number in their name,
  // outputs as they stand. A mutable buffer of the graph takes no argument and lives here, and so does what
  // is an output only to be looked at.
  Status bind() {
    const auto& in = graph_->info().inputs;
    const auto& out = graph_->info().outputs;
    std::vector<size_t> order(in.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const bool numbered =
        !options_.from_context_binary &&
        std::all_of(in.begin(), in.end(), [](const auto& t) { return number_in(t.name).has_value(); });
    if (numbered)
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t a, size_t b) { return number_in(in[a].name) < number_in(in[b].name); });
    inputs_.resize(in.size());
    outputs_.resize(out.size());
    for (const size_t i : order) {
      if (!is_mutable_buffer(in[i].name)) {
        input_args_.push_back(i);
        continue;
      }
      buffers_.push_back({buffer_key(in[i].name), std::vector<std::byte>(in[i].size_bytes)});
      inputs_[i] = buffers_.back().bytes;
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (is_mutable_buffer(out[i].name)) {
        SF_TRY(bind_buffer(i));
      } else if (options_.dump_intermediates && !out[i].name.starts_with("output_")) {
        intermediates_.emplace_back(out[i].size_bytes);
        outputs_[i] = intermediates_.back();
      } else {
        output_args_.push_back(i);
      }
    }
    return {};
  }

  Status check(std::span<MethodValue* const> args) const {
    if (args.size() != input_args_.size() + output_args_.size())
      return invalid_model("the delegate is called with ", args.size(), " arguments, its graph ",
                           graph_->name(), " has ", input_args_.size(), " inputs and ", output_args_.size(),
                           " outputs");
    for (size_t i = 0; i < args.size(); ++i) SF_TRY(check_argument(*args[i], tensor_of(i)));
    return {};
  }

  Status execute(std::span<MethodValue* const> args) {
    SF_TRY(check(args));
    const std::lock_guard lock(binary_->running);
    for (size_t i = 0; i < args.size(); ++i) {
      auto& t = std::get<TensorState>(*args[i]);
      const qnn::TensorInfo& info = tensor_of(i);
      if (!t.data && t.size_bytes() > 0)
        return invalid_argument("argument ", info.name, " of the delegate has no memory");
      const std::span<std::byte> bytes{t.data, t.size_bytes()};
      const bool is_input = i < input_args_.size();
      const size_t at = is_input ? input_args_[i] : output_args_[i - input_args_.size()];
      if (!info.dynamic.empty())
        SF_TRY(is_input ? graph_->resize_input(at, t.sizes) : graph_->resize_output(at, t.sizes));
      if (is_input)
        inputs_[at] = bytes;
      else
        outputs_[at] = bytes;
    }
    return graph_->execute(inputs_, outputs_, binary_->profile.get());
  }

  void reset() {
    for (Buffer& b : buffers_) std::fill(b.bytes.begin(), b.bytes.end(), std::byte{0});
  }

  Result<DelegateReport> report() const {
    DelegateReport out;
    for (size_t i = 0; options_.dump_intermediates && i < outputs_.size(); ++i) {
      const qnn::TensorInfo& t = graph_->info().outputs[i];
      out.tensors.push_back({t.name,
                             qnn::storage_of(t.dtype),
                             Shape(t.dims.begin(), t.dims.end()),
                             {outputs_[i].begin(), outputs_[i].end()}});
    }
    if (!binary_->profile) return out;
    SF_ASSIGN(const std::vector<qnn::Event> events, binary_->profile->events());
    for (const qnn::Event& event : events) {
      out.events.push_back({name_with_unit(event), event.value});
      if (event.type != kAcceleratorCycles) continue;
      for (const qnn::Event& part : event.parts)
        if (part.type == kNode) out.events.push_back({name_with_unit(part), part.value});
    }
    return out;
  }

 private:
  struct Buffer {
    std::string key;
    std::vector<std::byte> bytes;
  };

  Status bind_buffer(size_t i) {
    const qnn::TensorInfo& out = graph_->info().outputs[i];
    const auto buffer = std::find_if(buffers_.begin(), buffers_.end(),
                                     [&](const Buffer& b) { return b.key == buffer_key(out.name); });
    if (buffer == buffers_.end() || buffer->bytes.size() != out.size_bytes)
      return invalid_model("output ", out.name, " of the delegate has no input of its size to replace");
    outputs_[i] = buffer->bytes;
    return {};
  }

  const qnn::TensorInfo& tensor_of(size_t argument) const {
    return argument < input_args_.size()
               ? graph_->info().inputs[input_args_[argument]]
               : graph_->info().outputs[output_args_[argument - input_args_.size()]];
  }

  static Status check_argument(const MethodValue& value, const qnn::TensorInfo& info) {
    const auto* t = std::get_if<TensorState>(&value);
    if (!t)
      return invalid_model("argument ", info.name, " of the delegate is ", kind_name(value),
                           ", not a tensor");
    const DType storage = qnn::storage_of(info.dtype);
    const bool same_type = size_of(t->dtype) == size_of(storage) && is_float(t->dtype) == is_float(storage);
    bool same_shape = extents(t->sizes) == extents(info.dims);
    if (!info.dynamic.empty()) {
      same_shape = t->sizes.size() == info.dims.size();
      for (size_t d = 0; same_shape && d < info.dims.size(); ++d)
        same_shape = info.dynamic[d] ? t->sizes[d] <= info.dims[d] : t->sizes[d] == info.dims[d];
    }
    if (!same_type || !same_shape)
      return invalid_model("argument ", info.name, " of the delegate is ", t->dtype, t->sizes,
                           " in the program, its graph has ", qnn::to_text(info.dtype), info.dims);
    return {};
  }

  std::shared_ptr<QnnBinary> binary_;
  qnn::ContextGraph* graph_;
  pte::QnnOptions options_;
  std::vector<size_t> input_args_, output_args_;  // argument -> tensor of the graph
  std::vector<std::span<const std::byte>> inputs_;
  std::vector<std::span<std::byte>> outputs_;
  std::deque<Buffer> buffers_;
  std::deque<std::vector<std::byte>> intermediates_;
};

Status prepare(const Program& program, const pte::Method&) {
  const std::lock_guard lock(qnn_mutex());
  return guard_payloads(program);
}

Result<void*> init(const DelegateInit& init) {
  const std::lock_guard lock(qnn_mutex());
  SF_ASSIGN(const QnnPayload payload,
            read_qnn_payload(init.blob, init.specs, *init.program, qnn_delegate_options().soc));
  SF_ASSIGN(std::shared_ptr<QnnBinary> binary, load_qnn_binary(init, payload));
  qnn::ContextGraph* graph = binary->context->graph(init.method);
  if (!graph) {
    std::string names;
    for (const qnn::ContextGraph& g : binary->context->graphs())
      names += cat(names.empty() ? "" : ", ", g.name());
    return invalid_model("the delegate of method ", init.method, " has no graph of that name, it has ",
                         names.empty() ? "none" : names);
  }
  auto delegate = std::make_unique<QnnDelegate>(std::move(binary), graph, payload.options);
  SF_TRY(delegate->bind());
  return static_cast<void*>(delegate.release());
}

QnnDelegate& delegate_of(void* handle) { return *static_cast<QnnDelegate*>(handle); }

Status execute(void* handle, std::span<MethodValue* const> args) { return delegate_of(handle).execute(args); }
Status check(void* handle, std::span<MethodValue* const> args) { return delegate_of(handle).check(args); }
void reset(void* handle) { delegate_of(handle).reset(); }
Result<DelegateReport> report(void* handle) { return delegate_of(handle).report(); }

void destroy(void* handle) {
  const std::lock_guard lock(qnn_mutex());
  delete static_cast<QnnDelegate*>(handle);
}

}  // namespace

Status register_qnn_delegate(QnnDelegateOptions options) {
  {
    const std::lock_guard lock(qnn_mutex());
    qnn_delegate_options() = std::move(options);
  }
  return register_delegate(pte::kQnnBackend, {.init = init,
                                              .execute = execute,
                                              .destroy = destroy,
                                              .prepare = prepare,
                                              .check = check,
                                              .reset = reset,
                                              .report = report});
}

}  // namespace sixfold
