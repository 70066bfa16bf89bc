// A tile of a block: copies into stages, fragments, sums, and the epilogue over what the sums were put to.
#include "backends/cuda/codegen/products/tile.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/products/tile_text.h"
#include "print/point.h"

namespace npusim::cuda::codegen::products {
namespace {

class BlockText : TileText {
 public:
  using TileText::TileText;

  std::string body() {
    begin();
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
  Term steps() const { return s_.pieces > 1 ? Term("steps") : Term(steps_); }
  Term of_all(const Term& step) const { return s_.pieces > 1 ? term("first_step + {:+}", step) : step; }

  void stage(char x, int size) {
    t_.add(fmt::format("const {0}* const {1}_stage = {1}_stages + step % {2} * {3};", element_type(p_), x, s_.stages,
                       size * depth_));
  }

  // One step's products are in flight while the next one's begin; the stage that is filled is that of the last but one,
  // which all groups waited for before the barrier. With few stages, where other resident blocks have products too, it
  // is the last one's.
  void group_sums() {
    const int ahead = stages_ahead(s_);
    first_stages(ahead);
    if (reads_early(p_, s_)) add_reads(t_, k_, p_, s_);
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
    if (reads_early(p_, s_)) add_reads(t_, k_, p_, s_);
    t_.open(fmt::format("for (int step = 0; step < {}; ++step)", steps()));
    t_.add(fmt::format("wait_copies<{}>();", stages_ahead(s_) - 1));
    t_.add("__syncthreads();");
    next_stage(stages_ahead(s_));
    t_.add("commit_copies();");
    stage('a', s_.rows), stage('b', s_.columns);
    if (p_.dtype == DType::f32)
      fma_step();
    else
      matrix_step(m, n);
    t_.close();
  }

  void matrix_step(int m, int n) {
    const std::string_view type = element_type(p_);
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int k = 0; k < {}; k += 16)", depth_));
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
  }

  // A lane has the sums that it has of matrices: of 16 rows and 8 columns two rows, eight apart, of two neighbours. Its
  // rows and those of seven others lie in different banks, and each sum is made in the order of the depth.
  void fma_step() {
    const int m = rows_of_warp(s_) / 8, n = columns_of_warp(s_) / 4;
    t_.add("#pragma unroll 2");
    t_.open(fmt::format("for (int k = 0; k < {}; k += {})", depth_, word_));
    t_.add(fmt::format("float4 a[{}];", m));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i) a[i] = {};", m,
                       four('a', p_.a, s_.rows, "warp_row + i * 8 + lane / 4")));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; ++j)", n));
    t_.add(fmt::format("const float4 b = {};",
                       four('b', p_.b, s_.columns, "warp_column + j / 2 * 8 + lane % 4 * 2 + j % 2")));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int i = 0; i < {}; ++i)", m));
    t_.add("float& sum = sums[i / 2][j / 2][i % 2 * 2 + j % 2];");
    for (const char of : {'x', 'y', 'z', 'w'}) t_.add(fmt::format("sum = fmaf(a[i].{0}, b.{0}, sum);", of));
    t_.close();
    t_.close();
    t_.close();
  }

  // What a row or a column has from k on.
  std::string four(char x, const Operand& o, int size, const Term& line) const {
    const int words = line_words(o, size);
    if (!across(o))
      return fmt::format("*(const float4*)({}_stage + {:+})", x, stage_offset(words, line, "k / 4", word_));
    std::string elements;
    for (int e = 0; e < word_; ++e)
      elements += fmt::format("{}{}_stage[{:+} + {:*} % 4]", e == 0 ? "" : ", ", x,
                              stage_offset(words, term("k + {}", e), term("{:*} / 4", line), word_), line);
    return fmt::format("float4{{{}}}", elements);
  }

  // What is there ahead is asked for before what precedes the launch has ended, and is of the first commit.
  void first_stages(int count) {
    const auto stages = [&](bool ahead) {
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int step = 0; step < {}; ++step)", std::min<int64_t>(count, steps_)));
      const bool all = count <= all_steps_ / s_.pieces || s_.pieces == 1;
      for (const auto& [x, is_ahead] : {std::pair{'a', p_.a.ahead}, {'b', p_.b.ahead}})
        if (is_ahead == ahead)
          t_.add(fmt::format("{}copy_{}(step, {});", all ? "" : "if (step < steps) ", x, of_all("step").text));
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
      t_.add(fmt::format("copy_{}((step + {}) % {}, {:+} + {});", x, ahead, s_.stages, of_all("step"), ahead));
    t_.close();
  }

  // Four matrices of 8 x 8: of a, rows then depth; of b, depth then columns. A line of memory that runs across is
  // swizzled.
  std::string fragment(char x, const Operand& o, int size) const {
    const bool is_a = x == 'a';
    const int words = line_words(o, size);
    const Term first = is_a ? "warp_row + i * 16" : "warp_column + i * 16";
    Term line, at;
    if (across(o)) {
      line = is_a ? "k + lane / 16 * 8 + lane % 8" : "k + lane / 8 % 2 * 8 + lane % 8";
      at = term("{:*} / 8 + {}", first, is_a ? "lane / 8 % 2" : "lane / 16");
    } else {
      line = term("{:+} + {}", first, is_a ? "lane % 16" : "lane / 16 * 8 + lane % 8");
      at = is_a ? "k / 8 + lane / 16" : "k / 8 + lane / 8 % 2";
    }
    return fmt::format("load_matrices{}({}[i], {}_stage + {:+})", across(o) ? "_transposed" : "", x, x,
                       stage_offset(words, line, at, word_));
  }
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

