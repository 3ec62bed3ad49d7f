// Reading an ATen call, and building its canonical form.
//
// Every argument of the schema is there: who makes the call filled in the defaults. Errors are sticky: a
// getter that finds another kind of argument than asked for records the error and returns a neutral value,
// and a builder then does nothing, so that a rule may build a long chain and look once.
//
// What the canonical ops go into is a Builder: a patch of the compiler's graph, or the steps of one kernel
// call of a loaded program. Rules know neither.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sixfold/base/tensor.h"
#include "sixfold/base/value_id.h"
#include "sixfold/ops/op.h"

namespace sixfold {

class Builder {
 public:
  virtual ~Builder() = default;

  // A canonical node; its outputs, with inferred types.
  virtual Result<std::vector<ValueId>> add(Op op, std::vector<ValueId> inputs, Attrs attrs) = 0;
  virtual ValueId constant(Tensor data) = 0;

  // Of any value; the empty Type for kNoValue.
  virtual const Type& type(ValueId id) const = 0;
  // The data of a constant, or null.
  virtual const Tensor* constant_data(ValueId id) const = 0;
  // The data of a value that is constant or computed from constants alone.
  virtual std::optional<Tensor> known(ValueId id) const = 0;

  // The canonical op that computes a value, where the builder sees it: nothing for inputs, constants, calls.
  struct Source {
    Op op;
    std::span<const ValueId> inputs;
    const Attrs& attrs;
  };
  virtual std::optional<Source> source(ValueId id) const = 0;

  // The results of the call: how many its caller has places for, what they are said to be, which are read.
  virtual size_t output_count() const = 0;
  virtual const Type& output_type(size_t i) const = 0;
  virtual bool is_used(size_t i) const = 0;

  // For the data of constants that a rule computes; outlives what is built.
  virtual Allocator& allocator() const { return system_allocator(); }

  // Another number for each call of a program, the same whenever the program is built.
  virtual int64_t seed() const = 0;
};

class Call {
 public:
  Call(Builder& builder, std::string_view target, std::span<const ValueId> inputs, const Attrs& attrs)
      : builder_(builder), target_(target), inputs_(inputs), attrs_(attrs) {}

  std::string_view target() const { return target_; }

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
  const Attr* attr(std::string_view name) const { return attrs_.find(name); }

  // ints(name) brought to n entries: one entry is repeated, an empty list gives `otherwise` n times.
  Shape ints_n(std::string_view name, size_t n, int64_t otherwise = 0);
  // A normalized axis of x; records an error when out of range.
  int64_t axis(std::string_view name, ValueId x);
  int64_t normalize(int64_t axis, ValueId x);
  // Normalized, sorted, without repeats; empty or None means all axes of x.
  Shape axes(std::string_view name, ValueId x);

  // The data of a value that is constant or computed from constants alone (a lifted mask, a comparison of
  // aranges).
  std::optional<Tensor> known(ValueId x) const { return x.valid() ? builder_.known(x) : std::nullopt; }
  const Tensor* constant_data(ValueId x) const { return x.valid() ? builder_.constant_data(x) : nullptr; }
  std::optional<Builder::Source> source(ValueId x) const {
    return x.valid() ? builder_.source(x) : std::nullopt;
  }

  // Number arguments of Tensor or Scalar type. A value as it is, or a 0-d constant: of dtype.
  ValueId tensor_or_scalar(std::string_view name, DType dtype);
  bool is_real_number(std::string_view name) const;  // a float literal (not an integer or bool)

  // Canonical builders used everywhere
  ValueId op(Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return op_all(op, std::move(inputs), std::move(attrs))[0];
  }
  std::vector<ValueId> op_all(Op op, std::vector<ValueId> inputs, Attrs attrs = {});  // every output
  // Zeros to fill for a constant; null, and an error recorded, when there is no memory.
  Tensor allocate(DType dtype, Shape shape, std::byte** bytes);
  ValueId constant(Tensor data) { return builder_.constant(std::move(data)); }
  ValueId scalar(double value, DType dtype) { return constant(Tensor::scalar(value, dtype)); }
  ValueId scalar(int64_t value, DType dtype) { return constant(Tensor::scalar(value, dtype)); }
  ValueId to(ValueId x, DType dtype);  // nothing when x has it already
  ValueId reshape(ValueId x, const Dims& shape);
  ValueId permute(ValueId x, const Shape& dims);
  ValueId slice(ValueId x, int64_t dim, Dim start, Dim end, int64_t step = 1);  // normalized bounds
  ValueId unsqueeze(ValueId x, int64_t axis);
  const Type& type(ValueId id) const { return builder_.type(id); }
  const Dims& dims_of(ValueId id) const { return type(id).dims; }
  DType dtype_of(ValueId id) const { return type(id).dtype; }
  int64_t rank(ValueId id) const { return static_cast<int64_t>(type(id).rank()); }
  // Static extents of x; records Unsupported "needs static shapes" otherwise.
  Shape shape(ValueId x);

  // What the caller expects of its results. The type is what the file says; it decides only what the
  // arguments leave open.
  size_t output_count() const { return builder_.output_count(); }
  const Type& output_type(size_t i = 0) const { return builder_.output_type(i); }
  bool is_used(size_t i) const { return builder_.is_used(i); }
  int64_t seed() const { return builder_.seed(); }

  // Results: the i-th output of the call is v. Checks no types: who asked compares.
  Status result(ValueId v) { return results({v}); }
  Status results(const std::vector<ValueId>& values);  // kNoValue: that output must be unused
  Status unsupported(std::string_view reason) const { return sixfold::unsupported(reason); }

  bool ok() const { return status_.ok(); }
  template <typename... Parts>
  void fail(Code code, const Parts&... parts) {
    fail(sixfold::fail(code, parts...));
  }
  void fail(Error error) {
    if (status_.ok()) status_ = std::move(error);
  }

  // After the rule: the first error that it met, or its results.
  Result<std::vector<ValueId>> take(Status returned);

 private:
  Builder& builder_;
  std::string_view target_;
  std::span<const ValueId> inputs_;
  const Attrs& attrs_;
  std::vector<ValueId> results_;
  Status status_;
};

// torch.result_type of the named arguments: tensors with dimensions rank above 0-d tensors, those above
// numbers.
DType result_type(Call& call, std::initializer_list<std::string_view> names);
// Integers and bool become the default float.
inline DType to_float(DType d) { return is_float(d) ? d : DType::f32; }

// One spelling of an ATen overload. Tables of these are the canonicalization; each op family has one
// (ops/*/aten.cpp). An error that the Call has recorded counts as returned.
struct AtenRule {
  using Apply = Status (*)(Call& call);
  // Both null for a rule that this build does not keep.
  consteval AtenRule() : target(nullptr), apply(nullptr) {}
  consteval AtenRule(const char* name, Apply rule)
      : target(keeps(Part::rule, name) ? name : nullptr), apply(target ? rule : nullptr) {}

  const char* target;  // "aten.add.Tensor"
  Apply apply;
};

// The rows of a table that this build keeps: kept<kRules>().
template <const auto& rows>
std::span<const AtenRule> kept() {
#ifdef SIXFOLD_SELECTION
  static constexpr auto is_kept = [](const AtenRule& row) { return row.target != nullptr; };
  static constexpr auto out = [] {
    std::array<AtenRule, std::ranges::count_if(rows, is_kept)> some{};
    std::ranges::copy_if(rows, some.begin(), is_kept);
    return some;
  }();
  return out;
#else
  return rows;
#endif
}

}  // namespace sixfold
