// A table that a signal's handler can read: pointers to names, each free or taken.
#include "base/temporary.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <utility>

#include "npusim/cancel.h"

namespace npusim {
namespace {

constexpr int slots = 64;  // writers at once; what is beyond them stays behind a signal
std::atomic<const char*> names[slots];
static_assert(std::atomic<const char*>::is_always_lock_free);

int take_slot(const char* name) {
  for (int i = 0; i < slots; ++i)
    if (const char* expected = nullptr; names[i].compare_exchange_strong(expected, name)) return i;
  return -1;
}

// Only what a handler may do.
void end_process(int signal) {
  for (const auto& name : names)
    if (const char* path = name.load()) unlink(path);
  if (isatty(STDERR_FILENO)) [[maybe_unused]]
    const ssize_t written = write(STDERR_FILENO, "\n", 1);
  _exit(128 + signal);
}

}  // namespace

Temporary::Temporary(std::string path) : path_(std::move(path)), slot_(take_slot(path_.c_str())) {}

Temporary::~Temporary() {
  if (path_.empty()) return;
  unlink(path_.c_str());
  keep();
}

void Temporary::keep() {
  if (slot_ >= 0) names[slot_] = nullptr;
  path_.clear();
}

void end_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler == SIG_IGN) continue;  // as nohup asks
    now = {};
    now.sa_handler = end_process;
    sigaction(signal, &now, nullptr);
  }
}

}  // namespace npusim
