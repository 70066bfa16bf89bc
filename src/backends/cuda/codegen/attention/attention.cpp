// The text of attention: stages of keys and values, a running maximum and sum for each row, fragments of mma.m16n8k16.
#include "backends/cuda/codegen/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/attention/groups.h"
#include "backends/cuda/codegen/attention/summary.h"
#include "backends/cuda/codegen/attention/text.h"
#include "backends/cuda/codegen/text.h"
#include "kernel/facts/score_kernel.h"

namespace npusim::cuda::codegen::attention {
namespace {

constexpr int64_t most_depth = 256;

// Lines of words at an odd number of words: neighbours in a column of words lie in different banks.
int64_t pitch_of(int64_t elements) { return (words_of(elements) + 1) * word; }

int64_t shared_bytes_of(const Attention& a, const AttentionShape& s) {
  const int64_t stages = 2 * (s.rows() * pitch_of(a.axes.depth.size()) +
                              2 * int64_t{s.keys()} * (pitch_of(a.axes.depth.size()) + pitch_of(a.columns)));
  return std::max(stages, result_bytes(a, s));
}

class WarpText : AttentionText {
 public:
  WarpText(const Kernel& kernel, const Attention& attention, const AttentionShape& shape)
      : AttentionText(kernel, attention, shape) {}

  std::string run() {
    const std::string text = head(point("_score", stored_score(k_), {"key", a_.axes.keys.dims}, 1));
    t_.add("lead();");
    for (const std::string& statement : follow_text(k_, std::vector<int>{})) t_.add(statement);
    begin();
    walk();
    epilogue();
    return text + t_.text + "}\n";
  }

 private:
  int64_t depth_pitch() const { return pitch_of(a_.axes.depth.size()); }
  int64_t column_pitch() const { return pitch_of(a_.columns); }

  void begin() {
    const int64_t tiles = (rows_ + s_.rows() - 1) / s_.rows();
    t_.add("extern __shared__ uint4 shared_words[];");
    t_.add("const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;");
    t_.add(fmt::format("const int row_warp = warp / {0}, key_warp = warp % {0};", s_.warps_along_keys));
    t_.add(
        fmt::format("const int first_row = blockIdx.x % {} * {}, batch = blockIdx.x / {};", tiles, s_.rows(), tiles));
    t_.add(fmt::format("{0}* const queries = ({0}*)shared_words;", type()));
    t_.add(fmt::format("{}* const keys = queries + {};", type(), s_.rows() * depth_pitch()));
    t_.add(fmt::format("{}* const values = keys + {};", type(), 2 * s_.keys() * depth_pitch()));
    positions();
    load_queries(term("queries + line * {} + at * {}", depth_pitch(), word));
    t_.open("const auto copy_words = [&](const int stage, const int first)");
    const auto line = [&](const char* to, int64_t pitch) {
      return term("{} + (stage * {} + line) * {} + at * {}", to, s_.keys(), pitch, word);
    };
    copy_words(a_.k, true, s_.keys(), depth_words(), a_.axes.depth.size(), line("keys", depth_pitch()));
    copy_words(a_.v, false, s_.keys(), column_words(), a_.columns, line("values", column_pitch()));
    t_.close(";");
  }

  void walk() {
    const int64_t columns = column_words();
    t_.add(fmt::format("float sums[{}][4];", columns));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int c = 0; c < {}; ++c) sums[c][0] = sums[c][1] = sums[c][2] = sums[c][3] = 0;", columns));
    t_.add("float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};");
    t_.add("copy_words(0, 0);");
    t_.add("commit_copies();");
    t_.open(fmt::format("for (int first = 0, stage = 0; first < bound; first += {}, stage ^= 1)", s_.keys()));
    t_.add("wait_copies<0>();");
    t_.add("__syncthreads();");
    t_.add(fmt::format("if (first + {0} < bound) copy_words(stage ^ 1, first + {0});", s_.keys()));
    t_.add("commit_copies();");
    const Term line = term("stage * {} + key_warp * {}", s_.keys(), s_.keys_of_warp);
    scores(line);
    softmax();
    products(line);
    t_.close();
  }

