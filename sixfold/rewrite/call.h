// Reading an imported ATen call, and building its canonical form.
//
// Every argument of the schema is there: import filled in the defaults. Errors are sticky as in Patch: a
// getter that finds another kind of argument than asked for records the error and returns a neutral value.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sixfold/rewrite/patch.h"

namespace sixfold {

class Call {
 public:
  Call(const Graph& graph, const Node& node) : patch(graph, node), graph_(graph), node_(node) {}

  Patch patch;

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  const std::string& target() const { return node_.target; }

  // Arguments by schema name
  bool is_none(std::string_view name) const;            // absent or None
  bool is_tensor(std::string_view name) const;          // a value rather than a number
  ValueId tensor(std::string_view name);                // a required tensor value
  ValueId optional_tensor(std::string_view name);       // kNoValue for None
  std::vector<ValueId> tensors(std::string_view name);  // Tensor[] (kNoValue for None items)
  bool flag(std::string_view name);
  bool flag_or(std::string_view name, bool otherwise);  // None -> otherwise
  int64_t integer(std::string_view name);               // static
  int64_t integer_or(std::string_view name, int64_t otherwise);
  Dim dim(std::string_view name);     // possibly symbolic
  Shape ints(std::string_view name);  // static; one number counts as a list of one
  Dims dims(std::string_view name);
  double real(std::string_view name);  // float, int or bool Scalar
  double real_or(std::string_view name, double otherwise);
  std::vector<double> reals(std::string_view name);
  std::string text(std::string_view name);
  std::optional<DType> dtype(std::string_view name);  // nullopt for None
  const Attr* attr(std::string_view name) const { return node_.attrs.find(name); }

  // ints(name) brought to n entries: one entry is repeated, an empty list gives `otherwise` n times.
  Shape ints_n(std::string_view name, size_t n, int64_t otherwise = 0);
  // A normalized axis of x; records an error when out of range.
  int64_t axis(std::string_view name, ValueId x);
  int64_t normalize(int64_t axis, ValueId x);
  // Normalized, sorted, without repeats; empty or None means all axes of x.
  Shape axes(std::string_view name, ValueId x);

  // The data of a value that is constant or computed from constants alone (a lifted mask, a comparison of
  // aranges).
  std::optional<Tensor> known(ValueId x) const;

  // Number arguments of Tensor or Scalar type. A value as it is, or a 0-d constant: of dtype.
  ValueId tensor_or_scalar(std::string_view name, DType dtype);
  bool is_real_number(std::string_view name) const;  // a float literal (not an integer or bool)

  // Canonical builders used everywhere
  ValueId op(Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return patch.add(op, std::move(inputs), std::move(attrs));
  }
  ValueId to(ValueId x, DType dtype);  // nothing when x has it already
  ValueId reshape(ValueId x, const Dims& shape);
  ValueId permute(ValueId x, const Shape& dims);
  ValueId slice(ValueId x, int64_t dim, Dim start, Dim end, int64_t step = 1);  // normalized bounds
  ValueId unsqueeze(ValueId x, int64_t axis);
  ValueId scalar(double value, DType dtype) { return patch.scalar(value, dtype); }
  const Type& type(ValueId id) const { return patch.type(id); }
  const Dims& dims_of(ValueId id) const { return patch.dims(id); }
  DType dtype_of(ValueId id) const { return patch.dtype(id); }
  int64_t rank(ValueId id) const { return patch.rank(id); }
  // Static extents of x; records Unsupported "needs static shapes" otherwise.
  Shape shape(ValueId x);

  // Results: the i-th output of the call is v. Checks nothing: the driver compares types.
  Match result(ValueId v) { return results({v}); }
  Match results(const std::vector<ValueId>& values);  // kNoValue: that output must be unused
  Match unsupported(std::string_view reason);

  template <typename... Parts>
  void fail(Code code, const Parts&... parts) {
    patch.fail(sixfold::fail(code, parts...));
  }

 private:
  const Graph& graph_;
  const Node& node_;
};

// torch.result_type of the named arguments: tensors with dimensions rank above 0-d tensors, those above
// numbers.
DType result_type(Call& call, std::initializer_list<std::string_view> names);
// Integers and bool become the default float.
inline DType to_float(DType d) { return is_float(d) ? d : DType::f32; }

// One spelling of an ATen overload. Tables of these are the canonicalization; each op family has one
// (ops/*/aten.cpp).
struct AtenRule {
  const char* target;  // "aten.add.Tensor"
  Match (*apply)(Call& call);
};

}  // namespace sixfold
