// npusim-nvrtc: calls NVRTC for npusim, which starts it, one text after the other. What NVRTC dies of ends this process
// alone.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "backends/cuda/target_nvrtc.h"
#include "backends/cuda/target_wire.h"
#include "backends/cuda/target_worker.h"
#include "base/error.h"

namespace {

using namespace npusim;
using namespace npusim::cuda;

constexpr int wire = 0;  // the socket to npusim stands in place of standard input

// From now on so many seconds of a processor: then the system ends this process (SIGXCPU), whether npusim lives or not.
void limit_time(rlim_t seconds) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto before = static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
  const rlimit limit{before + seconds, RLIM_INFINITY};
  setrlimit(RLIMIT_CPU, &limit);
}

bool serve(const std::vector<std::string>& asked) {
  if (asked.size() != 3) return false;
  try {
    const Compiled made =
        compile_text(find_nvrtc(), asked[0], asked[1], static_cast<Effort>(std::strtol(asked[2].c_str(), nullptr, 10)));
    return send_parts(wire, {wire_done, made.cubin, made.ptx});
  } catch (const Error& error) {
    return send_parts(wire, {wire_refused, std::to_string(static_cast<int>(error.kind())), error.what()});
  } catch (const std::exception& error) {
    return send_parts(wire, {wire_refused, std::to_string(static_cast<int>(ErrorKind::internal)), error.what()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || std::string_view(argv[1]) != wire_version) {
    std::fputs("npusim-nvrtc: npusim starts this program, which calls NVRTC for it\n", stderr);
    return not_ours;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const auto seconds = static_cast<rlim_t>(std::strtol(argv[3], nullptr, 10));
  setenv("NPUSIM_NVRTC", argv[2], 1);
  while (const auto asked = receive_parts(wire)) {
    limit_time(seconds);
    if (!serve(*asked)) return 1;
  }
  return 0;
}
