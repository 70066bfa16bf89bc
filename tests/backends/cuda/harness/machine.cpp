// Launches through the driver, and through the emulator's runtime.
#include "backends/cuda/harness/machine.h"

#include <dlfcn.h>

#include <cstring>

#include "backends/cuda/device.h"
#include "backends/cuda/memory.h"
#include "backends/cuda/target_compile.h"
#include "print/print.h"

namespace npusim {

struct TextRunner::Gpu {
  cuda::Device device{0};
  std::vector<std::shared_ptr<const cuda::LoadedModule>> modules;

  cuda::Function find(const std::string& symbol) const {
    cuda::Function function = nullptr;
    for (const auto& module : modules)
      if (cuda::driver().find_function(&function, module->handle, symbol.c_str()) == 0) return function;
    return nullptr;
  }
};

TextRunner::TextRunner(const std::vector<cuda::Source>& functions) {
  if (!cuda::probe_device().usable) {
    std::string all;
    for (const cuda::Source& f : functions) all += f.text;
    library_ = compile_on_cpu(all);
    error_ = library_.error;
    return;
  }
  gpu_ = std::make_unique<Gpu>();
  const bool hopper = to_string(gpu_->device.architecture()).starts_with("90");
  const std::vector<std::string> architectures{hopper ? "sm_90a" : "sm_80"};
  constexpr size_t of_a_text = 4;
  std::vector<std::vector<cuda::Source>> texts;
  for (const cuda::Source& f : functions) {
    if (texts.empty() || texts.back().size() == of_a_text) texts.emplace_back();
    texts.back().push_back(f);
  }
  const cuda::Current current(gpu_->device.context());
  try {
    for (const CodeSet& set : cuda::compile_texts(texts, architectures).sets)
      gpu_->modules.push_back(gpu_->device.load(set.at(0), "printed"));
  } catch (const std::exception& e) {
    error_ = e.what();
  }
}

TextRunner::~TextRunner() = default;

std::string TextRunner::run(const Kernel& kernel, const cuda::codegen::GeneratedKernel& made,
                            std::vector<HostTensor>& memory, mslx::Order order, const std::vector<bool>& ahead) {
  std::vector<size_t> owner(memory.size());
  for (size_t i = 0; i < memory.size(); ++i)
    owner[i] = kernel.args[i].updates < 0 ? i : static_cast<size_t>(kernel.args[i].updates);
  int trap = 0;
  const auto trapped = [&] { return trap == 0 ? "" : made.traps[static_cast<size_t>(trap) - 1]; };
  if (gpu_) {
    const cuda::Driver& d = cuda::driver();
    const cuda::Current current(gpu_->device.context());
    const cuda::Function function = gpu_->find(made.symbol);
    if (!function) return "no function " + made.symbol;
    constexpr int most_shared_bytes = 8;
    cuda::check(d.set_function_attribute(function, most_shared_bytes, static_cast<int>(made.shared_bytes)),
                "cuFuncSetAttribute");
    std::vector<std::unique_ptr<cuda::CudaBuffer>> buffers;
    std::vector<cuda::DevicePointer> addresses;
    for (size_t i = 0; i < memory.size(); ++i) {
      buffers.push_back(std::make_unique<cuda::CudaBuffer>(gpu_->device, std::max<size_t>(memory[i].data.size(), 1)));
      addresses.push_back(buffers[owner[i]]->at(0));
      if (owner[i] == i)
        cuda::check(d.to_device(addresses[i], memory[i].data.data(), memory[i].data.size(), nullptr), "cuMemcpyHtoD");
    }
    buffers.push_back(std::make_unique<cuda::CudaBuffer>(gpu_->device, sizeof trap));
    cuda::check(d.set_bytes(buffers.back()->at(0), 0, sizeof trap, nullptr), "cuMemsetD8");
    if (!made.traps.empty()) addresses.push_back(buffers.back()->at(0));
    std::vector<void*> parameters;
    for (cuda::DevicePointer& address : addresses) parameters.push_back(&address);
    cuda::check(
        d.launch(function, static_cast<unsigned>(made.shape.blocks), 1, 1, static_cast<unsigned>(made.shape.threads), 1,
                 1, static_cast<unsigned>(made.shared_bytes), nullptr, parameters.data(), nullptr),
        "cuLaunchKernel");
    for (size_t i = 0; i < memory.size(); ++i)
      cuda::check(d.to_host(memory[i].data.data(), addresses[i], memory[i].data.size(), nullptr), "cuMemcpyDtoH");
    cuda::check(d.to_host(&trap, buffers.back()->at(0), sizeof trap, nullptr), "cuMemcpyDtoH");
    cuda::check(d.wait_stream(nullptr), "cuStreamSynchronize");
    return trapped();
  }
  std::vector<std::unique_ptr<mslx::GuardedBuffer>> buffers;  // of bytes 0xff
  mslx::Bindings bindings;
  struct Late {
    void* memory;
    const void* contents;
    unsigned long bytes;
  };
  auto* const late = static_cast<Late*>(dlsym(library_.handle, "harness_late"));
  int& late_count = *static_cast<int*>(dlsym(library_.handle, "harness_late_count"));
  late_count = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    buffers.push_back(std::make_unique<mslx::GuardedBuffer>(memory[i].data.size(), 16));
    if (owner[i] == i && ahead[i]) std::memcpy(buffers[i]->data(), memory[i].data.data(), memory[i].data.size());
    if (owner[i] == i && !ahead[i])
      late[late_count++] = {buffers[i]->data(), memory[i].data.data(), memory[i].data.size()};
    bindings.buffer(static_cast<int>(i), buffers[owner[i]]->data());
  }
  if (!made.traps.empty()) bindings.buffer(static_cast<int>(memory.size()), &trap);
  if (made.shared_bytes) bindings.threadgroup(0, static_cast<size_t>(made.shared_bytes));
  mslx::Options options;
  options.order = order;
  if (made.pieces > 1) {  // as many blocks at a time, which must be those of one cluster
    options.workers = made.pieces;
    if (order == mslx::Order::random) options.order = mslx::Order::reverse;
  }
  options.force_fibers = true;
  options.flush_subnormals = false;
  options.threadgroup_bytes = 227 << 10;
  const mslx::Result result =
      mslx::dispatch_groups(library_.find(made.symbol), {static_cast<unsigned>(made.shape.blocks), 1, 1},
                            {static_cast<unsigned>(made.shape.threads), 1, 1}, bindings, options);
  if (late_count != 0 && made.shape.blocks != 0) return "no thread waited for what precedes the launch";
  for (size_t i = 0; i < memory.size(); ++i)
    std::memcpy(memory[i].data.data(), bindings.buffers[i], memory[i].data.size());
  return result.ok() ? trapped() : result.error;
}

}  // namespace npusim
