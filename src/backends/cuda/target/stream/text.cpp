// Stages of equal content are one function; what differs between them is a row of the table.
#include "backends/cuda/target/stream/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "backends/cuda/target/stream/machine.h"
#include "backends/cuda/target/text.h"
#include "base/hash.h"
#include "print/part.h"
#include "print/point.h"
#include "print/print.h"

namespace npusim::cuda {
namespace {

using Kind = StreamStage::Kind;

constexpr int64_t most_shared = 227 << 10;  // bytes of a block
constexpr int64_t fewest_slots = 3;
constexpr int64_t alignment = 256;  // of a value: no two share a line of a cache

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
    for (const StreamStage& stage : plan_.stages) add(stage);
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
  // The same for each step that names it.
  int64_t bytes_of(int32_t value) const {
    for (size_t s = 0; s < m_.steps.size(); ++s)
      for (size_t i = 0; i < plan_.kernels[s].args.size(); ++i)
        if (m_.steps[s].values[i] == value)
          return plan_.kernels[s].args[i].elements * static_cast<int64_t>(dtype_size(plan_.kernels[s].args[i].dtype));
    return 0;
  }

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
  std::string shape_of(const StreamExchange& e) const {
    return fmt::format("<{}, {}, {}>", type(e.dtype), e.units, e.width);
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

  static std::string row(int at) { return fmt::format("where[row[{}]]", at); }

  // The arguments of a stage from the table, from place 2 on.
  std::string arguments(const Kernel& k) const {
    std::vector<std::string> names;
    int place = 2;
    for (const KernelArg& arg : k.args)
      names.push_back(fmt::format("({}{}*){}", arg.written ? "" : "const ", type(arg.dtype), row(place++)));
    if (takes_trap(k)) names.emplace_back("&raised");
    return fmt::format("{}", fmt::join(names, ", "));
  }

  void add(const StreamStage& stage) {
    const Kernel& k = plan_.kernels[stage.step];
    const std::vector<int32_t>& values = m_.steps[stage.step].values;
    const int64_t gathered = stage.kind == Kind::gather ? bytes_of(stage.values[0]) : 0;
    std::string key = fmt::format("{} {} ", static_cast<int>(stage.kind), gathered);
    const auto made = published(stage);
    if (stage.kind == Kind::exchange) {
      for (int32_t v : stage.values) key += shape_of(plan_.exchanges.at(v));
    } else if (stage.kind != Kind::gather) {
      key += fmt::format("{} ", made ? static_cast<int>(*made) : -1) + to_text(k);
    }
    const auto [known, fresh] = kinds_.try_emplace(std::move(key), static_cast<int>(kinds_.size()));
    if (fresh) print(stage, known->second);
    stages_.push_back(static_cast<int>(known->second) | (stage.after_all ? waits : 0));
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
      stages_.push_back(partial_pointers_[turn_]);
      if (stage.kind == Kind::merge) turn_ ^= 1;
    }
    if (stage.kind == Kind::attention) {
      stages_.push_back(static_cast<int>(pointers_.size()));
      pointers_.push_back(plan_.scratch.at(stage.step));
    }
    if (made) stages_.push_back(exchange_pointer(values[*made]));
    if (stage.kind != Kind::product) return;
    const StreamProduct& p = *plan_.products[stage.step];
    const std::string shape = fmt::format("{}, {}, {}", p.lines.size(), p.depth.size(), p.matrix_offset);
    const auto shape_id = shapes_.try_emplace(shape, static_cast<int>(shapes_.size())).first->second;
    matrices_.push_back(pointer(values[static_cast<size_t>(p.matrix)], false));
    matrices_.push_back(shape_id);
  }

