/* npusim for C (C99), and for whatever calls C: compile, load and run programs.
 *
 * Objects are opaque and freed by the function that is named after them, in any order: each shares what it needs of the
 * others. Freeing NULL does nothing. Programs and tensor sets never change and may be used by any number of threads; a
 * session is used by one thread at a time, and any number of sessions may run at once.
 *
 * What a function fails with is its result; `error`, if not NULL, receives the text and must be freed. No C++ exception
 * leaves a function. A session that failed can be used again; states that the failed run had begun to update must be
 * set or reset first (NPUSIM_USAGE otherwise).
 *
 * Strings are UTF-8, names of files whatever the system has; of those messages spell bytes that are no UTF-8 as \xff.
 * Tensors are dense, row-major, little-endian, of at most 64 dimensions. */
#ifndef NPUSIM_NPUSIM_H
#define NPUSIM_NPUSIM_H

#include <stddef.h>
#include <stdint.h>

#include "npusim/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something that was there changes or goes; the shared library's SOVERSION. */
#define NPUSIM_ABI_VERSION 1
/* Of the library that is loaded: a program checks that it is the one it was compiled with. */
NPUSIM_API int npusim_abi_version(void);
NPUSIM_API const char* npusim_version(void); /* "0.1.0" */

/* -------- errors */

typedef enum npusim_status {
  NPUSIM_OK = 0,
  NPUSIM_USAGE = 1,       /* the call: an unknown name, NULL, memory of another size or type */
  NPUSIM_BAD_INPUT = 2,   /* a file or text: missing, malformed, damaged, or not fitting the program */
  NPUSIM_UNSUPPORTED = 3, /* well-formed, but not something npusim can do */
  NPUSIM_DEVICE = 4,      /* the device: not there, out of memory, lost */
  NPUSIM_INTERNAL = 5,    /* a bug in npusim */
  NPUSIM_NO_MEMORY = 6,   /* the host has none left; there is no error object then */
  NPUSIM_CANCELLED = 7    /* npusim_cancel() */
} npusim_status;

typedef struct npusim_error npusim_error;
NPUSIM_API npusim_status npusim_error_status(const npusim_error* error);
NPUSIM_API const char* npusim_error_text(const npusim_error* error); /* one line for each problem */
/* Each problem: where ("node 'relu_3' (aten.relu.default)", "weight fc.bias", or ""), and why. */
NPUSIM_API size_t npusim_error_count(const npusim_error* error);
NPUSIM_API const char* npusim_error_where(const npusim_error* error, size_t problem);
NPUSIM_API const char* npusim_error_reason(const npusim_error* error, size_t problem);
NPUSIM_API void npusim_error_free(npusim_error* error);

/* -------- tensors */

typedef enum npusim_dtype {
  NPUSIM_BOOL = 0,
  NPUSIM_UINT8 = 1,
  NPUSIM_INT8 = 2,
  NPUSIM_INT16 = 3,
  NPUSIM_INT32 = 4,
  NPUSIM_INT64 = 5,
  NPUSIM_FLOAT16 = 6,
  NPUSIM_BFLOAT16 = 7,
  NPUSIM_FLOAT32 = 8,
  NPUSIM_FLOAT64 = 9
} npusim_dtype;

/* A tensor in memory that is read, and one that is written. The memory is the caller's, or, where a function fills in a
 * view, npusim's, and so is the shape. */
typedef struct npusim_view {
  npusim_dtype dtype;
  size_t rank;
  const int64_t* shape;
  const void* data;
} npusim_view;
typedef struct npusim_span {
  npusim_dtype dtype;
  size_t rank;
  const int64_t* shape;
  void* data;
} npusim_span;

/* Sets of named tensors: weights. */
typedef struct npusim_tensors npusim_tensors;
/* A .safetensors file, or the .json index of shards beside it. The files are mapped and must not change: one that
 * another process cuts shorter ends this one (SIGBUS). npusim_read_tensors() reads the same into memory instead. */
NPUSIM_API npusim_status npusim_open_tensors(const char* path, npusim_tensors** tensors, npusim_error** error);
NPUSIM_API npusim_status npusim_read_tensors(const char* path, npusim_tensors** tensors, npusim_error** error);
/* `count` tensors in the caller's memory, which must stay as it is until the set and every session that was opened with
 * it are freed. Names and shapes are copied. */
