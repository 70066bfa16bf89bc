// The text of attention by warpgroups (sm_90a): scores of one stage and the sums of the one before are multiplied while
// the weights between them are made.
#include "backends/cuda/codegen/attention/groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/attention/stages.h"
#include "kernel/facts/score_kernel.h"

namespace npusim::cuda::codegen::attention {
namespace {

constexpr int64_t most_stages = 1024;

// Columns of the sums: products are as wide.
int64_t width_of(int64_t columns) { return columns <= 64 ? 64 : columns <= 128 ? 128 : 256; }

int64_t stage_elements(const Attention& a, const AttentionShape& s) {  // of two stages of keys and of values, and of q
  return panel *
         (panels_of(a.axes.depth.size()) * (s.rows() + 2 * s.keys()) + width_of(a.columns) / panel * 2 * s.keys());
}

class GroupText : StageText {
 public:
  GroupText(const Kernel& kernel, const Attention& attention, const AttentionShape& shape,
            std::optional<MaskedScore> masked)
      : StageText(kernel, attention, shape, std::move(masked)) {}

  std::string run() {
    const PointPosition key{"key", a_.axes.keys.dims};
    std::string functions = point("_score", stored_score(k_), key, 1);
    if (masked_) {
      functions += point("_plain", storing(masked_->kernel, masked_->plain, DType::f32), key, 1);
      functions += point("_lowest", storing(masked_->kernel, masked_->lowest, DType::f32), key, 1);
      functions += point("_mask", mask_kernel(), key, lanes());
    }
    const std::string text = head(functions);
    t_.add("lead();");
    for (const std::string& statement : follow_text(k_, std::vector<int>{})) t_.add(statement);
    begin();
    stages();
    walk();
    epilogue();
    return text + t_.text + "}\n";
  }

 private:
  int64_t key_stage() const { return panel * depth_panels() * keys(); }
  // Of the n-th stage that is walked.
  Term first_key(const Term& n) const { return term("{} * {}", at(n), keys()); }
  int64_t value_stage() const { return width_of(a_.columns) * keys(); }

  // Where word `at` of a line lies, in panels of `lines` lines.
  static Term word_offset(int64_t lines) {
    return term("(at / 8 * {} + line) * {} + (at % 8 ^ line & 7) * {}", lines, panel, word);
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
    positions();
    load_queries(term("queries + {:+}", word_offset(s_.rows())));
    t_.add("commit_copies();");  // of their own: with those of keys, racecheck takes them for a race
    copy_stage("key", a_.k, true, depth_words(), a_.axes.depth.size(), key_stage());
    copy_stage("value", a_.v, false, a_.columns / word, a_.columns, value_stage());
  }

