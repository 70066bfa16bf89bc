// Barriers, memory flags, numeric limits and type traits of MSL.
#pragma once
#pragma clang system_header
#include "msl_types.h"

namespace metal {
enum class mem_flags : unsigned {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8
};
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((unsigned)a | (unsigned)b); }
enum memory_order { memory_order_relaxed, memory_order_seq_cst = 5 };
MSLX_CONV inline __attribute__((always_inline)) void threadgroup_barrier(mem_flags f, unsigned l = __builtin_LINE(),
                                                                         unsigned c = __builtin_COLUMN()) {
  mslx_barrier((unsigned)f, l * 256 + c);
}
MSLX_CONV inline __attribute__((always_inline)) void simdgroup_barrier(mem_flags f, unsigned l = __builtin_LINE(),
                                                                       unsigned c = __builtin_COLUMN()) {
  mslx_simd_barrier((unsigned)f, l * 256 + c);
}

template <class T>
struct numeric_limits;
template <>
struct numeric_limits<float> {
  static constexpr float max() { return 3.402823466e38f; }
  static constexpr float lowest() { return -3.402823466e38f; }
  static constexpr float min() { return 1.17549435e-38f; }
  static constexpr float infinity() { return __builtin_inff(); }
  static constexpr float epsilon() { return 1.1920929e-7f; }
  static constexpr float quiet_NaN() { return __builtin_nanf(""); }
  static constexpr bool is_signed = true;
};
template <>
struct numeric_limits<half> {
  static constexpr half max() { return (half)65504.0f; }
  static constexpr half lowest() { return (half)-65504.0f; }
  static constexpr half min() { return (half)6.103515625e-05f; }
  static constexpr half infinity() { return (half)__builtin_inff(); }
  static constexpr half epsilon() { return (half)0.0009765625f; }
};
template <>
struct numeric_limits<bfloat> {
  static constexpr bfloat max() { return (bfloat)3.38953139e38f; }
  static constexpr bfloat lowest() { return (bfloat)-3.38953139e38f; }
  static constexpr bfloat infinity() { return (bfloat)__builtin_inff(); }
};
template <>
struct numeric_limits<int> {
  static constexpr int max() { return 2147483647; }
  static constexpr int lowest() { return -2147483647 - 1; }
  static constexpr int min() { return -2147483647 - 1; }
};
template <>
struct numeric_limits<uint> {
  static constexpr uint max() { return 4294967295u; }
  static constexpr uint lowest() { return 0; }
  static constexpr uint min() { return 0; }
};
#define MSLX_NL(T, lo, hi)                     \
  template <>                                  \
  struct numeric_limits<T> {                   \
    static constexpr T max() { return hi; }    \
    static constexpr T lowest() { return lo; } \
    static constexpr T min() { return lo; }    \
  };
MSLX_NL(uchar, 0, 255)
MSLX_NL(char, -128, 127)
MSLX_NL(signed char, -128, 127)
MSLX_NL(short, -32768, 32767)
MSLX_NL(ushort, 0, 65535)
MSLX_NL(long, -9223372036854775807l - 1, 9223372036854775807l)
MSLX_NL(ulong, 0, 18446744073709551615ul)
MSLX_NL(bool, false, true)

template <bool B, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  typedef T type;
};
template <bool B, class T = void>
using enable_if_t = typename enable_if<B, T>::type;
template <class T, T v>
struct integral_constant {
  static constexpr T value = v;
  typedef T value_type;
  constexpr operator T() const { return v; }
};
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;
template <bool B>
using bool_constant = integral_constant<bool, B>;
template <class A, class B>
struct is_same : false_type {};
template <class A>
struct is_same<A, A> : true_type {};
template <class A, class B>
constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, class T, class F>
struct conditional {
  typedef T type;
};
template <class T, class F>
struct conditional<false, T, F> {
  typedef F type;
};
template <bool B, class T, class F>
using conditional_t = typename conditional<B, T, F>::type;
template <class F, class T>
struct is_convertible : bool_constant<__is_convertible_to(F, T)> {};
template <class F, class T>
constexpr bool is_convertible_v = is_convertible<F, T>::value;
template <class T>
struct is_integral : bool_constant<__is_integral(T)> {};
template <class T>
constexpr bool is_integral_v = is_integral<T>::value;
template <class T>
struct is_signed : bool_constant<__is_signed(T)> {};
template <class T>
constexpr bool is_signed_v = is_signed<T>::value;
template <class T>
struct is_unsigned : bool_constant<__is_unsigned(T)> {};
template <class T>
constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T>
struct is_floating_point : bool_constant<is_same_v<T, float> || is_same_v<T, half> || is_same_v<T, bfloat>> {};
template <class T>
constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T>
struct make_unsigned {
  typedef __make_unsigned(T) type;
};
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;
template <class T>
struct remove_cv {
  typedef typename mslx::rmcv<T>::type type;
};
template <class T>
using remove_cv_t = typename remove_cv<T>::type;
template <class T>
using remove_reference_t = typename mslx::rmref<T>::type;
}  // namespace metal
