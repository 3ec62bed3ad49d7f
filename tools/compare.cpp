// sixfold compare: the ops of models on the emulator and on Qualcomm's library, side by side.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "sixfold/emulator/emulator.h"
#include "sixfold/import/import.h"
#include "sixfold/qnn/guard.h"
#include "sixfold/rewrite/pipeline.h"
#include "tools/command.h"
#include "tools/questions.h"
#include "tools/soc_file.h"

namespace sixfold::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string types_of(const qnn::GraphSpec& graph) {
  std::string text;
  const qnn::OpSpec& op = graph.ops.front();
  for (const auto* list : {&op.in, &op.out}) {
    if (list == &op.out) text += " ->";
    for (const qnn::TensorRef ref : *list)
      text += cat(text.empty() ? "" : " ", ref.valid() ? qnn::to_text(graph.tensor(ref).dtype) : "none");
  }
  return text;
}

// Constants count by their values: sums of them may be what an op computes.
std::string content_of(const qnn::GraphSpec& graph) {
  std::string text = print(graph);
  for (const qnn::TensorSpec& t : graph.tensors)
    if (t.kind == qnn::TensorKind::constant)
      text += std::to_string(std::hash<std::string_view>{}(
          {reinterpret_cast<const char*>(t.data.source.data), t.data.source.size_bytes()}));
  return text;
}

Json describe(const Question& q, const Answer& ours, const Answer& theirs, bool has_theirs) {
  const qnn::OpSpec& op = q.graph.ops.front();
  Json out{{"op", op.type}, {"types", types_of(q.graph)}, {"label", q.label}, {"text", print(q.graph)}};
  if (!ours.refused.empty()) out["emulator_refuses"] = ours.refused;
  if (!ours.failed.empty()) out["emulator_fails"] = ours.failed;
  if (!has_theirs) return out;
  if (!theirs.refused.empty()) out["qnn_refuses"] = theirs.refused;
  if (!theirs.failed.empty()) out["qnn_fails"] = theirs.failed;
  out["agree"] = ours.refused.empty() == theirs.refused.empty();
  Json outputs = Json::array();
  for (size_t i = 0; i < std::min(ours.outputs.size(), theirs.outputs.size()); ++i) {
    const Distances d = compare(q.graph.tensor(op.out[i]), ours.outputs[i], theirs.outputs[i]);
    outputs.push_back({{"count", d.count},
                       {"equal", d.equal},
                       {"within_1", d.within_1},
                       {"within_2", d.within_2},
                       {"most", d.most},
                       {"most_relative", d.most_relative}});
  }
  if (!outputs.empty()) out["outputs"] = outputs;
  return out;
}

double percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 100.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

void print_one(const Json& row, bool all) {
  const auto text = [&row](const char* key) { return row.value(key, std::string()); };
  const std::string head = cat(text("op"), " (", text("types"), "), ", text("label"), ": ");
  if (row.contains("agree") && !row["agree"].get<bool>())
    print_line(cat(head, row.contains("emulator_refuses")
                             ? cat("only the emulator refuses: ", text("emulator_refuses"))
                             : cat("only QNN refuses: ", text("qnn_refuses"))));
  else if (row.contains("emulator_fails") || row.contains("qnn_fails"))
    print_line(cat(head, "emulator: ", row.value("emulator_fails", "runs"),
                   "; QNN: ", row.value("qnn_fails", "runs")));
  else if (row.contains("outputs"))
    for (const Json& o : row["outputs"]) {
      const auto n = o["count"].get<uint64_t>();
      char numbers[200];
      std::snprintf(numbers, sizeof numbers,
                    "%llu elements, equal %.2f %%, within 1 %.2f %%, 2 %.2f %%, most %llu (%.2g)",
                    static_cast<unsigned long long>(n), percent(o["equal"], n), percent(o["within_1"], n),
                    percent(o["within_2"], n), static_cast<unsigned long long>(o["most"].get<uint64_t>()),
                    o["most_relative"].get<double>());
      print_line(cat(head, numbers));
    }
  else if (all)
    print_line(cat(head, row.contains("emulator_refuses") ? text("emulator_refuses") : std::string("taken")));
}

