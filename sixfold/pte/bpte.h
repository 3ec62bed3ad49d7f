// .bpte: a program bundled with inputs for its methods and the outputs that they must give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sixfold/base/result.h"
#include "sixfold/pte/limits.h"
#include "sixfold/pte/program.h"

namespace sixfold::pte {

struct BundledTensor {
  DType dtype = DType::none;
  std::vector<int32_t> sizes;
  std::vector<uint8_t> dim_order;
  std::span<const std::byte> data;  // a view of the file, aligned to the element
};
using BundledValue = std::variant<BundledTensor, int64_t, bool, double>;

struct BundledCase {
  std::vector<BundledValue> inputs, expected;  // expected may be empty: nothing to compare with
};
struct BundledSuite {
  std::string method;
  std::vector<BundledCase> cases;
};
struct Bundle {
  std::span<const std::byte> program;  // a whole .pte, aligned to 16; not read yet
  std::vector<BundledSuite> suites;
};

// Structure and meaning, both checked: sizes times dtype equal to the bytes. The file must be aligned to 16
// bytes, and outlive what is returned.
Result<Bundle> read_bpte(std::span<const std::byte> file, const Limits& limits = {});

}  // namespace sixfold::pte
