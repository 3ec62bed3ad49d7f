// Layers and directions of the ATen calls become one canonical op each; cells are sequences of one step.
#include "sixfold/ops/aten.h"

#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {
namespace {

struct Kind {
  Op op;
  int64_t gates;
  const char* nonlinearity;  // of Op::rnn
};
Kind kind_of(const Call& call) {
  if (call.target().find("lstm") != std::string::npos) return {Op::lstm, 4, ""};
  if (call.target().find("gru") != std::string::npos) return {Op::gru, 3, ""};
  return {Op::rnn, 1, call.target().find("relu") != std::string::npos ? "relu" : "tanh"};
}

struct Weights {
  ValueId w_ih, w_hh, b_ih, b_hh, w_hr;
};
struct Layer {
  ValueId y, h, c;
};

Layer run_layer(Call& call, const Kind& kind, ValueId x, ValueId h, ValueId c, const Weights& w,
                bool reverse) {
  std::vector<ValueId> inputs{x, h};
  if (kind.op == Op::lstm) inputs.push_back(c);
  for (const ValueId v : {w.w_ih, w.w_hh, w.b_ih, w.b_hh}) inputs.push_back(v);
  Attrs attrs{{"reverse", reverse}};
  if (kind.op == Op::rnn) attrs.set("nonlinearity", std::string(kind.nonlinearity));
  const std::vector<ValueId> out = call.op_all(kind.op, std::move(inputs), std::move(attrs));
  return {out[0], out[1], kind.op == Op::lstm ? out[2] : kNoValue};
}

// Part k of n equal ones along the last axis.
ValueId part(Call& call, ValueId x, int64_t k, int64_t n) {
  if (!call.ok()) return kNoValue;
  const Dim unit = floordiv(call.dims_of(x).back(), Dim(n));
  return call.slice(x, call.rank(x) - 1, unit * Dim(k), unit * Dim(k + 1));
}

// One step of lstm from its gates, elementwise.
Layer lstm_step(Call& call, ValueId gates, ValueId c) {
  const auto sigmoid = [&](int64_t k) { return call.op(Op::sigmoid, {part(call, gates, k, 4)}); };
  const ValueId candidate = call.op(Op::tanh, {part(call, gates, 2, 4)});
  const ValueId kept = call.op(Op::mul, {sigmoid(1), c});
  const ValueId next = call.op(Op::add, {kept, call.op(Op::mul, {sigmoid(0), candidate})});
  const ValueId h = call.op(Op::mul, {sigmoid(3), call.op(Op::tanh, {next})});
  return {h, h, next};
}

ValueId linear(Call& call, ValueId x, ValueId w, ValueId b) {
  return call.op(Op::linear, {x, w, b}, {{"activation", std::string("none")}});
}

// An lstm whose state is projected (proj_size) has no canonical op: its steps are written out.
Layer run_projected(Call& call, ValueId x, ValueId h, ValueId c, const Weights& w, bool reverse) {
  const int64_t steps = call.shape(x)[0];
  if (steps > 4096) call.fail(Code::Unsupported, "lstm with proj_size over ", steps, " steps");
  if (!call.ok()) return {};
  const ValueId from_input = linear(call, x, w.w_ih, w.b_ih);
  std::vector<ValueId> ys(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps && call.ok(); ++i) {
    const int64_t t = reverse ? steps - 1 - i : i;
    const ValueId now = call.slice(from_input, 0, t, t + 1);
    const Dims& dims = call.dims_of(now);
    const ValueId gates = call.op(
        Op::add, {call.reshape(now, Dims(dims.begin() + 1, dims.end())), linear(call, h, w.w_hh, w.b_hh)});
    const Layer step = lstm_step(call, gates, c);
    c = step.c;
    h = linear(call, step.h, w.w_hr, kNoValue);
    if (call.ok()) ys[static_cast<size_t>(t)] = call.unsqueeze(h, 0);
  }
  if (!call.ok()) return {};
  return {steps == 1 ? ys[0] : call.op(Op::concat, ys, {{"dim", Dim(0)}}), h, c};
}

// Entry i of a stack of states [L * D, B, H], as [B, H].
ValueId state(Call& call, ValueId stacked, int64_t i) {
  const ValueId one = call.slice(stacked, 0, i, i + 1);
  if (!call.ok()) return kNoValue;
  const Dims& dims = call.dims_of(one);
  return call.reshape(one, Dims(dims.begin() + 1, dims.end()));
}

ValueId concat(Call& call, const std::vector<ValueId>& xs, int64_t dim) {
  return xs.size() == 1 || !call.ok() ? xs[0] : call.op(Op::concat, xs, {{"dim", Dim(dim)}});
}
ValueId stack(Call& call, std::vector<ValueId> xs) {
  if (!call.ok()) return kNoValue;
  for (ValueId& x : xs) x = call.unsqueeze(x, 0);
  return concat(call, xs, 0);
}

Status sequence(Call& call) {
  const Kind kind = kind_of(call);
  const bool lstm = kind.op == Op::lstm;
  ValueId x = call.tensor("input");
  const std::vector<ValueId> hx = lstm ? call.tensors("hx") : std::vector<ValueId>{call.tensor("hx")};
  const std::vector<ValueId> params = call.tensors("params");
  const bool biases = call.flag("has_biases"), batch_first = call.flag("batch_first");
  const int64_t layers = call.integer("num_layers"), directions = call.flag("bidirectional") ? 2 : 1;
  if (call.flag("train") && call.real("dropout") != 0.0 && layers > 1)
    return call.unsupported("dropout between layers gives random results: export the module in eval mode");
  if (!call.ok()) return call.results(std::vector<ValueId>(call.output_count()));
  if (layers < 1 || layers > 1024) return invalid_model(layers, " layers");
  if (call.rank(x) != 3) return invalid_model("input is ", call.type(x), ", expected rank 3");
  if (hx.size() != (lstm ? 2u : 1u)) return invalid_model(hx.size(), " states, expected ", lstm ? 2 : 1);
  for (const ValueId h : hx)
    if (!h.valid() || call.rank(h) != 3 || call.dims_of(h)[0] != Dim(layers * directions))
      return invalid_model("a state is ", call.type(h), ", expected ", layers * directions,
                           " entries of rank 2");
  const size_t plain = biases ? 4 : 2, sets = static_cast<size_t>(layers * directions);
  const size_t each = params.size() / sets;
  const bool projected = lstm && each == plain + 1;
  if (params.size() % sets != 0 || (each != plain && !projected))
    return invalid_model(params.size(), " weights for ", layers, " layers of ", directions, " directions");

  if (batch_first) x = call.permute(x, {1, 0, 2});
  std::vector<ValueId> last_h, last_c;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<ValueId> ys;
    for (int64_t d = 0; d < directions; ++d) {
      const int64_t i = layer * directions + d;
      const ValueId* p = params.data() + static_cast<size_t>(i) * each;
      const Weights w{p[0], p[1], biases ? p[2] : kNoValue, biases ? p[3] : kNoValue,
                      projected ? p[plain] : kNoValue};
      const ValueId h = state(call, hx[0], i), c = lstm ? state(call, hx[1], i) : kNoValue;
      const Layer out =
          projected ? run_projected(call, x, h, c, w, d == 1) : run_layer(call, kind, x, h, c, w, d == 1);
      ys.push_back(out.y);
      last_h.push_back(out.h);
      last_c.push_back(out.c);
    }
    x = concat(call, ys, 2);
  }
  if (batch_first && call.ok()) x = call.permute(x, {1, 0, 2});
  if (lstm) return call.results({x, stack(call, last_h), stack(call, last_c)});
  return call.results({x, stack(call, last_h)});
}

