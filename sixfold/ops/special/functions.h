// Functions of mathematics that are too rare for kernels of their own, in double.
#pragma once

#include <span>
#include <string_view>

namespace sixfold::special {

struct Function {
  const char* name;
  int operands;  // 1 or 2
  double (*f)(double, double);
  bool order = false;  // the second operand is the order of a polynomial, and bounds the work
};
std::span<const Function> gamma_functions();       // cpu_gamma.cpp
std::span<const Function> bessel_functions();      // cpu_bessel.cpp
std::span<const Function> polynomial_functions();  // cpu_polynomial.cpp

const Function* find(std::string_view name);

// The largest order of a polynomial that the kernel computes.
constexpr double kMaxOrder = 1e6;

}  // namespace sixfold::special
