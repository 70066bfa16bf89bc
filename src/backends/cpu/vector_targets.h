// The instruction sets the vector loops are compiled for. Included before any Highway header.
#pragma once
#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
// AVX-512 is compiled once: targets above HWY_AVX3, which have lower bits, add nothing that is used here.
// With sanitizers they compile slowly, and a debug build is for all else: these have the least and the most.
#if defined(NPUSIM_SANITIZED) || !defined(NDEBUG)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX2 | (HWY_AVX3 - 1))
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1))
#endif
#endif
