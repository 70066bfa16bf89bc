// Functions are found once for equal launches, and compiled a few to a text.
#include "backends/cuda/target_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "backends/cuda/codegen/choose/launch_work.h"
#include "backends/cuda/codegen/stream/launch.h"
#include "backends/cuda/target_compile.h"
#include "backends/cuda/target_nvrtc.h"
#include "backends/cuda/target_worker.h"
#include "base/hash.h"
#include "plan/launches.h"

namespace npusim::cuda {
namespace {

namespace choose = codegen::choose;
namespace stream = codegen::stream;
using codegen::GeneratedKernel;
using plan::LaunchedBy;
using plan::LaunchedFunction;
using plan::LaunchPosition;

constexpr size_t kernels_of_a_text = 8;  // on average: they are compiled by several threads, and remembered by text

// Makes each launch from what was decided about it, and equal ones once.
class Maker {
 public:
  Maker(const Program& program, const ProgramPlans& plans, const codegen::Features& features)
      : p_(program), plans_(plans), features_(features) {}

  LaunchedBy operator()(const Sequence& sequence, const Launch& launch, LaunchPosition position) {
    const std::span steps = plan::steps_of(sequence, launch);
    std::shared_ptr<const LaunchPlan> plan = plan_at(position);
    if (launch.together) {
      if (!plan) fail(ErrorKind::internal, "cuda: a launch of a whole method has no plan");
      return stream::launched_by(static_cast<const stream::StreamLaunch&>(*plan), steps);
    }
    if (!plan) plan = choose::plan_steps(p_, steps, features_);
    if (!plan)
      fail(ErrorKind::internal, "cuda: {} steps from '{}' on are no group", steps.size(), step_name(p_, steps[0]));
    const bool prepared = position.method >= 0;  // recipes are behind
    const auto& decided = static_cast<const choose::StepsPlan&>(*plan);
    choose::LaunchWork work = choose::work_of(p_, steps, decided, prepared);
    std::shared_ptr<const GeneratedKernel>& made = known_[{work.kernels, work.given, work.made_of.ahead}];
    if (!made)
      made = std::make_shared<const GeneratedKernel>(std::move(choose::make_candidates(work.made_of, features_, 1)[0]));
    return {made, std::move(work.args), decided.declined};
  }

 private:
  std::shared_ptr<const LaunchPlan> plan_at(LaunchPosition position) const {
    if (position.method >= 0 && plans_.methods.empty()) return nullptr;
    const SequencePlans& of =
        position.method < 0 ? plans_.recipes : plans_.methods[static_cast<size_t>(position.method)];
    return position.number < of.launches.size() ? of.launches[position.number] : nullptr;
  }

  const Program& p_;
  const ProgramPlans& plans_;
  const codegen::Features& features_;
  // By the positions of its kernels in the program, which of their arguments it has, and what is ahead.
  using Key = std::tuple<std::vector<int32_t>, std::vector<std::pair<size_t, size_t>>, std::vector<bool>>;
  std::map<Key, std::shared_ptr<const GeneratedKernel>> known_;
};

// Kernels share a text by their content, so that a change of one leaves most texts as they were; a stream has its own.
std::vector<std::vector<Source>> texts_of(const std::vector<LaunchedFunction>& functions) {
  std::map<std::string_view, const plan::GeneratedKernel*> kernels;  // by symbol
  std::vector<std::vector<Source>> streams;
  for (const LaunchedFunction& f : functions)
    if (f.launches[0]->together)
      streams.push_back({{f.made->symbol, f.made->functions}});
    else
      kernels.emplace(f.made->symbol, f.made.get());
  const size_t count = std::bit_ceil((kernels.size() + kernels_of_a_text - 1) / kernels_of_a_text);
  std::map<uint64_t, std::vector<Source>> chunks;
  for (const auto& [symbol, made] : kernels)
    chunks[hash_bytes(made->functions) % count].push_back({made->symbol, made->functions});
  std::vector<std::vector<Source>> texts;
  for (auto& [number, chunk] : chunks) texts.push_back(std::move(chunk));
  std::move(streams.begin(), streams.end(), std::back_inserter(texts));
  return texts;
}

class CudaTuner : public Tuner {
 public:
  CudaTuner(const Program& program, CompileFor of) : p_(program), of_(std::move(of)) {}

