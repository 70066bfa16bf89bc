// A model compiled, loaded and run through the public interface, and what its answers are compared by.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "materialize.h"
#include "npusim/compare.h"
#include "npusim/compiler.h"
#include "npusim/session.h"
#include "program/program.h"
#include "runtime/tensor_set.h"

namespace npusim {

// Allocations by operator new since the process began. oneDNN's execute() makes its own for every primitive, which its
// callers can do nothing about: they are counted apart.
struct AllocationCount {
  int64_t own = 0, in_onednn = 0;
};
AllocationCount allocation_count();

// A program ready to run in the executable's place (random/place.h).
struct Model {
  std::shared_ptr<const Program> program;
  std::unique_ptr<Session> session;
  int64_t onednn_allocations = 0;  // of the last run
};
Model load_model(const std::vector<MethodSource>& methods, const std::string& weights, const std::string& dtype,
                 const std::string& kv_map = "");
Model load_model(const std::vector<MethodSource>& methods, const std::string& weights, const CompileOptions& options);

// Writes the inputs, by name, runs, checks that npusim allocated nothing, and returns every output.
std::vector<HostTensor> run_model(Model& model, const std::string& method, const TensorSet& inputs);

// The first golden.size() elements of `found` against `golden`: 1 − r, r being Pearson's.
double one_minus_r(const std::vector<double>& found, const std::vector<double>& golden);
// Of the same elements: the norm of the difference by that of the golden.
double relative_l2(const std::vector<double>& found, const std::vector<double>& golden);
// Whole rows of `row` golden elements whose largest leads by more than 2 % of the golden's standard deviation, and in
// which another element of `found` is the largest.
int64_t argmax_differences(const std::vector<double>& found, const std::vector<double>& golden, int64_t row);

// How far an answer may be from its golden. All of it is asked for: r sees neither a scale nor a shift, the norms
// hardly see one element, and the largest of a row is what a classifier says.
struct Bars {
  double one_minus_r = 0, relative_l2 = 0;
};
void expect_close(const std::vector<double>& found, const std::vector<double>& golden, int64_t row, const Bars& bars,
                  const std::string& what);

// describe(): the report as JSON, of one method.
nlohmann::json method_report(const Program& program, const std::string& method);

}  // namespace npusim
