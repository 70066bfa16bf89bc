// Memory is read before and behind each launch; the interpreter has a copy of what was before.
#include "compiler/bisect_launches.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

#include "base/error.h"
#include "kernel/evaluate.h"
#include "program/program.h"

namespace npusim {
namespace {

constexpr std::byte unwritten{0xa5};  // what the interpreter leaves is compared: the rest of a buffer is nobody's

using Memory = std::map<int32_t, std::vector<std::byte>>;  // by buffer

// Twice what a step of the dtype is; of float32 what sums in another order leave of numbers that cancel.
double rounding_of(DType dtype) { return dtype == DType::bf16 ? 0x1p-6 : dtype == DType::f16 ? 0x1p-9 : 1e-4; }

// Of the elements that the interpreter wrote.
double distance(DType dtype, const std::vector<std::byte>& expected, const std::vector<std::byte>& found) {
  const size_t size = dtype_size(dtype);
  double apart = 0, whole = 0;
  for (size_t i = 0; i < std::min(expected.size(), found.size()) / size; ++i) {
    const std::byte* const element = expected.data() + i * size;
    if (std::all_of(element, element + size, [](std::byte b) { return b == unwritten; })) continue;
    const auto at = static_cast<int64_t>(i);
    const double a = load_double(expected.data(), dtype, at), b = load_double(found.data(), dtype, at);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(a)) whole += a * a;
      continue;
    }
    if (!std::isfinite(a) || !std::isfinite(b)) return std::numeric_limits<double>::infinity();
    apart += (a - b) * (a - b), whole += a * a;
  }
  return apart == 0 ? 0 : std::sqrt(apart / (whole == 0 ? 1 : whole));  // beside zeros: what there is
}

// Of the elements that the interpreter wrote; from zeros where nothing was found. Beside none that is no number.
double largest_difference(DType dtype, const std::vector<std::byte>& expected, const std::vector<std::byte>& found) {
  const size_t size = dtype_size(dtype);
  double largest = 0;
  for (size_t i = 0; i < (found.empty() ? expected.size() : std::min(expected.size(), found.size())) / size; ++i) {
    const std::byte* const element = expected.data() + i * size;
    if (std::all_of(element, element + size, [](std::byte b) { return b == unwritten; })) continue;
    const auto at = static_cast<int64_t>(i);
    const double a = load_double(expected.data(), dtype, at),
                 b = found.empty() ? 0 : load_double(found.data(), dtype, at);
    if (std::isfinite(a - b)) largest = std::max(largest, std::fabs(a - b));
  }
  return largest;
}

class Launches {
 public:
  explicit Launches(Session& session) : s_(session), p_(session.program()), m_(session.program().methods[0]) {}

  std::vector<ExecutedSteps> run(const std::function<void(size_t)>& before) {
    std::vector<ExecutedSteps> all;
    for (size_t first = 0, launch = 0; first < m_.steps.size();) {
      while (launch < m_.launches.size() && static_cast<size_t>(m_.launches[launch].first) < first) ++launch;
      const bool launched = launch < m_.launches.size() && static_cast<size_t>(m_.launches[launch].first) == first;
      ExecutedSteps one{first, launched ? static_cast<size_t>(m_.launches[launch].count) : 1, 0, 0,
                        s_.step_info(size_t{0}, first).how};
      before(first);
      compare(one);
      first += one.count;
      all.push_back(std::move(one));
    }
    return all;
  }

 private:
  const Step& step(size_t n) const { return m_.steps[n]; }
  const Kernel& kernel(size_t n) const { return p_.kernels[static_cast<size_t>(step(n).kernel)]; }
  const Buffer& buffer(int32_t id) const { return p_.buffers[static_cast<size_t>(id)]; }

