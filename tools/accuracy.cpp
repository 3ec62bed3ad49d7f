#include "tools/accuracy.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace sixfold::tools {
namespace {

// Rewritten in place while it is a terminal; a line's end when all is done.
void show_progress(std::string_view what, size_t done, size_t total) {
  constexpr size_t kWidth = 30;
  const std::string bar(kWidth * done / std::max<size_t>(total, 1), '#');
  std::fprintf(stderr, "\r\033[K%-18.*s [%-30s] %zu of %zu", static_cast<int>(what.size()), what.data(),
               bar.c_str(), done, total);
}

double rounded_db(double x) { return std::round(x * 100) / 100; }

}  // namespace

std::function<void(size_t done, size_t total)> progress_of(const char* what) {
  if (!isatty(STDERR_FILENO)) return {};
  return [what](size_t done, size_t total) { show_progress(what, done, total); };
}

void end_progress() {
  if (isatty(STDERR_FILENO)) std::fprintf(stderr, "\r\033[K");
}

void warn(std::string_view what) {
  if (!isatty(STDERR_FILENO)) return;
  std::fprintf(stderr, "\r\033[Kwarning: %.*s\n", static_cast<int>(what.size()), what.data());
}

Result<ImproveOptions> improvements(const HtpChoice& choice, int activation_bits) {
  ImproveOptions out;
  if (choice.observer != "auto") {
    const auto one = observer_of(choice.observer);
    if (!one)
      return invalid_argument("--observer is ", choice.observer,
                              ", expected auto, min-max, moving-average, mse, entropy or percentile");
    out.observers = {*one};
  } else if (activation_bits > 8) {
    out.observers = {Observer::mse};  // with 16 bits, room for what samples did not show is what counts
  } else {
    // An average follows its first sample, and another one once all samples are averaged.
    out.observers = {Observer::min_max, Observer::mse, Observer::percentile};
  }
  if (choice.rounding != "nearest" && choice.rounding != "adaround" && choice.rounding != "auto")
    return invalid_argument("--rounding is ", choice.rounding, ", expected auto, nearest or adaround");
  if (!(choice.smooth >= 0 && choice.smooth <= 1))
    return invalid_argument("--smooth is ", choice.smooth, ", expected 0 to 1");
  out.automatic = choice.observer == "auto" && choice.rounding == "auto";
  out.choose_rounding = choice.rounding != "nearest";
  if (choice.rounding == "auto") out.most_work = 1e11;
  out.search_scales = choice.search_scales;
  out.correct_biases = choice.correct_biases;
  out.holds_back = choice.tell_accuracy;
  out.bf16 = !choice.f32_runs;
  if (isatty(STDERR_FILENO)) out.progress = show_progress;
  return out;
}

nlohmann::ordered_json describe_choice(const Graph& graph, const Improved& improved) {
  using Json = nlohmann::ordered_json;
  end_progress();
  Json tried = Json::array(), steps = Json::array();
  for (const Improved::Step& step : improved.steps)
    steps.push_back({{"step", step.what},
                     {"before_db", rounded_db(step.before)},
                     {"after_db", rounded_db(step.after)},
                     {"kept", step.kept}});
  for (const auto& [observer, decibels] : improved.tried)
    tried.push_back({{"observer", to_text(observer)}, {"sqnr_db", rounded_db(decibels)}});
  Json phases = Json::object();
  for (const auto& [name, cpu_s] : improved.phases) phases[name] = cpu_s;
  Json of_ops = Json::object();
  for (const auto& [op, observer] : improved.ranges.of_ops)
    of_ops[std::string(to_text(op))] = to_text(observer);
  Json cut = Json::object();
  for (const auto& [value, part] : improved.ranges.cut)
    cut[graph.value({value}).name] = std::round(static_cast<double>(part) * 1000) / 1000;
  return {{"observer", to_text(improved.ranges.observer)},
          {"observers_of_ops", of_ops},
          {"ranges_cut", cut},
          {"tried", tried},
          {"steps", steps},
          {"calibrated", improved.calibrated},
          {"held_back", improved.held_back},
          {"rounded_layers", improved.rounding.layers},
          {"corrected_biases", improved.biases},
          {"factors", improved.bf16 ? "bf16" : "f32"},
          {"calibrate_s", improved.calibrate_seconds},
          {"seconds", improved.seconds},
          {"phases_cpu_s", phases}};
}

nlohmann::ordered_json describe_accuracy(const Graph& graph, const Accuracy& accuracy) {
  using Json = nlohmann::ordered_json;
  Json outputs = Json::array(), layers = Json::array();
  for (const LayerError& o : accuracy.outputs)
    outputs.push_back({{"value", graph.value(o.value).name}, {"sqnr_db", rounded_db(o.sqnr_db())}});
  for (const size_t i : accuracy.worst()) {
    const LayerError& l = accuracy.layers[i];
    const Node& node = *graph.producer(l.value);
    const Origin& origin = graph.origin(node);
    layers.push_back({{"node", origin.name},
                      {"op", to_text(node.op)},
                      {"sqnr_db", rounded_db(l.sqnr_db())},
                      {"source", origin.source},
                      {"module", origin.module_path}});
  }
  return {{"samples", accuracy.samples},
          {"judged_factors", accuracy.bf16 ? "bf16" : "f32"},
          {"sqnr_db", rounded_db(accuracy.sqnr_db)},
          {"outputs", outputs},
          {"layers", layers}};
}

void print_accuracy(const nlohmann::ordered_json& a) {
  if (!a.is_object() || !a.contains("sqnr_db")) return;
  print_line(cat("accuracy     ", a["sqnr_db"].dump(), " dB against float, simulated ",
                 a["judged_factors"] == "bf16" ? "with bfloat16 factors " : "", "on ", a["samples"].dump(),
                 a["held_back"] == 0
                     ? " of the samples that it was calibrated with (16 or more: some are held back)"
                     : " samples that were held back"));
  size_t shown = 0;
  for (const auto& l : a["layers"]) {
    if (++shown > 5) break;
    print_line(cat(
        "  ", l["sqnr_db"].dump(), " dB  ", l["node"].get<std::string>(), " (", l["op"].get<std::string>(),
        ")", l["source"].get<std::string>().empty() ? "" : cat(" at ", l["source"].get<std::string>())));
  }
}

}  // namespace sixfold::tools
