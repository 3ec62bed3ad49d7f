// Scaled dot product attention: softmax(scale * q k^T + mask) v, head by head.
//
// A task takes a block of query rows of one head and walks the keys in chunks that stay in the cache. The
// softmax is carried along (running maximum and sum per row), so that long sequences need no score matrix.
#include <cmath>
#include <limits>
#include <vector>

#include "sixfold/cpu/dot_rows.h"
#include "sixfold/cpu/kernel.h"
#include "sixfold/cpu/rows.h"
#include "sixfold/cpu/sgemm.h"
#include "sixfold/cpu/vector_math.h"
#include "sixfold/ops/attention/rows.h"

namespace sixfold::cpu {
namespace attention {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr int64_t kMaxRows = 64;   // query rows of a task
constexpr int64_t kChunk = 512;    // keys at a time
constexpr int64_t kGemmRows = 4;   // fewer rows than this are faster one by one
constexpr int64_t kMaxSlots = 16;  // tasks that have scratch of their own

struct Plan {
  int64_t batch = 1;  // all axes before the heads
  int64_t heads = 1, kv_heads = 1;
  int64_t queries = 0, keys = 0;       // L, S
  int64_t width = 0, value_width = 0;  // E, Ev
  bool causal = false;
  float scale = 1.0f;
  double scale_f64 = 1.0;
  DType mask_dtype = DType::none;
  std::vector<int64_t> mask_offset;       // of head b * heads + h
  int64_t mask_row = 0, mask_column = 0;  // strides
  int64_t block = kMaxRows;
  int64_t blocks = 0;  // per head
};

struct Place {
  int64_t head, kv_head, first, rows;  // rows [first, first + rows) of a head
};

Place place(const Plan& plan, int64_t task) {
  const int64_t head = task / plan.blocks, first = task % plan.blocks * plan.block;
  const int64_t b = head / plan.heads, h = head % plan.heads;
  return {head, b * plan.kv_heads + h / (plan.heads / plan.kv_heads), first,
          std::min(plan.block, plan.queries - first)};
}

// Applies the masks to scores of one row for keys [key, key + count).
void mask_scores(const Plan& plan, const void* mask, int64_t head, int64_t row, int64_t key, int64_t count,
                 float* scores) {
  if (plan.mask_dtype != DType::none) {
    const int64_t at =
        plan.mask_offset[static_cast<size_t>(head)] + row * plan.mask_row + key * plan.mask_column;
    const bool* allowed = static_cast<const bool*>(mask) + at;
    const float* bias = static_cast<const float*>(mask) + at;
    if (plan.mask_dtype == DType::boolean) {
      if (plan.mask_column)
        mask_row(scores, allowed, count);
      else if (!*allowed)
        std::fill(scores, scores + count, kLowest);
    } else {
      if (plan.mask_column)
        add_row(scores, bias, count);
      else
        for (int64_t i = 0; i < count; ++i) scores[i] += *bias;
    }
  }
  if (plan.causal && row + 1 < key + count)
    std::fill(scores + std::max<int64_t>(row + 1 - key, 0), scores + count, kLowest);
}

void attend_block(const Plan& plan, const Place& at, const Buffers& buffers, float* scores) {
  const int64_t E = plan.width, Ev = plan.value_width;
  const float* q = buffers.input<float>(0) + (at.head * plan.queries + at.first) * E;
  const float* k = buffers.input<float>(1) + at.kv_head * plan.keys * E;
  const float* v = buffers.input<float>(2) + at.kv_head * plan.keys * Ev;
  float* out = buffers.output<float>() + (at.head * plan.queries + at.first) * Ev;
  const void* mask = plan.mask_dtype == DType::none ? nullptr : buffers.in[3];

  float best[kMaxRows], sum[kMaxRows];
  std::fill(best, best + at.rows, kLowest);
  std::fill(sum, sum + at.rows, 0.0f);
  const int64_t keys = plan.causal ? std::min(plan.keys, at.first + at.rows) : plan.keys;
  const bool by_row = at.rows < kGemmRows;
  for (int64_t key = 0; key < keys; key += kChunk) {
    const int64_t count = std::min(kChunk, keys - key);
    if (by_row) {
      for (int64_t r = 0; r < at.rows; ++r)
        dot_rows(q + r * E, k + key * E, count, E, plan.scale, scores + r * count);
    } else {
      sgemm({.rows = at.rows,
             .columns = count,
             .inner = E,
             .transposed = true,
             .a = q,
             .a_step = E,
             .b = k + key * E,
             .b_step = E,
             .c = scores,
             .c_step = count,
             .alpha = plan.scale});
    }
    for (int64_t r = 0; r < at.rows; ++r) {
      float* row = scores + r * count;
      mask_scores(plan, mask, at.head, at.first + r, key, count, row);
      const float most = max_row(row, count);
      const float now = most > best[r] || most != most ? most : best[r];
      if (now == kLowest) {  // nothing allowed so far
        std::fill(row, row + count, 0.0f);
        continue;
      }
      const float part = exp_sum_f32(row, 1.0f, now, row, static_cast<size_t>(count));
      const float fade = key == 0 ? 0.0f : std::exp(best[r] - now);
      if (key > 0 && fade != 1.0f) affine_row(out + r * Ev, out + r * Ev, Ev, 0.0f, fade, 0.0f);
      sum[r] = sum[r] * fade + part;
      best[r] = now;
    }
    if (by_row) {
      for (int64_t r = 0; r < at.rows; ++r)
        mix_row(scores + r * count, v + key * Ev, count, Ev, key > 0, out + r * Ev);
    } else {
      sgemm({.rows = at.rows,
             .columns = Ev,
             .inner = count,
             .a = scores,
             .a_step = count,
             .b = v + key * Ev,
             .b_step = Ev,
             .c = out,
             .c_step = Ev,
             .beta = key > 0 ? 1.0f : 0.0f});
    }
  }
  for (int64_t r = 0; r < at.rows; ++r) {
    float* row = out + r * Ev;
    if (keys == 0 || best[r] == kLowest)
      std::fill(row, row + Ev, 0.0f);
    else
      affine_row(row, row, Ev, 0.0f, 1.0f / sum[r], 0.0f);
  }
}

// The definition, in double.
void attend_row_f64(const Plan& plan, const Buffers& buffers, int64_t head, int64_t kv_head, int64_t row,
                    double* scores) {
  const int64_t E = plan.width, Ev = plan.value_width, S = plan.keys;
  const double* q = buffers.input<double>(0) + (head * plan.queries + row) * E;
  const double* k = buffers.input<double>(1) + kv_head * S * E;
  const double* v = buffers.input<double>(2) + kv_head * S * Ev;
  double* out = buffers.output<double>() + (head * plan.queries + row) * Ev;
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  double best = lowest;
  for (int64_t s = 0; s < S; ++s) {
    double dot = 0;
    for (int64_t e = 0; e < E; ++e) dot += q[e] * k[s * E + e];
    dot *= plan.scale_f64;
    if (plan.mask_dtype != DType::none) {
      const int64_t at =
          plan.mask_offset[static_cast<size_t>(head)] + row * plan.mask_row + s * plan.mask_column;
      if (plan.mask_dtype == DType::boolean)
        dot = buffers.input<bool>(3)[at] ? dot : lowest;
      else
        dot += buffers.input<double>(3)[at];
    }
    if (plan.causal && s > row) dot = lowest;
    scores[s] = dot;
    best = dot > best || dot != dot ? dot : best;
  }
  std::fill(out, out + Ev, 0.0);
  if (best == lowest) return;
  double sum = 0;
  for (int64_t s = 0; s < S; ++s) sum += scores[s] = std::exp(scores[s] - best);
  for (int64_t s = 0; s < S; ++s)
    for (int64_t e = 0; e < Ev; ++e) out[e] += scores[s] / sum * v[s * Ev + e];
}

Plan make_plan(const KernelCall& call) {
  const Shape &q = call.in[0].shape, &k = call.in[1].shape, &v = call.in[2].shape;
  const size_t rank = q.size();
  Plan plan;
  for (size_t i = 0; i + 3 < rank; ++i) plan.batch *= q[i];
  plan.heads = q[rank - 3];
  plan.kv_heads = k[rank - 3];
  plan.queries = q[rank - 2];
  plan.keys = k[rank - 2];
  plan.width = q[rank - 1];
  plan.value_width = v[rank - 1];
  plan.causal = call.attrs.flag("causal");
  plan.scale_f64 = call.attrs.real("scale");
  plan.scale = static_cast<float>(plan.scale_f64);
  const TensorDesc mask = call.input(3);
  if (mask.present()) {
    plan.mask_dtype = mask.dtype;
    Shape strides(rank, 0);  // broadcast axes have stride 0
    for (size_t i = 0; i < mask.rank(); ++i)
      if (mask.shape[i] != 1) strides[i + rank - mask.rank()] = mask.strides[i];
    plan.mask_row = strides[rank - 2];
    plan.mask_column = strides[rank - 1];
    for (int64_t head = 0; head < plan.batch * plan.heads; ++head) {
      int64_t rest = head, at = 0;
      for (size_t i = rank - 2; i-- > 0; rest /= q[i]) at += rest % q[i] * strides[i];
      plan.mask_offset.push_back(at);
    }
  }
  // Short of tasks, blocks get smaller: but never so small that a product of blocks wastes its packing.
  const int64_t heads = plan.batch * plan.heads;
  while (plan.block > 16 && heads * ((plan.queries + plan.block - 1) / plan.block) < 8) plan.block /= 2;
  plan.blocks = (plan.queries + plan.block - 1) / plan.block;
  return plan;
}

}  // namespace
}  // namespace attention

