// A device that allocates and copies like any other and whose kernels do nothing: for measuring what is not the device.
#include "backends/null/device.h"

#include <cstring>

namespace npusim::null {
namespace {

// Device memory. A device the host cannot reach returns nullptr from host(); upload() and download() then move data.
class NullBuffer : public DeviceBuffer {
 public:
  explicit NullBuffer(size_t bytes) : data_(bytes) {}
  size_t bytes() const override { return data_.size(); }
  std::byte* host() override { return nullptr; }
  std::vector<std::byte>& data() { return data_; }

 private:
  std::vector<std::byte> data_;
};

// All that run() needs is resolved when this is made: here a device loads modules, packs parameters, records graphs.
class NullMethod : public DeviceMethod {
 public:
  void run() override {}
  void run_step(size_t) override {}
  std::string step_info(size_t) const override { return "nothing"; }
};

class NullBackend : public Backend {
 public:
  std::string name() const override { return "null"; }
  std::string description() const override { return "does nothing, on any machine"; }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return std::make_unique<NullBuffer>(bytes); }
  // A device that reads host memory keeps the pointer instead.
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte> memory) override {
    auto buffer = std::make_unique<NullBuffer>(memory.size());
    upload(*buffer, 0, memory);
    return buffer;
  }
  void upload(DeviceBuffer& to, size_t offset, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(static_cast<NullBuffer&>(to).data().data() + offset, from.data(), from.size());
  }
  void download(const DeviceBuffer& from, size_t offset, std::span<std::byte> to) override {
    auto& buffer = static_cast<NullBuffer&>(const_cast<DeviceBuffer&>(from));
    if (!to.empty()) std::memcpy(to.data(), buffer.data().data() + offset, to.size());
  }
  std::unique_ptr<DeviceMethod> prepare(const Program&, std::span<const Step>, std::span<const Placement>) override {
    return std::make_unique<NullMethod>();
  }
};

}  // namespace

std::unique_ptr<Backend> open_device(const DeviceOptions&) { return std::make_unique<NullBackend>(); }
DeviceInfo probe_device() { return {"null", "does nothing, on any machine", true}; }

}  // namespace npusim::null
