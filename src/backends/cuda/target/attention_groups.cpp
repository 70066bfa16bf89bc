// The text of attention by warpgroups (sm_90a): scores of one stage and the sums of the one before are multiplied while
// the weights between them are made.
#include "backends/cuda/target/attention_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backends/cuda/target/attention_text.h"
#include "kernel/facts/masked_score.h"

namespace npusim::cuda {
namespace {

constexpr int64_t panel = 64;  // elements of a line in memory that warpgroups read
constexpr int64_t most_stages = 1024;

int64_t panels_of(int64_t elements) { return (elements + panel - 1) / panel; }
// Columns of the sums: products are as wide.
int64_t width_of(int64_t columns) { return columns <= 64 ? 64 : columns <= 128 ? 128 : 256; }

int64_t stage_elements(const Attention& a, const AttentionShape& s) {  // of two stages of keys and of values, and of q
  return panel *
         (panels_of(a.axes.depth.size()) * (s.rows() + 2 * s.keys()) + width_of(a.columns) / panel * 2 * s.keys());
}
int64_t stages_of(const Attention& a, const AttentionShape& s) { return (a.keys + s.keys() - 1) / s.keys(); }

// Rows in an order in which those that a mask does not tell apart are neighbours.
Attention in_order(const Attention& attention, DimSet masked) {
  Attention a = attention;
  Axis& rows = a.axes.rows;
  const Axis old = rows;
  rows.dims.clear(), rows.extents.clear();
  for (const bool first : {true, false})
    for (size_t n = 0; n < old.dims.size(); ++n)
      if (((masked & dim_bit(static_cast<size_t>(old.dims[n]))) != 0) == first)
        rows.dims.push_back(old.dims[n]), rows.extents.push_back(old.extents[n]);
  return a;
}
int64_t alike_rows(const Axis& rows, DimSet masked) {
  int64_t count = 1;
  for (size_t n = 0; n < rows.dims.size(); ++n)
    if ((masked & dim_bit(static_cast<size_t>(rows.dims[n]))) == 0) count *= rows.extents[n];
  return count;
}

class GroupText : AttentionText {
 public:
  GroupText(const Kernel& kernel, const Attention& attention, const AttentionShape& shape,
            std::optional<MaskedScore> masked)
      : AttentionText(kernel, attention, shape), masked_(std::move(masked)) {}

  std::string run() {
    const PointPosition key{"key", a_.axes.keys.dims};
    std::string functions = point("_score", score_of(k_), key, 1);
    if (masked_) {
      functions += point("_plain", to_local(masked_->kernel, masked_->plain, DType::f32), key, 1);
      functions += point("_lowest", to_local(masked_->kernel, masked_->lowest, DType::f32), key, 1);
      functions += point("_mask", mask_kernel(), key, lanes());
    }
    const std::string text = head(functions);
    t_.add("lead();");
    for (const std::string& statement : follow_text(k_, std::vector<int>{})) t_.add(statement);
    begin();
    find_states();
    find_stages();
    walk();
    epilogue();
    return text + t_.text + "}\n";
  }

 private:
  int64_t keys() const { return s_.keys(); }
  int64_t depth_panels() const { return panels_of(a_.axes.depth.size()); }
  // Whether stages that a mask hides are left out, after a look at what the mask is added to.
  bool skips() const { return masked_ && masked_->most > 0; }
  std::string at(const std::string& n) const { return skips() ? fmt::format("list[{}]", n) : n; }
  int64_t key_stage() const { return panel * depth_panels() * keys(); }
  int64_t value_stage() const { return width_of(a_.columns) * keys(); }
  int lanes() const { return a_.keys % word == 0 ? word : 1; }

  // Adds up whether some score is not hidden, and whether some is not open.
  Kernel mask_kernel() const {
    Kernel k = masked_->kernel;
    for (const int32_t expr : {masked_->hidden, masked_->open}) {
      k.exprs.push_back({.op = ExprOp::logical_not, .type = Scalar::boolean, .in = {expr, -1, -1}});
      const auto arg = static_cast<int>(k.args.size());
      k.args.push_back({DType::boolean, 1, true, -1});
      k.stores.push_back(
          {{arg, 0, std::vector<int64_t>(k.space.size(), 0), {}, {}}, static_cast<int32_t>(k.exprs.size()) - 1, true});
    }
    return k;
  }

