#include "sixfold/qnn/types.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "sixfold/cpu/pool.h"

namespace sixfold::qnn {
namespace {

struct TypeRow {
  DataType type;
  const char* name;
  DType storage;
  bool fixed;
};
constexpr TypeRow kTypes[] = {
    {DataType::i8, "INT_8", DType::i8, false},
    {DataType::i16, "INT_16", DType::i16, false},
    {DataType::i32, "INT_32", DType::i32, false},
    {DataType::i64, "INT_64", DType::i64, false},
    {DataType::u8, "UINT_8", DType::u8, false},
    {DataType::u16, "UINT_16", DType::u16, false},
    {DataType::u32, "UINT_32", DType::u32, false},
    {DataType::u64, "UINT_64", DType::u64, false},
    {DataType::f16, "FLOAT_16", DType::f16, false},
    {DataType::f32, "FLOAT_32", DType::f32, false},
    {DataType::sfixed8, "SFIXED_POINT_8", DType::i8, true},
    {DataType::sfixed16, "SFIXED_POINT_16", DType::i16, true},
    {DataType::sfixed32, "SFIXED_POINT_32", DType::i32, true},
    {DataType::ufixed8, "UFIXED_POINT_8", DType::u8, true},
    {DataType::ufixed16, "UFIXED_POINT_16", DType::u16, true},
    {DataType::ufixed32, "UFIXED_POINT_32", DType::u32, true},
    {DataType::boolean, "BOOL_8", DType::boolean, false},
};
constexpr TypeRow kUndefined{DataType::undefined, "UNDEFINED", DType::none, false};

const TypeRow& row(DataType type) {
  for (const TypeRow& r : kTypes)
    if (r.type == type) return r;
  return kUndefined;
}

std::string channels_text(const std::vector<ScaleOffset>& channels) {
  if (channels.empty()) return "none";
  return cat(channels.size(), " scales from ", channels.front().scale, " offset ", channels.front().offset);
}

}  // namespace

size_t size_of(DataType dtype) { return sixfold::size_of(storage_of(dtype)); }
std::string_view to_text(DataType dtype) { return row(dtype).name; }
bool is_fixed(DataType dtype) { return row(dtype).fixed; }
DType storage_of(DataType dtype) { return row(dtype).storage; }

DataType plain_type(DType dtype) {
  for (const TypeRow& r : kTypes)
    if (r.storage == dtype && !r.fixed) return r.type;
  return DataType::undefined;
}

std::string to_text(const Quantization& quantization) {
  struct Text {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(const ScaleOffset& q) const {
      return cat("scale ", q.scale, " offset ", q.offset);
    }
    std::string operator()(const AxisScaleOffset& q) const {
      return cat("axis ", q.axis, " ", channels_text(q.channels));
    }
    std::string operator()(const BitWidthScaleOffset& q) const {
      return cat(q.bits, " bits ", (*this)(q.all));
    }
    std::string operator()(const BitWidthAxisScaleOffset& q) const {
      return cat(q.bits, " bits axis ", q.axis, " ", channels_text(q.channels));
    }
    std::string operator()(const BlockExpansion& q) const {
      return cat("axis ", q.axis, " ", q.blocks, " blocks ", channels_text(q.channels));
    }
  };
  return std::visit(Text{}, quantization);
}

std::string to_text(const TensorSpec& tensor) {
  std::string text = cat(to_text(tensor.dtype), "[");
  for (size_t i = 0; i < tensor.dims.size(); ++i) text += cat(i ? ", " : "", tensor.dims[i]);
  text += "]";
  if (const std::string q = to_text(tensor.quantization); !q.empty()) text += cat(" ", q);
  return text;
}

Param words(const char* name, std::vector<uint32_t> values) {
  const auto n = static_cast<uint32_t>(values.size());
  return {name, Words{DataType::u32, {n}, std::move(values)}};
}
Param words(const char* name, std::vector<uint32_t> dims, std::vector<uint32_t> values) {
  return {name, Words{DataType::u32, std::move(dims), std::move(values)}};
}
Param signed_words(const char* name, std::vector<uint32_t> dims, const std::vector<int32_t>& values) {
  return {name, Words{DataType::i32, std::move(dims), {values.begin(), values.end()}}};
}

namespace {

// f(flat index of the result, offset into source in elements) in the result's order.
template <typename F>
void for_each_element(const Tensor& source, const Shape& order, const F& f) {
  const Shape strides = source.strides.empty() ? contiguous_strides(source.shape) : source.strides;
  Shape extent, stride;
  for (size_t i = 0; i < source.shape.size(); ++i) {
    const auto a = order.empty() ? i : static_cast<size_t>(order[i]);
    extent.push_back(source.shape[a]);
    stride.push_back(strides[a]);
  }
  Shape at(extent.size(), 0);
  int64_t offset = 0;
  const int64_t count = numel(extent);
  for (int64_t i = 0; i < count; ++i) {
    f(i, offset);
    for (size_t a = extent.size(); a-- > 0;) {
      offset += stride[a];
      if (++at[a] < extent[a]) break;
      offset -= stride[a] * extent[a];
      at[a] = 0;
    }
  }
}

// Index into the grid's scales of a source element, from its row-major position.
struct GridIndex {
  int64_t inner = 1, extent = 1, block_inner = 1, block_extent = 1, block = 0, blocks = 1;

