// Reading formulas that are spelled in primitive ops, for rules that put them together again (recompose.h).
//
// What a formula computes is read, not the order of its nodes: a product is a set of factors with powers, a
// statistic is what it is of and along which axes. A value in the middle that has an encoding ends the
// reading: the model asks for that rounding.
#pragma once

#include <optional>
#include <vector>

#include "sixfold/graph/graph.h"

namespace sixfold {

// The op that computes v, if it is this one and v is no value that the model rounds.
const Node* made_by(const Graph& graph, ValueId v, Op op);
const Node* made_by(const Graph& graph, ValueId v);

// The number that every element of a constant is.
std::optional<double> uniform_number(const Graph& graph, ValueId v);

bool is_close(double a, double b);  // as float constants of a file are

// A reshape that only adds or drops axes of one place.
bool moves_no_axis(const Graph& graph, const Node& reshape);

// v = scale * u + offset, with reshapes of single axes and expansions left away. Of what is not negative,
// numbers that only keep it from zero (a clamp at 1e-12) count as added.
struct Linear {
  ValueId of;
  double scale = 1, offset = 0;
};
Linear read_linear(const Graph& graph, ValueId v, bool not_negative = false);

struct Factor {
  ValueId value;
  double power = 1;
  Dims place;  // its extents where it stands in the product, before broadcasting
};
struct Product {
  double scale = 1;
  std::vector<Factor> factors;
};
// What `top`, a mul or div, multiplies; `whole` is not taken apart. Square roots are powers.
Product read_product(const Graph& graph, const Node& top, ValueId whole = kNoValue);

// The extents of x with one place along `dims`, which is how a statistic of x meets it.
bool meets(const Graph& graph, const Dims& place, ValueId x, const Shape& dims);

// v = mean of x along dims, from mean or sum, whatever its shape.
struct Statistic {
  ValueId of;
  Shape dims;
};
std::optional<Statistic> read_mean(const Graph& graph, ValueId v);

// v = scale * moment + offset: the mean of squares of x along dims, or of x minus its mean.
struct Moment {
  ValueId of;
  Shape dims;
  bool centered = false;
  double scale = 1, offset = 0;
};
std::optional<Moment> read_moment(const Graph& graph, ValueId v);
// v = x - mean of x along dims
bool is_centered(const Graph& graph, ValueId v, ValueId x, const Shape& dims);

}  // namespace sixfold
