// The text of dot products: the operand with few rows is `few`, the other `many`.
#include "backends/cuda/codegen/products/dot.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/text.h"
#include "print/point.h"

namespace npusim::cuda::codegen::products {
namespace {

constexpr int64_t most_rows = 8;
constexpr int block_warps = 4;  // where a line has one
constexpr int most_words = 16;  // of a lane, in flight at once

struct Sides {
  const Operand &few, &many;
  const Axis &few_axis, &many_axis;
  bool swapped;  // the few are columns
};
Sides sides(const Product& p) {
  if (p.rows.size() <= p.columns.size()) return {p.a, p.b, p.rows, p.columns, false};
  return {p.b, p.a, p.columns, p.rows, true};
}

int64_t groups_of(const Product& p, const DotShape& s) { return (sides(p).many_axis.size() + s.lines - 1) / s.lines; }

class DotText {
 public:
  DotText(const Kernel& kernel, const Product& product, const DotShape& shape)
      : k_(kernel), p_(product), s_(shape), x_(sides(product)), word_(word_of(product)) {}

  std::string body() {
    const int64_t groups = groups_of(p_, s_), few = x_.few_axis.size(), many = x_.many_axis.size();
    t_.add("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
    if (s_.warps == 1) {
      t_.add(fmt::format("const int group = block * {} + warp;", block_warps));
      t_.add(fmt::format("if (group >= {}) return;", groups * p_.batch.size()));
    } else {
      t_.add("const int group = block;");
    }
    t_.add(fmt::format("const int batch = group / {0}, first = group % {0} * {1};", groups, s_.lines));
    take_apart(t_, "batch", p_.batch, "z");
    addresses("many", x_.many, x_.many_axis, s_.lines, many, "first + j");
    addresses("few", x_.few, x_.few_axis, static_cast<int>(few), few, "j");
    t_.add(fmt::format("float sums[{}][{}];", few, s_.lines));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i)", few));
    t_.add("#pragma unroll");
    t_.add(fmt::format("  for (int j = 0; j < {}; ++j) sums[i][j] = 0;", s_.lines));
    depth(few);
    results(static_cast<int>(few), many);
    return std::move(t_.text);
  }

 private:
  // A lane reads some words of its lines at once; the first before what precedes the launch has ended, if it can.
  void depth(int64_t few) {
    const std::string_view type = element_type(p_);
    const int64_t step = int64_t{32} * word_ * s_.warps, all = (p_.depth.size() + step - 1) / step;
    const int64_t passes = (all * s_.lines + most_words - 1) / most_words, words = (all + passes - 1) / passes;
    const auto each_word = [&](const Term& pass) {
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int n = 0; n < {}; ++n)", words));
      t_.add(fmt::format("const int k = first_k + ({:*} * {} + n) * {};", pass, words, step));
      if (p_.depth.size() % (step * words) != 0) t_.add(fmt::format("if (k >= {}) break;", p_.depth.size()));
      take_apart(t_, "k", p_.depth, "k");
    };
    t_.add(fmt::format("const int first_k = {} * {};", s_.warps == 1 ? "lane" : "threadIdx.x", word_));
    t_.add(fmt::format("Lanes<{}, {}> line[{}][{}];", type, word_, words, s_.lines));
    t_.open("const auto read = [&](const int pass)");
    each_word("pass");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j) read_lanes(line[n][j], {} + many_at[j]{});", s_.lines,
                       pointer_of(k_, x_.many), deep(x_.many)));
    t_.close();
    t_.close(";");
    t_.open("const auto add = [&](const int pass)");
    each_word("pass");
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int i = 0; i < {}; ++i)", few));
    t_.add(fmt::format("Lanes<{}, {}> row;", type, word_));
    t_.add(fmt::format("read_lanes(row, {} + few_at[i]{});", pointer_of(k_, x_.few), deep(x_.few)));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int e = 0; e < {}; ++e)", word_));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j) sums[i][j] = fmaf({}, {}, sums[i][j]);", s_.lines,
                       as_float(p_, "row.at[e]"), as_float(p_, "line[n][j].at[e]")));
    t_.close();
    t_.close();
    t_.close();
    t_.close(";");
    if (x_.many.ahead) t_.add("read(0);");
    for (const std::string& statement : follow_text(k_, p_)) t_.add(statement);
    if (!x_.many.ahead) t_.add("read(0);");
    t_.add("add(0);");
    if (passes > 1) t_.add(fmt::format("for (int pass = 1; pass < {}; ++pass) read(pass), add(pass);", passes));
  }

  std::string deep(const Operand& o) const {
    const Term at = put_together(o.strides, p_.depth, "k");
    return at.empty() ? "" : fmt::format(" + {}", at);
  }

  // A line behind the last one is read as the last one.
  void addresses(const std::string& name, const Operand& o, const Axis& axis, int count, int64_t size,
                 const Term& position) {
    t_.add(fmt::format("long long {}_at[{}];", name, count));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; ++j)", count));
    if (!axis.dims.empty())
      t_.add(fmt::format("const int at = {};",
                         size % count == 0 ? position.text : fmt::format("min({}, {})", position.text, size - 1)));
    take_apart(t_, "at", axis, "r");
    std::vector<Term> parts{o.offset ? term("{}LL", o.offset) : Term()};
    const auto add = [&](const Axis& from, const char* index) {
      for (size_t n = 0; n < from.dims.size(); ++n)
        if (const int64_t stride = o.strides[static_cast<size_t>(from.dims[n])])
          parts.push_back(term("(long long){}_{} * {}", index, n, stride));
    };
    add(p_.batch, "z");
    add(axis, "r");
    t_.add(fmt::format("{}_at[j] = {};", name, sum_of(parts).text));
    t_.close();
  }

  // Each result becomes one lane's of the first warp, in one order of sums.
  void results(int few, int64_t many) {
    const int count = few * s_.lines;
    t_.add("float mine = 0;");
    if (s_.warps > 1) t_.add(fmt::format("__shared__ float parts[{}];", s_.warps * count));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int i = 0; i < {}; ++i)", few));
    t_.add("#pragma unroll");
    t_.open(fmt::format("  for (int j = 0; j < {}; ++j)", s_.lines));
    t_.add("const float sum = warp_sum(sums[i][j]);");
    const Term number = term("i * {} + j", s_.lines);
    if (s_.warps > 1)
      t_.add(fmt::format("if (lane == 0) parts[warp * {} + {:+}] = sum;", count, number));
    else
      t_.add(fmt::format("if (lane == {:+}) mine = sum;", number));
    t_.close();
    if (s_.warps > 1) {
      t_.add("__syncthreads();");
      t_.add(fmt::format("if (threadIdx.x >= {}) return;", count));
      t_.add(fmt::format("for (int n = 0; n < {}; ++n) mine += parts[n * {} + threadIdx.x];", s_.warps, count));
    }
    t_.add(fmt::format("const int few = lane / {0}, many = first + lane % {0};", s_.lines));
    t_.add(fmt::format("if (lane >= {} || many >= {}) return;", count, many));
    t_.add(fmt::format("{}_at({}, batch, {}, &mine);", function_name(k_, p_), parameter_names(k_),
                       x_.swapped ? "many, few" : "few, many"));
  }

  const Kernel& k_;
  const Product& p_;
  const DotShape& s_;
  const Sides x_;
  const int word_;
  Lines t_;
};

}  // namespace

