// One text for all tiles: copies into stages, fragments, sums, and the epilogue over what the sums were put to.
#include "backends/cuda/target/tile.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/target/text.h"
#include "print/point.h"

namespace npusim::cuda {
namespace {

constexpr int depth_words = tile_depth / word;

class TileText {
 public:
  TileText(const Kernel& kernel, const Product& product, const TileShape& shape)
      : k_(kernel), p_(product), s_(shape), all_steps_(steps_of(p_)), steps_(steps_of_piece(p_, s_)) {}

  std::string body() {
    t_.add(fmt::format("extern __shared__ {}uint4 shared_words[];", s_.groups ? "__align__(1024) " : ""));
    t_.add("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
    const std::string_view type = element_type(p_);
    t_.add(fmt::format("{0}* const a_stages = ({0}*)shared_words;", type));
    t_.add(fmt::format("{}* const b_stages = a_stages + {};", type,
                       std::min<int64_t>(s_.stages, steps_) * s_.rows * tile_depth));
    if (s_.fed) {
      fed();
      return std::move(t_.text);
    }
    t_.add("const int thread = threadIdx.x;");
    stand_at("block");
    take_apart(t_, "batch", p_.batch, "z");
    if (s_.pieces > 1)
      t_.add(fmt::format("const int first_step = piece * {0} / {1}, steps = (piece + 1) * {0} / {1} - first_step;",
                         all_steps_, s_.pieces));
    declare_operands();
    declare_sums();
    if (s_.groups)
      group_sums();
    else
      sums();
    add_results(t_, k_, p_, s_);
    return std::move(t_.text);
  }

 private:
  // A loop's steps are counted from the piece's first.
  std::string steps() const { return s_.pieces > 1 ? "steps" : std::to_string(steps_); }
  std::string of_all(const std::string& step) const { return s_.pieces > 1 ? "first_step + " + step : step; }
  static int64_t tiles(const Axis& axis, int size) { return (axis.size() + size - 1) / size; }

  // Where the tile of this number is.
  void stand_at(const std::string& number) {
    const int64_t row_tiles = tiles(p_.rows, s_.rows), column_tiles = tiles(p_.columns, columns_of(p_, s_));
    // Blocks that follow each other share tiles of the larger operand: it comes from memory once.
    const bool rows_first = p_.b.elements >= p_.a.elements;
    const int64_t fast = rows_first ? row_tiles : column_tiles, slow = rows_first ? column_tiles : row_tiles;
    const std::string first = fmt::format("{} % {}", number, fast),
                      second = fmt::format("{} / {} % {}", number, fast, slow);
    t_.add(fmt::format("const int first_row = {} * {}, first_column = {} * {};", rows_first ? first : second, s_.rows,
                       rows_first ? second : first, columns_of(p_, s_)));
    t_.add(fmt::format("const int batch = {} / {};", number, row_tiles * column_tiles));
  }

  void declare_operands() {
    declare('a', p_.a, p_.rows, s_.rows, "row");
    declare('b', p_.b, p_.columns, s_.columns, "column");
    t_.open("const auto bring_a = [&](const int stage, const int step)");
    bring('a', p_.a, p_.rows, s_.rows);
    t_.close(";");
    t_.open("const auto bring_b = [&](const int stage, const int step)");
    bring('b', p_.b, p_.columns, s_.columns);
    t_.close(";");
  }
  static bool across(const Operand& o) { return o.words == Operand::Words::across; }
  // Words in a line of the stage's memory, and where a line's word lies: neighbours in a column of words lie in
  // different banks.
  static int line_words(const Operand& o, int size) { return across(o) ? size / word : depth_words; }
  static std::string turned(int words, const std::string& line) {
    return words >= 8   ? fmt::format("({} & 7)", line)
           : words == 4 ? fmt::format("({} / 2 & 3)", line)
                        : fmt::format("({} / 4 & 1)", line);
  }
  static std::string place(int words, const std::string& line, const std::string& at) {
    return fmt::format("(({}) * {} + (({}) ^ {})) * {}", line, words, at, turned(words, "(" + line + ")"), word);
  }
  int passes(const Operand& o, int size) const {
    return ((across(o) ? tile_depth : size) + lines_of_pass(o, size) - 1) / lines_of_pass(o, size);
  }
  int lines_of_pass(const Operand& o, int size) const { return s_.loaders() / line_words(o, size); }

  std::string there(const Operand& o, const std::string& position, const std::string& at) const {
    std::string text = position;
    for (size_t n = 0; n < o.bounds.size(); ++n)
      text += fmt::format(" && (unsigned)({}) < {}u", fmt::format(fmt::runtime(at), n), o.bounds[n].limit);
    return text;
  }

  // Where this thread's lines stand in the operand's memory, but for the depth.
  void declare(char x, const Operand& o, const Axis& axis, int size, const std::string& what) {
    const bool plain = is_plain(o, axis, size);
    const int words = line_words(o, size), lines = across(o) || plain ? 1 : passes(o, size);
    const std::string_view type = address_type(o);
    t_.add(fmt::format("const int {0}_word = thread % {1}, {0}_line = thread / {1};", x, words));
    t_.add(fmt::format("{} {}_at[{}];", type, x, lines));
    if (!plain) t_.add(fmt::format("bool {}_there[{}];", x, lines));
    for (size_t n = 0; n < o.bounds.size(); ++n) t_.add(fmt::format("int {}_bound{}[{}];", x, n, lines));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; ++j)", lines));
    const int apart = matrix_lines(x, size);
    if (apart != size)
      t_.add(fmt::format("const int line = {0}_line + j * {1}, at = first_{2} + (line < {3} ? line : line - {3});", x,
                         lines_of_pass(o, size), what, apart));
    else
      t_.add(across(o) ? fmt::format("const int at = first_{} + {}_word * {};", what, x, word)
                       : fmt::format("const int at = first_{} + {}_line + j * {};", what, x, lines_of_pass(o, size)));
    take_apart(t_, "at", axis, "r");
    if (!plain) t_.add(fmt::format("{}_there[j] = at < {};", x, axis.size()));
    const std::string_view cast = type == "int" ? "" : "(long long)";
    t_.add(fmt::format(
        "{}_at[j] = {};", x,
        sum_of({fmt::format("{}{}", o.offset ? cast : "", o.offset), widen(o, p_.batch, "z"), widen(o, axis, "r")})));
    for (size_t n = 0; n < o.bounds.size(); ++n) {
      const Bound& b = o.bounds[n];
      t_.add(fmt::format("{}_bound{}[j] = {};", x, n,
                         sum_of({std::to_string(b.offset), put_together(b.coeffs, p_.batch, "z"),
                                 put_together(b.coeffs, axis, "r")})));
    }
    t_.close();
  }

