// Calls by which files are written, of which the one that NPUSIM_IO_FAULT counts, from 0, fails with no space left.
// Only writing counts: files opened to be made, and what is done to them.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <set>

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

std::set<int>& written() {
  static std::set<int> fds;
  return fds;
}

bool fails() {
  static long left = std::getenv("NPUSIM_IO_FAULT") ? std::atol(std::getenv("NPUSIM_IO_FAULT")) : -1;
  const bool now = left == 0;
  if (left >= 0) --left;
  if (now) errno = ENOSPC;
  return now;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  const bool makes = (flags & O_CREAT) != 0;
  if (makes && fails()) return -1;
  const int fd = next<int (*)(const char*, int, ...)>("open")(path, flags, mode);
  if (makes && fd >= 0) written().insert(fd);
  return fd;
}

ssize_t write(int fd, const void* bytes, size_t count) {
  const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (!written().contains(fd)) return real(fd, bytes, count);
  if (fails()) return -1;
  return real(fd, bytes, count > 100 ? count / 2 : count);  // and seldom all at once
}

int fsync(int fd) {
  if (written().contains(fd) && fails()) return -1;
  return next<int (*)(int)>("fsync")(fd);
}

int fchmod(int fd, mode_t mode) {
  if (written().contains(fd) && fails()) return -1;
  return next<int (*)(int, mode_t)>("fchmod")(fd, mode);
}

int close(int fd) {
  const bool failed = written().erase(fd) > 0 && fails();
  const int result = next<int (*)(int)>("close")(fd);
  return failed ? errno = ENOSPC, -1 : result;
}

int rename(const char* from, const char* to) {
  if (fails()) return -1;
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

}  // extern "C"
