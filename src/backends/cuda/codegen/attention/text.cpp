// Parts of the text of attention.
#include "backends/cuda/codegen/attention/text.h"

#include <fmt/format.h>

#include "kernel/facts/key_count.h"
#include "kernel/facts/score_kernel.h"

namespace npusim::cuda::codegen::attention {

int64_t result_bytes(const Attention& a, const AttentionShape& s) {
  return 4 * int64_t{s.warps_along_keys} * s.rows() * (words_of(a.columns) * word + 4 + 2);
}

AttentionText::AttentionText(const Kernel& kernel, const Attention& attention, const AttentionShape& shape)
    : k_(kernel), a_(attention), s_(shape), name_(kernel_name(kernel)), rows_(a_.axes.rows.size()) {
  for (const KernelArg& arg : k_.args)
    if (!arg.written) reads_ += fmt::format("in{}, ", inputs_++);
}

std::string AttentionText::point(const std::string& suffix, const Kernel& kernel, PointPosition last, int lanes) const {
  PointFunction f;
  f.name = name_ + suffix;
  f.positions = {{"batch", a_.axes.batch.dims}, {"row", a_.axes.rows.dims}, last};
  f.lanes = lanes;
  if (lanes > 1) f.lane_dim = last.dims.back();
  return print_point(kernel, cuda_dialect, f);
}

std::string AttentionText::head(const std::string& functions) const {
  std::string text = functions;
  if (counted()) text += point("_keys", stored_count(k_), {"key", a_.axes.keys.dims}, 1);
  text += point("_at", k_, {"column", a_.axes.columns.dims}, word);
  return text + fmt::format(fmt::runtime(cuda_dialect.kernel), name_, parameters(k_, cuda_dialect), s_.threads());
}

Term AttentionText::address(const Operand& o, const std::vector<std::pair<const Axis*, const char*>>& parts) {
  std::vector<Term> sum{term("({}){}", address_type(o), o.offset)};
  for (const auto& [axis, index] : parts)
    for (size_t n = 0; n < axis->dims.size(); ++n)
      if (const int64_t stride = o.strides[static_cast<size_t>(axis->dims[n])]; stride != 0)
        sum.push_back(term("({}){}_{} * {}", address_type(o), index, n, stride));
  return sum_of(sum);
}

void AttentionText::positions() {
  take_apart(t_, "batch", a_.axes.batch, "z");
  t_.add(fmt::format("const long long key_at = {}, value_at = {};", address(a_.k, {{&a_.axes.batch, "z"}}).text,
                     address(a_.v, {{&a_.axes.batch, "z"}}).text));
  t_.add("int row[2];  // of this thread's fragments");
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int i = 0; i < 2; ++i) row[i] = min(first_row + row_warp * 16 + lane / 4 + i * 8, {});",
                     rows_ - 1));
  if (counted()) {
    t_.add("long long count;");
    t_.add(fmt::format("{}_keys({}&count, batch, 0, 0, nullptr);", name_, reads_));
    t_.add(fmt::format("const int bound = count < 0 ? 0 : count > {0} ? {0} : (int)count;", a_.keys));
  } else {
    t_.add(fmt::format("const int bound = {};", a_.keys));
  }
}

void AttentionText::open_words(int64_t lines, int64_t words) {
  const int64_t count = lines * words;
  if (count % s_.threads() == 0 && count / s_.threads() <= 16) {
    t_.add("#pragma unroll");
    t_.open(fmt::format("for (int i = 0; i < {}; ++i)", count / s_.threads()));
    t_.add(fmt::format("const int n = thread + i * {};", s_.threads()));
  } else {
    t_.open(fmt::format("for (int n = thread; n < {}; n += {})", count, s_.threads()));
  }
  t_.add(fmt::format("const int line = n / {0}, at = n % {0};", words));
}

void AttentionText::load_queries(const Term& to) {
  open_words(s_.rows(), depth_words());
  t_.add("const int query = first_row + line;");
  take_apart(t_, "query", a_.axes.rows, "r");
  t_.add(fmt::format("const int d = at * {};", word));
  take_apart(t_, "d", a_.axes.depth, "d");
  t_.add(fmt::format("const bool there = query < {} && d < {};", rows_, a_.axes.depth.size()));
  t_.add(fmt::format("copy_async({}, {} + (there ? {:+} : 0), there);", to.text, pointer_of(k_, a_.q),
                     address(a_.q, {{&a_.axes.batch, "z"}, {&a_.axes.rows, "r"}, {&a_.axes.depth, "d"}})));
  t_.close();
}

