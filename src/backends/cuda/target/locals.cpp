// A kernel of the same space whose results are one element each.
#include "backends/cuda/target/locals.h"

#include <fmt/format.h>

#include <algorithm>

#include "print/print.h"

namespace npusim::cuda {

PointValues::PointValues(const Kernel& kernel) {
  own_.name = kernel.name;
  own_.space = kernel.space;
  own_.accesses = kernel.accesses;
  own_.exprs = kernel.exprs;
  std::copy_if(kernel.args.begin(), kernel.args.end(), std::back_inserter(own_.args),
               [](const KernelArg& arg) { return !arg.written; });
  reads_ = static_cast<int>(own_.args.size());
}

int32_t PointValues::add(const Expr& e) {
  own_.exprs.push_back(e);
  return static_cast<int32_t>(own_.exprs.size()) - 1;
}

void PointValues::give(int32_t expr, DType dtype) {
  Expr& e = own_.exprs[static_cast<size_t>(expr)];
  own_.args.push_back({dtype, 1, false, -1});
  own_.accesses.push_back({.arg = static_cast<int>(own_.args.size()) - 1,
                           .offset = 0,
                           .strides = std::vector<int64_t>(own_.space.size(), 0),
                           .guards = {},
                           .terms = {}});
  e = {.op = ExprOp::load, .type = e.type, .integer = static_cast<int64_t>(own_.accesses.size()) - 1};
}

void PointValues::take(int32_t expr, DType dtype, std::vector<Guard> guards, std::vector<IndexTerm> terms) {
  for (Guard& g : guards) g.stride = 0;
  for (IndexTerm& t : terms) t.stride = 0;
  Access to{.arg = static_cast<int>(taken_.size()),
            .offset = 0,
            .strides = std::vector<int64_t>(own_.space.size(), 0),
            .guards = std::move(guards),
            .terms = std::move(terms)};
  taken_.push_back({dtype, 1, true, -1});
  own_.stores.push_back({std::move(to), expr, false});
}

std::string PointValues::print(const std::string& name, const std::vector<PointPosition>& positions) {
  Kernel whole = own_;
  const auto before = static_cast<int>(whole.args.size());
  whole.args.insert(whole.args.end(), taken_.begin(), taken_.end());
  for (Store& s : whole.stores) s.access.arg += before;
  return print_point(whole, cuda_dialect, {name, positions});
}

std::string PointValues::call(const std::string& name, const std::vector<std::string>& positions,
                              const std::vector<std::string>& given, const std::vector<std::string>& taken) const {
  std::vector<std::string> passed;
  for (int i = 0; i < reads_; ++i) passed.push_back(fmt::format("in{}", i));
  passed.insert(passed.end(), given.begin(), given.end());
  passed.insert(passed.end(), taken.begin(), taken.end());
  if (takes_trap(own_)) passed.emplace_back("trap");
  passed.insert(passed.end(), positions.begin(), positions.end());
  return fmt::format("{}({}, 0);", name, fmt::join(passed, ", "));
}

DType held_dtype(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

std::string_view held_type(DType dtype) { return cuda_dialect.elements[static_cast<size_t>(held_dtype(dtype))].type; }

}  // namespace npusim::cuda
