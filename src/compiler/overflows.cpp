// Follows large numbers from constants and weights through the kernels of a program to where they are stored.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/error.h"
#include "npusim/compiler.h"
#include "program/program.h"
#include "runtime/weights.h"

namespace npusim {
namespace {

// A finite number that float16 cannot hold, and what it is a number of ("": of a kernel).
struct Large {
  double number = 0;
  std::string origin;
};
using MaybeLarge = std::optional<Large>;

constexpr double largest_half = 65504;

MaybeLarge large(double number, const std::string& origin) {
  if (!std::isfinite(number) || std::fabs(number) <= largest_half) return std::nullopt;
  return Large{number, origin};
}

MaybeLarge largest_element(const TensorView& tensor, const std::string& origin) {
  double found = 0;
  for (int64_t i = 0; is_float(tensor.type.dtype) && i < element_count(tensor.type.shape); ++i) {
    const double x = load_double(tensor.data, tensor.type.dtype, i);
    if (std::isfinite(x) && std::fabs(x) > std::fabs(found)) found = x;
  }
  return large(found, origin);
}

// Only where something is stored in 16 bits a weight can overflow: those of other programs need not be read.
bool stores_halves(const Program& program) {
  return std::any_of(program.kernels.begin(), program.kernels.end(), [](const Kernel& kernel) {
    return std::any_of(kernel.args.begin(), kernel.args.end(), [](const KernelArg& arg) {
      return arg.written && is_float(arg.dtype) && dtype_size(arg.dtype) == 2;
    });
  });
}

class Finder {
 public:
  Finder(const Program& program, const TensorSet* weights) : program_(program), of_buffer_(program.buffers.size()) {
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const Buffer& buffer = program.buffers[b];
      if (buffer.kind == BufferKind::constant)
        of_buffer_[b] = largest_element(view_of(program.constants[static_cast<size_t>(buffer.constant)]),
                                        fmt::format("constant '{}'", buffer.name));
      if (buffer.kind != BufferKind::weight || !weights) continue;
      std::vector<Problem> problems;  // loading has reported them
      LocatedWeight weight = locate_weight(weights, buffer, problems);
      if (!weight) continue;
      const std::string origin = fmt::format("weight '{}'", buffer.fqn);
      if (const TensorView* file = weight.as_it_is())
        of_buffer_[b] = largest_element(*file, origin);
      else
        of_buffer_[b] = largest_element(view_of(make_weight(std::move(weight), buffer)), origin);
    }
  }

  std::vector<std::string> notes() {
    for (const Step& step : program_.recipes.steps) follow(step);
    for (const Method& method : program_.methods)
      for (const Step& step : method.steps) follow(step);
    std::vector<std::string> lines;
    for (const auto& [what, occurrences] : occurrences_) {
      const std::string more = occurrences.count > 1 ? fmt::format(" and {} more", occurrences.count - 1) : "";
      lines.push_back(fmt::format("node '{}'{}: {}", occurrences.first, more, what));
    }
    return lines;
  }

 private:
  struct Occurrences {
    std::string first;
    int64_t count = 0;
  };

  // What the expression takes from its operands as it is: sums, choices and multiples. Functions and comparisons of a
  // large number are none, and what one bounds is not it.
  MaybeLarge result(const Kernel& kernel, const Step& step, const Expr& e, const std::vector<MaybeLarge>& known) const {
    const auto operand = [&](int i) -> const MaybeLarge& {
      return known[static_cast<size_t>(e.in[static_cast<size_t>(i)])];
    };
    const auto first_of = [&](int i, int j) { return operand(i) ? operand(i) : operand(j); };
    switch (e.op) {
      case ExprOp::constant:
        return large(e.type == Scalar::f32 || e.type == Scalar::f64 ? e.number : static_cast<double>(e.integer), "");
      case ExprOp::load: {
        const Access& access = kernel.accesses[static_cast<size_t>(e.integer)];
        return of_buffer_[static_cast<size_t>(step.buffers[static_cast<size_t>(access.arg)])];
      }
      case ExprOp::neg:
        return operand(0) ? large(-operand(0)->number, operand(0)->origin) : std::nullopt;
      case ExprOp::sub:
        if (operand(0) || !operand(1)) return operand(0);
        return large(-operand(1)->number, operand(1)->origin);
      case ExprOp::add:
      case ExprOp::mul:
        return first_of(0, 1);
      case ExprOp::select:
        return first_of(1, 2);
      case ExprOp::cast:
      case ExprOp::round_to:
      case ExprOp::reduce:
      case ExprOp::scan:
        return operand(0);
      default:
        return std::nullopt;
    }
  }

  void follow(const Step& step) {
    if (step.is_transfer()) {
      of_buffer_[static_cast<size_t>(step.buffers[1])] = of_buffer_[static_cast<size_t>(step.buffers[0])];
      return;
    }
    const Kernel& kernel = program_.kernels[static_cast<size_t>(step.kernel)];
    if (kernel.call)
      for (const CallTensor& result : kernel.call->results)
        of_buffer_[static_cast<size_t>(step.buffers[static_cast<size_t>(result.arg)])] = {};
    std::vector<MaybeLarge> known;
    for (const Expr& e : kernel.exprs) known.push_back(result(kernel, step, e, known));
    for (const Store& store : kernel.stores) {
      const auto arg = static_cast<size_t>(store.access.arg);
      const DType dtype = kernel.args[arg].dtype;
      MaybeLarge stored = known[static_cast<size_t>(store.expr)];
      if (stored && is_float(dtype) && std::isinf(round_through(dtype, stored->number))) {
        const std::string of = stored->origin.empty() ? "" : " of " + stored->origin;
        Occurrences& occurrences =
            occurrences_[fmt::format("{:g}{} becomes {:g} in {}; --dtype float32 keeps it", stored->number, of,
                                     round_through(dtype, stored->number), dtype_name(dtype))];
        if (occurrences.count++ == 0) occurrences.first = step_name(program_, step);
        stored.reset();
      }
      of_buffer_[static_cast<size_t>(step.buffers[arg])] = stored;
    }
  }

  const Program& program_;
  std::vector<MaybeLarge> of_buffer_;
  std::map<std::string, Occurrences> occurrences_;  // by what happens
};

}  // namespace

std::vector<std::string> overflow_notes(const Program& program, const TensorSet* weights) {
  return stores_halves(program) ? Finder(program, weights).notes() : std::vector<std::string>{};
}

}  // namespace npusim
