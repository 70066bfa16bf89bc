// Teams of OpenMP's threads, and their care across fork().
#include "base/threads.h"

#include <fmt/format.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"

namespace npusim {
namespace {

// How the calling thread and the workers that help it are bound to cores.
struct Binding {
  int count = 0;  // of threads; 0: they are not bound
  unsigned first = 0;
  cpu_set_t allowed = {};  // before they were
  bool renew = false;      // the workers are new ones
};
thread_local Binding binding;

std::atomic<int> possible_threads = 1;  // that this process was given at once

// Threads beyond what the machine can run at a time only wait for each other.
int largest_team() {
  static const int size = std::min<int>(most_threads, std::max(64L, 4 * sysconf(_SC_NPROCESSORS_ONLN)));
  return size;
}

// The bytes that OMP_STACKSIZE asks for, in KiB unless it names a unit; 0: none, or no such number.
size_t stack_bytes() {
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE"}) {
    const char* const text = std::getenv(name);
    if (!text) continue;
    char* end = nullptr;
    const unsigned long long number = std::strtoull(text, &end, 10);
    while (*end == ' ') ++end;
    const std::string_view units = "bkmg";
    const size_t unit = *end ? units.find(static_cast<char>(std::tolower(*end))) : 1;
    const size_t shift = 10 * unit;
    if (end != text && unit != std::string_view::npos && number <= SIZE_MAX >> shift) return number << shift;
  }
  return 0;
}

// Of threads like those of OpenMP's teams.
struct TeamAttributes {
  TeamAttributes() {
    pthread_attr_init(&own);
    if (const size_t bytes = stack_bytes(); bytes > 0) pthread_attr_setstacksize(&own, bytes);  // or as it was
  }
  ~TeamAttributes() { pthread_attr_destroy(&own); }
  TeamAttributes(const TeamAttributes&) = delete;
  TeamAttributes& operator=(const TeamAttributes&) = delete;
  pthread_attr_t own;
};

void* wait_for(void* mutex) {
  const std::lock_guard until(*static_cast<std::mutex*>(mutex));
  return nullptr;
}

// The nth of the cores that a thread may use.
int nth_core(const cpu_set_t& allowed, unsigned n) {
  n %= static_cast<unsigned>(CPU_COUNT(&allowed));
  for (int core = 0;; ++core)
    if (CPU_ISSET(core, &allowed) && n-- == 0) return core;
}

void bind_workers() {
  const Binding how = binding;
  binding.renew = false;
#pragma omp parallel num_threads(how.count)
  {
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(nth_core(how.allowed, how.first + static_cast<unsigned>(omp_get_thread_num())), &own);
    sched_setaffinity(0, sizeof own, &own);
  }
}

// A region of the host's, also of one thread: teams within it are none, or made anew each time.
bool in_region() { return omp_get_level() > 0; }

// What turns a thread waits for work before it sleeps: some 50 us, longer than steps and the host's work between tokens
// take, and far less than a busy machine's slice of a core, which waiting would use up.
constexpr const char* spin_count = "2000";

constexpr const char* restarted = "restarted";  // NPUSIM_NO_BIND's value in the process that bind_threads() starts

// One place for each core that may be used, with all of its hardware threads, in the order of OMP_PLACES: from the core
// that this process runs on, which the system has chosen because it is free. Processes that all began at the first core
// would share it.
[[maybe_unused]] std::string places_from_here() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return "cores";
  std::vector<std::string> places, siblings;
  size_t here = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::string core;
    std::ifstream(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)) >> core;
    const auto known = static_cast<size_t>(std::find(siblings.begin(), siblings.end(), core) - siblings.begin());
    const bool is_new = core.empty() || known == siblings.size();
    const size_t place = is_new ? places.size() : known;
    if (is_new) {
      siblings.push_back(core);
      places.push_back(std::to_string(cpu));
    } else {
      places[place] += fmt::format(",{}", cpu);
    }
    if (cpu == sched_getcpu()) here = place;
  }
  std::rotate(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(here), places.end());
  return fmt::format("{{{}}}", fmt::join(places, "},{"));
}

// OpenMP has bound the initial thread to its first place. As long as it works alone it may be wherever a core is free.
std::atomic<bool> initial_thread_floats = false;

void allow_places(int first, int last) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> ids;
  for (int place = first; place < last; ++place) {
    ids.resize(static_cast<size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, ids.data());
    for (int id : ids)
      if (id < CPU_SETSIZE) CPU_SET(id, &set);
  }
  sched_setaffinity(getpid(), sizeof set, &set);
}
void float_initial_thread() {
  const char* const why = std::getenv("NPUSIM_NO_BIND");
  if (!why || std::string_view(why) != restarted || omp_get_num_places() == 0) return;
  allow_places(0, omp_get_num_places());
  initial_thread_floats = true;
}
void settle_initial_thread() {
  if (initial_thread_floats.exchange(false)) allow_places(0, 1);
}

// A child has the thread that forked, and none of its workers, for which OpenMP would wait for ever: they go before,
// and both processes make new ones when they need some. Inside a parallel region they stay, and the child's work has no
// team.
void before_fork() {
  omp_pause_resource_all(omp_pause_hard);
  binding.renew = binding.count > 0;
}