  // Where word `at` of a line lies, in panels of `lines` lines.
  static std::string place(int64_t lines) {
    return fmt::format("(at / 8 * {} + line) * {} + (at % 8 ^ line & 7) * {}", lines, panel, word);
  }

  void begin() {
    const int64_t tiles = (rows_ + s_.rows() - 1) / s_.rows(), batches = a_.axes.batch.size();
    t_.add("extern __shared__ __align__(1024) uint4 shared_words[];");
    t_.add("const int thread = threadIdx.x, lane = thread % 32, row_warp = thread / 32, key_warp = 0;");
    // The last rows, which causal masks leave the most keys, first.
    t_.add(fmt::format("const int first_row = ({} - blockIdx.x / {}) * {}, batch = blockIdx.x % {};", tiles - 1,
                       batches, s_.rows(), batches));
    t_.add(fmt::format("{0}* const queries = ({0}*)shared_words;", type()));
    t_.add(fmt::format("{}* const keys = queries + {};", type(), s_.rows() * panel * depth_panels()));
    t_.add(fmt::format("{}* const values = keys + {};", type(), 2 * key_stage()));
    t_.add(fmt::format("volatile float* const marks = (volatile float*)(values + {});", 2 * value_stage()));
    if (masked_) {
      t_.add(fmt::format("unsigned short* const list = (unsigned short*)(marks + {});", s_.threads()));
      t_.add(fmt::format("unsigned char* const states = (unsigned char*)(list + {});", stages_of(a_, s_)));
    }
    positions();
    bring_queries("queries + " + place(s_.rows()));
    t_.add(fmt::format("const int stages = (bound + {}) / {};", keys() - 1, keys()));
    bring_stage("key", a_.k, true, depth_words(), a_.axes.depth.size(), key_stage());
    bring_stage("value", a_.v, false, a_.columns / word, a_.columns, value_stage());
  }

  // NAME_copies(slot, first): a thread's words of a stage from the key `first` on. Where they lie alike in all passes
  // over the stage, only their beginnings are computed.
  void bring_stage(const std::string& name, const Operand& o, bool is_key, int64_t words, int64_t size,
                   int64_t elements) {
    const int64_t lines = s_.threads() / words;
    const bool alike = s_.threads() % words == 0 && lines % 8 == 0 && keys() % lines == 0 && words * word == size &&
                       (!is_key || a_.axes.depth.dims.size() == 1);
    const std::string head = fmt::format("const auto {}_copies = [&](const int slot, const int first)", name);
    if (!alike) {
      t_.open(head);
      bring(o, is_key, keys(), words, size, fmt::format("{}s + slot * {} + {}", name, elements, place(keys())));
      return t_.close(";");
    }
    const int64_t step = o.strides[static_cast<size_t>(is_key ? a_.axes.keys.dims[0] : a_.axes.value_keys.dims[0])];
    const std::string_view index = address_type(o);
    t_.add(fmt::format("const int {0}_line = thread / {1};", name, words));
    t_.add(fmt::format("const {0}* const {1}_from = {2} + {1}_at + ({3}){1}_line * {4} + thread % {5} * {6};", type(),
                       name, pointer_of(k_, o), index, step, words, word));
    t_.add(fmt::format("{0}* {1}_to;", type(), name));
    t_.open("");
    t_.add(fmt::format("const int line = {}_line, at = thread % {};", name, words));
    t_.add(fmt::format("{0}_to = {0}s + {1};", name, place(keys())));
    t_.close();
    t_.open(head);
    t_.add(fmt::format("const {}* const from = {}_from + ({})first * {};", type(), name, index, step));
    t_.add(fmt::format("{}* const to = {}_to + slot * {};", type(), name, elements));
    const auto each = [&](const std::string& statement) {
      t_.add("#pragma unroll");
      t_.add(fmt::format("for (int i = 0; i < {}; ++i) {}", keys() / lines, statement));
    };
    const std::string to = fmt::format("to + i * {}", lines * panel),
                      from = fmt::format("from + ({})i * {}", index, lines * step);
    t_.open(fmt::format("if (first + {} <= bound)", keys()));
    each(fmt::format("copy_async({}, {}, true);", to, from));
    t_.close(" else {"), ++t_.indent;
    each(fmt::format(
        "{{ const bool there = first + {}_line + i * {} < bound; copy_async({}, there ? {} : {}, there); }}", name,
        lines, to, from, pointer_of(k_, o)));
    t_.close();
    t_.close(";");
  }