// Enough warps to use all of memory's bandwidth, each with something to read.
DotShape choose_dots(const Product& p) {
  const Sides x = sides(p);
  DotShape s;
  const int64_t lines = x.many_axis.size() * p.batch.size() * p.copies, few = x.few_axis.size();
  while (s.lines < 4 && lines / s.lines >= 16384 && few * s.lines * 2 <= 16) s.lines *= 2;
  while (s.warps < 8 && lines / s.lines * s.warps < 4096 && p.depth.size() >= int64_t{32} * word_of(p) * s.warps * 4)
    s.warps *= 2;
  return s;
}

std::string dots_decline(const Product& p) {
  const Sides x = sides(p);
  if (x.few_axis.size() > most_rows)
    return fmt::format("{} rows and {} columns, not one of them up to {}", p.rows.size(), p.columns.size(), most_rows);
  if (p.filled != word_of(p)) return "words that are filled in part";
  for (const Operand* o : {&p.a, &p.b}) {
    if (o->words != Operand::Words::along_depth) return "an operand that does not lie in words along the depth";
    if (!o->bounds.empty()) return "an operand with bounds";
  }
  return {};
}

GeneratedKernel make_dots(const Kernel& kernel, const Product& product, const DotShape& s, const Features& features) {
  const std::string name = function_name(kernel, product);
  PointFunction point;
  point.name = name + "_at";
  point.positions = {{"batch", product.batch.dims}, {"row", product.rows.dims}, {"column", product.columns.dims}};
  GeneratedKernel made;
  const int64_t groups = groups_of(product, s) * product.batch.size();
  made.shape = s.warps == 1 ? LaunchShape{(groups + block_warps - 1) / block_warps, 32 * block_warps}
                            : LaunchShape{groups, 32 * s.warps};
  made.how = fmt::format("dots, {} lines to a warp, {} warps to a line", s.lines, s.warps);
  made.functions = print_point(kernel, cuda_dialect, point);
  made.functions += fmt::format("\n// {}: {}\n", name, made.how);
  made.functions += function_head(kernel, product, made.shape, features);
  made.shape.blocks *= product.copies;
  made.functions += DotText(kernel, product, s).body() + "}\n";
  return made;
}

}  // namespace npusim::cuda::codegen::products