  GridIndex(const StaticData::Grid& grid, const Shape& shape) : block(grid.block) {
    if (grid.axis < 0) return;
    const Shape strides = contiguous_strides(shape);
    const auto a = static_cast<size_t>(grid.axis);
    inner = strides[a];
    extent = shape[a];
    if (block > 0) {
      const size_t along = a == 1 ? 0 : 1;
      block_inner = strides[along];
      block_extent = shape[along];
      blocks = block_extent / block;
    }
  }
  // So many elements in a row have one scale, from any multiple of it on.
  int64_t run(const StaticData::Grid& grid, int64_t count) const {
    if (grid.axis < 0) return std::max<int64_t>(count, 1);
    return block > 0 ? std::min(inner, block_inner * block) : inner;
  }
  size_t operator()(int64_t i) const {
    const int64_t channel = i / inner % extent;
    return static_cast<size_t>(block > 0 ? channel * blocks + i / block_inner % block_extent / block
                                         : channel);
  }
};

// The nearest integers of n floats (in bytes, perhaps not aligned), to every step-th place of `to`.
template <typename To>
void round_run(const std::byte* from, int64_t n, double scale, double zero, const StaticData::Grid& grid,
               To* to, int64_t step) {
  constexpr int64_t kChunk = 256;
  constexpr double kRound = 6755399441055744;  // 1.5 * 2^52: added and taken away, it leaves a whole number
  const double low = static_cast<double>(grid.min) - zero, high = static_cast<double>(grid.max) - zero;
  float x[kChunk];
  double q[kChunk];
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t m = std::min(kChunk, n - begin);
    std::memcpy(x, from + begin * static_cast<int64_t>(sizeof(float)),
                static_cast<size_t>(m) * sizeof(float));
    for (int64_t i = 0; i < m; ++i) {
      double v = static_cast<double>(x[i]) / scale;
      v = v == v ? v : 0.0;
      v = v < low ? low : v;
      v = v > high ? high : v;
      q[i] = (v + kRound) - kRound + zero;
    }
    for (int64_t i = 0; i < m; ++i) to[(begin + i) * step] = static_cast<To>(static_cast<int64_t>(q[i]));
  }
}

constexpr int64_t kManyElements = 1 << 18;  // worth other threads

// Row by row of the source, which is contiguous floats, to where the order puts each.
template <typename To>
void round_rows(const StaticData& data, const GridIndex& index, const Shape& out_shape, To* to) {
  const Tensor& source = data.source;
  const Shape out_strides = contiguous_strides(out_shape);
  // By the source's axes; those that lie one inside the other in the result too are one, so that rows are
  // long.
  Shape shape, place;
  for (size_t i = 0; i < source.shape.size(); ++i) {
    if (source.shape[i] == 1) continue;
    size_t to = i;
    for (size_t k = 0; k < data.order.size(); ++k)
      if (static_cast<size_t>(data.order[k]) == i) to = k;
    if (!place.empty() && place.back() == out_strides[to] * source.shape[i]) {
      shape.back() *= source.shape[i];
      place.back() = out_strides[to];
    } else {
      shape.push_back(source.shape[i]);
      place.push_back(out_strides[to]);
    }
  }
  const int64_t count = source.count(), width = shape.empty() ? 1 : shape.back();
  const int64_t run = std::min(index.run(data.grid, count), width), step = place.empty() ? 1 : place.back();
  const size_t outer = shape.size() < 2 ? 0 : shape.size() - 2;  // axes before rows and columns
  const int64_t rows = shape.size() < 2 ? 1 : shape[outer], row_step = shape.size() < 2 ? 0 : place[outer];
  // Rows whose elements are neighbours in the result are rounded beside each other and written together.
  constexpr int64_t kRows = 32, kColumns = 256;
  const bool turned = row_step == 1 && step > 1 && run == width;
  const auto round = [&](int64_t from, int64_t n, To* out, int64_t out_step) {
    const size_t c = data.grid.axis < 0 ? 0 : index(from);
    // Blocks are symmetric; their scales are more than the zero points.
    const double zero =
        data.grid.block == 0 && c < data.grid.zero_points.size() ? data.grid.zero_points[c] : 0;
    round_run(source.data + from * static_cast<int64_t>(sizeof(float)), n, data.grid.scales[c], zero,
              data.grid, out, out_step);
  };
  if (count == 0) return;
  const int64_t blocks = (rows + kRows - 1) / kRows, tasks = count / (rows * width) * blocks;
  cpu::Pool pool(count < kManyElements ? 1 : 0);
  pool.for_each(static_cast<size_t>(tasks), [&](size_t task) {
    const int64_t block = static_cast<int64_t>(task) % blocks * kRows, n = std::min(kRows, rows - block);
    int64_t at = static_cast<int64_t>(task) / blocks, base = block * row_step;
    const int64_t from = (at * rows + block) * width;
    for (size_t a = outer; a-- > 0; at /= shape[a]) base += at % shape[a] * place[a];
    if (!turned) {
      for (int64_t r = 0; r < n; ++r)
        for (int64_t i = 0; i < width; i += run)
          round(from + r * width + i, std::min(run, width - i), to + base + r * row_step + i * step, step);
      return;
    }
    To turn[kRows * kColumns];
    for (int64_t begin = 0; begin < width; begin += kColumns) {
      const int64_t columns = std::min(kColumns, width - begin);
      for (int64_t r = 0; r < n; ++r) round(from + r * width + begin, columns, turn + r * kColumns, 1);
      for (int64_t i = 0; i < columns; ++i)
        for (int64_t r = 0; r < n; ++r) to[base + (begin + i) * step + r] = turn[r * kColumns + i];
    }
  });
}

}  // namespace

