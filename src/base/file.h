// Files: a read-only mapping, and a writer that leaves either the whole file or nothing.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace npusim {

// A whole file mapped read-only; move-only. Throws bad_input naming the path when it cannot be read. Whoever reads bytes
// that another process has meanwhile cut off the file gets SIGBUS: what a stranger may change is read, not mapped.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

// The file's bytes; "-" reads standard input, and a pipe is read to its end.
std::string read_file(const std::string& path);
// Writes the parts to a temporary beside `path`, then renames it; into what is no file, a pipe or /dev/null, at once;
// "-" writes to standard output.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::string& path, std::string_view text);

}  // namespace npusim
