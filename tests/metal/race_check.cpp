// race_check LIBRARY KERNEL GROUPS THREADS BYTES…: one dispatch under ThreadSanitizer, one zeroed buffer per size.
//
// Built with clang and -fsanitize=thread, as the kernel is: each GPU thread is a fiber to the sanitizer, ordered only
// by barriers that order memory. Run it under setarch -R.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/emulator.h"

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const mslx::Library library = mslx::load(argv[1]);
  mslx::Bindings bindings;
  std::vector<std::unique_ptr<mslx::GuardedBuffer>> buffers;
  for (int i = 5; i < argc; ++i) {
    const size_t bytes = std::strtoul(argv[i], nullptr, 10);
    buffers.push_back(std::make_unique<mslx::GuardedBuffer>(bytes, 4));
    std::memset(buffers.back()->data(), 0, bytes);
    bindings.buffer(i - 5, buffers.back()->data());
  }
  const mslx::Extent groups{static_cast<unsigned>(std::atoi(argv[3])), 1, 1},
      threads{static_cast<unsigned>(std::atoi(argv[4])), 1, 1};
  mslx::Options options;
  options.force_fibers = true;
  const mslx::Result result = mslx::dispatch_groups(library.find(argv[2]), groups, threads, bindings, options);
  if (!result.ok()) printf("%s\n", result.error.c_str());
  return result.ok() ? 0 : 1;
}
