// A table that a signal's handler can read: it may neither lock nor allocate, so names are copied into it.
#include "base/temporary.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <utility>

#include "npusim/cancel.h"

namespace npusim {

struct TemporaryName {
  std::atomic<bool> taken{false}, named{false};
  std::array<char, 4096> path{};
};

namespace {

std::array<TemporaryName, 64> names;  // writers at once; what is beyond them stays behind a signal
static_assert(std::atomic<bool>::is_always_lock_free);

TemporaryName* take_name(const std::string& path) {
  for (TemporaryName& name : names) {
    bool expected = false;
    if (path.size() >= name.path.size() || !name.taken.compare_exchange_strong(expected, true)) continue;
    std::memcpy(name.path.data(), path.c_str(), path.size() + 1);
    name.named = true;
    return &name;
  }
  return nullptr;
}

// Only what a handler may do.
void end_process(int signal) {
  remove_temporaries();
  if (isatty(STDERR_FILENO)) [[maybe_unused]]
    const ssize_t written = write(STDERR_FILENO, "\n", 1);
  _exit(128 + signal);
}

}  // namespace

Temporary::Temporary(std::string path) : path_(std::move(path)), name_(take_name(path_)) {}

Temporary::~Temporary() {
  if (path_.empty()) return;
  unlink(path_.c_str());
  keep();
}

void Temporary::keep() {
  if (name_) {
    name_->named = false;
    name_->taken = false;
    name_ = nullptr;
  }
  path_.clear();
}

void remove_temporaries() {
  for (const TemporaryName& name : names)
    if (name.named) unlink(name.path.data());
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
