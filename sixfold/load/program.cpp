#include "sixfold/load/program.h"

#include "sixfold/load/kernel_table.h"
#include "sixfold/pte/open.h"

namespace sixfold {
namespace {

// A selective build reads data files if one of its programs needs one, which `sixfold kernels` lists.
constexpr bool kReadsDataFiles = keeps(Part::kernel, "external data");

}  // namespace

Result<std::shared_ptr<Program::State>> Program::load(std::span<const std::byte> bytes,
                                                      const LoadOptions& options) {
  auto state = std::make_shared<State>();
  pte::OpenOptions open{.check_data = options.check_data};
  open.verify = {.limits = options.limits, .arity = kernel_arity};
  pte::Sealed sealed;
  SF_ASSIGN(state->program, pte::open(bytes, open, &state->layout, &sealed));
  state->file = bytes;
  if (state->layout.manifest) state->sealed = std::move(sealed);
  if (!kReadsDataFiles && !options.data_files.empty())
    return unsupported("this build reads no data files: the programs that it is for have none");
  for (const std::string& path : options.data_files) {
    if constexpr (!kReadsDataFiles) break;
    SF_ASSIGN(const auto file, MappedFile::open(path));
    if (options.prefetch) file->prefetch();
    auto data = pte::read_ptd(file->bytes(), options.limits);
    if (!data.ok()) return data.take_error().during(cat("reading ", path));
    state->data.push_back(std::move(data).value());
    state->files.push_back(file);
  }
  return state;
}

Result<Program> Program::from_memory(std::span<const std::byte> bytes, const LoadOptions& options,
                                     std::shared_ptr<const void> owner) {
  SF_ASSIGN(auto state, load(bytes, options));
  state->owner = std::move(owner);
  return Program(std::move(state));
}

Result<Program> Program::map(const std::shared_ptr<const MappedFile>& file, const LoadOptions& options) {
  if (options.prefetch) file->prefetch();
  SF_ASSIGN(auto state, load(file->bytes(), options));
  state->files.push_back(file);
  return Program(std::move(state));
}

Result<Program> Program::open(const std::string& path, const LoadOptions& options) {
  SF_ASSIGN(const auto file, MappedFile::open(path));
  auto out = map(file, options);
  if (!out.ok()) return out.take_error().during(cat("loading ", path));
  return out;
}

Result<Program> Program::open_descriptor(int fd, const LoadOptions& options) {
  SF_ASSIGN(const auto file, MappedFile::open_descriptor(fd));
  return map(file, options);
}

const pte::Method* Program::find_method(std::string_view name) const {
  for (const pte::Method& m : methods())
    if (m.name == name) return &m;
  return nullptr;
}

Result<std::span<const std::byte>> Program::data_of(const pte::Tensor& tensor) const {
  if (tensor.location == pte::Location::segment) {
    if (tensor.data_index == 0) return std::span<const std::byte>();
    const auto& all = tensor.allocation ? state_->program.mutable_data : state_->program.constants;
    return all[tensor.data_index];
  }
  if constexpr (kReadsDataFiles)
    for (const pte::DataFile& file : state_->data)
      if (file.find(tensor.name)) return pte::external_data(file, tensor);
  return fail(Code::NotFound, "the tensor ", tensor.name, " is in an external data file, and ",
              state_->data.empty() ? "none was given"
                                   : cat("none of the ", state_->data.size(), " that were given has it"));
}

void Program::forget(std::span<const std::byte> data) const {
  for (const auto& file : state_->files) file->forget(data);
}

Result<bool> Program::vouches(std::span<const std::byte> part) const {
  if (!state_->sealed) return false;
  const auto same = [&](std::span<const std::byte> of_file) {
    return of_file.data() == part.data() && of_file.size() == part.size();
  };
  const auto& segments = state_->layout.segments;
  for (size_t i = 0; i < segments.size(); ++i)
    if (same(state_->file.subspan(segments[i].offset, segments[i].size))) {
      SF_TRY(pte::check_hash(part, state_->sealed->segments[i], cat("segment ", i)));
      return true;
    }
  return false;
}

const std::span<const std::byte>* Program::find_named_data(std::string_view key) const {
  for (const pte::NamedData& d : state_->program.named_data)
    if (d.key == key) return &d.data;
  for (const pte::DataFile& file : state_->data)
    if (const pte::DataEntry* e = file.find(key)) return &e->data;
  return nullptr;
}

}  // namespace sixfold
