// One layer and direction of lstm, gru and rnn.
//
// The input's share of all gates, for all steps, is one product; a step then multiplies the state by w_hh and
// applies the gates. Products are split over blocks of gate rows, by shape alone.
#include <algorithm>
#include <cmath>
#include <vector>

#include "sixfold/cpu/dot_rows.h"
#include "sixfold/cpu/kernel.h"
#include "sixfold/cpu/sgemm.h"
#include "sixfold/ops/rnn/gates.h"

namespace sixfold::cpu {
namespace {

struct Layer {
  Op op;
  int64_t steps, batch, inputs, units, gates;  // T, B, I, H, gates per unit
  bool reverse = false, relu = false;
  size_t weights;  // operand of w_ih; w_hh, b_ih and b_hh follow
  bool b_ih, b_hh;
  std::vector<float> zeros;  // stands for an absent hidden bias of gru

  int64_t rows() const { return gates * units; }  // of the weights
  int64_t state() const { return batch * units; }
};

constexpr int64_t kBlock = 256;        // gate rows of a task
constexpr int64_t kMinWork = 1 << 17;  // multiplications below which a product is not worth several tasks

// out[m][rows] (+)= a[m][width] * w[rows][width]^T, in blocks of rows. `add`: out holds a bias already.
void multiply(Pool& pool, const float* a, int64_t m, int64_t width, const float* w, int64_t rows, bool add,
              float* out) {
  const auto block = [&](int64_t begin, int64_t end) {
    if (m < 4 && !add) {
      for (int64_t i = 0; i < m; ++i)
        dot_rows(a + i * width, w + begin * width, end - begin, width, 1.0f, out + i * rows + begin);
    } else {
      sgemm({.rows = m,
             .columns = end - begin,
             .inner = width,
             .transposed = true,
             .a = a,
             .a_step = width,
             .b = w + begin * width,
             .b_step = width,
             .c = out + begin,
             .c_step = rows,
             .beta = add ? 1.0f : 0.0f});
    }
  };
  if (m * width * rows < kMinWork)
    block(0, rows);
  else
    pool.for_ranges(rows, m < 4 ? 64 : kBlock, block);
}

class LayerF32 {
 public:
  explicit LayerF32(Layer layer) : l_(std::move(layer)) {}

  size_t scratch_bytes() const {
    return sizeof(float) *
           static_cast<size_t>(l_.steps * l_.batch * l_.rows() + l_.batch * l_.rows() + 3 * l_.state());
  }

  Status operator()(const Buffers& buffers) const {
    auto* memory = reinterpret_cast<float*>(buffers.scratch);
    float* gx = memory;
    float* gh = gx + l_.steps * l_.batch * l_.rows();
    float* c_scratch = gh + l_.batch * l_.rows();
    float* h_scratch = c_scratch + l_.state();  // two states, for when nobody takes y
    project_input(buffers, gx);

    const bool lstm = l_.op == Op::lstm;
    const float* w_hh = buffers.input<float>(l_.weights + 1);
    const float* h = buffers.input<float>(1);
    const float* c = lstm ? buffers.input<float>(2) : nullptr;
    float* y = buffers.output<float>(0);
    float* c_out = lstm && buffers.out[2] ? buffers.output<float>(2) : c_scratch;
    for (int64_t step = 0; step < l_.steps; ++step) {
      const int64_t t = l_.reverse ? l_.steps - 1 - step : step;
      float* h_next = y ? y + t * l_.state() : h_scratch + step % 2 * l_.state();
      multiply(buffers.pool, h, l_.batch, l_.units, w_hh, l_.rows(), /*add=*/false, gh);
      apply_gates(buffers, gx + t * l_.batch * l_.rows(), gh, h, c, h_next, c_out);
      h = h_next;
      c = c_out;
    }
    if (buffers.out[1]) std::copy(h, h + l_.state(), buffers.output<float>(1));
    if (lstm && buffers.out[2] && c != c_out) std::copy(c, c + l_.state(), c_out);
    return ok_status();
  }

 private:
  // gx = x w_ih^T + biases. gru keeps its hidden bias apart: the reset gate scales it.
  void project_input(const Buffers& buffers, float* gx) const {
    const int64_t rows = l_.rows(), m = l_.steps * l_.batch;
    const float* b_ih = l_.b_ih ? buffers.input<float>(l_.weights + 2) : nullptr;
    const float* b_hh = l_.b_hh && l_.op != Op::gru ? buffers.input<float>(l_.weights + 3) : nullptr;
    if (m == 0 || rows == 0) return;
    for (int64_t j = 0; j < rows; ++j) gx[j] = (b_ih ? b_ih[j] : 0.0f) + (b_hh ? b_hh[j] : 0.0f);
    for (int64_t i = 1; i < m; ++i) std::copy(gx, gx + rows, gx + i * rows);
    multiply(buffers.pool, buffers.input<float>(0), m, l_.inputs, buffers.input<float>(l_.weights), rows,
             /*add=*/true, gx);
  }

