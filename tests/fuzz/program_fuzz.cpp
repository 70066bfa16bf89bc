// Fuzzes the .npubin reader: a hostile file gives an Error, or a program that is written as the same bytes again and
// that can be run: check_program promises that nothing it does leaves its memory.
#include <cstdlib>

#include "base/error.h"
#include "base/hash.h"
#include "npusim/program.h"
#include "run_program.h"

// The input is a whole file; its size and checksum are put right, as an attacker would.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npusim;
  constexpr size_t header = 7 + 4 + 8;
  std::string file(reinterpret_cast<const char*>(data), size);
  if (size >= header + 8) {
    for (size_t i = 0; i < 8; ++i) file[11 + i] = static_cast<char>((size - header - 8) >> (8 * i));
    const uint64_t hash = hash_bytes(std::string_view(file).substr(0, size - 8));
    for (size_t i = 0; i < 8; ++i) file[size - 8 + i] = static_cast<char>(hash >> (8 * i));
  }
  try {
    const Program program = deserialize(file, "fuzz");
    if (serialize(program) != file) std::abort();
    describe(program, false);
    describe(program, true);
    describe_steps(program, false);
    describe_steps(program, true);
    if (hostile::is_small(program)) hostile::run_program(program);
  } catch (const Error&) {
  }
  return 0;
}
