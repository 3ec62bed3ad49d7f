#include "tools/questions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "sixfold/base/half.h"
#include "sixfold/lower/lowering.h"
#include "sixfold/partition/partition.h"
#include "sixfold/qnn/context.h"
#include "sixfold/qnn/guard.h"
#include "sixfold/quantize/weights.h"
#include "sixfold/rewrite/htp.h"

namespace sixfold::tools {
namespace {

using qnn::DataType;
using qnn::TensorKind;

class TakesAll final : public Device {
 public:
  Status validate(const qnn::GraphSpec&, const qnn::OpSpec&) override { return {}; }
};

// The tensors of one op, each once: an operand that is given twice stays one tensor.
Result<qnn::GraphSpec> single_op(const qnn::GraphSpec& all, const qnn::OpSpec& op) {
  qnn::GraphSpec out{.name = "one"};
  std::map<uint32_t, qnn::TensorRef> made;
  const auto take = [&](qnn::TensorRef ref, bool is_output) -> Result<qnn::TensorRef> {
    if (!ref.valid()) return ref;
    if (const auto at = made.find(ref.index); at != made.end()) return at->second;
    qnn::TensorSpec t = all.tensor(ref);
    if (t.kind == TensorKind::constant) {
      SF_ASSIGN(Tensor data, qnn::materialize(t.data));
      t.data = {};
      t.data.source = std::move(data);
    } else {
      t.kind = is_output ? TensorKind::app_read : TensorKind::app_write;
    }
    return made[ref.index] = out.add(std::move(t));
  };
  qnn::OpSpec copy = op;
  for (qnn::TensorRef& ref : copy.in) {
    SF_ASSIGN(ref, take(ref, false));
  }
  for (qnn::TensorRef& ref : copy.out) {
    SF_ASSIGN(ref, take(ref, true));
  }
  out.ops.push_back(std::move(copy));
  return out;
}

// Fixed point over the whole range, floats around 0, integers so small that they are places in every axis.
void fill_random(const qnn::GraphSpec& graph, const qnn::TensorSpec& t, std::vector<std::byte>& bytes,
                 std::mt19937_64& random) {
  uint32_t least = 1u << 20;
  for (const qnn::TensorSpec& other : graph.tensors)
    if (other.kind != TensorKind::app_read)
      for (const uint32_t d : other.dims)
        if (other.dtype != t.dtype) least = std::min(least, std::max(d, 1u));
  if (least == 1u << 20) least = 100;
  const auto each = [&]<typename T>(T, auto make) {
    auto* values = reinterpret_cast<T*>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(T); ++i) values[i] = static_cast<T>(make());
  };
  std::normal_distribution<float> normal(0, 1.5f);
  switch (t.dtype) {
    case DataType::f32:
      return each(float{}, [&] { return normal(random); });
    case DataType::f16:
      return each(uint16_t{}, [&] { return float_to_half(normal(random)); });
    case DataType::i32:
    case DataType::u32:
      return each(uint32_t{}, [&] { return random() % least; });
    case DataType::i64:
    case DataType::u64:
      return each(uint64_t{}, [&] { return random() % least; });
    case DataType::boolean:
      return each(uint8_t{}, [&] { return random() % 2; });
    case DataType::sfixed32:
      return each(int32_t{}, [&] { return static_cast<int32_t>(random() % 2000) - 1000; });
    default:
      return each(uint8_t{}, [&] { return random(); });
  }
}

Result<std::vector<std::vector<std::byte>>> run_one(const qnn::Backend& backend, uint32_t vtcm_mb,
                                                    const Question& q, uint64_t seed) {
  SF_ASSIGN(qnn::Context context,
            qnn::Context::build(backend, {&q.graph, 1}, {.graph = {.vtcm_mb = vtcm_mb}}));
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::byte>> inputs, outputs;
  for (const qnn::TensorSpec& t : q.graph.tensors) {
    if (t.kind != TensorKind::app_write && t.kind != TensorKind::app_read) continue;
    SF_ASSIGN(const size_t bytes, qnn::tensor_bytes(t.name, t.dtype, t.dims));
    auto& list = t.kind == TensorKind::app_write ? inputs : outputs;
    list.emplace_back(bytes);
    if (t.kind == TensorKind::app_write) fill_random(q.graph, t, list.back(), random);
  }
  std::vector<std::span<const std::byte>> in(inputs.begin(), inputs.end());
  std::vector<std::span<std::byte>> out(outputs.begin(), outputs.end());
  SF_TRY(context.graphs().front().execute(in, out));
  return outputs;
}

void put(Bytes& out, std::span<const std::byte> bytes) {
  const auto size = static_cast<uint64_t>(bytes.size());
  const auto* p = reinterpret_cast<const std::byte*>(&size);
  out.insert(out.end(), p, p + sizeof size);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// The vendor's library crashes on some wrong ops, which is no yes.
std::string ask_guarded(qnn::Backend& backend, const Question& q) {
  const Result<Bytes> answer = qnn::run_guarded("validating", 20, [&]() -> Result<Bytes> {
    SF_TRY(backend.validate(q.graph, q.graph.ops.front()));
    return Bytes{};
  });
  return answer.ok() ? "" : answer.error().message();
}

// Halves in order: neighbours differ by 1.
int64_t place_of(float x) {
  const uint16_t h = float_to_half(x);
  return h & 0x8000 ? -int64_t{h & 0x7fff} : int64_t{h};
}

template <typename T>
void compare_integers(std::span<const std::byte> a, std::span<const std::byte> b, Distances& out) {
  for (size_t i = 0; i + sizeof(T) <= a.size(); i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, a.data() + i, sizeof x);
    std::memcpy(&y, b.data() + i, sizeof y);
    const auto d = static_cast<uint64_t>(x > y ? static_cast<int64_t>(x) - static_cast<int64_t>(y)
                                               : static_cast<int64_t>(y) - static_cast<int64_t>(x));
    ++out.count;
    out.equal += d == 0;
    out.within_1 += d <= 1;
    out.within_2 += d <= 2;
    out.most = std::max(out.most, d);
  }
}

void compare_floats(std::span<const float> a, std::span<const float> b, Distances& out) {
  double largest = 0, apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ++out.count;
    const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    const auto d = same ? 0 : static_cast<uint64_t>(std::llabs(place_of(a[i]) - place_of(b[i])));
    out.equal += d == 0;
    out.within_1 += d <= 1;
    out.within_2 += d <= 2;
    out.most = std::max(out.most, d);
    if (std::isfinite(b[i])) largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
    if (!same) apart = std::max(apart, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  out.most_relative = largest > 0 ? apart / largest : apart;
}

}  // namespace

Status ask_graph(Graph graph, const std::string& label, const std::string& precision, int arch,
                 std::vector<Question>& out) {
  if (precision == "fp16a8w") quantize_weights(graph, {true, false});
  SF_TRY(prepare_for_htp(graph, {.arch = arch}));
  TakesAll device;
  SF_ASSIGN(const Partition parts, partition(graph, device));
  SF_ASSIGN(const Cut pieces, cut(graph, parts));
  for (const Extract& island : pieces.islands) {
    const Forms forms = choose_forms(island.graph);
    SF_ASSIGN(const qnn::GraphSpec spec, lower_island(island.graph, forms, "forward"));
    for (const qnn::OpSpec& op : spec.ops) {
      SF_ASSIGN(qnn::GraphSpec one, single_op(spec, op));
      out.push_back({cat(label, ": ", op.name), std::move(one)});
    }
  }
  return {};
}

std::vector<Answer> answer_all(const qnn::Library& library, uint32_t soc, uint32_t vtcm_mb,
                               const std::vector<Question>& questions, uint64_t seed) {
  std::vector<Answer> out(questions.size());
  Result<qnn::Backend> backend = qnn::Backend::open(library, soc);
  for (size_t i = 0; i < questions.size(); ++i) {
    if (!backend.ok()) {
      out[i].failed = out[i].refused = backend.error().message();
      continue;
    }
    const Question& q = questions[i];
    if (q.run) {
      if (Status s = backend->validate(q.graph, q.graph.ops.front()); !s.ok())
        out[i].refused = s.error().message();
    } else {
      out[i].refused = ask_guarded(*backend, q);
    }
    if (!out[i].refused.empty() || !q.run) continue;
    auto outputs = run_one(*backend, vtcm_mb, q, seed * 1000003 + i);
    if (outputs.ok())
      out[i].outputs = std::move(outputs).value();
    else
      out[i].failed = outputs.error().message();
  }
  return out;
}

Bytes to_bytes(const std::vector<Answer>& answers) {
  Bytes out;
  for (const Answer& a : answers) {
    put(out, std::as_bytes(std::span(a.refused)));
    put(out, std::as_bytes(std::span(a.failed)));
    const auto count = static_cast<uint64_t>(a.outputs.size());
    put(out, std::as_bytes(std::span(&count, 1)));
    for (const auto& o : a.outputs) put(out, o);
  }
  return out;
}

Result<std::vector<Answer>> answers_of(std::span<const std::byte> bytes) {
  std::vector<Answer> out;
  const auto get = [&bytes]() -> std::span<const std::byte> {
    uint64_t size = 0;
    if (bytes.size() < sizeof size) return {};
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes = bytes.subspan(sizeof size);
    const auto part = bytes.first(std::min<uint64_t>(size, bytes.size()));
    bytes = bytes.subspan(part.size());
    return part;
  };
  const auto text = [](std::span<const std::byte> part) {
    return std::string(reinterpret_cast<const char*>(part.data()), part.size());
  };
  while (!bytes.empty()) {
    Answer& a = out.emplace_back();
    a.refused = text(get());
    a.failed = text(get());
    uint64_t count = 0;
    const auto number = get();
    if (number.size() != sizeof count) return fail(Code::Device, "the child's answers end early");
    std::memcpy(&count, number.data(), sizeof count);
    for (uint64_t i = 0; i < count; ++i) {
      const auto part = get();
      a.outputs.emplace_back(part.begin(), part.end());
    }
  }
  return out;
}

Distances compare(const qnn::TensorSpec& tensor, std::span<const std::byte> a, std::span<const std::byte> b) {
  Distances out;
  switch (tensor.dtype) {
    case DataType::f32:
      compare_floats({reinterpret_cast<const float*>(a.data()), a.size() / 4},
                     {reinterpret_cast<const float*>(b.data()), b.size() / 4}, out);
      return out;
    case DataType::f16: {
      std::vector<float> x, y;
      for (size_t i = 0; i < a.size() / 2; ++i) {
        x.push_back(half_to_float(reinterpret_cast<const uint16_t*>(a.data())[i]));
        y.push_back(half_to_float(reinterpret_cast<const uint16_t*>(b.data())[i]));
      }
      compare_floats(x, y, out);
      return out;
    }
    case DataType::sfixed8:
    case DataType::i8:
      compare_integers<int8_t>(a, b, out);
      return out;
    case DataType::ufixed16:
    case DataType::u16:
      compare_integers<uint16_t>(a, b, out);
      return out;
    case DataType::sfixed16:
    case DataType::i16:
      compare_integers<int16_t>(a, b, out);
      return out;
    case DataType::i64:
    case DataType::u64:
      compare_integers<int64_t>(a, b, out);
      return out;
    case DataType::i32:
    case DataType::sfixed32:
      compare_integers<int32_t>(a, b, out);
      return out;
    case DataType::u32:
    case DataType::ufixed32:
      compare_integers<uint32_t>(a, b, out);
      return out;
    default:
      compare_integers<uint8_t>(a, b, out);
      return out;
  }
}

}  // namespace sixfold::tools