KernelResult sdpa(const KernelCall& call) {
  using namespace attention;
  const DType dtype = call.in[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return unsupported(call.op, " of ", dtype);
  if (call.out[0].count() == 0) return make_kernel([](const Buffers&) { return ok_status(); });
  Plan plan = make_plan(call);
  if (dtype == DType::f64) {
    const KernelTraits traits{.scratch_bytes = static_cast<size_t>(plan.keys) * sizeof(double)};
    return make_kernel(
        [plan = std::move(plan)](const Buffers& buffers) {
          for (int64_t head = 0; head < plan.batch * plan.heads; ++head) {
            const int64_t kv_head =
                head / plan.heads * plan.kv_heads + head % plan.heads / (plan.heads / plan.kv_heads);
            for (int64_t row = 0; row < plan.queries; ++row)
              attend_row_f64(plan, buffers, head, kv_head, row, reinterpret_cast<double*>(buffers.scratch));
          }
          return ok_status();
        },
        traits);
  }
  const int64_t tasks = plan.batch * plan.heads * plan.blocks;
  const int64_t slots = std::min(tasks, kMaxSlots);
  const int64_t slot_floats =
      (std::min(plan.block, plan.queries) * std::min(kChunk, plan.keys) + 15) / 16 * 16;
  const KernelTraits traits{.scratch_bytes = static_cast<size_t>(slots * slot_floats) * sizeof(float)};
  return make_kernel(
      [plan = std::move(plan), tasks, slots, slot_floats](const Buffers& buffers) {
        buffers.pool.for_each(static_cast<size_t>(slots), [&](size_t slot) {
          float* scores =
              reinterpret_cast<float*>(buffers.scratch) + static_cast<int64_t>(slot) * slot_floats;
          for (auto task = static_cast<int64_t>(slot); task < tasks; task += slots)
            attend_block(plan, place(plan, task), buffers, scores);
        });
        return ok_status();
      },
      traits);
}

}  // namespace sixfold::cpu