std::string results_text(const Kernel& kernel, const Product& product) {
  PointFunction point;
  point.name = function_name(kernel, product) + "_at";
  point.positions = {{"batch", product.batch.dims}, {"row", product.rows.dims}, {"column", product.columns.dims}};
  point.lanes = product.lanes;
  const Axis& lanes = product.lanes_are_rows ? product.rows : product.columns;
  point.pair = product.second_b >= 0;
  if (product.lanes > 1) point.lane_dim = lanes.dims.back();
  return print_point(kernel, cuda_dialect, point);
}

GeneratedKernel make_tiles(const Kernel& kernel, const Product& product, const TileShape& s, const Features& features) {
  const std::string name = function_name(kernel, product);
  GeneratedKernel made;
  made.shape = {tiles_of(product, s), s.threads()};
  if (s.specialized) made.shape.blocks = std::min<int64_t>(made.shape.blocks, features.units);
  made.shared_bytes = shared_bytes_of(product, s);
  made.groups = s.groups || s.pieces > 1;
  const auto read = [](const Operand& o) {
    return o.words == Operand::Words::none ? "elements" : o.words == Operand::Words::across ? "words across" : "words";
  };
  made.how = fmt::format("tiles of {}x{}{}, {} stages, {} by {}{}{}", s.rows, s.columns,
                         s.narrow > 0 ? fmt::format(" and, at last, {}", s.narrow) : "", s.stages, read(product.a),
                         read(product.b),
                         product.dtype == DType::f32 ? ", by fma"
                         : s.specialized             ? ", by warpgroups and a producer warpgroup"
                         : s.groups                  ? ", by warpgroups"
                                                     : "",
                         s.pieces > 1 ? fmt::format(", the depth in {} pieces", s.pieces) : "");
  made.functions = results_text(kernel, product);
  made.functions += fmt::format("\n// {}: {}\n", name, made.how);
  made.functions += function_head(kernel, product, made.shape, features, s.pieces, s.specialized);
  made.shape.blocks *= product.copies * s.pieces;
  made.pieces = s.pieces;
  made.functions +=
      (s.specialized ? specialized_text(kernel, product, s) : BlockText(kernel, product, s).body()) + "}\n";
  return made;
}

}  // namespace npusim::cuda::codegen::products
