// Atomic writing of files.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

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

std::optional<std::string> end_of_links(const std::string& path) {
  std::filesystem::path at = path;
  constexpr int longest_chain = 40;  // Linux's
  for (int i = 0; i < longest_chain; ++i) {
    std::error_code error;
    const std::filesystem::path next = std::filesystem::read_symlink(at, error);
    if (error) return at.string();
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return std::nullopt;
}

void write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) cannot_write(path);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

namespace {

// A file on its way: what is to be a regular one lies beside its place, on the disk; what goes into a stream was not
// begun.
class Pending {
 public:
  explicit Pending(const OutputFile& file) : file_(file) {
    check_path(file.path);
    const std::string& path = file.path;
    if (path == "-" || descriptor_named(path) >= 0) return;
    const std::optional<std::string> end = end_of_links(path);
    if (!end) errno = ELOOP, cannot_write(path);
    target_ = *end;
    struct stat found {};
    const bool exists = ::stat(target_.c_str(), &found) == 0;
    if (!exists && errno != ENOENT) cannot_write(path);
    if (exists && S_ISDIR(found.st_mode))
      fail(ErrorKind::bad_input, "cannot write {}: it is a folder, expected the name of a file", path);
    pipe_ = exists && S_ISFIFO(found.st_mode);
    if (exists && !S_ISREG(found.st_mode)) return;  // a file in its place would take /dev/null from everyone
    if (exists && ::access(target_.c_str(), W_OK) != 0) cannot_write(path);
    const std::filesystem::path parent = std::filesystem::path(target_).parent_path();
    folder_ = parent.empty() ? "." : parent;
    temporary_ = std::make_unique<Temporary>(folder_, path);
    Descriptor to(temporary_->make());
    write_into(to.fd(), file.parts, path);
    if (exists && ::fchmod(to.fd(), found.st_mode & 07777) != 0) cannot_write(path);
    to_disk(to.fd(), path);
    if (to.close() != 0) cannot_write(path);
  }

  bool is_stream() const { return !temporary_; }

  void stream() const {
    const std::string& path = file_.path;
    if (path == "-") return write_into(STDOUT_FILENO, file_.parts, "standard output");
    if (const int fd = descriptor_named(path); fd >= 0) return write_into(fd, file_.parts, path);
    Descriptor to(open_for_writing(target_, pipe_));
    write_into(to.fd(), file_.parts, path);
    if (to.close() != 0) cannot_write(path);
  }

  void put_in_place() {
    temporary_->rename_to(target_);
    // The new name is on the disk when its folder is. Who may write there may lack the right to read it.
    const Descriptor of_folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (of_folder.fd() >= 0) to_disk(of_folder.fd(), file_.path);
  }

 private:
  const OutputFile& file_;
  std::string target_;  // behind symbolic links
  std::filesystem::path folder_;
  std::unique_ptr<Temporary> temporary_;  // null: it goes into a stream
  bool pipe_ = false;
};

// Files get their names one after the other: a signal that ends the process waits until all have.
std::atomic<int> placing_files{0}, asked_to_end{0};
struct Placing {
  Placing() { ++placing_files; }
  Placing(const Placing&) = delete;
  Placing& operator=(const Placing&) = delete;
  ~Placing() {
    if (--placing_files == 0)
      if (const int signal = asked_to_end) std::raise(signal);
  }
};

}  // namespace

void write_files(std::span<const OutputFile> files, std::span<const std::string> stale) {
  std::vector<Pending> pending;
  pending.reserve(files.size());
  for (const OutputFile& file : files) pending.emplace_back(file);
  for (const Pending& one : pending)
    if (one.is_stream()) one.stream();
  const Placing placing;
  for (const std::string& path : stale) remove_file(path);
  for (Pending& one : pending)
    if (!one.is_stream()) one.put_in_place();
}

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  const OutputFile file{path, {parts.begin(), parts.end()}};
  write_files({&file, 1});
}

void write_file(const std::string& path, std::string_view text) {
  const OutputFile file = output_file(path, text);
  write_files({&file, 1});
}

OutputFile output_file(std::string path, std::string_view text) {
  return {std::move(path), {std::as_bytes(std::span(text))}};
}

void remove_file(const std::string& path) {
  check_path(path);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    fail(ErrorKind::bad_input, "cannot remove {}: {}", path, std::strerror(errno));
}

NewFolder::NewFolder(const std::string& path) {
  check_path(path);
  const auto is_folder = [](const std::filesystem::path& at) {
    struct stat found {};
    return ::stat(at.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
  };
  std::vector<std::filesystem::path> missing;
  for (std::filesystem::path at = path; !at.empty() && !is_folder(at); at = at.parent_path()) {
    if (at.has_filename()) missing.push_back(at);  // "folder/" is "folder"
    if (at == at.parent_path()) break;
  }
  try {
    for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
      if (::mkdir(at->c_str(), 0777) == 0)
        made_.push_back(at->string());
      else if (const int reason = errno; !is_folder(*at)) {  // which another may have made meanwhile
        errno = reason;                                      // looking for it left another
        cannot_write(path);
      }
    }
  } catch (...) {
    remove_made();
    throw;
  }
}

NewFolder::~NewFolder() { remove_made(); }

void NewFolder::remove_made() {
  for (auto at = made_.rbegin(); at != made_.rend(); ++at) ::rmdir(at->c_str());
}

bool end_writing(int signal) {
  asked_to_end = signal;
  if (placing_files > 0) return false;
  const pid_t self = ::getpid();
  for (const Slot& slot : slots)
    if (slot.owner == self) ::unlink(slot.name.data());
  return true;
}

}  // namespace npusim
