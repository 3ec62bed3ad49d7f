#include "sixfold/execute/qnn_payload.h"

#include <array>
#include <charconv>

#include "sixfold/qnn/soc.h"
#include "sixfold/qnn/wrapper.h"

namespace sixfold {
namespace {

constexpr int32_t kHtp = 2;  // of a compile spec's backends

// "2.49.40" -> {2, 49, 40}; what is missing is 0.
std::array<uint32_t, 3> numbers_of(std::string_view version) {
  std::array<uint32_t, 3> out{};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (uint32_t& n : out) {
    const auto [stop, error] = std::from_chars(at, end, n);
    if (error != std::errc() || stop == end || *stop != '.') break;
    at = stop + 1;
  }
  return out;
}

Status check_options(const pte::QnnOptions& options, const pte::Manifest* manifest, uint32_t device) {
  if (options.backend != kHtp)
    return unsupported("the delegate is for ", pte::qnn_backend_name(options.backend), ", the engine is ",
                       pte::qnn_backend_name(kHtp));
  const auto soc = static_cast<uint32_t>(options.soc);
  if (device != 0 && soc != device)
    return unsupported("the delegate is for ", qnn::describe_soc(soc), ", the device is ",
                       qnn::describe_soc(device));
  if (options.op_packages > 0)
    return unsupported("the delegate needs ", options.op_packages,
                       " op packages of its maker's, and none is loaded here");
  if (!manifest) return {};
  // Of a chip that only a file of the user's names, the table knows nothing.
  const auto named = qnn::find_soc(std::string_view(manifest->target));
  if (named.ok() && named->id != soc)
    return invalid_model("the file's manifest names ", qnn::describe_soc(named->id),
                         ", a delegate in it is for ", qnn::describe_soc(soc));
  return {};
}

}  // namespace

Result<QnnPayload> read_qnn_payload(std::span<const std::byte> blob, std::span<const pte::CompileSpec> specs,
                                    const Program& program, uint32_t device) {
  const pte::CompileSpec* spec = nullptr;
  for (const pte::CompileSpec& s : specs)
    if (s.key == pte::kQnnSpecKey) spec = &s;
  if (!spec) return invalid_model("a ", pte::kQnnBackend, " delegate has no compile spec ", pte::kQnnSpecKey);
  QnnPayload out;
  SF_ASSIGN(out.options, pte::read_qnn_options(spec->value));
  SF_TRY(check_options(out.options, program.manifest(), device));
  SF_ASSIGN(out.vouched, program.vouches(blob));
  // What is to be prepared where it runs, and what others made, is there as it is.
  if (!qnn::is_wrapped(blob) && (out.options.online_prepare || out.options.from_context_binary)) {
    out.may_be_dlc = out.options.online_prepare;
    out.bytes = blob;
    return out;
  }
  SF_ASSIGN(const qnn::Wrapped wrapped, qnn::unwrap(blob));
  out.bytes = wrapped.binary;
  return out;
}

Status check_library_version(const Program& program, const qnn::Library& library) {
  if (!program.manifest()) return {};
  for (const auto& [name, version] : program.manifest()->libraries) {
    if (name == "emulator")
      return unsupported("the file was compiled with sixfold's emulator, and ", library.path,
                         " loads what Qualcomm's library made: compile with --engine qnn");
    if (name == "qnn" && numbers_of(version) > numbers_of(library.sdk_version()))
      return unsupported("the file was made with QNN ", version, ", ", library.path, " is QNN ",
                         library.sdk_version(), ": a library loads its own and older binaries");
  }
  return {};
}

Status check_binary_fits(const QnnPayload& payload, const qnn::BinaryInfo& info,
                         const qnn::Library& library) {
  const auto soc = static_cast<uint32_t>(payload.options.soc);
  SF_TRY(qnn::check_fits(info, library, /*soc=*/0));
  if (soc != 0 && info.soc_model != 0 && info.soc_model != soc)
    return invalid_model("the delegate's compile spec names ", qnn::describe_soc(soc),
                         ", its context binary is for ", qnn::describe_soc(info.soc_model));
  const auto arch = static_cast<uint32_t>(payload.options.arch);
  if (arch != 0 && info.htp_arch != 0 && info.htp_arch != arch)
    return invalid_model("the delegate's compile spec names HTP v", arch, ", its context binary is for HTP v",
                         info.htp_arch);
  return {};
}

}  // namespace sixfold
