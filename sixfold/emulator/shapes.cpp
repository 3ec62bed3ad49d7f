#include "sixfold/emulator/shapes.h"

#include <algorithm>
#include <array>

#include "sixfold/emulator/neuron.h"

namespace sixfold::emulator::shapes {
namespace {

Status like(const TensorDef& a, const char* a_name, const TensorDef& b, const char* b_name) {
  if (a.dims == b.dims) return {};
  return unsupported(a_name, " has dims ", a.dims, ", ", b_name, " ", b.dims);
}

using Dims = std::vector<uint32_t>;

Status expect(const TensorDef& out, const Dims& dims) {
  if (out.dims == dims) return {};
  return unsupported("out[0] has dims ", out.dims, ", expected ", dims);
}

// The broadcast of two shapes.
Result<Dims> broadcast_dims(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    uint32_t& d = out[longer.size() - shorter.size() + i];
    const uint32_t other = shorter[i];
    if (d != other && d != 1 && other != 1) return unsupported("dims ", a, " and ", b, " do not broadcast");
    d = std::max(d, other);
  }
  return out;
}

Status in_range(const char* name, uint32_t axis, size_t rank) {
  if (axis < rank) return {};
  return unsupported(name, " is ", axis, ", expected less than the rank, ", rank);
}

Dims reduced(const Dims& dims, uint32_t mask, bool keep) {
  Dims out;
  for (size_t d = 0; d < dims.size(); ++d) {
    if ((mask >> d & 1) == 0)
      out.push_back(dims[d]);
    else if (keep)
      out.push_back(1);
  }
  if (out.empty()) out.push_back(1);
  return out;
}

// A parameter that has `count` words for each axis of in[0].
Status words_by_axis(const OpView& op, std::string_view name, uint32_t count) {
  const Dims& has = op.find(name)->tensor.dims;
  const auto axes = static_cast<uint32_t>(op.in(0).rank());
  if (has == Dims{axes, count}) return {};
  return unsupported(name, " has dims ", has, ", expected [", axes, ", ", count, "]");
}

}  // namespace

Status same(const OpView& op) { return like(op.in(0), "in[0]", op.out(), "out[0]"); }

Status broadcast(const OpView& op) {
  SF_ASSIGN(const Dims dims, broadcast_dims(op.in(0).dims, op.in(1).dims));
  return expect(op.out(), dims);
}

Status ranks_broadcast(const OpView& op) {
  const size_t rank = std::max(op.in(0).rank(), op.in(1).rank());
  if (op.out().rank() == rank) return {};
  return unsupported("out[0] has rank ", op.out().rank(), ", expected ", rank);
}

Status select(const OpView& op) {
  SF_ASSIGN(Dims dims, broadcast_dims(op.in(0).dims, op.in(1).dims));
  SF_ASSIGN(dims, broadcast_dims(dims, op.in(2).dims));
  return expect(op.out(), dims);
}

Status neuron(const OpView& op) {
  if (const uint32_t operation = op.u32("operation", 0); neuron_type(operation).empty())
    return unsupported("operation is ", operation, ", expected at most ", kNeurons.size() - 1);
  return same(op);
}

Status prelu(const OpView& op) {
  if (op.in(0).rank() == op.out().rank()) return {};
  return unsupported("in[0] has rank ", op.in(0).rank(), ", out[0] ", op.out().rank());
}

Status axis(const OpView& op) {
  SF_TRY(in_range("axis", op.u32("axis", 0), op.in(0).rank()));
  return same(op);
}

Status last_axis(const OpView& op) {
  const auto last = static_cast<uint32_t>(op.in(0).rank() - 1);
  if (const uint32_t axis = op.u32("axis", last); axis != last)
    return unsupported("axis is ", axis, ", expected the last, ", last);
  return same(op);
}

Status argument(const OpView& op) {
  const uint32_t axis = op.u32("axis", 0);
  SF_TRY(in_range("axis", axis, op.in(0).rank()));
  return expect(op.out(), reduced(op.in(0).dims, 1u << axis, op.boolean("keep_dims", false)));
}

Status reduce(const OpView& op) {
  const TensorDef& x = op.in(0);
  uint32_t mask = 0;
  for (const uint32_t axis : op.words("axes")) {
    SF_TRY(in_range("an axis", axis, x.rank()));
    if ((mask >> axis & 1) != 0) return unsupported("axis ", axis, " is there twice");
    mask |= 1u << axis;
  }
  return expect(op.out(), reduced(x.dims, mask, op.boolean("keep_dims", false)));
}

namespace {
// Vectors of one number for each channel.
Status per_channel(const OpView& op, size_t from, uint32_t channels) {
  for (size_t i = from; i < op.inputs.size(); ++i)
    if (op.in(i).is_present() && op.in(i).dims[0] != channels)
      return unsupported("in[", i, "] has ", op.in(i).dims[0], " elements, expected ", channels);
  return {};
}
}  // namespace

