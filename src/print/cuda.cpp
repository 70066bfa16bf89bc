// CUDA C++ for NVRTC without headers: 16-bit floats are bits, converted by PTX or by integer arithmetic.
#include "print/cuda/embedded.h"
#include "print/dialect.h"

namespace npusim {
namespace {

constexpr Dialect::Call calls[] = {
    {ExprOp::abs, "fabsf", "fabs"},     {ExprOp::exp, "expf", "exp"},       {ExprOp::exp2, "exp2f", "exp2"},
    {ExprOp::expm1, "expm1f", "expm1"}, {ExprOp::log, "logf", "log"},       {ExprOp::log2, "log2f", "log2"},
    {ExprOp::log10, "log10f", "log10"}, {ExprOp::log1p, "log1pf", "log1p"}, {ExprOp::sqrt, "sqrtf", "sqrt"},
    {ExprOp::rsqrt, "rsqrtf", "rsqrt"}, {ExprOp::sin, "sinf", "sin"},       {ExprOp::cos, "cosf", "cos"},
    {ExprOp::tan, "tanf", "tan"},       {ExprOp::asin, "asinf", "asin"},    {ExprOp::acos, "acosf", "acos"},
    {ExprOp::atan, "atanf", "atan"},    {ExprOp::sinh, "sinhf", "sinh"},    {ExprOp::cosh, "coshf", "cosh"},
    {ExprOp::tanh, "tanhf", "tanh"},    {ExprOp::asinh, "asinhf", "asinh"}, {ExprOp::acosh, "acoshf", "acosh"},
    {ExprOp::atanh, "atanhf", "atanh"}, {ExprOp::erf, "erff", "erf"},       {ExprOp::erfc, "erfcf", "erfc"},
    {ExprOp::floor, "floorf", "floor"}, {ExprOp::ceil, "ceilf", "ceil"},    {ExprOp::round, "rintf", "rint"},
    {ExprOp::trunc, "truncf", "trunc"}, {ExprOp::isnan, "isnan", "isnan"},  {ExprOp::pow, "powf", "pow"},
    {ExprOp::fmod, "fmodf", "fmod"},    {ExprOp::atan2, "atan2f", "atan2"},
};

constexpr auto helpers = joined(print_cuda::elements, print_cuda::floats);

}  // namespace

constinit const Dialect cuda_dialect{
    .name = "CUDA C++",
    .file_extension = ".cu",
    .scalars = {"bool", "long long", "float", "double"},
    .narrow = "int",
    .uint = "unsigned",
    .ulong = "unsigned long long",
    .long_suffix = "LL",
    .elements = {{{"unsigned char", "({0} != 0)", "{0}"},
                  {"unsigned char", "{0}", "(unsigned char){0}"},
                  {"signed char", "{0}", "(signed char){0}"},
                  {"short", "{0}", "(short){0}"},
                  {"int", "{0}", "(int){0}"},
                  {"long long", "{0}", "{0}"},
                  {"f16", "f16_to_float({0})", "float_to_f16({0})"},
                  {"bf16", "bf16_to_float({0})", "float_to_bf16({0})"},
                  {"float", "{0}", "{0}"},
                  {"double", "{0}", "{0}"}}},
    .prologue = "",
    .kernel = "extern \"C\" __global__ void __launch_bounds__({2}) {0}(\n    {1}) {{\n",
    .read_arg = "const {0}*{3} {1}",
    .write_arg = "{0}*{3} {1}",
    .no_alias = " __restrict__",
    .trap_arg = "int* __restrict__ trap",
    .index_args = "",
    .block = "blockIdx.x",
    .thread = "threadIdx.x",
    .shared = "__shared__ {0} {1}[{2}];",
    .barrier = "__syncthreads();",
    .memory_barrier = "__syncthreads();",
    .argument_space = "",
    .shared_space = "",
    .shuffles = {"", "__shfl_xor_sync(0xffffffffu, {0}, {1})", "__shfl_xor_sync(0xffffffffu, {0}, {1})",
                 "__shfl_xor_sync(0xffffffffu, {0}, {1})"},
    .quotients = true,
    .exp_near = "exp_near({0})",
    .exp_next_to_one = "exp2_near({0} * 1.44269504f)",
    .quotient_near = "quotient_near({0}, {1})",
    .words = "Lanes<{0}, {1}>",
    .function = "__device__ __forceinline__",
    .trap_type = "int*",
    .raise = "*trap = code;",
    .calls = calls,
    .helpers = helpers,
    .max_threads = 1024,
    .max_args = 500,  // 4 KiB of parameters
    .max_blocks = 0x7fffffff,
};

}  // namespace npusim
