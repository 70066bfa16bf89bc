// Stages of equal content are one function; what differs between them is a row of the table.
#include "backends/cuda/target/stream/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "backends/cuda/target/stream/entry.h"
#include "backends/cuda/target/stream/machine.h"
#include "backends/cuda/target/stream/meetings.h"
#include "backends/cuda/target/stream/product_text.h"
#include "backends/cuda/target/text.h"
#include "base/hash.h"
#include "print/part.h"
#include "print/plan.h"
#include "print/point.h"
#include "print/print.h"

namespace npusim::cuda {
namespace {

using Kind = StreamStage::Kind;

constexpr int64_t word_payload = 12;  // bytes of a value in a word that is exchanged
constexpr int published_places = 3;   // of a row: the memory of the words, the block's elements, its words

class Printer {
 public:
  Printer(const WholeMethod& method, const StreamPlan& plan, const StreamWay& way)
      : m_(method), plan_(plan), way_(way), rows_(method, plan) {}

  std::optional<StreamText> run(std::string& why) {
    for (size_t i = 0, end = 0; i < plan_.stages.size(); i = end) {
      for (end = i + 1; end < plan_.stages.size() && !begins(plan_.stages[end]);) ++end;
      add({plan_.stages.begin() + static_cast<ptrdiff_t>(i), plan_.stages.begin() + static_cast<ptrdiff_t>(end)});
    }
    if (kinds_.size() >= stage_waits || table_.trap_count >= 1 << 16) {
      why = "a table of too many entries";
      return std::nullopt;
    }
    if (own_from + table_.own_bytes > share_from) {
      why = fmt::format("{} bytes of the launch's own", table_.own_bytes);
      return std::nullopt;
    }
    if (table_.values.size() + 2 > static_cast<size_t>(cuda_dialect.max_args)) {
      why = fmt::format("{} values, {} take part in a launch", table_.values.size(), cuda_dialect.max_args);
      return std::nullopt;
    }
    const StreamLayout layout = lay_out(table_, plan_.kept_bytes, scratch_);
    if (layout.slots == 0) {
      why = fmt::format("{} bytes of a block's memory beside the ring", layout.others);
      return std::nullopt;
    }
    StreamText out;
    const StreamEntry entry = print_entry(table_, layout, way_, cases_);
    out.symbol = "stream_" + hash_hex(constants() + functions_ + entry.tables + entry.body);
    out.functions = std::string(constants()) + std::string(stream_machine()) + functions_ + entry.tables +
                    fmt::format(fmt::runtime(cuda_dialect.kernel), out.symbol, entry.parameter,
                                fmt::format("{}, 1", stream_block)) +
                    entry.body;
    out.values = table_.values, out.first_trap = table_.first_trap;
    out.traps = table_.trap_count > 0;
    out.shared_bytes = layout.bytes, out.own_bytes = table_.own_bytes;
    const auto count = [&](Kind kind) {
      return std::count_if(plan_.stages.begin(), plan_.stages.end(),
                           [&](const StreamStage& s) { return s.kind == kind; });
    };
    const auto meetings = std::count_if(plan_.stages.begin(), plan_.stages.end(), [](auto& s) { return s.after_all; });
    out.how = fmt::format(
        "one stream: {} stages of {} kinds, {} products, {} attentions, {} exchanges, {} gathers, {} everywhere, {} "
        "spread; {} "
        "meetings, {} slots of {} bytes; {}",
        plan_.stages.size(), kinds_.size(), count(Kind::product), count(Kind::attention), count(Kind::exchange),
        count(Kind::gather), count(Kind::everywhere), count(Kind::spread), meetings, layout.slots, slot_bytes,
        to_string(way_));
    return out;
  }

 private:
  std::string_view type(DType dtype) const { return d_.elements[static_cast<size_t>(dtype)].type; }
  int64_t bytes_of(int32_t value) const { return plan_.bytes[static_cast<size_t>(value)]; }

  // How many words a thread takes at most, however many blocks there are.
  static int64_t turns_of(const StreamExchange& e) {
    int64_t most = 0;
    for (int64_t blocks = 1; blocks <= stream_grid; ++blocks) {
      const int64_t units = (e.units + blocks - 1) / blocks;
      most = std::max(most, blocks * ((units * unit_bytes(e) + word_payload - 1) / word_payload));
    }
    return (most + stream_threads - 1) / stream_threads;
  }
  static std::string pointer_type(const StreamExchange& e) {
    return part_bytes(e) == 4 ? "(unsigned*)" : "(unsigned short*)";
  }
  std::optional<size_t> published(const StreamStage& stage) const { return cuda::published(m_, plan_, stage); }

