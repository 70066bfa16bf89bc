// A target that is compiled for ahead: every kernel is printed by itself, contractions as rows, attention as three.
#include "backends/cuda/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "backends/cuda/architecture.h"
#include "backends/cuda/codegen/choose/implementations.h"
#include "backends/cuda/codegen/choose/launch_work.h"
#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/codegen/products/patch.h"
#include "backends/cuda/codegen/stream/launch.h"
#include "backends/cuda/target_compile.h"
#include "backends/cuda/target_nvrtc.h"
#include "backends/cuda/target_worker.h"
#include "base/hash.h"
#include "kernel/fuse/unfuse.h"
#include "print/print.h"

namespace npusim::cuda {
namespace {

namespace choose = codegen::choose;
namespace products = codegen::products;
namespace stream = codegen::stream;
using codegen::Features;
using codegen::Made;

constexpr size_t kernels_of_a_text = 8;  // on average: they are compiled by several threads, and remembered by text

constexpr int least_major = 8;  // of architectures

void set_shape(Launch& launch, const Made& made) {
  launch.symbol = made.symbol;
  launch.grid[0] = static_cast<uint32_t>(made.shape.blocks);
  launch.block[0] = static_cast<uint32_t>(made.shape.threads);
  launch.shared_bytes = static_cast<uint32_t>(made.shared_bytes);
  launch.how = made.how;
}

// Fills in the launches of one program.
class Planner {
 public:
  Planner(Program& program, const std::vector<std::string>& architectures, const Features& features,
          std::vector<std::string>& notes)
      : p_(program), architectures_(architectures), features_(features), notes_(notes) {}

  void run(const ProgramPlans& plans) {
    launch(p_.recipes, plans.recipes);
    prepared_ = true;
    const SequencePlans none;
    for (size_t m = 0; m < p_.methods.size(); ++m) {
      const SequencePlans& known = plans.methods.empty() ? none : plans.methods[m];
      launch(p_.methods[m], known);
      if (!known.declined.empty()) p_.methods[m].declined = fmt::format("no stream: {}", known.declined);
    }
    compile();
  }

 private:
  void launch(Sequence& sequence, const SequencePlans& plans) {
    for (size_t l = 0; l < sequence.launches.size(); ++l) {
      Launch& launch = sequence.launches[l];
      std::shared_ptr<const LaunchPlan> plan = l < plans.launches.size() ? plans.launches[l] : nullptr;
      if (launch.together) {
        if (!plan) fail(ErrorKind::internal, "cuda: a launch of a whole method has no plan");
        const auto& whole = static_cast<const stream::StreamLaunch&>(*plan);
        stream::fill_launch(p_, sequence, whole, launch);
        streams_.emplace_back(&launch, whole.text.functions);
        continue;
      }
      const std::span steps = choose::steps_of(sequence, launch);
      if (!plan) plan = choose::plan_steps(p_, steps, features_);
      if (!plan)
        fail(ErrorKind::internal, "cuda: {} steps from '{}' on are no group", steps.size(), step_name(p_, steps[0]));
      const choose::LaunchWork work =
          choose::work_of(p_, steps, static_cast<const choose::StepsPlan&>(*plan), prepared_);
      const auto [known, fresh] = kernels_.try_emplace({work.kernels, work.given, work.ahead});
      if (fresh) known->second = std::move(choose::make_ways(p_, work, features_, 1)[0]);
      launch.args = work.args;
      finish(launch, known->second, steps);
    }
  }

  void finish(Launch& launch, const Made& made, std::span<const Step> steps) {
    set_shape(launch, made);
    launch.early = true;
    for (size_t n = 0; n < made.traps.size(); ++n) {
      const Step& trapped = made.trap_steps.empty() ? steps[0] : steps[made.trap_steps[n]];
      launch.traps.push_back(fmt::format("node {}: {}", step_name(p_, trapped), made.traps[n]));
    }
    if (!made.traps.empty()) launch.args.push_back(trap_word);
    of_symbol_.emplace(launch.symbol, &made);
    launches_.push_back(&launch);
  }

