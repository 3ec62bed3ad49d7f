#include "sixfold/ops/call.h"

#include <algorithm>

namespace sixfold {
namespace {

// What a number argument is, as torch ranks it in type promotion.
DType number_dtype(const Attr& attr) {
  if (std::holds_alternative<bool>(attr)) return DType::boolean;
  if (std::holds_alternative<Dim>(attr)) return DType::i64;
  if (std::holds_alternative<double>(attr)) return DType::f32;
  return DType::none;
}

int category(DType d) { return d == DType::none ? 0 : d == DType::boolean ? 1 : is_integer(d) ? 2 : 3; }

}  // namespace

bool Call::is_none(std::string_view name) const {
  const Attr* a = attr(name);
  return !a || std::holds_alternative<std::monostate>(*a);
}
bool Call::is_tensor(std::string_view name) const {
  const Attr* a = attr(name);
  return a && std::holds_alternative<Operands>(*a);
}

ValueId Call::tensor(std::string_view name) {
  const ValueId v = optional_tensor(name);
  if (!v.valid()) fail(Code::InvalidModel, "argument ", name, " is not a tensor");
  return v;
}

ValueId Call::optional_tensor(std::string_view name) {
  const Attr* a = attr(name);
  if (!a || std::holds_alternative<std::monostate>(*a)) return kNoValue;
  const Operands* o = std::get_if<Operands>(a);
  if (!o || o->list) {
    fail(Code::InvalidModel, "argument ", name, " is not a tensor");
    return kNoValue;
  }
  return inputs_[o->first];
}

std::vector<ValueId> Call::tensors(std::string_view name) {
  const Attr* a = attr(name);
  const Operands* o = a ? std::get_if<Operands>(a) : nullptr;
  if (!o) {
    // An empty list of tensors comes as an empty list of integers.
    if (a && std::holds_alternative<Dims>(*a) && std::get<Dims>(*a).empty()) return {};
    fail(Code::InvalidModel, "argument ", name, " is not a list of tensors");
    return {};
  }
  const auto begin = inputs_.begin() + o->first;
  return {begin, begin + o->count};
}

bool Call::flag(std::string_view name) {
  const Attr* a = attr(name);
  if (const bool* b = a ? std::get_if<bool>(a) : nullptr) return *b;
  if (const Dim* d = a ? std::get_if<Dim>(a) : nullptr; d && d->is_static()) return d->value() != 0;
  fail(Code::InvalidModel, "argument ", name, " is not a bool");
  return false;
}
bool Call::flag_or(std::string_view name, bool otherwise) { return is_none(name) ? otherwise : flag(name); }

Dim Call::dim(std::string_view name) {
  const Attr* a = attr(name);
  if (const Dim* d = a ? std::get_if<Dim>(a) : nullptr) return *d;
  if (const bool* b = a ? std::get_if<bool>(a) : nullptr) return Dim(*b);
  fail(Code::InvalidModel, "argument ", name, " is not an integer");
  return {};
}

int64_t Call::integer(std::string_view name) {
  const Dim d = dim(name);
  if (d.is_static()) return d.value();
  fail(Code::Unsupported, "argument ", name, " is ", d, ", and this op needs a number");
  return 0;
}
int64_t Call::integer_or(std::string_view name, int64_t otherwise) {
  return is_none(name) ? otherwise : integer(name);
}

Dims Call::dims(std::string_view name) {
  const Attr* a = attr(name);
  if (a) {
    if (const Dims* ds = std::get_if<Dims>(a)) return *ds;
    if (const Dim* d = std::get_if<Dim>(a)) return {*d};
    if (std::holds_alternative<std::monostate>(*a)) return {};
    if (const auto* xs = std::get_if<std::vector<double>>(a); xs && xs->empty()) return {};
  }
  fail(Code::InvalidModel, "argument ", name, " is not a list of integers");
  return {};
}

Shape Call::ints(std::string_view name) {
  const Dims ds = dims(name);
  if (is_static(ds)) return static_shape(ds);
  fail(Code::Unsupported, "argument ", name, " is ", ds, ", and this op needs numbers");
  return {};
}

Shape Call::ints_n(std::string_view name, size_t n, int64_t otherwise) {
  Shape out = ints(name);
  if (out.empty()) out.assign(n, otherwise);
  if (out.size() == 1) out.assign(n, out[0]);
  if (out.size() != n) {
    fail(Code::InvalidModel, "argument ", name, " has ", out.size(), " entries, expected ", n);
    out.assign(n, otherwise);
  }
  return out;
}

double Call::real(std::string_view name) {
  const Attr* a = attr(name);
  if (a) {
    if (const double* x = std::get_if<double>(a)) return *x;
    if (const bool* b = std::get_if<bool>(a)) return *b ? 1.0 : 0.0;
    if (const Dim* d = std::get_if<Dim>(a)) {
      if (d->is_static()) return static_cast<double>(d->value());
      fail(Code::Unsupported, "argument ", name, " is ", *d, ", and this op needs a number");
      return 0.0;
    }
  }
  fail(Code::InvalidModel, "argument ", name, " is not a number");
  return 0.0;
}
double Call::real_or(std::string_view name, double otherwise) {
  return is_none(name) ? otherwise : real(name);
}

std::vector<double> Call::reals(std::string_view name) {
  const Attr* a = attr(name);
  if (a) {
    if (const auto* xs = std::get_if<std::vector<double>>(a)) return *xs;
    if (const double* x = std::get_if<double>(a)) return {*x};
    if (std::holds_alternative<std::monostate>(*a)) return {};
    if (const Dims* ds = std::get_if<Dims>(a); ds && is_static(*ds)) {
      std::vector<double> out;
      for (const Dim& d : *ds) out.push_back(static_cast<double>(d.value()));
      return out;
    }
  }
  fail(Code::InvalidModel, "argument ", name, " is not a list of numbers");
  return {};
}

std::string Call::text(std::string_view name) {
  const Attr* a = attr(name);
  if (const std::string* s = a ? std::get_if<std::string>(a) : nullptr) return *s;
  fail(Code::InvalidModel, "argument ", name, " is not text");
  return {};
}

std::optional<DType> Call::dtype(std::string_view name) {
  if (is_none(name)) return std::nullopt;
  if (const DType* d = std::get_if<DType>(attr(name))) return *d;
  fail(Code::InvalidModel, "argument ", name, " is not a dtype");
  return std::nullopt;
}

int64_t Call::normalize(int64_t axis, ValueId x) {
  auto out = normalize_axis(axis, type(x).rank());
  if (out.ok()) return *out;
  fail(out.take_error());
  return 0;
}
int64_t Call::axis(std::string_view name, ValueId x) { return normalize(integer(name), x); }

Shape Call::axes(std::string_view name, ValueId x) {
  Shape out = is_none(name) ? Shape{} : ints(name);
  if (out.empty()) {
    for (int64_t i = 0; i < rank(x); ++i) out.push_back(i);
    return out;
  }
  for (int64_t& a : out) a = normalize(a, x);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (rank(x) == 0) out.clear();
  return out;
}

ValueId Call::tensor_or_scalar(std::string_view name, DType dtype) {
  if (is_tensor(name)) return tensor(name);
  const Attr* a = attr(name);
  if (const double* x = a ? std::get_if<double>(a) : nullptr) return scalar(*x, dtype);
  const Dim d = dim(name);
  // A symbolic number is a value only once shapes are known.
  if (!d.is_static())
    fail(Code::Unsupported, "argument ", name, " is ", d, ", and computing with it needs a static shape");
  return scalar(d.value_or(0), dtype);
}

bool Call::is_real_number(std::string_view name) const {
  const Attr* a = attr(name);
  return a && std::holds_alternative<double>(*a);
}

Tensor Call::allocate(DType dtype, Shape shape, std::byte** bytes) {
  auto out = Tensor::allocate(builder_.allocator(), dtype, std::move(shape), bytes);
  if (out.ok()) return std::move(out).value();
  fail(out.take_error());
  *bytes = nullptr;
  return {};
}

ValueId Call::to(ValueId x, DType dtype) {
  if (!x.valid() || dtype_of(x) == dtype) return x;
  if (const Tensor* t = constant_data(x); t && t->shape.empty()) {
    return is_float(t->dtype) ? scalar(element_real(*t, 0), dtype) : scalar(element_integer(*t, 0), dtype);
  }
  return op(Op::to, {x}, {{"dtype", dtype}});
}

ValueId Call::reshape(ValueId x, const Dims& shape) {
  if (ok() && dims_of(x) == shape) return x;
  return op(Op::reshape, {x}, {{"shape", shape}});
}

ValueId Call::permute(ValueId x, const Shape& dims) {
  bool identity = true;
  for (size_t i = 0; i < dims.size(); ++i) identity = identity && dims[i] == static_cast<int64_t>(i);
  return identity ? x : op(Op::permute, {x}, {{"dims", to_dims(dims)}});
}

ValueId Call::slice(ValueId x, int64_t dim, Dim start, Dim end, int64_t step) {
  if (!ok()) return kNoValue;
  if (start == Dim(0) && step == 1 && end == dims_of(x)[static_cast<size_t>(dim)]) return x;
  return op(Op::slice, {x}, {{"dim", Dim(dim)}, {"start", start}, {"end", end}, {"step", Dim(step)}});
}

ValueId Call::unsqueeze(ValueId x, int64_t axis) {
  Dims shape = dims_of(x);
  shape.insert(shape.begin() + axis, Dim(1));
  return reshape(x, shape);
}

Shape Call::shape(ValueId x) {
  const Dims& ds = dims_of(x);
  if (is_static(ds)) return static_shape(ds);
  fail(Code::Unsupported, "this op needs static shapes, and its operand is ", type(x));
  return Shape(ds.size(), 1);
}

std::vector<ValueId> Call::op_all(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  if (!ok()) return {kNoValue, kNoValue, kNoValue};
  auto out = builder_.add(op, std::move(inputs), std::move(attrs));
  if (out.ok()) return std::move(out).value();
  fail(out.take_error().during(cat("making ", op)));
  return {kNoValue, kNoValue, kNoValue};
}

Status Call::results(const std::vector<ValueId>& values) {
  if (!ok()) return {};
  if (values.size() != output_count())
    return invalid_model("the file gives it ", output_count(), " outputs, the op has ", values.size());
  for (size_t i = 0; i < values.size(); ++i)
    if (!values[i].valid() && is_used(i))
      return sixfold::unsupported("output ", i, " of this op is not computed");
  results_ = values;
  return {};
}

Result<std::vector<ValueId>> Call::take(Status returned) {
  if (!ok()) return std::move(status_).take_error();
  if (!returned.ok()) return returned.take_error();
  if (results_.size() != output_count()) return Error(Code::Internal, "its rule gave no results");
  return std::move(results_);
}

DType result_type(Call& call, std::initializer_list<std::string_view> names) {
  // torch: within the highest category present, dimensioned tensors decide, then 0-d tensors, then numbers.
  DType dimensioned = DType::none, zero_dim = DType::none, number = DType::none;
  for (const std::string_view name : names) {
    if (call.is_none(name)) continue;
    if (call.is_tensor(name)) {
      const Type& t = call.type(call.tensor(name));
      DType& slot = t.rank() == 0 ? zero_dim : dimensioned;
      slot = promote(slot, t.dtype);
    } else {
      number = promote(number, number_dtype(*call.attr(name)));
    }
  }
  const auto combine = [](DType higher, DType lower) {
    if (category(higher) >= category(lower)) return higher;
    return promote(higher, lower);
  };
  DType tensors = combine(dimensioned, zero_dim);
  if (category(tensors) >= category(number)) return tensors;
  return promote(tensors, number);
}

}  // namespace sixfold
