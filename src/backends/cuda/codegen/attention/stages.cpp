// Masks and numbers of whole stages.
#include "backends/cuda/codegen/attention/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace npusim::cuda::codegen::attention {
namespace {

constexpr int together = 8;  // reads of a thread in flight

int64_t alike_rows(const Axis& rows, DimSet masked) {
  int64_t count = 1;
  for (size_t n = 0; n < rows.dims.size(); ++n)
    if ((masked & dim_bit(static_cast<size_t>(rows.dims[n]))) == 0) count *= rows.extents[n];
  return count;
}

}  // namespace

Term StageText::entry(int arg, const std::vector<int64_t>& steps, const Term& index) const {
  return term("in{}[{}]", arg, sum_of({put_together(steps, a_.axes.batch, "z"), index}).text);
}

void StageText::stages() {
  if (masked_) {
    t_.add(fmt::format("unsigned short* const list = (unsigned short*)(marks + {});", s_.threads()));
    t_.add(fmt::format("unsigned char* const states = (unsigned char*)(list + {});", stages_of(a_, s_)));
  }
  t_.add(fmt::format("const int stages = (bound + {}) / {};", keys() - 1, keys()));
  find_states();
  find_stages();
}

// Adds up whether some score is not hidden, and whether some is not open.
Kernel StageText::mask_kernel() const {
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

// Of each stage: 1, all scores of the block's rows are open; 2, all are hidden; 0, neither.
void StageText::find_states() {
  if (!masked_) return;
  const int64_t alike = alike_rows(a_.axes.rows, masked_->dims), each = keys() / lanes();
  t_.add(
      fmt::format("const int first_line = first_row / {0}, lines = min(first_row + {1}, {2}) / {0} - first_line + 1;",
                  alike, s_.rows() - 1, rows_ - 1));
  t_.open(fmt::format("for (int stage = row_warp; stage < stages; stage += {})", s_.threads() / 32));
  t_.add("unsigned char visible = 0, changed = 0;");
  if (summary_) {
    const Term state = entry(summary_->states, state_steps(a_, masked_->dims, stages_of(a_, s_)),
                             term("(first_line + n) * {} + stage", stages_of(a_, s_)));
    t_.open("for (int n = lane; n < lines; n += 32)");
    t_.add(fmt::format("const int state = {};", state.text));
    t_.add("visible |= state != 2, changed |= state != 1;");
    t_.close();
    return close_states();
  }
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
  close_states();
}

void StageText::close_states() {
  t_.add("const bool hidden = !__any_sync(0xffffffffu, visible), open = !__any_sync(0xffffffffu, changed);");
  t_.add("if (lane == 0) states[stage] = open ? 1 : hidden ? 2 : 0;");
  t_.close();
}

// The stages to walk. A hidden one counts nothing unless a key or a value is no finite number or a product leaves what
// the score is finite for: the largest numbers decide.
void StageText::find_stages() {
  if (!skips()) return t_.add("const int walked = stages;");
  t_.add("wait_copies<0>();");
  t_.add("__syncthreads();");
  t_.add("float query_top = 0, key_top = 0, value_top = 0;");
  summary_ ? read_tops() : inspect_words();
  t_.add("unsigned query_word = 0;");
  t_.open(
      fmt::format("for (int n = thread; n < {}; n += {})", s_.rows() * panel * depth_panels() / word, s_.threads()));
  // Words behind the depth are of no query.
  t_.add(fmt::format("const int line = n / 8 % {}, at = n / {} * 8 + (n % 8 ^ line & 7);", s_.rows(), 8 * s_.rows()));
  t_.add(fmt::format("if (at >= {}) continue;", depth_words()));
  t_.add(fmt::format("const uint4 words = ((const uint4*)queries)[n];"));
  fold("query_word", "words");
  t_.close();
  t_.add(fmt::format("query_top = {};", number("query_word").text));
  for (const char* top : {"query", "key", "value"}) {
    t_.add("#pragma unroll");
    t_.add(
        fmt::format("for (int other = 1; other < 32; other *= 2) {0}_top = nan_max({0}_top, "
                    "__shfl_xor_sync(0xffffffffu, {0}_top, other));",
                    top));
  }
  t_.add(
      "if (lane == 0) marks[row_warp * 3] = query_top, marks[row_warp * 3 + 1] = key_top, "
      "marks[row_warp * 3 + 2] = value_top;");
  t_.add("__syncthreads();");
  t_.add(fmt::format("for (int n = 0; n < {}; ++n)", s_.threads() / 32));
  t_.add(
      "  query_top = nan_max(query_top, marks[n * 3]), key_top = nan_max(key_top, marks[n * 3 + 1]), "
      "value_top = nan_max(value_top, marks[n * 3 + 2]);");
  std::string skip = "value_top < INFINITY";
  if (std::isfinite(masked_->most))
    skip +=
        fmt::format(" && query_top * key_top * {}.0f <= {:e}f", a_.axes.depth.size(), std::min(masked_->most, 1e38));
  t_.add(fmt::format("const bool skip = {};", skip));
  t_.add("int walked = 0;");
  t_.open("for (int stage = 0; stage < stages; ++stage)");
  t_.add("if (skip && states[stage] == 2) continue;");
  t_.add("if (thread == 0) list[walked] = stage;");
  t_.add("++walked;");
  t_.close();
  t_.add("__syncthreads();");
}

// What was found of the keys and values of hidden stages.
void StageText::read_tops() {
  const int64_t pieces = keys() / summary_keys;
  t_.open(fmt::format("for (int n = thread; n < stages * {}; n += {})", pieces, s_.threads()));
  t_.add(fmt::format("if (states[n / {}] != 2) continue;", pieces));
  for (const bool is_key : {true, false})
    t_.add(fmt::format("{0}_top = nan_max({0}_top, {1});", is_key ? "key" : "value",
                       entry(is_key ? summary_->key_tops : summary_->value_tops, top_steps(a_), "n")));
  t_.close();
}

void StageText::inspect_words() {
  t_.add("unsigned key_word = 0, value_word = 0;  // of the lower and of the upper halves, without signs");
  t_.open("for (int stage = 0; stage < stages; ++stage)");
  t_.add("if (states[stage] != 2) continue;");
  inspect("key", a_.k, true, a_.axes.depth.size() / word);
  inspect("value", a_.v, false, a_.columns / word);
  t_.close();
  t_.add(fmt::format("key_top = {}, value_top = {};", number("key_word").text, number("value_word").text));
}

Term StageText::number(const Term& halves) const {
  return term("{0}_to_float(({0})max({1} & 0xffffu, {1} >> 16))", type(), halves);
}

// A hidden stage's words, as they lie in memory.
void StageText::inspect(const std::string& name, const Operand& o, bool is_key, int64_t words) {
  const int64_t step = o.strides[static_cast<size_t>(is_key ? a_.axes.keys.dims[0] : a_.axes.value_keys.dims[0])];
  t_.open(fmt::format("for (int from = thread; from < {}; from += {})", keys() * words, s_.threads() * together));
  t_.add(fmt::format("uint4 words[{}];", together));
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int i = 0; i < {}; ++i)", together));
  t_.add(fmt::format("const int n = from + i * {0}, line = n / {1}, d = n % {1} * {2};", s_.threads(), words, word));
  Term within = "d";
  if (is_key && a_.axes.depth.dims.size() > 1) {
    take_apart(t_, "d", a_.axes.depth, "d");
    within = term("{:+} - {}", address(o, {{&a_.axes.depth, "d"}}), o.offset);
  }
  t_.add("words[i] = {0, 0, 0, 0};");
  t_.add(
      fmt::format("if (line < {} && stage * {} + line < bound) words[i] = *(const uint4*)({} + {}_at + "
                  "({})(stage * {} + line) * {} + {:+});",
                  keys(), keys(), pointer_of(k_, o), name, address_type(o), keys(), step, within));
  t_.close();
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int i = 0; i < {}; ++i)", together));
  fold(name + "_word", "words[i]");
  t_.close();
  t_.close();
}

// The largest numbers of four words.
void StageText::fold(const std::string& top, const Term& words) {
  t_.add(fmt::format("const unsigned each[4] = {{{0}.x, {0}.y, {0}.z, {0}.w}};", words));
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int e = 0; e < 4; ++e) {0} = max_halves({0}, each[e] & 0x7fff7fffu);", top));
}

}  // namespace npusim::cuda::codegen::attention