void AttentionText::copy_words(const Operand& o, bool keys, int64_t lines, int64_t words, int64_t size,
                               const Term& to) {
  open_words(lines, words);
  t_.add(fmt::format("const bool there = first + line < bound && at * {} < {};", word, size));
  const int64_t step = o.strides[static_cast<size_t>(keys ? a_.axes.keys.dims[0] : a_.axes.value_keys.dims[0])];
  Term within = term("at * {}", word);
  if (keys && a_.axes.depth.dims.size() > 1) {
    t_.add(fmt::format("const int d = at * {};", word));
    take_apart(t_, "d", a_.axes.depth, "d");
    within = term("{:+} - {}", address(o, {{&a_.axes.depth, "d"}}), o.offset);
  }
  t_.add(fmt::format("copy_async({}, {} + (there ? {} + ({})(first + line) * {} + {:+} : 0), there);", to.text,
                     pointer_of(k_, o), keys ? "key_at" : "value_at", address_type(o), step, within));
  t_.close();
}

void AttentionText::epilogue() {
  const int64_t pitch = column_words() * word + 4;
  const int rows = s_.rows(), warps = s_.warps_along_keys;
  t_.add("wait_copies<0>();");
  t_.add("__syncthreads();");
  t_.add("float* const results = (float*)shared_words;");
  t_.add(fmt::format("float* const tops = results + {};", warps * rows * pitch));
  t_.add(fmt::format("float* const totals = tops + {};", warps * rows));
  t_.add("#pragma unroll");
  t_.open("for (int i = 0; i < 2; ++i)");
  for (const int mask : {1, 2}) t_.add(fmt::format("total[i] += __shfl_xor_sync(0xffffffffu, total[i], {});", mask));
  t_.add(fmt::format("const int line = key_warp * {} + row_warp * 16 + lane / 4 + i * 8;", rows));
  t_.add("if (lane % 4 == 0) tops[line] = top[i], totals[line] = total[i];");
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int c = 0; c < {}; ++c)", column_words()));
  t_.add("#pragma unroll");
  t_.add(fmt::format(
      "  for (int e = 0; e < 2; ++e) results[line * {} + c * 8 + lane % 4 * 2 + e] = sums[c][2 * i + e];", pitch));
  t_.close();
  t_.add("__syncthreads();");
  const int64_t words = a_.columns / word;
  t_.open(fmt::format("for (int n = thread; n < {}; n += {})", rows * words, s_.threads()));
  t_.add(fmt::format("const int line = n / {0}, column = n % {0} * {1};", words, word));
  t_.add(fmt::format("if (first_row + line >= {}) continue;", rows_));
  t_.add("float most = tops[line], total = 0;");
  if (warps > 1)
    t_.add(fmt::format("for (int w = 1; w < {}; ++w) most = nan_max(most, tops[w * {} + line]);", warps, rows));
  t_.add("const float base = most == -INFINITY ? 0.0f : most;");
  t_.add(fmt::format("Lanes<float, {}> leaf;", word));
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int e = 0; e < {}; ++e) leaf.at[e] = 0;", word));
  t_.add("#pragma unroll");
  t_.open(fmt::format("for (int w = 0; w < {}; ++w)", warps));
  t_.add(fmt::format("const float share = exp_near(tops[w * {0} + line] - base);", rows));
  t_.add(fmt::format("total += totals[w * {} + line] * share;", rows));
  t_.add(fmt::format("Lanes<float, {}> part;", word));
  t_.add(fmt::format("read_lanes(part, results + (w * {} + line) * {} + column);", rows, pitch));
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int e = 0; e < {}; ++e) leaf.at[e] += part.at[e] * share;", word));
  t_.close();
  // Of a row without any score but −∞ the sums are 0, or NaN where a value is no finite number.
  const bool zero = k_.contraction->masked_rows_are_zero;
  t_.add(fmt::format("const float share = {}1.0f / total;", zero ? "total == 0 ? 1.0f : " : ""));
  t_.add("#pragma unroll");
  t_.add(fmt::format("for (int e = 0; e < {}; ++e) leaf.at[e] = {}leaf.at[e] * share;", word,
                     zero ? "" : "bound == 0 ? 0.0f : "));
  std::string given = "leaf.at";
  if (takes_log(k_)) {
    t_.add(fmt::format("float values[{}];", word + 1));
    t_.add("#pragma unroll");
    t_.add(fmt::format("for (int e = 0; e < {}; ++e) values[e] = leaf.at[e];", word));
    t_.add(fmt::format("values[{}] = base + logf(total);", word));
    given = "values";
  }
  t_.add(fmt::format("{}_at({}, batch, first_row + line, column, {});", name_, parameter_names(k_), given));
  t_.close();
}

}  // namespace npusim::cuda::codegen::attention
