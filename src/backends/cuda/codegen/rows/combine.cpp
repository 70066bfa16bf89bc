// The text: lines come to shared memory, elements go to their positions, lines go back.
#include "backends/cuda/codegen/rows/combine.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/cuda/codegen/locals.h"
#include "backends/cuda/codegen/text.h"
#include "kernel/facts/depend.h"
#include "kernel/facts/memory.h"

namespace npusim::cuda::codegen::rows {
namespace {

constexpr int64_t mask_words = 256;  // of a warp: which of its lanes have a position, by its last digits
constexpr int64_t most_block_bytes = least_block_bytes - (3 << 10);
constexpr int64_t most_line_bytes = most_block_bytes - mask_words * 4;
constexpr int most_warps = 16;

const Store& store_of(const Kernel& k) { return k.stores[0]; }
DType dtype_of(const Kernel& k) { return k.args[static_cast<size_t>(store_of(k).access.arg)].dtype; }

int64_t line_bytes(const Kernel& k, const CombinedLines& l) {
  return (l.line_results | 1) * static_cast<int64_t>(dtype_size(held_dtype(dtype_of(k))));
}

// Whether no two indices have one position in a line: every stride exceeds all that smaller ones add up to.
bool is_injective(std::vector<IndexTerm> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const IndexTerm& a, const IndexTerm& b) { return std::abs(a.stride) < std::abs(b.stride); });
  int64_t covered = 0;
  for (const IndexTerm& t : terms) {
    if (std::abs(t.stride) <= covered) return false;
    covered += std::abs(t.stride) * (t.extent - 1);
  }
  return true;
}

// Lines of a block, each a warp's: neighbours whose elements are words of memory together, as long as every
// multiprocessor has a block.
int warps_of(const Kernel& k, const CombinedLines& l, const Features& features) {
  const int64_t bytes = line_bytes(k, l) + mask_words * 4;
  int warps = l.side_by_side ? most_warps : 4;
  while (warps > 1 && (warps * bytes > most_block_bytes || l.lines < int64_t{warps} * features.units * 3 / 4))
    warps /= 2;
  return warps;
}

class CombinedText {
 public:
  CombinedText(const Kernel& kernel, const CombinedLines& lines, const Features& features)
      : k_(kernel), l_(lines), name_(kernel_name(kernel)), warps_(warps_of(kernel, lines, features)) {
    const std::vector<bool> live = live_expressions(kernel, true);
    for (size_t i = 0; i < kernel.exprs.size(); ++i) {
      const Expr& e = kernel.exprs[i];
      if (live[i] && e.op == ExprOp::load && kernel.accesses[static_cast<size_t>(e.integer)].terms.empty())
        loads_.push_back(static_cast<int32_t>(i));
    }
  }

  int warps() const { return warps_; }

  // What an element is and where it goes, how two of one position combine, and where positions lie in memory.
  std::string functions() {
    const Store& s = store_of(k_);
    PointValues reads(k_), point(k_);
    std::vector<std::string> given;
    for (const int32_t id : loads_) {
      reads.take(id, load_dtype(id));
      point.give(id, load_dtype(id));
      given.push_back(fmt::format("&x_{}[step]", id));
    }
    int32_t position = -1;
    for (size_t n = 0; n < s.access.terms.size(); ++n) {
      const int32_t digit = s.access.terms[n].expr;
      position = n == 0 ? digit
                        : point.add({.op = ExprOp::add,
                                     .type = Scalar::i64,
                                     .in = {point.add({.op = ExprOp::mul,
                                                       .type = Scalar::i64,
                                                       .in = {position, integer(point, l_.index_extents[n]), -1}}),
                                            digit, -1}});
    }
    point.take(position, DType::i32, s.access.guards, s.access.terms);
    point.take(s.expr, held_dtype(dtype_of(k_)));
    const std::vector<PointPosition> positions{{"line", l_.apart}, {"element", l_.along}};
    std::string text = point.print(name_ + "_at", positions);
    element_ = point.call(name_ + "_at", {"line", "element"}, given, {"&positions[step]", "&values[step]"});
    if (!loads_.empty()) {
      text += reads.print(name_ + "_read", positions);
      read_ = reads.call(name_ + "_read", {"line", "element"}, {}, given);
    }
    return text + combination_text(name_ + "_combine", held_dtype(dtype_of(k_)), s.reduction) + addresses();
  }

