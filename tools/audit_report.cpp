#include "tools/audit.h"

namespace sixfold::tools {
namespace {

std::string bytes_text(int64_t n) {
  if (n < 10'000) return cat(n, " bytes");
  if (n < 10'000'000) return cat(n / 1000, " KB");
  return cat(n / 1'000'000, " MB");
}

std::string cost_text(const CpuNode& n, size_t delegates) {
  if (n.view) return "none: a reshape moves no data on the CPU";
  std::string out = n.cost.islands_without < delegates ? cat("cuts ", counted(delegates, "delegate"),
                                                             " where ", n.cost.islands_without, " would do")
                                                       : "cuts no delegate";
  const int64_t crossing = n.cost.to_cpu_bytes + n.cost.to_device_bytes;
  if (crossing > 0)
    out += cat("; ", bytes_text(n.cost.to_cpu_bytes), " come from the NPU and ",
               bytes_text(n.cost.to_device_bytes), " go back, in every run");
  if (n.cost.macs > 0) out += cat("; ", n.cost.macs, " multiplications on the CPU");
  return out;
}

std::string fix_text(const OfferedFix& fix) {
  std::string numbers = fix.exact ? "exact" : "changes numbers";
  if (!fix.exact && fix.difference >= 0) numbers += cat(", by ", fix.difference, " at most on random inputs");
  return cat(fix.name, ": ", fix.what, " (tried; ", numbers, ")",
             fix.option.empty() ? "" : cat(": ", fix.option));
}

}  // namespace

std::string counted(size_t n, const char* what) {
  return cat(n == 0 ? std::string("no") : cat(n), " ", what, n == 1 ? "" : "s");
}

Json to_json(const AuditedNode& a, size_t delegates) {
  const CpuNode& n = a.node;
  Json out = {{"node", n.name},         {"op", n.op},         {"canonical", n.canonical},
              {"reason", n.reason},     {"source", n.source}, {"module", n.module_path},
              {"nodes", n.nodes.size()}};
  out["cost"] = {{"free", n.view},
                 {"delegates", delegates},
                 {"delegates_without", n.cost.islands_without},
                 {"bytes_to_cpu", n.cost.to_cpu_bytes},
                 {"bytes_to_npu", n.cost.to_device_bytes},
                 {"macs", n.cost.macs},
                 {"bytes_touched", n.cost.bytes}};
  if (a.fix) {
    out["fix"] = {{"name", a.fix->name}, {"what", a.fix->what}, {"exact", a.fix->exact}};
    if (a.fix->difference >= 0) out["fix"]["largest_difference"] = a.fix->difference;
    out["fix"]["option"] = a.fix->option.empty() ? "--apply-fixes" : a.fix->option;
  } else {
    out["fix"] = nullptr;
  }
  if (!a.no_kernel.empty()) out["no_kernel"] = a.no_kernel;
  return out;
}

std::vector<std::string> to_lines(const AuditedNode& a, size_t delegates) {
  const CpuNode& n = a.node;
  std::vector<std::string> out;
  out.push_back(cat("  on the CPU  ", n.name, " (", n.op, ")", n.source.empty() ? "" : cat(" at ", n.source),
                    n.module_path.empty() ? "" : cat(", module ", n.module_path)));
  out.push_back(cat("      why     ", n.reason));
  out.push_back(cat("      cost    ", cost_text(n, delegates)));
  const bool asked_for = n.reason.find("--skip-") != std::string::npos;
  if (!n.view && !asked_for) out.push_back(cat("      fix     ", a.fix ? fix_text(*a.fix) : "none was found"));
  if (!a.no_kernel.empty()) out.push_back(cat("      beware  ", a.no_kernel));
  return out;
}

}  // namespace sixfold::tools
