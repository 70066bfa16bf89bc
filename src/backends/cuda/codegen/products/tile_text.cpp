// Where a tile stands, how the words of its operands come into stages, and its sums.
#include "backends/cuda/codegen/products/tile_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace npusim::cuda::codegen::products {
namespace {

constexpr int depth_words = tile_depth / word;

Term swizzle(int words, const Term& line) {
  return words >= 8 ? term("{} & 7", line) : words == 4 ? term("{:*} / 2 & 3", line) : term("{:*} / 4 & 1", line);
}

std::string there(const Operand& o, const std::string& position, const std::string& at) {
  std::string text = position;
  for (size_t n = 0; n < o.bounds.size(); ++n)
    text += fmt::format(" && (unsigned){} < {}u", Term(fmt::format(fmt::runtime(at), n)), o.bounds[n].limit);
  return text;
}

// The sum in the type of addresses.
Term widen(const Operand& o, const Axis& axis, const std::string& name) {
  if (address_type(o) == "int") return put_together(o.strides, axis, name);
  std::vector<Term> parts;
  for (size_t n = 0; n < axis.dims.size(); ++n)
    if (const int64_t stride = o.strides[static_cast<size_t>(axis.dims[n])])
      parts.push_back(term("(long long){}_{} * {}", name, n, stride));
  return parts.empty() ? Term() : sum_of(parts);
}

}  // namespace

int line_words(const Operand& o, int size) { return across(o) ? size / o.word : depth_words; }

Term stage_offset(int words, const Term& line, const Term& at, int word) {
  return term("({} * {} + ({} ^ {})) * {}", line, words, at, swizzle(words, line), word);
}

TileText::TileText(const Kernel& kernel, const Product& product, const TileShape& shape)
    : k_(kernel),
      p_(product),
      s_(shape),
      stage_columns_(shape.columns),
      all_steps_(steps_of(p_)),
      steps_(steps_of_piece(p_, s_)),
      word_(word_of(p_)),
      depth_(depth_of_stage(p_)) {}

void TileText::begin() {
  t_.add(fmt::format("extern __shared__ {}uint4 shared_words[];", s_.groups ? "__align__(1024) " : ""));
  t_.add("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
  const std::string_view type = element_type(p_);
  t_.add(fmt::format("{0}* const a_stages = ({0}*)shared_words;", type));
  t_.add(fmt::format("{}* const b_stages = a_stages + {};", type,
                     std::min<int64_t>(s_.stages, steps_) * s_.rows * depth_));
}

void TileText::stand_at(const Term& number) {
  const int64_t row_tiles = (p_.rows.size() + s_.rows - 1) / s_.rows,
                column_tiles = (p_.columns.size() + columns_of(p_, s_) - 1) / columns_of(p_, s_);
  // Blocks that follow each other share tiles of the larger operand: it comes from memory once.
  const bool rows_first = p_.b.elements >= p_.a.elements;
  const int64_t fast = rows_first ? row_tiles : column_tiles, slow = rows_first ? column_tiles : row_tiles;
  const Term first = term("{:*} % {}", number, fast), second = term("{:*} / {} % {}", number, fast, slow);
  t_.add(fmt::format("const int first_row = {:*} * {}, first_column = {:*} * {};", rows_first ? first : second, s_.rows,
                     rows_first ? second : first, columns_of(p_, s_)));
  t_.add(fmt::format("const int batch = {:*} / {};", number, row_tiles * column_tiles));
}

void TileText::declare_operands() {
  declare('a', p_.a, p_.rows, s_.rows, "row");
  declare('b', p_.b, p_.columns, s_.columns, "column");
  t_.open("const auto copy_a = [&](const int stage, const int step)");
  copy_words('a', p_.a, p_.rows, s_.rows);
  t_.close(";");
  t_.open("const auto copy_b = [&](const int stage, const int step)");
  copy_words('b', p_.b, p_.columns, s_.columns);
  t_.close(";");
}

int TileText::passes(const Operand& o, int size) const {
  return ((across(o) ? depth_ : size) + lines_of_pass(o, size) - 1) / lines_of_pass(o, size);
}
int TileText::lines_of_pass(const Operand& o, int size) const { return s_.loaders() / line_words(o, size); }

// Where this thread's lines stand in the operand's memory, but for the depth.
void TileText::declare(char x, const Operand& o, const Axis& axis, int size, const std::string& what) {
  const bool plain = is_plain(o, axis, size);
  const int words = line_words(o, size), lines = across(o) || plain ? 1 : passes(o, size);
  const std::string_view type = address_type(o);
  t_.add(fmt::format("const int {0}_word = thread % {1}, {0}_line = thread / {1};", x, words));
  t_.add(fmt::format("{} {}_at[{}];", type, x, lines));
  if (!plain) t_.add(fmt::format("bool {}_there[{}];", x, lines));
  const bool ends = plain && axis.size() % matrix_lines(x, size) != 0;  // within a tile
  if (ends) t_.add(fmt::format("int {}_left;", x));
  for (size_t n = 0; n < o.bounds.size(); ++n) t_.add(fmt::format("int {}_bound{}[{}];", x, n, lines));
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int j = 0; j < {}; ++j)", lines));
  const int apart = matrix_lines(x, size);
  Term line = term("{}_line + j * {}", x, lines_of_pass(o, size));
  if (apart != size || (x == 'b' && has_neighbours(p_, s_))) {
    t_.add(fmt::format("const int line = {};", line.text));
    line = apart != size ? term("line < {0} ? line : line - {0}", apart) : "line";
    // A lane's sums are two columns of each of four tiles: neighbours are put there.
    if (has_neighbours(p_, s_) && x == 'b')
      line = term("{0:*} / 32 * 32 + {0:*} % 8 / 2 * 8 + {0:*} / 8 % 4 * 2 + {0:*} % 2", line);
  }
  t_.add(across(o) ? fmt::format("const int at = first_{} + {}_word * {};", what, x, word_)
                   : fmt::format("const int at = first_{} + {:+};", what, line));
  take_apart(t_, "at", axis, "r");
  if (ends) t_.add(fmt::format("{}_left = {} - at;", x, axis.size()));
  if (!plain) t_.add(fmt::format("{}_there[j] = at < {};", x, axis.size()));
  const std::string_view cast = type == "int" ? "" : "(long long)";
  t_.add(fmt::format(
      "{}_at[j] = {};", x,
      sum_of({term("{}{}", o.offset ? cast : "", o.offset), widen(o, p_.batch, "z"), widen(o, axis, "r")}).text));
  for (size_t n = 0; n < o.bounds.size(); ++n) {
    const Bound& b = o.bounds[n];
    t_.add(
        fmt::format("{}_bound{}[j] = {};", x, n,
                    sum_of({b.offset, put_together(b.coeffs, p_.batch, "z"), put_together(b.coeffs, axis, "r")}).text));
  }
  t_.close();
}