  std::string body() {
    const DType held = held_dtype(dtype_of(k_));
    const std::string_view type = held_type(held);
    const int64_t padded = l_.line_results | 1, results = warps_ * padded * static_cast<int64_t>(dtype_size(held));
    const int64_t masks = (results + 15) / 16 * 16;
    shared_bytes_ = masks + (is_any_order() ? 0 : warps_ * mask_words * 4);
    for (const std::string& statement : follow_text(k_, std::vector<int>{})) t_.add(statement);
    t_.add("extern __shared__ uint4 shared_words[];");
    t_.add(fmt::format("{0}* const results = ({0}*)shared_words;", type));
    if (!is_any_order()) t_.add(fmt::format("unsigned* const masks = (unsigned*)(shared_words + {});", masks / 16));
    t_.add("const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;");
    t_.add(fmt::format("const int first = blockIdx.x * {};", warps_));
    if (!is_any_order())
      t_.add(fmt::format("for (int n = threadIdx.x; n < {}; n += {}) masks[n] = 0;", warps_ * mask_words, 32 * warps_));
    const auto& element = cuda_dialect.elements[static_cast<size_t>(dtype_of(k_))];
    const bool converts = held != dtype_of(k_);
    const auto as = [&](std::string_view form, const std::string& x) {
      return converts ? fmt::format(fmt::runtime(form), x) : x;
    };
    const std::string mine = fmt::format("results[n_line * {} + position]", padded);
    every_result(fmt::format("{} = {};", mine, as(element.load, "out0[at]")));
    t_.add("__syncthreads();");
    t_.add("const int line = first + warp;");
    const bool even = l_.lines % warps_ == 0;
    if (!even) t_.open(fmt::format("if (line < {})", l_.lines));
    t_.add(fmt::format("{}* const mine = results + warp * {};", type, padded));
    if (!is_any_order()) t_.add(fmt::format("unsigned* const sharers = masks + warp * {};", mask_words));
    elements();
    if (!even) t_.close();
    t_.add("__syncthreads();");
    every_result(fmt::format("out0[at] = {};", as(element.store, mine)));
    return std::move(t_.text);
  }
  int64_t shared_bytes() const { return shared_bytes_; }

 private:
  static int32_t integer(PointValues& point, int64_t value) {
    return point.add({.op = ExprOp::constant, .type = Scalar::i64, .integer = value});
  }

  DType load_dtype(int32_t id) const {
    const Access& a = k_.accesses[static_cast<size_t>(k_.exprs[static_cast<size_t>(id)].integer)];
    return held_dtype(k_.args[static_cast<size_t>(a.arg)].dtype);
  }

  // Where a line begins and how far a position is from there.
  std::string addresses() const {
    const Access& to = store_of(k_).access;
    Axis axis;
    for (const int d : l_.apart) axis.dims.push_back(d), axis.extents.push_back(k_.space[static_cast<size_t>(d)]);
    Lines begin;
    take_apart(begin, "line", axis, "line");
    begin.add(fmt::format("return {};", sum_of({Term(to.offset), put_together(to.strides, axis, "line")}).text));
    std::vector<Term> parts;
    int64_t inner = 1;
    for (size_t n = to.terms.size(); n-- > 0; inner *= l_.index_extents[n]) {
      Term digit = inner == 1 ? Term("position") : term("position / {}", inner);
      if (n != 0) digit = term("{:*} % {}", digit, l_.index_extents[n]);
      parts.push_back(to.terms[n].stride == 1 ? digit : term("{:*} * {:*}", digit, Term(to.terms[n].stride)));
    }
    return fmt::format(
        "__device__ __forceinline__ int {0}_begin(const int line) {{\n{1}}}\n"
        "__device__ __forceinline__ int {0}_offset(const int position) {{\n  return {2};\n}}\n",
        name_, begin.text, sum_of(parts).text);
  }

