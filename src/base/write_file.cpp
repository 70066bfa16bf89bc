// Atomic writing of files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"

namespace npusim {
namespace {

[[noreturn]] void cannot_write(const std::string& path) {
  fail(ErrorKind::bad_input, "cannot write {}: {}", path, std::strerror(errno));
}

// Names of temporaries that exist, where a signal handler finds them: it may neither lock nor allocate. A slot is taken
// before its file is made, and given back when the file is gone or has its final name. What a forked child finds here
// is its parent's, and free to it.
struct Slot {
  std::atomic<pid_t> owner{0};  // 0: nobody; negative: while the name is written
  std::array<char, 4096> name{};
  bool take(pid_t self) {
    pid_t before = owner;
    return before != self && before != -self && owner.compare_exchange_strong(before, -self);
  }
};
std::array<Slot, 64> slots;

// Which no other process has, on whatever machine or in whatever container it writes into the same folder.
std::string temporary_name() {
  std::random_device random;
  return fmt::format(".npusim-{:08x}{:08x}.part", random(), random());
}

class Temporary {
 public:
  Temporary(const std::filesystem::path& folder, const std::string& path) : path_(path) {
    name_ = (folder / temporary_name()).string();
    const pid_t self = ::getpid();
    for (Slot& slot : slots)
      if (name_.size() < slot.name.size() && slot.take(self)) {
        std::memcpy(slot.name.data(), name_.c_str(), name_.size() + 1);
        slot.owner = self;
        slot_ = &slot;
        break;
      }
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (exists_) ::unlink(name_.c_str());
    if (slot_) slot_->owner = 0;
  }

  int make() {
    const int fd = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) cannot_write(path_);
    exists_ = true;
    return fd;
  }
  void rename_to(const std::string& target) {
    if (std::rename(name_.c_str(), target.c_str()) != 0) cannot_write(path_);
    exists_ = false;
  }

 private:
  const std::string& path_;  // that the caller asked for, for messages
  std::string name_;
  Slot* slot_ = nullptr;  // null: a name that is too long, or more files at once than there are slots
  bool exists_ = false;
};

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
  Temporary temporary(folder, path);
  Descriptor to(temporary.make());
  write_into(to.fd(), parts, path);
  if (exists && ::fchmod(to.fd(), found.st_mode & 07777) != 0) cannot_write(path);
  to_disk(to.fd(), path);
  if (to.close() != 0) cannot_write(path);
  temporary.rename_to(target);
  // The new name is on the disk when its folder is. Who may write there may lack the right to read it.
  const Descriptor of_folder(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (of_folder.fd() >= 0) to_disk(of_folder.fd(), path);
}

void write_file(const std::string& path, std::string_view text) {
  const std::span<const std::byte> part(reinterpret_cast<const std::byte*>(text.data()), text.size());
  write_file(path, std::span<const std::span<const std::byte>>(&part, 1));
}

void remove_temporaries() {
  const pid_t self = ::getpid();
  for (const Slot& slot : slots)
    if (slot.owner == self) ::unlink(slot.name.data());
}

}  // namespace npusim
