// Compiles kernels to plans, and shares their tiles among threads.
#include "backends/cpu/loops/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "backends/cpu/loops/frame.h"
#include "backends/cpu/loops/joined.h"
#include "backends/cpu/loops/rewrite/collapse.h"
#include "backends/cpu/loops/rewrite/repeat.h"
#include "backends/cpu/loops/rewrite/running_index.h"
#include "backends/cpu/step.h"
#include "base/shape.h"
#include "base/threads.h"
#include "kernel/facts/compact.h"
#include "kernel/facts/memory.h"

namespace npusim::cpu::loops {
namespace {

struct Aligned {
  void operator()(char* p) const { ::operator delete (p, std::align_val_t{64}); }
};
using Scratch = std::unique_ptr<char, Aligned>;

Scratch new_scratch(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes + 64);
  auto* p = static_cast<char*>(::operator new (size, std::align_val_t{64}));
  std::fill(p, p + size, char{0});
  return Scratch(p);
}

// Of several plans.
int64_t rounds_of(const Kernel& kernel, size_t plans) {
  constexpr int64_t points_of_round = 32768, most_rounds = 64, few_plans = 8;  // each begins anew in a round
  const int64_t points = element_count(kernel.space);
  const int64_t groups = std::max<int64_t>(static_cast<int64_t>(plans) / few_plans, 1);
  return std::clamp<int64_t>(points / (points_of_round * groups), 1, most_rounds);
}

}  // namespace

struct Loops::State {
  std::vector<std::unique_ptr<plan::Plan>> plans;
  std::vector<Joined> joined;
  std::vector<Scratch> scratch;               // by thread
  std::vector<std::vector<Frame>> frames;     // by thread, then plan
  std::vector<std::vector<int64_t>> extents;  // by plan: the end of its space
  std::vector<int64_t> zeros;
  std::vector<std::vector<int64_t>> box;  // by thread: begin and end of a box in a piece's space
  tiles::Trap trap;
  std::string requirement;  // what a trap of kind 3 says
  bool parallel = false, boxes = false;
  // Several plans run in rounds, with as many parts of their tiles: what they leave in a line of memory goes there
  // together.
  int64_t rounds = 1;

  // Part `part` of `parts` of the dimension that a serial plan shares, in blocks of lanes.
  void run_slice(Frame& frame, size_t p, void* const* args, int64_t part, int64_t parts, int thread) {
    const std::vector<int64_t>& extent = extents[p];
    int64_t* begin = box[static_cast<size_t>(thread)].data();
    int64_t* end = begin + extent.size();
    std::copy(extent.begin(), extent.end(), end);
    std::fill(begin, end, 0);
    const auto d = static_cast<size_t>(plans[p]->shared_dim);
    const int64_t unit = plans[p]->shared_dim == plans[p]->column_dim ? tiles::lane_block : 1;
    const int64_t units = (extent[d] + unit - 1) / unit;
    begin[d] = units * part / parts * unit;
    end[d] = std::min(units * (part + 1) / parts * unit, extent[d]);
    if (begin[d] < end[d]) frame.run(args, begin, end, 0, frame.tiles(begin, end));
  }

  // Part `part` of `parts` of all that is copied and of every plan's tiles.
  void run_part(void* const* args, int64_t part, int64_t parts, int thread) {
    for (const Joined& j : joined) copy_units(j, args, j.units * part / parts, j.units * (part + 1) / parts);
    for (size_t p = 0; p < plans.size(); ++p) {
      const bool shares = plans[p]->serial && plans[p]->shared_dim >= 0 && parts > 1;
      if (plans[p]->serial && !shares && part > 0) continue;
      Frame& frame = frames[static_cast<size_t>(thread)][p];
      if (plans.size() > 1) frame.fill_constants();
      if (shares) {
        run_slice(frame, p, args, part, parts, thread);
        continue;
      }
      const int64_t share = plans[p]->serial ? 1 : parts;
      frame.run(args, zeros.data(), extents[p].data(), plans[p]->tiles * part / share,
                plans[p]->tiles * (part + 1) / share);
    }
  }
};

