#include "sixfold/lower/limits.h"

#include <algorithm>
#include <limits>

namespace sixfold {
namespace {

// Lists end where they get long.
std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < names.size() && i < 4; ++i) out += cat(i ? ", " : "", names[i]);
  return names.size() > 4 ? out + ", ..." : out;
}

Status check_sizes(const Type& type) {
  if (type.rank() > kMaxDeviceRank)
    return unsupported("a tensor ", type, " has ", type.rank(), " axes (rank ", type.rank(),
                       "), the device takes at most ", kMaxDeviceRank, " [htp.rank.1]");
  const int64_t count = numel(type.dims).value_or(0);
  if (count == 0) return unsupported("a tensor ", type, " has no elements [htp.empty.1]");
  const auto width = static_cast<int64_t>(size_of(type.dtype));
  if (count > int64_t{UINT32_MAX} / width)
    return unsupported("a tensor ", type, " is too large: it needs ",
                       static_cast<double>(count) / 1e9 * static_cast<double>(width),
                       " GB, the device addresses 4.3 GB [htp.size.1]");
  return {};
}

// The device computes 64-bit integers in 32 bits.
Status check_integers(const Tensor& data) {
  if (data.dtype != DType::i64 && data.dtype != DType::u64 && data.dtype != DType::u32) return {};
  const Tensor flat = to_contiguous(data);
  for (int64_t i = 0; i < flat.count(); ++i) {
    const double x = element_real(flat, i);
    if (x < std::numeric_limits<int32_t>::min() || x > std::numeric_limits<int32_t>::max())
      return unsupported("a constant of ", data.dtype, " holds ", cat(static_cast<int64_t>(x)),
                         ", which is no 32-bit integer; the device has none of 64 bits [htp.type.2]");
  }
  return {};
}

}  // namespace

bool is_data_dependent(std::string_view symbol) {
  return symbol.size() > 1 && symbol[0] == 'u' &&
         std::all_of(symbol.begin() + 1, symbol.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> symbols_of(const Graph& graph, const Node& node) {
  std::vector<std::string> names;
  const auto add = [&](ValueId v) {
    for (const Dim& d : graph.dims(v)) d.collect_symbols(names);
  };
  for (const ValueId v : node.inputs)
    if (v.valid()) add(v);
  for (const ValueId v : node.outputs) add(v);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Status check_limits(const Graph& graph, const Node& node) {
  if (const auto symbols = symbols_of(graph, node); !symbols.empty()) {
    std::vector<std::string> data;
    std::copy_if(symbols.begin(), symbols.end(), std::back_inserter(data), is_data_dependent);
    if (!data.empty())
      return unsupported("its shape depends on data (", join(data),
                         "); the device needs static shapes [htp.shape.2]");
    return unsupported("its shapes are symbolic (dynamic: ", join(symbols),
                       "); the device needs static ones [htp.shape.1]");
  }
  const auto check = [&](ValueId v) -> Status {
    if (!v.valid()) return {};
    const Type& type = graph.type(v);
    if (const Tensor* data = graph.constant(v)) return check_integers(*data);
    if (type.dtype == DType::f64 || type.dtype == DType::bf16)
      return unsupported("its dtype is ", type.dtype == DType::f64 ? "float64" : "bfloat16",
                         "; the device has float32, computed as halves [htp.type.1]");
    return check_sizes(type);
  };
  for (const ValueId v : node.inputs) SF_TRY(check(v));
  for (const ValueId v : node.outputs)
    if (graph.is_used(v)) SF_TRY(check(v));
  return {};
}

}  // namespace sixfold
