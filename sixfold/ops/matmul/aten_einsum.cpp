// einsum: every equation becomes permute, reshape, sum and one product per pair of operands.
#include <algorithm>
#include <map>

#include "sixfold/ops/matmul/products.h"

namespace sixfold::aten {
namespace {

// A value whose axes have names.
struct Labelled {
  ValueId value;
  Labels labels;
};

bool has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}
size_t find(const Labels& labels, int label) {
  return static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}
Labels both(const Labels& a, const Labels& b) {
  Labels out;
  for (const int label : a)
    if (has(b, label)) out.push_back(label);
  return out;
}
Labels minus(const Labels& a, const Labels& b) {
  Labels out;
  for (const int label : a)
    if (!has(b, label)) out.push_back(label);
  return out;
}
Labels join(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Dim extent(Call& call, const Labelled& x, int label) { return call.dims_of(x.value)[find(x.labels, label)]; }
Dim extent(Call& call, const Labelled& x, const Labels& labels) {
  Dim out = 1;
  for (const int label : labels) out *= extent(call, x, label);
  return out;
}

Labelled ordered(Call& call, const Labelled& x, const Labels& order) {
  Shape dims;
  for (const int label : order) dims.push_back(static_cast<int64_t>(find(x.labels, label)));
  return {call.permute(x.value, dims), order};
}

// Axes of extent 1 add nothing to a product: they broadcast. They return at the end.
Labelled squeeze(Call& call, const Labelled& x) {
  Labelled out{kNoValue, {}};
  Dims dims;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const Dim& d = call.dims_of(x.value)[i];
    if (d == Dim(1)) continue;
    dims.push_back(d);
    out.labels.push_back(x.labels[i]);
  }
  out.value = call.reshape(x.value, dims);
  return out;
}

Labelled sum_out(Call& call, const Labelled& x, const Labels& gone) {
  if (gone.empty()) return x;
  Dims dims;
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (has(gone, x.labels[i])) dims.push_back(Dim(static_cast<int64_t>(i)));
  const DType dtype = call.dtype_of(x.value);
  const ValueId wide = is_float(dtype) ? x.value : call.to(x.value, DType::i64);
  const ValueId sum = call.op(Op::sum, {wide}, {{"dims", dims}, {"keepdim", false}});
  return {is_float(dtype) ? sum : call.to(sum, dtype), minus(x.labels, gone)};
}

// x with its axes in the order of `keep`; labels that x lacks are axes of extent 1.
ValueId finish(Call& call, const Labelled& x, const Labels& keep) {
  if (!call.ok()) return kNoValue;
  const Labelled y = ordered(call, x, both(keep, x.labels));
  if (!call.ok()) return kNoValue;
  Dims dims;
  for (const int label : keep) dims.push_back(has(y.labels, label) ? extent(call, y, label) : Dim(1));
  return call.reshape(y.value, dims);
}

// Diagonal of two axes of the same name: the last of a flat n*n axis taken in steps of n + 1.
Labelled diagonal(Call& call, const Labelled& x, size_t i, size_t j) {
  const Dims& dims = call.dims_of(x.value);
  const Dim n = dims[i];
  if (!n.is_static() || !(n == dims[j])) {
    call.fail(n.is_static() && dims[j].is_static() ? Code::InvalidModel : Code::Unsupported,
              "einsum takes a diagonal of axes of extents ", n, " and ", dims[j]);
    return x;
  }
  Shape order;
  Labelled out{kNoValue, {}};
  Dims flat;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (k == i || k == j) continue;
    order.push_back(static_cast<int64_t>(k));
    flat.push_back(dims[k]);
    out.labels.push_back(x.labels[k]);
  }
  const auto axis = static_cast<int64_t>(flat.size());
  order.push_back(static_cast<int64_t>(i));
  order.push_back(static_cast<int64_t>(j));
  flat.push_back(n * n);
  out.labels.push_back(x.labels[i]);
  const ValueId y = call.reshape(call.permute(x.value, order), flat);
  out.value = call.slice(y, axis, 0, n * n, n.value() + 1);
  return out;
}

}  // namespace