Status batchnorm(const OpView& op) {
  SF_TRY(per_channel(op, 1, op.in(0).dims.back()));
  return same(op);
}

Status group_norm(const OpView& op) {
  const uint32_t channels = op.in(0).dims.back(), groups = op.u32("group", 0);
  if (groups == 0 || channels % groups != 0)
    return unsupported("in[0] has ", channels, " channels, which ", groups, " groups do not divide");
  SF_TRY(per_channel(op, 1, channels));
  return same(op);
}

Status layer_norm(const OpView& op) {
  const TensorDef& x = op.in(0);
  const std::span<const uint32_t> axes = op.words("axes");
  if (axes.size() != 1 || axes[0] + 1 != x.rank())
    return unsupported("axes is ", std::vector<uint32_t>(axes.begin(), axes.end()), ", expected the last, ",
                       x.rank() - 1);
  SF_TRY(per_channel(op, 1, x.dims.back()));
  return same(op);
}

Status random(const OpView& op) {  // in[0] holds the shape: read by clients, the output has it already
  if (op.in(0).count() == static_cast<int64_t>(op.out().rank())) return {};
  return unsupported("in[0] has ", op.in(0).count(), " extents, out[0] has rank ", op.out().rank());
}

Status reshape(const OpView& op) {
  if (op.in(0).count() == op.out().count()) return {};
  return unsupported("in[0] has ", op.in(0).count(), " elements, out[0] ", op.out().count());
}

Status transpose(const OpView& op) {
  const Dims& dims = op.in(0).dims;
  const std::span<const uint32_t> perm = op.words("perm");
  if (perm.size() != dims.size())
    return unsupported("perm has ", perm.size(), " axes, expected ", dims.size());
  Dims out;
  uint32_t seen = 0;
  for (const uint32_t p : perm) {
    SF_TRY(in_range("an axis of perm", p, dims.size()));
    if ((seen >> p & 1) != 0) return unsupported("perm has axis ", p, " twice");
    seen |= 1u << p;
    out.push_back(dims[p]);
  }
  return expect(op.out(), out);
}

Status concat(const OpView& op) {
  const uint32_t axis = op.u32("axis", 0);
  Dims dims = op.in(0).dims;
  SF_TRY(in_range("axis", axis, dims.size()));
  uint64_t sum = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Dims& other = op.in(i).dims;
    if (other.size() != dims.size())
      return unsupported("in[", i, "] has rank ", other.size(), ", expected ", dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      if (d != axis && other[d] != dims[d])
        return unsupported("in[", i, "] has ", other[d], " along axis ", d, ", expected ", dims[d]);
    sum += other[axis];
  }
  dims[axis] = static_cast<uint32_t>(sum);
  return expect(op.out(), dims);
}

Status slice(const OpView& op) {
  const Dims& dims = op.in(0).dims;
  SF_TRY(words_by_axis(op, "ranges", 3));
  // Masks change what a range means; their results are not foretold here.
  if (op.u32("begin_mask", 0) != 0 || op.u32("end_mask", 0) != 0 || op.u32("shrink_axes", 0) != 0 ||
      op.u32("new_axes_mask", 0) != 0)
    return {};
  const std::span<const int32_t> r = op.signed_words("ranges");
  Dims out;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t extent = dims[d], step = r[3 * d + 2];
    if (step == 0) return unsupported("the step along axis ", d, " is 0");
    const auto place = [extent](int64_t at) { return at < 0 ? at + extent : at; };
    const int64_t begin = std::clamp<int64_t>(place(r[3 * d]), 0, step > 0 ? extent : extent - 1);
    int64_t end = place(r[3 * d + 1]);
    end = step > 0 ? std::clamp<int64_t>(end, 0, extent) : std::clamp<int64_t>(r[3 * d + 1], -1, extent);
    const int64_t count = step > 0 ? (end - begin + step - 1) / step : (begin - end - step - 1) / -step;
    if (count <= 0) return unsupported("the range along axis ", d, " is empty");
    out.push_back(static_cast<uint32_t>(count));
  }
  return expect(op.out(), out);
}

