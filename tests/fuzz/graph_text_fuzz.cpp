// Fuzzes the parser of graph text: a hostile text gives an Error, and an accepted one prints to a text that stays.
#include <cstdlib>

#include "base/error.h"
#include "graph/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace npusim;
  Graph graph;
  try {
    graph = parse_graph({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) {
    return 0;
  }
  const std::string text = to_text(graph);
  if (to_text(parse_graph(text)) != text) std::abort();
  return 0;
}
