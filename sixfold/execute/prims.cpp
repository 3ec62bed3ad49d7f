#include "sixfold/execute/prims.h"

#include <cmath>
#include <cstring>

#include "sixfold/base/tensor.h"

namespace sixfold {
namespace {

// As Python: rounds to minus infinity, and the remainder has the divisor's sign.
int64_t floor_divide(int64_t a, int64_t b) {
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));  // also of the smallest integer
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
int64_t wrap(uint64_t x) { return static_cast<int64_t>(x); }

Result<int64_t> to_integer(double x) {
  if (!(x >= -9223372036854775808.0 && x < 9223372036854775808.0))
    return invalid_argument(x, " is no 64-bit integer");
  return static_cast<int64_t>(x);
}

Result<MethodValue> arithmetic(Prim prim, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (prim) {
    case Prim::add:
      return MethodValue(wrap(ua + ub));
    case Prim::sub:
      return MethodValue(wrap(ua - ub));
    case Prim::mul:
      return MethodValue(wrap(ua * ub));
    case Prim::floordiv:
    case Prim::mod: {
      if (b == 0) return invalid_argument(a, " divided by 0");
      const int64_t q = floor_divide(a, b);
      return MethodValue(prim == Prim::floordiv ? q : wrap(ua - static_cast<uint64_t>(q) * ub));
    }
    case Prim::truediv:
      if (b == 0) return invalid_argument(a, " divided by 0");
      return MethodValue(static_cast<double>(a) / static_cast<double>(b));
    case Prim::eq:
      return MethodValue(a == b);
    case Prim::gt:
      return MethodValue(a > b);
    case Prim::lt:
      return MethodValue(a < b);
    case Prim::ge:
      return MethodValue(a >= b);
    case Prim::le:
      return MethodValue(a <= b);
    case Prim::sym_max:
      return MethodValue(std::max(a, b));
    default:
      return MethodValue(std::min(a, b));
  }
}

Result<MethodValue> arithmetic(Prim prim, double a, double b) {
  switch (prim) {
    case Prim::add:
      return MethodValue(a + b);
    case Prim::sub:
      return MethodValue(a - b);
    case Prim::mul:
      return MethodValue(a * b);
    case Prim::floordiv:
      return MethodValue(std::floor(a / b));
    case Prim::mod: {
      const double r = std::fmod(a, b);
      return MethodValue(r != 0 && (r < 0) != (b < 0) ? r + b : r);
    }
    case Prim::truediv:
      return MethodValue(a / b);
    case Prim::eq:
      return MethodValue(a == b);
    case Prim::gt:
      return MethodValue(a > b);
    case Prim::lt:
      return MethodValue(a < b);
    case Prim::ge:
      return MethodValue(a >= b);
    case Prim::le:
      return MethodValue(a <= b);
    case Prim::sym_max:
      return MethodValue(std::max(a, b));
    default:
      return MethodValue(std::min(a, b));
  }
}

Result<MethodValue> function_of(Prim prim, pte::Index x, const Values& values) {
  if (prim == Prim::sym_not) {
    SF_ASSIGN(const int64_t b, values.integer(x));
    return MethodValue(b == 0);
  }
  if (!values.is_real(x)) {
    SF_ASSIGN(const int64_t n, values.integer(x));
    if (prim == Prim::neg) return MethodValue(wrap(0 - static_cast<uint64_t>(n)));
    return prim == Prim::sym_float ? MethodValue(static_cast<double>(n)) : MethodValue(n);
  }
  SF_ASSIGN(const double v, values.real(x));
  switch (prim) {
    case Prim::neg:
      return MethodValue(-v);
    case Prim::sym_float:
      return MethodValue(v);
    default: {
      const double r = prim == Prim::ceil    ? std::ceil(v)
                       : prim == Prim::round ? std::nearbyint(v)  // half to even, as Python
                                             : std::trunc(v);
      SF_ASSIGN(const int64_t n, to_integer(r));
      return MethodValue(n);
    }
  }
}

// Tensors, text and lists stay what they are.
bool is_number(const MethodValue& v) {
  return std::holds_alternative<std::monostate>(v) || std::holds_alternative<int64_t>(v) ||
         std::holds_alternative<bool>(v) || std::holds_alternative<double>(v);
}
Status set(Values& values, pte::Index i, const MethodValue& v) {
  if (!is_number(values[i]) || !is_number(v))
    return invalid_model("value ", i, " is ", kind_name(values[i]), ", and an instruction sets it to ",
                         kind_name(v));
  values[i] = v;
  return {};
}

Result<TensorState*> tensor_of(Values& values, pte::Index i) {
  if (TensorState* t = values.tensor(i)) return t;
  return invalid_model("value ", i, " is ", kind_name(values[i]), ", expected a tensor");
}

Status size_of_axis(std::span<const pte::Index> args, Values& values) {
  SF_ASSIGN(const TensorState* t, tensor_of(values, args[0]));
  SF_ASSIGN(const int64_t dim, values.integer(args[1]));
  SF_ASSIGN(const int64_t axis, normalize_axis(dim, t->sizes.size()));
  if (t->sizes.empty()) return invalid_model("sym_size of a tensor without axes");
  return set(values, args[2], t->sizes[static_cast<size_t>(axis)]);
}

Status item(std::span<const pte::Index> args, Values& values) {
  SF_ASSIGN(const TensorState* t, tensor_of(values, args[0]));
  if (t->count() != 1 || !t->data)
    return invalid_model("_local_scalar_dense of a tensor of ", t->count(), " elements");
  const Tensor view{t->dtype, {}, {}, t->data, nullptr};
  if (t->dtype == DType::boolean) return set(values, args[1], t->data[0] != std::byte{0});
  if (is_float(t->dtype)) return set(values, args[1], element_real(view, 0));
  return set(values, args[1], element_integer(view, 0));
}

// out is self's memory under other sizes, one of which may be -1.
Status view(std::span<const pte::Index> args, Values& values) {
  SF_ASSIGN(TensorState * self, tensor_of(values, args[0]));
  SF_ASSIGN(TensorState * out, tensor_of(values, args[2]));
  const auto* sizes = std::get_if<IntItems>(&values[args[1]]);
  if (!sizes)
    return invalid_model("value ", args[1], " is ", kind_name(values[args[1]]), ", expected integers");
  constexpr size_t kMaxRank = 16;
  int64_t wanted[kMaxRank];
  if (sizes->items.size() > kMaxRank) return invalid_model("a view of rank ", sizes->items.size());
  int64_t rest = 1;
  size_t open = kMaxRank;
  for (size_t i = 0; i < sizes->items.size(); ++i) {
    SF_ASSIGN(wanted[i], values.integer(sizes->items[i]));
    if (wanted[i] == -1 && open == kMaxRank)
      open = i;
    else if (wanted[i] < 0 || __builtin_mul_overflow(rest, wanted[i], &rest))
      return invalid_argument("a view with a size of ", wanted[i]);
  }
  if (open != kMaxRank) {
    if (rest == 0 || self->count() % rest != 0)
      return invalid_argument("a view of ", self->sizes, " as rows of ", rest, " elements");
    wanted[open] = self->count() / rest;
    rest *= wanted[open];
  }
  if (rest != self->count() || out->dtype != self->dtype)
    return invalid_argument("a view of ", self->dtype, self->sizes, " as ", rest, " elements of ",
                            out->dtype);
  out->most = self->most;  // what its memory holds from now on
  SF_TRY(resize(*out, std::span(wanted, sizes->items.size())));
  out->data = self->data;
  out->constant = self->constant;
  return {};
}

// to[index] = from; a tensor that grows has index + 1 rows afterwards.
Status copy_index(std::span<const pte::Index> args, Values& values) {
  SF_ASSIGN(TensorState * to, tensor_of(values, args[0]));
  SF_ASSIGN(const TensorState* from, tensor_of(values, args[1]));
  SF_ASSIGN(const int64_t index, values.integer(args[2]));
  if (to->sizes.size() != from->sizes.size() + 1 || to->dtype != from->dtype || index < 0)
    return invalid_argument("row ", index, " of ", to->dtype, to->sizes, " set to ", from->dtype,
                            from->sizes);
  if (to->constant || !to->data || !from->data) return invalid_model("et_copy_index without memory");
  if (to->resizable) {
    constexpr size_t kMaxRank = 16;
    int64_t sizes[kMaxRank];
    if (to->sizes.size() > kMaxRank || index == INT64_MAX) return invalid_argument("row ", index);
    sizes[0] = index + 1;
    std::copy(from->sizes.begin(), from->sizes.end(), sizes + 1);
    SF_TRY(resize(*to, std::span(sizes, to->sizes.size())));
  }
  if (index >= to->sizes[0] || !std::equal(from->sizes.begin(), from->sizes.end(), to->sizes.begin() + 1))
    return invalid_argument("row ", index, " of ", to->sizes, " set to ", from->sizes);
  std::memmove(to->data + static_cast<size_t>(index) * from->size_bytes(), from->data, from->size_bytes());
  return {};
}

}  // namespace