  // Kernels share a text by their content, so that a change of one leaves most texts as they were.
  void compile() {
    const size_t count = std::bit_ceil((of_symbol_.size() + kernels_of_a_text - 1) / kernels_of_a_text);
    std::map<uint64_t, std::vector<const Made*>> chunks;
    for (const auto& [symbol, made] : of_symbol_) chunks[hash_bytes(made->functions) % count].push_back(made);
    std::vector<std::vector<Source>> texts;
    for (const auto& [number, kernels] : chunks) {
      texts.emplace_back();
      for (const Made* made : kernels) texts.back().push_back({made->symbol, made->functions});
    }
    for (const auto& [launch, functions] : streams_) {
      texts.push_back({{launch->symbol, functions}});
      launches_.push_back(launch);
    }
    const auto before = static_cast<int32_t>(p_.code.size());
    CompiledTexts compiled = compile_texts(texts, architectures_);
    for (CodeSet& set : compiled.sets) p_.code.push_back(std::move(set));
    for (Launch* launch : launches_) {
      launch->code = before + compiled.set_of.at(launch->symbol);
      if (const auto of = compiled.remarks.find(launch->symbol); of != compiled.remarks.end())
        launch->how += fmt::format("; {}", of->second);
    }
    for (const auto& [symbol, remark] : compiled.remarks)
      notes_.push_back(fmt::format("kernel '{}': {}", symbol, remark));
    const std::string alone =
        "npusim-nvrtc is not beside npusim: NVRTC is called in this process, which ends if NVRTC does";
    if (helper_path().empty() && std::find(notes_.begin(), notes_.end(), alone) == notes_.end())
      notes_.push_back(alone);
  }

  Program& p_;
  const std::vector<std::string>& architectures_;
  const Features& features_;
  std::vector<std::string>& notes_;
  // By the positions of its kernels in the program, which of their arguments it has, and what is ahead.
  using Key = std::tuple<std::vector<int32_t>, std::vector<std::pair<size_t, size_t>>, std::vector<bool>>;
  std::map<Key, Made> kernels_;
  bool prepared_ = false;                         // recipes are behind
  std::map<std::string, const Made*> of_symbol_;  // those of equal content once
  std::vector<Launch*> launches_;
  std::vector<std::pair<Launch*, std::string>> streams_;  // and their texts
};

// Which methods are one launch.
enum class Streams : uint8_t { none, fast, possible };

// What streams are written for: bulk copies, and registers that move between warps.
bool has_rings(const std::string& architecture) {
  const Architecture a = *parse_architecture(architecture, "sm_");
  return a.feature == 'a' && (a.major == 9 || a.major == 10);
}

// Which architectures, and among them "stream": methods as one launch wherever they can be, on what has the
// instructions for it; or "graph": none is.
struct Asked {
  std::vector<std::string> names;
  std::optional<Streams> streams;
};

Asked read_architectures(const std::string& list) {
  std::optional<Streams> streams;
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    begin = end + 1;
    if (name == "stream" || name == "graph") {
      streams = name == "stream" ? Streams::possible : Streams::none;
      continue;
    }
    const auto architecture = parse_architecture(name, "sm_");
    if (!architecture)
      fail(ErrorKind::usage, "target cuda: expected architectures such as sm_80,sm_90a, found '{}'{}", name,
           name == list ? "" : fmt::format(" in '{}'", list));
    if (architecture->major < least_major)
      fail(ErrorKind::unsupported, "target cuda: {}: kernels need at least sm_{}0 (asynchronous copies, bfloat16)",
           name, least_major);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  // The lowest first: it is the one whose PTX is kept.
  const auto number = [](const std::string& name) {
    const Architecture a = *parse_architecture(name, "sm_");
    return std::make_tuple(a.feature != 0, a.major, a.minor, a.feature);
  };
  std::sort(names.begin(), names.end(),
            [&](const std::string& a, const std::string& b) { return number(a) < number(b); });
  const bool possible = streams == Streams::possible;
  if (names.empty() || (possible && !std::all_of(names.begin(), names.end(), has_rings)))
    fail(ErrorKind::usage, "target cuda: expected architectures{}, found '{}'", possible ? " such as sm_90a" : "",
         list);
  return {std::move(names), streams};
}

class CudaTarget : public CodegenTarget {
 public:
  // sm_90a beside others is a variant: it has instructions of its own, steps that suit them, and streams where they
  // gain.
  explicit CudaTarget(Asked asked) : architectures_(std::move(asked.names)) {
    const std::vector<std::string> alone{"sm_90a"};
    if (architectures_.size() > 1 && std::erase(architectures_, alone[0]) > 0)
      variants_.push_back(std::make_shared<const CudaTarget>(Asked{alone, asked.streams}));
    features_.groups = architectures_ == alone;
    streams_ = asked.streams.value_or(architectures_ == alone ? Streams::fast : Streams::none);
    config_.name = "cuda";
    config_.channel_alignment_bytes = 16;  // the widest load of a thread
    config_.buffer_alignment_bytes = 256;
    config_.max_rank = 16;
    config_.memory_gb_s = 3000;
    config_.gflop_s = 400'000;
    config_.link_gb_s = 50;
    config_.equal_operands = true;
  }
  const TargetConfig& config() const override { return config_; }

