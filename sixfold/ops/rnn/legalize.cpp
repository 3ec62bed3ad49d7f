// Recurrent layers, unrolled over their steps: the input's share of all gates is one product, each step adds
// the state's.
#include "sixfold/ops/legalize.h"

namespace sixfold::legalize {
namespace {

// One step is about ten kernel calls; beyond this a program would be mostly instructions.
constexpr int64_t kMaxSteps = 2048;

struct Layer {
  Legal& legal;
  size_t weights;  // operand of w_ih; w_hh, b_ih and b_hh follow
  int64_t steps, batch, units;

  Term product(const Term& x, size_t w, size_t bias) const {
    return {legal, legal.add(Op::linear, {x, legal.in(w), legal.in(bias)}, {{"activation", "none"}})};
  }
  Term gate(const Term& x, int64_t i) const { return {legal, legal.slice(x, 1, i * units, (i + 1) * units)}; }
};

template <typename Step>
Match unroll(Legal& legal, size_t states, int64_t gates, const Step& step) {
  if (is_half(legal.dtype(legal.in()))) return legal.computed_in(DType::f32);
  const Shape x = legal.shape(legal.in()), h = legal.shape(legal.in(1));
  if (x[0] < 1 || x[0] > kMaxSteps)
    return legal.unsupported(cat("a sequence of ", x[0], " steps, expected 1 to ", kMaxSteps));
  const Layer layer{legal, 1 + states, x[0], x[1], h[1]};
  // [T, B, gates * H], biases of the input included
  const Term shares = layer.product(legal.term(), layer.weights, layer.weights + 2);
  std::vector<Term> state;
  for (size_t i = 0; i < states; ++i) state.push_back(legal.term(1 + i));
  std::vector<ValueId> rows(static_cast<size_t>(x[0]));
  const bool reverse = legal.attrs().flag("reverse");
  for (int64_t i = 0; i < x[0]; ++i) {
    const int64_t t = reverse ? x[0] - 1 - i : i;
    const Term share(legal, legal.reshape(legal.slice(shares, 0, t, t + 1), to_dims({x[1], gates * h[1]})));
    const Term recurrent = layer.product(state[0], layer.weights + 1, layer.weights + 3);
    step(layer, share, recurrent, state);
    rows[static_cast<size_t>(t)] = legal.reshape(state[0], to_dims({1, x[1], h[1]}));
  }
  std::vector<ValueId> out{legal.concat(std::move(rows), 0)};
  for (const Term& s : state) out.push_back(s);
  return legal.results(out);
}

}  // namespace

Match lstm(Legal& legal) {
  return unroll(legal, 2, 4,
                [](const Layer& l, const Term& share, const Term& recurrent, std::vector<Term>& s) {
                  const Term gates = share + recurrent;
                  const auto sigmoid = [&](int64_t i) { return l.gate(gates, i).apply(Op::sigmoid); };
                  s[1] = sigmoid(1) * s[1] + sigmoid(0) * l.gate(gates, 2).apply(Op::tanh);
                  s[0] = sigmoid(3) * s[1].apply(Op::tanh);
                });
}

// The reset gate multiplies the state's share of the new gate, its bias included.
Match gru(Legal& legal) {
  return unroll(legal, 1, 3,
                [](const Layer& l, const Term& share, const Term& recurrent, std::vector<Term>& s) {
                  const Term reset = (l.gate(share, 0) + l.gate(recurrent, 0)).apply(Op::sigmoid);
                  const Term update = (l.gate(share, 1) + l.gate(recurrent, 1)).apply(Op::sigmoid);
                  const Term fresh = (l.gate(share, 2) + reset * l.gate(recurrent, 2)).apply(Op::tanh);
                  s[0] = (s[0] - fresh) * update + fresh;
                });
}

Match rnn(Legal& legal) {
  const Op activation = legal.attrs().text("nonlinearity") == "relu" ? Op::relu : Op::tanh;
  return unroll(legal, 1, 1,
                [&](const Layer&, const Term& share, const Term& recurrent, std::vector<Term>& s) {
                  s[0] = (share + recurrent).apply(activation);
                });
}

}  // namespace sixfold::legalize