  // Of all results of the block, in the order of memory: `n_line`, `position` and `at`.
  void every_result(const std::string& statement) {
    t_.open(fmt::format("for (int n = threadIdx.x; n < {}; n += {})", warps_ * l_.line_results, 32 * warps_));
    const bool across = l_.side_by_side;
    t_.add(fmt::format("const int n_line = n {} {}, position = n {} {};", across ? "%" : "/",
                       across ? warps_ : l_.line_results, across ? "/" : "%", across ? warps_ : l_.line_results));
    if (l_.lines % warps_ != 0) t_.add(fmt::format("if (first + n_line >= {}) continue;", l_.lines));
    t_.add(fmt::format("const int at = {0}_begin(first + n_line) + {0}_offset(position);", name_));
    t_.add(statement);
    t_.close();
  }

  // What several elements of a lane are made of is asked for at a time: what is checked before it would wait for what
  // it is. They are combined 32 by 32, lanes of one position one after the other where the order matters.
  void elements() {
    constexpr int64_t most_steps = 8;
    const int64_t steps = std::clamp<int64_t>((l_.length + 31) / 32, 1, most_steps);
    const std::string there = l_.length % (32 * steps) == 0 ? "" : fmt::format("if (element < {}) ", l_.length);
    const auto each = [&] {
      t_.add("#pragma unroll");
      t_.open(fmt::format("for (int step = 0; step < {}; ++step)", steps));
    };
    const auto each_element = [&](const std::string& before, const std::string& call) {
      each();
      t_.add("const int element = batch + step * 32 + lane;");
      if (!before.empty()) t_.add(before);
      t_.add(there + call);
      t_.close();
    };
    t_.open(fmt::format("for (int batch = 0; batch < {}; batch += {})", l_.length, 32 * steps));
    for (const int32_t id : loads_) t_.add(fmt::format("{} x_{}[{}];", held_type(load_dtype(id)), id, steps));
    t_.add(fmt::format("int positions[{}];", steps));
    t_.add(fmt::format("{} values[{}];", held_type(dtype_of(k_)), steps));
    if (!loads_.empty()) each_element({}, read_);
    each_element("positions[step] = -1;", element_);
    each();
    t_.add("const int position = positions[step];");
    if (is_any_order())
      add_atomically();
    else
      combine_in_order();
    t_.close();
    t_.close();
  }

  // Sums of whole numbers that the device adds by itself.
  bool is_any_order() const {
    return store_of(k_).reduction == Reduction::sum && (dtype_of(k_) == DType::i32 || dtype_of(k_) == DType::i64);
  }

  void add_atomically() {
    const std::string_view word = dtype_of(k_) == DType::i32 ? "unsigned" : "unsigned long long";
    t_.add(fmt::format("if (position >= 0 && values[step] != 0) atomicAdd(({0}*)&mine[position], ({0})values[step]);",
                       word));
  }

  void combine_in_order() {
    t_.add(fmt::format("unsigned* const sharer = sharers + (position & {});", mask_words - 1));
    t_.add("if (position >= 0) atomicOr(sharer, 1u << lane);");
    t_.add("__syncwarp();");
    t_.add("const int rank = position >= 0 ? __popc(*sharer & ((1u << lane) - 1)) : -1;");
    t_.add("__syncwarp();");
    t_.add("if (position >= 0) *sharer = 0;");
    t_.open("for (int now = 0; __any_sync(0xffffffffu, rank >= now); ++now)");
    t_.add(fmt::format("if (rank == now) {}_combine(&mine[position], &values[step], &mine[position], 0);", name_));
    t_.add("__syncwarp();");
    t_.close();
  }