// Of a stage's lines, those of the first of two matrices; else all.
int TileText::matrix_lines(char x, int size) const { return x == 'b' && p_.second_b >= 0 ? size / 2 : size; }

// The words of a stage that this thread copies.
void TileText::copy_words(char x, const Operand& o, const Axis& axis, int size) {
  const int words = line_words(o, size), count = passes(o, size), pass = lines_of_pass(o, size);
  const int all = across(o) ? depth_ : size;
  const Term stage = term("{}_stages + stage * {}", x, (x == 'b' ? stage_columns_ : size) * depth_);
  const int apart = matrix_lines(x, size);
  const bool two = apart != size;
  const std::string one = pointer_of(k_, o), from = two ? "from" : one, other = two ? pointer_of(k_, p_.second_b) : "";
  const auto depth = [&](const Term& position) {
    t_.add(fmt::format("const int k = step * {} + {:+};", depth_, position));
    take_apart(t_, "k", p_.depth, "k");
    t_.add(fmt::format("const {} deep = {};", address_type(o), sum_of({widen(o, p_.depth, "k")}).text));
    for (size_t n = 0; n < o.bounds.size(); ++n)
      t_.add(fmt::format("const int deep{} = {};", n, sum_of({put_together(o.bounds[n].coeffs, p_.depth, "k")}).text));
  };
  const auto is_there = [&](const std::string& j) {
    std::string text = fmt::format("{}_there[{}]", x, j);
    if (p_.depth.size() % depth_ != 0) text += fmt::format(" && k < {}", p_.depth.size());
    if (p_.filled != word_ && o.words != Operand::Words::along_depth)
      text += fmt::format(" && k_{} < {}", p_.depth.dims.size() - 1, p_.filled);
    return there(o, text, fmt::format("{}_bound{{0}}[{}] + deep{{0}}", x, j));
  };
  t_.open("");
  if (is_plain(o, axis, size)) {
    depth(term("{}_word * {}", x, word_));
    t_.add(fmt::format("const {}* const from = {} + {}_at[0] + deep;", element_type(p_), one, x));
    if (two) t_.add(fmt::format("const {}* const other = {} + {}_at[0] + deep;", element_type(p_), other, x));
    t_.add(fmt::format("{}* const to = {:+} + {:+};", element_type(p_), stage,
                       stage_offset(words, term("{}_line", x), term("{}_word", x), word_)));
    t_.add("#pragma unroll");
    const std::string_view wide = address_type(o) == "int" ? "" : "(long long)";
    const bool permuted = x == 'b' && has_neighbours(p_, s_);  // then passes advance by 4 and 28 lines alternately
    const int64_t pitch = axis.dims.empty() ? 0 : o.strides[static_cast<size_t>(axis.dims[0])];
    const Term number = two ? term("j % {}", apart / pass) : "j";
    const Term further = permuted ? term("{0:*} / 2 * 32 + {0:*} % 2 * 4", number) : term("{:*} * {}", number, pass);
    std::string is_there = p_.depth.size() % depth_ == 0 ? "" : fmt::format("k < {}", p_.depth.size());
    if (axis.size() % apart != 0)
      is_there += fmt::format("{}{:+} < {}_left", is_there.empty() ? "" : " && ", further, x);
    t_.add(fmt::format("for (int j = 0; j < {}; ++j) copy_async(to + j * {}, {} + {}{} * {}, {});", count,
                       pass * depth_, two ? term("j < {} ? from : other", apart / pass) : "from", wide, further, pitch,
                       is_there.empty() ? "true" : is_there));
  } else if (o.words == Operand::Words::none) {
    t_.add(fmt::format("Lanes<{}, {}> words[{}];", element_type(p_), word_, count));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int e = 0; e < {}; ++e)", word_));
    depth(term("{}_word * {} + e", x, word_));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j) words[j].at[e] = {} ? {}[{}_at[j] + deep] : 0;", count,
                       is_there("j"), from, x));
    t_.close();
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; ++j)", count));
    t_.add(fmt::format("const int line = {}_line + j * {};", x, pass));
    if (all % pass != 0) t_.add(fmt::format("if (line >= {}) break;", all));
    t_.add(fmt::format("write_lanes(words[j], {:+} + {:+});", stage,
                       stage_offset(words, "line", term("{}_word", x), word_)));
    t_.close();
  } else {
    if (!across(o)) depth(term("{}_word * {}", x, word_));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; ++j)", count));
    t_.add(fmt::format("const int line = {}_line + j * {};", x, pass));
    if (all % pass != 0) t_.add(fmt::format("if (line >= {}) break;", all));
    if (across(o)) depth("line");
    const std::string j = across(o) ? "0" : "j";
    if (two) t_.add(fmt::format("const {}* const from = line < {} ? {} : {};", element_type(p_), apart, one, other));
    t_.add(fmt::format("const bool there = {};", is_there(j)));
    const bool part = !across(o) && p_.filled != word_;
    t_.add(fmt::format("copy_{}({:+} + {:+}, {} + (there ? {}_at[{}] + deep : 0), {});", part ? "part" : "async", stage,
                       stage_offset(words, "line", term("{}_word", x), word_), from, x, j,
                       part ? fmt::format("there ? {} : 0", 16 / word_ * p_.filled) : "there"));
    t_.close();
  }
  t_.close();
}

