// Warp-specialized tiles: a producer warpgroup fills the stages, consumer warpgroups multiply.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/codegen/products/tile_text.h"
#include "print/print.h"

namespace npusim::cuda::codegen::products {
namespace {

class SpecializedText : TileText {
 public:
  SpecializedText(const Kernel& kernel, const Product& product, const TileShape& shape, std::span<const Part> parts)
      : TileText(kernel, product, shape), parts_(parts) {}

  // The producer copies stages as far ahead as there is room, over the ends of tiles; the consumers multiply, and
  // release a stage when the next one's products have begun and its own have ended.
  std::string body() {
    begin();
    const int warps = s_.multipliers() / 32;
    t_.add(
        fmt::format("unsigned long long* const full = (unsigned long long*)(b_stages + {}), *const empty = full + {};",
                    slots() * s_.columns * tile_depth, slots()));
    t_.add(fmt::format("if (threadIdx.x < {}) mbarrier_start(&full[threadIdx.x], threadIdx.x < {} ? 128 : {});",
                       2 * slots(), slots(), warps));
    t_.add("__syncthreads();");
    produce();
    multiply();
    return std::move(t_.text);
  }

 private:
  // Registers of a thread, which together are no more than the launch has.
  int registers_of_producers() const {
    if (!parts_.empty()) return 64;
    if (!p_.a.bounds.empty() || !p_.b.bounds.empty()) return s_.rows > 128 && s_.columns <= 64 ? 120 : 88;
    const bool plain = is_plain(p_.a, p_.rows, s_.rows) && is_plain(p_.b, p_.columns, s_.columns);
    return !plain ? 80 : p_.second_b >= 0 ? 56 : 40;
  }
  int registers_of_consumers() const {
    const int all = 65536 / s_.threads() / 8 * 8 * (s_.threads() / 128);
    return (all - registers_of_producers()) / (s_.multipliers() / 128) / 8 * 8;
  }

  void produce() {
    t_.open(fmt::format("if (warp >= {})", s_.multipliers() / 32));
    t_.add(fmt::format("take_registers<{}>();", registers_of_producers()));
    t_.add(fmt::format("const int thread = threadIdx.x - {};", s_.multipliers()));
    t_.add("int slot = 0;");
    t_.add("unsigned phase = 1;");
    const bool ahead = p_.a.ahead || p_.b.ahead;
    if (!ahead) follow();
    // The rows are the same for all parts, and are named by what comes through the wait.
    const std::string rows = pointer_of(k_, p_.a), columns = pointer_of(k_, p_.b);
    if (!parts_.empty()) t_.add(fmt::format("const auto& {0} = {0}_0;", rows));
    each_tile([&] {
      if (!parts_.empty())
        t_.add(fmt::format("const {}* const {} = {};", element_type(p_), columns, of_part([&](size_t n) {
                             return fmt::format("{}_{}", pointer_of(*parts_[n].kernel, parts_[n].product.b), n);
                           })));
      if (p_.batch.dims.empty())
        t_.add("(void)batch;");
      else
        take_apart(t_, "batch", p_.batch, "z");
      declare_operands();
      if (ahead) {  // of the first stages, before what precedes the launch has ended
        t_.open("if (tile == block)");
        t_.add("#pragma unroll 1");
        t_.open(fmt::format("for (int step = 0; step < {}; ++step)", slots()));
        if (p_.a.ahead) t_.add("copy_a(step, step);");
        if (p_.b.ahead) t_.add("copy_b(step, step);");
        t_.close();
        follow();
        t_.close();
      }
      t_.add("#pragma unroll 1");
      t_.open(fmt::format("for (int step = 0; step < {}; ++step)", steps_));
      t_.add("mbarrier_wait(&empty[slot], phase);");
      const std::string again = fmt::format("if (tile != block || step >= {}) ", slots());
      t_.add(fmt::format("{}copy_a(slot, step);", p_.a.ahead ? again : ""));
      t_.add(fmt::format("{}copy_b(slot, step);", p_.b.ahead ? again : ""));
      t_.add("arrive_behind_copies(&full[slot]);");
      next_slot();
      t_.close();
    });
    t_.add("return;");
    t_.close();
  }

  void multiply() {
    t_.add(fmt::format("give_registers<{}>();", registers_of_consumers()));
    follow();
    t_.add("int slot = 0, last = 0;");
    t_.add("unsigned phase = 0;");
    each_tile([&] {
      declare_sums();
      t_.add("#pragma unroll");  // zeros are in their registers before products begin
      t_.add(fmt::format("for (int i = 0; i < {}; ++i) hold(sums[i]);", rows_of_warp(s_) / 16));
      t_.add("#pragma unroll 1");
      t_.open(fmt::format("for (int step = 0; step < {}; ++step)", steps_));
      t_.add("mbarrier_wait(&full[slot], phase);");
      t_.add("show_words();");
      for (const auto& [x, size] : {std::pair{'a', s_.rows}, {'b', stage_columns_}})
        t_.add(fmt::format("const {0}* const {1}_stage = {1}_stages + slot * {2};", element_type(p_), x,
                           size * tile_depth));
      group_step();
      t_.add("wait_group<1>();");
      t_.add("if (lane == 0 && step > 0) mbarrier_arrive(&empty[last]);");
      t_.add("last = slot;");
      next_slot();
      t_.close();
      t_.add("wait_group<0>();");
      t_.add("if (lane == 0) mbarrier_arrive(&empty[last]);");
      add_results();
    });
  }

