// For tests of rules: a graph from text, run on the CPU engine with inputs that are always the same.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "sixfold/engine/session.h"

namespace sixfold {

inline Graph graph_of(const std::string& text) {
  auto graph = parse(text);
  EXPECT_TRUE(graph.ok()) << graph.error().message();
  return std::move(graph).value();
}

// Reals in [-size, size], integers from -2 to 1, every third bool true; the same for the same place.
inline Tensor sample(const Type& type, size_t seed, double size = 1) {
  std::byte* bytes = nullptr;
  Tensor t = Tensor::allocate(type.dtype, static_shape(type.dims), &bytes);
  with_type(type.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < t.count(); ++i) {
      const double phase = std::sin(static_cast<double>(i * 7 + 1) + static_cast<double>(seed) * 3.0);
      double v = phase * size;
      if (type.dtype == DType::boolean)
        v = i % 3 == 0 ? 1 : 0;
      else if (is_integer(type.dtype))
        v = static_cast<double>((i * 5 + static_cast<int64_t>(seed)) % 4 - 2);
      const T value = static_cast<T>(v);
      std::memcpy(bytes + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
    }
  });
  return t;
}

inline std::vector<std::vector<double>> run(const Graph& graph, double size = 1) {
  cpu::Pool pool(1);
  auto session = Session::create(graph, {}, pool);
  EXPECT_TRUE(session.ok()) << session.error().message();
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    inputs.push_back(sample(graph.type(graph.inputs[i].value), i, size));
  const Status status = (*session)->run(inputs);
  EXPECT_TRUE(status.ok()) << status.error().message();
  std::vector<std::vector<double>> out;
  for (size_t i = 0; i < (*session)->output_count(); ++i) {
    const Tensor t = (*session)->output(i);
    out.emplace_back();
    for (int64_t k = 0; k < t.count(); ++k) out.back().push_back(element_real(t, k));
  }
  return out;
}

}  // namespace sixfold
