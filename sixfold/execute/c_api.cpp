// include/sixfold.h over Program and Method.
#include <cstring>
#include <new>

#include "include/sixfold.h"
#include "sixfold/execute/method.h"
#include "sixfold/pte/scalar_type.h"

struct sixfold_program {
  sixfold::Program program;
};
struct sixfold_method {
  std::unique_ptr<sixfold::Method> method;
};

namespace sixfold {
namespace {

std::string& last_error() {
  thread_local std::string message;
  return message;
}

sixfold_status report(const Error& error) {
  last_error() = error.message();
  switch (error.code()) {
    case Code::InvalidArgument:
      return SIXFOLD_INVALID_ARGUMENT;
    case Code::InvalidModel:
      return SIXFOLD_INVALID_MODEL;
    case Code::Unsupported:
      return SIXFOLD_UNSUPPORTED;
    case Code::NotFound:
      return SIXFOLD_NOT_FOUND;
    case Code::OutOfMemory:
      return SIXFOLD_OUT_OF_MEMORY;
    case Code::Device:
      return SIXFOLD_DEVICE;
    case Code::Internal:
      break;
  }
  return SIXFOLD_INTERNAL;
}
sixfold_status report(const Status& status) { return status.ok() ? SIXFOLD_OK : report(status.error()); }
sixfold_status null_argument(const char* name) {
  return report(invalid_argument("the argument ", name, " is null"));
}

// A struct of a caller that was built with an older header is shorter: what it lacks is zero.
template <typename T>
Result<T> read_options(const T* given) {
  T out{};
  if (!given) return out;
  if (given->struct_size < sizeof(size_t))
    return invalid_argument("the options' struct_size is ", given->struct_size, ", expected ", sizeof(T));
  std::memcpy(&out, given, std::min(sizeof(T), given->struct_size));
  return out;
}

Result<LoadOptions> load_options(const sixfold_load_options* given) {
  SF_ASSIGN(const sixfold_load_options options, read_options(given));
  LoadOptions out;
  out.prefetch = options.prefetch != 0;
  for (size_t i = 0; i < options.data_file_count; ++i) {
    if (!options.data_files || !options.data_files[i]) return invalid_argument("data file ", i, " is null");
    out.data_files.emplace_back(options.data_files[i]);
  }
  return out;
}

template <typename Open>
sixfold_status open(const sixfold_load_options* given, sixfold_program** out, Open open_program) {
  if (!out) return null_argument("program");
  auto options = load_options(given);
  if (!options.ok()) return report(options.error());
  Result<Program> program = open_program(*options);
  if (!program.ok()) return report(program.error());
  *out = new sixfold_program{std::move(program).value()};
  return SIXFOLD_OK;
}

void read_value(const MethodValue& value, sixfold_value* out) {
  *out = {};
  if (const auto* t = std::get_if<TensorState>(&value)) {
    out->kind = SIXFOLD_KIND_TENSOR;
    out->as.tensor = {pte::scalar_type_of(t->dtype),
                      static_cast<uint32_t>(t->sizes.size()),
                      t->sizes.data(),
                      t->dim_order.data(),
                      t->data,
                      t->size_bytes()};
  } else if (const auto* n = std::get_if<int64_t>(&value)) {
    out->kind = SIXFOLD_KIND_INT;
    out->as.integer = *n;
  } else if (const auto* x = std::get_if<double>(&value)) {
    out->kind = SIXFOLD_KIND_REAL;
    out->as.real = *x;
  } else if (const auto* b = std::get_if<bool>(&value)) {
    out->kind = SIXFOLD_KIND_BOOL;
    out->as.boolean = *b;
  } else if (!std::holds_alternative<std::monostate>(value)) {
    out->kind = SIXFOLD_KIND_OTHER;
  }
}

Status set_tensor(Method& method, size_t index, const sixfold_tensor& given) {
  SF_ASSIGN(const DType dtype, pte::dtype_of(given.dtype));
  constexpr uint32_t kMaxRank = 16;
  if (given.rank > kMaxRank || (given.rank > 0 && !given.sizes))
    return invalid_argument("input ", index, " has rank ", given.rank, given.sizes ? "" : " and no sizes");
  TensorView view{dtype, {given.sizes, given.rank}, {}, static_cast<const std::byte*>(given.data)};
  if (given.dim_order) view.dim_order = {given.dim_order, given.rank};
  size_t needed = size_of(dtype);
  for (const int64_t s : view.sizes)
    if (s < 0 || __builtin_mul_overflow(needed, static_cast<size_t>(s), &needed))
      return invalid_argument("input ", index, " has a size of ", s);
  if (given.size_bytes < needed)
    return invalid_argument("input ", index, " needs ", needed, " bytes, and has ", given.size_bytes);
  return method.set_input(index, view);
}

}  // namespace
}  // namespace sixfold

using namespace sixfold;

const char* sixfold_last_error(void) { return last_error().c_str(); }
const char* sixfold_version(void) { return SIXFOLD_VERSION; }

