// Metal Shading Language 3.1: native half and bfloat, no double, four functions of its own that MSL lacks.
#include "print/dialect.h"

namespace npusim {
namespace {

constexpr Dialect::Call calls[] = {
    {ExprOp::abs, "fabs", ""},
    {ExprOp::exp, "precise::exp", ""},
    {ExprOp::exp2, "precise::exp2", ""},
    {ExprOp::expm1, "expm1_f32", ""},
    {ExprOp::log, "precise::log", ""},
    {ExprOp::log2, "precise::log2", ""},
    {ExprOp::log10, "precise::log10", ""},
    {ExprOp::log1p, "log1p_f32", ""},
    {ExprOp::sqrt, "precise::sqrt", ""},
    {ExprOp::rsqrt, "precise::rsqrt", ""},
    {ExprOp::sin, "precise::sin", ""},
    {ExprOp::cos, "precise::cos", ""},
    {ExprOp::tan, "precise::tan", ""},
    {ExprOp::asin, "precise::asin", ""},
    {ExprOp::acos, "precise::acos", ""},
    {ExprOp::atan, "precise::atan", ""},
    {ExprOp::sinh, "precise::sinh", ""},
    {ExprOp::cosh, "precise::cosh", ""},
    {ExprOp::tanh, "precise::tanh", ""},
    {ExprOp::asinh, "precise::asinh", ""},
    {ExprOp::acosh, "precise::acosh", ""},
    {ExprOp::atanh, "precise::atanh", ""},
    {ExprOp::erf, "erf_f32", ""},
    {ExprOp::erfc, "erfc_f32", ""},
    {ExprOp::floor, "floor", ""},
    {ExprOp::ceil, "ceil", ""},
    {ExprOp::round, "rint", ""},
    {ExprOp::trunc, "trunc", ""},
    {ExprOp::isnan, "isnan", ""},
    {ExprOp::pow, "precise::pow", ""},
    {ExprOp::fmod, "precise::fmod", ""},
    {ExprOp::atan2, "precise::atan2", ""},
};

// Polynomials are minimax fits; every function stays within a few units in the last place of float.
constexpr Dialect::Helper helpers[] = {
    // x > 0.5: exp(-x²)·t·P(t) with t = 1 / (1 + x/2); the rounding error of x² goes into a second factor.
    {"erfc_tail", R"($fn float erfc_tail(float x) {
  const float t = 1.0f / (1.0f + 0.5f * x);
  float p = fma(-0.02635598161f, t, 0.04977573716f);
  p = fma(p, t, 0.09441832613f);
  p = fma(p, t, -0.3045727009f);
  p = fma(p, t, 0.1733140079f);
  p = fma(p, t, 0.009750411005f);
  p = fma(p, t, 0.1953631862f);
  p = fma(p, t, 0.2438413327f);
  p = fma(p, t, 0.282357077f);
  p = fma(p, t, 0.2820849657f);
  const float square = x * x;
  const float rest = fma(x, x, -square);
  return square > 120.0f ? 0.0f : precise::exp(-square) * (1.0f - rest) * t * p;
})"},
    {"erf_f32", R"($fn float erf_f32(float x) {
  if (fabs(x) >= 1.0f) return copysign(1.0f - erfc_tail(fabs(x)), x);
  const float z = x * x;
  float p = fma(7.875875063e-5f, z, -0.0008016864287f);
  p = fma(p, z, 0.005189087423f);
  p = fma(p, z, -0.02685421201f);
  p = fma(p, z, 0.1128359472f);
  p = fma(p, z, -0.3761262667f);
  p = fma(p, z, 1.128379166f);
  return x * p;
})"},
    {"erfc_f32", R"($fn float erfc_f32(float x) {
  if (fabs(x) < 0.5f || isnan(x)) return 1.0f - erf_f32(x);
  return x < 0.0f ? 2.0f - erfc_tail(-x) : erfc_tail(x);
})"},
    {"expm1_f32", R"($fn float expm1_f32(float x) {
  if (!(fabs(x) < 0.5f)) return precise::exp(x) - 1.0f;
  float p = fma(2.492243643e-5f, x, 0.0001996217623f);
  p = fma(p, x, 0.001388873772f);
  p = fma(p, x, 0.008333182072f);
  p = fma(p, x, 0.04166666714f);
  p = fma(p, x, 0.1666666714f);
  p = fma(p, x, 0.5f);
  return fma(x * x, p, x);
})"},
    // The quotient undoes the rounding of 1 + x.
    {"log1p_f32", R"($fn float log1p_f32(float x) {
  const float u = 1.0f + x;
  if (u == 1.0f) return x;
  return u == INFINITY ? u : precise::log(u) * x / (u - 1.0f);
})"},
};

}  // namespace

constinit const Dialect metal_dialect{
    .name = "MSL",
    .file_extension = ".metal",
    .scalars = {"bool", "long", "float", ""},
    .narrow = "int",
    .uint = "uint",
    .ulong = "ulong",
    .long_suffix = "L",
    .elements = {{{"uchar", "({0} != 0)", "uchar({0})"},
                  {"uchar", "{0}", "(uchar){0}"},
                  {"char", "{0}", "(char){0}"},
                  {"short", "{0}", "(short){0}"},
                  {"int", "{0}", "(int){0}"},
                  {"long", "{0}", "{0}"},
                  {"half", "float({0})", "half({0})"},
                  {"bfloat", "float({0})", "bfloat({0})"},
                  {"float", "{0}", "{0}"},
                  {"", "", ""}}},
    .prologue = "#include <metal_stdlib>\nusing namespace metal;\n\n",
    .kernel = "kernel void {0}(\n    {1}) {{\n",
    .read_arg = "device const {0}* {1} [[buffer({2})]]",
    .write_arg = "device {0}* {1} [[buffer({2})]]",
    .no_alias = "",
    .trap_arg = "device atomic_int* trap [[buffer({0})]]",
    .index_args =
        "uint block_index [[threadgroup_position_in_grid]],\n    uint thread_index [[thread_position_in_threadgroup]]",
    .block = "block_index",
    .thread = "thread_index",
    .shared = "threadgroup {0} {1}[{2}];",
    .barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);",
    .memory_barrier = "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);",
    .argument_space = "device ",
    .shared_space = "threadgroup ",
    .shuffles = {"", "as_type<long>(simd_shuffle_xor(as_type<uint2>({0}), {1}))", "simd_shuffle_xor({0}, {1})", ""},
    .function = "static inline",
    .trap_type = "device atomic_int*",
    .raise = "atomic_store_explicit(trap, code, memory_order_relaxed);",
    .calls = calls,
    .helpers = helpers,
    .max_threads = 512,  // pipelines that need many registers allow fewer than 1024
    .max_args = 31,
    .max_blocks = 0xffffffff,
};

}  // namespace npusim
