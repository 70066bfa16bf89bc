// Stages of equal content are one function; what differs between them is a row of the table.
#include "backends/cuda/target/stream/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "backends/cuda/target/stream/machine.h"
#include "backends/cuda/target/stream/meetings.h"
#include "backends/cuda/target/text.h"
#include "base/hash.h"
#include "print/part.h"
#include "print/plan.h"
#include "print/point.h"
#include "print/print.h"

namespace npusim::cuda {
namespace {

using Kind = StreamStage::Kind;

constexpr int64_t most_shared = 227 << 10;  // bytes of a block
constexpr int64_t fewest_slots = 3;
constexpr int64_t most_small = 1 << 16;  // bytes of what is asked for ahead without a place in the ring
constexpr int64_t alignment = 256;       // of a value: no two share a line of a cache

constexpr int64_t own_from = 1 << 18;  // pointers from here on are into the launch's memory

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
int64_t tiles_at_once(int64_t rows) { return std::max<int64_t>(1, 12 / rows); }

// The table: of each stage its kind, whether it waits for all blocks, its first trap and its pointers.
constexpr int waits = 1 << 15;

class Printer {
 public:
  Printer(const WholeMethod& method, const StreamPlan& plan) : m_(method), plan_(plan) {}

  std::optional<StreamText> run(std::string& why) {
    number_traps();
    for (int& pointer : partial_pointers_) {
      pointer = static_cast<int>(pointers_.size());
      pointers_.push_back(own_from + own_);
      own_ += aligned(plan_.partial_bytes);
    }
    for (size_t i = 0, end = 0; i < plan_.stages.size(); i = end) {
      for (end = i + 1; end < plan_.stages.size() && !begins(plan_.stages[end]);) ++end;
      add({plan_.stages.begin() + static_cast<ptrdiff_t>(i), plan_.stages.begin() + static_cast<ptrdiff_t>(end)});
    }
    if (pointers_.size() + 1 >= waits || kinds_.size() >= waits || trap_count_ >= 1 << 16) {
      why = "a table of too many entries";
      return std::nullopt;
    }
    if (out_.values.size() + 2 > static_cast<size_t>(cuda_dialect.max_args)) {
      why = fmt::format("{} values, {} take part in a launch", out_.values.size(), cuda_dialect.max_args);
      return std::nullopt;
    }
    const int64_t pointers = aligned(static_cast<int64_t>(pointers_.size()) * 8);
    const int64_t tables = aligned(static_cast<int64_t>(stages_.size() + matrices_.size()) * 2);
    const int64_t others = plan_.kept_bytes + aligned(scratch_) + pointers + tables + alignment;
    slots_ = std::min<int64_t>((most_shared - others) / slot_bytes, 8);
    if (slots_ < fewest_slots) {
      why = fmt::format("{} bytes of a block's memory beside the ring", others);
      return std::nullopt;
    }
    kept_ = slots_ * slot_bytes, at_scratch_ = kept_ + plan_.kept_bytes, at_pointers_ = at_scratch_ + aligned(scratch_);
    at_tables_ = at_pointers_ + pointers, at_barriers_ = at_tables_ + tables;
    out_.shared_bytes = at_barriers_ + alignment;
    out_.own_bytes = own_;
    out_.traps = trap_count_ > 0;
    const std::string body = entry();
    out_.symbol = "stream_" + hash_hex(functions_ + tables_ + body);
    out_.functions =
        std::string(constants()) + std::string(stream_machine()) + functions_ + tables_ +
        fmt::format(fmt::runtime(cuda_dialect.kernel), out_.symbol, parameter(), fmt::format("{}, 1", stream_block)) +
        body;
    const auto count = [&](Kind kind) {
      return std::count_if(plan_.stages.begin(), plan_.stages.end(),
                           [&](const StreamStage& s) { return s.kind == kind; });
    };
    const auto meetings = std::count_if(plan_.stages.begin(), plan_.stages.end(), [](auto& s) { return s.after_all; });
    out_.how = fmt::format(
        "one stream: {} stages of {} kinds, {} products, {} attentions, {} exchanges, {} gathers, {} everywhere, {} "
        "spread; {} "
        "meetings, {} slots of {} bytes",
        plan_.stages.size(), kinds_.size(), count(Kind::product), count(Kind::attention), count(Kind::exchange),
        count(Kind::gather), count(Kind::everywhere), count(Kind::spread), meetings, slots_, slot_bytes);
    return std::move(out_);
  }

 private:
  void number_traps() {
    for (const Kernel& k : plan_.kernels) {
      out_.first_trap.push_back(takes_trap(k) ? trap_count_ : -1);
      if (takes_trap(k)) trap_count_ += trap_count(k);
    }
  }

