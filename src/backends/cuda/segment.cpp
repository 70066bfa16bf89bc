// From launches of a program to a graph, and what their trap words say.
#include "backends/cuda/segment.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace npusim::cuda {
namespace {

std::string code_name(const Code& code) { return fmt::format("{} {}", code.format, code.architecture); }

// Machine code for 9.0 and later knows how to wait for what precedes it; PTX for less, compiled for such a device, not.
bool can_wait(const Code& code) {
  const auto a = parse_architecture(code.architecture, code.format == "cubin" ? "sm_" : "compute_");
  return a && a->major >= 9;
}

}  // namespace

int fit(const Code& code, const Architecture& device) {
  const auto rank = [](const Architecture& a) { return 10 * (10 * a.major + a.minor) + (a.feature != 0); };
  constexpr int machine_code = 1 << 16;
  if (code.format == "cubin") {
    const auto a = parse_architecture(code.architecture, "sm_");
    return a && runs_machine_code(device, *a) ? machine_code + rank(*a) : 0;
  }
  const auto a = parse_architecture(code.architecture, "compute_");
  return code.format == "ptx" && a && compiles_ptx(device, *a) ? rank(*a) : 0;
}

CudaSegment::CudaSegment(Device& device, Work& work, const StepRange& range, std::span<const Placement> placements)
    : first_(range.first), device_(device), work_(work), code_(range.program.code.size()) {
  size_t next = range.first;
  for (const Launch& launch : range.sequence.launches) {
    const auto first = static_cast<size_t>(launch.first);
    if (first < range.first || first >= range.first + range.count) continue;
    launches_.push_back(bind(launch, range.program, placements));
    next = first == next ? first + static_cast<size_t>(launch.count) : range.first;
  }
  if (next != range.first + range.count)
    fail(ErrorKind::bad_input, "cuda: the program was not compiled for this device: it has no launches for it");
  work_.pending.reserve(work_.segments + 1);
  try {
    if (traps_ > 0) {
      const size_t bytes = static_cast<size_t>(traps_) * sizeof(int);
      trap_words_ = std::make_unique<PinnedMemory>(device_, bytes);
      std::fill_n(reinterpret_cast<int*>(trap_words_->data()), traps_, 0);
      const std::byte* const words = trap_words_->data();
      for (BoundLaunch& l : launches_)
        if (l.trap >= 0)
          for (DevicePointer& address : l.addresses)
            if (address == 0)
              address = reinterpret_cast<DevicePointer>(words + static_cast<size_t>(l.trap) * sizeof(int));
    }
    for (BoundLaunch& l : launches_)
      for (DevicePointer& address : l.addresses) l.parameters.push_back(&address);
    graph_ = record({});
  } catch (...) {
    release();
    throw;
  }
  ++work_.segments;
}

CudaSegment::~CudaSegment() {
  --work_.segments;
  if (driver().push_context(device_.context()) != 0) return;
  driver().wait_stream(work_.stream);
  std::erase(work_.pending, this);
  release();
  Context popped = nullptr;
  driver().pop_context(&popped);
}

void CudaSegment::release() {
  for (GraphExec* graph : {&graph_, &timed_}) {
    if (*graph) driver().destroy_graph_exec(*graph);
    *graph = nullptr;
  }
  for (Event event : events_) driver().destroy_event(event);
  events_.clear();
}

const CudaSegment::LoadedCode& CudaSegment::load(const Program& program, size_t number) {
  LoadedCode& loaded = code_[number];
  if (loaded.module) return loaded;
  const Code* best = nullptr;
  for (const Code& code : program.code[number]) {
    const int fits = fit(code, device_.architecture());
    if (fits > (best ? fit(*best, device_.architecture()) : 0)) best = &code;
  }
  if (!best) {
    std::vector<std::string> found;
    for (const Code& code : program.code[number]) found.push_back(code_name(code));
    for (const Variant& variant : program.variants)
      if (!variant.code.empty())
        for (const Code& code : variant.code[0]) found.push_back(code_name(code));
    const std::string mine = to_string(device_.architecture());
    fail(ErrorKind::bad_input, "{}: the program has no code for sm_{}: found {}; compile with --target cuda:sm_{}",
         device_.name(), mine, found.empty() ? "none" : fmt::format("{}", fmt::join(found, ", ")), mine);
  }
  loaded.name = fmt::format("code {} ({})", number, code_name(*best));
  loaded.module = device_.load(*best, loaded.name);
  loaded.waits = can_wait(*best);
  return loaded;
}

