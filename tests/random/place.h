// Where random programs run: the CPU, unless an executable has a place of its own.
#pragma once
#include <memory>
#include <vector>

#include "codegen/target.h"
#include "runtime/backend.h"

namespace npusim::test {

struct Place {
  const CodegenTarget* target = nullptr;  // that they are compiled for; what it refuses is refused
  std::vector<std::shared_ptr<Backend>> devices;
};
Place open_place();

}  // namespace npusim::test
