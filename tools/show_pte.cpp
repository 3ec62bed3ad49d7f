// sixfold show, of .pte, .ptd and .bpte files: what they are made of, for a person.
#include "tools/show_pte.h"

#include <algorithm>
#include <map>

#include "sixfold/base/mapped_file.h"
#include "sixfold/pte/lifetimes.h"
#include "sixfold/pte/open.h"

namespace sixfold::tools {
namespace {

constexpr size_t kMapColumns = 72, kMapRows = 20, kMostRows = 48, kMostItems = 64;

std::string_view identifier(std::span<const std::byte> file) {
  return file.size() < 8 ? std::string_view()
                         : std::string_view(reinterpret_cast<const char*>(file.data()) + 4, 4);
}

std::string list_text(const std::vector<int32_t>& items) { return cat(items); }

// -- memory

// Which share of a cell, a range of offsets during a range of instructions, is in use.
class MemoryMap {
 public:
  MemoryMap(uint64_t bytes, size_t instructions)
      : bytes_(std::max<uint64_t>(bytes, 1)),
        instructions_(std::max<size_t>(instructions, 1)),
        columns_(std::min(kMapColumns, instructions_)),
        rows_(static_cast<size_t>(std::min<uint64_t>(kMapRows, bytes_))),
        used_(rows_ * columns_) {}

  void add(const pte::Lifetime& life) {
    const size_t first = life.first * columns_ / instructions_, last = life.last * columns_ / instructions_;
    const double height = static_cast<double>(bytes_) / static_cast<double>(rows_);
    const auto begin = static_cast<double>(life.offset), end = static_cast<double>(life.offset + life.bytes);
    for (size_t row = static_cast<size_t>(begin / height); row < rows_; ++row) {
      const double top = static_cast<double>(row) * height;
      if (top >= end) break;
      const double share = (std::min(end, top + height) - std::max(begin, top)) / height;
      for (size_t column = first; column <= last; ++column) used_[row * columns_ + column] += share;
    }
  }

  void print() const {
    for (size_t row = 0; row < rows_; ++row) {
      std::string line;
      for (size_t column = 0; column < columns_; ++column) {
        const double share = used_[row * columns_ + column];
        line += share <= 0 ? ' ' : share < 0.34 ? '.' : share < 0.67 ? ':' : '#';
      }
      std::printf("    %12llu |%s|\n", static_cast<unsigned long long>(bytes_ * row / rows_), line.c_str());
    }
    std::printf("    %12s  0%*zu\n", "instruction", static_cast<int>(columns_ - 1), instructions_ - 1);
  }

 private:
  uint64_t bytes_;
  size_t instructions_, columns_, rows_;
  std::vector<double> used_;  // a view counts once more than its tensor
};

std::string bar(const pte::Lifetime& life, size_t instructions) {
  constexpr size_t kColumns = 32;
  const size_t columns = std::min(kColumns, std::max<size_t>(instructions, 1));
  std::string out(columns, '.');
  const size_t n = std::max<size_t>(instructions, 1);
  for (size_t i = life.first * columns / n; i <= life.last * columns / n; ++i) out[i] = '#';
  return out;
}

void print_memory(const pte::Method& method) {
  const std::vector<pte::Lifetime> all = pte::lifetimes(method);
  size_t instructions = 0;
  for (const auto& chain : method.chains) instructions += chain.size();
  for (size_t id = 1; id < method.buffer_sizes.size(); ++id) {
    std::vector<pte::Lifetime> here;
    std::copy_if(all.begin(), all.end(), std::back_inserter(here),
                 [&](const pte::Lifetime& life) { return life.memory_id == id; });
    const auto bytes = static_cast<uint64_t>(method.buffer_sizes[id]);
    const auto peak = pte::peak_bytes(all, static_cast<uint32_t>(id));
    std::printf("\n  memory: buffer %zu, %llu bytes, %zu tensors%s\n", id,
                static_cast<unsigned long long>(bytes), here.size(),
                peak ? cat(", at most ", *peak, " bytes in use at once").c_str() : "");
    if (here.empty()) continue;
    MemoryMap map(bytes, instructions);
    for (const pte::Lifetime& life : here) map.add(life);
    map.print();
    // The largest say most; --json has all.
    std::vector<pte::Lifetime> rows = here;
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
    if (rows.size() > kMostRows) rows.resize(kMostRows);
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.offset < b.offset; });
    std::printf("    %12s %12s  %-9s %s\n", "offset", "bytes", "uses", "value");
    for (const pte::Lifetime& life : rows)
      std::printf("    %12llu %12llu  %4zu-%-4zu %s  %%%d %s\n", static_cast<unsigned long long>(life.offset),
                  static_cast<unsigned long long>(life.bytes), life.first, life.last,
                  bar(life, instructions).c_str(), life.value,
                  type_text(std::get<pte::Tensor>(method.values[static_cast<size_t>(life.value)])).c_str());
    if (here.size() > rows.size()) std::printf("    and %zu smaller ones\n", here.size() - rows.size());
  }
}

