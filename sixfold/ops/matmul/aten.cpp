// ATen's matrix products -> matmul, linear.
#include <algorithm>

#include "sixfold/ops/matmul/products.h"
#include "sixfold/ops/rule_table.h"

namespace sixfold::aten {

namespace {

// linear(a, b transposed, bias) when b is a transposed [N, K] or a constant matrix, else no value.
ValueId layer(Call& call, ValueId a, ValueId b, ValueId bias) {
  ValueId w = kNoValue;
  if (const auto made = call.source(b);
      made && made->op == Op::permute && made->attrs.ints("dims") == Shape{1, 0}) {
    w = made->inputs[0];
  } else if (const Tensor* t = call.constant_data(b); t && t->shape.size() == 2) {
    Tensor view = *t;  // a transposed view shares the bytes
    if (view.strides.empty()) view.strides = contiguous_strides(view.shape);
    std::swap(view.shape[0], view.shape[1]);
    std::swap(view.strides[0], view.strides[1]);
    w = call.constant(std::move(view));
  }
  if (!w.valid()) return kNoValue;
  std::vector<ValueId> inputs = {a, w};
  if (bias.valid()) inputs.push_back(bias);
  return call.op(Op::linear, std::move(inputs), {{"activation", std::string("none")}});
}

}  // namespace

ValueId product(Call& call, ValueId a, ValueId b) {
  if (!call.ok()) return kNoValue;
  const ValueId y = layer(call, a, b, kNoValue);
  return y.valid() || !call.ok() ? y : call.op(Op::matmul, {a, b});
}

ValueId matmul(Call& call, ValueId a, ValueId b) {
  if (!call.ok()) return kNoValue;
  const int64_t ra = call.rank(a), rb = call.rank(b);
  if (ra == 0 || rb == 0) {
    call.fail(Code::InvalidModel, "matmul of ", call.type(a), " and ", call.type(b),
              ": both need at least one axis");
    return kNoValue;
  }
  const ValueId y = product(call, ra == 1 ? call.unsqueeze(a, 0) : a, rb == 1 ? call.unsqueeze(b, 1) : b);
  if (!call.ok() || (ra > 1 && rb > 1)) return y;
  Dims dims = call.dims_of(y);
  if (rb == 1) dims.pop_back();
  if (ra == 1) dims.erase(dims.end() - (rb == 1 ? 1 : 2));
  return call.reshape(y, dims);
}

namespace {

// Scalar argument times v; nothing when it is 1.
ValueId scaled(Call& call, ValueId v, std::string_view factor) {
  if (!call.ok() || call.real(factor) == 1.0) return v;
  return call.op(Op::mul, {v, call.tensor_or_scalar(factor, call.dtype_of(v))});
}

// beta * self + alpha * p. With beta 0 self is not read: its NaN would stay otherwise.
ValueId plus_self(Call& call, ValueId self, ValueId p) {
  p = scaled(call, p, "alpha");
  if (!call.ok() || call.real("beta") == 0.0) return p;
  return call.op(Op::add, {scaled(call, self, "beta"), p});
}

Status of_two(Call& call, const char* a, const char* b) {
  return call.result(matmul(call, call.tensor(a), call.tensor(b)));
}
Status matmul_other(Call& call) { return of_two(call, "self", "other"); }
Status mm(Call& call) { return of_two(call, "self", "mat2"); }
Status mv(Call& call) { return of_two(call, "self", "vec"); }
Status dot(Call& call) { return of_two(call, "self", "tensor"); }

// The product in a wider type than its operands'
Status mm_dtype(Call& call) {
  const auto dtype = call.dtype("out_dtype");
  const ValueId a = call.tensor("self"), b = call.tensor("mat2");
  if (!call.ok() || !dtype) return call.unsupported("a product without a dtype");
  return call.result(matmul(call, call.to(a, *dtype), call.to(b, *dtype)));
}
Status int_mm(Call& call) {
  const ValueId a = call.tensor("self"), b = call.tensor("mat2");
  if (!call.ok()) return {};
  return call.result(matmul(call, call.to(a, DType::i32), call.to(b, DType::i32)));
}

ValueId addmm_value(Call& call) {
  ValueId self = call.tensor("self"), a = call.tensor("mat1"), b = call.tensor("mat2");
  if (!call.ok()) return kNoValue;
  if (!call.is_none("out_dtype")) {
    const DType dtype = call.dtype("out_dtype").value_or(DType::f32);
    self = call.to(self, dtype), a = call.to(a, dtype), b = call.to(b, dtype);
  }
  if (call.real("alpha") == 1.0 && call.real("beta") == 1.0 && call.rank(self) == 1 && call.rank(b) == 2 &&
      call.dims_of(self)[0] == call.dims_of(b)[1]) {
    if (const ValueId y = layer(call, a, b, self); y.valid()) return y;
  }
  return plus_self(call, self, matmul(call, a, b));
}
Status addmm(Call& call) { return call.result(addmm_value(call)); }

Status addmm_activation(Call& call) {
  const ValueId y = addmm_value(call);
  return call.result(call.flag("use_gelu") ? call.op(Op::gelu, {y}, {{"approximate", std::string("tanh")}})
                                           : call.op(Op::relu, {y}));
}

Status addmv(Call& call) {
  const ValueId p = matmul(call, call.tensor("mat"), call.tensor("vec"));
  return call.result(plus_self(call, call.tensor("self"), p));
}

Status baddbmm(Call& call) {
  ValueId self = call.tensor("self"), a = call.tensor("batch1"), b = call.tensor("batch2");
  if (!call.ok()) return {};
  if (!call.is_none("out_dtype")) {
    const DType dtype = call.dtype("out_dtype").value_or(DType::f32);
    self = call.to(self, dtype), a = call.to(a, dtype), b = call.to(b, dtype);
  }
  return call.result(plus_self(call, self, matmul(call, a, b)));
}

// Sum over the batch of [B, M, K] @ [B, K, N] = [M, B*K] @ [B*K, N]
Status addbmm(Call& call) {
  const ValueId self = call.tensor("self"), a = call.tensor("batch1"), b = call.tensor("batch2");
  if (!call.ok()) return {};
  if (call.rank(a) != 3 || call.rank(b) != 3)
    return invalid_model("addbmm of ", call.type(a), " and ", call.type(b), ": expected rank 3");
  const Dims da = call.dims_of(a), db = call.dims_of(b);
  const ValueId left = call.reshape(call.permute(a, {1, 0, 2}), {da[1], da[0] * da[2]});
  const ValueId right = call.reshape(b, {db[0] * db[1], db[2]});
  return call.result(plus_self(call, self, matmul(call, left, right)));
}

ValueId outer_value(Call& call, ValueId a, ValueId b) {
  if (!call.ok()) return kNoValue;
  const DType dtype = promote(call.dtype_of(a), call.dtype_of(b));
  return call.op(Op::mul, {call.unsqueeze(call.to(a, dtype), 1), call.to(b, dtype)});
}
Status outer(Call& call) {
  const ValueId a = call.tensor("self"), b = call.tensor("vec2");
  if (call.ok() && (call.rank(a) != 1 || call.rank(b) != 1))
    return invalid_model("outer of ", call.type(a), " and ", call.type(b), ": expected rank 1");
  return call.result(outer_value(call, a, b));
}
Status addr(Call& call) {
  const ValueId self = call.tensor("self"), a = call.tensor("vec1"), b = call.tensor("vec2");
  if (!call.ok()) return {};
  if (call.rank(a) != 1 || call.rank(b) != 1)
    return invalid_model("addr of ", call.type(a), " and ", call.type(b), ": expected rank 1");
  const DType dtype = promote(call.dtype_of(self), promote(call.dtype_of(a), call.dtype_of(b)));
  const ValueId p = call.to(outer_value(call, a, b), dtype);
  if (dtype == DType::boolean) {  // alpha and beta are bools, + is or, * is and
    const ValueId scaled_p =
        call.real("alpha") != 0 ? p : call.op(Op::logical_and, {p, call.scalar(0.0, dtype)});
    if (call.real("beta") == 0.0) return call.result(scaled_p);
    return call.result(call.op(Op::logical_or, {self, scaled_p}));
  }
  return call.result(plus_self(call, call.to(self, dtype), p));
}

Status linear(Call& call) {
  const ValueId x = call.tensor("input"), w = call.tensor("weight"), b = call.optional_tensor("bias");
  if (!call.ok()) return {};
  if (call.rank(w) == 2 && (!b.valid() || call.rank(b) == 1)) {
    std::vector<ValueId> inputs = {x, w};
    if (b.valid()) inputs.push_back(b);
    return call.result(call.op(Op::linear, std::move(inputs), {{"activation", std::string("none")}}));
  }
  ValueId y = call.rank(w) == 2 ? call.op(Op::linear, {x, w}, {{"activation", std::string("none")}})
                                : matmul(call, x, w);
  if (b.valid()) y = call.op(Op::add, {y, b});
  return call.result(y);
}

// Left to right. Rank-1 operands are allowed at both ends.
Status chain(Call& call, std::string_view list) {
  const std::vector<ValueId> xs = call.tensors(list);
  if (!call.ok()) return {};
  if (xs.empty()) return invalid_model("a chain of no matrices");
  ValueId y = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) y = matmul(call, y, xs[i]);
  return call.result(y);
}
Status chain_matmul(Call& call) { return chain(call, "matrices"); }
Status multi_dot(Call& call) { return chain(call, "tensors"); }

// kron(a, b)[i * Nb + k, ..] = a[i, ..] * b[k, ..]
Status kron(Call& call) {
  ValueId a = call.tensor("self"), b = call.tensor("other");
  if (!call.ok()) return {};
  const DType dtype = result_type(call, {"self", "other"});
  const size_t rank = static_cast<size_t>(std::max(call.rank(a), call.rank(b)));
  Dims da = call.dims_of(a), db = call.dims_of(b), wide_a, wide_b, out;
  da.insert(da.begin(), rank - da.size(), Dim(1));
  db.insert(db.begin(), rank - db.size(), Dim(1));
  for (size_t i = 0; i < rank; ++i) {
    wide_a.insert(wide_a.end(), {da[i], Dim(1)});
    wide_b.insert(wide_b.end(), {Dim(1), db[i]});
    out.push_back(da[i] * db[i]);
  }
  a = call.reshape(call.to(a, dtype), wide_a);
  b = call.reshape(call.to(b, dtype), wide_b);
  return call.result(call.reshape(call.op(Op::mul, {a, b}), out));
}

Status vecdot(Call& call) {
  const ValueId x = call.tensor("x"), y = call.tensor("y");
  if (!call.ok()) return {};
  const ValueId p = call.op(Op::mul, {x, y});
  const int64_t dim = call.axis("dim", p);
  return call.result(call.op(Op::sum, {p}, {{"dims", Dims{dim}}, {"keepdim", false}}));
}

// self: [M, K] times int8 weights [N, K] with one scale per row
Status weight_int8pack_mm(Call& call) {
  const ValueId x = call.tensor("self"), w = call.tensor("mat2"), scales = call.tensor("scales");
  if (!call.ok()) return {};
  const ValueId y =
      call.op(Op::linear, {x, call.to(w, call.dtype_of(x))}, {{"activation", std::string("none")}});
  return call.result(call.op(Op::mul, {y, call.to(scales, call.dtype_of(x))}));
}

// w = v * (g / norm of v over all axes but dim); dim -1 means over all
std::vector<ValueId> weight_norm_values(Call& call) {
  const ValueId v = call.tensor("v"), g = call.tensor("g");
  int64_t dim = call.integer("dim");
  if (!call.ok()) return {kNoValue, kNoValue};
  if (dim != -1) dim = call.normalize(dim, v);
  Dims dims;
  for (int64_t i = 0; i < call.rank(v); ++i)
    if (i != dim) dims.push_back(Dim(i));
  const bool one_axis = dims.empty() && call.rank(v) > 0;
  const ValueId norm = one_axis ? call.op(Op::abs, {v})
                                : call.op(Op::sqrt, {call.op(Op::sum, {call.op(Op::mul, {v, v})},
                                                             {{"dims", dims}, {"keepdim", dim != -1}})});
  return {call.op(Op::mul, {v, call.op(Op::div, {g, norm}, {{"rounding", std::string("none")}})}), norm};
}
Status weight_norm(Call& call) { return call.result(weight_norm_values(call)[0]); }
Status weight_norm_interface(Call& call) { return call.results(weight_norm_values(call)); }

Labels iota_labels(int first, int64_t n) {
  Labels out;
  for (int64_t i = 0; i < n; ++i) out.push_back(first + static_cast<int>(i));
  return out;
}

Status tensordot(Call& call) {
  const ValueId a = call.tensor("self"), b = call.tensor("other");
  const Shape da = call.ints("dims_self"), db = call.ints("dims_other");
  if (!call.ok()) return {};
  if (da.size() != db.size()) return invalid_model("tensordot over ", da.size(), " and ", db.size(), " axes");
  Labels la = iota_labels(0, call.rank(a)), lb = iota_labels(1000, call.rank(b)), keep;
  std::vector<bool> gone_a(la.size()), gone_b(lb.size());
  for (size_t i = 0; i < da.size(); ++i) {
    const auto x = static_cast<size_t>(call.normalize(da[i], a)),
               y = static_cast<size_t>(call.normalize(db[i], b));
    if (!call.ok()) return {};
    if (x >= la.size() || y >= lb.size() || gone_a[x] || gone_b[y])
      return invalid_model("tensordot over axes ", da, " and ", db);
    lb[y] = la[x];
    gone_a[x] = gone_b[y] = true;
  }
  for (size_t i = 0; i < la.size(); ++i)
    if (!gone_a[i]) keep.push_back(la[i]);
  for (size_t i = 0; i < lb.size(); ++i)
    if (!gone_b[i]) keep.push_back(lb[i]);
  return call.result(contract(call, a, la, b, lb, keep));
}

// inner(a: [.., K], b: [.., K]): every row of a with every row of b
Status inner(Call& call) {
  const ValueId a = call.tensor("self"), b = call.tensor("other");
  if (!call.ok()) return {};
  if (call.rank(a) == 0 || call.rank(b) == 0) return call.result(call.op(Op::mul, {a, b}));
  Labels la = iota_labels(0, call.rank(a)), lb = iota_labels(1000, call.rank(b));
  lb.back() = la.back();
  Labels keep(la.begin(), la.end() - 1);
  keep.insert(keep.end(), lb.begin(), lb.end() - 1);
  return call.result(contract(call, a, la, b, lb, keep));
}

// out[.., o] = sum_ij x1[.., i] * w[o, i, j] * x2[.., j] + b[o]
Status bilinear(Call& call) {
  const ValueId x1 = call.tensor("input1"), x2 = call.tensor("input2"), w = call.tensor("weight");
  const ValueId b = call.optional_tensor("bias");
  if (!call.ok()) return {};
  if (call.rank(x1) < 1 || call.rank(w) != 3 || call.rank(x1) != call.rank(x2))
    return invalid_model("bilinear of ", call.type(x1), ", ", call.type(x2), " with ", call.type(w));
  const int o = 1000, i = 1001, j = 1002;
  const Labels rows = iota_labels(0, call.rank(x1) - 1);
  const auto with = [&](std::initializer_list<int> last) {
    Labels out = rows;
    out.insert(out.end(), last);
    return out;
  };
  const ValueId xw = contract(call, x1, with({i}), w, {o, i, j}, with({o, j}));
  ValueId y = contract(call, xw, with({o, j}), x2, with({j}), with({o}));
  if (b.valid()) y = call.op(Op::add, {y, b});
  return call.result(y);
}

// sum over sumdim of i1 * i2 * i3, each with axes of extent 1 inserted at expandN
Status trilinear(Call& call) {
  ValueId y = kNoValue;
  for (const auto& [tensor, expand] : {std::pair{"i1", "expand1"}, {"i2", "expand2"}, {"i3", "expand3"}}) {
    ValueId x = call.tensor(tensor);
    Shape axes = call.ints(expand);
    std::sort(axes.begin(), axes.end());
    for (const int64_t axis : axes) {
      if (!call.ok()) return {};
      if (axis < 0 || axis > call.rank(x)) return invalid_model("_trilinear: ", expand, " ", axes);
      x = call.unsqueeze(x, axis);
    }
    y = y.valid() ? call.op(Op::mul, {y, x}) : x;
  }
  if (!call.ok()) return {};
  // An axis that none of the three has: for torch its extent is 0.
  const auto lists = [&](std::string_view name, int64_t axis) {
    const Shape axes = call.ints(name);
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  for (int64_t i = 0; i < call.rank(y); ++i)
    if (lists("expand1", i) && lists("expand2", i) && lists("expand3", i) && !lists("sumdim", i))
      y = call.slice(y, i, Dim(0), Dim(0));
  if (call.ints("sumdim").empty()) return call.result(y);
  return call.result(call.op(Op::sum, {y}, {{"dims", to_dims(call.axes("sumdim", y))}, {"keepdim", false}}));
}

constexpr AtenRule kRules[] = {
    {"aten.matmul.default", matmul_other},
    {"aten.linalg_matmul.default", matmul_other},
    {"aten.mm.default", mm},
    {"aten.bmm.default", mm},
    {"aten.mv.default", mv},
    {"aten.dot.default", dot},
    {"aten.vdot.default", matmul_other},
    {"aten.mm.dtype", mm_dtype},
    {"aten.bmm.dtype", mm_dtype},
    {"aten._int_mm.default", int_mm},
    {"aten.addmm.default", addmm},
    {"aten.addmm.dtype", addmm},
    {"aten._addmm_activation.default", addmm_activation},
    {"aten.addmv.default", addmv},
    {"aten.addr.default", addr},
    {"aten.addbmm.default", addbmm},
    {"aten.baddbmm.default", baddbmm},
    {"aten.baddbmm.dtype", baddbmm},
    {"aten.outer.default", outer},
    {"aten.ger.default", outer},
    {"aten.inner.default", inner},
    {"aten.linear.default", linear},
    {"aten.chain_matmul.default", chain_matmul},
    {"aten.linalg_multi_dot.default", multi_dot},
    {"aten.kron.default", kron},
    {"aten.linalg_vecdot.default", vecdot},
    {"aten.tensordot.default", tensordot},
    {"aten.bilinear.default", bilinear},
    {"aten._trilinear.default", trilinear},
    {"aten.einsum.default", einsum},
    {"aten._weight_int8pack_mm.default", weight_int8pack_mm},
    {"aten._weight_norm.default", weight_norm},
    {"aten._weight_norm_interface.default", weight_norm_interface},
};

}  // namespace

SF_RULE_TABLE std::span<const AtenRule> matmul_rules() { return kept<kRules>(); }

}  // namespace sixfold::aten