  // What is behind a launch that precedes this one.
  void follow() {
    if (parts_.empty())
      for (const std::string& statement : follow_text(k_, p_)) t_.add(statement);
    for (size_t n = 0; n < parts_.size(); ++n)
      for (const std::string& statement : follow_text(*parts_[n].kernel, parts_[n].product, fmt::format("_{}", n)))
        if (n == 0 || statement != "follow();") t_.add(statement);
  }

  // Of the part that the tile is of: part == 0 ? TEXT(0) : … TEXT(last).
  template <typename F>
  std::string of_part(const F& text) const {
    std::string choice;
    for (size_t n = 0; n + 1 < parts_.size(); ++n) choice += fmt::format("part == {} ? {} : ", n, text(n));
    return choice + text(parts_.size() - 1);
  }

  // The loop over a block's tiles, which both those who fill stages and those who multiply walk.
  template <typename F>
  void each_tile(const F& body) {
    if (s_.narrow > 0) return each_width(body);
    t_.add("#pragma unroll 1");
    if (parts_.empty()) {
      t_.open(fmt::format("for (int tile = block; tile < {}; tile += gridDim.x)", tiles_of(p_, s_)));
      stand_at("tile");
    } else {
      stand_in_part();
    }
    body();
    t_.close();
  }

  // First all wide tiles, then the narrow ones: a loop for each, whose stages lie in the same memory.
  template <typename F>
  void each_width(const F& body) {
    const int64_t rows = p_.rows.size() / s_.rows, wide = rows * s_.wide;
    const int narrow = s_.narrow, first_column = s_.wide * columns_of(p_, s_);
    const int64_t all = tiles_of(p_, s_);
    t_.add("int tile = block;");
    for (const bool last : {false, true}) {
      if (last) s_.columns = narrow;
      t_.add("#pragma unroll 1");
      t_.open(fmt::format("for (; tile < {}; tile += gridDim.x)", last ? all : wide));
      const Term number = last ? term("tile - {}", wide) : "tile";
      t_.add(fmt::format("const int first_row = {0:*} % {1} * {2}, first_column = {3} + {0:*} / {1} * {4}, batch = 0;",
                         number, rows, s_.rows, last ? first_column : 0, columns_of(p_, s_)));
      body();
      t_.close();
    }
    s_.columns = stage_columns_;
  }

  // Opens the loop over the tiles of all parts.
  void stand_in_part() {
    std::vector<int64_t> first{0};
    for (const Part& part : parts_) first.push_back(first.back() + tiles_of(part.product, s_));
    t_.open(fmt::format("for (int tile = block; tile < {}; tile += gridDim.x)", first.back()));
    std::string part;
    for (size_t n = 0; n + 1 < parts_.size(); ++n) part += fmt::format("tile < {} ? {} : ", first[n + 1], n);
    t_.add(fmt::format("const int part = {}{}, within = tile - ({});", part, parts_.size() - 1,
                       of_part([&](size_t n) { return std::to_string(first[n]); })));
    const int64_t rows = p_.rows.size() / s_.rows;
    t_.add(fmt::format("const int first_row = within % {0} * {1}, first_column = within / {0} * {2}, batch = 0;", rows,
                       s_.rows, s_.columns));
  }

  // Equal kernels share the text.
  void add_results() {
    if (parts_.empty()) return add_results_from_registers(t_, k_, p_, s_);
    for (size_t n = 0, last = 0; n < parts_.size(); n = last) {
      const Kernel& kernel = *parts_[n].kernel;
      while (last < parts_.size() && kernel_name(*parts_[last].kernel) == kernel_name(kernel)) ++last;
      t_.open(fmt::format("{}if (part < {})", n == 0 ? "" : "else ", last));
      int reads = 0, writes = 0;
      for (const KernelArg& arg : kernel.args) {
        const std::string name = fmt::format("{}{}", arg.written ? "out" : "in", arg.written ? writes++ : reads++);
        std::string choice;
        for (size_t of = n; of + 1 < last; ++of) choice += fmt::format("part == {} ? {}_{} : ", of, name, of);
        t_.add(fmt::format("{}{}* const {} = {}{}_{};", arg.written ? "" : "const ",
                           cuda_dialect.elements[static_cast<size_t>(arg.dtype)].type, name, choice, name, last - 1));
      }
      add_results_from_registers(t_, kernel, parts_[n].product, s_);
      t_.close();
    }
  }

  int slots() const { return static_cast<int>(std::min<int64_t>(s_.stages, steps_)); }
  void next_slot() { t_.add(fmt::format("if (++slot == {}) slot = 0, phase ^= 1;", slots())); }

  const std::span<const Part> parts_;  // none: the one product
};

}  // namespace

std::string specialized_text(const Kernel& kernel, const Product& product, const TileShape& shape,
                             std::span<const Part> parts) {
  return SpecializedText(kernel, product, shape, parts).body();
}

}  // namespace npusim::cuda::codegen::products
