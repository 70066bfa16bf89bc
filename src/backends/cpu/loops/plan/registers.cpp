// Gives registers offsets in the scratch: those whose lives do not overlap share memory, so that a tile's values stay
// in L1.
#include "backends/cpu/loops/plan/registers.h"

#include <algorithm>
#include <limits>

namespace npusim::cpu::loops::plan {
namespace {

constexpr int64_t section_length = int64_t{1} << 32;
constexpr int64_t forever = std::numeric_limits<int64_t>::max();

struct Life {
  int64_t begin = forever, end = -1;
  int heir_of = -1;  // takes the memory of this register, which is read for the last time where this one is made
};

class Allocation {
 public:
  explicit Allocation(Plan& plan) : plan_(plan), lives_(plan.registers.size()) {}

  void run() {
    for (const Plan::Constant& c : plan_.constants) lives_[static_cast<size_t>(c.reg)] = {0, forever, -1};
    for (size_t s = 0; s < plan_.sections.size(); ++s) section(s);
    for (size_t s = 0; s < plan_.sections.size(); ++s) find_heirs(s);
    allocate();
  }

 private:
  Life& life(int reg) { return lives_[static_cast<size_t>(reg)]; }
  static int64_t begin_of(size_t s) { return static_cast<int64_t>(s) * section_length; }
  static int64_t end_of(size_t s) { return begin_of(s + 1) - 1; }

  void define(int reg, int64_t at, size_t s, bool hoisted) {
    Life& l = life(reg);
    const Section& section = plan_.sections[s];
    if (hoisted && !section.in_row) {
      l.begin = 0;
      l.end = forever;
    } else if (hoisted || plan_.registers[static_cast<size_t>(reg)].per_tile) {
      l.begin = std::min(l.begin, begin_of(s));
      l.end = std::max(l.end, end_of(s));
    } else {
      l.begin = std::min(l.begin, at);
      l.end = std::max(l.end, at);
    }
  }
  // A value of an earlier section is read in every round of this one.
  void use(int reg, int64_t at, size_t s) {
    if (reg < 0) return;
    Life& l = life(reg);
    l.end = std::max(l.end, l.begin < begin_of(s) ? end_of(s) : at);
  }

  void section(size_t s) {
    const Section& section = plan_.sections[s];
    const int deepest = static_cast<int>((section.in_row ? plan_.inner : plan_.outer).size()) - 1;
    for (const Section::Fill& f : section.fills) define(f.reg, begin_of(s), s, section.in_row);
    for (int m = 0; m < section.stores; ++m) {
      const moves::Move& move = section.moves[static_cast<size_t>(m)];
      if (move.terms.empty()) define(move.reg, begin_of(s), s, move.depth < deepest);
    }
    for (size_t i = 0; i < section.insts.size(); ++i) {
      const Inst& inst = section.insts[i];
      const int64_t at = begin_of(s) + 1 + static_cast<int64_t>(i);
      for (const InstOperand& in : inst.in) use(in.reg, at, s);
      if (inst.move >= 0)
        for (const moves::Move::Term& t : section.moves[static_cast<size_t>(inst.move)].terms) use(t.reg, at, s);
      if (!inst.folds) define(inst.dst, at, s, inst.depth < deepest);
    }
    for (size_t m = static_cast<size_t>(section.stores); m < section.moves.size(); ++m) {
      use(section.moves[m].reg, end_of(s), s);
      use(section.moves[m].scale, end_of(s), s);
      // Where the store reads for itself what a load gathers: by addresses that others made.
      for (const int from : {section.moves[m].gathered, section.moves[m].copied})
        if (from >= 0)
          for (const moves::Move::Term& t : section.moves[static_cast<size_t>(from)].terms) use(t.reg, end_of(s), s);
      for (const moves::Move::Term& t : section.moves[m].terms) use(t.reg, end_of(s), s);
    }
  }

  // Elementwise instructions may write over an operand they are the last to read.
  void find_heirs(size_t s) {
    const Section& section = plan_.sections[s];
    for (size_t i = 0; i < section.insts.size(); ++i) {
      const Inst& inst = section.insts[i];
      const int64_t at = begin_of(s) + 1 + static_cast<int64_t>(i);
      if (inst.folds || inst.move >= 0 || life(inst.dst).begin != at) continue;
      for (const InstOperand& in : inst.in) {
        if (in.reg < 0 || in.scalar || in.span != inst.span || life(in.reg).end != at || life(in.reg).begin == at)
          continue;
        if (plan_.registers[static_cast<size_t>(in.reg)].bytes !=
                plan_.registers[static_cast<size_t>(inst.dst)].bytes ||
            plan_.registers[static_cast<size_t>(in.reg)].lane_bytes !=
                plan_.registers[static_cast<size_t>(inst.dst)].lane_bytes)
          continue;
        life(inst.dst).heir_of = in.reg;
        life(in.reg).end = at - 1;
        break;
      }
    }
  }

  void allocate() {
    std::vector<int> order;
    for (size_t r = 0; r < lives_.size(); ++r) {
      if (lives_[r].begin == forever) lives_[r] = {0, forever, -1};
      order.push_back(static_cast<int>(r));
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return life(a).begin < life(b).begin; });
    std::vector<int> alive;  // by offset
    for (int r : order) {
      std::erase_if(alive, [&](int a) { return life(a).end < life(r).begin; });
      Register& reg = plan_.registers[static_cast<size_t>(r)];
      int64_t at = 0;
      if (life(r).heir_of >= 0) {
        at = plan_.registers[static_cast<size_t>(life(r).heir_of)].offset;
      } else {
        for (int a : alive) {
          const Register& other = plan_.registers[static_cast<size_t>(a)];
          if (other.offset >= at + reg.bytes) break;
          at = std::max(at, other.offset + other.bytes);
        }
      }
      reg.offset = at;
      plan_.scratch_bytes = std::max(plan_.scratch_bytes, at + reg.bytes);
      alive.insert(std::find_if(alive.begin(), alive.end(),
                                [&](int a) { return plan_.registers[static_cast<size_t>(a)].offset > at; }),
                   r);
    }
  }

  Plan& plan_;
  std::vector<Life> lives_;
};

}  // namespace

void allocate_registers(Plan& plan) { Allocation(plan).run(); }

}  // namespace npusim::cpu::loops::plan
