// sixfold show, of .pte, .ptd and .bpte files.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "sixfold/base/result.h"
#include "sixfold/pte/bpte.h"
#include "sixfold/pte/manifest.h"
#include "sixfold/pte/ptd.h"
#include "sixfold/pte/read.h"
#include "tools/command.h"

namespace sixfold::tools {

// By the file's first bytes.
bool is_pte_family(std::span<const std::byte> file);
Status show_pte_command(const ShowOptions& options, std::span<const std::byte> file);

// A verified .pte with all that is known of it.
struct ShownProgram {
  pte::Program program;
  pte::Layout layout;
  pte::Manifest manifest;
};
nlohmann::ordered_json program_json(const ShownProgram& shown);
nlohmann::ordered_json data_json(const pte::DataFile& data);
nlohmann::ordered_json suites_json(const pte::Bundle& bundle);
void print_program(const ShownProgram& shown, bool summary);

// Text of a file, with control characters made visible.
std::string printable(std::string_view text);
// "f32[2, 3]", "<= " before the sizes when they are bounds.
std::string type_text(const pte::Tensor& tensor);
// "%3", or a number, string or list as it is.
std::string argument_text(const pte::Method& method, pte::Index index);
std::string instruction_text(const pte::Method& method, const pte::Instruction& instruction);

}  // namespace sixfold::tools
