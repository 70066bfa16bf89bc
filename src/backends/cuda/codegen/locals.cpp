// A kernel of the same space whose results are one element each.
#include "backends/cuda/codegen/locals.h"

#include <fmt/format.h>

#include <cmath>

#include "print/print.h"

namespace npusim::cuda::codegen {

PointValues::PointValues(const Kernel& kernel, bool stores) {
  own_.name = kernel.name;
  own_.space = kernel.space;
  own_.accesses = kernel.accesses;
  own_.exprs = kernel.exprs;
  for (const KernelArg& arg : kernel.args)
    if (!arg.written) own_.args.push_back(arg);
  reads_ = static_cast<int>(own_.args.size());
  if (!stores) return;
  written_.assign(kernel.args.begin() + reads_, kernel.args.end());
  writes_ = static_cast<int>(written_.size());
  own_.stores = kernel.stores;
  for (Store& s : own_.stores) s.access.arg -= reads_;
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
  Access to{.arg = static_cast<int>(written_.size()),
            .offset = 0,
            .strides = std::vector<int64_t>(own_.space.size(), 0),
            .guards = std::move(guards),
            .terms = std::move(terms)};
  written_.push_back({dtype, 1, true, -1});
  own_.stores.push_back({std::move(to), expr, false});
}

std::string PointValues::print(const std::string& name, const std::vector<PointPosition>& positions) {
  Kernel whole = own_;
  const auto before = static_cast<int>(whole.args.size());
  whole.args.insert(whole.args.end(), written_.begin(), written_.end());
  for (Store& s : whole.stores) s.access.arg += before;
  return print_point(whole, cuda_dialect, {name, positions});
}

std::string PointValues::call(const std::string& name, const std::vector<std::string>& positions,
                              const std::vector<std::string>& given, const std::vector<std::string>& taken) const {
  std::vector<std::string> passed;
  for (int i = 0; i < reads_; ++i) passed.push_back(fmt::format("in{}", i));
  passed.insert(passed.end(), given.begin(), given.end());
  for (int i = 0; i < writes_; ++i) passed.push_back(fmt::format("out{}", i));
  passed.insert(passed.end(), taken.begin(), taken.end());
  if (takes_trap(own_)) passed.emplace_back("trap");
  passed.insert(passed.end(), positions.begin(), positions.end());
  return fmt::format("{}({}, 0);", name, fmt::join(passed, ", "));
}

std::string combination_text(const std::string& name, DType dtype, Reduction r, bool log_of_sum) {
  const Scalar type = scalar_of(dtype);
  Kernel two;
  two.name = name;
  two.space = {1};
  two.args = {{dtype, 1, false, -1}, {dtype, 1, false, -1}, {dtype, 1, true, -1}};
  const auto add = [&](ExprOp op, Scalar of, std::array<int32_t, 3> in) {
    two.exprs.push_back({.op = op, .type = of, .in = in});
    return static_cast<int32_t>(two.exprs.size()) - 1;
  };
  for (const int arg : {0, 1}) {
    two.accesses.push_back({.arg = arg, .offset = 0, .strides = {0}, .guards = {}, .terms = {}});
    two.exprs.push_back({.op = ExprOp::load, .type = type, .integer = arg});
  }
  constexpr ExprOp ops[] = {ExprOp::add, ExprOp::mul, ExprOp::min, ExprOp::max};
  const bool either = r == Reduction::sum || r == Reduction::max;
  int32_t both = 0;
  if (log_of_sum) {  // of what is equal, infinities too, no difference is taken
    const int32_t low = add(ExprOp::min, type, {0, 1, -1}), high = add(ExprOp::max, type, {0, 1, -1}),
                  apart = add(ExprOp::exp, type, {add(ExprOp::sub, type, {low, high, -1}), -1, -1}),
                  sum = add(ExprOp::add, type, {high, add(ExprOp::log1p, type, {apart, -1, -1}), -1});
    two.exprs.push_back({.op = ExprOp::constant, .type = type, .number = std::log(2.0)});
    const int32_t twice = add(ExprOp::add, type, {0, static_cast<int32_t>(two.exprs.size()) - 1, -1});
    both = add(ExprOp::select, type, {add(ExprOp::eq, Scalar::boolean, {0, 1, -1}), twice, sum});
  } else if (type == Scalar::boolean) {
    both = add(either ? ExprOp::bit_or : ExprOp::bit_and, type, {0, 1, -1});
  } else {
    both = add(ops[static_cast<size_t>(r)], type, {0, 1, -1});
  }
  two.stores.push_back({{.arg = 2, .offset = 0, .strides = {0}, .guards = {}, .terms = {}}, both, false});
  return print_point(two, cuda_dialect, {name, {}});
}

DType held_dtype(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype; }

std::string_view held_type(DType dtype) { return cuda_dialect.elements[static_cast<size_t>(held_dtype(dtype))].type; }

}  // namespace npusim::cuda::codegen