NPUSIM_API npusim_status npusim_make_tensors(const char* const* names, const npusim_view* views, size_t count,
                                             npusim_tensors** tensors, npusim_error** error);
/* The view lives as long as the set. */
NPUSIM_API npusim_status npusim_find_tensor(const npusim_tensors* tensors, const char* name, npusim_view* view,
                                            npusim_error** error);
NPUSIM_API void npusim_tensors_free(npusim_tensors* tensors);

/* -------- programs */

typedef struct npusim_program npusim_program;
NPUSIM_API npusim_status npusim_load_program(const char* path, npusim_program** program, npusim_error** error);
/* From the bytes of a .npubin. */
NPUSIM_API npusim_status npusim_parse_program(const void* bytes, size_t size, npusim_program** program,
                                              npusim_error** error);
/* The same without launches, which are code (SECURITY.md): the CPU runs the steps that they are of. NPUSIM_UNSUPPORTED
 * for a program that calls a plugin. */
NPUSIM_API npusim_status npusim_load_program_without_code(const char* path, npusim_program** program,
                                                          npusim_error** error);
NPUSIM_API npusim_status npusim_parse_program_without_code(const void* bytes, size_t size, npusim_program** program,
                                                           npusim_error** error);
NPUSIM_API npusim_status npusim_save_program(const npusim_program* program, const char* path, npusim_error** error);
NPUSIM_API void npusim_program_free(npusim_program* program);

/* What a method takes and gives. Strings and shapes live as long as the program. */
typedef struct npusim_tensor_info {
  const char* name; /* the IR's */
  npusim_dtype dtype;
  size_t rank;
  const int64_t* shape;
  size_t bytes;
  int state; /* 1: stays on its device from run to run, updated in place (a KV cache) */
} npusim_tensor_info;
NPUSIM_API size_t npusim_method_count(const npusim_program* program);
NPUSIM_API const char* npusim_method_name(const npusim_program* program, size_t position); /* NULL: there is none */
/* By position, in IR order; NPUSIM_USAGE beyond the last. */
NPUSIM_API npusim_status npusim_input_at(const npusim_program* program, const char* method, size_t position,
                                         npusim_tensor_info* info, npusim_error** error);
NPUSIM_API npusim_status npusim_output_at(const npusim_program* program, const char* method, size_t position,
                                          npusim_tensor_info* info, npusim_error** error);
/* How many; 0 for an unknown method. */
NPUSIM_API size_t npusim_input_count(const npusim_program* program, const char* method);
NPUSIM_API size_t npusim_output_count(const npusim_program* program, const char* method);
/* By name. */
NPUSIM_API npusim_status npusim_find_input(const npusim_program* program, const char* method, const char* name,
                                           npusim_tensor_info* info, npusim_error** error);
NPUSIM_API npusim_status npusim_find_output(const npusim_program* program, const char* method, const char* name,
                                            npusim_tensor_info* info, npusim_error** error);

/* -------- compiling: not in the library npusim_runtime */

/* A method's IR, at `path` or, if not NULL, in `json`; `path` then names it in messages. */
typedef struct npusim_method_source {
  const char* name;
  const char* path;
  const char* json;
} npusim_method_source;

/* Zeros and NULLs are defaults: npusim_compile_options options = {0}; options.size = sizeof options; */
typedef struct npusim_compile_options {
  size_t size;             /* sizeof(npusim_compile_options): later versions have more */
  const char* target;      /* "cpu" */
  const char* dtype;       /* "auto", "float16", "bfloat16", "float32" */
  int strict;              /* 1: round at every edge of the IR */
  const char* config_path; /* overrides of the target's hardware rules: a file, or its text */
  const char* config_json;
  const char* kv_map_path; /* which outputs fill which states: a file, or its text */
  const char* kv_map_json;
  const char* disabled_fusions; /* names with commas between them, or "all" */
  int text; /* 1: methods for one token get others that feed themselves; -1: none; 0: among several methods they do */
  const char* force_cpu; /* operators for the CPU, with commas between them: "relu,aten.add.Tensor" */
  int no_fallback;       /* 1: what the target cannot run is an error; 0: the CPU runs it, in the same program */
  const char* plan_path; /* which nodes the CPU runs, as `npusim partition -o` writes it: a file, or its text */
  const char* plan_json;
  uint64_t max_bytes; /* what the program may need of memory, and of operations for a run; 0: any */
  uint64_t max_flops;
} npusim_compile_options;

