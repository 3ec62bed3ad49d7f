// The bytes of constants: in the order that QNN wants, as integers where a grid is given.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "sixfold/base/recycled.h"
#include "sixfold/cpu/pool.h"
#include "sixfold/qnn/round_run.h"
#include "sixfold/qnn/types.h"

namespace sixfold::qnn {
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

constexpr int64_t kManyElements = 1 << 18;  // worth other threads
constexpr int64_t kRows = 32;               // of a task

// Contiguous floats rounded to where the order puts each.
template <typename To>
class RoundedCopy {
 public:
  RoundedCopy(const StaticData& data, const GridIndex& index, const Shape& out_shape, To* to)
      : data_(data), index_(index), to_(to) {
    const Shape& from = data.source.shape;
    const Shape out_strides = contiguous_strides(out_shape);
    // By the source's axes; those that lie one inside the other in the result too are one, so that rows are
    // long.
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] == 1) continue;
      size_t k = i;
      for (size_t o = 0; o < data.order.size(); ++o)
        if (static_cast<size_t>(data.order[o]) == i) k = o;
      if (!place_.empty() && place_.back() == out_strides[k] * from[i]) {
        shape_.back() *= from[i];
        place_.back() = out_strides[k];
      } else {
        shape_.push_back(from[i]);
        place_.push_back(out_strides[k]);
      }
    }
  }

  void run() {
    const int64_t count = data_.source.count();
    if (count == 0) return;
    if (shape_.empty()) return round(0, 1, 0, 1);
    const int64_t same = index_.run(data_.grid, count);  // elements in a row with one scale
    // An axis whose elements are neighbours in the result: rows begin at them, and are written together.
    size_t axis = 0;
    while (axis < place_.size() && place_[axis] != 1) ++axis;
    const bool turned = axis + 1 < place_.size() && same >= product_from(axis + 1);
    if (!turned) axis = shape_.size() < 2 ? 0 : shape_.size() - 2;
    if (shape_.size() < 2) {
      shape_.insert(shape_.begin(), 1);
      place_.insert(place_.begin(), 0);
    }
    rows_ = shape_[axis];
    row_step_ = place_[axis];
    width_ = product_from(axis + 1);
    outer_ = axis;
    if (turned) find_columns(axis + 1);
    const int64_t blocks = (rows_ + kRows - 1) / kRows, tasks = count / (rows_ * width_) * blocks;
    cpu::Pool(count < kManyElements ? 1 : 0).for_each(static_cast<size_t>(tasks), [&](size_t task) {
      const int64_t first = static_cast<int64_t>(task) % blocks * kRows, n = std::min(kRows, rows_ - first);
      int64_t at = static_cast<int64_t>(task) / blocks, base = first * row_step_;
      const int64_t from = (at * rows_ + first) * width_;
      for (size_t a = outer_; a-- > 0; at /= shape_[a]) base += at % shape_[a] * place_[a];
      if (turned)
        turn(from, n, base);
      else
        for (int64_t r = 0; r < n; ++r)
          for (int64_t i = 0, run = std::min(same, width_); i < width_; i += run)
            round(from + r * width_ + i, std::min(run, width_ - i), base + r * row_step_ + i * place_.back(),
                  place_.back());
    });
  }

 private:
  static constexpr int64_t kChunk = 256;

  int64_t product_from(size_t axis) const {
    int64_t n = 1;
    for (; axis < shape_.size(); ++axis) n *= shape_[axis];
    return n;
  }
  void find_columns(size_t axis) {
    columns_.assign(1, 0);
    for (; axis < shape_.size(); ++axis) {
      std::vector<int64_t> more;
      more.reserve(columns_.size() * static_cast<size_t>(shape_[axis]));
      for (const int64_t c : columns_)
        for (int64_t i = 0; i < shape_[axis]; ++i) more.push_back(c + i * place_[axis]);
      columns_ = std::move(more);
    }
  }

  // The integers of at most kChunk elements from one on, which have one scale.
  void integers(int64_t from, int64_t n, int32_t* out) const {
    const size_t c = data_.grid.axis < 0 ? 0 : index_(from);
    // Blocks are symmetric; their scales are more than the zero points.
    const double zero =
        data_.grid.block == 0 && c < data_.grid.zero_points.size() ? data_.grid.zero_points[c] : 0;
    float x[kChunk];  // bytes of a file are perhaps not aligned
    std::memcpy(x, data_.source.data + from * static_cast<int64_t>(sizeof(float)),
                static_cast<size_t>(n) * sizeof(float));
    round_run(x, n,
              {data_.grid.scales[c], zero, static_cast<double>(data_.grid.min),
               static_cast<double>(data_.grid.max)},
              out);
  }

  // To every step-th place.
  void round(int64_t from, int64_t n, int64_t place, int64_t step) const {
    int32_t q[kChunk];
    for (int64_t begin = 0; begin < n; begin += kChunk) {
      const int64_t m = std::min(kChunk, n - begin);
      integers(from + begin, m, q);
      To* to = to_ + place + begin * step;
      for (int64_t i = 0; i < m; ++i) to[i * step] = static_cast<To>(q[i]);
    }
  }

  // n rows beside each other.
  void turn(int64_t from, int64_t n, int64_t base) const {
    int32_t q[kChunk];
    To turned[kChunk * kRows];
    for (int64_t begin = 0; begin < width_; begin += kChunk) {
      const int64_t m = std::min(kChunk, width_ - begin);
      for (int64_t r = 0; r < n; ++r) {
        integers(from + r * width_ + begin, m, q);
        for (int64_t i = 0; i < m; ++i) turned[i * kRows + r] = static_cast<To>(q[i]);
      }
      for (int64_t i = 0; i < m; ++i)
        std::memcpy(to_ + base + columns_[static_cast<size_t>(begin + i)], turned + i * kRows,
                    static_cast<size_t>(n) * sizeof(To));
    }
  }

  const StaticData& data_;
  const GridIndex& index_;
  To* to_;
  Shape shape_, place_;  // of the joined axes
  size_t outer_ = 0;     // axes before rows
  int64_t rows_ = 1, row_step_ = 0, width_ = 1;
  std::vector<int64_t> columns_;  // places in the result, beside the row's
};

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
  SF_ASSIGN(const Tensor out, Tensor::allocate(recycled_memory(), dtype, shape, &bytes));

  const bool plain = rounds && source.dtype == DType::f32 && source.is_contiguous() && !is_float(dtype) &&
                     data.grid.min >= INT32_MIN && data.grid.max <= INT32_MAX;
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
    if constexpr (std::is_integral_v<To>) RoundedCopy(data, index, shape, reinterpret_cast<To*>(bytes)).run();
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

}  // namespace sixfold::qnn
