// NVRTC in a process of its own, npusim-nvrtc: what it dies of takes nothing else along.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "backends/cuda/target_nvrtc.h"

namespace npusim::cuda {

// What the two sides must agree on, and how an answer begins.
inline constexpr std::string_view wire_version = "1", wire_done = "done", wire_refused = "refused";
inline constexpr int not_ours = 2;  // the exit code where they do not

// The program's file: what NPUSIM_NVRTC_HELPER names, or the one beside npusim, its library or its Python module;
// empty: there is none, or the variable says "none".
const std::string& helper_path();
// Seconds of a processor for each text: NPUSIM_NVRTC_SECONDS, else 300. Throws usage for what is no such number.
long helper_seconds();

// The process of one thread, which starts it when it first compiles and again when it died.
class Worker {
 public:
  Worker() = default;
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  // Throws what NVRTC says against the text; nothing where it died, and then `death` says of what. Without a helper
  // NVRTC is called here.
  std::optional<Compiled> compile(const std::string& text, const std::string& architecture, Effort effort,
                                  std::string& death);

 private:
  void start();
  std::string stop();  // how it ended; empty: it was not what npusim takes it for

  pid_t process_ = 0;
  int socket_ = -1;
};

}  // namespace npusim::cuda
