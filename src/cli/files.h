// Which files a command reads and writes, known from its options before any is opened: no output is an input, and no
// two outputs are one.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace npusim::cli {

// A file and what names it in messages: "--weights w.safetensors".
struct FileUse {
  std::string path;
  std::string named;
  bool written = false;
  bool in_place = false;    // may be written where the program was read
  bool is_program = false;  // the program itself
};

// Of all options that were given: add_output() makes those that are written, add_file() and add_named_files() the
// others.
std::vector<FileUse> files_of(const CLI::App& verb);

// Throws usage where a file that is written is read, too, or written twice, and where standard input or an open
// descriptor is read twice. `more`: what no option names, such as a default.
void check_files(const CLI::App& verb, std::vector<FileUse> more = {});

}  // namespace npusim::cli
