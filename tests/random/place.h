// Where programs are compiled for and run: random ones, samples of operators, trained models. Each executable has its
// own.
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
