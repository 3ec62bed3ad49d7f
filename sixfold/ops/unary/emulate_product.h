// Sigmoid, Tanh and Gelu of halves as the device's matrix unit has them.
#pragma once

#include <algorithm>
#include <cmath>

namespace sixfold::emulator {

// An odd function of x around `middle`: a line near zero, from where that is below it a polynomial of the
// fourth degree, and bounds. The coefficients were fitted to the library's results, of which all but one in
// two hundred (next to a tie) are so. A gate is multiplied by x.
struct ProductFunction {
  double middle, line, quartic[4], least;
  bool is_gate;

  double operator()(double x) const {
    const double a = std::abs(x);
    const double curve = (((quartic[3] * a + quartic[2]) * a + quartic[1]) * a + quartic[0]) * a;
    const double v = std::clamp(middle + std::copysign(std::min(line * a, curve), x), least, 1.0);
    return is_gate ? v * x : v;
  }
};
inline constexpr ProductFunction kProductSigmoid{
    0.499862627, 0.23851805, {0.276672454, -0.0462646875, 0.000689690689, 0.000283136664}, 0, false};
inline constexpr ProductFunction kProductTanh{
    0x1p-15, 0.9633792, {1.10607777, -0.369138898, 0.0110235284, 0.00897072472}, -1, false};
inline constexpr ProductFunction kProductGelu{
    0.500427, 0.387209, {0.453004476, -0.106909354, -0.00798245231, 0.00393394831}, 0, true};

}  // namespace sixfold::emulator
