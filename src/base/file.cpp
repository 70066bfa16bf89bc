// Mapping, reading and atomic writing of files.
#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/temporary.h"

namespace npusim {
namespace {

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail(ErrorKind::bad_input, "cannot write {}: {}", path, std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(ErrorKind::bad_input, "cannot open {}: {}", path, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    fail(ErrorKind::bad_input, "{} is not a regular file", path);
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      ::close(fd);
      fail(ErrorKind::bad_input, "cannot map {}: {}", path, std::strerror(errno));
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(fd);
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
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (!file) fail(ErrorKind::bad_input, "cannot open {}: {}", path, std::strerror(errno));
  std::string text;
  char chunk[1 << 16];
  size_t count = 0;
  while ((count = std::fread(chunk, 1, sizeof chunk, file)) > 0) text.append(chunk, count);
  const bool failed = std::ferror(file) != 0;
  const int error = errno;
  if (file != stdin) std::fclose(file);
  if (failed) fail(ErrorKind::bad_input, "cannot read {}: {}", path, std::strerror(error));
  return text;
}

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  if (path == "-") {
    for (auto part : parts) write_all(STDOUT_FILENO, part, "standard output");
    return;
  }
  // A pipe or a device is written into: a file in its place would take /dev/null from everyone.
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
    const int to = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (to < 0) fail(ErrorKind::bad_input, "cannot write {}: {}", path, std::strerror(errno));
    try {
      for (auto part : parts) write_all(to, part, path);
    } catch (...) {
      ::close(to);
      throw;
    }
    if (::close(to) != 0) fail(ErrorKind::bad_input, "cannot write {}: {}", path, std::strerror(errno));
    return;
  }
  std::string name = path + ".XXXXXX";
  const int fd = ::mkstemp(name.data());
  if (fd < 0) fail(ErrorKind::bad_input, "cannot write {}: {}", path, std::strerror(errno));
  Temporary temporary(std::move(name));
  for (auto part : parts) write_all(fd, part, path);
  if (::fchmod(fd, 0644) != 0 || ::close(fd) != 0 || std::rename(temporary.path().c_str(), path.c_str()) != 0)
    fail(ErrorKind::bad_input, "cannot write {}: {}", path, std::strerror(errno));
  temporary.keep();
}

void write_file(const std::string& path, std::string_view text) {
  const std::span<const std::byte> part(reinterpret_cast<const std::byte*>(text.data()), text.size());
  write_file(path, std::span<const std::span<const std::byte>>(&part, 1));
}

}  // namespace npusim
