// Symbolic sizes. torch writes them as sympy's srepr text: "Add(Symbol('s77', positive=True, integer=True),
// Integer(-1))".
#pragma once

#include <string_view>

#include "sixfold/base/dim.h"

namespace sixfold {

// Unsupported for functions of sympy that no size needs, InvalidModel for text that is no srepr.
Result<Dim> parse_srepr(std::string_view text);

// The first symbol of the expression whose value only the data tells (torch names them u0, u1, ...), or "".
std::string unbacked_symbol(const Dim& dim);

}  // namespace sixfold
