// What a piece and its neighbours copy, block of rows by block of rows: a border is written while its lines are
// near.
#include "backends/cpu/loops/joined.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "backends/cpu/loops/moves/copy.h"
#include "backends/cpu/loops/tiles/tile.h"
#include "base/shape.h"

namespace npusim::cpu::loops {
namespace {

constexpr int64_t block_bytes = 16384, most_rows = 64;  // which stay in L1
int64_t blocks_of(const Joined& j, const Joined::Band& band) { return (band.rows + j.block_rows - 1) / j.block_rows; }

const Access& source(const rewrite::Piece& p) {
  const Kernel& k = p.kernel;
  return k.accesses[static_cast<size_t>(k.exprs[static_cast<size_t>(k.stores[0].expr)].integer)];
}

bool is_plain(const Access& a) { return a.guards.empty() && a.terms.empty(); }
const Expr& stored(const rewrite::Piece& p) { return p.kernel.exprs[static_cast<size_t>(p.kernel.stores[0].expr)]; }

bool stores_rows(const rewrite::Piece& p) {
  const Kernel& k = p.kernel;
  return k.space.size() >= 2 && k.row_dims == 0 && k.stores.size() == 1 && !k.stores[0].accumulate &&
         is_plain(k.stores[0].access) && k.stores[0].access.strides.back() == 1;
}
// Of rows, each one run of elements forth, back or again and again.
bool copies_rows(const rewrite::Piece& p) {
  if (!stores_rows(p) || stored(p).op != ExprOp::load) return false;
  const Kernel& k = p.kernel;
  const Access &to = k.stores[0].access, &from = source(p);
  return is_plain(from) && std::abs(from.strides.back()) <= 1 &&
         k.args[static_cast<size_t>(to.arg)].dtype == k.args[static_cast<size_t>(from.arg)].dtype;
}
// Zeros, of which all bits are 0 in any dtype.
bool clears_rows(const rewrite::Piece& p) {
  if (!stores_rows(p) || stored(p).op != ExprOp::constant) return false;
  return stored(p).number == 0 && !std::signbit(stored(p).number) && stored(p).integer == 0;
}

template <class List>
bool same_but_last(const List& a, const List& b) {
  return std::equal(a.begin(), a.end() - 1, b.begin(), b.end() - 1);
}
// The first one copies rows.
bool are_neighbours(const rewrite::Piece& a, const rewrite::Piece& b) {
  if (!copies_rows(b) && !clears_rows(b)) return false;
  const Access &to = a.kernel.stores[0].access, &other = b.kernel.stores[0].access;
  if (!same_but_last(a.begin, b.begin) || !same_but_last(a.end, b.end) || to.arg != other.arg ||
      to.strides != other.strides)
    return false;
  return clears_rows(b) || (source(a).arg == source(b).arg && same_but_last(source(a).strides, source(b).strides));
}

Joined::Run run_of(const rewrite::Piece& p) {
  const int64_t to = p.kernel.stores[0].access.offset, columns = p.kernel.space.back();
  return clears_rows(p) ? Joined::Run{to, 0, 0, columns, true}
                        : Joined::Run{to, source(p).offset, source(p).strides.back(), columns, false};
}

// Of neighbours of the first piece. The longest run is first and loads the lines; the others find them in the cache.
Joined joined(const std::vector<const rewrite::Piece*>& neighbours) {
  const rewrite::Piece& p = *neighbours[0];
  const Access &to = p.kernel.stores[0].access, &from = source(p);
  const std::vector<int64_t>& space = p.kernel.space;
  const size_t planes = space.size() - 2;
  Joined j;
  j.to_arg = to.arg, j.from_arg = from.arg;
  j.bytes = dtype_size(p.kernel.args[static_cast<size_t>(to.arg)].dtype);
  const auto of_planes = [&](const std::vector<int64_t>& all) {
    return std::vector<int64_t>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(planes));
  };
  j.extents = of_planes(space), j.to_strides = of_planes(to.strides), j.from_strides = of_planes(from.strides);
  for (const rewrite::Piece* piece : neighbours) j.runs.push_back(run_of(*piece));
  std::sort(j.runs.begin(), j.runs.end(), [](const Joined::Run& a, const Joined::Run& b) {
    return std::tuple(a.zeros, -a.columns, a.to) < std::tuple(b.zeros, -b.columns, b.to);
  });
  j.bands = {{j.runs[0].to, j.runs[0].from, from.strides[planes], space[planes]}};
  for (Joined::Run& run : j.runs) run.to -= j.bands[0].to, run.from -= run.zeros ? 0 : j.bands[0].from;
  j.to_row = to.strides[planes];
  int64_t columns = 0;
  for (const Joined::Run& run : j.runs) columns += run.columns;
  j.block_rows = std::clamp<int64_t>(block_bytes / (columns * static_cast<int64_t>(j.bytes)), 1, most_rows);
  return j;
}

bool differ_in_bands_only(const Joined& a, const Joined& b) {
  return a.to_arg == b.to_arg && a.from_arg == b.from_arg && a.bytes == b.bytes && a.runs == b.runs &&
         a.extents == b.extents && a.to_strides == b.to_strides && a.from_strides == b.from_strides &&
         a.to_row == b.to_row;
}

// So that a plane is written from its first row to its last.
void add_bands(std::vector<Joined>& to, Joined&& j) {
  const auto same =
      std::find_if(to.begin(), to.end(), [&](const Joined& other) { return differ_in_bands_only(other, j); });
  if (same == to.end()) return to.push_back(std::move(j));
  const auto behind = [&](const Joined::Band& band) { return band.to > j.bands[0].to; };
  same->bands.insert(std::find_if(same->bands.begin(), same->bands.end(), behind), j.bands[0]);
}

}  // namespace

