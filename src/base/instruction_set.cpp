// Finding the machine's instruction set, and the limit from the environment.
#include "base/instruction_set.h"

#include <hwy/targets.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "base/error.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace npusim {
namespace {

struct Row {
  InstructionSet set;
  const char *value, *name;  // in the environment, in reports
  int64_t better;            // Highway's targets that need more: the better one is, the lower its bit
};
#if defined(__x86_64__)
constexpr Row rows[] = {{InstructionSet::sse4, "sse4", "SSE4", HWY_SSE4 - 1},
                        {InstructionSet::avx2, "avx2", "AVX2", HWY_AVX2 - 1},
                        {InstructionSet::avx512, "avx512", "AVX-512", HWY_AVX3_DL - 1},
                        {InstructionSet::avx512_bf16, "avx512_bf16", "AVX-512 with bfloat16", 0},
                        {InstructionSet::amx, "amx", "AMX", 0}};
#else
constexpr Row rows[] = {{InstructionSet::portable, "portable", "portable vectors", 0}};
#endif

const Row& row_of(InstructionSet set) {
  return *std::find_if(std::begin(rows), std::end(rows) - 1, [&](const Row& row) { return row.set >= set; });
}

InstructionSet find_machine() {
#if defined(__x86_64__)
  const int64_t targets = hwy::SupportedTargets();
  if (!(targets & (HWY_AVX3 | HWY_AVX3_DL))) return targets & HWY_AVX2 ? InstructionSet::avx2 : InstructionSet::sse4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned bf16 = 1u << 5, amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & bf16)) return InstructionSet::avx512;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & amx_bf16) || !(d & amx_tile))
    return InstructionSet::avx512_bf16;
  return InstructionSet::amx;
#else
  return InstructionSet::portable;
#endif
}

struct Choice {
  InstructionSet machine, used;
};

Choice choose() {
  Choice choice;
  choice.machine = choice.used = find_machine();
  const char* value = std::getenv("NPUSIM_ISA");
  if (!value || !*value) return choice;
  std::string known;
  for (const Row& row : rows) {
    known += (known.empty() ? "" : ", ") + std::string(row.value);
    if (row.value != std::string_view(value)) continue;
    choice.used = std::min(choice.machine, row.set);
    if (choice.used < choice.machine) hwy::DisableTargets(row.better);
    return choice;
  }
  fail(ErrorKind::usage, "NPUSIM_ISA: there is no instruction set '{}': expected {}", value, known);
}

const Choice& choice() {
  static const Choice made = choose();
  return made;
}

}  // namespace

InstructionSet instruction_set() { return choice().used; }
bool instruction_set_is_limited() { return choice().used < choice().machine; }
const char* instruction_set_name() { return row_of(choice().used).name; }

}  // namespace npusim