bool TileText::is_plain(const Operand& o, const Axis& axis, int size) const {
  const int pass = lines_of_pass(o, size), lines = matrix_lines(&o == &p_.b ? 'b' : 'a', size);
  return s_.specialized && has_even_lines(p_, o, axis) && (axis.size() % lines == 0 || p_.second_b >= 0) &&
         lines % pass == 0 && pass % 8 == 0 && (&o == &p_.a || !has_neighbours(p_, s_) || pass == 16);
}

void TileText::declare_sums() {
  const int m = rows_of_warp(s_), n = columns_of_warp(s_);
  t_.add(fmt::format("const int warp_row = warp / {} * {};", s_.warps_along_columns, s_.groups ? 16 : m));
  if (!s_.specialized) t_.add(fmt::format("const int warp_column = warp % {} * {};", s_.warps_along_columns, n));
  t_.add(fmt::format("float sums[{}][{}][4];", m / 16, n / 8));
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int i = 0; i < {}; ++i)", m / 16));
  t_.add("#pragma unroll");
  t_.add(fmt::format(
      "  for (int j = 0; j < {}; ++j) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0;", n / 8));
}

void TileText::group_step() {
  t_.add("begin_group();");
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int k = 0; k < {}; k += 16)", tile_depth));
  t_.add("#pragma unroll");
  t_.add(fmt::format("  for (int i = 0; i < {}; ++i)", rows_of_warp(s_) / 16));
  t_.add(fmt::format("    multiply_group_{}_{}(sums[i], a_stage + warp / 4 * {} + i * {}, b_stage, k);",
                     element_type(p_), s_.columns, 64 * tile_depth, next_rows(s_) * tile_depth));
  t_.add("commit_group();");
}

}  // namespace npusim::cuda::codegen::products