  // Of each stage: 1, all scores of the block's rows are open; 2, all are hidden; 0, neither.
  void find_states() {
    if (!masked_) return;
    const int64_t alike = alike_rows(a_.axes.rows, masked_->dims), each = keys() / lanes();
    constexpr int together = 8;  // reads of a thread on their way
    t_.add(
        fmt::format("const int first_line = first_row / {0}, lines = min(first_row + {1}, {2}) / {0} - first_line + 1;",
                    alike, s_.rows() - 1, rows_ - 1));
    t_.open(fmt::format("for (int stage = row_warp; stage < stages; stage += {})", s_.threads() / 32));
    t_.add("unsigned char visible = 0, changed = 0;");
    t_.open(fmt::format("for (int from = lane; from < lines * {}; from += {})", each, 32 * together));
    const auto every = [&](const std::string& suffix, const std::string& more) {
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int i = 0; i < {}; ++i)", together));
      t_.add("const int n = from + i * 32;");
      t_.add(fmt::format("const int key = stage * {0} + n % {1} * {2}, line = (first_line + n / {1}) * {3};", keys(),
                         each, lanes(), alike));
      t_.add(fmt::format("if (n < lines * {} && key < bound) {}_mask{}({}&visible, &changed, batch, line, key, {});",
                         each, name_, suffix, reads_, more));
      t_.close();
    };
    if (lanes() > 1) {
      t_.add(fmt::format("{}_mask_words words[{}];", name_, together));
      every("_read", "words[i]");
      every("_rest", "nullptr, words[i]");
    } else {
      every("", "nullptr");
    }
    t_.close();
    t_.add("const bool hidden = !__any_sync(0xffffffffu, visible), open = !__any_sync(0xffffffffu, changed);");
    t_.add("if (lane == 0) states[stage] = open ? 1 : hidden ? 2 : 0;");
    t_.close();
  }