  std::string compiler() const override { return fmt::format("NVRTC {}", find_nvrtc().version); }

  std::vector<LaunchCandidate> candidates(const Sequence& sequence, const Launch& launch, size_t most) const override {
    std::vector<LaunchCandidate> candidates;
    const auto add = [&](const plan::GeneratedKernel& made) {
      LaunchCandidate& candidate = candidates.emplace_back(LaunchCandidate{launch, made.functions});
      plan::set_shape(candidate.launch, made);
    };
    if (launch.together) {
      const WholeMethod method = stream::method_of(p_, sequence, launch);
      for (const stream::StreamCandidate& one :
           stream::stream_candidates().first(std::min(most, stream::stream_candidates().size()))) {
        std::string why;
        const auto stream = stream::make_stream(method, one, of_.features, false, why);
        if (!stream) return {};  // of another version
        add(*stream->made);
      }
      return candidates;
    }
    const std::span steps = plan::steps_of(sequence, launch);
    const auto plan = choose::plan_steps(p_, steps, of_.features);
    if (!plan) return {};  // of another version
    const choose::LaunchWork work = choose::work_of(p_, steps, *plan, true);
    for (const GeneratedKernel& made : choose::make_candidates(work.made_of, of_.features, most)) add(made);
    return candidates;
  }

  void compile(Program& program, std::span<LaunchCandidate> candidates) const override {
    // Candidates of one kernel have one symbol.
    std::vector<std::vector<Source>> texts;
    std::map<std::string_view, size_t> known;  // by text
    for (const LaunchCandidate& candidate : candidates)
      if (known.try_emplace(candidate.text, texts.size()).second)
        texts.push_back({{candidate.launch.symbol, candidate.text}});
    const size_t before = program.code.size();
    for (CodeSet& set : compile_texts(texts, of_.architectures).sets) program.code.push_back(std::move(set));
    for (LaunchCandidate& candidate : candidates)
      candidate.launch.code = static_cast<int32_t>(before + known.at(candidate.text));
  }

 private:
  const Program& p_;
  const CompileFor of_;
};

}  // namespace

void plan_launches(Program& program, const ProgramPlans& plans, const CompileFor& of, std::vector<std::string>& notes) {
  Maker maker(program, plans, of.features);
  const std::vector<LaunchedFunction> functions = plan::fill_launches(program, std::ref(maker));
  for (size_t m = 0; m < plans.methods.size(); ++m)
    if (const std::string& why = plans.methods[m].declined; !why.empty())
      program.methods[m].declined = fmt::format("no stream: {}", why);
  const auto before = static_cast<int32_t>(program.code.size());
  CompiledTexts compiled = compile_texts(texts_of(functions), of.architectures);
  for (CodeSet& set : compiled.sets) program.code.push_back(std::move(set));
  for (const LaunchedFunction& function : functions) {
    const auto remark = compiled.remarks.find(function.made->symbol);
    for (Launch* launch : function.launches) {
      launch->code = before + compiled.set_of.at(launch->symbol);
      if (remark != compiled.remarks.end()) launch->how += fmt::format("; {}", remark->second);
    }
  }
  for (const auto& [symbol, remark] : compiled.remarks) notes.push_back(fmt::format("kernel '{}': {}", symbol, remark));
  const std::string alone =
      "npusim-nvrtc is not beside npusim: NVRTC is called in this process, which ends if NVRTC does";
  if (helper_path().empty() && std::find(notes.begin(), notes.end(), alone) == notes.end()) notes.push_back(alone);
}

std::unique_ptr<const Tuner> make_tuner(const Program& program, CompileFor of) {
  return std::make_unique<const CudaTuner>(program, std::move(of));
}

}  // namespace npusim::cuda
