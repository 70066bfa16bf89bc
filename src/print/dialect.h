// What a C-like kernel language is to the printer: a table of names and formats, one table per language.
//
// A new language is a new table and nothing else: no line of the printer names one. As proof,
// tests/print/opencl_test.cpp is such a table for OpenCL C, whose text clang's front end takes. A scalar, an
// element type or a call left empty makes kernels that need it refused with a reason.
// Formats are {fmt}'s: "{0}" is the first operand, a literal brace is doubled.
#pragma once
#include <array>
#include <span>
#include <string_view>

#include "base/text_part.h"
#include "kernel/kernel.h"

namespace npusim {

struct Dialect {
  // How one element lies in memory, and its formats from and to scalar_of(dtype).
  struct Element {
    std::string_view type, load, store;
  };
  // The function that computes an expression of floats; "" where there is none.
  struct Call {
    ExprOp op;
    std::string_view f32, f64;
  };
  // Text that is put before the kernels when `name` occurs in them or in a later helper, instead of a shared one of
  // that name. `$fn`, `$long`, `$ulong`, `$trap` and `$raise` stand for the fields below.
  using Helper = TextPart;

  std::string_view name;  // for refusals
  std::string_view file_extension;

  std::array<std::string_view, 4> scalars;  // by Scalar
  std::string_view narrow, uint, ulong;     // int32, uint32, uint64: index arithmetic
  std::string_view long_suffix;             // of an int64 literal
  std::array<Element, dtype_count> elements;

  std::string_view prologue;
  std::string_view kernel;                   // {0} name, {1} parameters, {2} threads in a block
  std::string_view read_arg;                 // {0} element type, {1} name, {2} position, {3} `no_alias` or nothing
  std::string_view write_arg;                // the same
  std::string_view no_alias;                 // says of a pointer that no other one reaches its memory
  std::string_view trap_arg;                 // {0} position
  std::string_view index_args;               // parameters that pass `block` and `thread`; "" where they are built in
  std::string_view block, thread;            // position in the grid and in the block, uint32
  std::string_view shared;                   // {0} type, {1} name, {2} elements
  std::string_view barrier;                  // of the block, for what is `shared`
  std::string_view memory_barrier;           // of the block, for arguments' memory too
  std::string_view argument_space;           // address space of arguments, before a pointer's type: "device "
  std::string_view shared_space;             // of what is `shared`
  std::array<std::string_view, 4> shuffles;  // by Scalar: {0} of the lane whose number differs by xor {1}
  bool quotients = false;                    // has quotient(), and bounds within which it is exact
  // To a few steps of float32, for what ends in 16 bits ({0}, {1}: operands); "": none. The second also flushes what is
  // below the smallest normal number to 0; the third divides by what is at least 1.
  std::string_view exp_near = {}, exp_next_to_one = {}, quotient_near = {};
  std::string_view words = {};  // {0} element type, {1} elements: read_lanes(), write_lanes(); "": none
  std::string_view function;    // qualifiers of a helper
  std::string_view trap_type;   // of a helper's parameter `trap`
  std::string_view raise;       // statement that stores `code` to `trap`
  std::span<const Call> calls;
  std::span<const Helper> helpers;

  int warp = 32;          // lanes that shuffle
  int max_threads = 256;  // in a block
  int max_args = 31;
  int64_t max_shared_bytes = 32768;  // of a block
  int64_t max_blocks = 0;
};

extern const Dialect cuda_dialect;   // CUDA C++ as NVRTC takes it, without headers
extern const Dialect metal_dialect;  // Metal Shading Language 3.1, to be compiled without fast math

}  // namespace npusim
