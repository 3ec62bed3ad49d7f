// Layers of ViT-Tiny and MiniLM, a decode step of SmolLM2, attention products; two threads.
#include <benchmark/benchmark.h>

#include "sixfold/ops/op_bench.h"

namespace sixfold {
namespace {

void linear(benchmark::State& state) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  bench_op(state, Op::linear, {{m, k}, {n, k}, {n}}, {m, n}, {{"activation", std::string("none")}},
           /*channels_last=*/false);
  state.counters["GFLOPS"] = benchmark::Counter(2e-9 * static_cast<double>(m * n * k),
                                                benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] =  // of weights
      benchmark::Counter(4e-9 * static_cast<double>(n * k), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(linear)
    ->ArgNames({"m", "k", "n"})
    ->Args({197, 192, 576})
    ->Args({197, 192, 768})
    ->Args({197, 768, 192})
    ->Args({64, 384, 1536})
    ->Args({64, 1536, 384})
    ->Args({16, 576, 1536})
    ->Args({1, 576, 49152})
    ->UseRealTime();

void matmul(benchmark::State& state) {
  const int64_t b = state.range(0), m = state.range(1), k = state.range(2), n = state.range(3);
  bench_op(state, Op::matmul, {{b, m, k}, {b, k, n}}, {b, m, n}, {}, /*channels_last=*/false);
  state.counters["GFLOPS"] = benchmark::Counter(2e-9 * static_cast<double>(b * m * n * k),
                                                benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(matmul)
    ->ArgNames({"b", "m", "k", "n"})
    ->Args({12, 197, 64, 197})
    ->Args({12, 197, 197, 64})
    ->Args({1, 512, 512, 512})
    ->UseRealTime();

}  // namespace
}  // namespace sixfold
BENCHMARK_MAIN();
