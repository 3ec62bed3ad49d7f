// Sums and differences of neighbours: slices of a tensor against each other.
#include "sixfold/ops/expr.h"
#include "sixfold/ops/rule_table.h"
#include "sixfold/ops/shape/build.h"

namespace sixfold::aten {
namespace {

// x without its last element along the axis, and without its first.
Expr left(const Expr& x, int64_t axis) {
  return {x.call(), x.call().slice(x, axis, Dim(0), extent(x.call(), x, axis) - Dim(1))};
}
Expr right(const Expr& x, int64_t axis) {
  return {x.call(), x.call().slice(x, axis, Dim(1), extent(x.call(), x, axis))};
}

Status diff(Call& call) {
  const ValueId self = call.tensor("self");
  const int64_t axis = call.axis("dim", self), n = call.integer("n");
  if (!ok(call)) return stop(call);
  if (call.rank(self) == 0 || n < 0) return invalid_model("diff of order ", n, " of ", call.type(self));
  std::vector<ValueId> parts{self};
  if (const ValueId v = call.optional_tensor("prepend"); v.valid()) parts.insert(parts.begin(), v);
  if (const ValueId v = call.optional_tensor("append"); v.valid()) parts.push_back(v);
  Expr x(call, concat(call, parts, axis));
  for (int64_t i = 0; i < n && !(extent(call, x, axis) == Dim(0)); ++i)
    x = right(x, axis).apply(x.dtype() == DType::boolean ? Op::logical_xor : Op::sub, left(x, axis));
  return call.result(x);
}

// out[i] = a[i+1] * b[i+2] - a[i+2] * b[i+1], indices modulo 3
Status cross_along(Call& call, ValueId x, ValueId y, int64_t axis) {
  const DType dtype = result_type(call, {"self", "other"});
  if (!ok(call)) return stop(call);
  if (extent(call, x, axis).value_or(3) != 3)
    return invalid_model("cross product along an axis of ", extent(call, x, axis));
  const auto turned = [&](ValueId v, bool once) {
    const ValueId index =
        integers(call, once ? std::vector<int64_t>{1, 2, 0} : std::vector<int64_t>{2, 0, 1});
    return Expr(call, index_select(call, call.to(v, dtype), axis, index));
  };
  return call.result(turned(x, true) * turned(y, false) - turned(x, false) * turned(y, true));
}
Status cross(Call& call) {
  const ValueId x = call.tensor("self"), y = call.tensor("other");
  int64_t axis = 0;
  if (!call.is_none("dim"))
    axis = call.axis("dim", x);
  else
    while (axis < call.rank(x) && !(extent(call, x, axis) == Dim(3))) ++axis;
  if (axis >= call.rank(x) || call.rank(y) != call.rank(x))
    return invalid_model("cross product of ", call.type(x), " and ", call.type(y));
  return cross_along(call, x, y, axis);
}

// Twice the areas between neighbours.
Expr trapezoids(Call& call, int64_t axis) {
  Expr y(call, call.tensor("y"));
  y = y.to(to_float(y.dtype()));
  const Expr sums = left(y, axis) + right(y, axis);
  if (!call.attr("x")) return sums * call.real("dx");
  Expr x = Expr(call, call.tensor("x")).to(y.dtype());
  if (x.rank() == 1 && y.rank() > 1) {
    Dims line(static_cast<size_t>(y.rank()), Dim(1));
    line[static_cast<size_t>(axis)] = x.dims()[0];
    x = x.reshape(line);
  }
  return sums * (right(x, axis) - left(x, axis));
}
Status trapezoid(Call& call) {
  const int64_t axis = call.axis("dim", call.tensor("y"));
  if (!ok(call)) return stop(call);
  return call.result(sum(trapezoids(call, axis), {axis}) / 2.0);
}
Status cumulative_trapezoid(Call& call) {
  const int64_t axis = call.axis("dim", call.tensor("y"));
  if (!ok(call)) return stop(call);
  return call.result(trapezoids(call, axis).apply(Op::cumsum, {{"dim", Dim(axis)}}) / 2.0);
}

// Half the difference of both neighbours; at the ends that of one, or with edge_order 2 a parabola's slope.
Expr gradient_along(const Expr& x, int64_t axis, double spacing, int64_t edge_order) {
  Call& call = x.call();
  const int64_t n = extent(call, x, axis).value_or(0);
  const auto at = [&](int64_t from, int64_t to) {
    return Expr(call, call.slice(x, axis, Dim(from), Dim(to)));
  };
  Expr first = (at(1, 2) - at(0, 1)) / spacing, last = (at(n - 1, n) - at(n - 2, n - 1)) / spacing;
  if (edge_order == 2) {
    first = (at(0, 1) * -1.5 + at(1, 2) * 2.0 + at(2, 3) * -0.5) / spacing;
    last = (at(n - 1, n) * 1.5 + at(n - 2, n - 1) * -2.0 + at(n - 3, n - 2) * 0.5) / spacing;
  }
  std::vector<ValueId> parts{first, last};
  if (n > 2) parts.insert(parts.begin() + 1, (at(2, n) - at(0, n - 2)) / (2 * spacing));
  return {call, concat(call, parts, axis)};
}
// One spacing for all axes, or one for each.
Status gradient(Call& call) {
  Expr x(call, call.tensor("self"));
  x = x.to(to_float(x.dtype()));
  const Shape shape = call.shape(x), axes = call.axes("dim", x);
  std::vector<double> spacing{1};
  if (const Attr* given = call.attr("spacing"); given && !call.is_none("spacing")) {
    if (std::holds_alternative<Operands>(*given)) return call.unsupported("a spacing by coordinates");
    spacing = std::holds_alternative<Dims>(*given) || std::holds_alternative<std::vector<double>>(*given)
                  ? call.reals("spacing")
                  : std::vector<double>{call.real("spacing")};
  }
  const int64_t edge_order = call.integer("edge_order");
  if (!ok(call)) return stop(call);
  if ((edge_order != 1 && edge_order != 2) || (spacing.size() != 1 && spacing.size() != axes.size()))
    return invalid_model("a gradient along ", axes.size(), " axes with ", spacing.size(), " spacings");
  if (spacing.size() > 1 && call.ints("dim") != axes && !call.is_none("dim"))
    return call.unsupported("spacings for axes in another order");
  std::vector<ValueId> out;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (shape[static_cast<size_t>(axes[i])] <= edge_order)
      return invalid_model("a gradient of order ", edge_order, " along ",
                           shape[static_cast<size_t>(axes[i])]);
    out.push_back(gradient_along(x, axes[i], spacing[spacing.size() == 1 ? 0 : i], edge_order));
  }
  return call.results(out);
}

constexpr AtenRule kRules[] = {
    {"aten.gradient.scalarint", gradient},
    {"aten.gradient.scalararray", gradient},
    {"aten.gradient.array", gradient},
    {"aten.gradient.scalarrayint", gradient},
    {"aten.gradient.scalarrayarray", gradient},
    {"aten.gradient.tensorarray", gradient},
    {"aten.gradient.tensorarrayint", gradient},
    {"aten.diff.default", diff},
    {"aten.cross.default", cross},
    {"aten.linalg_cross.default", cross},
    {"aten.trapezoid.x", trapezoid},
    {"aten.trapezoid.dx", trapezoid},
    {"aten.trapz.x", trapezoid},
    {"aten.trapz.dx", trapezoid},
    {"aten.cumulative_trapezoid.x", cumulative_trapezoid},
    {"aten.cumulative_trapezoid.dx", cumulative_trapezoid},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> neighbour_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
