// Tiles whose stages four warps of their own fill.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/target/tile_text.h"

namespace npusim::cuda {
namespace {

class FedText : TileText {
 public:
  using TileText::TileText;

  // Four warps ask for the words of stages, as far ahead as there is room, over the ends of tiles; the others multiply,
  // and let a stage go when the next one's products have begun and its own have ended.
  std::string body() {
    begin();
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
    return std::move(t_.text);
  }

 private:
  // A loop's parts that both those who fill stages and those who multiply walk.
  void each_tile() {
    t_.add("#pragma unroll 1");
    t_.open(fmt::format("for (int tile = block; tile < {}; tile += gridDim.x)", tiles_of(p_, s_)));
    stand_at("tile");
  }
  int slots() const { return static_cast<int>(std::min<int64_t>(s_.stages, steps_)); }
  void next_slot() { t_.add(fmt::format("if (++slot == {}) slot = 0, phase ^= 1;", slots())); }
};

}  // namespace

std::string fed_text(const Kernel& kernel, const Product& product, const TileShape& shape) {
  return FedText(kernel, product, shape).body();
}

}  // namespace npusim::cuda