NPUSIM_API npusim_status npusim_compile(const npusim_method_source* methods, size_t count,
                                        const npusim_compile_options* options, npusim_program** program,
                                        npusim_error** error);

/* -------- sessions */

/* The plugin that runs operators without a kernel, for what is compiled and opened from now on in this process; NULL:
 * libnpusim_aten.so beside the library, or what NPUSIM_ATEN names. It is opened when the first such operator is met. */
NPUSIM_API npusim_status npusim_use_aten_plugin(const char* path, npusim_error** error);

/* Likewise. */
typedef struct npusim_session_options {
  size_t size;                   /* sizeof(npusim_session_options) */
  const npusim_tensors* weights; /* NULL: the program has none */
  const char* const* devices;    /* "cpu", "cuda:1": of its first devices; the others are the targets' own */
  size_t device_count;
  int threads; /* of the host, at most 4096; 0: one per core, one for a program of little work */
  /* What the program may need, checked before anything is allocated: bytes of memory, operations of a run; 0: any.
   * NPUSIM_UNSUPPORTED beyond it. */
  uint64_t max_bytes;
  uint64_t max_flops;
} npusim_session_options;

typedef struct npusim_session npusim_session;
NPUSIM_API npusim_status npusim_open_session(const npusim_program* program, const npusim_session_options* options,
                                             npusim_session** session, npusim_error** error);
/* A session of its own, with new states, over the same program, devices and weights. */
NPUSIM_API npusim_status npusim_open_sibling(const npusim_session* session, npusim_session** sibling,
                                             npusim_error** error);
NPUSIM_API void npusim_session_free(npusim_session* session);

/* Gives an input, or a state, a value: copies. NPUSIM_USAGE when its dtype or shape is another. */
NPUSIM_API npusim_status npusim_set_input(npusim_session* session, const char* method, const char* input,
                                          const npusim_view* value, npusim_error** error);
/* The caller's own memory: each run reads the input from it, or leaves the output in it, until it is bound anew; with
 * NULL the session's own serves again. It must live, and an input's stay as it is, until a run is waited for. */
NPUSIM_API npusim_status npusim_bind_input(npusim_session* session, const char* method, const char* input,
                                           const npusim_view* memory, npusim_error** error);
NPUSIM_API npusim_status npusim_bind_output(npusim_session* session, const char* method, const char* output,
                                            const npusim_span* memory, npusim_error** error);
/* The same with memory on the device where the input or output lies: `device` names it ("cuda:0"), `data` is the
 * address there. Runs copy from and to it on that device, behind what its default stream was given before. */
NPUSIM_API npusim_status npusim_bind_device_input(npusim_session* session, const char* method, const char* input,
                                                  const char* device, const npusim_view* memory, npusim_error** error);
NPUSIM_API npusim_status npusim_bind_device_output(npusim_session* session, const char* method, const char* output,
                                                   const char* device, const npusim_span* memory, npusim_error** error);
/* What the last run left in an output, valid until the method runs again. */
NPUSIM_API npusim_status npusim_get_output(npusim_session* session, const char* method, const char* output,
                                           npusim_view* value, npusim_error** error);

/* `times` runs follow each other, each on the states that the one before it left. Run is enqueue and wait. */
NPUSIM_API npusim_status npusim_run(npusim_session* session, const char* method, int times, npusim_error** error);
NPUSIM_API npusim_status npusim_enqueue(npusim_session* session, const char* method, int times, npusim_error** error);
NPUSIM_API npusim_status npusim_wait(npusim_session* session, npusim_error** error);
/* From any thread: what is under way in the session ends between two of its steps, with NPUSIM_CANCELLED. The result is
 * 1 where something was, 0 where nothing is. */
NPUSIM_API int npusim_cancel(npusim_session* session);
/* The seed of the random numbers that runs draw, 0 at first: their sequence starts anew. */
NPUSIM_API npusim_status npusim_seed(npusim_session* session, uint64_t seed, npusim_error** error);
/* All states as they began, and the generator of random numbers to its seed. */
NPUSIM_API npusim_status npusim_reset_states(npusim_session* session, npusim_error** error);

#ifdef __cplusplus
}
#endif

#endif
