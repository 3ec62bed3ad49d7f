#include "sixfold/emulator/binary.h"

#include <cstring>

#include "sixfold/emulator/read_abi.h"
#include "sixfold/qnn/binary_info.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sixfold::emulator {
namespace {

constexpr char kMagic[8] = {'S', '6', 'F', 'O', 'L', 'D', 'Q', '\n'};

struct Header {
  char magic[8];
  uint32_t version, header_bytes;
  uint32_t soc, arch, vtcm_mb, constant_count;
  uint64_t total_bytes, graph_bytes;
  uint64_t hash_low, hash_high;  // of all bytes after the header, seeded with what stands before this
  uint64_t zero;
};
static_assert(sizeof(Header) == 72);
constexpr size_t kGraphsAt = 128;
static_assert(sizeof(Header) <= kGraphsAt);

using Place = BinaryLayout::Place;

XXH128_hash_t hash_of(const Header& header, std::span<const std::byte> rest) {
  const uint64_t seed = XXH3_64bits(&header, offsetof(Header, hash_low));
  return XXH3_128bits_withSeed(rest.data(), rest.size(), seed);
}

class Writer {
 public:
  std::vector<std::byte> bytes;

  template <typename T>
  void add(T value) requires std::is_trivially_copyable_v<T> {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), p, p + sizeof value);
  }
  template <typename T>
  void add_all(const std::vector<T>& values) {
    add(static_cast<uint32_t>(values.size()));
    const auto* p = reinterpret_cast<const std::byte*>(values.data());
    bytes.insert(bytes.end(), p, p + values.size() * sizeof(T));
  }
  void add(const std::string& text) {
    add(static_cast<uint32_t>(text.size()));
    const auto* p = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), p, p + text.size());
  }
  void add_tensor(const TensorDef& t) {
    add(t.name);
    add(static_cast<uint32_t>(t.kind));
    add(static_cast<uint32_t>(t.dtype));
    add_all(t.dims);
    add(static_cast<uint32_t>(t.quantization.index()));
    if (const auto* q = std::get_if<ScaleOffset>(&t.quantization)) add(*q);
    if (const auto* q = std::get_if<qnn::AxisScaleOffset>(&t.quantization)) {
      add(q->axis);
      add_all(q->channels);
    }
    if (const auto* q = std::get_if<qnn::BitWidthScaleOffset>(&t.quantization)) {
      add(q->bits);
      add(q->all);
    }
    if (const auto* q = std::get_if<qnn::BitWidthAxisScaleOffset>(&t.quantization)) {
      add(q->bits);
      add(q->axis);
      add_all(q->channels);
    }
    if (const auto* q = std::get_if<qnn::BlockExpansion>(&t.quantization)) {
      add(q->axis);
      add(q->blocks);
      add(q->scale_bits);
      add_all(q->channels);
      add_all(q->block_scales);
    }
  }
  void add_op(const OpDef& op) {
    add(op.name);
    add(op.type);
    add(static_cast<uint32_t>(op.params.size()));
    for (const ParamDef& p : op.params) {
      add(p.name);
      add(static_cast<uint32_t>(p.is_tensor));
      if (p.is_tensor) {
        add_tensor(p.tensor);
        add_all(p.bytes);
      } else {
        add(static_cast<uint32_t>(p.dtype));
        add(p.bits);
      }
    }
    add_all(op.in);
    add_all(op.out);
    add_all(op.packs);
  }
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  Status read(T& value) requires std::is_trivially_copyable_v<T> {
    if (rest_.size() < sizeof value) return short_by(sizeof value);
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return {};
  }
  template <typename T>
  Status read_all(std::vector<T>& values) {
    uint32_t count = 0;
    SF_TRY(read(count));
    if (rest_.size() / sizeof(T) < count) return short_by(uint64_t{count} * sizeof(T));
    values.resize(count);
    if (count > 0) std::memcpy(values.data(), rest_.data(), count * sizeof(T));
    rest_ = rest_.subspan(count * sizeof(T));
    return {};
  }
  Status read(std::string& text) {
    uint32_t count = 0;
    SF_TRY(read(count));
    if (rest_.size() < count) return short_by(count);
    text.assign(reinterpret_cast<const char*>(rest_.data()), count);
    rest_ = rest_.subspan(count);
    return {};
  }
  template <typename E>
  Status read_enum(E& value) {
    uint32_t number = 0;
    SF_TRY(read(number));
    value = static_cast<E>(number);
    return {};
  }
  Result<uint32_t> read_count(size_t least_bytes) {
    uint32_t count = 0;
    SF_TRY(read(count));
    if (rest_.size() / least_bytes < count) return short_by(uint64_t{count} * least_bytes);
    return count;
  }
  Status read_tensor(TensorDef& t);
  Status read_op(OpDef& op);
  bool is_at_end() const { return rest_.empty(); }

 private:
  Error short_by(uint64_t wanted) const {
    return invalid_model("the binary has ", rest_.size(), " bytes where ", wanted, " are expected");
  }
  Status read_quantization(qnn::Quantization& out);
  std::span<const std::byte> rest_;
};