  // The stages to walk. A hidden one counts nothing unless a key or a value is no finite number or a product leaves
  // what the score is finite for: the largest numbers tell.
  void find_stages() {
    if (!skips()) return t_.add("const int count = stages;");
    const auto fold = [&](const char* top, const std::string& words) {
      t_.add(fmt::format("const unsigned each[4] = {{{0}.x, {0}.y, {0}.z, {0}.w}};", words));
      t_.add("#pragma unroll");
      t_.add(
          fmt::format("for (int e = 0; e < 4; ++e) {0} = max({0}, max(each[e] & 0x7fffffffu, each[e] << 16 & "
                      "0x7fffffffu));",
                      top));
    };
    t_.add("wait_copies<0>();");
    t_.add("__syncthreads();");
    t_.add("unsigned query_top = 0, key_top = 0, value_top = 0;  // a number in the upper half, without its sign");
    t_.open("for (int stage = 0; stage < stages; ++stage)");
    t_.add("if (states[stage] != 2) continue;");
    look("key", a_.k, true, a_.axes.depth.size() / word, fold);
    look("value", a_.v, false, a_.columns / word, fold);
    t_.close();
    t_.open(
        fmt::format("for (int n = thread; n < {}; n += {})", s_.rows() * panel * depth_panels() / word, s_.threads()));
    // Words behind the depth are of no query.
    t_.add(fmt::format("const int line = n / 8 % {}, at = n / {} * 8 + (n % 8 ^ line & 7);", s_.rows(), 8 * s_.rows()));
    t_.add(fmt::format("if (at >= {}) continue;", depth_words()));
    t_.add(fmt::format("const uint4 words = ((const uint4*)queries)[n];"));
    fold("query_top", "words");
    t_.close();
    t_.add("volatile unsigned* const largest = (volatile unsigned*)marks;");
    for (const char* top : {"query", "key", "value"}) {
      t_.add("#pragma unroll");
      t_.add(
          fmt::format("for (int other = 1; other < 32; other *= 2) {0}_top = max({0}_top, "
                      "__shfl_xor_sync(0xffffffffu, {0}_top, other));",
                      top));
    }
    t_.add(
        "if (lane == 0) largest[row_warp * 3] = query_top, largest[row_warp * 3 + 1] = key_top, "
        "largest[row_warp * 3 + 2] = value_top;");
    t_.add("__syncthreads();");
    t_.add(fmt::format("for (int n = 0; n < {}; ++n)", s_.threads() / 32));
    t_.add(
        "  query_top = max(query_top, largest[n * 3]), key_top = max(key_top, largest[n * 3 + 1]), "
        "value_top = max(value_top, largest[n * 3 + 2]);");
    const auto number = [&](const char* top) {
      return a_.dtype == DType::f16 ? fmt::format("f16_to_float((f16)({}_top >> 16))", top)
                                    : fmt::format("__uint_as_float({}_top & 0xffff0000u)", top);
    };
    std::string skip = fmt::format("{} < INFINITY", number("value"));
    if (std::isfinite(masked_->most))
      skip += fmt::format(" && {} * {} * {}.0f <= {:e}f", number("query"), number("key"), a_.axes.depth.size(),
                          std::min(masked_->most, 1e38));
    t_.add(fmt::format("const bool skip = {};", skip));
    t_.add("int count = 0;");
    t_.open("for (int stage = 0; stage < stages; ++stage)");
    t_.add("if (skip && states[stage] == 2) continue;");
    t_.add("if (thread == 0) list[count] = stage;");
    t_.add("++count;");
    t_.close();
    t_.add("__syncthreads();");
  }

