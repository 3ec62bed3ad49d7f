#include "sixfold/cpu/convert.h"
#include "sixfold/ops/binary/binary.h"

namespace sixfold::cpu {
namespace {

// Each type compares as itself: int64 through float would make neighbours equal.
template <typename T>
KernelResult compare_typed(const KernelCall& call, const BinaryLoop& loop) {
  using C = std::conditional_t<kIsHalf<T>, float, T>;
  switch (call.op) {
    case Op::eq:
      return zip_kernel<T, bool>(call, loop, [](C a, C b) { return a == b; });
    case Op::ne:
      return zip_kernel<T, bool>(call, loop, [](C a, C b) { return a != b; });
    case Op::lt:
      return zip_kernel<T, bool>(call, loop, [](C a, C b) { return a < b; });
    case Op::le:
      return zip_kernel<T, bool>(call, loop, [](C a, C b) { return a <= b; });
    case Op::gt:
      return zip_kernel<T, bool>(call, loop, [](C a, C b) { return a > b; });
    case Op::ge:
      return zip_kernel<T, bool>(call, loop, [](C a, C b) { return a >= b; });
    case Op::logical_and:
      return zip_kernel<T, bool>(call, loop, [](C a, C b) { return (a != C(0)) & (b != C(0)); });
    case Op::logical_or:
      return zip_kernel<T, bool>(call, loop, [](C a, C b) { return (a != C(0)) | (b != C(0)); });
    case Op::logical_xor:
      return zip_kernel<T, bool>(call, loop, [](C a, C b) { return (a != C(0)) != (b != C(0)); });
    default:
      return fail(Code::Internal, call.op, " is not a comparison");
  }
}

}  // namespace

KernelResult compare_kernel(const KernelCall& call, const BinaryLoop& loop) {
  return with_type(call.in[0].dtype, [&](auto tag) { return compare_typed<decltype(tag)>(call, loop); });
}

}  // namespace sixfold::cpu
