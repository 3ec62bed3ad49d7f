// Results of small graphs on Qualcomm's library (SDK 2.49, SM8650), number by number, beside ours.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "sixfold/emulator/emulator.h"
#include "sixfold/qnn/context.h"

namespace sixfold::emulator {

using Kind = qnn::TensorKind;
using Type = qnn::DataType;
using qnn::words;

struct FactTensor {
  Kind kind;
  Type type;
  std::vector<uint32_t> dims;
  std::vector<int32_t> numbers;  // of an output: what the library gave; of a tensor between ops: none
  std::vector<float> scales;     // one, or one for each index of the axis
  int32_t offset = 0, axis = -1;
};
struct FactOp {
  const char* type;
  std::vector<uint32_t> in, out;  // tensors
  std::vector<qnn::Param> params;
};
struct Fact {
  const char* name;
  std::vector<FactTensor> tensors;
  std::vector<FactOp> ops;
  int apart = 0;  // steps that ours may be away
};

inline std::vector<std::byte> stored(const FactTensor& t) {
  const size_t size = qnn::size_of(t.type);
  std::vector<std::byte> bytes(t.numbers.size() * size);
  for (size_t i = 0; i < t.numbers.size(); ++i) std::memcpy(bytes.data() + i * size, &t.numbers[i], size);
  return bytes;
}

inline qnn::GraphSpec graph_of(const Fact& fact) {
  qnn::GraphSpec graph;
  for (const FactTensor& t : fact.tensors) {
    qnn::TensorSpec spec{
        .name = cat("t", graph.tensors.size()), .kind = t.kind, .dtype = t.type, .dims = t.dims};
    qnn::AxisScaleOffset axis{t.axis, {}};
    for (const float scale : t.scales) axis.channels.push_back({scale, t.offset});
    if (t.axis >= 0)
      spec.quantization = axis;
    else if (!t.scales.empty())
      spec.quantization = axis.channels[0];
    if (t.kind == Kind::constant) {
      std::byte* bytes = nullptr;
      spec.data.source =
          Tensor::allocate(qnn::storage_of(t.type), Shape(t.dims.begin(), t.dims.end()), &bytes);
      const std::vector<std::byte> from = stored(t);
      std::memcpy(bytes, from.data(), from.size());
    }
    graph.add(std::move(spec));
  }
  for (const FactOp& op : fact.ops) {
    qnn::OpSpec spec{.name = cat("op", graph.ops.size()), .type = op.type, .params = op.params};
    for (const uint32_t t : op.in) spec.in.push_back({t});
    for (const uint32_t t : op.out) spec.out.push_back({t});
    graph.ops.push_back(std::move(spec));
  }
  return graph;
}

inline Status compare(const Fact& fact) {
  SF_ASSIGN(const qnn::Backend backend, qnn::Backend::open(library(), 57));
  const qnn::GraphSpec graph = graph_of(fact);
  SF_ASSIGN(qnn::Context context, qnn::Context::build(backend, {&graph, 1}));
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<const FactTensor*> wanted;
  for (const FactTensor& t : fact.tensors) {
    if (t.kind == Kind::app_write) inputs.push_back(stored(t));
    if (t.kind != Kind::app_read) continue;
    wanted.push_back(&t);
    outputs.emplace_back(t.numbers.size() * qnn::size_of(t.type));
  }
  const std::vector<std::span<const std::byte>> in(inputs.begin(), inputs.end());
  const std::vector<std::span<std::byte>> out(outputs.begin(), outputs.end());
  SF_TRY(context.graphs().front().execute(in, out));
  for (size_t o = 0; o < wanted.size(); ++o) {
    const size_t size = qnn::size_of(wanted[o]->type);
    for (size_t i = 0; i < wanted[o]->numbers.size(); ++i) {
      int32_t q = 0;  // no type here is shorter than 32 bits and signed
      std::memcpy(&q, outputs[o].data() + i * size, size);
      EXPECT_LE(std::abs(q - wanted[o]->numbers[i]), fact.apart)
          << fact.name << ": element " << i << " of output " << o << " is " << q << ", the library's "
          << wanted[o]->numbers[i];
    }
  }
  return {};
}

inline void expect_all(std::span<const Fact> facts) {
  for (const Fact& fact : facts) {
    const Status status = compare(fact);
    EXPECT_TRUE(status.ok()) << fact.name << ": " << status.error().message();
  }
}

// Parameters of a Conv2d without padding.
inline std::vector<qnn::Param> filters(uint32_t stride, uint32_t pad = 0) {
  return {words("stride", {2}, {stride, stride}), words("pad_amount", {2, 2}, {pad, pad, pad, pad}),
          words("dilation", {2}, {1, 1})};
}

}  // namespace sixfold::emulator
