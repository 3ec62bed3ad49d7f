#include "tools/search.h"

#include <algorithm>
#include <cmath>

#include "sixfold/quantize/calibrate.h"
#include "sixfold/quantize/improve.h"
#include "tools/accuracy.h"
#include "tools/htp.h"

namespace sixfold::tools {
namespace {

constexpr const char* kSchemes[] = {"8a8w", "16a8w", "fp16"};
constexpr size_t kSamples = 2;  // that every try is judged by

double rounded(double x, double digits) { return std::round(x * digits) / digits; }
double decibels(double loss) { return loss > 0 ? rounded(-10 * std::log10(loss), 10) : 200.0; }

}  // namespace

Result<Scheme> scheme_of(const HtpChoice& choice) {
  return sixfold::scheme_of(choice.precision == "auto" ? "8a8w" : choice.precision);
}

Result<Search> search_for(const Graph& graph, const QuantizeOptions& options, const Samples& samples,
                          double max_loss) {
  if (!(max_loss > 0 && max_loss < 1))
    return invalid_argument("--max-loss is ", max_loss, ", expected more than 0 and less than 1");
  SF_ASSIGN(const Observations seen, calibrate(graph, samples));
  SF_ASSIGN(const auto meter, Meter::create(graph, samples, kSamples, 0));
  SearchOptions search{.max_loss = max_loss, .progress = progress_of("trying layers")};
  for (const char* name : kSchemes) {
    SF_ASSIGN(const Scheme scheme, sixfold::scheme_of(name));
    search.schemes.push_back(scheme);
  }
  return search_precisions(graph, search, [&](const SchemeOf& schemes) -> Result<double> {
    QuantizeOptions trial = options;
    trial.ranges.observer = Observer::mse;
    trial.scheme = search.schemes.back();
    trial.schemes = schemes;
    SF_ASSIGN(const QuantizePlan plan, annotate(graph, trial));
    Graph quantized = graph;
    SF_TRY(quantize(quantized, plan, seen));
    SF_ASSIGN(const double db, (*meter)(quantized));
    return db >= 200 ? 0 : std::pow(10, -db / 10);
  });
}

nlohmann::ordered_json describe_search(const Search& search, double max_loss) {
  using Json = nlohmann::ordered_json;
  Json layers = Json::array();
  for (const SearchedLayer& l : search.layers) {
    Json row = {{"node", l.name}, {"op", to_text(l.op)}, {"precision", kSchemes[l.chosen]}};
    for (size_t i = 0; i < l.micros.size(); ++i) {
      Json& cell = row[kSchemes[i]];
      cell["predicted_us"] = rounded(l.micros[i], 1000);
      if (i < l.loss.size()) cell["sqnr_db"] = decibels(l.loss[i]);
    }
    layers.push_back(std::move(row));
  }
  return {{"max_loss", max_loss},
          {"loss", search.measured},
          {"predicted_loss", search.predicted},
          {"predicted_us", rounded(search.micros, 1000)},
          {"predicted_us_all_8a8w", rounded(search.least_micros, 1000)},
          {"predicted_us_all_fp16", rounded(search.most_micros, 1000)},
          {"tries", search.tries},
          {"layers", layers}};
}

void print_search(const nlohmann::ordered_json& search) {
  if (!search.is_object()) return;
  print_line(cat("precisions   loss ", search["loss"].dump(), " of at most ", search["max_loss"].dump(),
                 "; predicted ", search["predicted_us"].dump(), " us, ",
                 search["predicted_us_all_8a8w"].dump(), " with 8a8w everywhere, ",
                 search["predicted_us_all_fp16"].dump(), " with fp16"));
  print_line("  alone on its grid, dB (time, us)");
  for (const auto& l : search["layers"]) {
    std::string text = cat("  ", l["precision"].get<std::string>(), "  ", l["node"].get<std::string>(), " (",
                           l["op"].get<std::string>(), "):");
    for (const char* name : kSchemes) {
      const auto& cell = l[name];
      text += cat(" ", name, " ", cell.contains("sqnr_db") ? cell["sqnr_db"].dump() : std::string("-"), " (",
                  cell["predicted_us"].dump(), ")");
    }
    print_line(text);
  }
}

}  // namespace sixfold::tools
