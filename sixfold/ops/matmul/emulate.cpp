// Products of matrices on the emulator. docs/emulator.md says how fixed-point results are rounded.
#include "sixfold/ops/matmul/emulate.h"

#include "sixfold/emulator/late.h"
#include "sixfold/emulator/product.h"

namespace sixfold::emulator {
namespace {

struct Fixed {
  FixedProduct product;
  void run(const Run& run) const { product.run(run.ins[0], run.outs[0], run.scratch, run.pool); }
  void absorb(Clamp clamp) { product.absorb(clamp); }
};

bool is_one_matrix(const TensorDef& w) {
  for (size_t d = 0; d + 2 < w.rank(); ++d)
    if (w.dims[d] != 1) return false;
  return true;
}

Result<MatrixShape> read_linear(const OpView& op) {
  const TensorDef &x = op.in(0), &w = op.in(1), &y = op.out();
  if (w.rank() != 2 || w.count() == 0) return unsupported("in[1] has dims ", w.dims, ", not two");
  MatrixShape s;
  s.transposed_w = true;
  s.columns = w.dims[0], s.inner = w.dims[1];
  if (x.rank() == 0 || x.count() == 0 || x.count() % s.inner != 0)
    return unsupported("in[0] has ", x.count(), " elements, in[1] takes ", s.inner, " at a time");
  s.rows = x.count() / s.inner;
  if (y.rank() == 0 || y.count() != s.rows * s.columns || y.dims.back() != s.columns)
    return unsupported("out[0] has dims ", y.dims, " for ", s.rows, " rows of ", s.columns);
  s.batches = {{0, 0}};
  return s;
}

}  // namespace

Result<MatrixShape> read_matrices(const OpView& op) {
  const TensorDef &x = op.in(0), &w = op.in(1), &y = op.out();
  if (const TensorDef& b = op.in(2); b.is_present() && y.rank() > 0 && b.count() != y.dims.back())
    return unsupported("in[2] has ", b.count(), " elements for ", y.dims.back(), " columns");
  if (op.type == "FullyConnected") return read_linear(op);
  if (x.rank() < 2 || w.rank() < 2 || y.rank() < 2)
    return unsupported("a tensor has rank below 2: ", x.dims, " times ", w.dims, " is ", y.dims);
  MatrixShape s;
  s.transposed_x = op.boolean("transpose_in0", false), s.transposed_w = op.boolean("transpose_in1", false);
  const auto last = [](const TensorDef& t, bool transposed, size_t i) {
    return static_cast<int64_t>(t.dims[t.rank() - 2 + (transposed ? 1 - i : i)]);
  };
  s.rows = last(x, s.transposed_x, 0), s.inner = last(x, s.transposed_x, 1);
  s.columns = last(w, s.transposed_w, 1);
  if (last(w, s.transposed_w, 0) != s.inner)
    return unsupported("in[0] has rows of ", s.inner, ", in[1] ", last(w, s.transposed_w, 0), " of them");
  if (last(y, false, 0) != s.rows || last(y, false, 1) != s.columns)
    return unsupported("out[0] has dims ", y.dims, " for a product of ", s.rows, " by ", s.columns);
  if (x.count() == 0 || w.count() == 0 || y.count() == 0) return unsupported("a tensor is empty");
  if (is_one_matrix(w) && !s.transposed_x && x.count() == y.count() / s.columns * s.inner) {
    s.rows = x.count() / s.inner;
    s.batches = {{0, 0}};
    return s;
  }
  // Leading dims broadcast.
  const int64_t batches = y.count() / (s.rows * s.columns);
  for (int64_t b = 0; b < batches; ++b) {
    const auto matrix = [&](const TensorDef& t) -> int64_t {
      int64_t rest = b, at = 0, step = 1;
      for (size_t d = y.rank() - 2; d-- > 0;) {
        const int64_t i = rest % y.dims[d];
        rest /= y.dims[d];
        const size_t back = y.rank() - d;  // from the end
        if (back > t.rank()) continue;
        const uint32_t extent = t.dims[t.rank() - back];
        if (extent != 1 && extent != y.dims[d]) return -1;
        at += (extent == 1 ? 0 : i) * step;
        step *= extent;
      }
      return t.rank() <= y.rank() ? at : -1;
    };
    const int64_t i = matrix(x), j = matrix(w);
    if (i < 0 || j < 0) return unsupported(x.dims, " times ", w.dims, " does not broadcast to ", y.dims);
    s.batches.push_back({i, j});
  }
  return s;
}

Status check_matmul(const OpView& op, const DeviceModel&) {
  SF_TRY(read_matrices(op));
  if (op.in(0).is_float() != op.out().is_float()) return unsupported("in[0] and out[0] are of two kinds");
  return {};
}

Result<Step> prepare_matmul(const OpView& op, Prepare& prepare) {
  SF_ASSIGN(const MatrixShape s, read_matrices(op));
  const TensorDef &x = op.in(0), &w = op.in(1), &y = op.out();
  if (op.in(2).is_present() && !op.in(2).is_constant())
    return prepare_late(op, prepare_matmul, prepare);
  if (x.is_float()) return prepare_float_matrices(op, s, prepare);
  if (takes_reals(op, s)) return prepare_real_matrices(op, s, prepare);
  if (!w.is_constant() || qnn::size_of(w.dtype) != 1 || s.batches.size() > 1 || s.transposed_x)
    return prepare_packed_late(op, s, prepare);
  Fixed state;
  FixedProduct& p = state.product;
  p.window.in_width = p.window.out_width = s.rows;
  p.window.in_channels = s.inner;
  p.window.out_channels = s.columns;
  const int64_t row = s.columns * static_cast<int64_t>(qnn::size_of(y.dtype));
  p.steps = {nullptr, row, row * s.rows, row * s.rows};
  const ProductSpec spec{x, w, op.in(2), y};
  SF_TRY(prepare_products(
      spec, {&p, 1}, matrix_rounding(x),
      [&](size_t, int64_t, int64_t input, int64_t output) {
        return s.transposed_w ? output * s.inner + input : input * s.columns + output;
      },
      prepare));
  return prepare.step(std::move(state), s.macs());
}

}  // namespace sixfold::emulator
