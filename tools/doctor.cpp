// sixfold doctor: what this machine has for compiling and running, what is missing, and how to get it.
#include <hwy/targets.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "sixfold/emulator/emulator.h"
#include "sixfold/qnn/backend.h"
#include "sixfold/qnn/context.h"
#include "sixfold/qnn/guard.h"
#include "tools/command.h"
#include "tools/soc_file.h"

namespace sixfold::tools {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// y = relu(x), to see that the library prepares, and which blobs it writes.
qnn::GraphSpec smallest_graph() {
  qnn::GraphSpec g{.name = "doctor"};
  const auto add = [&](const char* name, qnn::TensorKind kind) {
    return g.add({.name = name, .kind = kind, .dtype = qnn::DataType::f32, .dims = {1, 8}});
  };
  const qnn::TensorRef x = add("x", qnn::TensorKind::app_write), y = add("y", qnn::TensorKind::app_read);
  g.ops.push_back({"relu", "Relu", {x}, {y}, {}});
  return g;
}

Result<Json> describe(const qnn::Library& library, const qnn::SystemLibrary& system, const qnn::Soc& soc) {
  Json out{{"path", library.path},
           {"build_id", library.build_id},
           {"sdk", library.sdk_version()},
           {"core_api", to_text(library.core_api())},
           {"htp_api", to_text(library.backend_api())},
           {"system_api", to_text(system.api())}};
  SF_ASSIGN(const qnn::Backend backend, qnn::Backend::open(library, soc.id));
  SF_ASSIGN(const auto ops, backend.supported_ops());
  out["ops"] = ops.size();
  const qnn::GraphSpec graph = smallest_graph();
  SF_ASSIGN(const qnn::Context context,
            qnn::Context::build(backend, {&graph, 1}, {.graph = {.vtcm_mb = default_vtcm_mb(soc)}}));
  SF_ASSIGN(const auto binary, context.binary());
  SF_ASSIGN(const qnn::BinaryInfo info, qnn::read_binary_info(system, binary));
  out["context_blob"] = to_text(info.blob_version);
  out["htp_arch"] = info.htp_arch;
  return out;
}

Json emulator_report(const qnn::Soc& soc) {
  Json out{{"version", SIXFOLD_VERSION}, {"works", false}};
  Result<Json> said = describe(emulator::library(), emulator::system_library(), soc);
  if (!said.ok()) {
    out["problem"] = said.error().message();
    return out;
  }
  out.update(*said);
  out["works"] = true;
  return out;
}

// Everything the libraries say, as JSON text. Runs in a child: libraries of unknown versions may crash.
Result<Bytes> ask_libraries(const std::string& folder, const qnn::Soc& soc) {
  SF_ASSIGN(const qnn::Library library, qnn::Library::load(folder));
  SF_ASSIGN(const qnn::SystemLibrary system, qnn::SystemLibrary::load(folder));
  SF_ASSIGN(const Json out, describe(library, system, soc));
  const std::string text = out.dump();
  const auto bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}

Json qnn_report(const std::string& lib_dir, const qnn::Soc& soc) {
  Json out;
  out["looked_in"] = Json::array();
  for (const qnn::Place& p : qnn::library_places(lib_dir))
    out["looked_in"].push_back({{"folder", p.folder}, {"why", p.why}, {"has_library", p.has_library}});
  const Result<std::string> folder = qnn::find_library_folder(lib_dir);
  out["works"] = false;
  if (!folder.ok()) {
    out["problem"] = cat("libQnnHtp.so was not found; ", qnn::kHowToGetLibraries);
    return out;
  }
  out["folder"] = *folder;
  const auto answer = qnn::run_guarded("asking the libraries for their versions", 60,
                                       [&] { return ask_libraries(*folder, soc); });
  if (!answer.ok()) {
    out["problem"] = answer.error().message();
    return out;
  }
  const auto* text = reinterpret_cast<const char*>(answer->data());
  out.update(Json::parse(text, text + answer->size(), nullptr, /*allow_exceptions=*/false));
  out["works"] = true;
  return out;
}

Json cpu_report() {
  Json targets = Json::array();
  constexpr int64_t kPlain = HWY_SCALAR | HWY_EMU128;  // every CPU
  for (int64_t left = hwy::SupportedTargets() & ~kPlain; left != 0; left &= left - 1)
    targets.push_back(hwy::TargetName(left & -left));
  return {{"cores", std::thread::hardware_concurrency()}, {"vector_units", targets}};
}

// Versions from the folders that pip makes; no Python runs.
Json python_report(const std::string& lib_dir) {
  Json out = Json::object();
  for (const qnn::Place& p : qnn::library_places(lib_dir)) {
    const fs::path packages = fs::path(p.folder).parent_path();
    if (packages.filename() != "site-packages" && packages.filename() != "dist-packages") continue;
    std::error_code none;
    for (fs::directory_iterator it(packages, none), end; !none && it != end; it.increment(none)) {
      const std::string name = it->path().stem();  // torch-2.13.0
      const size_t dash = name.find('-');
      if (it->path().extension() != ".dist-info" || dash == name.npos) continue;
      for (const char* wanted : {"torch", "executorch", "onnxruntime", "onnxruntime_qnn"})
        if (name.substr(0, dash) == wanted && !out.contains(wanted)) out[wanted] = name.substr(dash + 1);
    }
  }
  return out;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

void print_text(const Json& report) {
  const Json& emulator = report["emulator"];
  if (emulator["works"] == true)
    print_line(cat("emulator        sixfold ", text_of(emulator["version"]),
                   " (the default engine), as QNN core API ", text_of(emulator["core_api"]), ", ",
                   text_of(emulator["ops"]), " ops; a graph prepares for ", text_of(report["soc"]["name"]),
                   " (HTP v", text_of(emulator["htp_arch"]), ")"));
  else
    print_line(cat("emulator        does not work: ", text_of(emulator["problem"])));
  const Json& qnn = report["qnn"];
  if (qnn["works"] == true) {
    print_line(cat("QNN libraries   SDK ", text_of(qnn["sdk"]), " in ", text_of(qnn["folder"])));
    print_line(cat("                build ", text_of(qnn["build_id"]), ", core API ",
                   text_of(qnn["core_api"]), ", HTP API ", text_of(qnn["htp_api"]), ", system API ",
                   text_of(qnn["system_api"])));
    print_line(cat("                context blob ", text_of(qnn["context_blob"]), ", ", text_of(qnn["ops"]),
                   " ops; a graph prepares for ", text_of(report["soc"]["name"]), " (HTP v",
                   text_of(qnn["htp_arch"]), ")"));
  } else {
    print_line(cat("QNN libraries   do not work: ", text_of(qnn["problem"])));
  }
  const char* label = "looked in       ";
  for (const Json& p : qnn["looked_in"]) {
    print_line(cat(label, text_of(p["folder"]), " (", text_of(p["why"]), ")",
                   p["has_library"] == true ? "" : ": nothing"));
    label = "                ";
  }
  std::string units;
  for (const Json& t : report["cpu"]["vector_units"]) units += cat(units.empty() ? "" : ", ", text_of(t));
  print_line(cat("CPU             ", text_of(report["cpu"]["cores"]), " cores; ", units));
  std::string packages;
  for (const auto& [name, version] : report["python"].items())
    packages += cat(packages.empty() ? "" : ", ", name, " ", text_of(version));
  print_line(
      cat("Python packages ", packages.empty() ? "none found; not needed to compile or run" : packages));
}

}  // namespace

Status doctor_command(const DoctorOptions& options) {
  const bool any_soc = options.soc.empty() && options.soc_file.empty();
  SF_ASSIGN(const qnn::Soc soc, choose_soc(any_soc ? "SM8650" : options.soc, options.soc_file));
  Json report;
  report["sixfold"] = SIXFOLD_VERSION;
  report["soc"] = {{"name", soc.name}, {"id", soc.id}, {"htp_arch", soc.htp_arch}, {"vtcm_mb", soc.vtcm_mb}};
  report["emulator"] = emulator_report(soc);
  report["qnn"] = qnn_report(options.qnn_lib_dir, soc);
  report["cpu"] = cpu_report();
  report["python"] = python_report(options.qnn_lib_dir);
  if (options.json)
    print_line(report.dump());
  else
    print_text(report);
  return {};
}

}  // namespace sixfold::tools
