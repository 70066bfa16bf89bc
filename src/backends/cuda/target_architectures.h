// What a user asks of the target by the list behind its name.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace npusim::cuda {

// Which methods are one launch.
enum class Streams : uint8_t { none, fast, possible };

// Which architectures, and among them "stream": methods as one launch wherever they can be, on what has the
// instructions for it; or "graph": none is.
struct Asked {
  std::vector<std::string> names;
  std::optional<Streams> streams;
};

// Throws usage for a list with others.
Asked read_architectures(const std::string& list);

}  // namespace npusim::cuda
