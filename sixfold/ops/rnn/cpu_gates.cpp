#include "sixfold/cpu/scalar_math.h"
#include "sixfold/ops/rnn/gates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/ops/rnn/cpu_gates.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// Order matters: Highway's headers fix the target for those below.
#include "sixfold/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::cpu::HWY_NAMESPACE {

// Calls f(i, load, store) for every vector of [0, n); the last one is partial and goes through buffers, so
// that every unit is computed by the same instructions wherever it stands.
template <typename F>
HWY_INLINE void for_vectors(int64_t n, const F& f) {
  const F32 d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    f(
        i, [](const float* p) HWY_ATTR { return hn::LoadU(F32(), p); },
        [](V32 v, float* p) HWY_ATTR { hn::StoreU(v, F32(), p); });
  if (i == n) return;
  const auto rest = static_cast<size_t>(n - i);
  f(
      i,
      [rest](const float* p) HWY_ATTR {
        HWY_ALIGN float buffer[hn::MaxLanes(F32())] = {};
        for (size_t k = 0; k < rest; ++k) buffer[k] = p[k];
        return hn::Load(F32(), buffer);
      },
      [rest](V32 v, float* p) HWY_ATTR {
        HWY_ALIGN float buffer[hn::MaxLanes(F32())];
        hn::Store(v, F32(), buffer);
        for (size_t k = 0; k < rest; ++k) p[k] = buffer[k];
      });
}

void LstmGates(const float* gx, const float* gh, const float* c_in, float* c_out, float* h_out, int64_t n) {
  for_vectors(n, [=](int64_t at, const auto& load, const auto& store) HWY_ATTR {
    const auto gate = [&](int64_t k)
                          HWY_ATTR { return hn::Add(load(gx + k * n + at), load(gh + k * n + at)); };
    const V32 i = sigmoid_v(gate(0)), f = sigmoid_v(gate(1)), g = tanh_v(gate(2)), o = sigmoid_v(gate(3));
    const V32 c = hn::MulAdd(f, load(c_in + at), hn::Mul(i, g));
    store(c, c_out + at);
    store(hn::Mul(o, tanh_v(c)), h_out + at);
  });
}

void GruGates(const float* gx, const float* gh, const float* bias, const float* h_in, float* h_out,
              int64_t n) {
  for_vectors(n, [=](int64_t at, const auto& load, const auto& store) HWY_ATTR {
    const auto hidden = [&](int64_t k)
                            HWY_ATTR { return hn::Add(load(gh + k * n + at), load(bias + k * n + at)); };
    const V32 r = sigmoid_v(hn::Add(load(gx + at), hidden(0)));
    const V32 z = sigmoid_v(hn::Add(load(gx + n + at), hidden(1)));
    const V32 next = tanh_v(hn::MulAdd(r, hidden(2), load(gx + 2 * n + at)));
    store(hn::MulAdd(hn::Sub(load(h_in + at), next), z, next), h_out + at);
  });
}

void TanhGate(const float* gx, const float* gh, float* h_out, int64_t n) {
  for_vectors(n, [=](int64_t at, const auto& load, const auto& store)
                     HWY_ATTR { store(tanh_v(hn::Add(load(gx + at), load(gh + at))), h_out + at); });
}

void ReluGate(const float* gx, const float* gh, float* h_out, int64_t n) {
  for_vectors(n, [=](int64_t at, const auto& load, const auto& store) HWY_ATTR {
    store(at_least(hn::Add(load(gx + at), load(gh + at)), hn::Zero(F32())), h_out + at);
  });
}

}  // namespace sixfold::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::cpu {

HWY_EXPORT(LstmGates);
HWY_EXPORT(GruGates);
HWY_EXPORT(TanhGate);
HWY_EXPORT(ReluGate);

namespace rnn_gates {

void lstm(const float* gx, const float* gh, const float* c_in, float* c_out, float* h_out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(LstmGates)(gx, gh, c_in, c_out, h_out, n);
}
void gru(const float* gx, const float* gh, const float* bias, const float* h_in, float* h_out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(GruGates)(gx, gh, bias, h_in, h_out, n);
}
void tanh(const float* gx, const float* gh, float* h_out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(TanhGate)(gx, gh, h_out, n);
}
void relu(const float* gx, const float* gh, float* h_out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(ReluGate)(gx, gh, h_out, n);
}

}  // namespace rnn_gates
}  // namespace sixfold::cpu
#endif
