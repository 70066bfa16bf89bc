// Walks a plan's loops and runs its sections tile by tile.
#include "backends/cpu/loops/frame.h"

#include <algorithm>

namespace npusim::cpu::loops {
namespace {

void fill_integers(char* at, int64_t bytes, int lane, int64_t integer) {
  const auto n = bytes / lane;
  switch (lane) {
    case 1:
      return std::fill_n(reinterpret_cast<uint8_t*>(at), n, static_cast<uint8_t>(integer)), void();
    case 2:
      return std::fill_n(reinterpret_cast<uint16_t*>(at), n, static_cast<uint16_t>(integer)), void();
    case 4:
      return std::fill_n(reinterpret_cast<uint32_t*>(at), n, static_cast<uint32_t>(integer)), void();
    default:
      return std::fill_n(reinterpret_cast<int64_t*>(at), n, integer), void();
  }
}
void fill(char* at, const plan::Register& reg, Scalar type, double number, int64_t integer) {
  const auto n = [&](size_t size) { return reg.bytes / static_cast<int64_t>(size); };
  switch (type) {
    case Scalar::boolean:
      std::fill_n(reinterpret_cast<uint8_t*>(at), n(1), static_cast<uint8_t>(integer != 0));
      break;
    case Scalar::i64:
      fill_integers(at, reg.bytes, reg.lane_bytes, integer);
      break;
    case Scalar::f32:
      std::fill_n(reinterpret_cast<float*>(at), n(4), static_cast<float>(number));
      break;
    case Scalar::f64:
      std::fill_n(reinterpret_cast<double*>(at), n(8), number);
      break;
  }
}

// What the instruction at `position` of a section fetches of the memory of the tile after this one.
void fetch_next(const moves::MoveCall& call, int64_t position) {
  constexpr int64_t line = 64, most = 8192;
  const moves::Move& move = *call.move;
  if (move.ahead == 0) return;
  const auto next = reinterpret_cast<uintptr_t>(call.memory) + static_cast<uintptr_t>(move.ahead);
  const int64_t lines = std::min(call.rows * call.columns * static_cast<int64_t>(move.bytes), most) / line;
  const int64_t part = move.first_part + position, end = lines * (part + 1) / move.parts;
  for (int64_t at = lines * part / move.parts; at < end; ++at)
    __builtin_prefetch(reinterpret_cast<const void*>(next + static_cast<uintptr_t>(at * line)));
}

}  // namespace

Frame::Frame(const plan::Plan& plan, char* scratch, tiles::Trap& trap)
    : plan_(plan), scratch_(scratch), trap_(trap), index_(plan.piece.kernel.space.size() + 1, 0) {
  for (const plan::Section& s : plan.sections) {
    Bound b;
    b.section = &s;
    b.calls.resize(s.insts.size());
    b.moves.resize(s.moves.size());
    b.in_place.assign(s.moves.size(), 0);
    for (size_t m = 0; m < s.moves.size(); ++m) {
      moves::MoveCall& call = b.moves[m];
      call.move = &s.moves[m];
      b.fetches = b.fetches || s.moves[m].ahead != 0;
      call.scratch = reg(s.moves[m].reg);
      call.index = index_.data();
      call.trap = &trap_;
      call.row_dim = s.moves[m].span == moves::Span::full ? plan.row_dim : -1;
      call.column_dim = s.moves[m].span == moves::Span::row   ? plan.row_dim
                        : s.moves[m].span == moves::Span::one ? -1
                                                              : plan.column_dim;
      for (const moves::Move::Term& t : s.moves[m].terms) {
        const bool rows = t.span == moves::Span::row || t.span == moves::Span::full,
                   columns = t.span == moves::Span::column || t.span == moves::Span::full;
        moves::MoveCall::Term term{reinterpret_cast<const int64_t*>(reg(t.reg)), 0, columns};
        if (s.moves[m].span == moves::Span::row)
          term.column = rows;  // the move's columns are the tile's rows
        else
          term.row = t.span == moves::Span::full ? plan.pitch : rows;
        call.terms.push_back(term);
      }
      if (s.moves[m].copied >= 0) call.copied = &b.moves[static_cast<size_t>(s.moves[m].copied)];
      if (s.moves[m].gathered >= 0) call.gathered = &b.moves[static_cast<size_t>(s.moves[m].gathered)];
      if (s.moves[m].scale >= 0) {
        call.scales = reinterpret_cast<const float*>(reg(s.moves[m].scale));
        call.scales_row = s.moves[m].scale_span == moves::Span::row;
      }
    }
    for (size_t i = 0; i < s.insts.size(); ++i) {
      const plan::Inst& inst = s.insts[i];
      const auto patch = [&](int move, int reg, int slot) {
        const bool kept = reg >= 0 && plan.registers[static_cast<size_t>(reg)].per_tile > 0;
        if (move >= 0 || kept) b.patches.push_back({move, kept ? reg : -1, static_cast<int>(i), slot});
      };
      for (size_t n = 0; n < tiles::most_operands; ++n) patch(inst.in[n].move, inst.in[n].reg, static_cast<int>(n));
      patch(inst.dst_move, inst.dst, tiles::most_operands);
    }
    for (size_t m = static_cast<size_t>(s.stores); m < s.moves.size(); ++m)
      if (s.moves[m].reg >= 0 && plan.registers[static_cast<size_t>(s.moves[m].reg)].per_tile > 0)
        b.patches.push_back({-1, s.moves[m].reg, -1, static_cast<int>(m)});
    b.active.reserve(b.patches.size());
    sections_.push_back(std::move(b));
  }
}

void Frame::fill_constants() {
  for (const plan::Plan::Constant& c : plan_.constants)
    fill(reg(c.reg), plan_.registers[static_cast<size_t>(c.reg)], c.type, c.number, c.integer);
}

int64_t Frame::length(int dim, int64_t step) const {
  if (dim < 0) return 1;
  const auto d = static_cast<size_t>(dim);
  return std::min(step, end_[d] - index_[d]);
}

int64_t Frame::tiles(const int64_t* begin, const int64_t* end) const {
  int64_t count = 1;
  for (const plan::Loop& l : plan_.outer) count *= (end[l.dim] - begin[l.dim] + l.step - 1) / l.step;
  return count;
}

// Steps the index through the loops; `changed` is the outermost loop that moved, false at the end.
bool Frame::advance(const std::vector<plan::Loop>& loops, int& changed) {
  for (size_t l = loops.size(); l-- > 0;) {
    const auto d = static_cast<size_t>(loops[l].dim);
    changed = static_cast<int>(l);
    if ((index_[d] += loops[l].step) < end_[d]) return true;
    index_[d] = begin_[d];
  }
  return false;
}

void Frame::run(void* const* args, const int64_t* begin, const int64_t* end, int64_t first, int64_t last) {
  if (first >= last) return;
  args_ = args;
  begin_ = begin;
  end_ = end;
  std::copy(begin, begin + plan_.piece.kernel.space.size(), index_.begin());
  int64_t rest = first;
  for (size_t l = plan_.outer.size(); l-- > 0 && rest > 0;) {
    const plan::Loop& loop = plan_.outer[l];
    const int64_t count = (end[loop.dim] - begin[loop.dim] + loop.step - 1) / loop.step;
    index_[static_cast<size_t>(loop.dim)] += rest % count * loop.step;
    rest /= count;
  }
  int changed = -1;
  for (int64_t tile = first; tile < last; ++tile) {
    for (size_t s = 0; s < sections_.size(); ++s) {
      if (sections_[s].section->in_row)
        run_in_row(sections_[s]);
      else
        run_tile(sections_[s], s == 0 ? changed : -1, 0);
    }
    if (tile + 1 < last) advance(plan_.outer, changed);
  }
}

void Frame::run_in_row(Bound& b) {
  for (const plan::Section::Fill& f : b.section->fills)
    fill(reg(f.reg), plan_.registers[static_cast<size_t>(f.reg)], f.type, f.number, f.integer);
  int changed = -1;
  int64_t tile = 0;
  do run_tile(b, changed, tile++);
  while (advance(plan_.inner, changed));
}

// One instruction's rows and columns at the tile's shape.
void Frame::shape_call(Bound& b, size_t i) {
  const plan::Inst& inst = b.section->insts[i];
  tiles::TileCall& call = b.calls[i];
  call.fn = inst.fn;
  call.trap = &trap_;
  if (inst.move >= 0) {
    call.extra = &b.moves[static_cast<size_t>(inst.move)];
    call.fn = [](const tiles::TileCall& c) { moves::run_move(*static_cast<const moves::MoveCall*>(c.extra)); };
    return;
  }
  if (!inst.terms.empty()) call.extra = &inst.terms;
  if (inst.index_dim >= 0) call.extra = &index_[static_cast<size_t>(inst.index_dim)];
  call.rows = inst.span == moves::Span::full ? b.rows : 1;
  call.columns = inst.span == moves::Span::one ? 1 : inst.span == moves::Span::row ? b.rows : b.columns;
  call.n = tiles::padded(call.columns);
  const auto row_step = [&](const plan::InstOperand& o, int64_t in_place_step, bool in_place) -> int64_t {
    if (inst.span != moves::Span::full) return 0;
    return o.span == moves::Span::full ? (in_place ? in_place_step : plan_.pitch) : o.span == moves::Span::row;
  };
  // Rows that are less than a block apart are computed with what is between them (runs_flat()).
  const bool dense = plan_.pitch % tiles::lane_block != 0;
  bool flat = inst.span == moves::Span::full && !inst.folds && (dense || call.columns == plan_.pitch);
  for (size_t k = 0; k < tiles::most_operands; ++k) {
    const plan::InstOperand& in = inst.in[k];
    if (in.reg < 0) continue;
    const bool in_place = in.move >= 0 && b.in_place[static_cast<size_t>(in.move)];
    call.in[k] = reg(in.reg);
    call.in_row[k] = row_step(in, in_place ? b.section->moves[static_cast<size_t>(in.move)].row_stride : 0, in_place);
    flat = flat && (in.span == moves::Span::one || call.in_row[k] == plan_.pitch);
  }
  const bool in_place = inst.dst_move >= 0 && b.in_place[static_cast<size_t>(inst.dst_move)];
  call.dst = reg(inst.dst);
  call.dst_row = inst.span != moves::Span::full ? 0
                 : in_place                     ? b.section->moves[static_cast<size_t>(inst.dst_move)].row_stride
                                                : plan_.pitch;
  if (inst.folds && inst.fold == tiles::Fold::columns)
    call.dst_row = plan_.registers[static_cast<size_t>(inst.dst)].span == moves::Span::row;
  if (flat && call.dst_row == plan_.pitch) {
    call.columns = call.rows * plan_.pitch;
    call.n = tiles::padded(call.columns);
    call.rows = 1;
  }
}

// Binds moves and instructions to the tile's shape; memory is used in place where the columns fill whole blocks.
void Frame::shape(Bound& b) {
  const plan::Section& s = *b.section;
  for (size_t m = 0; m < s.moves.size(); ++m) {
    const moves::Move& move = s.moves[m];
    b.in_place[m] = move.in_place && b.columns % tiles::lane_block == 0;
    moves::MoveCall& call = b.moves[m];
    call.rows = move.span == moves::Span::full ? b.rows : 1;
    call.columns = move.span == moves::Span::one ? 1 : move.span == moves::Span::row ? b.rows : b.columns;
    call.scratch_row = move.span == moves::Span::full ? plan_.pitch : 0;
  }
  for (size_t m = static_cast<size_t>(s.stores); m < s.moves.size(); ++m) {
    const int from = s.moves[m].source_move;
    if (from >= 0 && b.in_place[static_cast<size_t>(from)] && s.moves[m].span == moves::Span::full)
      b.moves[m].scratch_row = s.moves[static_cast<size_t>(from)].row_stride;
  }
  for (size_t i = 0; i < s.insts.size(); ++i) shape_call(b, i);
  b.active.clear();
  for (const Patch& p : b.patches)
    if (p.reg >= 0 || b.in_place[static_cast<size_t>(p.move)]) b.active.push_back(p);
}

void Frame::run_tile(Bound& b, int changed, int64_t tile) {
  const plan::Section& s = *b.section;
  const int64_t rows = length(plan_.row_dim, plan_.tile_rows), columns = length(plan_.column_dim, plan_.tile_columns);
  if (rows != b.rows || columns != b.columns) {
    b.rows = rows;
    b.columns = columns;
    shape(b);
  }
  const size_t rank = index_.size() - 1;
  const auto locate = [&](size_t m) {
    const moves::Move& move = *b.moves[m].move;
    int64_t at = move.offset;
    for (size_t d = 0; d < rank; ++d) at += move.strides[d] * index_[d];
    b.moves[m].memory = static_cast<char*>(args_[move.arg]) + at * static_cast<int64_t>(move.bytes);
  };
  for (auto m = static_cast<size_t>(s.first_load[static_cast<size_t>(changed + 1)]); m < static_cast<size_t>(s.stores);
       ++m) {
    locate(m);
    if (!b.in_place[m] && s.moves[m].terms.empty() && !s.moves[m].only_copied) moves::run_move(b.moves[m]);
  }
  for (auto m = static_cast<size_t>(s.stores); m < s.moves.size(); ++m) locate(m);
  for (const Patch& p : b.active) {
    char* at = p.reg >= 0 ? reg(p.reg) + tile * plan_.registers[static_cast<size_t>(p.reg)].per_tile
                          : b.moves[static_cast<size_t>(p.move)].memory;
    if (p.inst < 0)
      b.moves[static_cast<size_t>(p.slot)].scratch = at;
    else if (p.slot == tiles::most_operands)
      b.calls[static_cast<size_t>(p.inst)].dst = at;
    else
      b.calls[static_cast<size_t>(p.inst)].in[p.slot] = at;
  }
  const auto first = static_cast<size_t>(s.first_inst[static_cast<size_t>(changed + 1)]);
  for (size_t i = first; i < s.insts.size(); ++i) {
    for (size_t m = 0; b.fetches && m < static_cast<size_t>(s.stores); ++m)
      fetch_next(b.moves[m], static_cast<int64_t>(i));
    b.calls[i].fn(b.calls[i]);
  }
  for (auto m = static_cast<size_t>(s.stores); m < s.moves.size(); ++m) {
    if (b.in_place[m]) continue;
    const int from = s.moves[m].source_move;
    if (from >= 0)
      b.moves[m].scratch =
          b.in_place[static_cast<size_t>(from)] ? b.moves[static_cast<size_t>(from)].memory : reg(s.moves[m].reg);
    moves::run_move(b.moves[m]);
  }
}

}  // namespace npusim::cpu::loops
