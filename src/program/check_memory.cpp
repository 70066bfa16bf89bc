// One walk along the steps with what lies in memory, ordered by offset.
#include "program/check_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace npusim {
namespace {

constexpr uint64_t max_total_bytes = uint64_t{1} << 48;

bool is_placed(const Buffer& b) { return b.kind == BufferKind::arena || b.kind == BufferKind::local; }

// By step: its time. What one launch does is done at once.
std::vector<int32_t> times_of(const Sequence& sequence) {
  std::vector<int32_t> times(sequence.steps.size());
  auto launch = sequence.launches.begin();
  int32_t time = 0;
  for (size_t s = 0; s < times.size(); ++s) {
    const auto at = static_cast<int32_t>(s);
    while (launch != sequence.launches.end() && launch->first + launch->count <= at) ++launch;
    const bool goes_on = launch != sequence.launches.end() && launch->first < at;
    times[s] = goes_on ? time - 1 : time++;
  }
  return times;
}

// Buffers with memory of one arena or workspace, by offset.
using Memory = std::map<uint64_t, int32_t>;

class ArenaChecker {
 public:
  ArenaChecker(const Program& program, const Method& method) : program_(program), method_(method) {}

  std::vector<std::string> run() {
    find_lives();
    std::vector<Memory> memories(2 * program_.devices.size());
    for (size_t begin = 0, end = 0; begin < order_.size(); ++begin) {
      const Life& life = order_[begin];
      for (; by_end_[end].last < life.first; ++end)
        memory_of(memories, by_end_[end].buffer).erase(at(by_end_[end]).offset);
      enter(memory_of(memories, life.buffer), life.buffer);
      if (!problems_.empty()) return std::move(problems_);
    }
    sizes();
    return std::move(problems_);
  }

 private:
  struct Life {
    int32_t buffer, first, last;
  };

  const Buffer& at(const Life& life) const { return program_.buffers[static_cast<size_t>(life.buffer)]; }

  Memory& memory_of(std::vector<Memory>& memories, int32_t buffer) const {
    const Buffer& b = program_.buffers[static_cast<size_t>(buffer)];
    return memories[2 * static_cast<size_t>(b.device) + (b.kind == BufferKind::local)];
  }

  // Those with memory, in the order in which they begin, and in which they end.
  void find_lives() {
    const std::vector<int32_t> times = times_of(method_);
    std::map<int32_t, size_t> known;
    for (size_t s = 0; s < times.size(); ++s)
      for (const int32_t id : method_.steps[s].buffers) {
        const Buffer& b = program_.buffers[static_cast<size_t>(id)];
        if (!is_placed(b) || stored_bytes(b) == 0) continue;
        const auto [life, fresh] = known.try_emplace(id, order_.size());
        if (fresh) order_.push_back({id, times[s], times[s]});
        order_[life->second].last = times[s];
      }
    by_end_ = order_;
    std::stable_sort(by_end_.begin(), by_end_.end(), [](const Life& a, const Life& b) { return a.last < b.last; });
  }

  void enter(Memory& memory, int32_t id) {
    const Buffer& b = program_.buffers[static_cast<size_t>(id)];
    const auto next = memory.lower_bound(b.offset);
    int32_t other = -1;
    if (next != memory.end() && next->first < b.offset + stored_bytes(b)) other = next->second;
    if (next != memory.begin()) {
      const Buffer& before = program_.buffers[static_cast<size_t>(std::prev(next)->second)];
      if (before.offset + stored_bytes(before) > b.offset) other = std::prev(next)->second;
    }
    if (other < 0) {
      memory.emplace_hint(next, b.offset, id);
      return;
    }
    problems_.push_back(fmt::format("buffers '{}' and '{}' exist at the same time and overlap in memory",
                                    program_.buffers[static_cast<size_t>(other)].name, b.name));
  }

  // A file may not ask for memory that none of its buffers needs.
  void sizes() {
    std::vector<uint64_t> reached(2 * program_.devices.size(), 0);
    for (const Life& life : order_) {
      const Buffer& b = at(life);
      uint64_t& end = reached[2 * static_cast<size_t>(b.device) + (b.kind == BufferKind::local)];
      end = std::max<uint64_t>(end, b.offset + stored_bytes(b));
    }
    for (size_t d = 0; d < program_.devices.size(); ++d) {
      const uint64_t align = buffer_alignment(program_.devices[d].config);
      const Arena& arena = method_.arenas[d];
      for (const bool local : {false, true}) {
        const uint64_t bytes = local ? arena.workspace_bytes : arena.bytes, end = reached[2 * d + local];
        if (bytes >= end + align)
          problems_.push_back(fmt::format("device {}: expected {} of {} bytes, where its buffers end, found {}", d,
                                          local ? "a workspace" : "an arena", end, bytes));
      }
    }
  }

  const Program& program_;
  const Method& method_;
  std::vector<Life> order_, by_end_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_arenas(const Program& program, const Method& method) {
  return ArenaChecker(program, method).run();
}

std::vector<std::string> check_sizes(const Program& program) {
  std::vector<bool> named(program.buffers.size(), false);
  const auto name = [&](int32_t id) { named[static_cast<size_t>(id)] = true; };
  const auto name_steps = [&](const Sequence& sequence) {
    for (const Step& step : sequence.steps) std::for_each(step.buffers.begin(), step.buffers.end(), name);
  };
  name_steps(program.recipes);
  for (const Method& method : program.methods) {
    name_steps(method);
    for (const std::vector<TensorSpec>* specs : {&method.inputs, &method.outputs})
      for (const TensorSpec& spec : *specs) name(spec.buffer);
  }
  uint64_t total = 0;
  for (size_t i = 0; i < named.size(); ++i) {
    const Buffer& b = program.buffers[i];
    if (!named[i]) return {fmt::format("buffer {} '{}': no step and no method names it", i, b.name)};
    if (!is_placed(b)) total = std::min(total + byte_size(b.type), max_total_bytes + 1);
  }
  if (total > max_total_bytes) return {fmt::format("buffers of more than 2^48 bytes outside of arenas")};
  return {};
}

}  // namespace npusim