// -- the rest of a method

std::string place_text(const pte::Tensor& tensor) {
  if (tensor.location == pte::Location::external) return "in a .ptd";
  if (tensor.allocation)
    return cat("buffer ", tensor.allocation->memory_id, " at ", tensor.allocation->offset);
  if (tensor.data_index != 0) return cat("constant ", tensor.data_index);
  return "given by the caller";
}

void print_interface(const char* title, const pte::Method& method, const std::vector<pte::Index>& values) {
  std::printf("  %s\n", title);
  for (const pte::Index index : values) {
    const auto* tensor = std::get_if<pte::Tensor>(&method.values[static_cast<size_t>(index)]);
    if (tensor)
      std::printf("    %%%-6d %-28s %s\n", index, type_text(*tensor).c_str(), place_text(*tensor).c_str());
    else
      std::printf("    %%%-6d %s\n", index, argument_text(method, index).c_str());
  }
}

void print_method(const pte::Method& method, bool summary) {
  size_t instructions = 0;
  std::map<std::string, size_t> calls;
  for (const auto& chain : method.chains) {
    instructions += chain.size();
    for (const pte::Instruction& instruction : chain)
      if (const auto* call = std::get_if<pte::KernelCall>(&instruction))
        ++calls[printable(pte::kernel_name(method.operators[call->operator_index]))];
  }
  std::printf("\nmethod %s: %zu values, %zu instructions, %zu kernels, %zu delegates\n",
              printable(method.name).c_str(), method.values.size(), instructions, calls.size(),
              method.delegates.size());
  print_interface("inputs", method, method.inputs);
  print_interface("outputs", method, method.outputs);
  if (!calls.empty()) std::printf("  kernels\n");
  for (const auto& [name, count] : calls) std::printf("    %-48s %6zu\n", name.c_str(), count);
  for (size_t i = 0; i < method.delegates.size(); ++i) {
    const pte::Delegate& delegate = method.delegates[i];
    std::printf("  delegate %zu: %s, %zu bytes%s\n", i, printable(delegate.id).c_str(), delegate.blob.size(),
                delegate.inlined ? " inside the program" : "");
    for (const pte::CompileSpec& spec : delegate.specs)
      std::printf("    %s: %zu bytes\n", printable(spec.key).c_str(), spec.value.size());
  }
  if (!summary) {
    for (size_t c = 0; c < method.chains.size(); ++c) {
      std::printf("  %s\n",
                  method.chains.size() > 1 ? cat("instructions of chain ", c).c_str() : "instructions");
      for (size_t i = 0; i < method.chains[c].size(); ++i)
        std::printf("    %5zu  %s\n", i, instruction_text(method, method.chains[c][i]).c_str());
    }
  }
  print_memory(method);
}

void print_manifest(const pte::Manifest& manifest) {
  std::printf("\nmanifest\n  tool       %s\n  precision  %s\n  target     %s\n",
              printable(manifest.tool).c_str(), printable(manifest.precision).c_str(),
              printable(manifest.target).c_str());
  for (const std::string& source : manifest.sources)
    std::printf("  source     %s\n", printable(source).c_str());
  for (const auto& [name, version] : manifest.libraries)
    std::printf("  needs      %s %s\n", printable(name).c_str(), printable(version).c_str());
}