sixfold_status sixfold_program_open(const char* path, const sixfold_load_options* options,
                                    sixfold_program** program) {
  if (!path) return null_argument("path");
  return open(options, program, [&](const LoadOptions& o) { return Program::open(path, o); });
}
sixfold_status sixfold_program_open_descriptor(int descriptor, const sixfold_load_options* options,
                                               sixfold_program** program) {
  return open(options, program,
              [&](const LoadOptions& o) { return Program::open_descriptor(descriptor, o); });
}
sixfold_status sixfold_program_from_memory(const void* data, size_t size, const sixfold_load_options* options,
                                           sixfold_program** program) {
  if (!data) return null_argument("data");
  const std::span bytes(static_cast<const std::byte*>(data), size);
  return open(options, program, [&](const LoadOptions& o) { return Program::from_memory(bytes, o); });
}
void sixfold_program_close(sixfold_program* program) { delete program; }

size_t sixfold_program_method_count(const sixfold_program* program) {
  return program ? program->program.methods().size() : 0;
}
const char* sixfold_program_method_name(const sixfold_program* program, size_t index) {
  return index < sixfold_program_method_count(program) ? program->program.methods()[index].name.c_str()
                                                       : nullptr;
}
size_t sixfold_program_arena_count(const sixfold_program* program, const char* method) {
  const pte::Method* m = program && method ? program->program.find_method(method) : nullptr;
  return m && !m->buffer_sizes.empty() ? m->buffer_sizes.size() - 1 : 0;
}
size_t sixfold_program_arena_bytes(const sixfold_program* program, const char* method, size_t index) {
  if (index >= sixfold_program_arena_count(program, method)) return 0;
  return static_cast<size_t>(program->program.find_method(method)->buffer_sizes[index + 1]);
}

sixfold_status sixfold_method_load(const sixfold_program* program, const char* name,
                                   const sixfold_method_options* given, sixfold_method** method) {
  if (!program || !name || !method) return null_argument(!program ? "program" : !name ? "name" : "method");
  auto options = read_options(given);
  if (!options.ok()) return report(options.error());
  std::vector<std::span<std::byte>> arenas;
  for (size_t i = 0; i < options->arena_count; ++i) {
    if (!options->arenas || !options->arena_sizes || !options->arenas[i])
      return report(invalid_argument("arena ", i, " is null"));
    arenas.emplace_back(static_cast<std::byte*>(options->arenas[i]), options->arena_sizes[i]);
  }
  MethodOptions method_options;
  method_options.arenas = arenas;
  if (given) method_options.threads = options->threads;
  auto loaded = Method::load(program->program, name, method_options);
  if (!loaded.ok()) return report(loaded.error());
  *method = new sixfold_method{std::move(loaded).value()};
  return SIXFOLD_OK;
}
void sixfold_method_close(sixfold_method* method) { delete method; }

size_t sixfold_method_input_count(const sixfold_method* method) {
  return method ? method->method->input_count() : 0;
}
size_t sixfold_method_output_count(const sixfold_method* method) {
  return method ? method->method->output_count() : 0;
}
sixfold_status sixfold_method_input(const sixfold_method* method, size_t index, sixfold_value* value) {
  if (!method || !value) return null_argument(!method ? "method" : "value");
  if (index >= method->method->input_count())
    return report(
        invalid_argument("input ", index, " was read, the method has ", method->method->input_count()));
  read_value(method->method->input(index), value);
  return SIXFOLD_OK;
}
sixfold_status sixfold_method_output(const sixfold_method* method, size_t index, sixfold_value* value) {
  if (!method || !value) return null_argument(!method ? "method" : "value");
  if (index >= method->method->output_count())
    return report(
        invalid_argument("output ", index, " was read, the method has ", method->method->output_count()));
  read_value(method->method->output(index), value);
  return SIXFOLD_OK;
}

sixfold_status sixfold_method_set_input(sixfold_method* method, size_t index, const sixfold_value* value) {
  if (!method || !value) return null_argument(!method ? "method" : "value");
  Method& m = *method->method;
  switch (value->kind) {
    case SIXFOLD_KIND_TENSOR:
      return report(set_tensor(m, index, value->as.tensor));
    case SIXFOLD_KIND_INT:
      return report(m.set_input(index, value->as.integer));
    case SIXFOLD_KIND_REAL:
      return report(m.set_input(index, value->as.real));
    case SIXFOLD_KIND_BOOL:
      return report(m.set_input(index, value->as.boolean != 0));
    default:
      return report(invalid_argument("a value of kind ", value->kind, " cannot be an input"));
  }
}
sixfold_status sixfold_method_set_output(sixfold_method* method, size_t index, void* data,
                                         size_t size_bytes) {
  if (!method || !data) return null_argument(!method ? "method" : "data");
  return report(method->method->set_output(index, {static_cast<std::byte*>(data), size_bytes}));
}
sixfold_status sixfold_method_execute(sixfold_method* method) {
  return method ? report(method->method->execute()) : null_argument("method");
}
sixfold_status sixfold_method_reset_state(sixfold_method* method) {
  return method ? report(method->method->reset_state()) : null_argument("method");
}
