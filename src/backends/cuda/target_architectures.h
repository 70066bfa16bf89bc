// What a user asks of the target by the list behind its name.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/target.h"

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

// What a device of the architecture has: the values of a config, and the section of it that is CUDA's own. Of one that
// is in no table, those of the newest before it.
Machine machine_of(const std::string& architecture);
// Throws usage for a machine that no device of the architecture is: with less memory for a block than all have, or more
// than it has.
void check_machine(const Machine& machine, const std::string& architecture);
std::map<std::string, int64_t> own_of(const std::string& architecture);
const std::vector<OwnRange>& own_ranges();

}  // namespace npusim::cuda