  // Of a stage's lines, those of the first of two matrices; else all.
  int matrix_lines(char x, int size) const { return x == 'b' && p_.second_b >= 0 ? size / 2 : size; }

  // The sum in the type of addresses.
  static std::string widen(const Operand& o, const Axis& axis, const std::string& name) {
    if (address_type(o) == "int") return put_together(o.strides, axis, name);
    std::vector<std::string> parts;
    for (size_t n = 0; n < axis.dims.size(); ++n)
      if (const int64_t stride = o.strides[static_cast<size_t>(axis.dims[n])])
        parts.push_back(fmt::format("(long long){}_{} * {}", name, n, stride));
    return parts.empty() ? "" : fmt::format("{}", fmt::join(parts, " + "));
  }

  // The words of a stage that this thread brings.
  void bring(char x, const Operand& o, const Axis& axis, int size) {
    const int words = line_words(o, size), count = passes(o, size), pass = lines_of_pass(o, size);
    const int all = across(o) ? tile_depth : size;
    const std::string stage = fmt::format("{}_stages + stage * {}", x, size * tile_depth);
    const int apart = matrix_lines(x, size);
    const bool two = apart != size;
    const std::string one = pointer_of(k_, o), from = two ? "from" : one,
                      other = two ? pointer_of(k_, p_.second_b) : "";
    const auto depth = [&](const std::string& position) {
      t_.add(fmt::format("const int k = step * {} + {};", tile_depth, position));
      take_apart(t_, "k", p_.depth, "k");
      t_.add(fmt::format("const {} deep = {};", address_type(o), sum_of({widen(o, p_.depth, "k")})));
      for (size_t n = 0; n < o.bounds.size(); ++n)
        t_.add(fmt::format("const int deep{} = {};", n, sum_of({put_together(o.bounds[n].coeffs, p_.depth, "k")})));
    };
    const auto is_there = [&](const std::string& j) {
      std::string text = fmt::format("{}_there[{}]", x, j);
      if (p_.depth.size() % tile_depth != 0) text += fmt::format(" && k < {}", p_.depth.size());
      if (p_.filled != word && o.words != Operand::Words::along_depth)
        text += fmt::format(" && k_{} < {}", p_.depth.dims.size() - 1, p_.filled);
      return there(o, text, fmt::format("{}_bound{{0}}[{}] + deep{{0}}", x, j));
    };
    t_.open("");
    if (is_plain(o, axis, size)) {
      depth(fmt::format("{}_word * {}", x, word));
      t_.add(fmt::format("const {}* const from = {} + {}_at[0] + deep;", element_type(p_), one, x));
      if (two) t_.add(fmt::format("const {}* const other = {} + {}_at[0] + deep;", element_type(p_), other, x));
      t_.add(fmt::format("{}* const to = {} + {};", element_type(p_), stage,
                         place(words, fmt::format("{}_line", x), fmt::format("{}_word", x))));
      t_.add("#pragma unroll");
      const std::string_view wide = address_type(o) == "int" ? "" : "(long long)";
      t_.add(fmt::format("for (int j = 0; j < {}; ++j) copy_async(to + j * {}, {} * {}, {});", count, pass * tile_depth,
                         two ? fmt::format("(j < {0} ? from : other) + {1}(j % {0})", apart / pass, wide)
                             : fmt::format("from + {}j", wide),
                         axis.dims.empty() ? 0 : o.strides[static_cast<size_t>(axis.dims[0])] * pass,
                         p_.depth.size() % tile_depth == 0 ? "true" : fmt::format("k < {}", p_.depth.size())));
    } else if (o.words == Operand::Words::none) {
      t_.add(fmt::format("Lanes<{}, {}> words[{}];", element_type(p_), word, count));
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int e = 0; e < {}; ++e)", word));
      depth(fmt::format("{}_word * {} + e", x, word));
      t_.add("#pragma unroll");
      t_.add(fmt::format("for (int j = 0; j < {}; ++j) words[j].at[e] = {} ? {}[{}_at[j] + deep] : 0;", count,
                         is_there("j"), from, x));
      t_.close();
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int j = 0; j < {}; ++j)", count));
      t_.add(fmt::format("const int line = {}_line + j * {};", x, pass));
      if (all % pass != 0) t_.add(fmt::format("if (line >= {}) break;", all));
      t_.add(fmt::format("write_lanes(words[j], {} + {});", stage, place(words, "line", fmt::format("{}_word", x))));
      t_.close();
    } else {
      if (!across(o)) depth(fmt::format("{}_word * {}", x, word));
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int j = 0; j < {}; ++j)", count));
      t_.add(fmt::format("const int line = {}_line + j * {};", x, pass));
      if (all % pass != 0) t_.add(fmt::format("if (line >= {}) break;", all));
      if (across(o)) depth("line");
      const std::string j = across(o) ? "0" : "j";
      if (two) t_.add(fmt::format("const {}* const from = line < {} ? {} : {};", element_type(p_), apart, one, other));
      t_.add(fmt::format("const bool there = {};", is_there(j)));
      const bool part = !across(o) && p_.filled != word;
      t_.add(fmt::format("copy_{}({} + {}, {} + (there ? {}_at[{}] + deep : 0), {});", part ? "part" : "async", stage,
                         place(words, "line", fmt::format("{}_word", x)), from, x, j,
                         part ? fmt::format("there ? {} : 0", 2 * p_.filled) : "there"));
      t_.close();
    }
    t_.close();
  }

  // Whether lines follow each other in even steps, and all are there.
  bool is_plain(const Operand& o, const Axis& axis, int size) const {
    const int pass = lines_of_pass(o, size), lines = &o == &p_.b ? columns_of(p_, s_) : size;
    return s_.fed && axis.dims.size() <= 1 && o.bounds.empty() && axis.size() % lines == 0 && lines % pass == 0 &&
           pass % 8 == 0 && p_.filled == word;
  }

  // A loop's parts that both those who fill stages and those who multiply walk.
  void each_tile() {
    t_.add("#pragma unroll 1");
    t_.open(fmt::format("for (int tile = block; tile < {}; tile += gridDim.x)", tiles_of(p_, s_)));
    stand_at("tile");
  }
  int slots() const { return static_cast<int>(std::min<int64_t>(s_.stages, steps_)); }
  void next_slot() { t_.add(fmt::format("if (++slot == {}) slot = 0, phase ^= 1;", slots())); }

  // Four warps ask for the words of stages, as far ahead as there is room, over the ends of tiles; the others multiply,
  // and let a stage go when the next one's products have begun and its own have ended.
  void fed() {
    const int warps = s_.multipliers() / 32;
    const bool plain = is_plain(p_.a, p_.rows, s_.rows) && is_plain(p_.b, p_.columns, s_.columns);
    // Of a thread of four warps; together no more than the launch has.
    const int all = 65536 / s_.threads() / 8 * 8 * (s_.threads() / 128);
    const bool walks = !p_.a.bounds.empty() || !p_.b.bounds.empty();
    const int own = walks ? (s_.rows > 128 && s_.columns <= 64 ? 120 : 88) : !plain ? 80 : p_.second_b >= 0 ? 56 : 40;
    const int others = (all - own) / (warps / 4) / 8 * 8;
    t_.add(
        fmt::format("unsigned long long* const full = (unsigned long long*)(b_stages + {}), *const empty = full + {};",
                    slots() * s_.columns * tile_depth, slots()));
    t_.add(fmt::format("if (threadIdx.x < {}) mbarrier_start(&full[threadIdx.x], threadIdx.x < {} ? 128 : {});",
                       2 * slots(), slots(), warps));
    t_.add("__syncthreads();");
    t_.open(fmt::format("if (warp >= {})", warps));
    t_.add(fmt::format("take_registers<{}>();", own));
    t_.add(fmt::format("const int thread = threadIdx.x - {};", s_.multipliers()));
    t_.add("int slot = 0;");
    t_.add("unsigned phase = 1;");
    const bool ahead = p_.a.ahead || p_.b.ahead;
    const auto follow = [&] {
      for (const std::string& statement : follow_text(k_, p_)) t_.add(statement);
    };
    if (!ahead) follow();
    each_tile();
    if (p_.batch.dims.empty())
      t_.add("(void)batch;");
    else
      take_apart(t_, "batch", p_.batch, "z");
    declare_operands();
    if (ahead) {  // of the first stages, before what precedes the launch has ended
      t_.open("if (tile == block)");
      t_.add("#pragma unroll 1");
      t_.open(fmt::format("for (int step = 0; step < {}; ++step)", slots()));
      if (p_.a.ahead) t_.add("bring_a(step, step);");
      if (p_.b.ahead) t_.add("bring_b(step, step);");
      t_.close();
      follow();
      t_.close();
    }
    t_.add("#pragma unroll 1");
    t_.open(fmt::format("for (int step = 0; step < {}; ++step)", steps_));
    t_.add("mbarrier_wait(&empty[slot], phase);");
    const std::string again = fmt::format("if (tile != block || step >= {}) ", slots());
    t_.add(fmt::format("{}bring_a(slot, step);", p_.a.ahead ? again : ""));
    t_.add(fmt::format("{}bring_b(slot, step);", p_.b.ahead ? again : ""));
    t_.add("arrive_behind_copies(&full[slot]);");
    next_slot();
    t_.close();
    t_.close();
    t_.add("return;");
    t_.close();
    t_.add(fmt::format("give_registers<{}>();", others));
    follow();
    t_.add("int slot = 0, last = 0;");
    t_.add("unsigned phase = 0;");
    each_tile();
    declare_sums();
    t_.add("#pragma unroll");  // zeros are in their registers before products begin
    t_.add(fmt::format("for (int i = 0; i < {}; ++i) hold(sums[i]);", rows_of_warp(s_) / 16));
    t_.add("#pragma unroll 1");
    t_.open(fmt::format("for (int step = 0; step < {}; ++step)", steps_));
    t_.add("mbarrier_wait(&full[slot], phase);");
    t_.add("show_words();");
    for (const auto& [x, size] : {std::pair{'a', s_.rows}, {'b', s_.columns}})
      t_.add(
          fmt::format("const {0}* const {1}_stage = {1}_stages + slot * {2};", element_type(p_), x, size * tile_depth));
    group_step();
    t_.add("wait_group<1>();");
    t_.add("if (lane == 0 && step > 0) mbarrier_arrive(&empty[last]);");
    t_.add("last = slot;");
    next_slot();
    t_.close();
    t_.add("wait_group<0>();");
    t_.add("if (lane == 0) mbarrier_arrive(&empty[last]);");
    add_results_from_registers(t_, k_, p_, s_);
    t_.close();
  }

  void declare_sums() {
    const int m = rows_of_warp(s_), n = columns_of_warp(s_);
    t_.add(fmt::format("const int warp_row = warp / {} * {};", s_.warps_along_columns, s_.groups ? 16 : m));
    if (!s_.fed) t_.add(fmt::format("const int warp_column = warp % {} * {};", s_.warps_along_columns, n));
    t_.add(fmt::format("float sums[{}][{}][4];", m / 16, n / 8));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i)", m / 16));
    t_.add("#pragma unroll");
    t_.add(fmt::format(
        "  for (int j = 0; j < {}; ++j) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0;", n / 8));
  }

  void stage(char x, int size) {
    t_.add(fmt::format("const {0}* const {1}_stage = {1}_stages + step % {2} * {3};", element_type(p_), x, s_.stages,
                       size * tile_depth));
  }

  void group_step() {
    t_.add("begin_group();");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int k = 0; k < {}; k += 16)", tile_depth));
    t_.add("#pragma unroll");
    t_.add(fmt::format("  for (int i = 0; i < {}; ++i)", rows_of_warp(s_) / 16));
    t_.add(fmt::format("    multiply_group_{}_{}(sums[i], a_stage + warp / 4 * {} + i * {}, b_stage, k);",
                       element_type(p_), s_.columns, 64 * tile_depth, next_rows(s_) * tile_depth));
    t_.add("commit_group();");
  }

  // One step's products are under way while the next one's begin; the stage that is filled is that of the last but one,
  // which all groups waited for before the barrier. With few stages, where blocks beside this one have products too, it
  // is the last one's.
  void group_sums() {
    const int ahead = stages_ahead(s_);
    first_stages(ahead);
    t_.open(fmt::format("for (int step = 0; step < {}; ++step)", steps()));
    t_.add(fmt::format("wait_copies<{}>();", ahead - 1));
    t_.add("show_words();");
    if (ahead == s_.stages - 1) t_.add("wait_group<0>();");
    t_.add("__syncthreads();");
    stage('a', s_.rows), stage('b', s_.columns);
    group_step();
    next_stage(ahead);
    t_.add("commit_copies();");
    if (ahead != s_.stages - 1) t_.add("wait_group<1>();");
    t_.close();
    t_.add("wait_group<0>();");
  }

  void sums() {
    const int m = rows_of_warp(s_), n = columns_of_warp(s_);
    first_stages(stages_ahead(s_));
    t_.open(fmt::format("for (int step = 0; step < {}; ++step)", steps()));
    t_.add(fmt::format("wait_copies<{}>();", stages_ahead(s_) - 1));
    t_.add("__syncthreads();");
    next_stage(stages_ahead(s_));
    t_.add("commit_copies();");
    const std::string_view type = element_type(p_);
    stage('a', s_.rows), stage('b', s_.columns);
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int k = 0; k < {}; k += 16)", tile_depth));
    t_.add(fmt::format("unsigned a[{}][4], b[{}][4];", m / 16, n / 16));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i) {};", m / 16, fragment('a', p_.a, s_.rows)));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i) {};", n / 16, fragment('b', p_.b, s_.columns)));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i)", m / 16));
    t_.add("#pragma unroll");
    t_.add(fmt::format("  for (int j = 0; j < {}; ++j) multiply_{}(sums[i][j], a[i], b[j / 2] + j % 2 * 2);", n / 8,
                       type));
    t_.close();
    t_.close();
  }

  // What is there ahead is asked for before what precedes the launch has ended, and is of the first commit.
  void first_stages(int count) {
    const auto stages = [&](bool ahead) {
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int step = 0; step < {}; ++step)", std::min<int64_t>(count, steps_)));
      const bool all = count <= all_steps_ / s_.pieces || s_.pieces == 1;
      for (const auto& [x, is_ahead] : {std::pair{'a', p_.a.ahead}, {'b', p_.b.ahead}})
        if (is_ahead == ahead)
          t_.add(fmt::format("{}bring_{}(step, {});", all ? "" : "if (step < steps) ", x, of_all("step")));
      if (!ahead) t_.add("commit_copies();");
      t_.close();
    };
    if (p_.a.ahead || p_.b.ahead) stages(true);
    for (const std::string& statement : follow_text(k_, p_)) t_.add(statement);
    stages(false);
    for (int64_t step = steps_; step < count; ++step) t_.add("commit_copies();");
  }

  void next_stage(int ahead) {
    t_.open(fmt::format("if (step + {} < {})", ahead, steps()));
    for (const char x : {'a', 'b'})
      t_.add(fmt::format("bring_{}((step + {}) % {}, {} + {});", x, ahead, s_.stages, of_all("step"), ahead));
    t_.close();
  }

  // Four matrices of 8 x 8: of a, rows then depth; of b, depth then columns. A line of memory that runs across is
  // turned.
  std::string fragment(char x, const Operand& o, int size) const {
    const bool is_a = x == 'a';
    const int words = line_words(o, size);
    const std::string first = is_a ? "warp_row + i * 16" : "warp_column + i * 16";
    std::string line, at;
    if (across(o)) {
      line = is_a ? "k + lane / 16 * 8 + lane % 8" : "k + lane / 8 % 2 * 8 + lane % 8";
      at = fmt::format("({}) / 8 + {}", first, is_a ? "lane / 8 % 2" : "lane / 16");
    } else {
      line = first + (is_a ? " + lane % 16" : " + lane / 16 * 8 + lane % 8");
      at = is_a ? "k / 8 + lane / 16" : "k / 8 + lane / 8 % 2";
    }
    return fmt::format("load_matrices{}({}[i], {}_stage + {})", across(o) ? "_turned" : "", x, x,
                       place(words, line, at));
  }

  const Kernel& k_;
  const Product& p_;
  const TileShape& s_;
  const int64_t all_steps_, steps_;  // and of a piece, at most
  Lines t_;
};

}  // namespace

