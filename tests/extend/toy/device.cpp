// A device in host memory whose kernels are run by the scalar interpreter.
#include "backends/toy/device.h"

#include <cstring>

#include "kernel/evaluate.h"

namespace npusim::toy {
namespace {

class ToyBuffer : public DeviceBuffer {
 public:
  explicit ToyBuffer(size_t bytes) : data_(bytes) {}
  size_t bytes() const override { return data_.size(); }
  std::byte* host() override { return data_.data(); }

 private:
  std::vector<std::byte> data_;
};

class ToyMethod : public DeviceMethod {
 public:
  ToyMethod(const Program& program, std::span<const Step> steps, std::span<const Placement> placements)
      : program_(program), steps_(steps) {
    for (const Step& step : steps) {
      std::vector<void*>& args = args_.emplace_back();
      for (int32_t id : step.buffers) {
        const Placement& place = placements[static_cast<size_t>(id)];
        args.push_back(place.buffer->host() + place.offset);
      }
    }
  }
  void run() override {
    for (size_t step = 0; step < steps_.size(); ++step) run_step(step);
  }
  void run_step(size_t step) override {
    evaluate(program_.kernels[static_cast<size_t>(steps_[step].kernel)], args_[step], true);
  }
  std::string step_info(size_t) const override { return "scalar interpreter"; }

 private:
  const Program& program_;
  std::span<const Step> steps_;
  std::vector<std::vector<void*>> args_;  // per step, final pointers
};

class ToyBackend : public Backend {
 public:
  std::string name() const override { return "toy"; }
  std::string description() const override { return "the scalar interpreter"; }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return std::make_unique<ToyBuffer>(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte> memory) override {
    auto buffer = std::make_unique<ToyBuffer>(memory.size());
    upload(*buffer, 0, memory);
    return buffer;
  }
  void upload(DeviceBuffer& to, size_t offset, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to.host() + offset, from.data(), from.size());
  }
  void download(const DeviceBuffer& from, size_t offset, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), const_cast<DeviceBuffer&>(from).host() + offset, to.size());
  }
  std::unique_ptr<DeviceMethod> prepare(const Program& program, std::span<const Step> steps,
                                        std::span<const Placement> placements) override {
    return std::make_unique<ToyMethod>(program, steps, placements);
  }
};

}  // namespace

std::unique_ptr<Backend> open_device(const DeviceOptions&) { return std::make_unique<ToyBackend>(); }
DeviceInfo probe_device() { return {"toy", "the scalar interpreter", true}; }

}  // namespace npusim::toy
