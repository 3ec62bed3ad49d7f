// Layers of MobileNetV2 and ResNet50 with constant weights, channels-last, on two threads.
#include <benchmark/benchmark.h>

#include "sixfold/ops/op_bench.h"

namespace sixfold {
namespace {

void convolution(benchmark::State& state) {
  const int64_t c = state.range(0), h = state.range(1), o = state.range(2), k = state.range(3),
                s = state.range(4);
  const int64_t groups = state.range(5), p = k / 2, out = (h + 2 * p - k) / s + 1;
  const Attrs attrs{{"stride", Dims{s, s}},         {"padding", Dims{p, p}},
                    {"padding_end", Dims{p, p}},    {"dilation", Dims{1, 1}},
                    {"groups", Dim(groups)},        {"transposed", false},
                    {"output_padding", Dims{0, 0}}, {"activation", std::string("relu")}};
  bench_op(state, Op::convolution, {{1, c, h, h}, {o, c / groups, k, k}, {o}}, {1, o, out, out}, attrs,
           /*channels_last=*/true);
  state.counters["GFLOPS"] =
      benchmark::Counter(2e-9 * static_cast<double>(out * out * o * (c / groups) * k * k),
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(convolution)
    ->ArgNames({"c", "h", "o", "k", "s", "g"})
    ->Args({3, 224, 32, 3, 2, 1})
    ->Args({3, 224, 64, 7, 2, 1})
    ->Args({96, 112, 96, 3, 2, 96})
    ->Args({384, 14, 384, 3, 1, 384})
    ->Args({16, 112, 96, 1, 1, 1})
    ->Args({96, 14, 576, 1, 1, 1})
    ->Args({320, 7, 1280, 1, 1, 1})
    ->Args({64, 56, 64, 3, 1, 1})
    ->Args({256, 14, 256, 3, 1, 1})
    ->Args({512, 7, 512, 3, 1, 1})
    ->UseRealTime();

}  // namespace
}  // namespace sixfold
BENCHMARK_MAIN();
