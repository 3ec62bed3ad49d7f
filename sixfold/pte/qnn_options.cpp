#include "sixfold/pte/qnn_options.h"

#include <flatbuffers/flatbuffers.h>

#include <cstring>

#include "sixfold/pte/qnn_options_generated.h"

namespace sixfold::pte {
namespace wire = qnn_wire;
namespace {

constexpr size_t kMostSpecBytes = size_t{1} << 20;

}  // namespace

std::vector<std::byte> write_qnn_options(const QnnOptions& o) {
  flatbuffers::FlatBufferBuilder b(256);
  b.ForceDefaults(true);  // the reader's defaults are not all zero: what is said must be in the file
  const auto htp_info = wire::CreateHtpInfo(b, o.arch, o.vtcm_mb);
  const auto soc = wire::CreateSocInfo(b, o.soc, htp_info);
  const auto htp = wire::CreateHtpOptions(b, /*max_sf_buf_size=*/0, o.performance_mode, o.fp16 ? 1 : 0,
                                          /*pd_session=*/0, o.conv_on_hmx, o.dlbc, o.fold_relu,
                                          /*use_multi_contexts=*/false, o.weight_sharing, o.slc_allocator);
  const auto backend = wire::CreateBackendOptions(b, o.backend, htp);
  const auto library = b.CreateString("");
  const auto saver = b.CreateString("saver_output");
  const auto packages =
      wire::CreateOpPackageOptions(b, b.CreateVector<flatbuffers::Offset<wire::OpPackageInfo>>({}));
  b.Finish(wire::CreateOptions(b, soc, backend, library, o.log_level, o.online_prepare, o.dump_intermediates,
                               o.profile_level, /*shared_buffer=*/false, o.from_context_binary,
                               /*saver=*/false, saver, packages, o.single_heads));
  std::vector<std::byte> out(b.GetSize());
  std::memcpy(out.data(), b.GetBufferPointer(), out.size());
  return out;
}

std::string qnn_backend_name(int32_t backend) {
  static constexpr const char* kNames[] = {"none", "GPU", "HTP", "DSP", "LPAI"};
  if (backend >= 0 && backend < static_cast<int32_t>(std::size(kNames))) return kNames[backend];
  return cat("backend ", backend);
}

Result<QnnOptions> read_qnn_options(std::span<const std::byte> bytes) {
  if (bytes.size() > kMostSpecBytes)
    return invalid_model("the compile spec ", kQnnSpecKey, " has ", bytes.size(), " bytes, the limit is ",
                         kMostSpecBytes);
  // Offsets count from an aligned start; a compile spec inside a file need not have one.
  std::vector<uint64_t> aligned((bytes.size() + 7) / 8);
  if (!bytes.empty()) std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const auto* data = reinterpret_cast<const uint8_t*>(aligned.data());
  flatbuffers::Verifier verifier(data, bytes.size(), /*max_depth=*/16, /*max_tables=*/1000);
  if (bytes.size() < 8 || !wire::VerifyOptionsBuffer(verifier))
    return invalid_model("the compile spec ", kQnnSpecKey, " of ", bytes.size(),
                         " bytes is not a table of options");
  const wire::Options* o = wire::GetOptions(data);
  QnnOptions out;
  if (!o->backend_options() || !o->soc_info())
    return invalid_model("the compile spec ", kQnnSpecKey, " names no ", o->soc_info() ? "backend" : "SoC");
  out.soc = o->soc_info()->soc_model();
  if (const auto* htp = o->soc_info()->htp_info()) {
    out.arch = htp->htp_arch();
    out.vtcm_mb = htp->vtcm_size_in_mb();
  }
  out.backend = o->backend_options()->backend_type();
  if (const auto* htp = o->backend_options()->htp_options()) {
    out.fp16 = htp->precision() == 1;
    out.performance_mode = htp->performance_mode();
    out.weight_sharing = htp->use_weight_sharing();
    out.dlbc = htp->use_dlbc();
    out.slc_allocator = htp->use_slc_allocator();
    out.fold_relu = htp->use_fold_relu();
    out.conv_on_hmx = htp->use_conv_hmx();
  }
  out.log_level = o->log_level();
  out.profile_level = o->profile_level();
  out.online_prepare = o->online_prepare();
  out.single_heads = o->use_mha2sha();
  out.dump_intermediates = o->dump_intermediate_outputs();
  out.from_context_binary = o->is_from_context_binary();
  if (const auto* packages = o->op_package_options(); packages && packages->op_package_infos())
    out.op_packages = packages->op_package_infos()->size();
  return out;
}

}  // namespace sixfold::pte