  void print(const StreamStage& stage, int id) {
    const Kernel& k = plan_.kernels[stage.step];
    const bool moves = stage.kind == Kind::gather || stage.kind == Kind::exchange;
    const std::string name = moves ? "" : kernel_name(k);
    Lines c;
    c.indent = 3;
    c.open(fmt::format("case {}:", id));
    int places = 2 + static_cast<int>(k.args.size());
    const bool traps = !moves && stage.kind != Kind::attention && stage.kind != Kind::ahead && takes_trap(k);
    if (traps) c.add("int raised = 0;");
    switch (stage.kind) {
      case Kind::gather:
        places = 4;
        c.add(fmt::format("copy_words<{}>((uint4*){}, (const uint4*){});", bytes_of(stage.values[0]) / 16, row(3),
                          row(2)));
        break;
      case Kind::exchange:
        places = 2 + 2 * static_cast<int>(stage.values.size());
        exchange(stage, c);
        break;
      case Kind::product:
        product(stage, name);
        c.add(fmt::format("{}_stream(ring, (float*)scratch, {});", name, arguments(k)));
        break;
      case Kind::ahead:
        attention(stage, name);
        if (takes_trap(k)) c.add("int raised = 0;");
        c.add(fmt::format("{}_ahead({});", name, arguments(k)));
        break;
      case Kind::attention:
        attention(stage, name);
        if (takes_trap(k)) c.add("int raised = 0;");
        c.add(fmt::format("{}_parts((char*){}, (float*){}, {});", name, row(places + 1), row(places), arguments(k)));
        places += 2;
        break;
      case Kind::merge:
        c.add(fmt::format("{}_merge((const float*){}, {});", name, row(places), arguments(k)));
        ++places;
        break;
      case Kind::everywhere:
      case Kind::spread:
        part(stage, name, c);
        break;
    }
    if (traps) c.add("if (raised) *trap = row[1] + raised;");
    if (const auto made = published(stage)) {
      const int32_t value = m_.steps[stage.step].values[*made];
      c.add("meet_block();");
      const StreamExchange& e = plan_.exchanges.at(value);
      c.add(fmt::format("publish{}(({}*){}, (char*){}, launch);", shape_of(e), type(e.dtype),
                        row(2 + static_cast<int>(*made)), row(places)));
      ++places;
    }
    c.add(fmt::format("row += {};", places));
    c.add("break;");
    c.close();
    cases_ += c.text;
  }

  void exchange(const StreamStage& stage, Lines& c) {
    const auto memory = [](size_t n) { return row(2 + 2 * static_cast<int>(n)); };
    for (size_t n = 0; n < stage.values.size(); ++n)
      c.add(fmt::format("Taken{} taken_{};", shape_of(plan_.exchanges.at(stage.values[n])), n));
    c.add(fmt::format("wait_for_most((const char*){}, launch);", memory(stage.values.size() - 1)));
    for (size_t n = 0; n < stage.values.size(); ++n)
      c.add(fmt::format("ask(taken_{}, (const char*){});", n, memory(n)));
    for (size_t n = 0; n < stage.values.size(); ++n)
      c.add(fmt::format("take(taken_{}, ({}*){}, (const char*){}, launch);", n,
                        type(plan_.exchanges.at(stage.values[n]).dtype), row(3 + 2 * static_cast<int>(n)), memory(n)));
  }

  void attention(const StreamStage& stage, const std::string& name) {
    if (parts_.insert(name).second)
      functions_ += print_attention(plan_.kernels[stage.step], *plan_.attentions[stage.step], d_, name);
  }

  void part(const StreamStage& stage, const std::string& name, Lines& c) {
    const Kernel& k = plan_.kernels[stage.step];
    const Schedule& schedule = plan_.schedules[stage.step];
    const PrintedPart part =
        print_part(k, d_, schedule, name + "_part", {std::vector<bool>(k.args.size(), false), 0, true});
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
    if (everywhere && blocks == 1) return c.add(fmt::format("{}_part({}, 0, threadIdx.x);", name, args));
    c.open(fmt::format("for (unsigned block = {}; block < {}; block += {})", everywhere ? "0" : "blockIdx.x", blocks,
                       everywhere ? "1" : "gridDim.x"));
    c.add(fmt::format("{}_part({}, block, threadIdx.x);", name, args));
    if (!part.shared.empty()) c.add("meet_block();");
    c.close();
  }

