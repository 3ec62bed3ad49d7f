#include "sixfold/pte/bpte.h"

#include <cstring>

#include "sixfold/base/tensor.h"
#include "sixfold/pte/bpte_generated.h"
#include "sixfold/pte/check.h"
#include "sixfold/pte/scalar_type.h"
#include "sixfold/pte/text.h"
#include "sixfold/pte/wire.h"

namespace sixfold::pte {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;

constexpr uint32_t kVersion = 2;

Status read_tensor(const bpte_wire::Tensor& from, Budget& budget, BundledTensor& to) {
  SF_ASSIGN(to.dtype, dtype_of(from.scalar_type()));
  SF_TRY(budget.copy(from.sizes(), to.sizes));
  SF_TRY(budget.copy(from.dim_order(), to.dim_order));
  to.data = bytes_of(from.data());
  SF_ASSIGN(const uint64_t bytes, checked_bytes(to.dtype, to.sizes, to.dim_order));
  if (bytes != to.data.size())
    return invalid_model("it has ", to.data.size(), " bytes, sizes ", to.sizes, " of ", to_text(to.dtype),
                         " need ", bytes);
  if (to.dtype == DType::boolean) SF_TRY(check_bools(to.data));
  return check_aligned(to.data, to.dtype);
}

Status read_value(const bpte_wire::Value& from, Budget& budget, BundledValue& to) {
  if (from.any_type() != bpte_wire::AnyValue::NONE && !from.any()) return invalid_model("it has no content");
  switch (from.any_type()) {
    case bpte_wire::AnyValue::Tensor:
      return read_tensor(*from.any_as_Tensor(), budget, to.emplace<BundledTensor>());
    case bpte_wire::AnyValue::Int:
      to = from.any_as_Int()->value();
      return ok_status();
    case bpte_wire::AnyValue::Bool:
      to = from.any_as_Bool()->value();
      return ok_status();
    case bpte_wire::AnyValue::Double:
      to = from.any_as_Double()->value();
      return ok_status();
    case bpte_wire::AnyValue::NONE:
      break;
  }
  return invalid_model("its kind ", static_cast<int>(from.any_type()), " is unknown, expected 1 to 4");
}

Status read_values(const Vector<Offset<bpte_wire::Value>>* from, std::string_view what, Budget& budget,
                   std::vector<BundledValue>& to) {
  for (size_t i = 0; i < count(from); ++i) {
    SF_TRY(budget.take(sizeof(BundledValue)));
    Status status = read_value(*from->Get(static_cast<uint32_t>(i)), budget, to.emplace_back());
    if (!status.ok()) return status.take_error().during(cat("reading ", what, " ", i));
  }
  return ok_status();
}

Status read_suite(const bpte_wire::Suite& from, Budget& budget, BundledSuite& to) {
  SF_TRY(budget.copy(from.method(), to.method));
  for (size_t i = 0; i < count(from.cases()); ++i) {
    SF_TRY(budget.take(sizeof(BundledCase)));
    const bpte_wire::Case* item = from.cases()->Get(static_cast<uint32_t>(i));
    BundledCase& out = to.cases.emplace_back();
    Status status = read_values(item->inputs(), "input", budget, out.inputs);
    if (status.ok()) status = read_values(item->expected(), "expected output", budget, out.expected);
    if (!status.ok())
      return status.take_error().during(cat("reading case ", i, " of method ", quoted(to.method)));
  }
  return ok_status();
}

}  // namespace

Result<Bundle> read_bpte(std::span<const std::byte> file, const Limits& limits) {
  SF_TRY(check_start(file, ".bpte"));
  if (file.size() < 8 || std::memcmp(file.data() + 4, "BP08", 4) != 0)
    return invalid_model("the file is not a .bpte: it has no \"BP08\" at byte 4");
  SF_ASSIGN(const auto* root, verified_root<bpte_wire::Bundle>(file, limits, bpte_wire::VerifyBundleBuffer));
  if (root->version() != kVersion)
    return unsupported("the bundle has version ", root->version(), ", expected ", kVersion);
  Bundle out{.program = bytes_of(root->program())};
  if (out.program.empty()) return invalid_model("the bundle has no program");
  if (reinterpret_cast<uintptr_t>(out.program.data()) % 16 != 0)
    return invalid_model("the bundle's program begins at byte ", out.program.data() - file.data(),
                         ", which is not a multiple of 16");
  Budget budget(file.size() - out.program.size());
  for (size_t i = 0; i < count(root->suites()); ++i) {
    SF_TRY(budget.take(sizeof(BundledSuite)));
    SF_TRY(read_suite(*root->suites()->Get(static_cast<uint32_t>(i)), budget, out.suites.emplace_back()));
  }
  return out;
}

}  // namespace sixfold::pte
