// Snapdragon chips as the QNN API numbers them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sixfold/base/result.h"

namespace sixfold::qnn {

struct Soc {
  std::string name;       // "SM8650"
  uint32_t id = 0;        // the API's number
  uint32_t htp_arch = 0;  // 75
  uint32_t vtcm_mb = 0;   // 0: not known
  uint32_t lpai = 0;      // version of the low-power AI block; 0: none known
  std::string marketing;  // "8 Gen 3"
};
const std::vector<Soc>& socs();  // by id

// By name, whatever its case, or by its marketing name ("8 Gen 3"). Not there: InvalidArgument with the
// nearest names.
Result<Soc> find_soc(std::string_view name);
const Soc* find_soc(uint32_t id);
std::string describe_soc(uint32_t id);  // "SM8650 (57, HTP v75)"; "SoC 999" when unknown

// What to give GraphOptions::vtcm_mb: the SoC's, or 0 where it is not known, which the library takes as all
// that there is.
inline uint32_t default_vtcm_mb(const Soc& soc) { return soc.vtcm_mb; }

}  // namespace sixfold::qnn
