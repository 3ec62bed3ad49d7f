#include "sixfold/quantize/observations.h"

namespace sixfold {

std::string_view to_text(Observer observer) {
  switch (observer) {
    case Observer::min_max:
      return "min-max";
    case Observer::moving_average:
      return "moving-average";
    case Observer::mse:
      return "mse";
    case Observer::entropy:
      return "entropy";
    case Observer::percentile:
      return "percentile";
  }
  return "?";
}

std::optional<Observer> observer_of(std::string_view text) {
  for (const Observer o :
       {Observer::min_max, Observer::moving_average, Observer::mse, Observer::entropy, Observer::percentile})
    if (to_text(o) == text) return o;
  return {};
}

Range choose_range(const Observation& seen, Observer, int, bool) {
  return seen.seen() ? Range{seen.min, seen.max} : Range{};
}

}  // namespace sixfold