  const Kernel& k_;
  const CombinedLines& l_;
  const std::string name_;
  const int warps_;
  std::vector<int32_t> loads_;  // at indices that nothing computes
  std::string read_, element_;  // the calls
  int64_t shared_bytes_ = 0;
  Lines t_;
};

// By dimension: which line, or which of its elements.
std::string share_out(const Kernel& k, CombinedLines& l) {
  const Access& to = store_of(k).access;
  const std::vector<bool> meets = colliding_dims(k, to);
  for (size_t d = 0; d < k.space.size(); ++d) {
    if (k.space[d] == 0) return "no points";
    if (k.space[d] > 1 && meets[d] != (to.strides[d] == 0)) return "positions that are not a line's alone";
    (meets[d] ? l.along : l.apart).push_back(static_cast<int>(d));
    (meets[d] ? l.length : l.lines) *= k.space[d];
    if (l.length > int64_t{1} << 30 || l.lines > int64_t{1} << 30) return "many points";
    if (!meets[d] && k.space[d] > 1) l.side_by_side = std::abs(to.strides[d]) == 1;
  }
  return {};
}

}  // namespace

std::optional<CombinedLines> find_combined_lines(const Kernel& k, std::string& why) {
  const auto none = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  if (k.contraction || k.call || k.row_dims > 0) return none("a row or a contraction");
  if (k.stores.size() != 1 || !k.stores[0].accumulate) return none("not one store that combines");
  const Access& to = k.stores[0].access;
  const KernelArg& arg = k.args[static_cast<size_t>(to.arg)];
  if (arg.updates < 0) return none("nothing to combine with");
  if (arg.elements >= int64_t{1} << 30) return none("a large result");
  for (const Access& a : k.accesses)
    if (a.arg == to.arg || a.arg == arg.updates) return none("it reads what it combines with");
  if (to.terms.empty()) return none("no computed position");
  for (const Guard& g : to.guards)
    if (g.stride != 0) return none("a position that a guard moves");
  if (!is_injective(to.terms)) return none("computed positions that may be one");
  CombinedLines l;
  if (std::string reason = share_out(k, l); !reason.empty()) return none(std::move(reason));
  for (const IndexTerm& t : to.terms) {
    l.index_extents.push_back(t.extent);
    l.line_results *= t.extent;
    if (t.extent == 0 || l.line_results > most_line_bytes) return none("a line of no or of many positions");
  }
  if (line_bytes(k, l) > most_line_bytes) return none(fmt::format("a line of {} bytes", line_bytes(k, l)));
  return l;
}

std::string combine_decline(const Kernel& k) {
  constexpr int64_t least_lines = 256, least_length = 64, results_of_element = 8;
  std::string why;
  const auto l = find_combined_lines(k, why);
  if (!l) return why;
  if (l->lines < least_lines) return fmt::format("{} lines", l->lines);
  if (l->length < least_length) return fmt::format("{} elements of a line", l->length);
  if (l->line_results > results_of_element * l->length)
    return fmt::format("{} elements of a line of {} positions", l->length, l->line_results);
  return {};
}

GeneratedKernel make_combined(const Kernel& kernel, const Features& features) {
  std::string why;
  const CombinedLines lines = *find_combined_lines(kernel, why);
  CombinedText text(kernel, lines, features);
  GeneratedKernel made;
  made.symbol = kernel_name(kernel);
  made.shape = {(lines.lines + text.warps() - 1) / text.warps(), 32 * text.warps()};
  made.how = fmt::format("combined lines, {} of {} positions to a block", text.warps(), lines.line_results);
  made.functions = text.functions();
  add_kernel(made, kernel, text.body(), made.shape.blocks <= features.units);
  made.shared_bytes = text.shared_bytes();
  return made;
}

}  // namespace npusim::cuda::codegen::rows
