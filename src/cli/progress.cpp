// A thread that waits two seconds and then shows the current stage on one line.
#include "cli/progress.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "npusim/message.h"

namespace npusim::cli {

Progress::Progress() {
  if (!isatty(STDERR_FILENO)) return;
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::seconds(2), [this] { return done_; })) return;
    late_ = true;
    show();
  });
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (late_) std::fputs("\r\033[K", stderr);
}

void Progress::stage(const std::string& name) {
  const std::lock_guard lock(mutex_);
  stage_ = name;
  if (late_) show();
}

void Progress::show() { std::fprintf(stderr, "\r\033[K%s…", printable(stage_).c_str()); }

}  // namespace npusim::cli