Result<Tensor> materialize(const StaticData& data) {
  const Tensor& source = data.source;
  const DType dtype = data.dtype == DType::none ? source.dtype : data.dtype;
  const bool rounds = !data.grid.scales.empty() && is_float(source.dtype);
  if (data.order.empty() && dtype == source.dtype && !rounds && data.mask == 0 && source.is_contiguous())
    return source;
  Shape shape;
  for (size_t i = 0; i < source.shape.size(); ++i)
    shape.push_back(source.shape[data.order.empty() ? i : static_cast<size_t>(data.order[i])]);
  std::byte* bytes = nullptr;
  Tensor out = Tensor::allocate(dtype, shape, &bytes);
  if (out.count() > 0 && !bytes)
    return fail(Code::OutOfMemory, "a constant of ", out.size_bytes(), " bytes does not fit into memory");

  const bool plain = rounds && source.dtype == DType::f32 && source.is_contiguous() && !is_float(dtype);
  // Where in row-major order of the source an element of the result lies, for its scale.
  Tensor flat = source;
  flat.strides = {};
  std::vector<int64_t> position;
  if (rounds && !plain && data.grid.axis >= 0) {
    position.resize(static_cast<size_t>(out.count()));
    for_each_element(flat, data.order,
                     [&](int64_t i, int64_t from) { position[static_cast<size_t>(i)] = from; });
  }
  const GridIndex index(data.grid, source.shape);
  if (rounds && data.grid.scales.size() != static_cast<size_t>(index.extent * index.blocks))
    return fail(Code::Internal, "a constant has ", data.grid.scales.size(), " scales, expected ",
                index.extent * index.blocks);

  Status status;
  const auto round_plain = [&](auto tag) {
    using To = decltype(tag);
    if constexpr (std::is_integral_v<To>) round_rows(data, index, shape, reinterpret_cast<To*>(bytes));
  };
  const auto convert_each = [&](auto from_tag) {
    using From = decltype(from_tag);
    const auto* from = reinterpret_cast<const From*>(source.data);
    with_type(dtype, [&](auto to_tag) {
      using To = decltype(to_tag);
      auto* to = reinterpret_cast<To*>(bytes);
      for_each_element(source, data.order, [&](int64_t i, int64_t offset) {
        From x{};
        std::memcpy(&x, from + offset, sizeof x);
        if (rounds) {
          const size_t c = data.grid.axis < 0 ? 0 : index(position[static_cast<size_t>(i)]);
          // Blocks are symmetric; their scales are more than the zero points.
          const double zero =
              data.grid.block == 0 && c < data.grid.zero_points.size() ? data.grid.zero_points[c] : 0;
          const double q =
              std::nearbyint(static_cast<double>(static_cast<float>(x)) / data.grid.scales[c]) + zero;
          const double clamped =
              std::fmin(std::fmax(q, static_cast<double>(data.grid.min)), static_cast<double>(data.grid.max));
          to[i] = static_cast<To>(std::isnan(q) ? zero : clamped);
        } else {
          if constexpr (std::is_same_v<From, int64_t> && std::is_same_v<To, int32_t>)
            if (x < INT32_MIN || x > INT32_MAX)
              status = unsupported("a constant holds ", x, ", which is no 32-bit integer");
          to[i] = static_cast<To>(x);
        }
      });
    });
  };
  if (plain)
    with_type(dtype, round_plain);
  else
    with_type(source.dtype, convert_each);
  if (!status.ok()) return status.take_error();
  if (data.mask != 0)
    for (size_t i = 0; i < out.size_bytes(); ++i) bytes[i] &= static_cast<std::byte>(data.mask);
  return out;
}