std::string tiles_decline(const Product& p) {
  for (const Operand* o : {&p.a, &p.b})
    for (const Bound& b : o->bounds)
      if (b.limit > int64_t{1} << 30 || std::abs(b.offset) > int64_t{1} << 30) return "coordinates beyond 32 bits";
  const int64_t narrow = std::min(p.rows.size(), p.columns.size());
  if (narrow < 8 && p.batch.size() > 64)
    return fmt::format("{} products of {} rows and {} columns", p.batch.size(), p.rows.size(), p.columns.size());
  return {};
}

Made make_tiles(const Kernel& kernel, const Product& product, const TileShape& s) {
  const std::string name = function_name(kernel, product);
  PointFunction point;
  point.name = name + "_at";
  point.positions = {{"batch", product.batch.dims}, {"row", product.rows.dims}, {"column", product.columns.dims}};
  point.lanes = product.lanes;
  const Axis& lanes = product.lanes_are_rows ? product.rows : product.columns;
  point.pair = product.second_b >= 0;
  if (product.lanes > 1) point.lane_dim = lanes.dims.back();
  Made made;
  made.shape = {tiles_of(product, s), s.threads()};
  if (s.fed) made.shape.blocks = std::min<int64_t>(made.shape.blocks, multiprocessors);
  made.shared_bytes = shared_bytes_of(product, s);
  made.groups = s.groups || s.pieces > 1;
  const auto read = [](const Operand& o) {
    return o.words == Operand::Words::none ? "elements" : o.words == Operand::Words::across ? "words across" : "words";
  };
  made.how = fmt::format("tiles of {}x{}, {} stages, {} by {}{}{}", s.rows, s.columns, s.stages, read(product.a),
                         read(product.b),
                         s.fed      ? ", by warpgroups that one more feeds"
                         : s.groups ? ", by warpgroups"
                                    : "",
                         s.pieces > 1 ? fmt::format(", the depth in {} pieces", s.pieces) : "");
  made.functions = print_point(kernel, cuda_dialect, point);
  made.functions += fmt::format("\n// {}: {}\n", name, made.how);
  made.functions += function_head(kernel, product, made.shape, s.pieces, s.fed);
  made.shape.blocks *= product.copies * s.pieces;
  made.pieces = s.pieces;
  made.functions += TileText(kernel, product, s).body() + "}\n";
  return made;
}

}  // namespace npusim::cuda