Loops::Loops(const Kernel& kernel, int threads, bool boxes) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.requirement = requirement_message(kernel);
  const bool serial = order_matters(kernel);
  double cost = 0;
  int64_t bytes = 0;
  Kernel searched = kernel;
  rewrite::find_searches(searched);
  std::vector<rewrite::Piece> pieces = rewrite::split_kernel(searched);
  if (!serial && !boxes) s.joined = join_copies(pieces);
  for (const Joined& j : s.joined) cost += cost_of(j) * static_cast<double>(j.units);
  const size_t parts = pieces.size() + s.joined.size();
  if (parts > 1 && !serial) s.rounds = rounds_of(kernel, parts);
  for (rewrite::Piece& piece : pieces) {
    if (!serial && !boxes) rewrite::split_repeats(piece);
    rewrite::collapse_dimensions(piece, !boxes);
    rewrite::find_running_indices(piece.kernel);
    drop_dead(piece.kernel);
    s.plans.push_back(std::make_unique<plan::Plan>(plan::make_plan(std::move(piece), serial, s.rounds)));
    const plan::Plan& plan = *s.plans.back();
    s.extents.push_back(plan.piece.kernel.space);
    s.extents.back().push_back(0);
    bytes = std::max(bytes, plan.scratch_bytes);
    if (plan.serial ? plan.shared_dim >= 0 : plan.tiles > 1) cost += plan.tile_cost * static_cast<double>(plan.tiles);
  }
  size_t longest = 0;
  for (const std::vector<int64_t>& extent : s.extents) longest = std::max(longest, extent.size());
  s.zeros.assign(longest, 0);
  s.boxes = boxes;
  s.parallel = cost >= worth_sharing_ns;
  const int count = s.parallel || boxes ? std::max(threads, 1) : 1;
  s.frames.resize(static_cast<size_t>(count));
  for (auto& frames : s.frames) {
    s.scratch.push_back(new_scratch(bytes));
    s.box.emplace_back(2 * kernel.space.size() + 2);
    for (const auto& plan : s.plans) frames.emplace_back(*plan, s.scratch.back().get(), s.trap);
    if (s.plans.size() == 1) frames[0].fill_constants();
  }
}

Loops::Loops(Loops&&) noexcept = default;
Loops& Loops::operator=(Loops&&) noexcept = default;
Loops::~Loops() = default;

bool Loops::run(void* const* args) {
  State& s = *state_;
  s.trap.kind.store(0, std::memory_order_relaxed);
  const auto threads = s.parallel ? static_cast<int>(s.frames.size()) : 1;
  on_threads(threads, [&](int thread) {
    for (int64_t round = 0; round < s.rounds; ++round)
      s.run_part(args, thread * s.rounds + round, threads * s.rounds, thread);
  });
  return s.trap.kind.load(std::memory_order_relaxed) == 0;
}

bool Loops::run_box(void* const* args, const int64_t* begin, const int64_t* end, int thread) {
  State& s = *state_;
  int64_t* from = s.box[static_cast<size_t>(thread)].data();
  for (size_t p = 0; p < s.plans.size(); ++p) {
    const rewrite::Piece& piece = s.plans[p]->piece;
    int64_t* to = from + piece.dims.size();
    bool empty = false;
    for (size_t d = 0; d < piece.begin.size(); ++d)
      empty = empty || std::max(begin[d], piece.begin[d]) >= std::min(end[d], piece.end[d]);
    if (empty) continue;
    for (size_t d = 0; d < piece.dims.size(); ++d) {
      const auto original = static_cast<size_t>(piece.dims[d]);
      from[d] = std::max(begin[original], piece.begin[original]) - piece.begin[original];
      to[d] = std::min(end[original], piece.end[original]) - piece.begin[original];
    }
    Frame& frame = s.frames[static_cast<size_t>(thread)][p];
    if (s.plans.size() > 1) frame.fill_constants();
    frame.run(args, from, to, 0, frame.tiles(from, to));
  }
  return s.trap.kind.load(std::memory_order_relaxed) == 0;
}

void Loops::clear_trap() { state_->trap.kind.store(0); }

std::string Loops::trap_message() const {
  const tiles::Trap& t = state_->trap;
  if (t.kind == 1) return fmt::format("index {} is out of range for a dimension of {}", t.value, t.extent);
  if (t.kind == 3) return state_->requirement;
  return t.kind == 2 ? "integer division by zero" : "";
}

}  // namespace npusim::cpu::loops
