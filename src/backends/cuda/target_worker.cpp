// Finding npusim-nvrtc, starting it, asking it, and learning how it ended.
#include "backends/cuda/target_worker.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "backends/cuda/target_wire.h"
#include "base/error.h"

namespace npusim::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* name = "npusim-nvrtc";

// Of what this code stands in: an executable or a shared library.
fs::path own_file() {
  Dl_info info{};
  void* map = nullptr;
  if (!dladdr1(reinterpret_cast<void*>(&helper_path), &info, &map, RTLD_DL_LINKMAP) || !map) return {};
  const char* library = static_cast<const link_map*>(map)->l_name;
  std::error_code none;
  return library && *library ? fs::canonical(library, none) : fs::read_symlink("/proc/self/exe", none);
}

std::string search() {
  if (const char* given = std::getenv("NPUSIM_NVRTC_HELPER"); given && *given)
    return given == std::string_view("none") ? "" : given;
  const fs::path folder = own_file().parent_path();
  if (folder.empty()) return {};
  const fs::path above = folder.parent_path();
  for (const fs::path& helper :
       {folder / name, folder / "bin" / name, above / "bin" / name, above.parent_path() / "bin" / name})
    if (access(helper.c_str(), X_OK) == 0) return helper;
  return {};
}

// What the process is started with: threads of OpenMP are none of its business, and libgomp would bind it to a core.
std::vector<char*> environment() {
  std::vector<char*> kept;
  for (char** at = environ; *at; ++at)
    if (!std::string_view(*at).starts_with("OMP_")) kept.push_back(*at);
  kept.push_back(nullptr);
  return kept;
}

}  // namespace

const std::string& helper_path() {
  static const std::string found = search();
  return found;
}

long helper_seconds() {
  constexpr long usual = 300, most = 1'000'000;
  const char* given = std::getenv("NPUSIM_NVRTC_SECONDS");
  if (!given || !*given) return usual;
  const std::string_view text = given;
  long seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 1 || seconds > most)
    fail(ErrorKind::usage, "NPUSIM_NVRTC_SECONDS: expected a number from 1 to {}, found '{}'", most, text);
  return seconds;
}

// The child gets one end of the socket in place of its standard input, no signal that is blocked here, and a process
// group of its own: who interrupts npusim does not make NVRTC die of a kernel. posix_spawn() runs nothing of the host
// in the child.
void Worker::start() {
  const std::string library = find_nvrtc().path, seconds = std::to_string(helper_seconds()), version(wire_version);
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    fail(ErrorKind::device, "{}: no socket: {}", name, std::strerror(errno));
  std::vector<const char*> arguments{name, version.c_str(), library.c_str(), seconds.c_str(), nullptr};
  posix_spawn_file_actions_t files{};
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], 0);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes{};
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  sigset_t none{}, all{};
  sigemptyset(&none), sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  std::vector<char*> variables = environment();
  const int error = posix_spawn(&process_, helper_path().c_str(), &files, &attributes,
                                const_cast<char* const*>(arguments.data()), variables.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  close(ends[1]);
  socket_ = ends[0];
  if (error == 0) return;
  process_ = 0;
  stop();
  fail(ErrorKind::device, "{}: {}; NPUSIM_NVRTC_HELPER may name it, or say none", helper_path(), std::strerror(error));
}

std::string Worker::stop() {
  if (socket_ >= 0) close(std::exchange(socket_, -1));
  if (process_ == 0) return {};
  const pid_t process = std::exchange(process_, 0);
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(process, &status, 0)) < 0 && errno == EINTR) {
  }
  if (ended != process) return "it ended";  // who embeds npusim waits for children by itself
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    return fmt::format("it took more than {} seconds (NPUSIM_NVRTC_SECONDS)", helper_seconds());
  if (WIFSIGNALED(status)) return fmt::format("it died: {}", strsignal(WTERMSIG(status)));
  const int code = WEXITSTATUS(status);
  return code == not_ours || code == 127 ? "" : fmt::format("it ended with exit code {}", code);
}

std::optional<Compiled> Worker::compile(const std::string& text, const std::string& architecture, Effort effort,
                                        std::string& death) {
  if (helper_path().empty()) return compile_text(find_nvrtc(), text, architecture, effort);
  if (process_ == 0) start();
  std::optional<std::vector<std::string>> answer;
  if (send_parts(socket_, {text, architecture, std::to_string(static_cast<int>(effort))})) {
    // Where it hangs without computing the system's limit does not end it.
    pollfd wait{socket_, POLLIN, 0};
    const auto most = static_cast<int>(std::min<long>(10 * helper_seconds() + 60, 1'000'000) * 1000);
    int ready = 0;
    while ((ready = poll(&wait, 1, most)) < 0 && errno == EINTR) {
    }
    if (ready == 0) kill(process_, SIGXCPU);
    answer = receive_parts(socket_);
  }
  if (!answer || answer->size() != 3) {
    death = stop();
    if (death.empty())
      fail(ErrorKind::device, "{} is not the one of this npusim; NPUSIM_NVRTC_HELPER may name it, or say none",
           helper_path());
    return std::nullopt;
  }
  if ((*answer)[0] == wire_refused)
    throw Error(static_cast<ErrorKind>(std::strtol((*answer)[1].c_str(), nullptr, 10)), (*answer)[2]);
  return Compiled{std::move((*answer)[1]), std::move((*answer)[2])};
}

}  // namespace npusim::cuda
