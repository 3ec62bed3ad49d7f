#include "sixfold/import/import.h"

#include <algorithm>

#include "sixfold/base/mapped_file.h"
#include "sixfold/import/archive.h"
#include "sixfold/import/program.h"

namespace sixfold {
namespace {

// Names in a file may hold anything; a message stays one line.
Error one_line(Error error) {
  std::string text = error.message();
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      ' ');
  return Error(error.code(), std::move(text));
}

Result<Graph> import_archive(OwnedBytes file, const ImportOptions& options, ImportInfo* info) {
  const uint64_t file_bytes = file.bytes.size();
  SF_ASSIGN(const Pt2Archive archive, Pt2Archive::open(std::move(file), options.model, options.check_crc));
  ImportInfo facts;
  facts.schema_major = archive.version().major;
  facts.schema_minor = archive.version().minor;
  facts.model = archive.model();
  facts.file_bytes = file_bytes;
  facts.program_bytes = archive.program_bytes();
  SF_ASSIGN(Graph graph, import_program(archive, facts, options.keep_unknown));
  if (info) *info = std::move(facts);
  return graph;
}

}  // namespace

Result<Graph> import_pt2(OwnedBytes file, const ImportOptions& options, ImportInfo* info) {
  auto graph = import_archive(std::move(file), options, info);
  if (!graph.ok()) return one_line(graph.take_error());
  return graph;
}

Result<Graph> import_pt2(const std::string& path, const ImportOptions& options, ImportInfo* info) {
  SF_ASSIGN(auto file, MappedFile::open(path));
  auto graph = import_pt2(OwnedBytes{file->bytes(), file}, options, info);
  if (!graph.ok()) return graph.take_error().during(cat("importing ", path));
  return graph;
}

}  // namespace sixfold
