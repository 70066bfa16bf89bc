// Tile functions: one SIMD loop per expression node over a two-dimensional tile, found once when a kernel is compiled.
//
// A tile has rows and columns. Registers are rows of `pitch` lanes, a multiple of 16 where anything is computed, so
// elementwise loops run over whole vectors without tails; what stands in the padding is never observed. Lanes are
// float, double, int64_t or what of it a kernel's integers need (IntLane), and uint8_t (0 or 1) for boolean.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernel/kernel.h"

namespace npusim::cpu::loops::tiles {

inline constexpr int64_t lane_block = 16;  // columns are padded to a multiple of this
inline int64_t padded(int64_t columns) { return (columns + lane_block - 1) / lane_block * lane_block; }

// The first trap of a run: an index outside its extent, an integer division by zero, or what is required and false.
struct Trap {
  std::atomic<int> kind{0};  // 0 none, 1 index, 2 division, 3 requirement
  int64_t value = 0;
  int64_t extent = 0;
  void index(int64_t v, int64_t e) {
    int none = 0;
    if (kind.compare_exchange_strong(none, 1)) value = v, extent = e;
  }
  void division() {
    int none = 0;
    kind.compare_exchange_strong(none, 2);
  }
  void requirement() {
    int none = 0;
    kind.compare_exchange_strong(none, 3);
  }
};

inline constexpr size_t most_operands = 6;

struct TileCall;
using TileFn = void (*)(const TileCall&);

// One instruction bound to the memory of one thread.
struct TileCall {
  TileFn fn = nullptr;
  void* dst = nullptr;
  const void* in[most_operands] = {};
  int64_t dst_row = 0;  // lanes from row to row
  int64_t in_row[most_operands] = {};
  int64_t rows = 0;
  int64_t n = 0;        // columns, padded
  int64_t columns = 0;  // columns that count
  const void* extra = nullptr;
  Trap* trap = nullptr;
};

// How integers lie in lanes: by their low bits, as numbers with a sign or without.
enum class IntLane : uint8_t { i64, u8, i8, i16, i32 };
inline int lane_bytes(IntLane lane) {
  return lane == IntLane::i64 ? 8 : lane == IntLane::i32 ? 4 : lane == IntLane::i16 ? 2 : 1;
}

inline bool is_comparison(ExprOp op) {
  return op == ExprOp::eq || op == ExprOp::ne || op == ExprOp::lt || op == ExprOp::le;
}

// Bit k of `scalars`: operand k is one lane per row. All return null where there is no such function.
TileFn unary_fn(ExprOp op, Scalar type);
TileFn binary_fn(ExprOp op, Scalar type, unsigned scalars);  // comparisons give boolean
TileFn select_fn(Scalar type, unsigned scalars);
// in[0] (relation) in[1] ? in[2] : in[3], of f32 and f64.
TileFn choose_fn(ExprOp relation, Scalar type, unsigned scalars);
TileFn copy_fn(size_t lane_bytes, bool scalar);

enum class FusedOp : uint8_t { mul_add, mul_sub, neg_mul_add };  // a·b + c, a·b − c, c − a·b
TileFn fused_fn(FusedOp op, unsigned scalars);                   // f32

TileFn leak_fn(bool fixed);   // in[0] < in[1] ? in[1] : in[1] · in[2], f32, of one in[0]; `fixed`: and of one in[2]
TileFn flip_fn(Scalar type);  // in[0], or −in[0] where in[1] has a sign and is a number; f32 and f64

TileFn gelu_fn();     // x·h·(1 + erf(x·c)) of in[0], f32; h and c are the terms in `extra`
TileFn between_fn();  // from in[0] to in[1] by in[2], f32: Between in analyse.h
// (in[0] − in[1]) · in[2] · in[3] + in[4], f32, of one in[1] and in[2] in a row; or of the others that are fixed, too.
TileFn normed_fn(bool fixed_weight, bool fixed_bias);
TileFn share_fn();  // 1 + erf(in[0]), f32, the same in gelu_fn()

// What a value x is joined with y by, f32. at_most, at_least: of one y that is neither NaN nor zero, in any order;
// positive: max(x, +0).
enum class Link : uint8_t { add, sub, from, mul, div, over, min, max, at_most, at_least, positive };
// (in[0] first in[1]) second in[2], of which in[1] and in[2] may be one lane per row; from: y − x, over: y / x. Null
// for products in sums.
TileFn pair_fn(Link first, bool first_fixed, Link second, bool second_fixed);

// By Horner's rule: a polynomial of in[0] that begins with in[1], one number if `fixed`, and has the others in
// *(std::vector<double>*)extra. Of f32 and f64.
TileFn polynomial_fn(Scalar type, bool fixed);

TileFn cast_fn(Scalar from, Scalar to);
TileFn widen_fn(DType dtype);   // memory to lanes of scalar_of(dtype); null where they are the same
TileFn narrow_fn(DType dtype);  // lanes of scalar_of(dtype) to memory
TileFn round_fn(DType dtype, Scalar type);
TileFn iota_fn();   // i64: *(int64_t*)extra + column
TileFn index_fn();  // i64: *(int64_t*)extra

// i64: words 0 and 1 of a draw, or 2 and 3, the first in the low 32 bits, of its counter and its key. `plain`: all
// operands but counter[2] are one lane per row; else none is.
TileFn draw_fn(bool second_pair, bool plain);
TileFn drawn_word_fn(bool high, Scalar type);  // one of such a pair, i64 or f32

// How a reduction's accumulator lies to its operand's tile.
enum class Fold : uint8_t {
  columns,
  rows,
  none
};  // columns: dst[row · dst_row]; rows: dst[column]; none: dst[row][column]
// dst = dst (reduction) fold(in[0]). `wide`: f32 sums into double.
TileFn reduce_fn(Reduction reduction, Scalar type, Fold fold, bool wide);
TileFn sum_of_products_fn(Fold fold, bool wide);  // of f32: in[0] · in[1]
TileFn sum_of_deviations_fn(bool wide);           // along columns, of f32: (in[0] − in[1])², in[1] one lane per row
TileFn count_fn(Fold fold, IntLane lane);         // how many of the booleans in[0] hold
// Inclusive along the columns; in[1] is the carry of each row in f64 (floats) or i64, which is read and written.
TileFn scan_fn(Reduction reduction, Scalar type);
TileFn log_scan_fn(Scalar type);  // of floats: the log of Σ exp
// The last column so far where in[0] is in[2], or NaN; in[1] is that of each row, *(int64_t*)extra the first column's.
TileFn running_index_fn(Scalar type);
// affine: one lane per row, of the first column, and a step; masked: and some points do not count; lanes: one each.
enum class IndexLanes : uint8_t { affine, masked, lanes };
// The extreme of a row and the index of it, a float as wide as the lanes: in[0] elements, in[1] indices, in[2] the
// extreme so far, in[3] the step of affine indices along columns, *(int64_t*)extra the first column's index, in[4] of
// masked ones which points count; dst is the index so far. Of equal elements the first index counts, of NaN the first
// or the last.
TileFn extreme_index_fn(bool highest, Scalar type, Fold fold, bool last_nan, IndexLanes form);

// Of integers in lanes narrower than i64. Those of `x` are of that expression, whose first operand is of `operand`.
TileFn integer_fn(const Expr& x, Scalar operand, IntLane lane, unsigned scalars);
TileFn integer_load_fn(DType dtype, IntLane lane);                       // from memory; null where lanes are as wide
TileFn integer_store_fn(IntLane lane, DType dtype);                      // to memory, likewise
TileFn integer_reduce_fn(Reduction reduction, IntLane lane, Fold fold);  // as reduce_fn()
// Whether rounding to the dtype leaves all bits of a lane as they are.
inline bool keeps_lane(DType dtype, IntLane lane) {
  return lane != IntLane::i64 && static_cast<int>(dtype_size(dtype)) >= lane_bytes(lane);
}

// The functions by lane type, one file each; the ones above choose among them.
TileFn float_unary_fn(ExprOp op);
TileFn float_binary_fn(ExprOp op, unsigned scalars);
TileFn float_select_fn(unsigned scalars);
TileFn compare_fn(ExprOp op, Scalar type, unsigned scalars);  // of f32, f64 and i64
TileFn is_nan_fn(Scalar type);
TileFn truth_fn(Scalar type);  // != 0, of f32, f64 and i64
TileFn double_math_fn(ExprOp op);
TileFn rare_fn(ExprOp op, unsigned scalars);  // on float lanes, of one operand or two
TileFn single_fn(ExprOp op,
                 unsigned scalars);  // the same of some by vectors of float; null also where those would not do
// Null where products are not exact with sums.
TileFn double_power_fn(unsigned scalars);
TileFn double_fmod_fn(unsigned scalars);
TileFn double_exp_fn(ExprOp op);
TileFn double_log_fn(ExprOp op);
TileFn double_angle_fn(ExprOp op, unsigned scalars);
TileFn double_erf_fn(ExprOp op);
TileFn scalar_math_fn(ExprOp op, Scalar type);
TileFn scalar_math_binary_fn(ExprOp op, Scalar type, unsigned scalars);

}  // namespace npusim::cpu::loops::tiles
