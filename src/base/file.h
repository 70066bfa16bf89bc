// Files: reading whole ones, mapping them, and a writer that leaves either the whole file or what was there before.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "npusim/error.h"

namespace npusim {

// A whole regular file mapped read-only; move-only. Throws bad_input naming the path when it cannot be read. Whoever
// reads bytes that another process has meanwhile cut off the file gets SIGBUS: what a stranger may change is read, not
// mapped.
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

// What is there instead of a regular file, as "a pipe"; "" for a file, and where nothing is. For libraries that another
// one opens, which would wait for what is written into a pipe.
std::string no_file_at(const std::string& path);

// The bytes of a regular file. "-" reads standard input, and names of open descriptors (/dev/stdin, /dev/fd/3) what is
// behind them; any other pipe or device is refused, because whoever names one by mistake would wait for ever.
std::string read_file(const std::string& path);

// Throws for the name of a file that is empty, or has a NUL byte: the system would take what is before it for the name.
void check_path(const std::string& path, ErrorKind kind = ErrorKind::bad_input);

// Writes the parts to a temporary in the folder of `path`, then to the disk, then renames it: a new file has the mode
// that the process gives files, one that was there keeps its own, and through a symbolic link its target is written.
// Into what is no file, a pipe or /dev/null, and into open descriptors ("-": standard output) at once.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::string& path, std::string_view text);

// Files that belong together: nothing is in its place before all of them are on the disk. What is `stale` is removed in
// between.
struct OutputFile {
  std::string path;
  std::vector<std::span<const std::byte>> parts;
};
OutputFile output_file(std::string path, std::string_view text);
void write_files(std::span<const OutputFile> files, std::span<const std::string> stale = {});

// Where a chain of symbolic links ends, which need not exist; none where it does not end.
std::optional<std::string> end_of_links(const std::string& path);

// Removes a file that may not be there. Throws bad_input naming it.
void remove_file(const std::string& path);

// A folder that is made with those around it, unless it is there. What was made goes again, but for what has something
// in it, unless it is kept.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path);  // throws bad_input
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();
  void keep() { made_.clear(); }

 private:
  void remove_made();
  std::vector<std::string> made_;  // outermost first
};

// For the handler of a signal that ends the process: removes what writers have begun and not finished, of all threads.
// False: files that belong together are just getting their names; the signal is raised again when all have.
bool end_writing(int signal);

}  // namespace npusim
