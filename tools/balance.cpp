#include "tools/balance.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "sixfold/quantize/balance.h"
#include "sixfold/quantize/calibrate.h"

namespace sixfold::tools {
namespace {

constexpr double kWorthTrying = 0.75;  // bits that a mean channel leaves unused
constexpr double kLeastGain = 0.5;     // dB
constexpr float kAlpha = 0.5f;

std::string rounded(double db) { return cat(std::round(db * 10) / 10); }

Result<Observations> look(const Graph& graph, const Samples& samples, bool bf16) {
  return calibrate(graph, samples, {.histograms = false, .channels = true, .bf16 = bf16});
}

}  // namespace

Status balance_as_told(Graph& graph, const Samples& samples, const HtpChoice& choice, HtpMethod& method) {
  const std::string& text = choice.balance;
  if (text == "off" || text == "auto") return {};
  double alpha = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  if (error != std::errc() || end != text.data() + text.size() || !(alpha >= 0 && alpha <= 1))
    return invalid_argument("--balance is ", text, ", expected auto, off or a number from 0 to 1");
  SF_ASSIGN(const Observations seen, look(graph, samples, /*bf16=*/false));
  const size_t n = balance_channels(graph, seen, static_cast<float>(alpha));
  method.notes.push_back(cat(n, " channels are divided by factors that the next weights take"));
  return {};
}

bool balances_by_itself(const HtpChoice& choice, const QuantizeOptions& options) {
  return choice.balance == "auto" && choice.encodings.empty() && choice.export_encodings.empty() &&
         !choice.equalize && choice.smooth == 0 && choice.tell_accuracy &&
         options.scheme.activation_bits == 8;
}

Result<std::optional<Graph>> balanced_copy(const Graph& graph, const Observations& first,
                                           const Samples& samples, bool bf16) {
  if (imbalance_of(graph, first) < kWorthTrying) return std::optional<Graph>();
  SF_ASSIGN(const Observations seen, look(graph, samples, bf16));
  Graph out = graph;
  balance_channels(out, seen, kAlpha);
  return std::optional<Graph>(std::move(out));
}

bool is_gain(double plain, double balanced) { return balanced >= plain + kLeastGain; }

std::string told_balance(double plain, double balanced) {
  return cat(
      "channels between convolutions are divided by factors that the next weights take, so that they have "
      "like ranges: ",
      rounded(balanced), " dB, without it ", rounded(plain), " (--balance off)");
}

}  // namespace sixfold::tools
