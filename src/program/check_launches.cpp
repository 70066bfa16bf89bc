// Walks the launches of a sequence along its steps.
#include "program/check_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace npusim {
namespace {

constexpr uint64_t max_threads = 1024;              // of a block
constexpr uint64_t max_blocks = uint64_t{1} << 46;  // of a grid
constexpr uint32_t max_shared_bytes = 1 << 20;      // of a block
constexpr uint64_t max_own_bytes = uint64_t{1} << 40;

class LaunchChecker {
 public:
  LaunchChecker(const Program& program, const Sequence& sequence)
      : program_(program),
        steps_(sequence.steps),
        covered_(steps_.size(), false),
        ahead_(program.devices.size(), false),
        owner_(program.buffers.size(), -1) {}

  std::vector<std::string> run(const std::vector<Launch>& launches) {
    for (size_t i = 0; i < launches.size() && problems_.empty(); ++i) {
      const std::string problem = check(launches[i], static_cast<int32_t>(i));
      if (!problem.empty()) problems_.push_back(fmt::format("launch {} '{}': {}", i, launches[i].symbol, problem));
    }
    if (problems_.empty()) uncovered();
    return std::move(problems_);
  }

 private:
  const Buffer& at(int32_t id) const { return program_.buffers[static_cast<size_t>(id)]; }

  std::string check(const Launch& launch, int32_t position) {
    const auto first = static_cast<size_t>(launch.first), count = static_cast<size_t>(launch.count);
    if (launch.first < 0 || launch.count < 1 || first < next_ || first > steps_.size() || count > steps_.size() - first)
      return fmt::format("expected steps from {} on of {}, found {} from {}", next_, steps_.size(), launch.count,
                         launch.first);
    next_ = first + count;
    for (size_t s = first; s < next_; ++s) {
      if (steps_[s].is_transfer() || steps_[s].device != steps_[first].device) return "expected kernels of one device";
      if (program_.kernels[static_cast<size_t>(steps_[s].kernel)].call) return "a launch of a call";
      covered_[s] = true;
    }
    ahead_[static_cast<size_t>(steps_[first].device)] = true;
    if (launch.code < 0 || static_cast<size_t>(launch.code) >= program_.code.size())
      return fmt::format("expected code 0 to {}, found {}", program_.code.size(), launch.code);
    if (launch.symbol.empty()) return "expected the name of a function, found none";
    uint64_t threads = 1, blocks = 1;
    for (uint32_t n : launch.block) threads = std::min<uint64_t>(threads * n, max_threads + 1);
    for (uint32_t n : launch.grid) blocks = std::min<uint64_t>(blocks * n, max_blocks + 1);
    if (threads < 1 || threads > max_threads || blocks > max_blocks)
      return fmt::format("expected 1 to {} threads in a block, found {} in each of {} blocks", max_threads, threads,
                         blocks);
    if (launch.shared_bytes > max_shared_bytes)
      return fmt::format("expected up to {} bytes shared in a block, found {}", max_shared_bytes, launch.shared_bytes);
    return arguments(launch, position);
  }

  std::string arguments(const Launch& launch, int32_t position) {
    if (std::count(launch.args.begin(), launch.args.end(), trap_word) != (launch.traps.empty() ? 0 : 1))
      return "expected one trap word if it has traps to report, and else none";
    if (launch.own_bytes > max_own_bytes)
      return fmt::format("expected up to {} bytes of its own, found {}", max_own_bytes, launch.own_bytes);
    if (std::count(launch.args.begin(), launch.args.end(), own_memory) != (launch.own_bytes == 0 ? 0 : 1))
      return "expected memory of its own among the arguments if it has some, and else not";
    std::set<int32_t> touched;
    for (size_t s = static_cast<size_t>(launch.first); s < next_; ++s)
      for (int32_t id : steps_[s].buffers) {
        touched.insert(id);
        if (at(id).kind != BufferKind::local) continue;
        int32_t& owner = owner_[static_cast<size_t>(id)];
        if (owner >= 0 && owner != position)
          return fmt::format("buffer '{}' lives within launch {}", at(id).name, owner);
        owner = position;
      }
    const std::set<int32_t> given(launch.args.begin(), launch.args.end());
    for (int32_t id : given)
      if (id != trap_word && id != own_memory && !touched.contains(id))
        return fmt::format("its steps do not touch argument {}", id);
    for (int32_t id : touched)
      if (at(id).kind != BufferKind::local && !given.contains(id))
        return fmt::format("buffer '{}' of its steps is no argument", at(id).name);
    return {};
  }

  void uncovered() {
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (steps_[s].is_transfer() || covered_[s]) continue;
      const std::string step = fmt::format("step {} '{}'", s, step_name(program_, steps_[s]));
      if (ahead_[static_cast<size_t>(steps_[s].device)]) return problems_.push_back(step + ": no launch executes it");
      for (int32_t id : steps_[s].buffers)
        if (at(id).kind == BufferKind::local)
          return problems_.push_back(
              fmt::format("{}: buffer '{}' lives within a launch, and there is none", step, at(id).name));
    }
  }

  const Program& program_;
  const std::vector<Step>& steps_;
  size_t next_ = 0;                    // the first step that no launch has covered yet
  std::vector<bool> covered_, ahead_;  // steps; devices that have launches
  std::vector<int32_t> owner_;         // of local buffers: the launch
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_launches(const Program& program, const Sequence& sequence) {
  return LaunchChecker(program, sequence).run(sequence.launches);
}

}  // namespace npusim
