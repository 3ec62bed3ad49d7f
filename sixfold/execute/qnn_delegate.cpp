#include "sixfold/execute/qnn_delegate.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "sixfold/execute/delegate.h"
#include "sixfold/pte/qnn_options.h"
#include "sixfold/qnn/context.h"
#include "sixfold/qnn/soc.h"
#include "sixfold/qnn/wrapper.h"

namespace sixfold {
namespace {

// A library with a device for one SoC. All delegates for that SoC share it.
struct Engine {
  qnn::SystemLibrary system;
  std::unique_ptr<qnn::Backend> backend;
};

// A binary that is loaded, for all methods whose graphs are in it.
struct LoadedBinary {
  std::shared_ptr<Engine> engine;  // outlives the context
  std::unique_ptr<qnn::Context> context;
  std::mutex running;  // a graph runs once at a time, and methods loaded twice share it
};

struct Shared {
  std::mutex mutex;
  QnnDelegateOptions options;
  std::map<uint32_t, std::weak_ptr<Engine>> engines;                 // by SoC
  std::map<const std::byte*, std::weak_ptr<LoadedBinary>> binaries;  // by where the blob is
};
Shared& shared() {
  static auto* out = new Shared;
  return *out;
}

Result<std::shared_ptr<Engine>> open_engine(uint32_t soc) {
  if (auto known = shared().engines[soc].lock()) return known;
  auto engine = std::make_shared<Engine>();
  qnn::Library library;
  if (const QnnDelegateOptions& options = shared().options; options.library && options.system) {
    library = *options.library;
    engine->system = *options.system;
  } else {
    SF_ASSIGN(const std::string folder, qnn::find_library_folder(options.lib_dir));
    SF_ASSIGN(library, qnn::Library::load(folder));
    SF_ASSIGN(engine->system, qnn::SystemLibrary::load(folder));
  }
  SF_ASSIGN(qnn::Backend backend, qnn::Backend::open(library, soc));
  engine->backend = std::make_unique<qnn::Backend>(std::move(backend));
  shared().engines[soc] = engine;
  return engine;
}

Result<std::shared_ptr<LoadedBinary>> load_binary(std::span<const std::byte> blob,
                                                  const pte::QnnOptions& options) {
  if (auto known = shared().binaries[blob.data()].lock()) return known;
  if (options.backend != 2)
    return unsupported("the delegate is for backend ", options.backend,
                       " of Qualcomm's, this engine is HTP (2)");
  if (options.online_prepare) return unsupported("the delegate is a DLC to be compiled on the device");
  SF_ASSIGN(const qnn::Wrapped wrapped, qnn::unwrap(blob));
  const std::span<const std::byte> binary = wrapped.binary;
  auto loaded = std::make_shared<LoadedBinary>();
  SF_ASSIGN(loaded->engine, open_engine(static_cast<uint32_t>(options.soc)));
  SF_ASSIGN(const qnn::BinaryInfo info, qnn::read_binary_info(loaded->engine->system, binary));
  SF_TRY(qnn::check_fits(info, loaded->engine->backend->library(), static_cast<uint32_t>(options.soc)));
  SF_ASSIGN(qnn::Context context, qnn::Context::load(*loaded->engine->backend, binary, info));
  loaded->context = std::make_unique<qnn::Context>(std::move(context));
  shared().binaries[blob.data()] = loaded;
  return loaded;
}

// "input_12_x@0" -> 12; nothing for a name of another form, whose place is where it stands.
std::optional<uint64_t> number_in(std::string_view name) {
  const size_t at = name.find('_');
  if (at == std::string_view::npos) return {};
  uint64_t n = 0;
  const auto [end, error] = std::from_chars(name.data() + at + 1, name.data() + name.size(), n);
  return error == std::errc() ? std::optional(n) : std::nullopt;
}

bool is_mutable_buffer(std::string_view name) { return name.find("mutbuf_") != std::string_view::npos; }

// One graph of a binary, bound to the arguments of a method's call.
class QnnDelegate {
 public:
  QnnDelegate(std::shared_ptr<LoadedBinary> binary, qnn::ContextGraph* graph)
      : binary_(std::move(binary)), graph_(graph) {}