Status pad(const OpView& op) {
  const Dims& dims = op.in(0).dims;
  SF_TRY(words_by_axis(op, "pad_amount", 2));
  const uint32_t scheme = op.u32("scheme", 0);
  if (scheme > 3) return unsupported("scheme is ", scheme, ", expected at most 3");
  if (scheme != 0 && dims.size() > 4)
    return unsupported("in[0] has rank ", dims.size(), " and scheme is ", scheme,
                       ", expected a rank up to 4");
  const std::span<const uint32_t> pads = op.words("pad_amount");
  Dims out;
  for (size_t d = 0; d < dims.size(); ++d) {
    const uint64_t before = pads[2 * d], after = pads[2 * d + 1];
    // Mirrored elements must be there: 1 reflects without the edge, 2 with it.
    const uint64_t most = scheme == 1 ? dims[d] - 1 : scheme == 2 ? dims[d] : UINT32_MAX;
    if (before > most || after > most)
      return unsupported("padding of ", std::max(before, after), " along axis ", d, " mirrors ", dims[d],
                         " elements");
    out.push_back(static_cast<uint32_t>(std::min<uint64_t>(before + dims[d] + after, UINT32_MAX)));
  }
  return expect(op.out(), out);
}

namespace {
// Some movers have no way to change a grid.
Status same_grid(const OpView& op) {
  const ScaleOffset a = op.in(0).encoding(), b = op.out().encoding();
  if (!qnn::is_fixed(op.in(0).dtype) || (a.scale == b.scale && a.offset == b.offset)) return {};
  return unsupported("in[0] has scale ", a.scale, " and offset ", a.offset, ", out[0] ", b.scale, " and ",
                     b.offset);
}

// block_size, and what is added to or cut from the rows and columns; dims of the wide side from the others.
Status blocks(const OpView& op, const char* edge_name, const Dims& wide, const Dims& many, bool cuts) {
  const std::span<const uint32_t> size = op.words("block_size"), edge = op.words(edge_name);
  if (size.size() != 2 || size[0] == 0 || size[1] == 0)
    return unsupported("block_size has ", size.size(), " elements, expected 2 that are not 0");
  if (!edge.empty() && edge.size() != 4)
    return unsupported(edge_name, " has ", edge.size(), " elements, expected 4");
  bool fits = uint64_t{wide[0]} * size[0] * size[1] == many[0] && wide[3] == many[3];
  for (size_t a = 0; a < 2; ++a) {
    const uint64_t more = edge.empty() ? 0 : uint64_t{edge[2 * a]} + edge[2 * a + 1];
    fits = fits && (cuts ? wide[a + 1] + more == uint64_t{many[a + 1]} * size[a]
                         : uint64_t{many[a + 1]} * size[a] == wide[a + 1] + more);
  }
  if (fits) return same_grid(op);
  return unsupported("in[0] has dims ", op.in(0).dims, ", out[0] ", op.out().dims, ", with blocks of ", size);
}
}  // namespace

Status space_to_batch(const OpView& op) {
  return blocks(op, "pad_amount", op.in(0).dims, op.out().dims, false);
}
Status batch_to_space(const OpView& op) { return blocks(op, "crops", op.out().dims, op.in(0).dims, true); }

Status channel_shuffle(const OpView& op) {
  const uint32_t axis = op.u32("axis", static_cast<uint32_t>(op.in(0).rank() - 1));
  SF_TRY(in_range("axis", axis, op.in(0).rank()));
  if (const uint32_t groups = op.u32("num_groups", 0); groups == 0 || op.in(0).dims[axis] % groups != 0)
    return unsupported("num_groups is ", groups, " for ", op.in(0).dims[axis], " channels");
  SF_TRY(same_grid(op));
  return same(op);
}

Status one_hot(const OpView& op) {
  Dims dims = op.in(0).dims;
  const uint32_t axis = op.u32("axis", 0);
  SF_TRY(in_range("axis", axis, dims.size() + 1));
  dims.insert(dims.begin() + axis, op.u32("depth", 0));
  for (const char* name : {"on_value", "off_value"})
    if (const ParamDef* p = op.find(name); p && p->dtype != op.out().dtype)
      return unsupported(name, " is ", qnn::to_text(p->dtype), ", out[0] ", qnn::to_text(op.out().dtype));
  return expect(op.out(), dims);
}

Status response_norm(const OpView& op) {
  if (op.i32("radius", 0) < 0) return unsupported("radius is ", op.i32("radius", 0));
  if (op.u32("region", 0) > 1) return unsupported("region is ", op.u32("region", 0), ", expected at most 1");
  return same(op);
}

Status tile(const OpView& op) {
  const Dims& dims = op.in(0).dims;
  const std::span<const uint32_t> multiples = op.words("multiples");
  if (multiples.size() != dims.size())
    return unsupported("multiples has ", multiples.size(), " elements, expected ", dims.size());
  Dims out;
  for (size_t d = 0; d < dims.size(); ++d)
    out.push_back(static_cast<uint32_t>(std::min<uint64_t>(uint64_t{dims[d]} * multiples[d], UINT32_MAX)));
  return expect(op.out(), out);
}