  // A hidden stage's words, as they lie in memory.
  template <typename Fold>
  void look(const std::string& name, const Operand& o, bool is_key, int64_t words, Fold&& fold) {
    constexpr int together = 8;  // reads of a thread on their way
    const int64_t step = o.strides[static_cast<size_t>(is_key ? a_.axes.keys.dims[0] : a_.axes.value_keys.dims[0])];
    t_.open(fmt::format("for (int from = thread; from < {}; from += {})", keys() * words, s_.threads() * together));
    t_.add(fmt::format("uint4 words[{}];", together));
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int i = 0; i < {}; ++i)", together));
    t_.add(fmt::format("const int n = from + i * {0}, line = n / {1}, d = n % {1} * {2};", s_.threads(), words, word));
    std::string within = "d";
    if (is_key && a_.axes.depth.dims.size() > 1) {
      take_apart(t_, "d", a_.axes.depth, "d");
      within = address(o, {{&a_.axes.depth, "d"}}) + fmt::format(" - {}", o.offset);
    }
    t_.add("words[i] = {0, 0, 0, 0};");
    t_.add(
        fmt::format("if (line < {} && stage * {} + line < bound) words[i] = *(const uint4*)({} + {}_at + "
                    "({})(stage * {} + line) * {} + {});",
                    keys(), keys(), pointer_of(k_, o), name, address_type(o), keys(), step, within));
    t_.close();
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int i = 0; i < {}; ++i)", together));
    fold((name + "_top").c_str(), "words[i]");
    t_.close();
    t_.close();
  }

  void walk() {
    const int64_t width = width_of(a_.columns);
    t_.add(fmt::format("float sums[{}][4], scores[{}][4];", width / 8, keys() / 8));
    t_.add(fmt::format("unsigned weights[{}][4];", keys() / 16));
    t_.add("#pragma unroll");
    t_.add(
        fmt::format("for (int c = 0; c < {}; ++c) sums[c][0] = sums[c][1] = sums[c][2] = sums[c][3] = 0;", width / 8));
    t_.add("float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, keep[2];");
    t_.open("if (count > 0)");
    t_.add(fmt::format("key_copies(0, {} * {});", at("0"), keys()));
    t_.add("commit_copies();");
    t_.add(fmt::format("value_copies(0, {} * {});", at("0"), keys()));
    t_.add(fmt::format("if (count > 1) key_copies(1, {} * {});", at("1"), keys()));
    t_.add("commit_copies();");
    t_.add("wait_copies<1>();");
    t_.add("show_words();");
    t_.add("__syncthreads();");
    t_.add("begin_group();");
    scores("0");
    t_.add("wait_group<0>();");
    t_.add("hold(scores);");
    softmax(at("0"));
    pack();
    // Copies under way are the keys of the next stage and the values of this one. What read the slots of those that
    // follow is behind the barrier.
    t_.open("for (int next = 1; next < count; ++next)");
    t_.add("const int slot = (next - 1) % 2;");
    stage_is_there();
    t_.add("hold(sums);");
    t_.add("hold(weights);");
    t_.add("begin_group();");
    scores("(slot ^ 1)");
    products("slot");
    t_.add(fmt::format("if (next + 1 < count) key_copies(slot, {} * {});", at("next + 1"), keys()));
    t_.add(fmt::format("value_copies(slot ^ 1, {} * {});", at("next"), keys()));
    t_.add("commit_copies();");
    t_.add("wait_group<1>();");
    t_.add("hold(scores);");
    softmax(at("next"));
    t_.add("marks[thread] = total[0] + total[1];  // a store that needs all weights: the wait stays behind them");
    t_.add("wait_group<0>();");
    t_.add("hold(sums);");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int c = 0; c < {}; ++c)", width / 8));
    t_.add("  sums[c][0] *= keep[0], sums[c][1] *= keep[0], sums[c][2] *= keep[1], sums[c][3] *= keep[1];");
    pack();
    t_.close();
    stage_is_there();
    t_.add("hold(sums);");
    t_.add("hold(weights);");
    t_.add("begin_group();");
    products("((count - 1) % 2)");
    t_.add("wait_group<0>();");
    t_.add("hold(sums);");
    t_.close();
  }

  void stage_is_there() {
    t_.add("wait_copies<0>();");
    t_.add("show_words();");
    t_.add("__syncthreads();");
  }

  void scores(const std::string& slot) {
    for (int64_t d = 0; d < depth_words() * word; d += 16)
      t_.add(fmt::format("multiply_{}group_{}_{}(scores, queries + row_warp / 4 * {} + {}, keys + {} * {} + {}, {});",
                         d == 0 ? "first_" : "", type(), keys(), 64 * panel, d / panel * s_.rows() * panel, slot,
                         key_stage(), d / panel * keys() * panel, d % panel));
    t_.add("commit_group();");
  }

  void products(const std::string& slot) {
    for (int64_t j = 0; j < keys() / 16; ++j)
      t_.add(fmt::format("multiply_turned_group_{}_{}(sums, weights[{}], values + {} * {} + {}, {});", type(),
                         width_of(a_.columns), j, slot, value_stage(), j * 16 * panel, keys()));
    t_.add("commit_group();");
  }

  // Scores of the stage `at` from products, the maximum so far, and what is left of sums under the one before. Scores
  // that are NaN make NaN of the weights and of the total.
  void softmax(const std::string& at) {
    const int64_t tiles = keys() / 8;
    const auto each = [&](const std::string& statement) {
      t_.add("#pragma unroll");
      t_.add(fmt::format("for (int j = 0; j < {}; ++j)", tiles));
      t_.add("#pragma unroll");
      t_.add(fmt::format("  for (int e = 0; e < 4; ++e) {}", statement));
    };
    const auto score = [&](const char* suffix) {
      return fmt::format("{}{}({}&scores[j][e], batch, row[e / 2], first + j * 8 + e % 2, &product[0]);", name_, suffix,
                         reads_);
    };
    const auto given = [&](const char* suffix) {
      each(fmt::format("{{ const float product[1] = {{scores[j][e]}}; {} }}", score(suffix)));
    };
    t_.open("");
    t_.add(fmt::format("const int stage = {}, first = stage * {} + lane % 4 * 2;", at, keys()));
    const std::string whole = fmt::format("(stage + 1) * {} <= bound", keys());
    if (masked_) t_.add(fmt::format("const int state = {} ? states[stage] : 0;", whole));
    t_.open(masked_ ? "if (state == 1)" : fmt::format("if ({})", whole));
    given(masked_ ? "_plain" : "_score");
    if (masked_) {
      t_.close(" else if (state == 2) {"), ++t_.indent;
      given("_lowest");
    }
    t_.close(" else {"), ++t_.indent;
    each(
        fmt::format("{{ const float product[1] = {{scores[j][e]}}; scores[j][e] = -INFINITY; "
                    "if (first + j * 8 + e % 2 < bound) {} }}",
                    score("_score")));
    t_.close();
    t_.add("#pragma unroll");
    t_.open("for (int i = 0; i < 2; ++i)");
    t_.add("float most = top[i], part[2] = {0, 0};");
    t_.add("#pragma unroll");
    t_.add(fmt::format(
        "for (int j = 0; j < {}; ++j) most = fmaxf(most, fmaxf(scores[j][2 * i], scores[j][2 * i + 1]));", tiles));
    for (const int mask : {1, 2})
      t_.add(fmt::format("most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, {}));", mask));
    t_.add("const float base = most == -INFINITY ? 0.0f : most * 1.44269504f;");
    t_.add("keep[i] = exp2_near(fmaf(top[i], 1.44269504f, -base));");
    t_.add("top[i] = most;");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j)", tiles));
    t_.add("#pragma unroll");
    t_.open("  for (int e = 0; e < 2; ++e)");
    t_.add("scores[j][2 * i + e] = exp2_near(fmaf(scores[j][2 * i + e], 1.44269504f, -base));");
    t_.add("part[e] += scores[j][2 * i + e];");
    t_.close();
    t_.add("total[i] = total[i] * keep[i] + (part[0] + part[1]);");
    t_.close();
    t_.close();
  }

  void pack() {
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int j = 0; j < {}; ++j)", keys() / 16));
    for (int n = 0; n < 4; ++n)
      t_.add(fmt::format("weights[j][{0}] = pack_{1}(scores[2 * j + {2}][{3}], scores[2 * j + {2}][{4}]);", n, type(),
                         n / 2, n % 2 * 2, n % 2 * 2 + 1));
    t_.close();
  }

  const std::optional<MaskedScore> masked_;
};

}  // namespace

