// Mapping and reading of files.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/descriptor.h"
#include "base/error.h"

namespace npusim {
namespace {

std::string read_all(int fd, const std::string& path, size_t expected) {
  std::string text;
  size_t done = 0;
  while (true) {
    if (done == text.size()) text.resize(done < expected ? expected : done + (size_t{1} << 16) + done / 2);
    const ssize_t count = ::read(fd, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(ErrorKind::bad_input, "cannot read {}: {}", path, std::strerror(errno));
    if (count == 0) break;
    done += static_cast<size_t>(count);
    // A file that has as many bytes as it said is at its end; one more read would double the memory.
    if (done == expected && done == text.size()) {
      char next = 0;
      if (::read(fd, &next, 1) != 1) break;
      text += next;
      ++done;
    }
  }
  text.resize(done);
  return text;
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}
int Descriptor::close() { return ::close(std::exchange(fd_, -1)); }

int descriptor_named(const std::string& path) {
  if (path == "-" || path == "/dev/stdin") return STDIN_FILENO;
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int fd = -1;
    const char* end = path.data() + path.size();
    const auto [stop, error] = std::from_chars(path.data() + folder.size(), end, fd);
    if (error == std::errc{} && stop == end && fd >= 0) return fd;
  }
  return -1;
}

const char* kind_of_file(unsigned mode) {
  return S_ISREG(mode)    ? ""
         : S_ISDIR(mode)  ? "a folder"
         : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket"
                          : "a device";
}

void check_path(const std::string& path, ErrorKind kind) {
  if (path.empty()) fail(kind, "expected the name of a file, found an empty one");
  if (path.find('\0') != std::string::npos)
    fail(kind, "expected the name of a file, found {}, which has a NUL byte", path);
}

std::string no_file_at(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? kind_of_file(status.st_mode) : "";
}

Descriptor open_regular(const std::string& path, size_t& size) {
  check_path(path);
  struct stat status {};
  // Opening a pipe would wait for its other end, and opening a device may do what it is for.
  const bool known = ::stat(path.c_str(), &status) == 0;
  int fd = -1;
  if (known && S_ISREG(status.st_mode)) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (!known || (S_ISREG(status.st_mode) && (fd < 0 || ::fstat(fd, &status) != 0)))
    fail(ErrorKind::bad_input, "cannot open {}: {}", path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) {
    if (fd >= 0) ::close(fd);
    fail(ErrorKind::bad_input, "{} is {}: expected a regular file", path, kind_of_file(status.st_mode));
  }
  size = static_cast<size_t>(status.st_size);
  return Descriptor(fd);
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file = open_regular(path, size_);
  if (size_ == 0) return;
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (address == MAP_FAILED) fail(ErrorKind::bad_input, "cannot map {}: {}", path, std::strerror(errno));
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::string read_file(const std::string& path) {
  if (const int fd = descriptor_named(path); fd >= 0) return read_all(fd, path == "-" ? "standard input" : path, 0);
  size_t size = 0;
  const Descriptor file = open_regular(path, size);
  return read_all(file.fd(), path, size);
}

}  // namespace npusim
