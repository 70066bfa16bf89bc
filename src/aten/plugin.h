/* What a plugin is that does operators of ATen for which npusim has no kernels: a shared library with one function,
 * npusim_aten_plugin. Plain C: nothing of either side's libraries crosses.
 *
 * Functions may be called from several threads at once, and run() with several handles, but not with one. None throws.
 * Where a function can fail it leaves the reason, for people, in `text`, `size` bytes with the final zero. */
#ifndef NPUSIM_ATEN_PLUGIN_H
#define NPUSIM_ATEN_PLUGIN_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NPUSIM_ATEN_PLUGIN_VERSION 1u

/* Values of npusim_aten_argument::kind. A real or an integer may be given for a tensor: a number among tensors. */
enum {
  NPUSIM_ATEN_NONE,     /* None; also for what has no meaning here: devices, layouts, generators */
  NPUSIM_ATEN_TENSOR,   /* tensors[0] */
  NPUSIM_ATEN_TENSORS,  /* tensors: a list */
  NPUSIM_ATEN_BOOLEAN,  /* integers[0] */
  NPUSIM_ATEN_INTEGER,  /* integers[0] */
  NPUSIM_ATEN_REAL,     /* reals[0] */
  NPUSIM_ATEN_TEXT,     /* text; a memory format as the IR has it */
  NPUSIM_ATEN_DTYPE,    /* text */
  NPUSIM_ATEN_INTEGERS, /* integers */
  NPUSIM_ATEN_REALS,    /* reals */
  NPUSIM_ATEN_BOOLEANS  /* integers */
};

typedef struct {
  int32_t kind;
  int64_t count;          /* of what its list holds; 1 where it is no list, 0 for none, text and dtype */
  const int32_t* tensors; /* positions among the call's operands; -1: None */
  const int64_t* integers;
  const double* reals;
  const char* text;
} npusim_aten_argument;

/* A tensor in row-major memory of the host. */
typedef struct {
  const char* dtype; /* "float32", "float64", "float16", "bfloat16", "int8", …, "uint8", "bool" */
  int64_t rank;
  const int64_t* shape;
} npusim_aten_type;

typedef struct {
  const char* op; /* aten.relu.default */
  int64_t argument_count;
  const npusim_aten_argument* arguments; /* one for each of the schema */
  int64_t operand_count;
  const npusim_aten_type* operands;
  int64_t result_count; /* the elements of a list of tensors count as results */
  const npusim_aten_type* results;
} npusim_aten_call;

typedef struct {
  uint32_t version; /* NPUSIM_ATEN_PLUGIN_VERSION: what follows is read only where it is */
  const char* name; /* "ATen of PyTorch 2.9.0", for people */
  /* 0, and in `text` the operator's schema as ATen writes it, without its namespace: "relu(Tensor self) -> Tensor". */
  int (*schema)(const char* op, char* text, size_t size);
  /* The call made ready, to be released; NULL where it cannot be run. Nothing of `call` is read later. */
  void* (*prepare)(const npusim_aten_call* call, char* text, size_t size);
  /* 0 where every result was written. Operands are not changed. */
  int (*run)(void* handle, const void* const* operands, void* const* results, char* text, size_t size);
  void (*release)(void* handle);
} npusim_aten_plugin_table;

#if defined(_WIN32)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
    const npusim_aten_plugin_table* npusim_aten_plugin(void);

#ifdef __cplusplus
}
#endif
#endif
