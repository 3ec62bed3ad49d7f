// Graphs and observations for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "sixfold/quantize/plan.h"

namespace sixfold {

inline Graph graph_of(std::string_view text) {
  auto graph = parse(text);
  EXPECT_TRUE(graph.ok()) << (graph.ok() ? "" : graph.error().message());
  return graph.ok() ? std::move(graph).value() : Graph();
}

inline ValueId named(const Graph& graph, std::string_view name) {
  for (const Value& v : graph.values())
    if (v.name == name) return v.id;
  return kNoValue;
}

inline Tensor wave(Shape shape, float seed) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(DType::f32, std::move(shape), &bytes);
  for (int64_t i = 0; i < t.count(); ++i)
    reinterpret_cast<float*>(bytes)[i] = 1.2f + std::sin(static_cast<float>(i) * 1.7f + seed);
  return t;
}

// Every value was between these.
inline Observations seen_all(const Graph& graph, float min, float max) {
  Observations out;
  out.samples = 1;
  Observation o;
  o.min = o.unmasked_min = o.average_min = min;
  o.max = o.average_max = max;
  out.values.assign(graph.value_count(), o);
  return out;
}

}  // namespace sixfold
