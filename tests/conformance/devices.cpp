// The toy and the CPU, alone and together.
#include "conformance/devices.h"

#include <map>

#include "backends/toy/device.h"

namespace npusim::test {
namespace {

class Splitter {
 public:
  explicit Splitter(const Program& program) : p_(program) {
    p_.devices.push_back(p_.devices[0]);
    for (Method& method : p_.methods) method.arenas.resize(2);
  }

  Program run(const std::function<bool(size_t)>& there) {
    for (Method& method : p_.methods) split(method, there);
    return std::move(p_);
  }

 private:
  void split(Method& method, const std::function<bool(size_t)>& there) {
    method_ = &method;
    current_.clear();
    std::vector<Step> steps = std::move(method.steps);
    method.steps.clear();
    for (size_t i = 0; i < steps.size(); ++i) add(steps[i], there(i) && !touches_state(steps[i]) ? 1 : 0);
    for (const TensorSpec& spec : method.outputs) bring(spec.buffer, 0, {});
  }

  const Buffer& buffer(int32_t id) const { return p_.buffers[static_cast<size_t>(id)]; }

  bool touches_state(const Step& step) const {
    return std::any_of(step.buffers.begin(), step.buffers.end(),
                       [&](int32_t id) { return buffer(id).kind == BufferKind::state; });
  }

  // Where a buffer's newest value is; at first on the first device.
  struct Current {
    bool on[2] = {true, false};
  };

  void add(Step step, int32_t device) {
    const Kernel& kernel = p_.kernels[static_cast<size_t>(step.kernel)];
    const std::vector<int32_t> before = step.buffers;
    for (size_t a = 0; a < kernel.args.size(); ++a)
      if (!kernel.args[a].written) bring(before[a], device, step.origins);
    if (device == 1)
      for (int32_t& id : step.buffers) id = twin(id);
    step.device = device;
    method_->steps.push_back(std::move(step));
    for (size_t a = 0; a < kernel.args.size(); ++a)
      if (kernel.args[a].written) current_[before[a]] = {{device == 0, device == 1}};
  }

  void bring(int32_t id, int32_t device, const std::vector<int32_t>& origins) {
    const BufferKind kind = buffer(id).kind;
    if (device == 1 && (kind == BufferKind::weight || kind == BufferKind::constant)) return;  // it is loaded there
    Current& now = current_[id];
    if (now.on[device]) return;
    now.on[device] = true;
    const int32_t there = twin(id);
    method_->steps.push_back({-1, device == 1 ? std::vector{id, there} : std::vector{there, id}, device, origins});
  }

  int32_t twin(int32_t id) {
    const auto known = twins_.find({method_, id});
    if (known != twins_.end()) return known->second;
    Buffer b = buffer(id);
    b.device = 1;
    if (b.kind != BufferKind::weight && b.kind != BufferKind::constant) {
      Arena& arena = method_->arenas[1];
      b.kind = BufferKind::arena;
      b.offset = arena.bytes;
      arena.bytes += (stored_bytes(b) + 63) / 64 * 64;
    }
    p_.buffers.push_back(std::move(b));
    return twins_[{method_, id}] = static_cast<int32_t>(p_.buffers.size()) - 1;
  }

  Program p_;
  Method* method_ = nullptr;
  std::map<int32_t, Current> current_;
  std::map<std::pair<Method*, int32_t>, int32_t> twins_;
};

class CountingQueue : public Queue {
 public:
  CountingQueue(std::unique_ptr<Queue> queue, Traffic& traffic) : queue_(std::move(queue)), traffic_(traffic) {}
  void upload(std::span<const std::byte> from, const Placement& to) override {
    ++traffic_.uploads;
    traffic_.uploaded += from.size();
    queue_->upload(from, to);
  }
  void download(const Placement& from, std::span<std::byte> to) override {
    ++traffic_.downloads;
    traffic_.downloaded += to.size();
    queue_->download(from, to);
  }
  void copy(const Placement& from, const Placement& to, const CopyShape& shape) override {
    queue_->copy(from, to, shape);
  }
  void clear(const Placement& place, size_t bytes) override { queue_->clear(place, bytes); }
  void wait() override { queue_->wait(); }
  std::unique_ptr<Segment> prepare(const StepRange& steps, std::span<const Placement> placements) override {
    return queue_->prepare(steps, placements);
  }

 private:
  std::unique_ptr<Queue> queue_;
  Traffic& traffic_;
};

class CountingBackend : public Backend {
 public:
  CountingBackend(std::shared_ptr<Backend> device, Traffic& traffic) : device_(std::move(device)), traffic_(traffic) {}
  std::string name() const override { return device_->name(); }
  std::string description() const override { return device_->description(); }
  std::unique_ptr<DeviceBuffer> allocate(size_t bytes) override { return device_->allocate(bytes); }
  std::unique_ptr<DeviceBuffer> wrap(std::span<const std::byte> memory) override { return device_->wrap(memory); }
  std::unique_ptr<Queue> open_queue(int threads) override {
    return std::make_unique<CountingQueue>(device_->open_queue(threads), traffic_);
  }

 private:
  std::shared_ptr<Backend> device_;
  Traffic& traffic_;
};

std::shared_ptr<Backend> cpu() { return open_backend("cpu"); }
std::shared_ptr<Backend> remote() { return toy::open_device(0); }

Program as_it_is(const Program& program) { return program; }
Program every_second(const Program& program) {
  return split_program(program, [](size_t step) { return step % 2 == 1; });
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const DeviceCase& device) { return out << device.name; }

Program split_program(const Program& program, const std::function<bool(size_t)>& there) {
  return Splitter(program).run(there);
}

std::shared_ptr<Backend> count_traffic(std::shared_ptr<Backend> device, Traffic& traffic) {
  return std::make_shared<CountingBackend>(std::move(device), traffic);
}

const std::vector<DeviceCase>& device_cases() {
  static const std::vector<DeviceCase> cases = {
      {"cpu", [] { return std::vector{cpu()}; }, as_it_is},
      {"remote", [] { return std::vector{remote()}; }, as_it_is},
      {"cpu_and_remote",
       [] {
         return std::vector{cpu(), remote()};
       },
       every_second},
      {"remote_and_cpu",
       [] {
         return std::vector{remote(), cpu()};
       },
       every_second},
      {"two_remotes",
       [] {
         return std::vector{remote(), remote()};
       },
       every_second},
  };
  return cases;
}

}  // namespace npusim::test