  std::string row(int at) const { return fmt::format("row[{}]", row_ + at); }

  // A pointer into the block's memory, as the compiler would not know.
  static std::string in_block(const std::string& pointer) {
    return fmt::format("(own + (int)((char*){} - own))", pointer);
  }

  // The arguments of a stage from the table, from its place 1 on.
  std::string arguments(const StreamStage& stage) const {
    const Kernel& k = plan_.kernels[stage.step];
    std::vector<std::string> names;
    int place = 1;
    for (size_t i = 0; i < k.args.size(); ++i) {
      const std::string at = row(place++);
      names.push_back(fmt::format("({}{}*){}", k.args[i].written ? "" : "const ", type(k.args[i].dtype),
                                  plan_.homes.contains(m_.steps[stage.step].values[i]) ? in_block(at) : at));
    }
    if (takes_trap(k)) names.emplace_back("&raised");
    return fmt::format("{}", fmt::join(names, ", "));
  }

  // Stages up to the next one that waits for other blocks are one piece of text, which is the same for equal ones.
  static bool begins(const StreamStage& stage) { return stage.after_all || stage.kind == Kind::exchange; }

  std::string key_of(const StreamStage& stage) const {
    const Kernel& k = plan_.kernels[stage.step];
    std::string key = fmt::format("{} {} ", static_cast<int>(stage.kind), stage.looked);
    if (stage.kind == Kind::exchange) {
      for (int32_t v : stage.values)
        key += fmt::format("{} {} ", turns_of(plan_.exchanges.at(v)), part_bytes(plan_.exchanges.at(v)));
    } else if (stage.kind == Kind::gather) {
      key += fmt::format("{}", bytes_of(stage.values[0]));
    } else {
      const auto made = published(stage);
      key += fmt::format("{} {} ", made ? static_cast<int>(*made) : -1, are_apart(stage)) + to_text(k);
      for (int32_t v : m_.steps[stage.step].values) key += plan_.homes.contains(v) ? 'b' : '-';
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
    std::map<int32_t, size_t> named;  // values, in the order in which the chain names them
    for (const StreamStage& stage : chain) {
      key += key_of(stage);
      for (int32_t v : m_.steps[stage.step].values)
        key += fmt::format("{} ", named.try_emplace(v, named.size()).first->second);
    }
    const std::vector<char> meets = stream_meetings(m_, plan_, chain);
    for (char meet : meets) key += meet ? '|' : '-';
    const auto [known, fresh] = kinds_.try_emplace(std::move(key), static_cast<int>(kinds_.size()));
    if (fresh) print(chain, meets, known->second);
    rows_.add(known->second, chain);
  }

  void print(std::span<const StreamStage> chain, const std::vector<char>& meets, int id) {
    Lines c;
    c.indent = 3;
    c.open(fmt::format("case {}:", id));
    const size_t begin = c.text.size();
    numbers_.clear();
    row_ = 1;
    std::string to_publish;  // behind the next meeting
    if (const auto run = first_products(chain, meets); !run.empty() && chain[0].kind == Kind::exchange) {
      c.add(fmt::format("{}_begin(ring, words, {});", products(run), lines_of(chain, run)));
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
    c.add("break;");
    c.close();
    std::string declared;
    for (int at : numbers_)
      declared += fmt::format("        const uint2 numbers_{0} = ((const uint2*)row)[{0}];\n", at);
    cases_ += c.text.insert(begin, declared);
  }

  // Two numbers of the block's own in the row: they are read before the first stage, which waits.
  std::string numbers(int at) {
    numbers_.insert(at);
    return fmt::format("numbers_{}", at);
  }

  // Of the row.
  int places_of(const StreamStage& stage) const {
    const int args = static_cast<int>(plan_.kernels[stage.step].args.size());
    const int made = published(stage) ? published_places : 0;
    const int looks = plan_.attentions[stage.step] && plan_.attentions[stage.step]->looks > 0;
    switch (stage.kind) {
      case Kind::exchange:
        return 1 + 3 * static_cast<int>(stage.values.size());
      case Kind::gather:
        return 3;
      case Kind::product:
        return 2 + args + made;
      case Kind::attention:
        return 5 + args + looks;
      case Kind::merge:
        return 5 + args + made;
      case Kind::look:
        return 2 + args;
      case Kind::ahead:
        return 1 + args + stage.looked;
      case Kind::everywhere:
      case Kind::spread:
        return 1 + args;
    }
    return 0;
  }

  // How many lines of products the block has, of some of the stages that are printed next.
  std::string lines_of(std::span<const StreamStage> chain, std::span<const StreamStage> run) {
    int at = row_;
    std::vector<std::string> all;
    for (const StreamStage& stage : chain) {
      if (&stage >= run.data() && &stage < run.data() + run.size()) {
        const int args = static_cast<int>(plan_.kernels[stage.step].args.size());
        all.push_back(fmt::format("{0}.y - {0}.x", numbers(at + args + 1)));
      }
      at += places_of(stage);
    }
    return fmt::format("{}", fmt::join(all, " + "));
  }

  // What a product or a merge made, which is where its stage says, and the place of its words.
  void publish(const StreamStage& stage, size_t made, Lines& c, std::string& to_publish) {
    const StreamExchange& e = plan_.exchanges.at(m_.steps[stage.step].values[made]);
    Lines p;
    p.indent = c.indent;
    const int words = row_ - published_places;
    const auto before = std::count(to_publish.begin(), to_publish.end(), ';');
    p.add(fmt::format("publish({}, {}{}, (char*)row[{}], turn, {}, {}.x);", before * 32 % stream_threads,
                      pointer_type(e),
                      in_block(fmt::format("row[{}]", words - publish_back(stage) + static_cast<int>(made))), words,
                      numbers(words + 1), numbers(words + 2)));
    to_publish += p.text;
  }
  // From the first argument of the stage to its words.
  int publish_back(const StreamStage& stage) const {
    return static_cast<int>(plan_.kernels[stage.step].args.size()) + (stage.kind == Kind::merge ? 4 : 1);
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
    if (!begun_) c.add(fmt::format("{}_begin(ring, words, {});", name, lines_of(run, run)));
    begun_ = false;
    c.open("");
    const bool traps = takes_trap(plan_.kernels[run[0].step]);  // then it is alone
    if (traps) c.add("int raised = 0;");
    const int first = row_;
    std::vector<std::string> given;
    for (const StreamStage& stage : run) {
      given.push_back(arguments(stage));
      row_ += 2 + static_cast<int>(plan_.kernels[stage.step].args.size());
      given.back() += ", " + numbers(row_ - 1);
      if (const auto made = published(stage)) row_ += published_places, publish(stage, *made, c, to_publish);
    }
    c.add(fmt::format("{}_stream(ring, words, own, (float*)scratch, half, {});", name, fmt::join(given, ", ")));
    if (traps) c.add(fmt::format("if (raised) *trap = (int)(long long)row[{}] + raised;", first));
    c.close();
  }

  // `first`: the thread where a stage of a few threads begins; -1: it has the block.
  void print(const StreamStage& stage, Lines& c, int first) {
    const Kernel& k = plan_.kernels[stage.step];
    const bool moves = stage.kind == Kind::gather || stage.kind == Kind::exchange;
    const std::string name = moves ? "" : name_of(stage);
    int places = 1 + static_cast<int>(k.args.size());
    const bool traps = !moves && stage.kind != Kind::attention && stage.kind != Kind::ahead &&
                       stage.kind != Kind::look && takes_trap(k);
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
        places = 1 + 3 * static_cast<int>(stage.values.size());
        exchange(stage, c);
        break;
      case Kind::ahead:
        attention(stage, name);
        if (plan_.attentions[stage.step]->looks == 0)
          c.add(fmt::format("{}_ahead({});", name, arguments(stage)));
        else
          c.add(fmt::format("{}_ahead({}, {});", name, stage.looked ? in_block(row(places)) : "nullptr",
                            arguments(stage)));
        break;
      case Kind::look:
        attention(stage, name);
        c.add(fmt::format("{}_look({}, {});", name, in_block(row(places++)), arguments(stage)));
        break;
      case Kind::attention: {
        const bool looks = plan_.attentions[stage.step]->looks > 0;
        attention(stage, name);
        c.add(fmt::format("{}_parts(turn.number * {} + (int)(long long)row[{}], {}, (char*){}, {}{});", name,
                          attention_count(), row_ + places + 2, in_block(row(places + 1)), row(places),
                          looks ? in_block(row(places + 4)) + ", " : "", arguments(stage)));
        c.add(fmt::format("if (threadIdx.x == 0) count_hint((unsigned long long*){});", row(places + 3)));
        places += looks ? 5 : 4;
        break;
      }
      case Kind::merge:
        // For all: where most have no keys, the others would look for the few all the time.
        c.add(fmt::format("wait_for_most((const char*){}, turn, 0);", row(places + 2)));
        c.add(fmt::format("{}_merge(turn.number * {} + (int)(long long)row[{}], {}, (const char*){}, {});", name,
                          attention_count(), row_ + places + 1, numbers(row_ + places + 3), row(places),
                          arguments(stage)));
        places += 4;
        break;
      case Kind::product:
        break;
      case Kind::everywhere:
      case Kind::spread:
        part(stage, name, first, c);
        break;
    }
    if (traps) c.add(fmt::format("if (raised) *trap = (int)(long long)row[{}] + raised;", row_));
    c.close();
    row_ += places_of(stage);
  }

  std::string name_of(const StreamStage& stage) const {
    return kernel_name(plan_.kernels[stage.step]) + (are_apart(stage) ? "" : "_within");
  }
  // By which the words of different attentions differ that are in the same place.
  size_t attention_count() const {
    return static_cast<size_t>(
        std::count_if(plan_.attentions.begin(), plan_.attentions.end(), [](const auto& a) { return a.has_value(); }));
  }

  // Either way the block meets before its memory changes. With a word for each thread all may look at once; with more
  // they would delay what they wait for.
  void exchange(const StreamStage& stage, Lines& c) {
    const auto place = [&](size_t n) { return 1 + 3 * static_cast<int>(n); };
    const auto memory = [&](size_t n) { return row(place(n)); };
    const auto all = [&](size_t n) { return numbers(row_ + place(n) + 2) + ".y"; };
    for (size_t n = 0; n < stage.values.size(); ++n)
      c.add(fmt::format("Taken<{}> taken_{};", turns_of(plan_.exchanges.at(stage.values[n])), n));
    int64_t bytes = 0;
    for (int32_t v : stage.values) bytes += bytes_of(v);
    const bool few = bytes <= word_payload * stream_threads;
    if (!few)
      c.add(fmt::format("wait_for_most((const char*){}, turn, {});", memory(stage.values.size() - 1),
                        way_.late == 0 ? "0" : fmt::format("gridDim.x / {}", way_.late)));
    for (size_t n = 0; n < stage.values.size(); ++n)
      c.add(fmt::format("ask(taken_{}, (const char*){}, {});", n, memory(n), all(n)));
    if (few) c.add("meet_block();");
    for (size_t n = 0; n < stage.values.size(); ++n)
      c.add(fmt::format("take(taken_{}, {}{}, (const char*){}, turn, {});", n,
                        pointer_type(plan_.exchanges.at(stage.values[n])), in_block(row(place(n) + 1)), memory(n),
                        all(n)));
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
    std::string args = arguments(stage);
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

  // Products of the same rows.
  std::string products(std::span<const StreamStage> run) {
    std::vector<NamedProduct> all;
    std::string joined;
    for (const StreamStage& stage : run) {
      const Kernel& k = plan_.kernels[stage.step];
      const StreamProduct& p = *plan_.products[stage.step];
      all.push_back({&k, &p, name_of(stage)});
      joined += (joined.empty() ? "" : " ") + all.back().name;
      if (!parts_.insert(all.back().name).second) continue;
      PointFunction point;
      point.name = all.back().name + "_at";
      point.positions = {{"row", p.rows.dims}, {"line", p.lines.dims}};
      functions_ += print_point(k, d_, point);
    }
    scratch_ = std::max(scratch_, product_scratch());
    const std::string name = run.size() == 1 ? all[0].name : all[0].name + "_" + hash_hex(joined);
    if (parts_.insert(name + "_stream").second) functions_ += cuda::print_products(all, name);
    return name;
  }

  std::string constants() const {
    return fmt::format(
        "\nenum {{ slot_depth = {}, slot_bytes = {}, bytes_asked_for = {}, most_blocks = {}, weights_read_once = {:d} "
        "}};\n",
        slot_depth, slot_bytes, way_.under_way, stream_grid, way_.once);
  }

  const WholeMethod& m_;
  const StreamPlan& plan_;
  const StreamWay& way_;
  const Dialect& d_ = stream_dialect();
  TableWriter rows_;
  const StreamTable& table_ = rows_.table;
  std::map<std::string, int> kinds_;
  int row_ = 0;            // where the stage that is printed begins in the row of its chain
  bool begun_ = false;     // the first piece of the next products is taken
  std::set<int> numbers_;  // places of two numbers in the row that is printed
  std::set<std::string> parts_;
  std::string functions_, cases_;
  int64_t scratch_ = 0;
};

}  // namespace

std::optional<StreamText> print_stream(const WholeMethod& method, const StreamPlan& plan, const StreamWay& way,
                                       std::string& why) {
  return Printer(method, plan, way).run(why);
}

}  // namespace npusim::cuda
