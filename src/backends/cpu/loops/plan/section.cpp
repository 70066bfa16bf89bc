// Finishes a section: order by depth, what is recomputed when a loop advances, and which stores are written in
// place.
#include "backends/cpu/loops/plan/section.h"

#include <algorithm>

namespace npusim::cpu::loops::plan {
namespace {

// Loads by depth; `position` receives where each went.
void order_loads(Section& s, std::vector<int>& position) {
  std::vector<int> order(s.moves.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return s.moves[static_cast<size_t>(a)].depth < s.moves[static_cast<size_t>(b)].depth;
  });
  std::vector<moves::Move> moves;
  position.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    position[static_cast<size_t>(order[i])] = static_cast<int>(i);
    moves.push_back(std::move(s.moves[static_cast<size_t>(order[i])]));
  }
  s.moves = std::move(moves);
}

// The last instruction to make a stored value may write it to memory at once, unless a later one still reads memory:
// an output may share its memory with an input.
void write_in_place(Section& s, int deepest) {
  std::vector<char> taken(s.moves.size(), 0);
  for (size_t i = s.insts.size(); i-- > 0;) {
    Inst& inst = s.insts[i];
    for (size_t m = static_cast<size_t>(s.stores); m < s.moves.size(); ++m) {
      const moves::Move& store = s.moves[m];
      if (taken[m] || !store.in_place || store.reg != inst.dst || inst.folds || inst.move >= 0 || inst.depth != deepest)
        continue;
      inst.dst_move = static_cast<int>(m);
      taken[m] = 1;
      break;
    }
    bool reads_memory = false;
    for (const InstOperand& in : inst.in) reads_memory = reads_memory || in.move >= 0;
    if (reads_memory) break;
  }
  for (size_t m = static_cast<size_t>(s.stores); m < s.moves.size(); ++m)
    s.moves[m].in_place = s.moves[m].in_place && taken[m];
}

template <class List>
int first_at(const List& list, size_t count, int level) {
  size_t n = 0;
  while (n < count && list[n].depth < level) ++n;
  return static_cast<int>(n);
}

}  // namespace

void finish_section(Section& s, std::vector<moves::Move> stores, int levels) {
  std::stable_sort(s.insts.begin(), s.insts.end(), [](const Inst& a, const Inst& b) { return a.depth < b.depth; });
  std::vector<int> position;
  order_loads(s, position);
  for (Inst& inst : s.insts) {
    for (InstOperand& in : inst.in)
      if (in.move >= 0) in.move = position[static_cast<size_t>(in.move)];
    if (inst.move >= 0) inst.move = position[static_cast<size_t>(inst.move)];
  }
  s.stores = static_cast<int>(s.moves.size());
  for (moves::Move& m : stores) {
    if (m.source_move >= 0) m.source_move = position[static_cast<size_t>(m.source_move)];
    if (m.copied >= 0) m.copied = position[static_cast<size_t>(m.copied)];
    if (m.gathered >= 0) m.gathered = position[static_cast<size_t>(m.gathered)];
    s.moves.push_back(std::move(m));
  }
  write_in_place(s, levels - 1);
  for (int level = -1; level < levels; ++level) {
    s.first_load.push_back(first_at(s.moves, static_cast<size_t>(s.stores), level));
    s.first_inst.push_back(first_at(s.insts, s.insts.size(), level));
  }
}

}  // namespace npusim::cpu::loops::plan
