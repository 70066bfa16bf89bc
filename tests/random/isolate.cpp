// fork, a pipe of lines, and a clock.
#include "random/isolate.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace npusim::test {
namespace {

void send_line(int to, const std::string& text) {
  const auto size = static_cast<uint32_t>(text.size());
  std::string message(reinterpret_cast<const char*>(&size), sizeof size);
  message += text;
  for (size_t at = 0; at < message.size();) {
    const ssize_t written = write(to, message.data() + at, message.size() - at);
    if (written <= 0) _exit(3);
    at += static_cast<size_t>(written);
  }
}

}  // namespace

std::string in_child(int seconds, const std::function<void(const std::function<void(const std::string&)>&)>& work,
                     const std::function<void(const std::string&)>& take) {
  int ends[2];
  if (pipe(ends) != 0) fail(ErrorKind::device, "pipe: {}", std::strerror(errno));
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) fail(ErrorKind::device, "fork: {}", std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    work([&](const std::string& text) { send_line(ends[1], text); });
    std::fflush(nullptr);
    _exit(0);
  }
  close(ends[1]);
  std::string pending, ended;
  char block[4096];
  for (;;) {
    pollfd ready{ends[0], POLLIN, 0};
    if (poll(&ready, 1, seconds * 1000) == 0) {
      ended = fmt::format("took more than {} seconds", seconds);
      kill(child, SIGKILL);
      break;
    }
    const ssize_t got = read(ends[0], block, sizeof block);
    if (got <= 0) break;
    pending.append(block, static_cast<size_t>(got));
    for (uint32_t size = 0; pending.size() >= sizeof size;) {
      std::memcpy(&size, pending.data(), sizeof size);
      if (pending.size() < sizeof size + size) break;
      take(pending.substr(sizeof size, size));
      pending.erase(0, sizeof size + size);
    }
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!ended.empty()) return ended;
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit status {}", WEXITSTATUS(status));
}

}  // namespace npusim::test
