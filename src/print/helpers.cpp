// Functions that printed kernels of every dialect may call: wrapping integers, checked indices, reductions of a warp.
#include <fmt/format.h>

#include <algorithm>

#include "print/writer.h"

namespace npusim {
namespace {

constexpr Dialect::Helper shared_helpers[] = {
    {"check_index", R"($fn bool check_index($long index, $long extent, $trap trap, int code) {
  if (index >= 0 && index < extent) return true;
  $raise
  return false;
})"},
    {"required", R"($fn bool required(bool holds, $trap trap, int code) {
  if (holds) return true;
  $raise
  return false;
})"},
    {"wrap_add", "$fn $long wrap_add($long a, $long b) { return ($long)(($ulong)a + ($ulong)b); }"},
    {"wrap_sub", "$fn $long wrap_sub($long a, $long b) { return ($long)(($ulong)a - ($ulong)b); }"},
    {"wrap_mul", "$fn $long wrap_mul($long a, $long b) { return ($long)(($ulong)a * ($ulong)b); }"},
    {"wrap_abs", "$fn $long wrap_abs($long a) { return a < 0 ? wrap_sub(0, a) : a; }"},
    {"int_shl", "$fn $long int_shl($long a, $long b) { return b < 0 || b > 63 ? 0 : ($long)(($ulong)a << b); }"},
    {"int_shr", "$fn $long int_shr($long a, $long b) { return a >> (b < 0 || b > 63 ? 63 : b); }"},
    {"int_div", R"($fn $long int_div($long a, $long b, $trap trap, int code) {
  if (b == 0) {
    $raise
    return 0;
  }
  return b == -1 ? wrap_sub(0, a) : a / b;
})"},
    {"int_rem", R"($fn $long int_rem($long a, $long b, $trap trap, int code) {
  if (b == 0) {
    $raise
    return 0;
  }
  return b == -1 ? 0 : a % b;
})"},
    {"int_pow", R"($fn $long int_pow($long base, $long exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  $long result = 1;
  for (; exponent; exponent >>= 1, base = wrap_mul(base, base))
    if (exponent & 1) result = wrap_mul(result, base);
  return result;
})"},
    {"to_integer", R"($fn $long to_integer(float x) {
  return x >= -9223372036854775808.0f && x < 9223372036854775808.0f ? ($long)x : ($long)(($ulong)1 << 63);
})"},
    {"to_integer_double", R"($fn $long to_integer_double(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? ($long)x : ($long)(($ulong)1 << 63);
})"},
    {"nan_min", "$fn float nan_min(float a, float b) { return a < b || a != a ? a : b; }"},
    {"nan_max", "$fn float nan_max(float a, float b) { return a > b || a != a ? a : b; }"},
    {"nan_min_double", "$fn double nan_min_double(double a, double b) { return a < b || a != a ? a : b; }"},
    {"nan_max_double", "$fn double nan_max_double(double a, double b) { return a > b || a != a ? a : b; }"},
};

std::string filled(std::string_view text, const Dialect& d) {
  const std::pair<std::string_view, std::string_view> fields[] = {
      {"$fn", d.function},
      {"$long", d.scalars[static_cast<size_t>(Scalar::i64)]},
      {"$ulong", d.ulong},
      {"$trap", d.trap_type},
      {"$raise", d.raise}};
  std::string out(text);
  for (const auto& [from, to] : fields)
    for (size_t at = 0; (at = out.find(from, at)) != std::string::npos; at += to.size())
      out.replace(at, from.size(), to);
  return out;
}

std::string warp_reduction(const Dialect& d, Reduction reduction, Scalar type) {
  const std::string_view real = type == Scalar::f64 ? "_double" : "";
  const std::string_view scalar = d.scalars[static_cast<size_t>(type)];
  const bool ints = type == Scalar::i64;
  std::string_view format;
  switch (reduction) {
    case Reduction::sum:
      format = ints ? "wrap_add(x, {1})" : "x + {1}";
      break;
    case Reduction::product:
      format = ints ? "wrap_mul(x, {1})" : "x * {1}";
      break;
    case Reduction::min:
      format = ints ? "min(x, ({2}){1})" : "nan_min{0}(x, {1})";
      break;
    case Reduction::max:
      format = ints ? "max(x, ({2}){1})" : "nan_max{0}(x, {1})";
      break;
  }
  const std::string other = fmt::format(fmt::runtime(d.shuffles[static_cast<size_t>(type)]), "x", "mask");
  return fmt::format("{} {} {}({} x) {{\n  for (int mask = {}; mask > 0; mask /= 2) x = {};\n  return x;\n}}",
                     d.function, scalar, warp_reduction_name(reduction, type), scalar, d.warp / 2,
                     fmt::format(fmt::runtime(format), real, other, scalar));
}

}  // namespace

std::string warp_reduction_name(Reduction reduction, Scalar type) {
  const std::string_view suffix = type == Scalar::f64 ? "_double" : type == Scalar::i64 ? "_long" : "";
  return fmt::format("warp_{}{}", reduction_name(reduction), suffix);
}

std::vector<std::pair<std::string, std::string>> printed_helpers(const Dialect& d) {
  std::vector<std::pair<std::string, std::string>> helpers;
  for (const Dialect::Helper& h : d.helpers) helpers.emplace_back(h.name, filled(h.text, d));
  for (const Dialect::Helper& h : shared_helpers) {
    const auto same = [&](const Dialect::Helper& own) { return own.name == h.name; };
    if (std::none_of(d.helpers.begin(), d.helpers.end(), same)) helpers.emplace_back(h.name, filled(h.text, d));
  }
  for (Scalar type : {Scalar::i64, Scalar::f32, Scalar::f64})
    for (Reduction r : {Reduction::sum, Reduction::product, Reduction::min, Reduction::max})
      if (!d.shuffles[static_cast<size_t>(type)].empty())
        helpers.emplace_back(warp_reduction_name(r, type), warp_reduction(d, r, type));
  return helpers;
}

}  // namespace npusim