Status Reader::read_quantization(qnn::Quantization& out) {
  uint32_t kind = 0;
  SF_TRY(read(kind));
  switch (kind) {
    case 0:
      return {};
    case 1: {
      ScaleOffset q;
      SF_TRY(read(q));
      out = q;
      return {};
    }
    case 2: {
      qnn::AxisScaleOffset q;
      SF_TRY(read(q.axis));
      SF_TRY(read_all(q.channels));
      out = std::move(q);
      return {};
    }
    case 3: {
      qnn::BitWidthScaleOffset q;
      SF_TRY(read(q.bits));
      SF_TRY(read(q.all));
      out = q;
      return {};
    }
    case 4: {
      qnn::BitWidthAxisScaleOffset q;
      SF_TRY(read(q.bits));
      SF_TRY(read(q.axis));
      SF_TRY(read_all(q.channels));
      out = std::move(q);
      return {};
    }
    case 5: {
      qnn::BlockExpansion q;
      SF_TRY(read(q.axis));
      SF_TRY(read(q.blocks));
      SF_TRY(read(q.scale_bits));
      SF_TRY(read_all(q.channels));
      SF_TRY(read_all(q.block_scales));
      out = std::move(q);
      return {};
    }
    default:
      return invalid_model("the binary has an encoding of kind ", kind);
  }
}

Status Reader::read_tensor(TensorDef& t) {
  SF_TRY(read(t.name));
  SF_TRY(read_enum(t.kind));
  SF_TRY(read_enum(t.dtype));
  SF_TRY(read_all(t.dims));
  SF_TRY(read_quantization(t.quantization));
  return check_form(t);
}

Status Reader::read_op(OpDef& op) {
  SF_TRY(read(op.name));
  SF_TRY(read(op.type));
  SF_ASSIGN(const uint32_t params, read_count(8));
  if (params > kMostParams) return invalid_model("op ", op.name, " has ", params, " parameters");
  for (uint32_t i = 0; i < params; ++i) {
    ParamDef p;
    SF_TRY(read(p.name));
    uint32_t is_tensor = 0;
    SF_TRY(read(is_tensor));
    p.is_tensor = is_tensor != 0;
    if (p.is_tensor) {
      SF_TRY(read_tensor(p.tensor));
      SF_TRY(read_all(p.bytes));
      if (p.bytes.size() != p.tensor.size_bytes())
        return invalid_model("parameter ", p.name, " has ", p.bytes.size(), " bytes, expected ",
                             p.tensor.size_bytes());
    } else {
      SF_TRY(read_enum(p.dtype));
      SF_TRY(read(p.bits));
    }
    op.params.push_back(std::move(p));
  }
  SF_TRY(read_all(op.in));
  SF_TRY(read_all(op.out));
  SF_TRY(read_all(op.packs));
  if (op.in.size() > kMostTensors || op.out.size() > kMostTensors)
    return invalid_model("op ", op.name, " has ", op.in.size(), " inputs and ", op.out.size(), " outputs");
  return {};
}

Status read_graph(Reader& reader, GraphDescription& g, size_t constants) {
  SF_TRY(reader.read(g.name));
  SF_TRY(reader.read(g.vtcm_mb));
  SF_TRY(reader.read(g.optimization_level));
  SF_TRY(reader.read(g.hvx_threads));
  SF_ASSIGN(const uint32_t tensors, reader.read_count(20));
  g.tensors.resize(tensors);
  g.stored.resize(tensors);
  for (uint32_t i = 0; i < tensors; ++i) {
    SF_TRY(reader.read_tensor(g.tensors[i]));
    SF_TRY(reader.read(g.stored[i]));
    if (g.stored[i] != kNone && g.stored[i] >= constants)
      return invalid_model("tensor ", g.tensors[i].name, " is constant ", g.stored[i], " of ", constants);
  }
  SF_ASSIGN(const uint32_t ops, reader.read_count(24));
  g.ops.resize(ops);
  for (OpDef& op : g.ops) {
    SF_TRY(reader.read_op(op));
    for (const uint32_t p : op.packs)
      if (p >= constants) return invalid_model("op ", op.name, " uses constant ", p, " of ", constants);
  }
  return {};
}

uint64_t aligned(uint64_t offset) {
  return (offset + kBinaryAlignment - 1) / kBinaryAlignment * kBinaryAlignment;
}

}  // namespace

