// Windows of signal processing: constants that follow from a length.
#include <cmath>
#include <functional>
#include <numbers>

#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shape/build.h"
#include "sixfold/ops/special/functions.h"

namespace sixfold::aten {
namespace {

// f at 0 .. 1, both ends included; a periodic window leaves out the last one.
Status window(Call& call, const std::function<double(double)>& f) {
  const int64_t length = call.integer("window_length");
  const DType dtype = call.dtype("dtype").value_or(DType::f32);
  const bool periodic = !call.attr("periodic") || call.flag("periodic");
  if (!ok(call)) return stop(call);
  if (length < 0 || length > (1 << 24) || !is_float(dtype))
    return invalid_model("a window of ", length, " elements of ", dtype);
  std::byte* bytes = nullptr;
  Tensor out = call.allocate(DType::f64, {length}, &bytes);
  if (!bytes) return stop(call);
  auto* values = reinterpret_cast<double*>(bytes);
  const double steps = static_cast<double>(periodic ? length : length - 1);
  for (int64_t i = 0; i < length; ++i) values[i] = length == 1 ? 1 : f(static_cast<double>(i) / steps);
  return call.result(call.to(call.constant(std::move(out)), dtype));
}

double cosine(double turns) { return std::cos(2 * std::numbers::pi * turns); }

Status raised_cosine(Call& call, double alpha, double beta) {
  return window(call, [=](double t) { return alpha - beta * cosine(t); });
}
Status hann(Call& call) { return raised_cosine(call, 0.5, 0.5); }
Status hamming(Call& call) {
  return raised_cosine(call, call.attr("alpha") ? call.real("alpha") : 0.54,
                       call.attr("beta") ? call.real("beta") : 0.46);
}
Status blackman(Call& call) {
  return window(call, [](double t) { return 0.42 - 0.5 * cosine(t) + 0.08 * cosine(2 * t); });
}
Status bartlett(Call& call) {
  return window(call, [](double t) { return 1 - std::fabs(2 * t - 1); });
}
Status kaiser(Call& call) {
  const double beta = call.attr("beta") ? call.real("beta") : 12.0;
  const auto i0 = [](double x) { return special::find("i0")->f(x, x); };
  return window(call, [=](double t) {
    const double from_middle = 2 * t - 1;
    return i0(beta * std::sqrt(std::max(0.0, 1 - from_middle * from_middle))) / i0(beta);
  });
}

constexpr AtenRule kRules[] = {
    {"aten.hann_window.default", hann},
    {"aten.hann_window.periodic", hann},
    {"aten.hamming_window.default", hamming},
    {"aten.hamming_window.periodic", hamming},
    {"aten.hamming_window.periodic_alpha", hamming},
    {"aten.hamming_window.periodic_alpha_beta", hamming},
    {"aten.blackman_window.default", blackman},
    {"aten.blackman_window.periodic", blackman},
    {"aten.bartlett_window.default", bartlett},
    {"aten.bartlett_window.periodic", bartlett},
    {"aten.kaiser_window.default", kaiser},
    {"aten.kaiser_window.periodic", kaiser},
    {"aten.kaiser_window.beta", kaiser},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> window_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