  void product(const StreamStage& stage, const std::string& name) {
    const Kernel& k = plan_.kernels[stage.step];
    const StreamProduct& p = *plan_.products[stage.step];
    PointFunction point;
    point.name = name + "_at";
    point.positions = {{"row", p.rows.dims}, {"line", p.lines.dims}};
    functions_ += print_point(k, d_, point);
    const int64_t rows = p.rows.size(), depth = p.depth.size(), tiles = tiles_at_once(rows);
    const int64_t tile = stream_warps * rows * tile_lines;  // floats
    scratch_ = std::max(scratch_, 2 * tiles * tile * 4);
    int reads = 0;
    for (int i = 0; i < p.x; ++i) reads += !k.args[static_cast<size_t>(i)].written;
    Lines t;
    t.indent = 0;
    t.text = fmt::format("\n// {}: {} rows, {} lines of {}\n", name, rows, p.lines.size(), depth);
    t.open(fmt::format("{} void {}_stream(\n    Ring& ring, float* scratch,\n    {})", d_.function, name,
                       parameters(k, d_)));
    t.add(fmt::format("const int end = first_line({}, blockIdx.x + 1);", p.lines.size()));
    t.add("int half = 0;");
    t.open(fmt::format("for (int first = first_line({}, blockIdx.x); first < end; first += {})", p.lines.size(),
                       tiles * tile_lines));
    t.add(fmt::format("float* const parts = scratch + half * {};", tiles * tile));
    t.open(fmt::format("for (int tile = 0; tile < {} && first + tile * {} < end; ++tile)", tiles, tile_lines));
    t.add("float sums[4][4] = {};");
    t.add(depth > slot_depth ? "#pragma unroll 1" : "");
    t.add(fmt::format("for (int k = 0; k < {}; k += {})", depth, slot_depth));
    t.add(fmt::format("  use_piece<{}, {}, {}>(ring, (const char*)(in{} + {}) + k * 2, min({}, {} - k), sums);", rows,
                      depth, p.dtype == DType::f16, reads, p.x_offset, slot_depth, depth));
    t.add(fmt::format("leave_sums<{}>(parts + tile * {}, sums);", rows, tile));
    t.close();
    t.add("meet_block();");
    t.add(fmt::format("const int tile = threadIdx.x / {0}, at = threadIdx.x % {0};", rows * tile_lines));
    t.add(fmt::format("const int line = first + tile * {0} + at % {0};", tile_lines));
    t.open(fmt::format("if (tile < {} && line < end)", tiles));
    t.add(fmt::format("const float sum = take_sums<{}>(parts + tile * {}, at);", rows, tile));
    t.add(fmt::format("{}_at({}, at / {}, line, &sum);", name, parameter_names(k), tile_lines));
    t.close();
    t.add("half ^= 1;");
    t.close();
    t.close();
    functions_ += t.text;
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
    t.add(fmt::format("Ring ring = {{own, full, full + {0}, {0}, 0, 0}};", slots_));
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
    std::vector<std::string> shapes(shapes_.size());
    for (const auto& [shape, id] : shapes_) shapes[static_cast<size_t>(id)] = shape;
    for (size_t n = 0; n < shapes.size(); ++n) {
      const size_t one = shapes[n].find(", "), two = shapes[n].find(", ", one + 2);
      t.add(fmt::format("case {}: lines = {}, depth = {}, matrix += {} * 2LL; break;", n, shapes[n].substr(0, one),
                        shapes[n].substr(one + 2, two - one - 2), shapes[n].substr(two + 2)));
    }
    t.close();
    t.add("feed(feeder, matrix, lines, depth);");
    t.close();
    t.add("return;");
    t.close();
    t.add("give_registers<232>();");
    if (out_.traps) t.add(fmt::format("int* const trap = (int*)given.at[{}];", out_.values.size()));
    t.add("Meeting meeting = {(unsigned long long*)shared, 0};");
    t.add(fmt::format("char* const scratch = own + {};", at_scratch_));
    t.add("const unsigned long long launch = *number;");
    t.add("#pragma unroll 1");
    t.open(fmt::format("for (const unsigned short* row = table; row < table + {};)", stages_.size()));
    t.add(fmt::format("if (row[0] & {}) meet_all(meeting);", waits));
    t.open(fmt::format("switch (row[0] & {})", waits - 1));
    t.text += cases_;
    t.close();
    t.add("meet_block();");
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
  std::map<std::string, int> kinds_, shapes_;
  std::map<std::pair<int32_t, bool>, int> pointer_of_;
  std::map<int32_t, int> exchange_of_;
  int partial_pointers_[2] = {};  // attentions take turns
  size_t turn_ = 0;
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