namespace {
Result<std::array<uint64_t, 2>> block_of(const OpView& op) {
  const std::span<const uint32_t> block = op.words("block_size");
  if (block.size() != 2 || block[0] == 0 || block[1] == 0)
    return unsupported("block_size is ", std::vector<uint32_t>(block.begin(), block.end()));
  if (const uint32_t mode = op.u32("mode", 0); mode > 1)
    return unsupported("mode is ", mode, ", expected at most 1");
  return std::array<uint64_t, 2>{block[0], block[1]};
}
}  // namespace

Status depth_to_space(const OpView& op) {
  SF_ASSIGN(const auto block, block_of(op));
  const Dims& d = op.in(0).dims;
  const uint64_t size = block[0] * block[1];
  if (d[3] % size != 0)
    return unsupported("in[0] has depth ", d[3], ", which blocks of ", size, " do not divide");
  return expect(op.out(), {d[0], static_cast<uint32_t>(d[1] * block[0]),
                           static_cast<uint32_t>(d[2] * block[1]), static_cast<uint32_t>(d[3] / size)});
}

Status space_to_depth(const OpView& op) {
  SF_ASSIGN(const auto block, block_of(op));
  const Dims& d = op.in(0).dims;
  if (d[1] % block[0] != 0 || d[2] % block[1] != 0)
    return unsupported("in[0] is ", d[1], " by ", d[2], ", which blocks of ", block[0], " by ", block[1],
                       " do not divide");
  return expect(op.out(),
                {d[0], static_cast<uint32_t>(d[1] / block[0]), static_cast<uint32_t>(d[2] / block[1]),
                 static_cast<uint32_t>(d[3] * block[0] * block[1])});
}

namespace {
// Elements that are only moved keep their encoding.
Status same_encoding(const OpView& op) {
  if (!qnn::is_fixed(op.in(0).dtype) || op.in(0).encoding() == op.out().encoding()) return {};
  return unsupported("in[0] has ", qnn::to_text(op.in(0).quantization), ", out[0] ",
                     qnn::to_text(op.out().quantization), ", expected the same");
}
}  // namespace

Status gather(const OpView& op) {
  SF_TRY(same_encoding(op));
  const Dims &x = op.in(0).dims, &indices = op.in(1).dims;
  const int32_t axis = op.i32("axis", 0);
  if (axis < 0) return unsupported("axis is ", axis);
  SF_TRY(in_range("axis", static_cast<uint32_t>(axis), x.size()));
  Dims out(x.begin(), x.begin() + axis);
  out.insert(out.end(), indices.begin(), indices.end());
  out.insert(out.end(), x.begin() + axis + 1, x.end());
  return expect(op.out(), out);
}

Status gather_elements(const OpView& op) {
  SF_TRY(same_encoding(op));
  const uint32_t axis = op.u32("axis", 0);
  SF_TRY(in_range("axis", axis, op.in(0).rank()));
  if (op.in(1).rank() != op.in(0).rank())
    return unsupported("in[1] has rank ", op.in(1).rank(), ", expected ", op.in(0).rank());
  return like(op.in(1), "in[1]", op.out(), "out[0]");
}

Status scatter_elements(const OpView& op) {
  SF_TRY(in_range("axis", op.u32("axis", 0), op.in(0).rank()));
  if (const uint32_t reduction = op.u32("reduction", 0); reduction > 0)
    return unsupported("reduction is ", reduction, ", expected none (0)");
  SF_TRY(like(op.in(1), "in[1]", op.in(2), "in[2]"));
  return same(op);
}

Status scatter_nd(const OpView& op) {
  if (const uint32_t reduction = op.u32("reduction", 0); reduction > 2)
    return unsupported("reduction is ", reduction, ", expected at most 2");
  const Dims &x = op.in(0).dims, &indices = op.in(1).dims, &updates = op.in(2).dims;
  const uint32_t depth = indices.back();
  if (depth == 0 || depth > x.size()) return unsupported("in[1] has ", depth, " indices for rank ", x.size());
  if (updates.size() != indices.size() - 1 + x.size() - depth)
    return unsupported("in[2] has rank ", updates.size(), ", expected ",
                       indices.size() - 1 + x.size() - depth);
  for (size_t d = 0; d + 1 < indices.size(); ++d)
    if (updates[d] != indices[d])
      return unsupported("in[2] has ", updates[d], " along axis ", d, ", expected ", indices[d]);
  return same(op);
}

Status top_k(const OpView& op) {
  SF_TRY(same_encoding(op));
  const TensorDef& x = op.in(0);
  const uint32_t k = op.u32("k", 0);
  if (k == 0 || k > x.dims.back()) return unsupported("k is ", k, ", expected 1 to ", x.dims.back());
  Dims dims = x.dims;
  dims.back() = k;
  SF_TRY(like(op.out(0), "out[0]", op.out(1), "out[1]"));
  return expect(op.out(), dims);
}

}  // namespace sixfold::emulator::shapes