ValueId contract(Call& call, ValueId a_value, const Labels& a_labels, ValueId b_value, const Labels& b_labels,
                 const Labels& keep) {
  if (!call.ok()) return kNoValue;
  Labelled a = squeeze(call, {a_value, a_labels}), b = squeeze(call, {b_value, b_labels});
  if (!call.ok()) return kNoValue;
  a = sum_out(call, a, minus(minus(a.labels, b.labels), keep));
  b = sum_out(call, b, minus(minus(b.labels, a.labels), keep));
  if (!call.ok()) return kNoValue;
  const Labels shared = both(b.labels, a.labels), batch = both(shared, keep), inner = minus(shared, keep);
  const Labels left = minus(a.labels, shared), right = minus(b.labels, shared);
  Labelled out{kNoValue, join(join(batch, left), right)};

  Dims dims;
  for (const int label : out.labels)
    dims.push_back(has(a.labels, label) ? extent(call, a, label) : extent(call, b, label));
  if (inner.empty()) {
    Dims da(dims.begin(), dims.end() - static_cast<ptrdiff_t>(right.size())),
        db(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(batch.size()));
    da.resize(dims.size(), Dim(1));
    db.resize(batch.size() + left.size(), Dim(1));
    db.insert(db.end(), dims.end() - static_cast<ptrdiff_t>(right.size()), dims.end());
    out.value = call.op(Op::mul, {call.reshape(ordered(call, a, join(batch, left)).value, da),
                                  call.reshape(ordered(call, b, join(batch, right)).value, db)});
    return finish(call, out, keep);
  }

  const Dim m = extent(call, a, left), n = extent(call, b, right), k = extent(call, a, inner),
            many = extent(call, a, batch);
  const ValueId rows = ordered(call, a, join(join(batch, left), inner)).value;
  if (batch.empty() && b.labels == join(right, inner)) {  // weights as a layer has them: [N, K]
    out.value = call.op(Op::linear, {call.reshape(rows, {m, k}), call.reshape(b.value, {n, k})},
                        {{"activation", std::string("none")}});
  } else {
    const ValueId columns = ordered(call, b, join(join(batch, inner), right)).value;
    if (batch.empty())
      out.value = product(call, call.reshape(rows, {m, k}), call.reshape(columns, {k, n}));
    else
      out.value =
          call.op(Op::matmul, {call.reshape(rows, {many, m, k}), call.reshape(columns, {many, k, n})});
  }
  out.value = call.reshape(out.value, dims);
  return finish(call, out, keep);
}

Status einsum(Call& call) {
  std::string text = call.text("equation");
  const std::vector<ValueId> tensors = call.tensors("tensors");
  if (!call.ok()) return {};
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t arrow = text.find("->");
  const auto bad = [&](std::string_view why) { return invalid_model("einsum '", text, "': ", why); };
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  constexpr int kEllipsis =
      1000;  // labels of the axes that ... stands for count down from here, last axis first

  std::vector<std::string> terms(1);
  for (const char c : text.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != tensors.size() || tensors.empty()) return bad("one term per operand is expected");

  std::vector<Labelled> operands;
  std::map<int, int> uses;
  size_t widest = 0;  // axes of the widest ellipsis
  for (size_t t = 0; t < terms.size(); ++t) {
    const auto rank = static_cast<size_t>(call.rank(tensors[t]));
    const size_t dots = terms[t].find("...");
    std::string letters = terms[t];
    if (dots != std::string::npos) letters.erase(dots, 3);
    if (!std::all_of(letters.begin(), letters.end(), is_letter)) return bad("a subscript is not a letter");
    if (dots == std::string::npos ? letters.size() != rank : letters.size() > rank)
      return bad(cat("operand ", t, " has rank ", rank));
    const size_t hidden = rank - letters.size();
    widest = std::max(widest, hidden);
    Labelled x{tensors[t], {}};
    for (size_t i = 0; i <= letters.size(); ++i) {
      if (i == dots)
        for (size_t h = 0; h < hidden; ++h) x.labels.push_back(kEllipsis - static_cast<int>(hidden - 1 - h));
      if (i < letters.size()) {
        x.labels.push_back(letters[i]);
        ++uses[letters[i]];
      }
    }
    for (size_t i = 0; i < x.labels.size(); ++i) {
      for (size_t j = i + 1; j < x.labels.size(); ++j) {
        if (x.labels[i] != x.labels[j]) continue;
        x = diagonal(call, x, i, j);
        if (!call.ok()) return {};
        i = static_cast<size_t>(-1);  // axes moved: look from the start
        break;
      }
    }
    operands.push_back(std::move(x));
  }

  Labels output, ellipsis;
  for (size_t h = 0; h < widest; ++h) ellipsis.push_back(kEllipsis - static_cast<int>(widest - 1 - h));
  if (arrow == std::string::npos) {  // the subscripts used once, in order, after the hidden axes
    output = ellipsis;
    for (const auto& [label, count] : uses)
      if (count == 1) output.push_back(label);
  } else {
    const std::string out = text.substr(arrow + 2);
    for (size_t i = 0; i < out.size(); ++i) {
      if (out.compare(i, 3, "...") == 0) {
        output = join(output, ellipsis);
        i += 2;
      } else if (!is_letter(out[i]) || !uses.contains(out[i])) {
        return bad(cat("the result has no subscript ", out[i]));
      } else {
        output.push_back(out[i]);
      }
    }
    for (size_t i = 0; i < output.size(); ++i)
      if (find(output, output[i]) != i) return bad("a subscript of the result repeats");
  }

  Labelled acc = operands[0];
  if (operands.size() == 1) acc = sum_out(call, acc, minus(acc.labels, output));
  for (size_t t = 1; t < operands.size(); ++t) {
    Labels needed = output;
    for (size_t u = t + 1; u < operands.size(); ++u) needed = join(needed, operands[u].labels);
    const Labels all = join(acc.labels, minus(operands[t].labels, acc.labels));
    const Labels keep = t + 1 == operands.size() ? both(output, all) : both(all, needed);
    acc = {contract(call, acc.value, acc.labels, operands[t].value, operands[t].labels, keep), keep};
  }
  return call.result(finish(call, acc, output));
}

}  // namespace sixfold::aten
