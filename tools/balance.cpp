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

Result<Observations> look(const Graph& graph, const Samples& samples) {
  return calibrate(graph, samples, {.histograms = false, .channels = true});
}

}  // namespace

Status balance_as_told(Graph& graph, const Samples& samples, const HtpChoice& choice, HtpMethod& method) {
  const std::string& text = choice.balance;
  if (text == "off" || text == "auto") return {};
  double alpha = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), alpha);
  if (error != std::errc() || end != text.data() + text.size() || !(alpha >= 0 && alpha <= 1))
    return invalid_argument("--balance is ", text, ", expected auto, off or a number from 0 to 1");
  SF_ASSIGN(const Observations seen, look(graph, samples));
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
                                           const Samples& samples) {
  if (imbalance_of(graph, first) < kWorthTrying) return std::optional<Graph>();
  SF_ASSIGN(const Observations seen, look(graph, samples));
  Graph out = graph;
  balance_channels(out, seen, kAlpha);
  return std::optional<Graph>(std::move(out));
}

bool is_gain(const Improved& plain, const Improved& balanced) {
  return decibels_of(balanced.accuracy.outputs) >= decibels_of(plain.accuracy.outputs) + kLeastGain;
}

std::string told_balance(const Improved& plain, const Improved& balanced) {
  return cat(
      "channels between convolutions are divided by factors that the next weights take, so that they have "
      "like ranges: ",
      rounded(decibels_of(balanced.accuracy.outputs)), " dB, without it ",
      rounded(decibels_of(plain.accuracy.outputs)), " (--balance off)");
}

}  // namespace sixfold::tools
