// Legalization: canonical ops in the words of ExecuTorch's stock kernels (package/out_kernels.inc), so that a
// file needs no kernel of ours.
//
// A rule (ops/<family>/legalize.cpp, the last column of aten.def) gives the node as one call of a functional
// core ATen overload that has such a kernel, or as canonical ops that are closer to one: those are legalized
// in turn. Which dtypes and ranks the kernels take was tried, not guessed; a rule converts or reshapes where
// they do not.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "sixfold/ops/arguments.h"
#include "sixfold/rewrite/patch.h"

namespace sixfold {

class Term;

// An argument of a call, by schema name. A tensor that is absent is None.
struct LegalArg {
  LegalArg(const char* arg, ValueId v) : name(arg), value(v.valid() ? Argument(v) : Argument(Attr())) {}
  LegalArg(const char* arg, std::vector<ValueId> v) : name(arg), value(Argument::list(std::move(v))) {}
  LegalArg(const char* arg, Attr v) : name(arg), value(std::move(v)) {}
  const char* name;
  Argument value;
};

class Legal {
 public:
  Legal(const Graph& graph, const Node& node) : patch(graph, node), graph_(graph), node_(node) {}

  Patch patch;

  // The node
  const Node& node() const { return node_; }
  const Origin& origin() const { return graph_.origin(node_); }
  Op op() const { return node_.op; }
  const Attrs& attrs() const { return node_.attrs; }
  ValueId in(size_t i = 0) const { return node_.input(i); }  // kNoValue: absent
  Term term(size_t i = 0);
  const Type& out_type(size_t i = 0) const { return graph_.type(node_.output(i)); }
  bool is_used(size_t output) const { return graph_.is_used(node_.output(output)); }

  // Values of the graph, or new ones
  // After a failure every value has a type of eight axes, so that a rule may look at axes without asking.
  const Type& type(ValueId id) const;
  DType dtype(ValueId id) const { return type(id).dtype; }
  const Dims& dims(ValueId id) const { return type(id).dims; }
  int64_t rank(ValueId id) const { return static_cast<int64_t>(type(id).rank()); }
  const Tensor* constant_data(ValueId id) const { return patch.constant_data(id); }
  // Static extents; records Unsupported "needs static shapes" otherwise.
  Shape shape(ValueId id);

  // Canonical ops
  ValueId add(Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return patch.add(op, std::move(inputs), std::move(attrs));
  }
  ValueId to(ValueId x, DType dtype);  // nothing when x has it already
  ValueId reshape(ValueId x, Dims shape);
  ValueId permute(ValueId x, const Shape& dims);
  ValueId expand(ValueId x, Dims shape);
  ValueId slice(ValueId x, int64_t dim, Dim start, Dim end, int64_t step = 1);
  ValueId concat(std::vector<ValueId> xs, int64_t dim);  // one: itself
  ValueId index_select(ValueId x, int64_t dim, std::span<const int64_t> index);
  ValueId constant(DType dtype, const Shape& shape, std::span<const double> values);
  ValueId ints(const Shape& shape, std::span<const int64_t> values);  // i64

  // One call among canonical ops, with one result.
  ValueId add_call(std::string_view target, std::vector<LegalArg> args, Type type);

  // Results
  Match result(ValueId v) { return results({v}); }
  Match results(const std::vector<ValueId>& values);  // one for each output; kNoValue: it must be unused
  // The node is one call. Arguments by schema name; defaults are filled in. `extra` are outputs of the call
  // that come after the node's own.
  Match call(std::string_view target, std::vector<LegalArg> args, std::vector<Type> extra = {});
  // The same op on operands of this dtype (those that have the dtype of operand 0), converted back.
  Match computed_in(DType dtype);
  Match unsupported(std::string_view reason);

 private:
  std::vector<ValueId> make_call(std::string_view target, std::vector<LegalArg> args,
                                 const std::vector<Type>& types);

  const Graph& graph_;
  const Node& node_;
};

// A value in a formula of canonical ops. A number takes the dtype of the other side.
class Term {
 public:
  Term(Legal& legal, ValueId id) : legal_(&legal), id_(id) {}
  operator ValueId() const { return id_; }  // NOLINT(google-explicit-constructor)

  Legal& legal() const { return *legal_; }
  DType dtype() const { return legal_->dtype(id_); }
  int64_t rank() const { return legal_->rank(id_); }
  const Dims& dims() const { return legal_->dims(id_); }

  Term number(double value) const { return {*legal_, legal_->patch.scalar(value, dtype())}; }
  Term apply(Op op, Attrs attrs = {}) const { return {*legal_, legal_->add(op, {id_}, std::move(attrs))}; }
  Term apply(Op op, const Term& b, Attrs attrs = {}) const {
    return {*legal_, legal_->add(op, {id_, b.id_}, std::move(attrs))};
  }
  Term to(DType dtype) const { return {*legal_, legal_->to(id_, dtype)}; }
  Term reshape(const Dims& shape) const { return {*legal_, legal_->reshape(id_, shape)}; }
  Term reduce(Op op, const Shape& dims, bool keepdim = true) const {
    return apply(op, {{"dims", to_dims(dims)}, {"keepdim", keepdim}});
  }

  friend Term operator+(const Term& a, const Term& b) { return a.apply(Op::add, b); }
  friend Term operator-(const Term& a, const Term& b) { return a.apply(Op::sub, b); }
  friend Term operator*(const Term& a, const Term& b) { return a.apply(Op::mul, b); }
  friend Term operator/(const Term& a, const Term& b) { return a.apply(Op::div, b, {{"rounding", "none"}}); }
  friend Term operator+(const Term& a, double b) { return a + a.number(b); }
  friend Term operator-(const Term& a, double b) { return a - a.number(b); }
  friend Term operator*(const Term& a, double b) { return a * a.number(b); }
  friend Term operator/(const Term& a, double b) { return a / a.number(b); }
  friend Term operator-(double a, const Term& b) { return b.number(a) - b; }
  friend Term operator*(double a, const Term& b) { return b.number(a) * b; }
  Term operator-() const { return apply(Op::neg); }

 private:
  Legal* legal_;
  ValueId id_;
};
inline Term Legal::term(size_t i) { return {*this, in(i)}; }
inline Term where(const Term& condition, const Term& a, const Term& b) {
  return {a.legal(), a.legal().add(Op::where, {condition, a, b})};
}
inline Term clamped(const Term& x, Attr min, Attr max) {
  return x.apply(Op::clamp, {{"min", std::move(min)}, {"max", std::move(max)}});
}

namespace legalize {
#define OP(id, infer_fn, cpu_fn, layout, legal_fn) Match legal_fn(Legal& legal);
#include "sixfold/ops/aten.def"
#undef OP
}  // namespace legalize

// The rule of an op; Op::call has none.
using LegalRule = Match (*)(Legal&);
LegalRule legal_rule(Op op);

}  // namespace sixfold
