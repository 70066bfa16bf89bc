// Fuzzes the IR reader: a hostile file gives an Error, and an accepted one a graph that passes the verifier.
#include <cstdlib>

#include "base/error.h"
#include "graph/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npusim;
  try {
    const Graph graph = import_ir({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!check_graph(graph).empty()) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
