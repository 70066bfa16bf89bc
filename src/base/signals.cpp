// Signals that end a program of npusim's own.
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "npusim/cancel.h"

namespace npusim {
namespace {

// Only what a handler may do.
void end_process(int signal) {
  if (!end_writing(signal)) return;
  if (isatty(STDERR_FILENO)) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, "\n", 1);
  }
  _exit(128 + signal);
}

}  // namespace

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