BinaryLayout::BinaryLayout(const DeviceModel& device, std::span<const GraphDescription> graphs,
                           const Constants& constants)
    : constants_(constants) {
  Writer writer;
  writer.add(static_cast<uint32_t>(graphs.size()));
  for (const GraphDescription& g : graphs) {
    writer.add(g.name);
    writer.add(g.vtcm_mb);
    writer.add(g.optimization_level);
    writer.add(g.hvx_threads);
    writer.add(static_cast<uint32_t>(g.tensors.size()));
    for (size_t i = 0; i < g.tensors.size(); ++i) {
      writer.add_tensor(g.tensors[i]);
      writer.add(g.stored[i]);
    }
    writer.add(static_cast<uint32_t>(g.ops.size()));
    for (const OpDef& op : g.ops) writer.add_op(op);
  }
  graphs_ = std::move(writer.bytes);

  uint64_t at = aligned(kGraphsAt + graphs_.size() + constants.size() * sizeof(Place));
  for (size_t i = 0; i < constants.size(); ++i) {
    places_.push_back({at, constants[i].size_bytes});
    at = aligned(at + constants[i].size_bytes);
  }
  size_bytes_ = at;

  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kBinaryVersion;
  header.header_bytes = kGraphsAt;
  header.soc = device.soc;
  header.arch = device.arch;
  header.vtcm_mb = device.vtcm_mb;
  header.constant_count = static_cast<uint32_t>(constants.size());
  header.graph_bytes = graphs_.size();
  const auto* h = reinterpret_cast<const std::byte*>(&header);
  header_.assign(h, h + sizeof header);
}

void BinaryLayout::write(std::span<std::byte> to) const {
  uint64_t end = 0;  // zeros fill what lies between
  const auto put = [&](uint64_t offset, const void* from, uint64_t size) {
    std::memset(to.data() + end, 0, offset - end);
    if (size > 0) std::memcpy(to.data() + offset, from, size);
    end = offset + size;
  };
  put(0, header_.data(), header_.size());
  put(kGraphsAt, graphs_.data(), graphs_.size());
  put(end, places_.data(), places_.size() * sizeof(Place));
  for (size_t i = 0; i < places_.size(); ++i)
    put(places_[i].offset, constants_[i].data, places_[i].size_bytes);
  put(size_bytes_, nullptr, 0);
  seal_binary(to);
}

void seal_binary(std::span<std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.total_bytes = bytes.size();
  const XXH128_hash_t hash = hash_of(header, bytes.subspan(sizeof header));
  header.hash_low = hash.low64;
  header.hash_high = hash.high64;
  std::memcpy(bytes.data(), &header, sizeof header);
}

Result<BinaryContent> read_binary(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < kGraphsAt || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    return invalid_model("these ", bytes.size(), " bytes are no context binary of the emulator");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kBinaryVersion || header.header_bytes != kGraphsAt || header.zero != 0)
    return invalid_model("the context binary has version ", header.version, ", expected ", kBinaryVersion);
  if (header.total_bytes != bytes.size())
    return invalid_model("the context binary has ", bytes.size(), " bytes, expected ", header.total_bytes);
  const XXH128_hash_t hash = hash_of(header, bytes.subspan(sizeof header));
  if (hash.low64 != header.hash_low || hash.high64 != header.hash_high)
    return invalid_model("the context binary is damaged: its hash is another one");
  const uint64_t room = bytes.size() - kGraphsAt;
  if (header.graph_bytes > room || (room - header.graph_bytes) / sizeof(Place) < header.constant_count)
    return invalid_model("the context binary has ", header.graph_bytes, " bytes of graphs and ",
                         header.constant_count, " constants in ", bytes.size(), " bytes");

  BinaryContent out;
  out.device = {header.soc, header.arch, header.vtcm_mb};
  for (uint32_t i = 0; i < header.constant_count; ++i) {
    Place place;
    std::memcpy(&place, bytes.data() + kGraphsAt + header.graph_bytes + i * sizeof place, sizeof place);
    if (place.offset % kBinaryAlignment != 0 || place.offset > bytes.size() ||
        place.size_bytes > bytes.size() - place.offset)
      return invalid_model("constant ", i, " of the context binary lies at ", place.offset, " + ",
                           place.size_bytes, " of ", bytes.size(), " bytes");
    out.constants.push_back(bytes.subspan(place.offset, place.size_bytes));
  }
  Reader reader(bytes.subspan(kGraphsAt, header.graph_bytes));
  SF_ASSIGN(const uint32_t graphs, reader.read_count(24));
  out.graphs.resize(graphs);
  for (GraphDescription& g : out.graphs) SF_TRY(read_graph(reader, g, out.constants.size()));
  if (!reader.is_at_end()) return invalid_model("the context binary has bytes after its graphs");
  return out;
}

}  // namespace sixfold::emulator
