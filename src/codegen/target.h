// What the compiler asks of a target, answerable on a machine without the device.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernel/fuse/unfuse.h"
#include "plan/estimate.h"
#include "program/program.h"
#include "program/target_config.h"

namespace npusim {

// A kernel and the values of its arguments, of a graph or, as buffers, of a program.
struct GroupStep {
  const Kernel* kernel = nullptr;
  std::vector<int32_t> values;
  // By argument: whether steps behind the next one have to do with the value, or the caller has. None: no.
  std::vector<bool> kept = {};
};

// What a target decided about the steps of one launch, for nobody but itself. Codegen keeps it with the launch until
// plan() makes code of it.
struct LaunchPlan {
  virtual ~LaunchPlan() = default;
};

// One launch of so many steps, from the first on. 0: there are no launches.
struct Group {
  size_t count = 0;
  std::shared_ptr<const LaunchPlan> plan = nullptr;
};

// A whole method as one launch, or why it is none ("" of a target that never makes one).
struct Whole {
  std::shared_ptr<const LaunchPlan> plan = nullptr;
  std::string declined = {};
};

// What was decided about the launches of a sequence, by launch. One that has no plan is planned from its steps.
struct SequencePlans {
  std::vector<std::shared_ptr<const LaunchPlan>> launches;
  std::string declined;  // why a method is not one launch
};
struct ProgramPlans {
  SequencePlans recipes;
  std::vector<SequencePlans> methods;
};

// What a value is to a method: known before it runs, or the caller's (an input, an output, a state), or its own.
enum class ValueUse : uint8_t { known, outside, inside };

// The steps of a method, none of which is of another device.
struct WholeMethod {
  std::vector<GroupStep> steps;
  std::vector<ValueUse> uses;  // by value
};

// A launch as the target would make it, and the text that does it: `code` is not set.
struct LaunchCandidate {
  Launch launch;
  std::string text;
};

struct OwnRange {
  std::string key;
  int64_t low = 0, high = 0;  // both included
};

// Candidates for launches of one program, which are to be timed.
class Tuner {
 public:
  virtual ~Tuner() = default;
  // What compiles the code, with its version: what was timed is of one.
  virtual std::string compiler() const = 0;
  // Candidates for a launch of a method that plan() filled in, at most so many, the likeliest first, plan()'s own among
  // them. They take the same arguments.
  virtual std::vector<LaunchCandidate> candidates(const Sequence& sequence, const Launch& launch,
                                                  size_t most) const = 0;
  // Adds their code to a copy of the program and sets their `code`.
  virtual void compile(Program& program, std::span<LaunchCandidate> candidates) const = 0;
};

class CodegenTarget {
 public:
  virtual ~CodegenTarget() = default;
  const TargetConfig& config() const { return config_; }
  // What the values of config().own may be, by name: the section of the config that this target alone has.
  const std::vector<OwnRange>& own() const { return own_; }
  // Targets for those of its architectures where steps or launches are others than this one's: what they make of the
  // same graphs becomes the program's variants.
  const std::vector<std::shared_ptr<const CodegenTarget>>& variants() const { return variants_; }

  // Why the target cannot run this kernel ("" if it can). Asked before fusion merges two, and of each that is left.
  virtual std::string refuse(const Kernel& kernel) const = 0;
  // Whether the device reads the image of this convolution as it lies, in the order of its dimensions, no slower than
  // one that was converted to the layout of the config.
  virtual bool reads_as_it_lies(const Kernel&) const { return false; }
  // The several kernels as which the device runs this one. Asked of each that fusion left, before memory is planned:
  // they become steps, and what is between them is values of the graph like any other; what of them needs only weights
  // is done at load, and what is equal once. None or one: the kernel stays as it is, unless it orders rows.
  virtual Unfused in_parts(const Kernel&) const { return {}; }
  // What one launch will do of these steps, which follow each other; none: the device runs kernel IR. Asked before
  // memory is planned: what lives only within a launch needs no room in the arena. Kernels are matched by structure.
  // Recipes are launched one by one.
  virtual Group group(std::span<const GroupStep>) const { return {}; }
  // One launch for all steps of a method. Asked before kernels become several; where there is one, they stay whole,
  // in_parts() and group() are not asked, and the launch is `together`.
  virtual Whole launch_whole(const WholeMethod&) const { return {}; }
  // Fills in the program's launches, of which only `first`, `count` and `together` are set, and adds their code.
  // `notes`: what who compiles should know.
  virtual void plan(Program&, const ProgramPlans&, std::vector<std::string>& notes) const { (void)notes; }
  void plan(Program& program, const ProgramPlans& plans = {}) const {
    std::vector<std::string> unread;
    plan(program, plans, unread);
  }
  // Of a program whose launches a target of this name made, and which must outlive it; null: there are none that could
  // be made by other candidates.
  virtual std::unique_ptr<const Tuner> tuner(const Program&) const { return nullptr; }
  // How long a kernel takes by itself on a device of these rules.
  virtual Estimate estimate(const Kernel& kernel, const TargetConfig& config) const {
    return plan::estimate(kernel, config.machine);
  }
  // The target that compiles for these architectures, as a user lists them behind its name: "sm_80,sm_90a". Throws
  // usage for one that it does not know.
  virtual std::shared_ptr<const CodegenTarget> for_architectures(const std::string& list) const {
    fail(ErrorKind::usage, "target {}: expected no architectures, found '{}'", config_.name, list);
  }
  // This target with other rules; null: what it does itself depends on none of them.
  virtual std::shared_ptr<const CodegenTarget> with_config(const TargetConfig&) const { return nullptr; }

 protected:
  TargetConfig config_;
  std::vector<OwnRange> own_;
  std::vector<std::shared_ptr<const CodegenTarget>> variants_;
};

// The targets of this build, by name: generated from the folders of backends/ (src/CMakeLists.txt).
const CodegenTarget* find_target(const std::string& name);
// "cpu", "cuda:sm_80,sm_90a": throws usage for an unknown name or architecture.
std::shared_ptr<const CodegenTarget> open_target(const std::string& name);
std::vector<std::string> target_names();

}  // namespace npusim