void print_data(const pte::DataFile& data) {
  for (const pte::DataEntry& entry : data.entries) {
    const std::string type = entry.layout ? cat(to_text(entry.layout->dtype), list_text(entry.layout->sizes))
                                          : std::string("bytes of a delegate");
    std::printf("  %-48s %12zu  %s\n", printable(entry.key).c_str(), entry.data.size(), type.c_str());
  }
}

Result<ShownProgram> open_program(std::span<const std::byte> file) {
  ShownProgram shown;
  // Every hash: a look at a file may take as long as reading it once.
  SF_ASSIGN(shown.program, pte::open(file, {.check_data = pte::CheckData::all}, &shown.layout));
  SF_ASSIGN(shown.manifest, pte::check_manifest(file, shown.layout, pte::CheckData::small));
  return shown;
}

Status show_program(const ShowOptions& options, std::span<const std::byte> file) {
  SF_ASSIGN(const ShownProgram shown, open_program(file));
  if (options.json) {
    auto json = program_json(shown);
    json["model"] = options.model;
    print_line(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return ok_status();
  }
  std::printf("%s: .pte, %zu bytes\n", options.model.c_str(), file.size());
  print_program(shown, options.summary);
  return ok_status();
}

Status show_bundle(const ShowOptions& options, std::span<const std::byte> file) {
  SF_ASSIGN(const pte::Bundle bundle, pte::read_bpte(file));
  SF_ASSIGN(const ShownProgram shown, open_program(bundle.program));
  if (options.json) {
    nlohmann::ordered_json json{{"model", options.model}, {"format", "bpte"}, {"bytes", file.size()}};
    json["suites"] = suites_json(bundle);
    json["program"] = program_json(shown);
    print_line(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return ok_status();
  }
  std::printf("%s: .bpte, %zu bytes, a program of %zu bytes\n", options.model.c_str(), file.size(),
              bundle.program.size());
  for (const pte::BundledSuite& suite : bundle.suites)
    std::printf("  %zu cases for method %s\n", suite.cases.size(), printable(suite.method).c_str());
  print_program(shown, options.summary);
  return ok_status();
}

Status show_data(const ShowOptions& options, std::span<const std::byte> file) {
  SF_ASSIGN(const pte::DataFile data, pte::read_ptd(file));
  if (options.json) {
    nlohmann::ordered_json json{{"model", options.model}, {"format", "ptd"}, {"bytes", file.size()}};
    json["entries"] = data_json(data);
    print_line(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return ok_status();
  }
  std::printf("%s: .ptd, %zu bytes, %zu entries\n", options.model.c_str(), file.size(), data.entries.size());
  print_data(data);
  return ok_status();
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte != 127)
      out += c;
    else
      out += cat("\\x", "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]);
  }
  return out;
}

std::string type_text(const pte::Tensor& tensor) {
  const bool bounded = tensor.dynamism == pte::Dynamism::bounded;
  std::string out = cat(to_text(tensor.dtype), bounded ? " <= " : "", list_text(tensor.sizes));
  bool in_order = true;
  for (size_t i = 0; i < tensor.dim_order.size(); ++i) in_order &= tensor.dim_order[i] == i;
  if (!in_order) out += cat(" in order ", std::vector<int>(tensor.dim_order.begin(), tensor.dim_order.end()));
  return out;
}

std::string argument_text(const pte::Method& method, pte::Index index) {
  if (index < 0) return "none";
  const pte::Value& value = method.values[static_cast<size_t>(index)];
  if (std::holds_alternative<pte::Tensor>(value)) return cat("%", index);
  if (std::holds_alternative<pte::None>(value)) return "none";
  if (const auto* n = std::get_if<int64_t>(&value)) return cat(*n);
  if (const auto* b = std::get_if<bool>(&value)) return cat(*b);
  if (const auto* d = std::get_if<double>(&value)) return cat(*d);
  if (const auto* text = std::get_if<std::string>(&value)) return cat("\"", printable(*text), "\"");
  std::string out;
  size_t shown = 0;
  const auto add = [&](const std::string& item) {
    if (++shown <= kMostItems) out += cat(out.empty() ? "" : ", ", item);
  };
  if (const auto* list = std::get_if<pte::IntList>(&value))
    for (const int64_t item : list->items) add(argument_text(method, static_cast<pte::Index>(item)));
  if (const auto* list = std::get_if<pte::TensorList>(&value))
    for (const pte::Index item : list->items) add(argument_text(method, item));
  if (const auto* list = std::get_if<std::vector<double>>(&value))
    for (const double item : *list) add(cat(item));
  if (const auto* list = std::get_if<std::vector<bool>>(&value))
    for (const bool item : *list) add(cat(item));
  return cat("[", out, shown > kMostItems ? cat(", and ", shown - kMostItems, " more") : "", "]");
}

std::string instruction_text(const pte::Method& method, const pte::Instruction& instruction) {
  const auto arguments = [&](const std::vector<pte::Index>& args) {
    std::string out;
    for (const pte::Index arg : args) out += cat(out.empty() ? "" : ", ", argument_text(method, arg));
    return out;
  };
  if (const auto* call = std::get_if<pte::KernelCall>(&instruction)) {
    // The last argument is what the kernel returns; it is among the others as well.
    const std::vector<pte::Index> args(call->args.begin(), call->args.end() - 1);
    const auto* result = std::get_if<pte::Tensor>(&method.values[static_cast<size_t>(call->args.back())]);
    return cat(printable(pte::kernel_name(method.operators[call->operator_index])), "(", arguments(args),
               ") -> ",
               result ? cat("%", call->args.back(), " ", type_text(*result))
                      : argument_text(method, call->args.back()));
  }
  if (const auto* call = std::get_if<pte::DelegateCall>(&instruction))
    return cat("delegate ", call->delegate_index, " ", printable(method.delegates[call->delegate_index].id),
               "(", arguments(call->args), ")");
  if (const auto* move = std::get_if<pte::Move>(&instruction))
    return cat("move %", move->from, " to %", move->to);
  if (const auto* jump = std::get_if<pte::JumpFalse>(&instruction))
    return cat("if not ", argument_text(method, jump->condition), " go to ", jump->destination);
  return cat("free %", std::get<pte::Free>(instruction).value);
}

void print_program(const ShownProgram& shown, bool summary) {
  if (shown.layout.manifest) print_manifest(shown.manifest);
  for (const pte::Method& method : shown.program.methods) print_method(method, summary);
  std::printf("\nsegments\n  %12s %12s  content\n  %12d %12llu  program\n", "offset", "bytes", 0,
              static_cast<unsigned long long>(shown.layout.program_size));
  for (size_t i = 0; i < shown.layout.segments.size(); ++i) {
    const pte::Layout::Segment& segment = shown.layout.segments[i];
    std::string_view content = segment.content.empty() ? std::string_view("not used") : segment.content;
    if (shown.layout.manifest == i) content = pte::kManifestKey;
    std::printf("  %12llu %12llu  %s\n", static_cast<unsigned long long>(segment.offset),
                static_cast<unsigned long long>(segment.size), std::string(content).c_str());
  }
  if (!shown.program.named_data.empty()) std::printf("\nnamed data\n");
  for (const pte::NamedData& item : shown.program.named_data)
    std::printf("  %-48s %12zu\n", printable(item.key).c_str(), item.data.size());
}

bool is_pte_family(std::span<const std::byte> file) {
  const std::string_view id = identifier(file);
  return id.starts_with("ET") || id == "FT01" || id == "BP08";
}

Status show_pte_command(const ShowOptions& options, std::span<const std::byte> file) {
  if (options.text) return invalid_argument("--text is for .pt2 files; ", options.model, " is not one");
  if (identifier(file) == "FT01") return show_data(options, file);
  if (identifier(file) == "BP08") return show_bundle(options, file);
  return show_program(options, file);
}

}  // namespace sixfold::tools