// Those that a selective build does not keep have been refused when the method was loaded.
Status run_prim(Prim prim, std::span<const pte::Index> args, Values& values) {
  if constexpr (!keeps_any_prim()) return Error(Code::Internal, "this build has no prims");
  switch (prim) {
    case Prim::sym_size:
      if constexpr (keeps(Prim::sym_size)) return size_of_axis(args, values);
      break;
    case Prim::sym_numel: {
      SF_ASSIGN(const TensorState* t, tensor_of(values, args[0]));
      return set(values, args[1], t->count());
    }
    case Prim::item:
      if constexpr (keeps(Prim::item)) return item(args, values);
      break;
    case Prim::view:
      if constexpr (keeps(Prim::view)) return view(args, values);
      break;
    case Prim::copy_index:
      if constexpr (keeps(Prim::copy_index)) return copy_index(args, values);
      break;
    case Prim::sym_ite: {
      SF_ASSIGN(const int64_t condition, values.integer(args[0]));
      return set(values, args[3], values[condition != 0 ? args[1] : args[2]]);
    }
    case Prim::neg:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
    case Prim::sym_float:
    case Prim::sym_int:
    case Prim::sym_not: {
      SF_ASSIGN(const MethodValue v, function_of(prim, args[0], values));
      return set(values, args[1], v);
    }
    default:
      break;
  }
  if (values.is_real(args[0]) || values.is_real(args[1])) {
    SF_ASSIGN(const double a, values.real(args[0]));
    SF_ASSIGN(const double b, values.real(args[1]));
    SF_ASSIGN(const MethodValue v, arithmetic(prim, a, b));
    return set(values, args[2], v);
  }
  SF_ASSIGN(const int64_t a, values.integer(args[0]));
  SF_ASSIGN(const int64_t b, values.integer(args[1]));
  SF_ASSIGN(const MethodValue v, arithmetic(prim, a, b));
  return set(values, args[2], v);
}

}  // namespace sixfold
