#include "sixfold/emulator/op_table.h"

#include <algorithm>

#include "sixfold/emulator/rules.h"

namespace sixfold::emulator {

// What rows name, from ops/<family>/emulate.cpp.
inline constexpr CheckFunction check_by_rules = nullptr;
#define QNN(type, check, prepare)                          \
  Status check_##check(const OpView&, const DeviceModel&); \
  Result<Step> prepare_##prepare(const OpView&, Prepare&);
#define QNN_BY_RULES(type, prepare) Result<Step> prepare_##prepare(const OpView&, Prepare&);
#define QNN_MISSING(type)
#include "sixfold/ops/qnn.def"
#undef QNN
#undef QNN_BY_RULES
#undef QNN_MISSING

namespace {

#define QNN(type, check, prepare) {#type, check_##check, prepare_##prepare},
#define QNN_BY_RULES(type, prepare) {#type, nullptr, prepare_##prepare},
#define QNN_MISSING(type) {#type, nullptr, nullptr},
constexpr OpEntry kRows[] = {
#include "sixfold/ops/qnn.def"
};
#undef QNN
#undef QNN_BY_RULES
#undef QNN_MISSING

}  // namespace

std::span<const OpEntry> op_table() {
  static const auto* sorted = [] {
    auto* rows = new std::vector<OpEntry>(std::begin(kRows), std::end(kRows));
    std::sort(rows->begin(), rows->end(),
              [](const OpEntry& a, const OpEntry& b) { return std::string_view(a.type) < b.type; });
    return rows;
  }();
  return *sorted;
}

const OpEntry* find_op(std::string_view type) {
  const std::span<const OpEntry> rows = op_table();
  const auto at = std::lower_bound(rows.begin(), rows.end(), type,
                                   [](const OpEntry& row, std::string_view t) { return row.type < t; });
  return at != rows.end() && at->type == type ? &*at : nullptr;
}

Status check_op(const OpView& op, const DeviceModel& device) {
  const OpEntry* row = find_op(op.type);
  if (!row) return unsupported("HTP has no op ", op.type);
  SF_TRY(check_rules(op, device));
  if (row->check) SF_TRY(row->check(op, device));
  if (!row->prepare) return unsupported("the emulator does not have ", op.type, " yet");
  return {};
}

Status validate_op(const OpView& op, const DeviceModel& device) {
  Status s = check_op(op, device);
  if (!s.ok() && s.error().code() == Code::InvalidArgument) return {};
  return s;
}

}  // namespace sixfold::emulator
