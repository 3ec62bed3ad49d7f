/* pte_runner PROGRAM.pte [INPUT.bin ...] [-o OUTPUT_PREFIX] [-n TIMES]
 *
 * Runs the method "forward" through the C API: inputs are raw bytes of the sizes that the program says (zeros where
 * none are given), output i goes to OUTPUT_PREFIX<i>.bin. Nothing but the runtime is linked, so that its size is the
 * size of a runtime. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "include/sixfold.h"

static int failed(const char* what) {
  fprintf(stderr, "pte_runner: %s: %s\n", what, sixfold_last_error());
  return 1;
}

static int read_input(const char* path, void* to, size_t size) {
  FILE* file = fopen(path, "rb");
  const size_t n = file ? fread(to, 1, size, file) : 0;
  if (file) fclose(file);
  if (n == size) return 0;
  fprintf(stderr, "pte_runner: %s has %zu bytes, the input needs %zu\n", path, n, size);
  return 1;
}

static int write_output(const char* prefix, size_t i, const sixfold_tensor* tensor) {
  char path[4096];
  snprintf(path, sizeof path, "%s%zu.bin", prefix, i);
  FILE* file = fopen(path, "wb");
  const size_t n = file ? fwrite(tensor->data, 1, tensor->size_bytes, file) : 0;
  if (file && fclose(file) == 0 && n == tensor->size_bytes) return 0;
  fprintf(stderr, "pte_runner: cannot write %s\n", path);
  return 1;
}

static int set_inputs(sixfold_method* method, int count, char** paths) {
  for (size_t i = 0; i < sixfold_method_input_count(method); ++i) {
    sixfold_value value;
    if (sixfold_method_input(method, i, &value)) return failed("input");
    if (value.kind == SIXFOLD_KIND_TENSOR) {
      void* data = calloc(value.as.tensor.size_bytes + 1, 1); /* read where it is, perhaps: kept until the end */
      if (!data || ((int)i < count && read_input(paths[i], data, value.as.tensor.size_bytes))) return 1;
      value.as.tensor.data = data;
    }
    if (sixfold_method_set_input(method, i, &value)) return failed("set input");
  }
  return 0;
}

int main(int argc, char** argv) {
  const char* prefix = NULL;
  long times = 1;
  int words = 1; /* argv[1 .. words) are the program and its inputs */
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
      prefix = argv[++i];
    else if (strcmp(argv[i], "-n") == 0 && i + 1 < argc)
      times = strtol(argv[++i], NULL, 10);
    else
      argv[words++] = argv[i];
  }
  if (words < 2) {
    fprintf(stderr, "usage: pte_runner PROGRAM.pte [INPUT.bin ...] [-o OUTPUT_PREFIX] [-n TIMES]\n");
    return 2;
  }
  sixfold_program* program;
  sixfold_method* method;
  if (sixfold_program_open(argv[1], NULL, &program)) return failed("open");
  if (sixfold_method_load(program, "forward", NULL, &method)) return failed("load");
  for (; times > 0; --times) {
    if (set_inputs(method, words - 2, argv + 2)) return 1;
    if (sixfold_method_execute(method)) return failed("execute");
  }
  for (size_t i = 0; prefix && i < sixfold_method_output_count(method); ++i) {
    sixfold_value value;
    if (sixfold_method_output(method, i, &value)) return failed("output");
    if (value.kind == SIXFOLD_KIND_TENSOR && write_output(prefix, i, &value.as.tensor)) return 1;
  }
  sixfold_method_close(method);
  sixfold_program_close(program);
  return 0;
}