  // A pointer of the table: what is given, or into the block's memory, or behind it into that of the launch.
  int pointer(int32_t value, bool copied) {
    const auto [known, fresh] = pointer_of_.try_emplace({value, copied}, static_cast<int>(pointers_.size()));
    if (!fresh) return known->second;
    const auto home = plan_.homes.find(value);
    if (copied)
      pointers_.push_back(plan_.copies.at(value));
    else if (home != plan_.homes.end())
      pointers_.push_back(home->second);
    else if (m_.uses[static_cast<size_t>(value)] == ValueUse::inside)
      pointers_.push_back(own_from + own_), own_ += aligned(bytes_of(value));
    else
      pointers_.push_back(-1 - static_cast<int64_t>(out_.values.size())), out_.values.push_back(value);
    return known->second;
  }

  std::string_view type(DType dtype) const { return d_.elements[static_cast<size_t>(dtype)].type; }
  int64_t bytes_of(int32_t value) const { return value_bytes(m_, plan_, value); }

  // The memory through which a value is exchanged: room for the words of any number of blocks.
  int exchange_pointer(int32_t value) {
    const auto [known, fresh] = exchange_of_.try_emplace(value, static_cast<int>(pointers_.size()));
    if (!fresh) return known->second;
    const StreamExchange& e = plan_.exchanges.at(value);
    const int64_t each = 12 / static_cast<int64_t>(dtype_size(e.dtype));
    pointers_.push_back(own_from + own_);
    own_ += aligned(256 + 16 * (e.units * e.width / each + 4 * stream_grid));
    return known->second;
  }
  // How many blocks have done their part of an attention, roughly.
  int counter(int attention) {
    const auto [known, fresh] = counters_.try_emplace(attention, static_cast<int>(pointers_.size()));
    if (fresh) pointers_.push_back(own_from + own_), own_ += alignment;
    return known->second;
  }
  std::string shape_of(const StreamExchange& e) const {
    const int64_t bytes = e.width * static_cast<int64_t>(dtype_size(e.dtype));
    return bytes % 4 == 0 ? fmt::format("<unsigned, {}, {}>", e.units, bytes / 4)
                          : fmt::format("<unsigned short, {}, {}>", e.units, bytes / 2);
  }
  static std::string pointer_type(const StreamExchange& e) {
    return e.width * dtype_size(e.dtype) % 4 == 0 ? "(unsigned*)" : "(unsigned short*)";
  }
  // What the stage makes and publishes, and the argument that it is.
  std::optional<size_t> published(const StreamStage& stage) const {
    if (stage.kind != Kind::product && stage.kind != Kind::merge) return std::nullopt;
    const Kernel& k = plan_.kernels[stage.step];
    for (size_t i = 0; i < k.args.size(); ++i)
      if (const auto e = plan_.exchanges.find(m_.steps[stage.step].values[i]);
          k.args[i].written && e != plan_.exchanges.end())
        return i;
    return std::nullopt;
  }

  std::string row(int at) const { return fmt::format("where[row[{}]]", row_ + at); }

  // The arguments of a stage from the table, from its place 1 on.
  std::string arguments(const Kernel& k) const {
    std::vector<std::string> names;
    int place = 1;
    for (const KernelArg& arg : k.args)
      names.push_back(fmt::format("({}{}*){}", arg.written ? "" : "const ", type(arg.dtype), row(place++)));
    if (takes_trap(k)) names.emplace_back("&raised");
    return fmt::format("{}", fmt::join(names, ", "));
  }

  // Stages up to the next one that waits for other blocks are one piece of text, which is the same for equal ones.
  static bool begins(const StreamStage& stage) { return stage.after_all || stage.kind == Kind::exchange; }

  std::string key_of(const StreamStage& stage) const {
    const Kernel& k = plan_.kernels[stage.step];
    std::string key = fmt::format("{} ", static_cast<int>(stage.kind));
    if (stage.kind == Kind::exchange) {
      for (int32_t v : stage.values) key += shape_of(plan_.exchanges.at(v));
    } else if (stage.kind == Kind::gather) {
      key += fmt::format("{}", bytes_of(stage.values[0]));
    } else {
      const auto made = published(stage);
      key += fmt::format("{} {} ", made ? static_cast<int>(*made) : -1, are_apart(stage)) + to_text(k);
    }
    return key + "\n";
  }