CudaSegment::BoundLaunch CudaSegment::bind(const Launch& launch, const Program& program,
                                           std::span<const Placement> placements) {
  const LoadedCode& code = load(program, static_cast<size_t>(launch.code));
  BoundLaunch bound;
  bound.first = static_cast<size_t>(launch.first);
  bound.symbol = launch.symbol;
  bound.info = {fmt::format("{}{}{} {}x{}", launch.how, launch.how.empty() ? "" : ": ", launch.symbol, launch.grid[0],
                            launch.block[0]),
                launch.declined};
  bound.grid = launch.grid;
  bound.block = launch.block;
  bound.shared_bytes = launch.shared_bytes;
  bound.together = launch.together;
  bound.early = launch.early && code.waits && driver().launch_with;
  constexpr Status not_found = 500;
  const Status status = driver().find_function(&bound.function, code.module->handle, launch.symbol.c_str());
  if (status == not_found)
    fail(ErrorKind::bad_input, "cuda: there is no function '{}' in {}", launch.symbol, code.name);
  check(status, "cuModuleGetFunction");
  for (int32_t arg : launch.args) {
    if (arg == trap_word) {
      bound.trap = traps_++;
      bound.traps = launch.traps;
      bound.addresses.push_back(0);  // set when all words are counted
    } else if (arg == own_memory) {
      own_.push_back(std::make_unique<CudaBuffer>(device_, static_cast<size_t>(launch.own_bytes)));
      bound.addresses.push_back(own_.back()->at(0));
      check(driver().set_bytes(own_.back()->at(0), 0, own_.back()->bytes(), work_.stream), "cuMemsetD8Async");
    } else {
      bound.addresses.push_back(address_of(placements[static_cast<size_t>(arg)]));
    }
  }
  // Blocks that start early would crowd where what precedes them leaves room: with half of a multiprocessor's shared
  // memory each has one for itself.
  const uint64_t blocks = uint64_t{bound.grid[0]} * bound.grid[1] * bound.grid[2];
  if (bound.early && bound.shared_bytes > 0 && blocks <= device_.facts().multiprocessors)
    bound.shared_bytes = std::max(bound.shared_bytes, device_.facts().shared_bytes / 2);
  check_function(bound);
  allow_shared(bound);
  if (bound.together) fit_together(bound);
  return bound;
}

// What a launch could not be told from: the driver takes pointers to parameters and no number of them.
void CudaSegment::check_function(const BoundLaunch& launch) const {
  int threads = 0;
  constexpr int most_threads = 0;  // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
  check(driver().function_attribute(&threads, most_threads, launch.function), "cuFuncGetAttribute");
  const uint64_t wanted = uint64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  if (wanted > static_cast<uint64_t>(threads))
    fail(ErrorKind::bad_input, "cuda: function '{}' runs at most {} threads in a block, its launch has {}",
         launch.symbol, threads, wanted);
  if (!driver().parameter) return;
  size_t number = 0, count = 0, offset = 0, size = 0;  // of parameters, each a pointer or several
  while (driver().parameter(launch.function, number, &offset, &size) == 0) {
    if (size == 0 || size % sizeof(DevicePointer) != 0)
      fail(ErrorKind::bad_input, "cuda: function '{}' takes a parameter of {} bytes, expected pointers", launch.symbol,
           size);
    count += size / sizeof(DevicePointer);
    ++number;
  }
  if (count != launch.addresses.size())
    fail(ErrorKind::bad_input, "cuda: function '{}' takes {} pointers, its launch has {}", launch.symbol, count,
         launch.addresses.size());
}

// What a block has without asking is less than what it can have.
void CudaSegment::allow_shared(const BoundLaunch& launch) const {
  constexpr uint32_t without_asking = 48 << 10;
  if (launch.shared_bytes <= without_asking) return;
  constexpr int most_shared_bytes = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  const Status status =
      driver().set_function_attribute(launch.function, most_shared_bytes, static_cast<int>(launch.shared_bytes));
  if (status != 0)
    fail(ErrorKind::bad_input, "cuda: function '{}' asks for {} bytes shared in a block: {}", launch.symbol,
         launch.shared_bytes, status_text("cuFuncSetAttribute", status));
}

// As many blocks as can run at the same time.
void CudaSegment::fit_together(BoundLaunch& launch) const {
  const int each = static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]);
  int blocks = 0;
  check(driver().blocks_at_once(&blocks, launch.function, each, launch.shared_bytes),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  const uint64_t most = static_cast<uint64_t>(blocks) * device_.facts().multiprocessors;
  if (most < 1 || launch.grid[1] != 1 || launch.grid[2] != 1)
    fail(ErrorKind::bad_input, "cuda: no block of function '{}' fits on a multiprocessor", launch.symbol);
  launch.grid[0] = static_cast<uint32_t>(std::min<uint64_t>(launch.grid[0], most));
}

