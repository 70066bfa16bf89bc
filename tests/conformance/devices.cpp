// Programs split between two devices, and devices that count.
#include "conformance/devices.h"

#include <algorithm>
#include <map>
#include <set>

namespace npusim::test {
namespace {

class Splitter {
 public:
  explicit Splitter(const Program& program) : p_(program) {
    p_.devices.push_back(p_.devices[0]);
    for (Method& method : p_.methods) method.arenas.resize(2);
  }

  Program run(const std::function<bool(const Kernel&, size_t)>& there) {
    for (Method& method : p_.methods) split(method, there);
    drop_unnamed();
    return std::move(p_);
  }

 private:
  template <typename F>
  void each_id(F&& f) {
    for (Step& step : p_.recipes.steps) std::for_each(step.buffers.begin(), step.buffers.end(), f);
    for (Launch& launch : p_.recipes.launches) std::for_each(launch.args.begin(), launch.args.end(), f);
    for (Method& method : p_.methods) {
      for (Step& step : method.steps) std::for_each(step.buffers.begin(), step.buffers.end(), f);
      for (Launch& launch : method.launches) std::for_each(launch.args.begin(), launch.args.end(), f);
      for (std::vector<TensorSpec>* specs : {&method.inputs, &method.outputs})
        for (TensorSpec& spec : *specs) f(spec.buffer);
    }
  }

  // Weights that only the second device reads are its own: nobody names the first one's any more.
  void drop_unnamed() {
    std::vector<int32_t> to(p_.buffers.size(), -1);
    each_id([&](int32_t& id) {
      if (id >= 0) to[static_cast<size_t>(id)] = 0;
    });
    std::vector<Buffer> left;
    for (size_t i = 0; i < to.size(); ++i) {
      if (to[i] < 0) continue;
      to[i] = static_cast<int32_t>(left.size());
      left.push_back(std::move(p_.buffers[i]));
    }
    p_.buffers = std::move(left);
    each_id([&](int32_t& id) {
      if (id >= 0) id = to[static_cast<size_t>(id)];
    });
  }

  // Units are launches, or else steps.
  void split(Method& method, const std::function<bool(const Kernel&, size_t)>& there) {
    method_ = &method;
    current_.clear();
    const Sequence old = std::move(static_cast<Sequence&>(method));
    method.steps.clear();
    method.launches.clear();
    auto launch = old.launches.begin();
    for (size_t first = 0; first < old.steps.size();) {
      const bool launched = launch != old.launches.end() && static_cast<size_t>(launch->first) == first;
      const std::span unit = std::span(old.steps).subspan(first, launched ? static_cast<size_t>(launch->count) : 1);
      const Kernel& kernel = p_.kernels[static_cast<size_t>(unit[0].kernel)];
      const bool moves = there(kernel, first) &&
                         std::none_of(unit.begin(), unit.end(), [&](const Step& step) { return touches_state(step); });
      const size_t at = add(unit, moves ? 1 : 0);
      if (launched && !moves) {
        method.launches.push_back(*launch);
        method.launches.back().first = static_cast<int32_t>(at);
      }
      launch += launched;
      first += unit.size();
    }
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

  // The steps of a unit; where the first of them is now. What the unit computes itself is not brought.
  size_t add(std::span<const Step> unit, int32_t device) {
    std::set<int32_t> own;
    for (const Step& step : unit)
      each_argument(step, [&](const KernelArg& arg, int32_t id) {
        if (arg.written)
          own.insert(id);
        else if (!own.contains(id))
          bring(id, device, step.origins);
      });
    const size_t at = method_->steps.size();
    for (const Step& step : unit) {
      method_->steps.push_back(step);
      Step& added = method_->steps.back();
      added.device = device;
      if (device == 1)
        for (int32_t& id : added.buffers) id = twin(id);
    }
    for (int32_t id : own) current_[id] = {{device == 0, device == 1}};
    return at;
  }

  // In the order of the kernel's arguments: those that are read come first.
  template <typename F>
  void each_argument(const Step& step, F&& f) const {
    const Kernel& kernel = p_.kernels[static_cast<size_t>(step.kernel)];
    for (size_t a = 0; a < kernel.args.size(); ++a) f(kernel.args[a], step.buffers[a]);
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
      b.finite_for.clear();  // that was checked where it was prepared
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

}  // namespace

std::ostream& operator<<(std::ostream& out, const DeviceCase& device) { return out << device.name; }

Program split_program(const Program& program, const std::function<bool(const Kernel&, size_t)>& there) {
  return Splitter(program).run(there);
}

Program every_second_kernel_split(const Program& program) {
  return split_program(program, [](const Kernel&, size_t step) { return step % 2 == 1; });
}

std::shared_ptr<Backend> count_traffic(std::shared_ptr<Backend> device, Traffic& traffic) {
  return std::make_shared<CountingBackend>(std::move(device), traffic);
}

std::vector<DeviceCase> lone_device_cases() {
  std::vector<DeviceCase> cases;
  for (const DeviceCase& device : device_cases())
    if (device.open().size() == 1) cases.push_back(device);
  return cases;
}

}  // namespace npusim::test
