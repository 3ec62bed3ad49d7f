#include "tools/contexts.h"

#include <filesystem>

#include "sixfold/base/mapped_file.h"
#include "sixfold/base/sha256.h"
#include "sixfold/qnn/wrapper.h"

namespace sixfold::tools {
namespace {

constexpr std::string_view kMagic = "sixfold context 1\n";
constexpr size_t kHashBytes = 64;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Everything of a graph as text; data by its hash.
Status append(std::string& out, const qnn::GraphSpec& graph) {
  const auto add = [&](const auto&... parts) { out += cat(parts..., "\n"); };
  add("graph ", graph.name);
  for (const qnn::TensorSpec& t : graph.tensors) {
    add(t.name, " ", static_cast<uint32_t>(t.kind), " ", static_cast<uint32_t>(t.dtype));
    for (const uint32_t d : t.dims) add(d);
    // Text would round the scales.
    const auto scale = [&](const qnn::ScaleOffset& s) {
      out.append(reinterpret_cast<const char*>(&s), sizeof s);
    };
    add("q", t.quantization.index());
    std::visit(
        [&](const auto& q) {
          using Q = std::decay_t<decltype(q)>;
          if constexpr (std::is_same_v<Q, qnn::ScaleOffset>) scale(q);
          if constexpr (std::is_same_v<Q, qnn::BitWidthScaleOffset>) {
            add(q.bits);
            scale(q.all);
          }
          if constexpr (std::is_same_v<Q, qnn::AxisScaleOffset> ||
                        std::is_same_v<Q, qnn::BitWidthAxisScaleOffset> ||
                        std::is_same_v<Q, qnn::BlockExpansion>) {
            add(q.axis, " ", q.channels.size());
            for (const qnn::ScaleOffset& s : q.channels) scale(s);
          }
          if constexpr (std::is_same_v<Q, qnn::BitWidthAxisScaleOffset>) add(q.bits);
          if constexpr (std::is_same_v<Q, qnn::BlockExpansion>) {
            add(q.blocks, " ", q.scale_bits);
            out.append(reinterpret_cast<const char*>(q.block_scales.data()), q.block_scales.size());
          }
        },
        t.quantization);
    if (t.kind != qnn::TensorKind::constant) continue;
    const Tensor source = to_contiguous(t.data.source);
    const auto size = static_cast<size_t>(source.count()) * size_of(source.dtype);
    add(source.dtype, " ", t.data.dtype, " ", t.data.mask, " ",
        sha256_hex({static_cast<const std::byte*>(source.data), size}));
    for (const int64_t d : source.shape) add(d);
    add("order");
    for (const int64_t d : t.data.order) add(d);
    const auto& grid = t.data.grid;
    add(grid.min, " ", grid.max, " ", grid.axis, " ", grid.block, " ", grid.scales.size());
    out.append(reinterpret_cast<const char*>(grid.scales.data()), grid.scales.size() * sizeof(float));
    out.append(reinterpret_cast<const char*>(grid.zero_points.data()),
               grid.zero_points.size() * sizeof(int32_t));
  }
  for (const qnn::OpSpec& op : graph.ops) {
    add(op.name, " ", op.type);
    for (const qnn::TensorRef r : op.in) add("in ", r.index);
    for (const qnn::TensorRef r : op.out) add("out ", r.index);
    for (const qnn::Param& p : op.params) {
      add(p.name, " ", p.value.index());
      std::visit(
          [&](const auto& v) {
            if constexpr (std::is_same_v<std::decay_t<decltype(v)>, qnn::Words>) {
              add(static_cast<uint32_t>(v.dtype));
              for (const uint32_t d : v.dims) add("d", d);
              for (const uint32_t w : v.values) add(w);
            } else {
              out.append(reinterpret_cast<const char*>(&v), sizeof v);
            }
          },
          p.value);
    }
  }
  return {};
}

Result<Bytes> read_kept(const std::string& path) {
  SF_ASSIGN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  const size_t header = kMagic.size() + kHashBytes + 1;
  if (bytes.size() <= header) return invalid_model("it has ", bytes.size(), " bytes");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), header);
  if (!text.starts_with(kMagic)) return invalid_model("it is no context of this version");
  if (text.substr(kMagic.size(), kHashBytes) != sha256_hex(bytes.subspan(header)))
    return invalid_model("its hash is not that of its content");
  Bytes out(qnn::kWrapperBytes);
  out.reserve(out.size() + bytes.size() - header);
  out.insert(out.end(), bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end());
  return out;
}

Bytes wrapped(Bytes room_and_binary) {
  const auto header = qnn::wrapper_of(std::span(room_and_binary).subspan(qnn::kWrapperBytes));
  std::copy(header.begin(), header.end(), room_and_binary.begin());
  return room_and_binary;
}

}  // namespace

Result<std::string> content_key(const qnn::Backend& backend, std::span<const qnn::GraphSpec> graphs,
                                const qnn::ContextOptions& options) {
  const qnn::GraphOptions& g = options.graph;
  std::string content =
      cat(kMagic, backend.library().build_id, "\n", backend.soc(), " ", g.fp16, " ", g.vtcm_mb, " ",
          g.optimization_level, " ", g.hvx_threads, " ", static_cast<uint32_t>(g.priority), " ", g.dlbc, " ",
          g.dlbc_weights, " ", g.slc_allocator, " ", g.fold_relu, " ", g.short_conv_on_hmx, " ",
          options.weight_sharing, "\n");
  for (const qnn::GraphSpec& graph : graphs) SF_TRY(append(content, graph));
  return sha256_hex(bytes_of(content));
}

Result<Bytes> ContextCache::payload(const qnn::Backend& backend, std::span<const qnn::GraphSpec> graphs,
                                    const qnn::ContextOptions& options) {
  std::string path;
  if (!folder_.empty()) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (!std::filesystem::is_directory(folder_))
      return invalid_argument("--cache ", folder_, " is no folder and cannot be made: ", error.message());
    SF_ASSIGN(const std::string key, content_key(backend, graphs, options));
    path = cat(folder_, "/", key, ".ctx");
    if (std::filesystem::exists(path)) {
      auto kept = read_kept(path);
      if (kept.ok()) {
        ++hits_;
        return wrapped(std::move(kept).value());
      }
      notes_.push_back(cat("the kept context ", path, " is damaged and made anew: ", kept.error().message()));
    }
    ++misses_;
  }
  SF_ASSIGN(Bytes bytes, qnn::prepare_binary(backend, graphs, options, /*room=*/qnn::kWrapperBytes));
  if (!path.empty()) {
    const auto binary = std::span<const std::byte>(bytes).subspan(qnn::kWrapperBytes);
    const std::string hash = sha256_hex(binary) + "\n";
    const std::span<const std::byte> parts[] = {bytes_of(kMagic), bytes_of(hash), binary};
    SF_TRY(write_file(path, parts));
  }
  return wrapped(std::move(bytes));
}

}  // namespace sixfold::tools
