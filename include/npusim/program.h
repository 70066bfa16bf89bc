// A compiled program as its users see it: load, save, describe, inputs and outputs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/tensor.h"

namespace npusim {

struct Program;  // src/program/program.h has the data

std::shared_ptr<const Program> load_program(const std::string& path);  // "-": standard input
void save_program(const Program& program, const std::string& path);    // whole or not at all
std::string describe(const Program& program, bool json);

struct TensorInfo {
  std::string name;
  TensorType type;
};
std::vector<std::string> method_names(const Program& program);
std::vector<TensorInfo> method_inputs(const Program& program, const std::string& method);
std::vector<TensorInfo> method_outputs(const Program& program, const std::string& method);

}  // namespace npusim
