// Atomic writing of files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/temporary.h"

namespace npusim {
namespace {

[[noreturn]] void cannot_write(const std::string& path) {
  fail(ErrorKind::bad_input, "cannot write {}: {}", path, std::strerror(errno));
}

// Beside the file that it becomes, so that a rename does it. One of this name is of a process that had this number and
// was killed.
std::string temporary_name(const std::filesystem::path& folder) {
  static std::atomic<unsigned> made{0};
  const std::filesystem::path name = folder / fmt::format(".npusim-{}-{}.part", ::getpid(), made++);
  ::unlink(name.c_str());
  return name.string();
}

// Where a chain of symbolic links ends, which need not exist.
std::string end_of_links(const std::string& path) {
  std::filesystem::path at = path;
  constexpr int longest_chain = 40;  // Linux's
  for (int i = 0; i < longest_chain; ++i) {
    std::error_code error;
    const std::filesystem::path next = std::filesystem::read_symlink(at, error);
    if (error) return at.string();
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  errno = ELOOP;
  cannot_write(path);
}

// Disks that cannot be told to (some network and user-space ones) say EINVAL.
void to_disk(int fd, const std::string& path) {
  if (::fsync(fd) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) cannot_write(path);
}

// A pipe that nobody reads would be waited for as long as there is no reader.
int open_for_writing(const std::string& path, bool pipe) {
  constexpr int tries = 100;
  constexpr auto pause = std::chrono::milliseconds(100);
  for (int i = 0; i < tries; ++i) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | (pipe ? O_NONBLOCK : 0));
    if (fd >= 0) {
      if (pipe) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
      return fd;
    }
    if (!pipe || errno != ENXIO) cannot_write(path);
    std::this_thread::sleep_for(pause);
  }
  fail(ErrorKind::bad_input, "cannot write {}: it is a pipe, and for ten seconds nobody read it", path);
}

void write_into(int fd, std::span<const std::span<const std::byte>> parts, const std::string& path) {
  for (const auto part : parts) write_all(fd, part, path);
}

}  // namespace

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) cannot_write(path);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  if (path.empty()) fail(ErrorKind::bad_input, "expected the name of a file to write, found an empty one");
  if (path == "-") return write_into(STDOUT_FILENO, parts, "standard output");
  if (const int fd = descriptor_named(path); fd >= 0) return write_into(fd, parts, path);
  const std::string target = end_of_links(path);
  struct stat found {};
  const bool exists = ::stat(target.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) cannot_write(path);
  if (exists && S_ISDIR(found.st_mode))
    fail(ErrorKind::bad_input, "cannot write {}: it is a folder, expected the name of a file", path);
  if (exists && !S_ISREG(found.st_mode)) {  // a file in its place would take /dev/null from everyone
    Descriptor to(open_for_writing(target, S_ISFIFO(found.st_mode)));
    write_into(to.fd(), parts, path);
    if (to.close() != 0) cannot_write(path);
    return;
  }
  if (exists && ::access(target.c_str(), W_OK) != 0) cannot_write(path);
  const std::filesystem::path parent = std::filesystem::path(target).parent_path();
  const std::filesystem::path folder = parent.empty() ? "." : parent;
  Temporary temporary(temporary_name(folder));
  Descriptor to(::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (to.fd() < 0) cannot_write(path);
  write_into(to.fd(), parts, path);
  if (exists && ::fchmod(to.fd(), found.st_mode & 07777) != 0) cannot_write(path);
  to_disk(to.fd(), path);
  if (to.close() != 0) cannot_write(path);
  if (std::rename(temporary.path().c_str(), target.c_str()) != 0) cannot_write(path);
  temporary.keep();
  // The new name is on the disk when its folder is. Who may write there may lack the right to read it.
  const Descriptor of_folder(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (of_folder.fd() >= 0) to_disk(of_folder.fd(), path);
}

void write_file(const std::string& path, std::string_view text) {
  const std::span<const std::byte> part(reinterpret_cast<const std::byte*>(text.data()), text.size());
  write_file(path, std::span<const std::span<const std::byte>>(&part, 1));
}

}  // namespace npusim
