// --soc and --soc-file.
#pragma once

#include <string>

#include "sixfold/qnn/soc.h"

namespace sixfold::tools {

// A chip that the table does not have, from JSON:
//   {"name": "SM9999", "id": 130, "htp_arch": 85, "vtcm_mb": 8}
// vtcm_mb and lpai may be left out. Every other or wrong field is refused.
Result<qnn::Soc> read_soc_file(const std::string& path);

// The chip of the file when it has that name (or no name is given), else of the table.
Result<qnn::Soc> choose_soc(const std::string& name, const std::string& soc_file);

}  // namespace sixfold::tools
