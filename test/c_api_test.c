/* The C API from C: argv[1] is test/pte/mlp.pte, which maps f32[2, 4] to f32[2, 3] and a number. Prints what
 * failed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/sixfold.h"

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s does not hold; last error: %s\n", __FILE__, __LINE__, #condition, \
              sixfold_last_error());                                                               \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static void* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  CHECK(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void* data = aligned_alloc(16, (*size + 15) / 16 * 16);
  CHECK(fread(data, 1, *size, file) == *size);
  fclose(file);
  return data;
}

static void run(const sixfold_program* program, const sixfold_method_options* options, float result[6]) {
  sixfold_method* method = NULL;
  CHECK(sixfold_method_load(program, "forward", options, &method) == SIXFOLD_OK);
  CHECK(sixfold_method_input_count(method) == 1 && sixfold_method_output_count(method) == 2);
  CHECK(sixfold_method_execute(method) == SIXFOLD_INVALID_ARGUMENT); /* no input yet */

  float x[8];
  for (int i = 0; i < 8; ++i) x[i] = (float)i / 4 - 1;
  const int64_t sizes[] = {2, 4}, wrong[] = {4, 2};
  sixfold_value value = {SIXFOLD_KIND_TENSOR, {.tensor = {SIXFOLD_FLOAT32, 2, sizes, NULL, x, sizeof x}}};
  CHECK(sixfold_method_set_input(method, 0, &value) == SIXFOLD_OK);
  CHECK(sixfold_method_execute(method) == SIXFOLD_OK);
  CHECK(sixfold_method_output(method, 0, &value) == SIXFOLD_OK);
  CHECK(value.kind == SIXFOLD_KIND_TENSOR && value.as.tensor.dtype == SIXFOLD_FLOAT32 &&
        value.as.tensor.rank == 2);
  CHECK(value.as.tensor.sizes[0] == 2 && value.as.tensor.sizes[1] == 3 && value.as.tensor.size_bytes == 24);
  memcpy(result, value.as.tensor.data, 24);
  for (int i = 0; i < 6; ++i) CHECK(isfinite(result[i]));
  CHECK(sixfold_method_output(method, 2, &value) == SIXFOLD_INVALID_ARGUMENT);

  value = (sixfold_value){SIXFOLD_KIND_TENSOR, {.tensor = {SIXFOLD_FLOAT32, 2, wrong, NULL, x, sizeof x}}};
  CHECK(sixfold_method_set_input(method, 0, &value) == SIXFOLD_INVALID_ARGUMENT);
  CHECK(strstr(sixfold_last_error(), "f32[4, 2] was given"));
  value =
      (sixfold_value){SIXFOLD_KIND_TENSOR, {.tensor = {SIXFOLD_FLOAT32, 2, sizes, NULL, x, sizeof x - 1}}};
  CHECK(sixfold_method_set_input(method, 0, &value) == SIXFOLD_INVALID_ARGUMENT);
  CHECK(strstr(sixfold_last_error(), "needs 32 bytes, and has 31"));
  CHECK(sixfold_method_reset_state(method) == SIXFOLD_OK);
  sixfold_method_close(method);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  CHECK(strlen(sixfold_version()) > 0);
  sixfold_program* program = NULL;
  CHECK(sixfold_program_open("no/such/file", NULL, &program) == SIXFOLD_NOT_FOUND && !program);
  CHECK(strstr(sixfold_last_error(), "no/such/file"));
  CHECK(sixfold_program_open(NULL, NULL, &program) == SIXFOLD_INVALID_ARGUMENT);

  const sixfold_load_options load = {.struct_size = sizeof load, .prefetch = 1};
  CHECK(sixfold_program_open(argv[1], &load, &program) == SIXFOLD_OK);
  CHECK(sixfold_program_method_count(program) == 1);
  CHECK(strcmp(sixfold_program_method_name(program, 0), "forward") == 0);
  CHECK(!sixfold_program_method_name(program, 1));
  sixfold_method* method = NULL;
  CHECK(sixfold_method_load(program, "other", NULL, &method) == SIXFOLD_NOT_FOUND && !method);

  float first[6], second[6];
  run(program, NULL, first);

  /* in the caller's arena, one byte short and then right */
  CHECK(sixfold_program_arena_count(program, "forward") == 1);
  size_t bytes = sixfold_program_arena_bytes(program, "forward", 0) - 1;
  void* arena = aligned_alloc(64, bytes / 64 * 64 + 64);
  sixfold_method_options options = {.struct_size = sizeof options, .threads = 2};
  options.arenas = &arena;
  options.arena_sizes = &bytes;
  options.arena_count = 1;
  CHECK(sixfold_method_load(program, "forward", &options, &method) == SIXFOLD_OUT_OF_MEMORY);
  ++bytes;
  run(program, &options, second);
  CHECK(memcmp(first, second, sizeof first) == 0);
  sixfold_program_close(program);

  size_t size;
  void* data = read_file(argv[1], &size);
  CHECK(sixfold_program_from_memory(data, size - 200, NULL, &program) == SIXFOLD_INVALID_MODEL);
  CHECK(sixfold_program_from_memory(data, size, NULL, &program) == SIXFOLD_OK);
  run(program, NULL, second);
  CHECK(memcmp(first, second, sizeof first) == 0);
  sixfold_program_close(program);
  sixfold_program_close(NULL);
  free(data);
  free(arena);
  return 0;
}