  // No value that the stage reads is one that it writes.
  bool are_apart(const StreamStage& stage) const {
    const Kernel& k = plan_.kernels[stage.step];
    const std::vector<int32_t>& values = m_.steps[stage.step].values;
    for (size_t i = 0; i < values.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (values[i] == values[j] && (k.args[i].written || k.args[j].written)) return false;
    return true;
  }

  void add(std::span<const StreamStage> chain) {
    std::string key;
    for (const StreamStage& stage : chain) key += key_of(stage);
    const std::vector<char> meets = stream_meetings(m_, plan_, chain);
    for (char meet : meets) key += meet ? '|' : '-';
    const auto [known, fresh] = kinds_.try_emplace(std::move(key), static_cast<int>(kinds_.size()));
    if (fresh) print(chain, meets, known->second);
    stages_.push_back(static_cast<int>(known->second) | (chain[0].after_all ? waits : 0));
    for (const StreamStage& stage : chain) add(stage);
  }

  // The row of a stage: its first trap and its pointers.
  void add(const StreamStage& stage) {
    const Kernel& k = plan_.kernels[stage.step];
    const std::vector<int32_t>& values = m_.steps[stage.step].values;
    stages_.push_back(std::max(out_.first_trap[stage.step], 0));
    if (stage.kind == Kind::exchange) {
      for (int32_t v : stage.values) {
        stages_.push_back(exchange_pointer(v));
        stages_.push_back(pointer(v, false));
      }
      return;
    }
    if (stage.kind == Kind::gather) {
      stages_.push_back(pointer(stage.values[0], false));
      stages_.push_back(pointer(stage.values[0], true));
      return;
    }
    for (size_t i = 0; i < k.args.size(); ++i) {
      const bool x = stage.kind == Kind::product && static_cast<int>(i) == plan_.products[stage.step]->x;
      stages_.push_back(pointer(values[i], x && !plan_.homes.contains(values[i])));
    }
    if (stage.kind == Kind::attention || stage.kind == Kind::merge) {
      stages_.push_back(partial_pointers_[merged_ % 2]);
      if (stage.kind == Kind::attention) {
        stages_.push_back(static_cast<int>(pointers_.size()));
        pointers_.push_back(plan_.scratch.at(stage.step));
      }
      stages_.push_back(merged_);
      stages_.push_back(counter(merged_));
      if (stage.kind == Kind::merge) ++merged_;
    }
    if (const auto made = published(stage)) stages_.push_back(exchange_pointer(values[*made]));
    if (stage.kind == Kind::product || stage.kind == Kind::everywhere || stage.kind == Kind::spread)
      ask_for_small(stage.step);
    if (stage.kind != Kind::product) return;
    const StreamProduct& p = *plan_.products[stage.step];
    matrices_.push_back(pointer(values[static_cast<size_t>(p.matrix)], false));
    matrices_.push_back(shape_id({p.lines.size(), p.depth.size(), p.matrix_offset * 2}));
  }

  // What is known before the run and is no matrix is as good as never in the cache: all weights have come by since.
  void ask_for_small(size_t step) {
    const Kernel& k = plan_.kernels[step];
    for (size_t i = 0; i < k.args.size(); ++i) {
      const int32_t v = m_.steps[step].values[i];
      const int64_t bytes = bytes_of(v);
      if (m_.uses[static_cast<size_t>(v)] != ValueUse::known || bytes > most_small) continue;
      if (plan_.products[step] && static_cast<int>(i) == plan_.products[step]->matrix) continue;
      matrices_.push_back(pointer(v, false));
      matrices_.push_back(shape_id({0, bytes, 0}));
    }
  }
  int shape_id(const std::array<int64_t, 3>& shape) {
    return shapes_.try_emplace(shape, static_cast<int>(shapes_.size())).first->second;
  }

  void print(std::span<const StreamStage> chain, const std::vector<char>& meets, int id) {
    Lines c;
    c.indent = 3;
    c.open(fmt::format("case {}:", id));
    row_ = 1;
    std::string to_publish;  // behind the next meeting
    if (const auto run = first_products(chain, meets); !run.empty() && chain[0].kind == Kind::exchange) {
      c.add(fmt::format("{}_begin(ring, words);", products(run)));
      begun_ = true;
    }
    for (size_t n = 0, end = 0; n < chain.size(); n = end) {
      if (meets[n] || (!to_publish.empty() && chain[n].kind != Kind::product))
        c.add("meet_block();"), c.text += std::exchange(to_publish, "");
      end = n + 1;
      if (chain[n].kind == Kind::product) {
        const auto run = first_products(chain.subspan(n), std::span(meets).subspan(n));
        end = n + run.size();
        print_products(run, c, to_publish);
        continue;
      }
      int threads = threads_of(chain[n]);
      while (end < chain.size() && !meets[end] && threads + threads_of(chain[end]) <= stream_threads)
        threads += threads_of(chain[end++]);
      int first = 0;
      for (size_t i = n; i < end; ++i) {
        print(chain[i], c, end - n == 1 ? -1 : first);
        first += threads_of(chain[i]);
      }
      if (const auto made = published(chain[n])) publish(chain[n], *made, c, to_publish);
    }
    if (!to_publish.empty()) c.add("meet_block();"), c.text += to_publish;
    c.add(fmt::format("row += {};", row_));
    c.add("break;");
    c.close();
    cases_ += c.text;
  }

  // What a product or a merge made, which is where its stage says, and the place of its words.
  void publish(const StreamStage& stage, size_t made, Lines& c, std::string& to_publish) {
    const StreamExchange& e = plan_.exchanges.at(m_.steps[stage.step].values[made]);
    Lines p;
    p.indent = c.indent;
    const int words = row_ - 1;
    p.add(fmt::format("publish{}({}where[row[{}]], (char*)where[row[{}]], turn);", shape_of(e), pointer_type(e),
                      words - publish_back(stage) + static_cast<int>(made), words));
    to_publish += p.text;
  }
  // From the first argument of the stage to its words.
  int publish_back(const StreamStage& stage) const {
    return static_cast<int>(plan_.kernels[stage.step].args.size()) + (stage.kind == Kind::merge ? 3 : 0);
  }

  // Of the block, how many threads the stage needs, in whole warps, where others can have the rest at the same time:
  // rows that every block computes for itself, and that do not meet.
  int threads_of(const StreamStage& stage) const {
    if (stage.kind != Kind::everywhere) return stream_threads;
    const Schedule& schedule = plan_.schedules[stage.step];
    const Kernel& k = plan_.kernels[stage.step];
    const PrintPlan plan = plan_print(k, d_, schedule);
    if (schedule.row != RowLoop::none && schedule.row != RowLoop::thread) return stream_threads;
    if (launch_of(k, d_, schedule).blocks != 1) return stream_threads;
    return static_cast<int>((plan.points + 31) / 32 * 32);
  }

  void print_products(std::span<const StreamStage> run, Lines& c, std::string& to_publish) {
    const std::string name = products(run);
    if (!begun_) c.add(fmt::format("{}_begin(ring, words);", name));
    begun_ = false;
    c.open("");
    const bool traps = takes_trap(plan_.kernels[run[0].step]);  // then it is alone
    if (traps) c.add("int raised = 0;");
    const int first = row_;
    std::vector<std::string> given;
    for (const StreamStage& stage : run) {
      given.push_back(arguments(plan_.kernels[stage.step]));
      row_ += 1 + static_cast<int>(plan_.kernels[stage.step].args.size());
      if (const auto made = published(stage)) ++row_, publish(stage, *made, c, to_publish);
    }
    c.add(fmt::format("{}_stream(ring, words, own, (float*)scratch, half, {});", name, fmt::join(given, ", ")));
    if (traps) c.add(fmt::format("if (raised) *trap = row[{}] + raised;", first));
    c.close();
  }

  // `first`: the thread where a stage of a few threads begins; -1: it has the block.
  void print(const StreamStage& stage, Lines& c, int first) {
    const Kernel& k = plan_.kernels[stage.step];
    const bool moves = stage.kind == Kind::gather || stage.kind == Kind::exchange;
    const std::string name = moves ? "" : name_of(stage);
    int places = 1 + static_cast<int>(k.args.size());
    const bool traps = !moves && stage.kind != Kind::attention && stage.kind != Kind::ahead && takes_trap(k);
    c.open(first < 0 ? ""
                     : fmt::format("if (threadIdx.x >= {} && threadIdx.x < {})", first, first + threads_of(stage)));
    if (!moves && takes_trap(k)) c.add("int raised = 0;");
    switch (stage.kind) {
      case Kind::gather:
        places = 3;
        c.add(fmt::format("copy_words<{}>((uint4*){}, (const uint4*){});", bytes_of(stage.values[0]) / 16, row(2),
                          row(1)));
        break;
      case Kind::exchange:
        places = 1 + 2 * static_cast<int>(stage.values.size());
        exchange(stage, c);
        break;
      case Kind::ahead:
        attention(stage, name);
        c.add(fmt::format("{}_ahead({});", name, arguments(k)));
        break;
      case Kind::attention:
        attention(stage, name);
        c.add(fmt::format("{}_parts(turn.number * {} + row[{}], (char*){}, (char*){}, {});", name, attention_count(),
                          row_ + places + 2, row(places + 1), row(places), arguments(k)));
        c.add(fmt::format("if (threadIdx.x == 0) count_hint((unsigned long long*){});", row(places + 3)));
        places += 4;
        break;
      case Kind::merge:
        c.add(fmt::format("wait_for_most((const char*){}, turn);", row(places + 2)));
        c.add(fmt::format("{}_merge(turn.number * {} + row[{}], turn.reciprocal, (const char*){}, {});", name,
                          attention_count(), row_ + places + 1, row(places), arguments(k)));
        places += 3;
        break;
      case Kind::product:
        break;
      case Kind::everywhere:
      case Kind::spread:
        part(stage, name, first, c);
        break;
    }
    if (traps) c.add(fmt::format("if (raised) *trap = row[{}] + raised;", row_));
    c.close();
    row_ += places + (published(stage) ? 1 : 0);
  }

  std::string name_of(const StreamStage& stage) const {
    return kernel_name(plan_.kernels[stage.step]) + (are_apart(stage) ? "" : "_within");
  }
  // By which the words of different attentions differ that are in the same place.
  size_t attention_count() const {
    return static_cast<size_t>(
        std::count_if(plan_.attentions.begin(), plan_.attentions.end(), [](const auto& a) { return a.has_value(); }));
  }

  void exchange(const StreamStage& stage, Lines& c) {
    const auto memory = [&](size_t n) { return row(1 + 2 * static_cast<int>(n)); };
    for (size_t n = 0; n < stage.values.size(); ++n)
      c.add(fmt::format("Taken{} taken_{};", shape_of(plan_.exchanges.at(stage.values[n])), n));
    c.add(fmt::format("wait_for_most((const char*){}, turn);", memory(stage.values.size() - 1)));
    for (size_t n = 0; n < stage.values.size(); ++n)
      c.add(fmt::format("ask(taken_{}, (const char*){}, turn);", n, memory(n)));
    for (size_t n = 0; n < stage.values.size(); ++n)
      c.add(fmt::format("take(taken_{}, {}{}, (const char*){}, turn);", n,
                        pointer_type(plan_.exchanges.at(stage.values[n])), row(2 + 2 * static_cast<int>(n)),
                        memory(n)));
  }

  void attention(const StreamStage& stage, const std::string& name) {
    if (parts_.insert(name).second)
      functions_ += print_attention(plan_.kernels[stage.step], *plan_.attentions[stage.step], d_, name);
  }

  void part(const StreamStage& stage, const std::string& name, int first, Lines& c) {
    const Kernel& k = plan_.kernels[stage.step];
    const Schedule& schedule = plan_.schedules[stage.step];
    const PrintedPart part = print_part(k, d_, schedule, name + "_part",
                                        {std::vector<bool>(k.args.size(), false), 0, true, are_apart(stage)});
    if (parts_.insert(name).second) functions_ += part.function;
    std::string args = arguments(k);
    int64_t at = 0;
    for (const SharedArray& array : part.shared) {
      args += fmt::format(", ({}*)(scratch + {})", array.type, at);
      at += (array.elements * 8 + 15) / 16 * 16;
    }
    scratch_ = std::max(scratch_, at);
    const int64_t blocks = launch_of(k, d_, schedule).blocks;
    const bool everywhere = stage.kind == Kind::everywhere;
    if (everywhere && blocks == 1)
      return c.add(
          fmt::format("{}_part({}, 0, threadIdx.x{});", name, args, first > 0 ? fmt::format(" - {}", first) : ""));
    c.open(fmt::format("for (unsigned block = {}; block < {}; block += {})", everywhere ? "0" : "blockIdx.x", blocks,
                       everywhere ? "1" : "gridDim.x"));
    c.add(fmt::format("{}_part({}, block, threadIdx.x);", name, args));
    if (!part.shared.empty()) c.add("meet_block();");
    c.close();
  }

  // The first products of a chain that are multiplied together.
  std::span<const StreamStage> first_products(std::span<const StreamStage> chain, std::span<const char> meets) const {
    size_t n = 0;
    while (n < chain.size() && chain[n].kind != Kind::product) ++n;
    size_t end = std::min(n + 1, chain.size());
    while (end < chain.size() && !meets[end] && goes_with(chain.subspan(n, end - n), chain[end])) ++end;
    return chain.subspan(n, end - n);
  }

  // Whether a product can be multiplied with those before it, which multiply the same rows: none reads what another one
  // of them makes, which threads leave in no order.
  bool goes_with(std::span<const StreamStage> run, const StreamStage& next) const {
    if (next.kind != Kind::product || run.size() == 4) return false;
    const StreamProduct &one = *plan_.products[run[0].step], &other = *plan_.products[next.step];
    const std::vector<int32_t>& values = m_.steps[next.step].values;
    const auto x = [&](const StreamStage& of) {
      return m_.steps[of.step].values[static_cast<size_t>(plan_.products[of.step]->x)];
    };
    if (x(run[0]) != x(next) || one.x_offset != other.x_offset || one.rows.size() != other.rows.size() ||
        one.depth.size() != other.depth.size() || one.dtype != other.dtype || takes_trap(plan_.kernels[next.step]))
      return false;
    return std::none_of(run.begin(), run.end(), [&](const StreamStage& s) {
      const Kernel& k = plan_.kernels[s.step];
      const std::vector<int32_t>& made = m_.steps[s.step].values;
      for (size_t i = 0; i < made.size(); ++i)
        if (k.args[i].written && std::find(values.begin(), values.end(), made[i]) != values.end()) return true;
      return takes_trap(k);
    });
  }

  // The names of a kernel's arguments where there are several kernels.
  static std::vector<std::string> names_of(const Kernel& k, const std::string& suffix) {
    std::vector<std::string> names;
    int reads = 0, writes = 0;
    for (const KernelArg& arg : k.args)
      names.push_back(arg.written ? fmt::format("out{}{}", writes++, suffix) : fmt::format("in{}{}", reads++, suffix));
    if (takes_trap(k)) names.emplace_back("trap");
    return names;
  }

  // Products of the same rows, tile after tile; a block's lines of one begin with a tile of their own.
  std::string products(std::span<const StreamStage> run) {
    const StreamProduct& one = *plan_.products[run[0].step];
    const int64_t rows = one.rows.size(), depth = one.depth.size(), tiles = tiles_at_once(rows);
    const int64_t tile = stream_warps * rows * tile_lines;  // floats
    scratch_ = std::max(scratch_, 2 * tiles * tile * 4);
    std::vector<std::string> all, given;
    for (size_t n = 0; n < run.size(); ++n) {
      const Kernel& k = plan_.kernels[run[n].step];
      const StreamProduct& p = *plan_.products[run[n].step];
      all.push_back(name_of(run[n]));
      given.push_back(parameters(k, d_, fmt::format("_{}", n)));
      if (!parts_.insert(all.back()).second) continue;
      PointFunction point;
      point.name = all.back() + "_at";
      point.positions = {{"row", p.rows.dims}, {"line", p.lines.dims}};
      functions_ += print_point(k, d_, point);
    }
    const std::string joined = fmt::format("{}", fmt::join(all, " "));
    const std::string name = run.size() == 1 ? all[0] : all[0] + "_" + hash_hex(joined);
    if (!parts_.insert(name + "_stream").second) return name;
    const std::string x = names_of(plan_.kernels[run[0].step], "_0")[static_cast<size_t>(one.x)];
    Lines t;
    t.indent = 0;
    t.text = "\n// Lines of " + std::to_string(depth) + " times " + std::to_string(rows) + " rows: " + joined + "\n";
    t.open(fmt::format("{} void {}_begin(Ring& ring, Words& words)", d_.function, name));
    t.add(fmt::format("int lines = 0;"));
    for (const StreamStage& stage : run)
      t.add(
          fmt::format("lines += first_line({0}, blockIdx.x + 1, ring.reciprocal) - first_line({0}, blockIdx.x, "
                      "ring.reciprocal);",
                      plan_.products[stage.step]->lines.size()));
    t.add(fmt::format("if (lines > 0) take_piece(ring, words, {});", std::min(depth, slot_depth)));
    t.close();
    t.open(
        fmt::format("{} void {}_stream(\n    Ring& ring, Words& words, char* own, float* scratch, int& half,\n    {})",
                    d_.function, name, fmt::join(given, ",\n    ")));
    for (size_t n = 0; n < run.size(); ++n) {
      const int64_t lines = plan_.products[run[n].step]->lines.size();
      for (const auto& [which, block] : {std::pair{"first", "blockIdx.x"}, {"end", "blockIdx.x + 1"}})
        t.add(fmt::format("const int {}_{} = first_line({}, {}, ring.reciprocal);", which, n, lines, block));
      t.add(fmt::format("const int tiles_{0} = {1}(end_{0} - first_{0} + {2}) / {3};", n,
                        n == 0 ? "" : fmt::format("tiles_{} + ", n - 1), tile_lines - 1, tile_lines));
    }
    const std::string count = fmt::format("tiles_{}", run.size() - 1);
    t.add("// In the block's memory, as the compiler would not know.");
    t.add(fmt::format("const char* const x = own + ((const char*)({} + {}) - own);", x, one.x_offset));
    if (depth <= slot_depth) {
      t.add(fmt::format("Rows<{}> b;", rows));
      t.add(fmt::format("take_rows<{}, {}>(b, x, {});", rows, depth, depth));
    }
    t.open(fmt::format("for (int from = 0; from < {}; from += {})", count, tiles));
    t.add(fmt::format("float* const parts = scratch + half * {};", tiles * tile));
    t.open(fmt::format("for (int tile = 0; tile < min({}, {} - from); ++tile)", tiles, count));
    t.add(fmt::format("float sums[{}][2][4] = {{}};", (rows + 1) / 2));
    const std::string multiply = fmt::format("multiply_piece<{}, {}>(words, b, sums);", rows, one.dtype == DType::f16);
    const std::string next =
        fmt::format("if (from + tile + 1 < {}) take_piece(ring, words, {});", count, std::min(depth, slot_depth));
    if (depth <= slot_depth) {
      t.add(multiply);
      t.add(next);
    } else {
      t.add("#pragma unroll 1");
      t.open(fmt::format("for (int k = 0; k < {}; k += {})", depth, slot_depth));
      t.add(fmt::format("Rows<{}> b;", rows));
      t.add(fmt::format("take_rows<{}, {}>(b, x + k * 2, min({}, {} - k));", rows, depth, slot_depth, depth));
      t.add(multiply);
      t.add(fmt::format("if (k + {0} < {1}) take_piece(ring, words, min({0}, {1} - {0} - k));", slot_depth, depth));
      t.add("else " + next);
      t.close();
    }
    t.add(fmt::format("leave_sums<{}>(parts + tile * {}, sums);", rows, tile));
    t.close();
    t.add("meet_block();");
    t.add(fmt::format("const int tile = threadIdx.x / {0}, at = threadIdx.x % {0};", rows * tile_lines));
    t.open(fmt::format("if (tile < min({}, {} - from))", tiles, count));
    t.add(fmt::format("const float sum = take_sums<{}>(parts + tile * {}, at);", rows, tile));
    for (size_t n = 0; n < run.size(); ++n) {
      t.open(n + 1 == run.size() ? std::string(n > 0 ? "else" : "")
                                 : fmt::format("{}if (from + tile < tiles_{})", n > 0 ? "else " : "", n));
      t.add(fmt::format("const int line = first_{} + (from + tile{}) * {} + at % {};", n,
                        n == 0 ? "" : fmt::format(" - tiles_{}", n - 1), tile_lines, tile_lines));
      t.add(fmt::format("if (line < end_{}) {}_at({}, at / {}, line, &sum);", n, all[n],
                        fmt::join(names_of(plan_.kernels[run[n].step], fmt::format("_{}", n)), ", "), tile_lines));
      t.close();
    }
    t.close();
    t.add("half ^= 1;");
    t.close();
    t.close();
    functions_ += t.text;
    return name;
  }

  std::string constants() const {
    return fmt::format("\nenum {{ slot_depth = {}, slot_bytes = {}, slots_asked_for = {}, most_blocks = {} }};\n",
                       slot_depth, slot_bytes, slots_asked_for, stream_grid);
  }

  size_t parameter_count() const { return out_.values.size() + out_.traps + 1; }
  std::string parameter() const { return "const __grid_constant__ Given given"; }

  std::string entry() {
    std::vector<std::string> kept;
    for (int64_t p : pointers_) kept.push_back(fmt::format("{}", p));
    tables_ = fmt::format("\nstruct Given {{\n  void* at[{}];\n}};\n", parameter_count());
    tables_ += fmt::format(
        "// Positions among what is given, as -1 - position, or in the block's memory.\n"
        "static __device__ const int pointers[{}] = {{{}}};\n",
        pointers_.size(), fmt::join(kept, ", "));
    tables_ += fmt::format("static __device__ const unsigned short tables[{}] = {{{}{}{}}};\n",
                           stages_.size() + matrices_.size(), fmt::join(stages_, ", "), matrices_.empty() ? "" : ", ",
                           fmt::join(matrices_, ", "));
    Lines t;
    t.add("extern __shared__ uint4 memory[];");
    t.add("char* const own = (char*)memory;");
    t.add(fmt::format("char* const shared = (char*)given.at[{}];", parameter_count() - 1));
    t.add(fmt::format("void** const where = (void**)(own + {});", at_pointers_));
    t.add(fmt::format("unsigned short* const table = (unsigned short*)(own + {});", at_tables_));
    t.add(fmt::format("unsigned long long* const full = (unsigned long long*)(own + {});", at_barriers_));
    t.add("const unsigned reciprocal = gridDim.x == 1 ? 0 : 0xffffffff / gridDim.x + 1;");
    t.add(fmt::format("Ring ring = {{own, full, full + {0}, {0}, 0, 0, reciprocal}};", slots_));
    t.open(fmt::format("for (int i = threadIdx.x; i < {}; i += {})", pointers_.size(), stream_block));
    t.add("const int at = pointers[i];");
    t.add(
        fmt::format("where[i] = at < 0 ? given.at[-1 - at] : (void*)(at < {0} ? own + {1} + at : shared + (at - {0}));",
                    own_from, kept_));
    t.close();
    t.add(fmt::format("for (int i = threadIdx.x; i < {}; i += {}) table[i] = tables[i];",
                      stages_.size() + matrices_.size(), stream_block));
    t.add(fmt::format("if (threadIdx.x < {}) mbarrier_start(&full[threadIdx.x], threadIdx.x < {} ? 1 : {});",
                      2 * slots_, slots_, stream_warps));
    t.add(fmt::format("unsigned long long* const number = (unsigned long long*)(own + {});", at_barriers_ + 128));
    t.add("if (threadIdx.x == 0) *number = count_seen((unsigned long long*)shared + 16) / gridDim.x + 1;");
    t.add("__syncthreads();");
    t.open(fmt::format("if (threadIdx.x >= {})", stream_threads));
    t.add("take_registers<40>();");
    t.add(fmt::format("if (threadIdx.x >= {}) return;", stream_threads + 32));
    t.add("Feeder feeder = {ring, 0, 0, 0};");
    t.add("#pragma unroll 1");
    t.open(fmt::format("for (int i = {}; i < {}; i += 2)", stages_.size(), stages_.size() + matrices_.size()));
    t.add("const char* matrix = (const char*)where[table[i]];");
    t.add("int lines = 0, depth = 0;");
    t.open("switch (table[i + 1])");
    for (const auto& [shape, id] : shapes_)
      t.add(fmt::format("case {}: lines = {}, depth = {}, matrix += {}; break;", id, shape[0], shape[1], shape[2]));
    t.close();
    t.open("if (lines == 0)");
    t.add("for (int i = threadIdx.x % 32 * 128; i < depth; i += 32 * 128) bring_nearer(matrix + i);");
    t.add("continue;");
    t.close();
    t.add("feed(feeder, matrix, lines, depth);");
    t.close();
    t.add("return;");
    t.close();
    t.add("give_registers<232>();");
    if (out_.traps) t.add(fmt::format("int* const trap = (int*)given.at[{}];", out_.values.size()));
    t.add("Meeting meeting = {(unsigned long long*)shared, 0};");
    t.add(fmt::format("char* const scratch = own + {};", at_scratch_));
    t.add("Turn turn = {*number, reciprocal};");
    t.add("int half = 0;");
    t.add("Words words = {};");
    t.add("#pragma unroll 1");
    t.open(fmt::format("for (const unsigned short* row = table; row < table + {};)", stages_.size()));
    t.add("turn.reciprocal = ring.reciprocal = renewed(reciprocal);");
    t.add(fmt::format("if (row[0] & {}) meet_all(meeting);", waits));
    t.open(fmt::format("switch (row[0] & {})", waits - 1));
    t.text += cases_;
    t.close();
    t.close();
    t.add("if (threadIdx.x == 0) count_in((unsigned long long*)shared + 16);");
    t.close();
    return t.text;
  }

  const WholeMethod& m_;
  const StreamPlan& plan_;
  const Dialect& d_ = stream_dialect();
  StreamText out_;
  int trap_count_ = 0;
  int row_ = 0;  // where the stage that is printed begins in the row of its chain
  std::map<std::string, int> kinds_;
  std::map<std::array<int64_t, 3>, int> shapes_;  // lines of so many elements from a byte on; no lines: so many bytes
  std::map<std::pair<int32_t, bool>, int> pointer_of_;
  std::map<int32_t, int> exchange_of_;
  std::map<int, int> counters_;
  int partial_pointers_[2] = {};  // attentions take turns
  int merged_ = 0;
  bool begun_ = false;  // the first piece of the next products is taken
  std::vector<int64_t> pointers_;
  std::vector<int> stages_, matrices_;
  std::set<std::string> parts_;
  std::string functions_, cases_, tables_;
  int64_t own_ = alignment;  // of the launch's memory, behind the counter of meetings
  int64_t scratch_ = 0, slots_ = 0, kept_ = 0, at_scratch_ = 0, at_pointers_ = 0, at_tables_ = 0, at_barriers_ = 0;
};

}  // namespace

std::optional<StreamText> print_stream(const WholeMethod& method, const StreamPlan& plan, std::string& why) {
  return Printer(method, plan).run(why);
}

}  // namespace npusim::cuda