  void apply_gates(const Buffers& buffers, const float* gx, const float* gh, const float* h, const float* c,
                   float* h_next, float* c_next) const {
    const int64_t rows = l_.rows(), n = l_.units;
    const float* b_hh = l_.b_hh ? buffers.input<float>(l_.weights + 3) : l_.zeros.data();
    const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(n, 1));
    buffers.pool.for_ranges(l_.batch, grain, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const float *x = gx + b * rows, *s = gh + b * rows;
        const int64_t at = b * n;
        if (l_.op == Op::lstm)
          rnn_gates::lstm(x, s, c + at, c_next + at, h_next + at, n);
        else if (l_.op == Op::gru)
          rnn_gates::gru(x, s, b_hh, h + at, h_next + at, n);
        else if (l_.relu)
          rnn_gates::relu(x, s, h_next + at, n);
        else
          rnn_gates::tanh(x, s, h_next + at, n);
      }
    });
  }

  Layer l_;
};

// The definition, in double.
class LayerF64 {
 public:
  explicit LayerF64(Layer layer) : l_(std::move(layer)) {}

  size_t scratch_bytes() const {
    return sizeof(double) * static_cast<size_t>(2 * l_.rows() + 4 * l_.state());
  }

  Status operator()(const Buffers& buffers) const {
    auto* gx = reinterpret_cast<double*>(buffers.scratch);
    double* gh = gx + l_.rows();
    double* c = gh + l_.rows();
    double* h = c + l_.state();
    double* next = h + l_.state();
    const int64_t n = l_.units;
    std::copy_n(buffers.input<double>(1), l_.state(), h);
    if (l_.op == Op::lstm) std::copy_n(buffers.input<double>(2), l_.state(), c);
    for (int64_t step = 0; step < l_.steps; ++step) {
      const int64_t t = l_.reverse ? l_.steps - 1 - step : step;
      for (int64_t b = 0; b < l_.batch; ++b) {
        product(buffers, 0, buffers.input<double>(0) + (t * l_.batch + b) * l_.inputs, l_.inputs, gx);
        product(buffers, 1, h + b * n, n, gh);
        for (int64_t j = 0; j < n; ++j) next[b * n + j] = unit(gx, gh, j, h[b * n + j], c[b * n + j]);
      }
      std::swap(h, next);
      if (buffers.out[0]) std::copy_n(h, l_.state(), buffers.output<double>(0) + t * l_.state());
    }
    if (buffers.out[1]) std::copy_n(h, l_.state(), buffers.output<double>(1));
    if (l_.op == Op::lstm && buffers.out[2]) std::copy_n(c, l_.state(), buffers.output<double>(2));
    return ok_status();
  }

 private:
  // out = w a + b of the input (0) or the state (1)
  void product(const Buffers& buffers, size_t which, const double* a, int64_t width, double* out) const {
    const double* w = buffers.input<double>(l_.weights + which);
    const bool biased = which ? l_.b_hh : l_.b_ih;
    for (int64_t j = 0; j < l_.rows(); ++j) {
      double sum = biased ? buffers.input<double>(l_.weights + 2 + which)[j] : 0.0;
      for (int64_t i = 0; i < width; ++i) sum += w[j * width + i] * a[i];
      out[j] = sum;
    }
  }
  double unit(const double* gx, const double* gh, int64_t j, double h, double& c) const {
    const int64_t n = l_.units;
    const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
    const auto gate = [&](int64_t k) { return gx[k * n + j] + gh[k * n + j]; };
    if (l_.op == Op::lstm) {
      c = sigmoid(gate(1)) * c + sigmoid(gate(0)) * std::tanh(gate(2));
      return sigmoid(gate(3)) * std::tanh(c);
    }
    if (l_.op == Op::gru) {
      const double next = std::tanh(gx[2 * n + j] + sigmoid(gate(0)) * gh[2 * n + j]);
      return (h - next) * sigmoid(gate(1)) + next;
    }
    return l_.relu ? (gate(0) < 0 ? 0.0 : gate(0)) : std::tanh(gate(0));
  }

  Layer l_;
};

KernelResult make_layer(const KernelCall& call, int64_t gates) {
  const TensorDesc& x = call.in[0];
  if (x.dtype != DType::f32 && x.dtype != DType::f64) return unsupported(call.op, " of ", x.dtype);
  const size_t weights = call.op == Op::lstm ? 3 : 2;
  Layer layer{.op = call.op,
              .steps = x.shape[0],
              .batch = x.shape[1],
              .inputs = x.shape[2],
              .units = call.in[1].shape[1],
              .gates = gates,
              .reverse = call.attrs.flag("reverse"),
              .relu = call.op == Op::rnn && call.attrs.text("nonlinearity") == "relu",
              .weights = weights,
              .b_ih = call.input(weights + 2).present(),
              .b_hh = call.input(weights + 3).present(),
              .zeros = {}};
  if (!layer.b_hh) layer.zeros.assign(static_cast<size_t>(layer.rows()), 0.0f);
  const auto finish = [](auto kernel) {
    const KernelTraits traits{.scratch_bytes = kernel.scratch_bytes(), .optional_outputs = true};
    return make_kernel(std::move(kernel), traits);
  };
  if (x.dtype == DType::f64) return finish(LayerF64(std::move(layer)));
  return finish(LayerF32(std::move(layer)));
}

}  // namespace

KernelResult lstm(const KernelCall& call) { return make_layer(call, 4); }
KernelResult gru(const KernelCall& call) { return make_layer(call, 3); }
KernelResult rnn(const KernelCall& call) { return make_layer(call, 1); }

}  // namespace sixfold::cpu