int64_t group_bytes(const Attention& a, const AttentionShape& s) {
  return std::max(2 * stage_elements(a, s) + 4 * s.threads() + 3 * stages_of(a, s), result_bytes(a, s));
}

std::optional<AttentionShape> choose_groups(const Attention& a) {
  constexpr int64_t most_bytes = 220 << 10, least_rows = 64;
  if (a.axes.rows.size() < least_rows) return std::nullopt;
  AttentionShape s;
  s.keys_of_warp = width_of(a.columns) > 128 || a.axes.depth.size() > 128 || a.keys <= 64 ? 64 : 128;
  for (const int groups : {2, 1}) {
    s.groups = groups, s.warps_along_rows = 4 * groups;
    const int64_t blocks = a.axes.batch.size() * ((a.axes.rows.size() + s.rows() - 1) / s.rows());
    if (blocks >= 96 && stages_of(a, s) <= most_stages && group_bytes(a, s) <= most_bytes) return s;
  }
  return std::nullopt;
}

std::string group_attention(const Kernel& kernel, const Attention& attention, const AttentionShape& shape) {
  std::optional<MaskedScore> masked = masked_score(kernel);
  const Attention a = in_order(attention, masked ? masked->dims : 0);
  return GroupText(kernel, a, shape, std::move(masked)).run();
}

}  // namespace npusim::cuda