  // NAME_copies(slot, first): a thread's words of a stage from the key `first` on. Where they lie alike in all passes
  // over the stage, only their beginnings are computed.
  void copy_stage(const std::string& name, const Operand& o, bool is_key, int64_t words, int64_t size,
                  int64_t elements) {
    const int64_t lines = s_.threads() / words;
    const bool alike = s_.threads() % words == 0 && lines % 8 == 0 && keys() % lines == 0 && words * word == size &&
                       (!is_key || a_.axes.depth.dims.size() == 1);
    const std::string head = fmt::format("const auto {}_copies = [&](const int slot, const int first)", name);
    if (!alike) {
      t_.open(head);
      copy_words(o, is_key, keys(), words, size, term("{}s + slot * {} + {:+}", name, elements, word_offset(keys())));
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
    t_.add(fmt::format("{0}_to = {0}s + {1:+};", name, word_offset(keys())));
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

  void walk() {
    const int64_t width = width_of(a_.columns);
    t_.add(fmt::format("float sums[{}][4], scores[{}][4];", width / 8, keys() / 8));
    t_.add(fmt::format("unsigned weights[{}][4];", keys() / 16));
    t_.add("#pragma unroll");
    t_.add(
        fmt::format("for (int c = 0; c < {}; ++c) sums[c][0] = sums[c][1] = sums[c][2] = sums[c][3] = 0;", width / 8));
    t_.add("float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0}, keep[2];");
    t_.open("if (walked > 0)");
    t_.add(fmt::format("key_copies(0, {});", first_key("0").text));
    t_.add("commit_copies();");
    t_.add(fmt::format("value_copies(0, {});", first_key("0").text));
    t_.add(fmt::format("if (walked > 1) key_copies(1, {});", first_key("1").text));
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
    // Copies in flight are the keys of the next stage and the values of this one. What read the slots of those that
    // follow is behind the barrier.
    t_.open("for (int next = 1; next < walked; ++next)");
    t_.add("const int slot = (next - 1) % 2;");
    stage_is_there();
    t_.add("hold(sums);");
    t_.add("hold(weights);");
    // Of two groups, one makes weights while the other one multiplies.
    const bool ordered = s_.groups == 2;
    if (ordered) t_.add("if (row_warp >= 4) acquire_section();");
    t_.add("begin_group();");
    scores("slot ^ 1");
    products("slot");
    if (ordered) t_.add("if (row_warp < 4) release_section();");
    t_.add(fmt::format("if (next + 1 < walked) key_copies(slot, {});", first_key("next + 1").text));
    t_.add(fmt::format("value_copies(slot ^ 1, {});", first_key("next").text));
    t_.add("commit_copies();");
    t_.add("wait_group<1>();");
    t_.add("hold(scores);");
    softmax(at("next"));
    t_.add("marks[thread] = total[0] + total[1];  // a store that needs all weights: the wait stays behind them");
    t_.add("wait_group<0>();");
    t_.add("hold(sums);");
    t_.add("if (__any_sync(0xffffffffu, keep[0] != 1.0f || keep[1] != 1.0f))");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int c = 0; c < {}; ++c)", width / 8));
    t_.add("  sums[c][0] *= keep[0], sums[c][1] *= keep[0], sums[c][2] *= keep[1], sums[c][3] *= keep[1];");
    pack();
    t_.close();
    stage_is_there();
    t_.add("hold(sums);");
    t_.add("hold(weights);");
    t_.add("begin_group();");
    products("(walked - 1) % 2");
    t_.add("wait_group<0>();");
    t_.add("hold(sums);");
    t_.close();
  }

  void stage_is_there() {
    t_.add("wait_copies<0>();");
    t_.add("show_words();");
    t_.add("__syncthreads();");
  }

  void scores(const Term& slot) {
    for (int64_t d = 0; d < depth_words() * word; d += 16)
      t_.add(fmt::format("multiply_{}group_{}_{}(scores, queries + row_warp / 4 * {} + {}, keys + {} * {} + {}, {});",
                         d == 0 ? "first_" : "", type(), keys(), 64 * panel, d / panel * s_.rows() * panel, slot,
                         key_stage(), d / panel * keys() * panel, d % panel));
    t_.add("commit_group();");
  }

  void products(const Term& slot) {
    for (int64_t j = 0; j < keys() / 16; ++j)
      t_.add(fmt::format("multiply_transposed_group_{}_{}(sums, weights[{}], values + {} * {} + {}, {});", type(),
                         width_of(a_.columns), j, slot, value_stage(), j * 16 * panel, keys()));
    t_.add("commit_group();");
  }

  // Scores of the stage `at` from products, the maximum so far, and what is left of sums under the one before. Scores
  // that are NaN make NaN of the weights and of the total.
  void softmax(const Term& at) {
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
    t_.add(fmt::format("const int stage = {}, first = stage * {} + lane % 4 * 2;", at.text, keys()));
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
    t_.add("const float base = most == -INFINITY ? 0.0f : most;");
    t_.add("keep[i] = exp2_near((top[i] - base) * 1.44269504f);");
    t_.add("top[i] = most;");
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int j = 0; j < {}; ++j)", tiles));
    t_.add("#pragma unroll");
    t_.open("  for (int e = 0; e < 2; ++e)");
    t_.add("scores[j][2 * i + e] = exp2_near((scores[j][2 * i + e] - base) * 1.44269504f);");
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
};

}  // namespace

int64_t group_bytes(const Attention& a, const AttentionShape& s) {
  return std::max(2 * stage_elements(a, s) + 4 * s.threads() + 3 * stages_of(a, s), result_bytes(a, s));
}

std::optional<AttentionShape> choose_groups(const Attention& a, const Features& features) {
  constexpr int64_t least_rows = 64;
  const int64_t most_bytes = features.block_bytes - (7 << 10);
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

}  // namespace npusim::cuda::codegen::attention