  void scores(const Term& line) {
    const int tiles = s_.keys_of_warp / 8;
    t_.add(fmt::format("float scores[{}][4];", tiles));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j) scores[j][0] = scores[j][1] = scores[j][2] = scores[j][3] = 0;",
                       tiles));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int d = 0; d < {}; d += 16)", depth_words() * word));
    t_.add("unsigned a[4], b[4];");
    t_.add(fmt::format("load_matrices(a, queries + (row_warp * 16 + lane % 16) * {} + d + lane / 16 * 8);",
                       depth_pitch()));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; j += 2)", tiles));
    t_.add(
        fmt::format("load_matrices(b, keys + ({:+} + j * 8 + lane / 16 * 8 + lane % 8) * {} + d + lane / 8 % 2 * 8);",
                    line, depth_pitch()));
    t_.add(fmt::format("multiply_{}(scores[j], a, b);", type()));
    t_.add(fmt::format("multiply_{}(scores[j + 1], a, b + 2);", type()));
    t_.close();
    t_.close();
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j)", tiles));
    t_.add("#pragma unroll");
    t_.open("  for (int e = 0; e < 4; ++e)");
    t_.add(fmt::format("const int key = first + key_warp * {} + j * 8 + lane % 4 * 2 + e % 2;", s_.keys_of_warp));
    t_.add("float score = -INFINITY;");
    t_.add(fmt::format("if (key < bound) {}_score({}&score, batch, row[e / 2], key, &scores[j][e]);", name_, reads_));
    t_.add("scores[j][e] = score;");
    t_.close();
  }

  // The maximum so far; what was summed under another one is put to it. Of a row without any score but −∞ all is 0.
  void softmax() {
    const int tiles = s_.keys_of_warp / 8;
    t_.add("#pragma unroll");
    t_.open("for (int i = 0; i < 2; ++i)");
    t_.add("float most = top[i];");
    t_.add("#pragma unroll");
    t_.add(fmt::format(
        "for (int j = 0; j < {}; ++j) most = nan_max(nan_max(most, scores[j][2 * i]), scores[j][2 * i + 1]);", tiles));
    for (const int mask : {1, 2})
      t_.add(fmt::format("most = nan_max(most, __shfl_xor_sync(0xffffffffu, most, {}));", mask));
    t_.add("const float base = most == -INFINITY ? 0.0f : most, keep = exp_near(top[i] - base);");
    t_.add("top[i] = most;");
    t_.add("total[i] *= keep;");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int c = 0; c < {}; ++c) sums[c][2 * i] *= keep, sums[c][2 * i + 1] *= keep;",
                       column_words()));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j)", tiles));
    t_.add("#pragma unroll");
    t_.open("  for (int e = 2 * i; e < 2 * i + 2; ++e)");
    t_.add("scores[j][e] = exp_near(scores[j][e] - base);");
    t_.add("total[i] += scores[j][e];");
    t_.close();
    t_.close();
  }

  void products(const Term& line) {
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; j += 2)", s_.keys_of_warp / 8));
    t_.add("unsigned a[4], b[4];");
    for (int n = 0; n < 4; ++n)
      t_.add(fmt::format("a[{0}] = pack_{1}(scores[j + {2}][{3}], scores[j + {2}][{4}]);", n, type(), n / 2, n % 2 * 2,
                         n % 2 * 2 + 1));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int c = 0; c < {}; c += 2)", column_words()));
    t_.add(
        fmt::format("load_matrices_transposed(b, values + ({:+} + j * 8 + lane / 8 % 2 * 8 + lane % 8) * {} + c * 8 + "
                    "lane / 16 * 8);",
                    line, column_pitch()));
    t_.add(fmt::format("multiply_{}(sums[c], a, b);", type()));
    t_.add(fmt::format("multiply_{}(sums[c + 1], a, b + 2);", type()));
    t_.close();
    t_.close();
  }
};

}  // namespace

std::string attention_declines(const Attention& a) {
  if (a.axes.depth.size() > most_depth || a.columns > most_depth)
    return fmt::format("heads of {} and {}, more than {}", a.axes.depth.size(), a.columns, most_depth);
  constexpr int64_t most = int64_t{1} << 30;  // positions are int
  if (a.axes.batch.size() > most || a.axes.rows.size() > most || a.keys > most) return "more positions than an int has";
  return {};
}

int64_t pieces_of(const Attention& a, const Features& features) {
  const int64_t tiles = a.axes.batch.size() * ((a.axes.rows.size() + 15) / 16);
  constexpr int64_t least_keys = 64;
  if (tiles >= 64 || a.keys < 512) return 1;
  for (int64_t pieces = features.units / tiles; pieces > 1; --pieces)
    if (a.keys % pieces == 0 && a.keys / pieces >= least_keys && a.keys / pieces % 16 == 0) return pieces;
  return 0;
}

// The most rows of which there still are blocks for all multiprocessors, and stages that still fit.
AttentionShape choose_attention(const Attention& a, const Features& features) {
  if (features.groups)
    if (const auto groups = choose_groups(a, features)) return *groups;
  const auto blocks = [&](int rows) { return a.axes.batch.size() * ((a.axes.rows.size() + rows - 1) / rows); };
  AttentionShape s;
  s = blocks(128) >= 2 * features.units              ? AttentionShape{8, 1, 64}
      : blocks(64) >= features.units                 ? AttentionShape{4, 1, 64}
      : blocks(32) >= 100 && a.axes.rows.size() > 16 ? AttentionShape{2, 2, 32}
                                                     : AttentionShape{1, 4, 32};
  // Of a block on all devices from sm_80 on; a block that has a Hopper's multiprocessor to itself has more.
  const bool alone = features.groups && blocks(s.rows()) <= features.units;
  const int64_t most_shared_bytes = alone ? features.block_bytes - (27 << 10) : least_block_bytes;
  while (s.keys_of_warp > 16 && (shared_bytes_of(a, s) > most_shared_bytes || s.keys() / 2 >= a.keys))
    s.keys_of_warp -= 16;
  if (shared_bytes_of(a, s) > most_shared_bytes) s = {4, 1, 16};
  return s;
}

GeneratedKernel make_attention(const Kernel& kernel, const Attention& a, const AttentionShape& s) {
  GeneratedKernel made;
  made.shape = {a.axes.batch.size() * ((a.axes.rows.size() + s.rows() - 1) / s.rows()), s.threads()};
  made.shared_bytes = s.groups ? group_bytes(a, s) : shared_bytes_of(a, s);
  made.groups = s.groups > 0;
  made.how = fmt::format("attention, {} rows to a block, {} keys to a stage of {} warps{}", s.rows(), s.keys(),
                         s.threads() / 32, s.groups ? ", by warpgroups" : "");
  if (s.groups && find_summary(kernel, a, s)) made.how += ", with a summary of the mask";
  made.functions = fmt::format("\n// {}: {}\n", kernel_name(kernel), made.how) +
                   (s.groups ? group_attention(kernel, a, s) : WarpText(kernel, a, s).run());
  return made;
}

}  // namespace npusim::cuda::codegen::attention