void CudaSegment::launch(const BoundLaunch& l, bool early) const {
  if (l.grid[0] == 0 || l.grid[1] == 0 || l.grid[2] == 0) return;
  auto** parameters = const_cast<void**>(l.parameters.data());
  Status status = 0;
  if (l.together) {
    status = driver().launch_together(l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2],
                                      l.shared_bytes, work_.stream, parameters);
  } else if (early && l.early) {
    LaunchAttribute starts_early;
    const LaunchConfig config{{l.grid[0], l.grid[1], l.grid[2]},
                              {l.block[0], l.block[1], l.block[2]},
                              l.shared_bytes,
                              work_.stream,
                              &starts_early,
                              1};
    status = driver().launch_with(&config, l.function, parameters, nullptr);
  } else {
    status = driver().launch(l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0], l.block[1], l.block[2],
                             l.shared_bytes, work_.stream, parameters, nullptr);
  }
  if (status != 0)
    fail(ErrorKind::device, "{}: '{}' in {}x{}x{} blocks: {}", device_.name(), l.symbol, l.grid[0], l.grid[1],
         l.grid[2], status_text("cuLaunchKernel", status));
}

GraphExec CudaSegment::record(const std::vector<Event>& events) const {
  const Driver& d = driver();
  constexpr int this_thread = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may do what they like
  check(d.begin_capture(work_.stream, this_thread), "cuStreamBeginCapture");
  Graph graph = nullptr;
  size_t next = 0;
  const auto mark = [&] {
    constexpr unsigned external = 1;  // CU_EVENT_RECORD_EXTERNAL: a node that records, not an edge
    if (!events.empty()) check(d.record_event_with(events[next++], work_.stream, external), "cuEventRecordWithFlags");
  };
  try {
    for (const BoundLaunch& l : launches_) {
      mark();
      launch(l, events.empty());
    }
    mark();
  } catch (...) {
    d.end_capture(work_.stream, &graph);
    if (graph) d.destroy_graph(graph);
    throw;
  }
  check(d.end_capture(work_.stream, &graph), "cuStreamEndCapture");
  GraphExec exec = nullptr;
  Status status = d.instantiate(&exec, graph, 0);
  d.destroy_graph(graph);
  check(status, "cuGraphInstantiate");
  status = d.upload_graph(exec, work_.stream);  // or the first run would
  if (status != 0) d.destroy_graph_exec(exec);
  check(status, "cuGraphUpload");
  return exec;
}

void CudaSegment::mark() {
  if (traps_ == 0 || pending_) return;
  pending_ = true;
  work_.pending.push_back(this);
}

void CudaSegment::enqueue() {
  const Current current(device_.context());
  check(driver().launch_graph(graph_, work_.stream), "cuGraphLaunch");
  mark();
}

void CudaSegment::enqueue_step(size_t step) {
  const Current current(device_.context());
  for (const BoundLaunch& l : launches_) {
    if (l.first != step) continue;
    launch(l, false);
  }
  mark();
}

bool CudaSegment::time_steps(std::span<double> ms) {
  const Current current(device_.context());
  if (!timed_) {
    while (events_.size() <= launches_.size()) {
      Event event = nullptr;
      check(driver().create_event(&event, 0), "cuEventCreate");
      events_.push_back(event);
    }
    timed_ = record(events_);
  }
  check(driver().launch_graph(timed_, work_.stream), "cuGraphLaunch");
  mark();
  work_.wait();
  std::fill(ms.begin(), ms.end(), 0.0);
  for (size_t i = 0; i < launches_.size(); ++i) {
    float elapsed = 0;
    check(driver().elapsed(&elapsed, events_[i], events_[i + 1]), "cuEventElapsedTime");
    ms[launches_[i].first - first_] = elapsed;
  }
  return true;
}

StepInfo CudaSegment::step_info(size_t step) const {
  const auto after = std::upper_bound(launches_.begin(), launches_.end(), step,
                                      [](size_t value, const BoundLaunch& l) { return value < l.first; });
  const BoundLaunch& l = *(after - 1);
  return l.info;
}

std::string CudaSegment::take_trap() {
  int* words = reinterpret_cast<int*>(trap_words_->data());
  if (std::all_of(words, words + traps_, [](int word) { return word == 0; })) return {};
  std::string problem;
  for (const BoundLaunch& l : launches_) {
    if (l.trap < 0 || words[l.trap] == 0) continue;
    const auto number = static_cast<size_t>(words[l.trap]);
    problem = number <= l.traps.size() ? l.traps[number - 1] : fmt::format("{}: unknown trap {}", l.symbol, number);
    break;
  }
  std::fill_n(words, traps_, 0);
  return problem;
}

void Work::wait() {
  const Status status = driver().wait_stream(stream);
  std::string problem;
  for (CudaSegment* segment : pending) {
    segment->pending_ = false;
    if (status != 0) continue;
    if (const std::string found = segment->take_trap(); problem.empty()) problem = found;
  }
  pending.clear();
  check(status, "cuStreamSynchronize");
  if (!problem.empty()) throw Error(ErrorKind::bad_input, problem);
}

}  // namespace npusim::cuda
