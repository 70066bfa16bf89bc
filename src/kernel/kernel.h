// Kernel IR: what one kernel computes, for every target — a static index space, affine accesses, scalar expressions.
//
// A kernel runs over `space`, a box of integer indices. Its last `row_dims` dimensions are the *row*: reductions and
// scans run along it, all other dimensions are independent. Expressions form a DAG in topological order; each store
// writes one expression to one argument. Memory is reached only through affine accesses, so broadcasting, transposing,
// slicing and expanding cost nothing, and fusion is substitution of expressions (kernel/fuse/fuse.h).
//
// A kernel may hold one contraction (matmul, convolution, attention). Its value at each point of the space is the leaf
// expression `contraction`; the expressions around it are the epilogue.
//
// Or a kernel orders its rows: it loads a row, says which of its elements comes first, second, …, and stores that.
// Or it transforms its rows: a Fourier transform and nothing else.
//
// Or a kernel is one call: an operator that only a plugin can do, of which nothing is known but what it takes and
// gives.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace npusim {

// What an expression computes in. Floats narrower than f32 compute in f32, integers in i64.
enum class Scalar : uint8_t { boolean, i64, f32, f64 };
Scalar scalar_of(DType dtype);

enum class ExprOp : uint8_t {
  constant,     // number (f32, f64) or integer (i64, boolean)
  index,        // the index along dimension `integer` of the space, i64
  load,         // kernel.accesses[integer], of the type of the argument's dtype
  contraction,  // the kernel's contraction, f32; with integer 1, of attention: the log of Σ exp(score) over its keys
  // unary: of floats, but neg and abs also of integers, which wrap, and logical_not of booleans only
  neg,
  abs,
  exp,
  exp2,
  expm1,
  log,
  log2,
  log10,
  log1p,
  sqrt,
  rsqrt,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,
  erf,
  erfc,
  floor,
  ceil,
  round,
  trunc,
  isnan,
  logical_not,
  // binary: arithmetic is of integers and floats, what has a quotient or an angle of floats, bits of booleans and
  // integers; `min` and `max` propagate NaN; `idiv` and `irem` truncate toward zero and trap on zero
  add,
  sub,
  mul,
  div,
  min,
  max,
  pow,
  fmod,
  atan2,
  idiv,
  irem,
  bit_and,
  bit_or,
  bit_xor,
  shl,
  shr,
  eq,
  ne,
  lt,
  le,
  select,    // in[0] ? in[1] : in[2]; the branch not taken may be unspecified
  cast,      // to `type`: float to integer truncates, anything to boolean is != 0
  round_to,  // as stored in `dtype` and loaded again
  reduce,    // over the row with `reduction`; the result is the same along the row
  scan,      // inclusive, along the last dimension (row_dims == 1), with `reduction`; with integer 1: log Σ exp
  order,    // at position j of the row: which of its elements is the j-th, i64; see order_form() (kernel/facts/order.h)
  require,  // of booleans: the operand; traps where it is false. `integer` is the Requirement
  // Fourier transforms along the row, of complex numbers in[0] + i·in[1]; see fourier_form() (kernel/facts/fourier.h)
  fourier_re,      // at position k of n: the real part of Σ z[j] e^(−2πi j k / n)
  fourier_im,      // the imaginary part
  fourier_signal,  // the real signal, times n, of which z[0] … z[n/2] are the first half of the spectrum
};
inline constexpr int expr_op_count = static_cast<int>(ExprOp::fourier_signal) + 1;

// What does not hold where a `require` traps.
enum class Requirement : uint8_t { probability, weights, deviation, lengths, assertion };
inline constexpr int requirement_count = static_cast<int>(Requirement::assertion) + 1;

enum class Reduction : uint8_t { sum, product, min, max };  // min and max propagate NaN; identity for an empty row

struct Expr {
  ExprOp op = ExprOp::constant;
  Scalar type = Scalar::f32;
  DType dtype = DType::f32;               // round_to
  Reduction reduction = Reduction::sum;   // reduce, scan; order: min has the smallest first, max the largest
  std::array<int32_t, 3> in{-1, -1, -1};  // operands: indices of earlier expressions
  double number = 0;                      // constant
  int64_t integer = 0;                    // constant, index, load, contraction, require
  bool operator==(const Expr&) const = default;
};

std::string_view expr_op_name(ExprOp op);
int expr_arity(ExprOp op);
std::string_view scalar_name(Scalar type);
std::string_view reduction_name(Reduction reduction);
std::string_view requirement_message(int64_t requirement);
struct Kernel;
std::string requirement_message(const Kernel& kernel);  // of all its `require`s, whose traps are one

// A coordinate that can leave its dimension: value = offset + Σ coeffs[d]·index[d] adds stride · value to the address,
// and the memory is touched only where 0 <= value < limit.
struct Guard {
  std::vector<int64_t> coeffs;
  int64_t offset = 0;
  int64_t limit = 0;
  int64_t stride = 0;
  bool operator==(const Guard&) const = default;
};

// A data-dependent part of an address: stride · value(expr), which traps unless 0 <= value < extent.
struct IndexTerm {
  int32_t expr = -1;
  int64_t stride = 0;
  int64_t extent = 0;
  bool operator==(const IndexTerm&) const = default;
};