// All results of one op with the same types as one line.
void print_summary(const Json& rows) {
  struct Sum {
    uint64_t cases = 0, count = 0, equal = 0, within_1 = 0, within_2 = 0, most = 0;
    double relative = 0;
  };
  std::map<std::string, Sum> sums;
  size_t asked = 0, agree = 0;
  for (const Json& row : rows) {
    if (row.contains("agree")) {
      ++asked;
      agree += row["agree"].get<bool>();
    }
    if (!row.contains("outputs")) continue;
    Sum& s = sums[cat(row["op"].get<std::string>(), " (", row["types"].get<std::string>(), ")")];
    ++s.cases;
    for (const Json& o : row["outputs"]) {
      s.count += o["count"].get<uint64_t>();
      s.equal += o["equal"].get<uint64_t>();
      s.within_1 += o["within_1"].get<uint64_t>();
      s.within_2 += o["within_2"].get<uint64_t>();
      s.most = std::max(s.most, o["most"].get<uint64_t>());
      s.relative = std::max(s.relative, o["most_relative"].get<double>());
    }
  }
  for (const auto& [name, s] : sums) {
    char numbers[200];
    std::snprintf(
        numbers, sizeof numbers, ": %llu cases, equal %.2f %%, within 1 %.2f %%, 2 %.2f %%, most %llu (%.2g)",
        static_cast<unsigned long long>(s.cases), percent(s.equal, s.count), percent(s.within_1, s.count),
        percent(s.within_2, s.count), static_cast<unsigned long long>(s.most), s.relative);
    print_line(cat(name, numbers));
  }
  if (asked > 0)
    print_line(cat("the same answer to ", agree, " of ", asked, " ops whether the device takes them"));
}

Status ask_model(const std::string& model, const CompareOptions& options, const qnn::Soc& soc,
                 std::vector<Question>& out) {
  SF_ASSIGN(Graph graph, import_pt2(model));
  SF_TRY(canonicalize(graph));
  return ask_graph(std::move(graph), model, options.precision, static_cast<int>(soc.htp_arch), out);
}

}  // namespace

Status compare_command(const CompareOptions& options) {
  SF_ASSIGN(const qnn::Soc soc, choose_soc(options.soc, ""));
  std::vector<Question> questions;
  std::set<std::string> seen;
  for (const std::string& model : options.models) {
    std::vector<Question> asked;
    if (Status s = ask_model(model, options, soc, asked); !s.ok()) {
      std::fprintf(stderr, "%s: %s\n", model.c_str(), s.error().message().c_str());
      continue;
    }
    for (Question& q : asked)
      if ((options.only.empty() || options.only == q.graph.ops.front().type) &&
          seen.insert(content_of(q.graph)).second)
        questions.push_back(std::move(q));
  }
  if (options.fixed_bits != 0 && options.fixed_bits != 8 && options.fixed_bits != 16)
    return invalid_argument("--fixed is ", options.fixed_bits, ", expected 8 or 16");
  if (options.fixed_bits != 0)
    for (size_t i = 0; i < questions.size(); ++i)
      questions[i] = in_fixed_point(questions[i], options.fixed_bits, options.seed * 104729 + i);
  if (options.mutations > 0 && !questions.empty()) {
    std::vector<Question> wrong;
    std::mt19937_64 random(options.seed);
    for (size_t i = 0; i < options.mutations; ++i)
      wrong.push_back(mutate(questions[random() % questions.size()], options.seed * 7919 + i));
    questions = std::move(wrong);
  }
  if (options.no_run)
    for (Question& q : questions) q.run = false;

  // First the child: nothing of the vendor's may be in this process when it forks.
  std::vector<Answer> theirs;
  const Result<std::string> folder = qnn::find_library_folder(options.qnn_lib_dir);
  if (folder.ok()) {
    SF_ASSIGN(const Bytes bytes, qnn::run_guarded("asking Qualcomm's library", 3600, [&]() -> Result<Bytes> {
                SF_ASSIGN(const qnn::Library library, qnn::Library::load(*folder));
                return to_bytes(answer_all(library, soc.id, default_vtcm_mb(soc), questions, options.seed));
              }));
    SF_ASSIGN(theirs, answers_of(bytes));
  }
  const std::vector<Answer> ours =
      answer_all(emulator::library(), soc.id, default_vtcm_mb(soc), questions, options.seed);
  Json rows = Json::array();
  for (size_t i = 0; i < questions.size(); ++i)
    rows.push_back(
        describe(questions[i], ours[i], i < theirs.size() ? theirs[i] : Answer{}, i < theirs.size()));
  if (options.json) {
    print_line(rows.dump());
    return {};
  }
  if (!folder.ok()) print_line(cat("the emulator alone: ", folder.error().message()));
  for (const Json& row : rows) print_one(row, !folder.ok());
  print_summary(rows);
  return {};
}

}  // namespace sixfold::tools
