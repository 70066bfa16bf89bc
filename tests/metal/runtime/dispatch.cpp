// Dispatches: argument checks, the loop over threadgroups, faults on guard pages turned into errors.
#include <dlfcn.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "group.h"

namespace mslx {
namespace {

char fault_text[256];
thread_local bool in_kernel = false;

void on_fault(int signal_number, siginfo_t* info, void*) {
  if (!in_kernel || !execution) {
    signal(signal_number, SIG_DFL);
    return;
  }
  const Fiber* f = execution->current;
  snprintf(fault_text, sizeof fault_text, "out-of-bounds buffer access at %p in %s", info->si_addr,
           f ? describe(*f).c_str() : "a kernel without barriers");
  siglongjmp(execution->fault, 1);
}

void catch_faults() {
#if !defined(MSLX_ASAN) && !defined(MSLX_TSAN)
  static const bool installed = [] {
    static char stack[65536];
    stack_t alternative{};
    alternative.ss_sp = stack;
    alternative.ss_size = sizeof stack;
    sigaltstack(&alternative, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
    return true;
  }();
  (void)installed;
#else
  (void)on_fault;
#endif
}

std::string check_bindings(const mslx_kernel_desc& k, Extent threadgroup, const Bindings& b, const Options& o) {
  const unsigned threads = threadgroup.x * threadgroup.y * threadgroup.z;
  if (threads == 0 || threads > o.max_threads)
    return "threads per threadgroup " + std::to_string(threads) + " outside 1.." + std::to_string(o.max_threads);
  bool used[31] = {};
  for (int i = 0; i < k.nparams; ++i) {
    const mslx_param_desc& p = k.params[i];
    const bool optional = p.attr && p.attr[0];
    if (p.kind == 0) {
      used[p.index] = true;
      if (!b.bound[p.index] && !optional) return "buffer " + std::to_string(p.index) + " ('" + p.name + "') not bound";
      if (reinterpret_cast<uintptr_t>(b.buffers[p.index]) % 4) return "buffer offset not 4-byte aligned";
    } else if (p.kind == 1) {
      const size_t bytes = b.threadgroup_bytes[p.index];
      if (!bytes) return "setThreadgroupMemoryLength missing for index " + std::to_string(p.index);
      if (bytes % 16) return "threadgroup memory length must be a multiple of 16";
    }
  }
  for (int i = 0; i < 31; ++i)
    if (b.bound[i] && !used[i]) return "buffer " + std::to_string(i) + " bound but the kernel has no such parameter";
  return {};
}

// One dispatch: what all its workers share.
struct Dispatch {
  const mslx_kernel_desc* kernel;
  Extent grid, groups, threadgroup;
  const Bindings& bindings;
  const Options& options;
  bool exact;  // threadgroups at the edge are cut to the grid
  std::vector<unsigned> order;
  std::atomic<unsigned> next{0};
  unsigned total = 0;
};

mslx_call call_of(const Dispatch& d, unsigned group, Execution& e) {
  mslx_call c{};
  c.buf = d.bindings.buffers;
  c.tgm = e.threadgroup;
  const unsigned at[3] = {group % d.groups.x, group / d.groups.x % d.groups.y, group / (d.groups.x * d.groups.y)};
  const unsigned size[3] = {d.threadgroup.x, d.threadgroup.y, d.threadgroup.z};
  const unsigned count[3] = {d.groups.x, d.groups.y, d.groups.z}, all[3] = {d.grid.x, d.grid.y, d.grid.z};
  for (int i = 0; i < 3; ++i) {
    c.tgpig[i] = at[i];
    c.tgpg[i] = count[i];
    c.tpg[i] = all[i];
    c.tpig[i] = at[i] * size[i];
    c.tptg[i] = d.exact ? std::min(size[i], all[i] - at[i] * size[i]) : size[i];
  }
  return c;
}

void run_groups(Dispatch& d, Execution& e) {
  for (;;) {
    const unsigned turn = d.next++;
    if (turn >= d.total) return;
    run_group(e, call_of(d, d.order.empty() ? turn : d.order[turn], e));
    if (!e.failure.empty()) d.next = d.total;
  }
}

void work(Dispatch& d, Execution& e, unsigned worker) {
  e.kernel = d.kernel;
  e.options = d.options;
  e.random.seed(d.options.seed + worker);
  e.reserve(d.threadgroup.x * d.threadgroup.y * d.threadgroup.z);
  std::fill(e.threadgroup_offset, e.threadgroup_offset + 31, ~size_t{0});
  for (unsigned i = 0; i < 31; ++i) {
    if (!d.bindings.threadgroup_bytes[i]) continue;
    char* memory = e.allocate(dynamic_site + i, d.bindings.threadgroup_bytes[i]);
    e.threadgroup[i] = memory;
    e.threadgroup_offset[i] = static_cast<size_t>(memory - e.arena);
  }
  const unsigned control = _mm_getcsr();
  if (d.options.flush_subnormals) _mm_setcsr(control | 0x8040);
  execution = &e;
  in_kernel = true;
  if (sigsetjmp(e.fault, 0) == 0) {
    run_groups(d, e);
  } else {
    e.failure = fault_text;
    d.next = d.total;
  }
  acquire(&e.sync[1]);
  in_kernel = false;
  execution = nullptr;
  _mm_setcsr(control);
  for (const auto& [site, block] : e.blocks) e.result.threadgroup_bytes += (block.bytes + 15) & ~size_t{15};
}

Result run(const mslx_kernel_desc* k, Extent grid, Extent groups, Extent threadgroup, const Bindings& b,
           const Options& o, bool exact) {
  Result result;
  if (!k) {
    result.error = "no such kernel";
    return result;
  }
  result.error = check_bindings(*k, threadgroup, b, o);
  if (!result.error.empty()) {
    result.error = std::string(k->name) + ": " + result.error;
    return result;
  }
  catch_faults();
  fault_text[0] = 0;
  Dispatch d{.kernel = k,
             .grid = grid,
             .groups = groups,
             .threadgroup = threadgroup,
             .bindings = b,
             .options = o,
             .exact = exact,
             .order = {}};
  d.total = groups.x * groups.y * groups.z;
  if (o.order != Order::forward) {
    for (unsigned i = 0; i < d.total; ++i) d.order.push_back(o.order == Order::reverse ? d.total - 1 - i : i);
    std::mt19937_64 random(o.seed);
    if (o.order == Order::random) std::shuffle(d.order.begin(), d.order.end(), random);
  }
  std::vector<std::unique_ptr<Execution>> executions;
  std::vector<std::thread> workers;
  for (int w = 0; w < std::max(1, o.workers); ++w) executions.push_back(std::make_unique<Execution>());
  if (executions.size() == 1)
    work(d, *executions[0], 0);
  else
    for (unsigned w = 0; w < executions.size(); ++w) workers.emplace_back([&, w] { work(d, *executions[w], w); });
  for (std::thread& worker : workers) worker.join();
  for (const auto& e : executions) {
    if (!e->failure.empty() && result.error.empty()) result.error = std::string(k->name) + ": " + e->failure;
    result.switches += e->result.switches;
    result.barriers += e->result.barriers;
    result.simd_ops += e->result.simd_ops;
    result.threadgroup_bytes = std::max(result.threadgroup_bytes, e->result.threadgroup_bytes);
    result.flat |= e->result.flat;
  }
  if (result.ok() && result.threadgroup_bytes > o.threadgroup_bytes)
    result.error = std::string(k->name) + ": threadgroup memory " + std::to_string(result.threadgroup_bytes) + " > " +
                   std::to_string(o.threadgroup_bytes);
  return result;
}

}  // namespace

Result dispatch_threads(const mslx_kernel_desc* k, Extent g, Extent t, const Bindings& b, const Options& o) {
  auto groups = [](unsigned all, unsigned size) { return size ? (all + size - 1) / size : 0; };
  return run(k, g, {groups(g.x, t.x), groups(g.y, t.y), groups(g.z, t.z)}, t, b, o, true);
}

Result dispatch_groups(const mslx_kernel_desc* k, Extent n, Extent t, const Bindings& b, const Options& o) {
  return run(k, {n.x * t.x, n.y * t.y, n.z * t.z}, n, t, b, o, false);
}

Bindings& Bindings::buffer(int index, void* memory) {
  buffers[index] = memory;
  bound[index] = true;
  return *this;
}
Bindings& Bindings::threadgroup(int index, size_t bytes) {
  threadgroup_bytes[index] = bytes;
  return *this;
}

Library load(const std::string& shared_object) {
  Library library;
  library.handle = dlopen(shared_object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library.handle) library.kernels = static_cast<const mslx_kernel_desc*>(dlsym(library.handle, "mslx_kernels"));
  if (!library.kernels) library.error = dlerror();
  return library;
}

const mslx_kernel_desc* Library::find(const std::string& name) const {
  for (const mslx_kernel_desc* k = kernels; k && k->name; ++k)
    if (name == k->name) return k;
  return nullptr;
}

GuardedBuffer::GuardedBuffer(size_t bytes, size_t align) {
  constexpr size_t page = 4096;
  mapped_ = ((bytes + align + page - 1) & ~(page - 1)) + 2 * page;
  map_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* end = static_cast<char*>(map_) + mapped_ - page;
  mprotect(map_, page, PROT_NONE);
  mprotect(end, page, PROT_NONE);
  data_ = end - ((bytes + align - 1) & ~(align - 1));
  memset(data_, 0xff, bytes);
}

GuardedBuffer::~GuardedBuffer() { munmap(map_, mapped_); }

}  // namespace mslx
