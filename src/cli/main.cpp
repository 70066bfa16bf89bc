// The program npusim.
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <csignal>

#include "cli/command.h"
#include "npusim/cancel.h"
#include "npusim/machine.h"

int main(int argc, char** argv) {
#ifdef M_MXFAST
  // Every large block that is freed would make glibc walk all small ones it has set aside: a tenth of compiling 100,000
  // nodes, and growing faster than they.
  mallopt(M_MXFAST, 0);
#endif
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of writing it, as a full disk is
  npusim::bind_threads(argv);
  npusim::end_on_signals();
  return npusim::cli::run(argc, argv);
}
