// The host CPU as a target: it runs kernel IR itself, whatever its form.
#include "backends/cpu/target.h"

namespace npusim::cpu {
namespace {

class CpuTarget : public CodegenTarget {
 public:
  CpuTarget() {
    config_.name = "cpu";
    config_.channel_alignment_bytes = 1;
    config_.max_rank = 16;
    config_.image_layout = ImageLayout::channels_last;
  }
  const TargetConfig& config() const override { return config_; }
  std::string refuse(const Kernel&) const override { return {}; }

 private:
  TargetConfig config_;
};

}  // namespace

const CodegenTarget& target() {
  static const CpuTarget instance;
  return instance;
}

}  // namespace npusim::cpu