  // Which argument is which tensor, as ExecuTorch's delegate has it: inputs by the number in their name,
  // outputs as they stand; a mutable buffer of the graph takes no argument and lives here.
  Status bind() {
    const auto& in = graph_->info().inputs;
    const auto& out = graph_->info().outputs;
    std::vector<size_t> order(in.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const bool numbered = std::all_of(in.begin(), in.end(), [](const auto& t) { return number_in(t.name); });
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
      if (!is_mutable_buffer(out[i].name)) {
        output_args_.push_back(i);
        continue;
      }
      const auto buffer = std::find_if(buffers_.begin(), buffers_.end(),
                                       [&](const Buffer& b) { return b.key == buffer_key(out[i].name); });
      if (buffer == buffers_.end() || buffer->bytes.size() != out[i].size_bytes)
        return invalid_model("output ", out[i].name, " of the delegate has no input of its size to replace");
      outputs_[i] = buffer->bytes;
    }
    return {};
  }

  Status execute(std::span<MethodValue* const> args) {
    if (args.size() != input_args_.size() + output_args_.size())
      return invalid_model("the delegate is called with ", args.size(), " arguments, its graph ",
                           graph_->name(), " has ", input_args_.size(), " inputs and ", output_args_.size(),
                           " outputs");
    for (size_t i = 0; i < input_args_.size(); ++i) {
      SF_ASSIGN(inputs_[input_args_[i]], bytes_of(*args[i], graph_->info().inputs[input_args_[i]]));
    }
    for (size_t i = 0; i < output_args_.size(); ++i) {
      SF_ASSIGN(outputs_[output_args_[i]],
                bytes_of(*args[input_args_.size() + i], graph_->info().outputs[output_args_[i]]));
    }
    const std::lock_guard lock(binary_->running);
    return graph_->execute(inputs_, outputs_);
  }

 private:
  struct Buffer {
    std::string key;
    std::vector<std::byte> bytes;
  };
  static std::string buffer_key(std::string_view name) {
    const size_t at = name.find("mutbuf_");
    return std::string(name.substr(at, name.find('_', at + 7) - at));
  }

  static Result<std::span<std::byte>> bytes_of(MethodValue& value, const qnn::TensorInfo& info) {
    auto* t = std::get_if<TensorState>(&value);
    if (!t)
      return invalid_model("argument ", info.name, " of the delegate is ", kind_name(value),
                           ", not a tensor");
    if (!t->data && t->size_bytes() > 0)
      return invalid_argument("argument ", info.name, " of the delegate has no memory");
    if (t->size_bytes() != info.size_bytes || size_of(t->dtype) != qnn::size_of(info.dtype))
      return invalid_model("argument ", info.name, " of the delegate is ", t->dtype, t->sizes,
                           ", its graph has ", qnn::to_text(info.dtype), " of ", info.size_bytes, " bytes");
    return std::span<std::byte>{t->data, t->size_bytes()};
  }

  std::shared_ptr<LoadedBinary> binary_;
  qnn::ContextGraph* graph_;
  std::vector<size_t> input_args_, output_args_;  // argument -> tensor of the graph
  std::vector<std::span<const std::byte>> inputs_;
  std::vector<std::span<std::byte>> outputs_;
  std::deque<Buffer> buffers_;
};

Result<void*> init(const DelegateInit& init) {
  const pte::CompileSpec* spec = nullptr;
  for (const pte::CompileSpec& s : init.specs)
    if (s.key == pte::kQnnSpecKey) spec = &s;
  if (!spec) return invalid_model("a ", pte::kQnnBackend, " delegate has no compile spec ", pte::kQnnSpecKey);
  SF_ASSIGN(const pte::QnnOptions options, pte::read_qnn_options(spec->value));
  const std::lock_guard lock(shared().mutex);
  SF_ASSIGN(std::shared_ptr<LoadedBinary> binary, load_binary(init.blob, options));
  qnn::ContextGraph* graph = binary->context->graph(init.method);
  if (!graph)
    return invalid_model("the delegate of method ", init.method, " has no graph of that name, its first is ",
                         binary->context->graphs().empty() ? "missing" : binary->context->graphs()[0].name());
  auto delegate = std::make_unique<QnnDelegate>(std::move(binary), graph);
  SF_TRY(delegate->bind());
  return static_cast<void*>(delegate.release());
}

Status execute(void* handle, std::span<MethodValue* const> args) {
  return static_cast<QnnDelegate*>(handle)->execute(args);
}

void destroy(void* handle) {
  const std::lock_guard lock(shared().mutex);
  delete static_cast<QnnDelegate*>(handle);
}

}  // namespace

Status register_qnn_delegate(QnnDelegateOptions options) {
  {
    const std::lock_guard lock(shared().mutex);
    shared().options = std::move(options);
  }
  return register_delegate(pte::kQnnBackend, {.init = init, .execute = execute, .destroy = destroy});
}

}  // namespace sixfold
