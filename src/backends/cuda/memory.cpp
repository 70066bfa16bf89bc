// Contexts, allocations, code, uploads.
#include "backends/cuda/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/threads.h"

namespace npusim::cuda {
namespace {

constexpr size_t slot_bytes = size_t{16} << 20;  // so large that waking the threads that fill it counts for little
constexpr int64_t copied_by_a_thread = 1 << 20;  // bytes, at least
constexpr int capability_major = 75, capability_minor = 76;  // device attributes

int attribute(int device, int which) {
  int value = 0;
  check(driver().device_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

// The driver is told no size: the image's own headers must not reach beyond it.
bool is_whole_elf(std::span<const std::byte> image) {
  const auto read = [&](size_t at, auto value) {
    std::memcpy(&value, image.data() + at, sizeof value);
    return value;
  };
  constexpr size_t header = 64;
  if (image.size() < header || std::memcmp(image.data(), "\177ELF\2\1", 6) != 0) return false;
  const auto within = [&](uint64_t at, uint64_t size) { return at <= image.size() && size <= image.size() - at; };
  const auto programs = read(32, uint64_t{}), sections = read(40, uint64_t{});
  const auto program_size = read(54, uint16_t{}), program_count = read(56, uint16_t{});
  const auto section_size = read(58, uint16_t{}), section_count = read(60, uint16_t{});
  if (!within(programs, uint64_t{program_size} * program_count)) return false;
  if (section_size != 64 || !within(sections, uint64_t{section_size} * section_count)) return false;
  for (size_t i = 0; i < section_count; ++i) {
    const size_t at = sections + i * section_size;
    constexpr uint32_t without_bytes = 8;  // SHT_NOBITS
    if (read(at + 4, uint32_t{}) != without_bytes && !within(read(at + 24, uint64_t{}), read(at + 32, uint64_t{})))
      return false;
  }
  return true;
}

}  // namespace

LoadedModule::~LoadedModule() {
  if (driver().push_context(context) != 0) return;
  driver().unload_module(handle);
  Context popped = nullptr;
  driver().pop_context(&popped);
}

DeviceFacts ask_device(int index) {
  const Driver& d = driver();
  int count = 0;
  check(d.device_count(&count), "cuDeviceGetCount");
  if (index >= count) fail(ErrorKind::device, "cuda:{}: this machine has {} CUDA devices", index, count);
  DeviceFacts facts;
  check(d.device(&facts.handle, index), "cuDeviceGet");
  facts.architecture = {attribute(facts.handle, capability_major), attribute(facts.handle, capability_minor), 0};
  constexpr int multiprocessor_count = 16, shared_bytes_of_one = 81;
  facts.multiprocessors = static_cast<uint64_t>(attribute(facts.handle, multiprocessor_count));
  facts.shared_bytes = static_cast<uint32_t>(attribute(facts.handle, shared_bytes_of_one));
  char text[256] = {};
  check(d.device_name(text, sizeof text - 1, facts.handle), "cuDeviceGetName");
  size_t bytes = 0;
  check(d.device_memory(&bytes, facts.handle), "cuDeviceTotalMem");
  facts.description = fmt::format("{}, sm_{}, {:.1f} GiB", text, to_string(facts.architecture),
                                  static_cast<double>(bytes) / static_cast<double>(size_t{1} << 30));
  return facts;
}

Device::Device(int index) : name_(fmt::format("cuda:{}", index)), facts_(ask_device(index)) {
  check(driver().retain_context(&context_, facts_.handle), "cuDevicePrimaryCtxRetain");
}

Device::~Device() { driver().release_context(facts_.handle); }

std::shared_ptr<const LoadedModule> Device::load(const Code& code, const std::string& where) {
  const std::string image(reinterpret_cast<const char*>(code.bytes.data()), code.bytes.size());  // ends in a zero
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const LoadedModule>& known = modules_[{hash_bytes(image), image.size()}];
  if (auto module = known.lock()) return module;
  if (code.format == "cubin" && !is_whole_elf(code.bytes))
    fail(ErrorKind::bad_input, "cuda: {} is damaged: expected a whole ELF image", where);
  if (code.format == "ptx" && image.find('\0') != std::string::npos)
    fail(ErrorKind::bad_input, "cuda: {} is damaged: expected text, found a zero", where);
  const Current current(context_);
  auto module = std::make_shared<LoadedModule>();
  // What the PTX compiler has to say.
  char log[4096] = {};
  int options[] = {5, 6};  // CU_JIT_ERROR_LOG_BUFFER and its size
  void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
  const Status status = driver().load_module(&module->handle, image.c_str(), 2, options, values);
  if (status != 0) {
    module->handle = nullptr;
    const std::string said = log[0] ? fmt::format("\n{}", log) : "";
    const std::string text = status_text("cuModuleLoadData", status);
    // What is not as the format says, or names what is not there.
    constexpr Status invalid_value = 1, invalid_image = 200, no_binary = 209, invalid_ptx = 218, unsupported = 222,
                     invalid_source = 300, not_found = 500;
    const Status bad[] = {invalid_value, invalid_image, no_binary, invalid_ptx, unsupported, invalid_source, not_found};
    const bool is_bad = std::find(std::begin(bad), std::end(bad), status) != std::end(bad);
    fail(is_bad ? ErrorKind::bad_input : ErrorKind::device, "{}: {} does not load: {}{}", name_, where, text, said);
  }
  module->context = context_;
  known = module;
  return module;
}

CudaBuffer::CudaBuffer(const Device& device, size_t bytes) : device_(device), bytes_(bytes) {
  const Current current(device.context());
  const Status status = driver().allocate(&address_, std::max<size_t>(bytes, 1));
  if (status == out_of_memory) {
    size_t free = 0, total = 0;
    driver().memory_info(&free, &total);
    fail(ErrorKind::device, "{}: out of memory: expected {} bytes, found {} free of {}", device.name(), bytes, free,
         total);
  }
  check(status, "cuMemAlloc");
}

CudaBuffer::~CudaBuffer() {
  if (driver().push_context(device_.context()) != 0) return;
  driver().release(address_);
  Context popped = nullptr;
  driver().pop_context(&popped);
}

PinnedMemory::PinnedMemory(const Device& device, size_t bytes) : device_(device) {
  const Current current(device.context());
  void* data = nullptr;
  check(driver().allocate_host(&data, bytes), "cuMemAllocHost");
  data_ = static_cast<std::byte*>(data);
}

PinnedMemory::~PinnedMemory() {
  if (driver().push_context(device_.context()) != 0) return;
  driver().release_host(data_);
  Context popped = nullptr;
  driver().pop_context(&popped);
}

Staging::~Staging() {
  if (!slots_[0].memory || driver().push_context(device_.context()) != 0) return;
  for (Slot& slot : slots_) {
    if (!slot.done) continue;
    driver().wait_event(slot.done);
    driver().destroy_event(slot.done);
  }
  Context popped = nullptr;
  driver().pop_context(&popped);
}

void Staging::make() {
  for (Slot& slot : slots_) {
    if (!slot.memory) slot.memory = std::make_unique<PinnedMemory>(device_, slot_bytes);
    constexpr unsigned without_timing = 2;
    if (!slot.done) check(driver().create_event(&slot.done, without_timing), "cuEventCreate");
  }
}

void Staging::upload(std::span<const std::byte> from, DevicePointer to, Stream stream) {
  const std::lock_guard lock(mutex_);
  make();
  const Driver& d = driver();
  for (size_t at = 0; at < from.size(); at += slot_bytes) {
    const Slot& slot = slots_[next_];
    next_ = (next_ + 1) % std::size(slots_);
    const size_t bytes = std::min(slot_bytes, from.size() - at);
    check(d.wait_event(slot.done), "cuEventSynchronize");  // of what was last read from it
    parallel_for(static_cast<int64_t>(bytes), copied_by_a_thread, [&](int64_t begin, int64_t end, int) {
      std::memcpy(slot.memory->data() + begin, from.data() + at + static_cast<size_t>(begin),
                  static_cast<size_t>(end - begin));
    });
    check(d.to_device(to + at, slot.memory->data(), bytes, stream), "cuMemcpyHtoDAsync");
    check(d.record_event(slot.done, stream), "cuEventRecord");
  }
}

}  // namespace npusim::cuda