Status cell(Call& call) {
  const Kind kind = kind_of(call);
  const bool lstm = kind.op == Op::lstm;
  const ValueId x = call.tensor("input");
  const std::vector<ValueId> hx = lstm ? call.tensors("hx") : std::vector<ValueId>{call.tensor("hx")};
  const Weights w{call.tensor("w_ih"), call.tensor("w_hh"), call.optional_tensor("b_ih"),
                  call.optional_tensor("b_hh"), kNoValue};
  if (hx.size() != (lstm ? 2u : 1u)) return invalid_model(hx.size(), " states, expected ", lstm ? 2 : 1);
  if (!call.ok()) return call.results(std::vector<ValueId>(call.output_count()));
  if (call.rank(x) != 2) return invalid_model("input is ", call.type(x), ", expected rank 2");
  const Layer out = run_layer(call, kind, call.unsqueeze(x, 0), hx[0], lstm ? hx[1] : kNoValue, w, false);
  if (lstm) return call.results({out.h, out.c});
  return call.result(out.h);
}

ValueId add_bias(Call& call, ValueId gates, std::string_view name) {
  const ValueId b = call.optional_tensor(name);
  return b.valid() ? call.op(Op::add, {gates, b}) : gates;
}

Status fused_lstm_cell(Call& call) {
  const ValueId gates = call.op(Op::add, {add_bias(call, call.tensor("input_gates"), "input_bias"),
                                          add_bias(call, call.tensor("hidden_gates"), "hidden_bias")});
  const Layer step = lstm_step(call, gates, call.tensor("cx"));
  return call.results({step.h, step.c, kNoValue});
}

Status fused_gru_cell(Call& call) {
  const ValueId x = add_bias(call, call.tensor("input_gates"), "input_bias");
  const ValueId s = add_bias(call, call.tensor("hidden_gates"), "hidden_bias");
  const auto gate = [&](int64_t k) {
    return call.op(Op::sigmoid, {call.op(Op::add, {part(call, x, k, 3), part(call, s, k, 3)})});
  };
  const ValueId reset = call.op(Op::mul, {gate(0), part(call, s, 2, 3)});
  const ValueId next = call.op(Op::tanh, {call.op(Op::add, {part(call, x, 2, 3), reset})});
  const ValueId change = call.op(Op::mul, {call.op(Op::sub, {call.tensor("hx"), next}), gate(1)});
  return call.results({call.op(Op::add, {change, next}), kNoValue});
}

Status packed(Call& call) {
  return call.unsupported("packed sequences have data-dependent shapes: feed padded ones");
}

constexpr AtenRule kRules[] = {
    {"aten.lstm.input", sequence},
    {"aten.gru.input", sequence},
    {"aten.rnn_tanh.input", sequence},
    {"aten.rnn_relu.input", sequence},
    {"aten.lstm.data", packed},
    {"aten.gru.data", packed},
    {"aten.rnn_tanh.data", packed},
    {"aten.rnn_relu.data", packed},
    {"aten.lstm_cell.default", cell},
    {"aten.gru_cell.default", cell},
    {"aten.rnn_tanh_cell.default", cell},
    {"aten.rnn_relu_cell.default", cell},
    {"aten._thnn_fused_lstm_cell.default", fused_lstm_cell},
    {"aten._thnn_fused_gru_cell.default", fused_gru_cell},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> rnn_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