  std::string refuse(const Kernel& kernel) const override {
    for (const BoundKernel& part : unfuse(kernel).steps) {
      if (part.kernel.contraction) {  // a transform's product
        if (std::string reason = refuse(part.kernel); !reason.empty()) return reason;
      } else if (auto reason = cannot_print(part.kernel, cuda_dialect)) {
        return *reason;
      }
    }
    return {};
  }
  bool reads_as_it_lies(const Kernel& kernel) const override {
    std::string why;
    const auto conv = products::find_patch_conv(kernel, why);
    return conv && conv->pixels == products::PatchConv::Pixels::lines && codegen::find_product(kernel, why);
  }
  Unfused in_parts(const Kernel& kernel) const override { return choose::find_parts(kernel, features_); }
  Group group(std::span<const GroupStep> steps) const override { return choose::group_steps(steps, features_); }
  Whole launch_whole(const WholeMethod& method) const override {
    Whole whole;
    if (streams_ == Streams::none) return whole;
    if (auto stream = stream::make_stream(method, {}, streams_ == Streams::fast, whole.declined))
      return {std::make_shared<const stream::StreamLaunch>(std::move(*stream)), {}};
    return whole;
  }
  void plan(Program& program, const ProgramPlans& plans, std::vector<std::string>& notes) const override {
    Planner(program, architectures_, features_, notes).run(plans);
  }
  std::vector<LaunchWay> ways(const Program& program, const Sequence& sequence, const Launch& launch,
                              size_t most) const override {
    std::vector<LaunchWay> ways;
    if (launch.together) {
      const WholeMethod method = stream::method_of(program, sequence, launch);
      for (const stream::StreamWay& one : stream::stream_ways().first(std::min(most, stream::stream_ways().size()))) {
        std::string why;
        auto stream = stream::make_stream(method, one, false, why);
        if (!stream) return {};  // of another version
        LaunchWay& way = ways.emplace_back(LaunchWay{launch, std::move(stream->text.functions)});
        stream::fill_launch(program, sequence, *stream, way.launch);
      }
      return ways;
    }
    const std::span steps = choose::steps_of(sequence, launch);
    const auto plan = choose::plan_steps(program, steps, features_);
    if (!plan) return {};  // of another version
    for (Made& made : choose::make_ways(program, choose::work_of(program, steps, *plan, true), features_, most)) {
      LaunchWay way{launch, std::move(made.functions)};
      set_shape(way.launch, made);
      ways.push_back(std::move(way));
    }
    return ways;
  }
  void compile_ways(Program& program, std::span<LaunchWay> ways) const override;
  std::string compiler() const override { return fmt::format("NVRTC {}", find_nvrtc().version); }
  std::shared_ptr<const CodegenTarget> for_architectures(const std::string& list) const override {
    return std::make_shared<const CudaTarget>(read_architectures(list));
  }
  std::shared_ptr<const CodegenTarget> for_program(const Program& program) const override {
    Asked asked;
    for (const CodeSet& set : program.code)
      for (const Code& code : set)
        if (code.format == "cubin" &&
            std::find(asked.names.begin(), asked.names.end(), code.architecture) == asked.names.end())
          asked.names.push_back(code.architecture);
    return asked.names.empty() ? nullptr : std::make_shared<const CudaTarget>(std::move(asked));
  }
  std::vector<std::shared_ptr<const CodegenTarget>> variants() const override { return variants_; }

 private:
  TargetConfig config_;
  std::vector<std::string> architectures_;
  Features features_;
  Streams streams_ = Streams::none;
  std::vector<std::shared_ptr<const CodegenTarget>> variants_;
};

void CudaTarget::compile_ways(Program& program, std::span<LaunchWay> ways) const {
  // Ways of one kernel have one symbol.
  std::vector<std::vector<Source>> texts;
  std::map<std::string_view, size_t> known;  // by text
  for (const LaunchWay& way : ways)
    if (known.try_emplace(way.text, texts.size()).second) texts.push_back({{way.launch.symbol, way.text}});
  const size_t before = program.code.size();
  for (CodeSet& set : compile_texts(texts, architectures_).sets) program.code.push_back(std::move(set));
  for (LaunchWay& way : ways) way.launch.code = static_cast<int32_t>(before + known.at(way.text));
}

}  // namespace

const CodegenTarget& target() {
  static const CudaTarget instance(read_architectures("sm_80,sm_90a"));
  return instance;
}

}  // namespace npusim::cuda
