// A third dialect is a table: OpenCL C, checked by clang's front end. No line of the printer knows of it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "groups.h"
#include "print/print.h"
#include "samples.h"

namespace npusim {
namespace {

constexpr Dialect::Call calls[] = {
    {ExprOp::abs, "fabs", "fabs"},     {ExprOp::exp, "exp", "exp"},       {ExprOp::exp2, "exp2", "exp2"},
    {ExprOp::expm1, "expm1", "expm1"}, {ExprOp::log, "log", "log"},       {ExprOp::log2, "log2", "log2"},
    {ExprOp::log10, "log10", "log10"}, {ExprOp::log1p, "log1p", "log1p"}, {ExprOp::sqrt, "sqrt", "sqrt"},
    {ExprOp::rsqrt, "rsqrt", "rsqrt"}, {ExprOp::sin, "sin", "sin"},       {ExprOp::cos, "cos", "cos"},
    {ExprOp::tan, "tan", "tan"},       {ExprOp::asin, "asin", "asin"},    {ExprOp::acos, "acos", "acos"},
    {ExprOp::atan, "atan", "atan"},    {ExprOp::sinh, "sinh", "sinh"},    {ExprOp::cosh, "cosh", "cosh"},
    {ExprOp::tanh, "tanh", "tanh"},    {ExprOp::asinh, "asinh", "asinh"}, {ExprOp::acosh, "acosh", "acosh"},
    {ExprOp::atanh, "atanh", "atanh"}, {ExprOp::erf, "erf", "erf"},       {ExprOp::erfc, "erfc", "erfc"},
    {ExprOp::floor, "floor", "floor"}, {ExprOp::ceil, "ceil", "ceil"},    {ExprOp::round, "rint", "rint"},
    {ExprOp::trunc, "trunc", "trunc"}, {ExprOp::isnan, "isnan", "isnan"}, {ExprOp::pow, "pow", "pow"},
    {ExprOp::fmod, "fmod", "fmod"},    {ExprOp::atan2, "atan2", "atan2"},
};

constexpr Dialect::Helper helpers[] = {
    {"bf16_to_float", "$fn float bf16_to_float(ushort bits) { return as_float((uint)bits << 16); }"},
    {"float_to_bf16", R"($fn ushort float_to_bf16(float x) {
  const uint bits = as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)((bits >> 16) | 0x40u);
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
})"},
};

constinit const Dialect opencl_dialect{
    .name = "OpenCL C",
    .file_extension = ".cl",
    .scalars = {"bool", "long", "float", "double"},
    .narrow = "int",
    .uint = "uint",
    .ulong = "ulong",
    .long_suffix = "L",
    .elements = {{{"uchar", "({0} != 0)", "(uchar){0}"},
                  {"uchar", "{0}", "(uchar){0}"},
                  {"char", "{0}", "(char){0}"},
                  {"short", "{0}", "(short){0}"},
                  {"int", "{0}", "(int){0}"},
                  {"long", "{0}", "{0}"},
                  {"half", "(float)({0})", "(half)({0})"},
                  {"ushort", "bf16_to_float({0})", "float_to_bf16({0})"},
                  {"float", "{0}", "{0}"},
                  {"double", "{0}", "{0}"}}},
    .prologue = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n",
    .kernel = "kernel void {0}(\n    {1}) {{\n",
    .read_arg = "global const {0}*{3} {1}",
    .write_arg = "global {0}*{3} {1}",
    .no_alias = " restrict",
    .trap_arg = "global int* restrict trap",
    .index_args = "",
    .block = "(uint)get_group_id(0)",
    .thread = "(uint)get_local_id(0)",
    .shared = "local {0} {1}[{2}];",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE);",
    .memory_barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    .argument_space = "global ",
    .shared_space = "local ",
    .shuffles = {"", "sub_group_shuffle_xor({0}, {1})", "sub_group_shuffle_xor({0}, {1})",
                 "sub_group_shuffle_xor({0}, {1})"},
    .function = "static inline",
    .trap_type = "global int*",
    .raise = "*trap = code;",
    .calls = calls,
    .helpers = helpers,
    .max_threads = 256,
    .max_args = 128,
    .max_blocks = 0x7fffffff,
};

TEST(Print, third_dialect_is_a_table) {
  const std::string compiler =
      "clang++-19 -x cl -cl-std=CL3.0 -Xclang -cl-ext=+all --target=spir64 -fsyntax-only "
      "-Xclang -finclude-default-header -Wall -Wno-unused-function -Wno-unused-variable ";
  if (std::system("clang++-19 --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "SKIP: no clang++-19";
  std::vector<PrintSample> samples = print_samples();
  std::vector<const Kernel*> kernels;
  for (const PrintSample& sample : samples) {
    EXPECT_EQ(cannot_print(sample.kernel, opencl_dialect), std::nullopt) << sample.name;
    kernels.push_back(&sample.kernel);
  }
  const auto path = std::filesystem::temp_directory_path() / ("npusim_print_" + std::to_string(std::rand()) + ".cl");
  std::vector<Scheduled> scheduled;
  for (const Kernel* kernel : kernels) scheduled.push_back({kernel, choose_schedule(*kernel, opencl_dialect)});
  std::string functions = print_functions(scheduled, opencl_dialect);
  const std::vector<GroupSample> groups = group_samples();
  for (const GroupSample& sample : groups) functions += print_group(sample.group, opencl_dialect);
  std::ofstream(path) << with_helpers(functions, opencl_dialect);
  EXPECT_EQ(std::system((compiler + path.string()).c_str()), 0) << "see the messages of " << compiler;
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace npusim