// Element offset + Σ strides[d]·index[d] + Σ guards + Σ terms of argument `arg`. Where a guard does not hold a load
// gives 0 (fusion may change that: its user selects it away) and a store does nothing. The form makes bounds provable:
// see check_kernel().
struct Access {
  int arg = -1;
  int64_t offset = 0;
  std::vector<int64_t> strides;  // one per dimension of the space
  std::vector<Guard> guards;
  std::vector<IndexTerm> terms;
  bool operator==(const Access&) const = default;
};

struct Store {
  Access access;            // strides of 0 along the row: the value is the same along the row and stored once
  int32_t expr = -1;        // of the type of the argument's dtype
  bool accumulate = false;  // what is there is combined with the value as stored, and stored; in index order
  Reduction reduction = Reduction::sum;  // accumulate: how
};

struct KernelArg {  // a read one that no access names is the target's own: results do not depend on it
  DType dtype = DType::f32;
  int64_t elements = 0;  // every access stays within [0, elements)
  bool written = false;
  int updates = -1;  // written: argument whose buffer this one shares; elements not stored keep its values
};

enum class ContractionKind : uint8_t { matmul, conv, attention };

// leaf[space] = Σ over `reduce` of a·b, in f32. Accesses run over the dimensions space ++ reduce.
//   matmul     any number of batch, row and column dimensions: a dimension with stride 0 in a is a column, in b a row.
//   conv       space is [n, group, out channel, out spatial…], reduce [in channel, kernel spatial…]; a (the image)
//              carries the padding as guards; the order of dimensions never changes.
//   attention  leaf[…, d] = Σ over reduce [kv] of softmax over kv of score[…, kv] · b[…, d, kv]. The leading dimensions
//              are heads and queries in any order and number: one along which b has stride 0 shares keys and values.
struct Score;
struct Contraction {
  ContractionKind kind = ContractionKind::matmul;
  std::vector<int64_t> reduce;
  Access a;
  Access b;
  std::shared_ptr<const Score> score;  // of attention only
  bool masked_rows_are_zero = false;   // attention: a row of −inf scores gives 0 (ATen's safe softmax), not NaN
};

// score[…, kv] of an attention: an expression around the leaf Σ a·b over `reduce`. Accesses name arguments of the
// kernel that the attention is in; those of a and b run over space ++ reduce.
struct Score {
  std::vector<int64_t> space;  // […, kv]
  std::vector<Access> accesses;
  std::vector<Expr> exprs;
  int32_t result = -1;  // the expression that is the score, f32
  std::vector<int64_t> reduce;
  Access a;
  Access b;
  // An i64 expression that does not vary along kv: how many keys there are. Those from there on and their values do not
  // exist and are not read; without any key the attention is 0. -1: there are all.
  int32_t keys = -1;
};

// An operator as a plugin gets it (aten/plugin.h). It reads all of every operand and writes all of every result,
// row-major, and its results share memory with nothing.
enum class CallKind : uint8_t { none, tensor, tensors, boolean, integer, real, text, dtype, integers, reals, booleans };
struct CallArgument {
  CallKind kind = CallKind::none;
  std::vector<int32_t> tensors = {};   // tensor (one), tensors: positions in Call::operands; -1: None
  std::vector<int64_t> integers = {};  // boolean and integer (one), integers, booleans (0 or 1)
  std::vector<double> reals = {};      // real (one), reals
  std::string text = {};               // text; dtype: its name
};
struct CallTensor {
  int32_t arg = -1;  // of the kernel, whose dtype and number of elements it has
  Shape shape;
};
struct Call {
  std::string op;                       // "aten.relu.default"
  std::vector<CallArgument> arguments;  // one for each of the operator's schema
  std::vector<CallTensor> operands, results;
};

inline constexpr size_t max_dims = 64;  // of the space, with the reduced ones of a contraction

struct Kernel {
  std::string name;  // of the fusion, e.g. "mul_silu"
  std::vector<int64_t> space;
  int row_dims = 0;
  std::vector<KernelArg> args;  // read arguments first, then written ones
  std::vector<Access> accesses;
  std::vector<Expr> exprs;
  std::vector<Store> stores;
  std::shared_ptr<const Contraction> contraction;
  std::shared_ptr<const Call> call;  // then there are neither space nor accesses, expressions and stores
};

// Everything but names as text, one line each: for people, goldens and content hashes.
std::string to_text(const Kernel& kernel);
// Hash of the body; kernels with equal hashes are the same kernel whatever they are called.
uint64_t content_hash(const Kernel& kernel);

// Every rule above (ranks, operand order and types, access bounds, argument roles); empty when the kernel is sound:
// then every expression has a meaning, in the interpreter and on a device.
// Program files are checked with it before anything runs.
std::vector<std::string> check_kernel(const Kernel& kernel);
// Why the points of the kernel's index space, with what it sums over, are not counted; empty: they are.
std::string uncountable(const Kernel& kernel);

// Whether the operation is one of operands of this type. Programs hold no other.
bool has_meaning(ExprOp op, Scalar operand);
// The type an expression must have given its operands' types: the one typing rule of the IR.
Scalar result_type(ExprOp op, Scalar first, Scalar second);

}  // namespace npusim
