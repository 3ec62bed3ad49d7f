#include "sixfold/qnn/round_run.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sixfold/qnn/round_run.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sixfold::qnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void nearest_of(const float* x, int64_t n, const RunGrid& grid, int32_t* out) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const hn::Rebind<int32_t, decltype(d)> di;
  const auto lanes = hn::Lanes(d);
  const auto scale = hn::Set(d, grid.scale), zero = hn::Set(d, grid.zero);
  const auto low = hn::Set(d, grid.min - grid.zero), high = hn::Set(d, grid.max - grid.zero);
  const auto some = [&](auto xs) {
    auto v = hn::Div(hn::PromoteTo(d, xs), scale);
    v = hn::IfThenElseZero(hn::Eq(v, v), v);
    v = hn::Min(hn::Max(v, low), high);
    return hn::DemoteTo(di, hn::Add(hn::Round(v), zero));
  };
  const auto count = static_cast<size_t>(n);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(some(hn::LoadU(df, x + i)), di, out + i);
  if (i == count) return;
  float rest[HWY_MAX_BYTES / sizeof(double)] = {};
  int32_t whole[HWY_MAX_BYTES / sizeof(double)];
  std::memcpy(rest, x + i, (count - i) * sizeof(float));
  hn::StoreU(some(hn::LoadU(df, rest)), di, whole);
  std::memcpy(out + i, whole, (count - i) * sizeof(int32_t));
}

}  // namespace sixfold::qnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sixfold::qnn {

HWY_EXPORT(nearest_of);

void round_run(const float* x, int64_t n, const RunGrid& grid, int32_t* out) {
  HWY_DYNAMIC_DISPATCH(nearest_of)(x, n, grid, out);
}

}  // namespace sixfold::qnn
#endif