  void compare(ExecutedSteps& e) {
    bool comparable = true;
    for (size_t n = e.first; n < e.first + e.count; ++n)
      comparable = comparable && !step(n).is_transfer() && !kernel(n).call;
    Memory memory;
    if (comparable)
      for (size_t n = e.first; n < e.first + e.count; ++n) take(n, memory);
    for (size_t n = e.first; n < e.first + e.count; ++n) s_.run_step(size_t{0}, n);
    if (!comparable) return;
    Memory written;  // as it was
    for (size_t n = e.first; n < e.first + e.count; ++n)
      for (size_t i = 0; i < step(n).buffers.size(); ++i)
        if (kernel(n).args[i].written) written.try_emplace(step(n).buffers[i], memory.at(step(n).buffers[i]));
    try {
      interpret(e, memory);
    } catch (const Error& error) {
      e.problem = error.what();
      e.distance = std::numeric_limits<double>::infinity();
      return;
    }
    for (size_t n = e.first; n < e.first + e.count; ++n)
      for (size_t i = 0; i < step(n).buffers.size(); ++i) {
        const int32_t id = step(n).buffers[i];
        if (!kernel(n).args[i].written || buffer(id).kind == BufferKind::local) continue;
        const DType dtype = kernel(n).args[i].dtype;
        e.distance = std::max(e.distance, distance(dtype, memory.at(id), s_.step_memory(size_t{0}, n, i)));
        e.rounding = std::max(e.rounding, rounding_of(dtype));
      }
    if (e.distance > e.rounding && has_cancelled(e, memory))
      e.rounding = std::max(e.rounding, from_noise(e, memory, std::move(written)));
  }

  // Whether all that the launch left is near what the interpreter did, beside the largest of what either read.
  bool has_cancelled(const ExecutedSteps& e, const Memory& memory) const {
    double operand = 0, difference = 0;
    for (size_t n = e.first; n < e.first + e.count; ++n)
      for (size_t i = 0; i < step(n).buffers.size(); ++i) {
        const int32_t id = step(n).buffers[i];
        const KernelArg& arg = kernel(n).args[i];
        if (buffer(id).kind == BufferKind::local) continue;
        const std::vector<std::byte>& expected = memory.at(id);
        if (!arg.written)
          operand = std::max(operand, largest_difference(arg.dtype, expected, {}));
        else
          difference = std::max(difference, largest_difference(arg.dtype, expected, s_.step_memory(size_t{0}, n, i)));
      }
    return difference <= cancelled * operand;
  }

  void interpret(const ExecutedSteps& e, Memory& memory) const {
    for (size_t n = e.first; n < e.first + e.count; ++n) {
      std::vector<void*> args;
      for (const int32_t id : step(n).buffers) args.push_back(memory.at(id).data());
      evaluate(kernel(n), args);
    }
  }

  // How far the launch's results go from what the interpreter left in `memory` where operands of float32 are some
  // roundings away: far where what is summed cancels. `noisy` is what it writes, as it was.
  double from_noise(const ExecutedSteps& e, const Memory& memory, Memory noisy) const {
    const Memory first = noisy;
    for (size_t n = e.first; n < e.first + e.count; ++n)
      for (size_t i = 0; i < step(n).buffers.size(); ++i) {
        const auto& [id, bytes] = *memory.find(step(n).buffers[i]);
        if (noisy.contains(id)) continue;
        add_noise(kernel(n).args[i].dtype, noisy.emplace(id, bytes).first->second);
      }
    interpret(e, noisy);
    double far = 0;
    for (size_t n = e.first; n < e.first + e.count; ++n)
      for (size_t i = 0; i < step(n).buffers.size(); ++i)
        if (const int32_t id = step(n).buffers[i]; first.contains(id) && buffer(id).kind != BufferKind::local)
          far = std::max(far, distance(kernel(n).args[i].dtype, memory.at(id), noisy.at(id)));
    return far;
  }

  // What the step reads that no step of the launch before it wrote, and room for what it writes.
  void take(size_t n, Memory& memory) {
    for (const bool written : {false, true})
      for (size_t i = 0; i < step(n).buffers.size(); ++i) {
        const KernelArg& arg = kernel(n).args[i];
        const int32_t id = step(n).buffers[i];
        if (arg.written != written || memory.contains(id)) continue;
        std::vector<std::byte>& bytes = memory[id];
        if (!written && buffer(id).kind != BufferKind::local) bytes = s_.step_memory(size_t{0}, n, i);
        bytes.resize(std::max(bytes.size(), static_cast<size_t>(arg.elements) * dtype_size(arg.dtype)), unwritten);
      }
  }

  Session& s_;
  const Program& p_;
  const Method& m_;
};

}  // namespace

void add_noise(DType dtype, std::vector<std::byte>& bytes) {
  if (dtype != DType::f32) return;
  std::mt19937 random(1);
  for (int64_t i = 0; i < static_cast<int64_t>(bytes.size() / dtype_size(dtype)); ++i)
    store_double(bytes.data(), dtype, i, load_double(bytes.data(), dtype, i) * (1 + (random() % 2 ? 1 : -1) * 0x1p-20));
}

std::vector<ExecutedSteps> compare_launches(Session& session, const std::function<void(size_t)>& before) {
  return Launches(session).run(before);
}

}  // namespace npusim
