// Recurrent layers, unrolled over their steps: the input's share of all gates is one product, each step adds
// the state's.
#include "sixfold/rewrite/htp.h"

namespace sixfold::htp {
namespace {

// About ten device ops a step: beyond this, preparing the graph takes minutes and its tensors run out.
constexpr int64_t kMaxSteps = 512;

struct Layer {
  Htp& h;
  size_t weights;  // operand of w_ih; w_hh, b_ih and b_hh follow
  int64_t units;

  Term product(const Term& x, size_t w, size_t bias) const {
    return {h, h.add(Op::linear, {x, h.in(w), h.in(bias)}, {{"activation", "none"}})};
  }
  Term gate(const Term& x, int64_t i) const { return {h, h.slice(x, 1, i * units, (i + 1) * units)}; }
};

template <typename Step>
Match unroll(Htp& h, size_t states, int64_t gates, const Step& step) {
  const Shape x = h.shape(h.in()), first = h.shape(h.in(1));
  if (!h.patch.status().ok()) return no_match("its shape is symbolic");
  if (x[0] < 1 || x[0] > kMaxSteps)
    return h.unsupported(cat("a sequence of ", x[0], " steps, expected 1 to ", kMaxSteps));
  const Layer layer{h, 1 + states, first[1]};
  const Dims row = to_dims({x[1], gates * first[1]});
  // [T * B, gates * H], the input's biases included
  const Term flat = h.term().reshape(to_dims({x[0] * x[1], x[2]}));
  const Term shares = layer.product(flat, layer.weights, layer.weights + 2);
  std::vector<Term> state;
  for (size_t i = 0; i < states; ++i) state.push_back(h.term(1 + i));
  std::vector<ValueId> rows(static_cast<size_t>(x[0]));
  const bool reverse = h.attrs().flag("reverse");
  for (int64_t i = 0; i < x[0]; ++i) {
    const int64_t t = reverse ? x[0] - 1 - i : i;
    const Term share(h, x[0] == 1 ? ValueId(shares) : h.slice(shares, 0, t * x[1], (t + 1) * x[1]));
    const Term recurrent = layer.product(state[0], layer.weights + 1, layer.weights + 3);
    step(layer, share, recurrent, state);
    rows[static_cast<size_t>(t)] = state[0];
  }
  std::vector<ValueId> out{h.reshape(h.concat(std::move(rows), 0), h.out_type().dims)};
  for (const Term& s : state) out.push_back(s);
  return h.results(out);
}

}  // namespace

Match lstm(Htp& h) {
  return unroll(h, 2, 4, [](const Layer& l, const Term& share, const Term& recurrent, std::vector<Term>& s) {
    const Term gates = share + recurrent;
    const auto sigmoid = [&](int64_t i) { return l.gate(gates, i).apply(Op::sigmoid); };
    s[1] = sigmoid(1) * s[1] + sigmoid(0) * l.gate(gates, 2).apply(Op::tanh);
    s[0] = sigmoid(3) * s[1].apply(Op::tanh);
  });
}

// The reset gate multiplies the state's share of the new gate, its bias included.
Match gru(Htp& h) {
  return unroll(h, 1, 3, [](const Layer& l, const Term& share, const Term& recurrent, std::vector<Term>& s) {
    const Term reset = (l.gate(share, 0) + l.gate(recurrent, 0)).apply(Op::sigmoid);
    const Term update = (l.gate(share, 1) + l.gate(recurrent, 1)).apply(Op::sigmoid);
    const Term fresh = (l.gate(share, 2) + reset * l.gate(recurrent, 2)).apply(Op::tanh);
    s[0] = (s[0] - fresh) * update + fresh;
  });
}

Match rnn(Htp& h) {
  const Op activation = h.attrs().text("nonlinearity") == "relu" ? Op::relu : Op::tanh;
  return unroll(h, 1, 1, [&](const Layer&, const Term& share, const Term& recurrent, std::vector<Term>& s) {
    s[0] = (share + recurrent).apply(activation);
  });
}

}  // namespace sixfold::htp