std::string print(const GraphSpec& graph) {
  std::string text = cat("graph ", graph.name, "\n");
  for (const TensorSpec& t : graph.tensors)
    if (t.kind == TensorKind::app_write) text += cat("  input ", t.name, " ", to_text(t), "\n");
  for (const OpSpec& op : graph.ops) {
    text += "  ";
    for (size_t i = 0; i < op.out.size(); ++i) {
      const TensorSpec& t = graph.tensor(op.out[i]);
      text += cat(i ? ", " : "", t.name, ": ", to_text(t));
    }
    text += cat(" = ", op.type, "(");
    for (size_t i = 0; i < op.in.size(); ++i) {
      const TensorSpec* t = op.in[i].valid() ? &graph.tensor(op.in[i]) : nullptr;
      text += cat(i ? ", " : "", t ? t->name : "none");
      if (t && t->kind == TensorKind::constant) text += cat(": ", to_text(*t));
    }
    for (const Param& p : op.params) {
      text += cat("; ", p.name, "=");
      if (const Words* w = std::get_if<Words>(&p.value)) {
        text += "[";
        for (size_t i = 0; i < w->values.size(); ++i)
          text += cat(i ? ", " : "", w->dtype == DataType::i32 ? cat(static_cast<int32_t>(w->values[i]))
                                                               : cat(w->values[i]));
        text += "]";
      } else if (const bool* b = std::get_if<bool>(&p.value)) {
        text += *b ? "true" : "false";
      } else if (const uint32_t* u = std::get_if<uint32_t>(&p.value)) {
        text += cat(*u);
      } else if (const int32_t* n = std::get_if<int32_t>(&p.value)) {
        text += cat(*n);
      } else {
        text += cat(std::get<float>(p.value));
      }
    }
    text += ")\n";
  }
  for (const TensorSpec& t : graph.tensors)
    if (t.kind == TensorKind::app_read) text += cat("  output ", t.name, " ", to_text(t), "\n");
  return text;
}

}  // namespace sixfold::qnn
