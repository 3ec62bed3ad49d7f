#include "tools/bounds.h"

#include <algorithm>
#include <charconv>

#include "sixfold/lower/limits.h"
#include "sixfold/rewrite/pipeline.h"

namespace sixfold::tools {

Result<Bindings> parse_bounds(const std::vector<std::string>& texts) {
  Bindings out;
  for (const std::string& text : texts) {
    const size_t equals = std::min(text.find('='), text.size());
    int64_t n = 0;
    const char* begin = text.data() + std::min(equals + 1, text.size());
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(begin, end, n);
    if (equals == 0 || error != std::errc() || stop != end || n < 1)
      return invalid_argument("--bound is '", text, "', expected SYMBOL=N with N at least 1");
    out[text.substr(0, equals)] = n;
  }
  return out;
}

Status apply_bounds(Graph& graph, const Bindings& bounds) {
  for (const auto& [name, most] : bounds) {
    const auto it = graph.symbols.find(name);
    if (it == graph.symbols.end()) {
      std::string known;
      for (const auto& [symbol, range] : graph.symbols) known += cat(known.empty() ? "" : ", ", symbol);
      return invalid_argument("--bound names ", name, ", the model's symbols are ",
                              known.empty() ? "none" : known);
    }
    SymbolRange& range = it->second;
    if (most < range.min.value_or(0))
      return invalid_argument("--bound ", name, "=", most, " is below the symbol's least value, ",
                              *range.min);
    if (range.max && most > *range.max)
      return invalid_argument("--bound ", name, "=", most, " is above what the model was exported for, ",
                              *range.max);
    range.max = most;
  }
  return {};
}

std::optional<Bindings> choose_static_sizes(const Graph& imported) {
  constexpr int64_t kMost = 4096;  // beyond it a range means "any"
  for (const int64_t wish : {int64_t{0}, int64_t{16}, int64_t{8}, int64_t{32}, int64_t{64}, int64_t{128},
                             int64_t{256}, int64_t{4}, int64_t{2}, int64_t{1}}) {
    Bindings sizes;
    bool fits = true;
    for (const auto& [name, range] : imported.symbols) {
      if (is_data_dependent(name)) continue;
      const int64_t least = std::max<int64_t>(range.min.value_or(1), 1);
      const int64_t most = std::max(least, range.max.value_or(INT64_MAX));
      sizes[name] = std::clamp(wish == 0 ? most : wish, least, most);
      fits = fits && sizes[name] <= kMost;
    }
    if (sizes.empty()) return {};
    if (!fits) continue;
    Graph graph = imported;
    specialize(graph, sizes);
    RewriteOptions rewrite;
    rewrite.keep_unknown = true;
    if (canonicalize(graph, rewrite).ok()) return sizes;
  }
  return {};
}

}  // namespace sixfold::tools
