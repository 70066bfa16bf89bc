// Open files by their descriptors: the calls of the system in loops that end, and their errors as npusim's.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace npusim {

// Closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();
  int fd() const { return fd_; }
  int close();  // what the system's close() gives: errors of writing may come this late

 private:
  int fd_;
};

// The open descriptor that a path names: /dev/stdin, /dev/stdout, /dev/stderr, /dev/fd/N, /proc/self/fd/N; -1: none.
int descriptor_named(const std::string& path);
// What it is, for messages, if it is no regular file: "a folder", "a pipe", …; "" for a file.
const char* kind_of_file(unsigned mode);

// Opens a regular file for reading; its size is left in `size`.
Descriptor open_regular(const std::string& path, size_t& size);
void write_all(int fd, std::span<const std::byte> bytes, const std::string& path);

}  // namespace npusim