std::vector<Joined> join_copies(std::vector<rewrite::Piece>& pieces) {
  std::vector<Joined> found;
  std::vector<char> taken(pieces.size(), 0);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (taken[i] || !copies_rows(pieces[i])) continue;
    std::vector<size_t> neighbours{i};
    bool narrow = pieces[i].kernel.space.back() < tiles::lane_block;
    for (size_t n = 0; n < pieces.size(); ++n)
      if (n != i && !taken[n] && are_neighbours(pieces[i], pieces[n])) {
        neighbours.push_back(n);
        narrow = narrow || pieces[n].kernel.space.back() < tiles::lane_block;
      }
    if (neighbours.size() < 2 || !narrow) continue;
    std::vector<const rewrite::Piece*> all;
    for (const size_t n : neighbours) taken[n] = 1, all.push_back(&pieces[n]);
    add_bands(found, joined(all));
  }
  for (Joined& j : found) {
    for (const Joined::Band& band : j.bands) j.blocks += blocks_of(j, band);
    j.units = element_count(j.extents) * j.blocks;
  }
  size_t left = 0;
  for (size_t i = 0; i < pieces.size(); ++i)
    if (!taken[i] && left++ != i) pieces[left - 1] = std::move(pieces[i]);
  pieces.resize(left);
  return found;
}

double cost_of(const Joined& j) {
  constexpr double of_run = 4, of_element = 0.1;
  double row = 0, rows = 0;
  for (const Joined::Run& run : j.runs) row += of_run + of_element * static_cast<double>(run.columns);
  for (const Joined::Band& band : j.bands) rows += static_cast<double>(band.rows);
  return row * rows / static_cast<double>(j.blocks);
}

void copy_units(const Joined& j, void* const* args, int64_t first, int64_t last) {
  const auto bytes = static_cast<int64_t>(j.bytes);
  for (int64_t unit = first; unit < last; ++unit) {
    int64_t plane = unit / j.blocks, block = unit % j.blocks;
    const Joined::Band* band = j.bands.data();
    for (; block >= blocks_of(j, *band); ++band) block -= blocks_of(j, *band);
    const int64_t row = block * j.block_rows;
    int64_t to = band->to + row * j.to_row, from = band->from + row * band->from_row;
    for (size_t d = j.extents.size(); d-- > 0; plane /= j.extents[d]) {
      const int64_t i = plane % j.extents[d];
      to += i * j.to_strides[d], from += i * j.from_strides[d];
    }
    for (const Joined::Run& run : j.runs) {
      static constexpr int64_t zero = 0;
      const char* source = static_cast<const char*>(args[j.from_arg]) + (from + run.from) * bytes;
      moves::copy_block({.to = static_cast<char*>(args[j.to_arg]) + (to + run.to) * bytes,
                         .from = run.zeros ? static_cast<const void*>(&zero) : source,
                         .to_row = j.to_row,
                         .from_row = run.zeros ? 0 : band->from_row,
                         .from_column = run.step,
                         .rows = std::min(j.block_rows, band->rows - row),
                         .columns = run.columns},
                        j.bytes);
    }
  }
}

}  // namespace npusim::cpu::loops
