// The launches of a program: planned, compiled, and candidates for tuning.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/codegen/generated.h"
#include "codegen/target.h"

namespace npusim::cuda {

struct CompileFor {
  std::vector<std::string> architectures;  // the lowest first
  codegen::Features features;
};
// As CodegenTarget::plan() and tuner().
void plan_launches(Program& program, const ProgramPlans& plans, const CompileFor& of, std::vector<std::string>& notes);
std::unique_ptr<const Tuner> make_tuner(const Program& program, CompileFor of);

}  // namespace npusim::cuda
