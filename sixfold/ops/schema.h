#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sixfold {

// What an op's argument or result is. SymInt reads as integer, SymBool as boolean; what no graph op needs
// (nested lists, complex) is other.
enum class ArgType : uint8_t {
  tensor,
  integer,
  number,  // Scalar: an integer, a real or a boolean
  real,    // float
  boolean,
  string,
  dtype,
  layout,
  device,
  memory_format,
  generator,
  other,
};

struct SchemaArg {
  std::string name;
  ArgType type = ArgType::other;
  bool list = false;
  bool nullable = false;        // T? or T[]?
  bool nullable_items = false;  // T?[]
  int list_size = 0;  // int[2] -> 2: one number stands for the whole list; 0 where the schema names no size
  bool keyword_only = false;
  bool has_default = false;
  std::string default_text;  // as torch prints it: None, False, 1., [0, 0], "none" with its quotes; a dtype
                             // is its number
  bool mutates = false;      // (a!)
  std::string alias;  // "a" of (a), (a!) and (a -> *); empty where the argument shares memory with nothing
};

struct SchemaReturn {
  ArgType type = ArgType::other;
  bool list = false;
  std::string alias;
  bool mutates = false;
  std::string name;  // often empty
};

struct Schema {
  std::string target;
  std::vector<SchemaArg> args;
  std::vector<SchemaReturn> returns;
};

// The schema of "aten.add.Tensor", or null for an op that the table does not have. Thread-safe; parsed on the
// first call and kept: the pointer stays valid until the process ends.
const Schema* find_schema(std::string_view target);

// Reads "(Tensor self, *, Scalar alpha=1) -> Tensor", the text of the table. Nothing where the text is no
// schema.
std::optional<Schema> parse_schema(std::string_view target, std::string_view text);

// Every target of the table, sorted.
std::vector<std::string_view> schema_targets();

}  // namespace sixfold
