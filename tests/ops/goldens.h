// PyTorch's answers by operator: the files of tests/ops/golden, of which one pair has those of a whole family.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npusim/tensor_set.h"

namespace npusim::test {

struct GoldenSample {
  std::string name;
  std::string prefix;  // of its tensors' names
  nlohmann::json ir;
};

// Of a family's files, which may be long, only what is of the operator is parsed: every case of ctest is a process.
std::vector<std::string> golden_ops();                            // sorted
std::vector<GoldenSample> golden_samples(const std::string& op);  // none of an unknown one
std::shared_ptr<const TensorSet> golden_tensors(const std::string& op);

}  // namespace npusim::test
