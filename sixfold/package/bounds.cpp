#include "sixfold/package/bounds.h"

#include <algorithm>

namespace sixfold {
namespace {

class Intervals : public Dim::Visitor {
 public:
  explicit Intervals(const std::map<std::string, SymbolRange>& symbols) : symbols_(symbols) {}

  int number(int64_t value) override { return keep({value, value}); }

  int symbol(const std::string& name) override {
    const auto it = symbols_.find(name);
    const SymbolRange known = it == symbols_.end() ? SymbolRange{} : it->second;
    if (!known.max && unbounded.empty()) unbounded = name;
    return keep({std::max<int64_t>(known.min.value_or(0), 0), known.max.value_or(0)});
  }

  int apply(Function function, int left, int right) override {
    const Range a = ranges[static_cast<size_t>(left)], b = ranges[static_cast<size_t>(right)];
    const auto corners = [&](auto f) {
      const int64_t v[] = {f(a.min, b.min), f(a.min, b.max), f(a.max, b.min), f(a.max, b.max)};
      return Range{*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
    };
    // Dim's own arithmetic saturates, so that bounds from a file cannot wrap around.
    switch (function) {
      case Function::add:
        return keep({(Dim(a.min) + Dim(b.min)).value(), (Dim(a.max) + Dim(b.max)).value()});
      case Function::mul:
        return keep(corners([](int64_t x, int64_t y) { return (Dim(x) * Dim(y)).value(); }));
      case Function::floordiv:
        return keep(corners([](int64_t x, int64_t y) { return floordiv(Dim(x), Dim(y)).value(); }));
      case Function::mod:
        return keep({0, std::max<int64_t>(b.max - 1, 0)});
      case Function::max:
        return keep({std::max(a.min, b.min), std::max(a.max, b.max)});
      case Function::min:
        return keep({std::min(a.min, b.min), std::min(a.max, b.max)});
    }
    return keep({});
  }

  std::vector<Range> ranges;
  std::string unbounded;

 private:
  int keep(Range r) {
    ranges.push_back(r);
    return static_cast<int>(ranges.size()) - 1;
  }
  const std::map<std::string, SymbolRange>& symbols_;
};

}  // namespace

Result<Range> range_of(const Dim& dim, const std::map<std::string, SymbolRange>& symbols) {
  Intervals intervals(symbols);
  const int at = dim.visit(intervals);
  if (!intervals.unbounded.empty())
    return invalid_argument("symbol ", intervals.unbounded, " has no upper bound: give one with --bound ",
                            intervals.unbounded, "=N");
  return intervals.ranges[static_cast<size_t>(at)];
}

Result<Shape> bound_of(const Dims& dims, const std::map<std::string, SymbolRange>& symbols) {
  Shape out;
  for (const Dim& d : dims) {
    SF_ASSIGN(const Range range, range_of(d, symbols));
    out.push_back(range.max);
  }
  return out;
}

}  // namespace sixfold
