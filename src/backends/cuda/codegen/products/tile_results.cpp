// What is done with a tile's sums: those of other pieces of the depth are added, and the kernel's own expressions
// follow.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/products/tile.h"
#include "backends/cuda/codegen/text.h"
#include "print/point.h"

namespace npusim::cuda::codegen::products {
namespace {

Term of_first_piece(const TileShape& s, const Term& leaf) {
  return s.pieces > 1 ? term("of_piece<{}>({}, 0)", s.pieces, leaf.text) : leaf;
}

// All are asked for before the first is added.
void add_pieces(Lines& t, const Product& p, const TileShape& s, const Term& leaf) {
  if (s.pieces == 1) return;
  t.add(fmt::format("Lanes<float, {}> others[{}];", p.lanes, s.pieces - 1));
  t.add("#pragma unroll");
  t.add(fmt::format("for (int p = 1; p < {0}; ++p) read_lanes(others[p - 1], of_piece<{0}>({1}, p));", s.pieces,
                    leaf.text));
  t.add("#pragma unroll");
  t.add(fmt::format("for (int p = 1; p < {}; ++p)", s.pieces));
  t.add("#pragma unroll");
  t.add(fmt::format("  for (int e = 0; e < {}; ++e) leaf.at[e] += others[p - 1].at[e];", p.lanes));
}

}  // namespace

// A lane has eight neighbours, or four lanes exchange theirs so that each does. What is read is asked for before it is
// used: of two fours of tiles of eight columns, or for a pair, which has fewer registers, of one.
void add_results_from_registers(Lines& t, const Kernel& k, const Product& p, const TileShape& s) {
  const bool two = p.second_b >= 0;
  const std::string name = function_name(k, p) + "_at", from = parameter_names(k);
  const int columns = columns_of(p, s), tiles = columns / 8, fours = (tiles + 3) / 4, rows = rows_of_warp(s) / 16;
  const int together = two || fours % 2 != 0 ? 1 : 2, words = 2 * together;
  const std::string_view take = has_neighbours(p, s) ? "own_columns" : "take_columns";
  const auto each_word = [&](bool read) {
    t.add("#pragma unroll");
    t.open(fmt::format("for (int n = 0; n < {}; ++n)", words));
    t.add(fmt::format("const int j = first + n / 2 * 4, row = first_row + warp_row + {}lane / 4 + n % 2 * 8;",
                      rows == 1 ? "" : fmt::format("i * {} + ", next_rows(s))));
    t.add("const int at = (j + lane % 4) * 8, column = first_column + at;");
    if (!read) {
      t.add(fmt::format("float leaf[{}];", two ? 16 : 8));
      t.add(fmt::format("{}(leaf, sums[i] + j, n % 2, {} - j);", take, tiles));
      if (two) t.add(fmt::format("{0}(leaf + 8, sums[i] + {1} + j, n % 2, {1} - j);", take, tiles));
    }
    const std::string beyond = tiles % (4 * together) == 0 ? "" : fmt::format("at >= {} || ", columns);
    t.add(fmt::format("if ({}row >= {} || column >= {}) continue;", beyond, p.rows.size(), p.columns.size()));
    t.add(read ? fmt::format("{}_read({}, batch, row, column, words[n]);", name, from)
               : fmt::format("{}_rest({}, batch, row, column, leaf, words[n]);", name, from));
    t.close();
  };
  t.add("#pragma unroll");
  t.add(fmt::format("for (int i = 0; i < {}; ++i) hold(sums[i]);", rows));
  t.add("#pragma unroll");
  t.add(fmt::format("for (int i = 0; i < {}; ++i)", rows));
  t.add("#pragma unroll");
  t.open(fmt::format("  for (int first = 0; first < {}; first += {})", 4 * fours, 4 * together));
  t.add(fmt::format("{}_words words[{}];", name, words));
  each_word(true);
  each_word(false);
  t.close();
}

namespace {

// Words of a lane: of 16 rows and 32 columns two, of rows that are eight apart.
int words_of(const TileShape& s) { return rows_of_warp(s) / 16 * (columns_of_warp(s) / 32) * 2; }

void each_word(Lines& t, const Product& p, const TileShape& s, const std::vector<std::string>& statements) {
  const int fours = columns_of_warp(s) / 32;
  t.add("#pragma unroll");
  t.open(fmt::format("for (int n = 0; n < {}; ++n)", words_of(s)));
  t.add(fmt::format("const int i = n / {}, first = n / 2 % {} * 4, half = n % 2;", 2 * fours, fours));
  t.add(fmt::format("const int row = first_row + warp_row + i * {} + lane / 4 + half * 8;", next_rows(s)));
  t.add("const int column = first_column + warp_column + (first + lane % 4) * 8;");
  t.add(fmt::format("if (row >= {} || column >= {}) continue;", p.rows.size(), p.columns.size()));
  for (const std::string& statement : statements) t.add(statement);
  t.close();
}

void add_neighbours(Lines& t, const Kernel& k, const Product& p, const TileShape& s) {
  if (s.groups) {
    t.add("#pragma unroll");
    t.add(fmt::format("for (int i = 0; i < {}; ++i) hold(sums[i]);", rows_of_warp(s) / 16));
  }
  if (!reads_early(p, s)) add_reads(t, k, p, s);
  each_word(
      t, p, s,
      {"float leaf[8];", "#pragma unroll",
       "for (int e = 0; e < 8; ++e) leaf[e] = sums[i][first + e / 2][half * 2 + e % 2];",
       fmt::format("{}_at_rest({}, batch, row, column, leaf, words[n]);", function_name(k, p), parameter_names(k))});
}

}  // namespace

// Of warp-specialized tiles wherever they come out even. Of more words the others' lanes have too few in flight, and
// parts of lines where the path through shared memory has whole ones.
bool has_neighbours(const Product& p, const TileShape& s) {
  if (s.specialized) return columns_of(p, s) % 32 == 0;
  return s.pieces == 1 && p.lanes == word && !p.lanes_are_rows && p.b.words != Operand::Words::across &&
         columns_of_warp(s) % 32 == 0 && words_of(s) <= 4;
}

bool reads_early(const Product& p, const TileShape& s) { return !s.specialized && has_neighbours(p, s) && p.reads > 0; }

void add_reads(Lines& t, const Kernel& k, const Product& p, const TileShape& s) {
  const std::string name = function_name(k, p) + "_at";
  t.add(fmt::format("{}_words words[{}];", name, words_of(s)));
  each_word(t, p, s, {fmt::format("{}_read({}, batch, row, column, words[n]);", name, parameter_names(k))});
}

void add_results(Lines& t, const Kernel& k, const Product& p, const TileShape& s) {
  if (has_neighbours(p, s)) return add_neighbours(t, k, p, s);
  const bool transposes = p.lanes_are_rows;
  const int lines = transposes ? s.columns : s.rows, width = transposes ? s.rows : s.columns,
            pitch = results_pitch(p, s);
  t.add("wait_copies<0>();");
  t.add("__syncthreads();");
  t.add("float* const results = (float*)shared_words;");
  t.add("#pragma unroll");
  t.add(fmt::format("for (int i = 0; i < {}; ++i)", rows_of_warp(s) / 16));
  t.add("#pragma unroll");
  t.add(fmt::format("  for (int j = 0; j < {}; ++j)", columns_of_warp(s) / 8));
  t.add("#pragma unroll");
  t.open("    for (int e = 0; e < 4; e += 2)");
  t.add(fmt::format("const int row = warp_row + i * {} + lane / 4 + e / 2 * 8;", next_rows(s)));
  t.add("const int column = warp_column + j * 8 + lane % 4 * 2;");
  if (transposes) {
    t.add(fmt::format("results[column * {} + row] = sums[i][j][e];", pitch));
    t.add(fmt::format("results[(column + 1) * {} + row] = sums[i][j][e + 1];", pitch));
  } else {
    t.add(fmt::format("*(float2*)(results + row * {} + column) = float2{{sums[i][j][e], sums[i][j][e + 1]}};", pitch));
  }
  t.close();
  t.add(s.pieces > 1 ? fmt::format("meet_cluster<{}>();", s.pieces) : "__syncthreads();");
  // A thread has the same word of several lines, or where lines do not share the threads evenly, word after word.
  const int words = width / p.lanes, all = lines * words;
  const bool even = s.threads() % words == 0;
  int together = p.lanes > 1 ? 4 : 1;
  while (together > 1 && all < s.threads() * together * s.pieces) together /= 2;
  const std::string name = function_name(k, p) + "_at";
  if (even) t.add(fmt::format("const int at = thread % {} * {};", words, p.lanes));
  t.open(fmt::format("for (int first = thread{}; first < {}; first += {})",
                     s.pieces > 1 ? fmt::format(" + piece * {}", together * s.threads()) : "", all,
                     together * s.threads() * s.pieces));
  const auto each_line = [&](const std::string& call) {
    t.add("#pragma unroll");
    t.open(fmt::format("for (int n = 0; n < {}; ++n)", together));
    if (even) {
      t.add(fmt::format("const int line = first / {} + n * {};", words, s.threads() / words));
    } else {
      t.add(fmt::format("const int number = first + n * {};", s.threads()));
      t.add(fmt::format("const int line = number / {}, at = number % {} * {};", words, words, p.lanes));
    }
    t.add(fmt::format("const int row = first_row + {}, column = first_column + {};", transposes ? "at" : "line",
                      transposes ? "line" : "at"));
    const std::string beyond = all % (s.threads() * together) == 0 ? "" : fmt::format("line >= {} || ", lines);
    t.add(fmt::format("if ({}row >= {} || column >= {}) continue;", beyond, p.rows.size(), p.columns.size()));
    const Term leaf = term("results + line * {} + at", pitch);
    const std::string from = parameter_names(k);
    if (call == "read") {
      t.add(fmt::format("{}_read({}, batch, row, column, words[n]);", name, from));
    } else if (p.lanes > 1) {
      t.add(fmt::format("Lanes<float, {}> leaf;", p.lanes));
      t.add(fmt::format("read_lanes(leaf, {});", of_first_piece(s, leaf).text));
      add_pieces(t, p, s, leaf);
      t.add(fmt::format("{}_rest({}, batch, row, column, leaf.at, words[n]);", name, from));
    } else if (s.pieces > 1) {
      t.add(fmt::format("float leaf = *({});", of_first_piece(s, leaf).text));
      t.add("#pragma unroll");
      t.add(fmt::format("for (int p = 1; p < {0}; ++p) leaf += *of_piece<{0}>({1}, p);", s.pieces, leaf.text));
      t.add(fmt::format("{}({}, batch, row, column, &leaf);", name, from));
    } else {
      t.add(fmt::format("{}({}, batch, row, column, {});", name, from, leaf.text));
    }
    t.close();
  };
  if (p.lanes > 1) {
    t.add(fmt::format("{}_words words[{}];", name, together));
    each_line("read");
  }
  each_line("rest");
  t.close();
  if (s.pieces > 1) t.add(fmt::format("meet_cluster<{}>();", s.pieces));  // memory that others read stays
}

}  // namespace npusim::cuda::codegen::products
