// A target that is compiled for ahead: every kernel is printed by itself, contractions as rows, attention as three.
#include "backends/cuda/target.h"

#include <algorithm>

#include "backends/cuda/codegen/choose/implementations.h"
#include "backends/cuda/codegen/choose/parts.h"
#include "backends/cuda/codegen/stream/launch.h"
#include "backends/cuda/target_architectures.h"
#include "backends/cuda/target_launches.h"
#include "kernel/fuse/unfuse.h"
#include "print/print.h"

namespace npusim::cuda {
namespace {

namespace choose = codegen::choose;
namespace stream = codegen::stream;

class CudaTarget : public CodegenTarget {
 public:
  // sm_90a among others is a variant: it has instructions of its own, steps that suit them, and streams where they
  // gain.
  explicit CudaTarget(Asked asked) {
    const std::vector<std::string> alone{"sm_90a"};
    if (asked.names.size() > 1 && std::erase(asked.names, alone[0]) > 0)
      variants_.push_back(std::make_shared<const CudaTarget>(Asked{alone, asked.streams}));
    groups_ = asked.names == alone;
    streams_ = asked.streams.value_or(asked.names == alone ? Streams::fast : Streams::none);
    config_.name = "cuda";
    config_.channel_alignment_bytes = 16;  // the widest load of a thread
    config_.buffer_alignment_bytes = 256;
    config_.max_rank = 16;
    config_.equal_operands = true;
    config_.machine = machine_of(asked.names[0]), config_.own = own_of(asked.names[0]);
    own_ = own_ranges();
    compiled_.architectures = std::move(asked.names);
    compiled_.features = codegen::features_of(groups_, config_);
  }

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
    const choose::Analysis known = choose::analyse(kernel);
    return known.patches && known.patches->pixels == codegen::products::PatchConv::Pixels::lines &&
           known.contracted.product;
  }
  Unfused in_parts(const Kernel& kernel) const override { return choose::find_parts(kernel, compiled_.features); }
  Group group(std::span<const GroupStep> steps) const override {
    return choose::group_steps(steps, compiled_.features);
  }
  Whole launch_whole(const WholeMethod& method) const override {
    Whole whole;
    if (streams_ == Streams::none) return whole;
    if (auto stream = stream::make_stream(method, {}, compiled_.features, streams_ == Streams::fast, whole.declined))
      return {std::make_shared<const stream::StreamLaunch>(std::move(*stream)), {}};
    return whole;
  }
  void plan(Program& program, const ProgramPlans& plans, std::vector<std::string>& notes) const override {
    plan_launches(program, plans, compiled_, notes);
  }
  std::unique_ptr<const Tuner> tuner(const Program& program) const override {
    Asked asked;
    for (const CodeSet& set : program.code)
      for (const Code& code : set)
        if (code.format == "cubin" &&
            std::find(asked.names.begin(), asked.names.end(), code.architecture) == asked.names.end())
          asked.names.push_back(code.architecture);
    if (asked.names.empty()) return nullptr;
    CudaTarget made(std::move(asked));
    made.set_config(program.devices[0].config);
    return make_tuner(program, std::move(made.compiled_));
  }
  std::shared_ptr<const CodegenTarget> with_config(const TargetConfig& config) const override {
    auto made = std::make_shared<CudaTarget>(*this);
    made->set_config(config);
    return made;
  }
  std::shared_ptr<const CodegenTarget> for_architectures(const std::string& list) const override {
    return std::make_shared<const CudaTarget>(read_architectures(list));
  }

 private:
  void set_config(const TargetConfig& config) {
    check_machine(config.machine, compiled_.architectures[0]);
    const std::map<std::string, int64_t> before = std::move(config_.own);
    config_ = config;
    config_.own.insert(before.begin(), before.end());  // what the config does not have
    compiled_.features = codegen::features_of(groups_, config_);
  }

  CompileFor compiled_;
  bool groups_ = false;
  Streams streams_ = Streams::none;
};

}  // namespace

const CodegenTarget& target() {
  static const CudaTarget instance(read_architectures("sm_80,sm_90a"));
  return instance;
}

}  // namespace npusim::cuda
