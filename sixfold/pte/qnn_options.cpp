#include "sixfold/pte/qnn_options.h"

#include <flatbuffers/flatbuffers.h>

#include <cstring>

#include "sixfold/pte/qnn_options_generated.h"

namespace sixfold::pte {
namespace wire = qnn_wire;

std::vector<std::byte> write_qnn_options(const QnnOptions& o) {
  flatbuffers::FlatBufferBuilder b(256);
  b.ForceDefaults(true);  // the reader's defaults are not all zero: what is said must be in the file
  const auto htp_info = wire::CreateHtpInfo(b, o.arch, o.vtcm_mb);
  const auto soc = wire::CreateSocInfo(b, o.soc, htp_info);
  const auto htp = wire::CreateHtpOptions(b, /*max_sf_buf_size=*/0, o.performance_mode, o.fp16 ? 1 : 0,
                                          /*pd_session=*/0, /*use_conv_hmx=*/true, /*use_dlbc=*/false,
                                          /*use_fold_relu=*/true, /*use_multi_contexts=*/false,
                                          o.weight_sharing, /*use_slc_allocator=*/false);
  const auto backend = wire::CreateBackendOptions(b, o.backend, htp);
  const auto library = b.CreateString("");
  const auto saver = b.CreateString("saver_output");
  const auto packages =
      wire::CreateOpPackageOptions(b, b.CreateVector<flatbuffers::Offset<wire::OpPackageInfo>>({}));
  b.Finish(wire::CreateOptions(b, soc, backend, library, o.log_level, o.online_prepare,
                               /*dump_intermediate_outputs=*/false, o.profile_level, /*shared_buffer=*/false,
                               /*is_from_context_binary=*/false, /*saver=*/false, saver, packages,
                               o.single_heads));
  std::vector<std::byte> out(b.GetSize());
  std::memcpy(out.data(), b.GetBufferPointer(), out.size());
  return out;
}

Result<QnnOptions> read_qnn_options(std::span<const std::byte> bytes) {
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
  }
  out.log_level = o->log_level();
  out.profile_level = o->profile_level();
  out.online_prepare = o->online_prepare();
  out.single_heads = o->use_mha2sha();
  return out;
}

}  // namespace sixfold::pte