void in_child() {
  if (binding.count > 0) sched_setaffinity(0, sizeof binding.allowed, &binding.allowed);
  binding = {};
  possible_threads = 1;
}

[[maybe_unused]] const int fork_handlers = pthread_atfork(before_fork, nullptr, in_child);

}  // namespace

int thread_count() { return std::clamp(omp_get_max_threads(), 1, largest_team()); }

int checked_threads(std::string_view what, int64_t count) {
  if (count < 0 || count > most_threads)
    fail(ErrorKind::usage, "{}: expected 1 to {}, or 0 for npusim's choice, found {}", what, most_threads, count);
  return static_cast<int>(count);
}

void reserve_threads(int count) {
  std::string why;
  const int given = given_threads(count, &why);
  if (given < std::min(count, largest_team()))
    fail(ErrorKind::device, "the machine gives {} of {} threads ({}): ask for fewer, or less for each (OMP_STACKSIZE)",
         given, count, why);
}

// OpenMP ends the process where it gets no thread. What is known to be possible stays so, about.
int given_threads(int count, std::string* why) {
  count = std::min(count, largest_team());
  if (count <= possible_threads.load()) return count;
  settle_initial_thread();
  std::mutex all_there;  // which threads wait for
  std::unique_lock hold(all_there);
  std::vector<pthread_t> threads;
  threads.reserve(static_cast<size_t>(count));
  const TeamAttributes attributes;
  int error = 0;
  while (static_cast<int>(threads.size()) + 1 < count && error == 0) {
    pthread_t thread{};
    error = pthread_create(&thread, &attributes.own, wait_for, &all_there);
    if (error == 0) threads.push_back(thread);
  }
  hold.unlock();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  if (error != 0 && why) *why = std::generic_category().message(error);
  possible_threads = static_cast<int>(threads.size()) + 1;
  return possible_threads;
}

// A team is then as large as is asked for, but for OMP_THREAD_LIMIT and inside parallel regions.
ThreadCount::ThreadCount(int count)
    : count_(omp_get_max_threads()), dynamic_(omp_get_dynamic()), levels_(omp_get_max_active_levels()) {
  if (count > 0) omp_set_num_threads(std::min({count, omp_get_thread_limit(), largest_team()}));
  omp_set_dynamic(0);
  if (levels_ < 1) omp_set_max_active_levels(1);
  if (binding.renew) bind_workers();
}

ThreadCount::~ThreadCount() {
  omp_set_num_threads(count_);
  omp_set_dynamic(dynamic_);
  if (levels_ < 1) omp_set_max_active_levels(levels_);
}

// Always the whole team: OpenMP dismisses the threads that a smaller one leaves out, and with them their flags.
void on_team(IntCall body) {
#pragma omp parallel num_threads(thread_count())
  body(omp_get_thread_num());
}

void run_shares(int threads, IntCall body) {
  std::exception_ptr error;
  std::atomic<bool> failed = false;
  const auto run = [&](int share) {
    try {
      body(share);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  };
  if (omp_get_max_threads() == 1 || in_region()) {
    for (int share = 0; share < threads; ++share) run(share);
  } else {
    auto take_turns = [&](int thread) {
      for (int share = thread; share < threads; share += omp_get_num_threads()) run(share);
    };
    on_team(take_turns);
  }
  if (error) std::rethrow_exception(error);
}

void with_team(int count, const std::function<void()>& work) {
  if (count == 1 || !in_region()) {
    const ThreadCount limit(count);
    return work();
  }
  std::exception_ptr error;
  const auto run = [&, asker = cancel_scope()] {
    const ThreadCount limit(count);
    try {
      const AdoptCancelScope adopted(asker);
      work();
    } catch (...) {
      error = std::current_exception();
    }
  };
  try {
    std::thread(run).join();
  } catch (const std::system_error& none) {
    fail(ErrorKind::device, "the machine gives no thread ({})", none.what());
  }
  if (error) std::rethrow_exception(error);
}

void bind_threads(char** argv) {
  if (std::getenv("OMP_PROC_BIND") || std::getenv("NPUSIM_NO_BIND")) return float_initial_thread();
  setenv("OMP_PROC_BIND", "close", 1);
#ifdef __clang__
  setenv("OMP_PLACES", "cores", 0);  // LLVM's runtime warns of places beside the core that it runs on
#else
  setenv("OMP_PLACES", places_from_here().c_str(), 0);
#endif
  if (!std::getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", spin_count, 0);
  setenv("NPUSIM_NO_BIND", restarted, 1);
  execv("/proc/self/exe", argv);
}

bool bind_team(int count) {
  static std::atomic<unsigned> taken = 0;
  cpu_set_t allowed = binding.allowed;
  const bool bound_by_others = binding.count == 0 && omp_get_proc_bind() != omp_proc_bind_false;
  if (binding.count == 0 && sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  if (bound_by_others || count < 1 || count > CPU_COUNT(&allowed)) return false;
  const ThreadCount team(count);
  binding = {count, taken.fetch_add(static_cast<unsigned>(count)), allowed};
  bind_workers();
  return true;
}

}  // namespace npusim
