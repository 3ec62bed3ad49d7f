#include "sixfold/profile/etdump_log.h"

#include "sixfold/base/cat.h"
#include "sixfold/base/mapped_file.h"

namespace sixfold {
namespace {

pte::ProfileEvent event(std::string name, int64_t start_ns, int64_t end_ns, int32_t chain = -1,
                        int32_t instruction = 0) {
  pte::ProfileEvent out;
  out.name = std::move(name);
  out.chain = chain;
  out.instruction = instruction;
  out.start_ns = static_cast<uint64_t>(start_ns);
  out.end_ns = static_cast<uint64_t>(end_ns);
  return out;
}

}  // namespace

void EtDumpLog::add_load(int64_t start_ns, int64_t end_ns) {
  pte::EtDump::Run run;
  run.name = "Default";
  run.events.emplace_back(event("Method::init", start_ns, end_ns));
  run.events.emplace_back(event("Program::load_method", start_ns, end_ns));
  dump_.runs.push_back(std::move(run));
}

void EtDumpLog::add_run(const Method& method, int64_t start_ns, int64_t end_ns) {
  pte::EtDump::Run run;
  for (const Method::Profile& p : method.profile()) {
    if (p.start_ns == 0) continue;  // jumped over
    const auto chain = static_cast<int32_t>(p.chain), instruction = static_cast<int32_t>(p.instruction);
    if (p.kind == "OPERATOR_CALL") {  // the kernel's own time inside the instruction's
      const std::string_view name = p.name;
      run.events.emplace_back(event(cat("native_call_", name.substr(name.find("::") + 2)), p.start_ns,
                                    p.end_ns, chain, instruction));
    }
    run.events.emplace_back(event(std::string(p.kind), p.start_ns, p.end_ns, chain, instruction));
  }
  run.events.emplace_back(event("Method::execute", start_ns, end_ns));
  dump_.runs.push_back(std::move(run));
}

Status EtDumpLog::write(const std::string& path) const {
  const std::vector<std::byte> bytes = pte::write_etdump(dump_);
  const std::span<const std::byte> parts[] = {bytes};
  return write_file(path, parts);
}

}  // namespace sixfold
