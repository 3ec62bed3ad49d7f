#include "sixfold/execute/qnn_binary.h"

#include <algorithm>
#include <map>
#include <set>

#include "sixfold/qnn/guard.h"
#include "sixfold/qnn/soc.h"

namespace sixfold {
namespace {

// Preparing a DLC is compiling, which takes seconds for a large one.
constexpr double kGuardSeconds = 300;

struct Shared {
  std::mutex mutex;
  QnnDelegateOptions options;
  std::map<uint32_t, std::weak_ptr<QnnEngine>> engines;            // by SoC
  std::map<const std::byte*, std::weak_ptr<QnnBinary>> binaries;   // by where the blob is
  std::set<std::weak_ptr<const void>, std::owner_less<>> guarded;  // programs
};
Shared& shared() {
  static auto* out = new Shared;
  return *out;
}

bool has_own_library() { return shared().options.library && shared().options.system; }

Result<std::shared_ptr<QnnEngine>> make_engine(const Program& program, uint32_t soc) {
  auto engine = std::make_shared<QnnEngine>();
  qnn::Library library;
  if (has_own_library()) {
    library = *shared().options.library;
    engine->system = *shared().options.system;
  } else {
    SF_ASSIGN(const std::string folder, qnn::find_library_folder(shared().options.lib_dir));
    SF_ASSIGN(library, qnn::Library::load(folder));
    SF_TRY(check_library_version(program, library));
    SF_ASSIGN(engine->system, qnn::SystemLibrary::load(folder));
  }
  SF_ASSIGN(qnn::Backend backend, qnn::Backend::open(library, soc));
  engine->backend = std::make_unique<qnn::Backend>(std::move(backend));
  return engine;
}

Result<std::shared_ptr<QnnEngine>> open_engine(const Program& program, uint32_t soc) {
  if (auto known = shared().engines[soc].lock()) {
    if (!has_own_library()) SF_TRY(check_library_version(program, known->backend->library()));
    return known;
  }
  SF_ASSIGN(auto engine, make_engine(program, soc));
  shared().engines[soc] = engine;
  return engine;
}

Result<qnn::Context> load_context(const QnnEngine& engine, const QnnPayload& payload) {
  const pte::QnnOptions& o = payload.options;
  Result<qnn::BinaryInfo> info = qnn::read_binary_info(engine.system, payload.bytes);
  if (!info.ok() && payload.may_be_dlc) {
    const qnn::GraphOptions graph{.fp16 = o.fp16,
                                  .vtcm_mb = o.vtcm_mb,
                                  .dlbc = o.dlbc,
                                  .slc_allocator = o.slc_allocator,
                                  .fold_relu = o.fold_relu,
                                  .short_conv_on_hmx = o.conv_on_hmx};
    return qnn::Context::from_dlc(*engine.backend, engine.system, payload.bytes, {.graph = graph});
  }
  if (!info.ok() && has_own_library())
    return info.take_error().during(
        "reading a context binary on the emulator, which loads what this version of it made: compile "
        "the model again, or run what Qualcomm's library made with --engine qnn");
  if (!info.ok()) return info.take_error();
  SF_TRY(check_binary_fits(payload, *info, engine.backend->library()));
  // The delegate's program keeps its bytes: weights are used where they lie.
  auto context = qnn::Context::load(*engine.backend, payload.bytes, *info, {.bytes_stay = has_own_library()});
  if (!context.ok() && o.weight_sharing)
    return context.take_error().during("loading graphs that share weights, which needs a device");
  return context;
}

// Of every delegate of ours in the program, those that are to be tried. What is wrong with one already is
// said when it is loaded itself.
std::vector<QnnPayload> unvouched_payloads(const Program& program) {
  std::vector<QnnPayload> out;
  for (const pte::Method& method : program.methods())
    for (const pte::Delegate& d : method.delegates) {
      if (d.id != pte::kQnnBackend) continue;
      auto payload = read_qnn_payload(d.blob, d.specs, program, shared().options.soc);
      if (!payload.ok() || payload->vouched) continue;
      const bool known = std::any_of(out.begin(), out.end(), [&](const QnnPayload& p) {
        return p.bytes.data() == payload->bytes.data() && p.bytes.size() == payload->bytes.size();
      });
      if (!known) out.push_back(std::move(payload).value());
    }
  return out;
}

bool has_engine() {
  return std::any_of(shared().engines.begin(), shared().engines.end(),
                     [](const auto& e) { return !e.second.expired(); });
}

}  // namespace

QnnDelegateOptions& qnn_delegate_options() { return shared().options; }
std::mutex& qnn_mutex() { return shared().mutex; }

Status guard_payloads(const Program& program) {
  if (!shared().options.guard || has_own_library()) return {};
  std::erase_if(shared().guarded, [](const auto& p) { return p.expired(); });
  if (!shared().guarded.insert(program.identity()).second) return {};
  // A child of a process with an engine has none of the engine's threads, and would wait for them.
  if (has_engine()) return {};
  const std::vector<QnnPayload> payloads = unvouched_payloads(program);
  if (payloads.empty()) return {};
  const auto body = [&]() -> Result<Bytes> {
    std::map<uint32_t, std::shared_ptr<QnnEngine>> engines;
    for (const QnnPayload& p : payloads) {
      auto& engine = engines[static_cast<uint32_t>(p.options.soc)];
      if (!engine) {
        SF_ASSIGN(engine, make_engine(program, static_cast<uint32_t>(p.options.soc)));
      }
      SF_TRY(load_context(*engine, p));
    }
    return Bytes{};
  };
  auto tried = qnn::run_guarded("loading the payload of a delegate", kGuardSeconds, body);
  if (tried.ok()) return {};
  shared().guarded.erase(program.identity());  // refused again when it is tried again
  return tried.take_error();
}

Result<std::shared_ptr<QnnBinary>> load_qnn_binary(const DelegateInit& init, const QnnPayload& payload) {
  std::erase_if(shared().binaries, [](const auto& b) { return b.second.expired(); });
  if (auto known = shared().binaries[init.blob.data()].lock()) return known;
  auto loaded = std::make_shared<QnnBinary>();
  SF_ASSIGN(loaded->engine, open_engine(*init.program, static_cast<uint32_t>(payload.options.soc)));
  SF_ASSIGN(qnn::Context context, load_context(*loaded->engine, payload));
  loaded->context = std::make_unique<qnn::Context>(std::move(context));
  const qnn::ProfileLevel level = shared().options.profile_level.value_or(
      payload.options.profile_level == 0   ? qnn::ProfileLevel::off
      : payload.options.profile_level == 1 ? qnn::ProfileLevel::basic
                                           : qnn::ProfileLevel::detailed);
  if (level != qnn::ProfileLevel::off) {
    SF_ASSIGN(qnn::Profile profile, qnn::Profile::create(*loaded->engine->backend, level));
    loaded->profile = std::make_unique<qnn::Profile>(std::move(profile));
  }
  shared().binaries[init.blob.data()] = loaded;
  return loaded;
}

}  // namespace sixfold
