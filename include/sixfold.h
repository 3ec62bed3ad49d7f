/* The runtime of sixfold in C: load a .pte, run its methods.
 *
 * Stable: functions and fields are only ever added, fields at the end of structs that say their own size.
 *
 * A function that can fail returns a sixfold_status; sixfold_last_error() then has one sentence for this
 * thread. Objects belong to who made them, and are closed once. A program is immutable, and shared by any
 * number of threads; a method runs in one thread at a time, and a second caller gets
 * SIXFOLD_INVALID_ARGUMENT. A method keeps its program alive.
 */
#ifndef SIXFOLD_H_
#define SIXFOLD_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sixfold_status {
  SIXFOLD_OK = 0,
  SIXFOLD_INVALID_ARGUMENT = 1, /* the call is wrong */
  SIXFOLD_INVALID_MODEL = 2,    /* the file is wrong */
  SIXFOLD_UNSUPPORTED = 3,      /* right, but this build cannot do it; the message names what is missing */
  SIXFOLD_NOT_FOUND = 4,        /* no such file, method or tensor */
  SIXFOLD_OUT_OF_MEMORY = 5,    /* the message has both sizes */
  SIXFOLD_DEVICE = 6,           /* a delegate's device failed */
  SIXFOLD_INTERNAL = 7          /* our bug */
} sixfold_status;

/* One sentence for the last failure in this thread; valid until the next call of this API. Never null. */
const char* sixfold_last_error(void);
const char* sixfold_version(void);

/* Element types, with torch's numbers. */
typedef enum sixfold_dtype {
  SIXFOLD_UINT8 = 0,
  SIXFOLD_INT8 = 1,
  SIXFOLD_INT16 = 2,
  SIXFOLD_INT32 = 3,
  SIXFOLD_INT64 = 4,
  SIXFOLD_FLOAT16 = 5,
  SIXFOLD_FLOAT32 = 6,
  SIXFOLD_FLOAT64 = 7,
  SIXFOLD_BOOL = 11,
  SIXFOLD_BFLOAT16 = 15,
  SIXFOLD_UINT16 = 27,
  SIXFOLD_UINT32 = 28,
  SIXFOLD_UINT64 = 29
} sixfold_dtype;

typedef enum sixfold_kind {
  SIXFOLD_KIND_NONE = 0,
  SIXFOLD_KIND_TENSOR = 1,
  SIXFOLD_KIND_INT = 2,
  SIXFOLD_KIND_REAL = 3,
  SIXFOLD_KIND_BOOL = 4,
  SIXFOLD_KIND_OTHER = 5 /* text or a list */
} sixfold_kind;

typedef struct sixfold_tensor {
  int32_t dtype;            /* sixfold_dtype */
  uint32_t rank;            /* at most 16 */
  const int64_t* sizes;     /* rank of them */
  const uint8_t* dim_order; /* axes from outermost to innermost; null: row-major */
  const void* data;
  size_t size_bytes; /* of data; what is passed in must have at least as many as sizes and dtype need */
} sixfold_tensor;

typedef struct sixfold_value {
  int32_t kind; /* sixfold_kind */
  union {
    sixfold_tensor tensor;
    int64_t integer;
    double real;
    int32_t boolean;
  } as;
} sixfold_value;

/* ---- programs */

typedef struct sixfold_program sixfold_program;

typedef struct sixfold_load_options {
  size_t struct_size; /* sizeof(sixfold_load_options) */
  int32_t prefetch;   /* not 0: ask the system to read the whole file now */
  /* .ptd files with the constants that the program keeps outside */
  const char* const* data_files;
  size_t data_file_count;
} sixfold_load_options;

/* options may be null. The file is mapped and verified; *program is set on success alone. */
sixfold_status sixfold_program_open(const char* path, const sixfold_load_options* options,
                                    sixfold_program** program);
/* An open file; the descriptor may be closed afterwards. */
sixfold_status sixfold_program_open_descriptor(int descriptor, const sixfold_load_options* options,
                                               sixfold_program** program);
/* Bytes aligned to 16, which must outlive the program and its methods. */
sixfold_status sixfold_program_from_memory(const void* data, size_t size, const sixfold_load_options* options,
                                           sixfold_program** program);
void sixfold_program_close(sixfold_program* program); /* null is fine */

size_t sixfold_program_method_count(const sixfold_program* program);
/* Null when there is no such method. Lives as long as the program. */
const char* sixfold_program_method_name(const sixfold_program* program, size_t index);

/* ---- methods */

typedef struct sixfold_method sixfold_method;

typedef struct sixfold_method_options {
  size_t struct_size; /* sizeof(sixfold_method_options) */
  size_t threads;     /* 0: one for each core */
  /* Memory for the planned buffers, in order, each aligned to 16 and alive as long as the method; null:
   * allocated. */
  void* const* arenas;
  const size_t* arena_sizes;
  size_t arena_count;
} sixfold_method_options;

/* How many planned buffers a method needs, and how large each must be (0 beyond the last). */
size_t sixfold_program_arena_count(const sixfold_program* program, const char* method);
size_t sixfold_program_arena_bytes(const sixfold_program* program, const char* method, size_t index);

/* options may be null: one thread. Fails with the names of all kernels and delegates that are missing. */
sixfold_status sixfold_method_load(const sixfold_program* program, const char* name,
                                   const sixfold_method_options* options, sixfold_method** method);
void sixfold_method_close(sixfold_method* method); /* null is fine */

size_t sixfold_method_input_count(const sixfold_method* method);
size_t sixfold_method_output_count(const sixfold_method* method);
/* What it is now; pointers are valid until the next call for this method. */
sixfold_status sixfold_method_input(const sixfold_method* method, size_t index, sixfold_value* value);
sixfold_status sixfold_method_output(const sixfold_method* method, size_t index, sixfold_value* value);

/* A tensor with a place in the method's memory is copied, and set again before each run; another is read
 * where it is, and must live until it is set anew. Numbers must equal those that the program was made with.
 */
sixfold_status sixfold_method_set_input(sixfold_method* method, size_t index, const sixfold_value* value);
/* Memory for an output that has no place in the method's own. */
sixfold_status sixfold_method_set_output(sixfold_method* method, size_t index, void* data, size_t size_bytes);
sixfold_status sixfold_method_execute(sixfold_method* method);
/* Buffers that the method changes get their initial values back. */
sixfold_status sixfold_method_reset_state(sixfold_method* method);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SIXFOLD_H_ */
