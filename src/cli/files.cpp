// Compares every output with every other file of a command.
#include "cli/files.h"

#include <algorithm>
#include <cstdlib>

#include "cli/fail.h"
#include "cli/options.h"
#include "npusim/files.h"
#include "npusim/tensor_set.h"

namespace npusim::cli {
namespace {

std::string shown_name(const CLI::Option& option) {
  if (!option.get_snames().empty()) return "-" + option.get_snames()[0];
  if (!option.get_lnames().empty()) return "--" + option.get_lnames()[0];
  return option.get_name(true);
}

// "-" is one stream where it is read and another where it is written.
std::string stream_of(const FileUse& file) {
  return file.path != "-" ? file.path : file.written ? "/dev/stdout" : "/dev/stdin";
}

bool is_descriptor(const std::string& path) {
  return path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
}

void check_pair(const FileUse& a, const FileUse& b) {
  const std::string x = stream_of(a), y = stream_of(b);
  if (!is_same_file(x, y)) return;
  const bool stream = is_descriptor(x) && is_descriptor(y);
  if (a.written && b.written)
    fail(ErrorKind::usage, "{} and {}: {}", a.named, b.named,
         stream ? "one stream takes one of them" : "expected different files, found one");
  if (a.written || b.written) {
    const FileUse &output = a.written ? a : b, &input = a.written ? b : a;
    if (output.in_place && input.is_program) return;
    fail(ErrorKind::usage, "{}: expected a file that the command does not read, found {}", output.named, input.named);
  }
  if (stream) fail(ErrorKind::usage, "{} and {}: a stream is read once, by one of them", a.named, b.named);
}

// oneDNN's report, which it prints on standard output, would be in a file that goes there.
void spare_standard_output(const std::vector<FileUse>& files) {
  const auto is_there = [](const FileUse& file) {
    return file.written && is_same_file(stream_of(file), "/dev/stdout");
  };
  if (std::none_of(files.begin(), files.end(), is_there)) return;
  for (const char* name : {"DNNL_VERBOSE", "ONEDNN_VERBOSE"}) ::unsetenv(name);
}

}  // namespace

std::vector<FileUse> files_of(const CLI::App& verb) {
  std::vector<FileUse> files;
  for (const CLI::App* app = &verb; app; app = app->get_parent())
    for (const CLI::Option* option : app->get_options()) {
      const std::string kind = kind_of(*option), name = shown_name(*option);
      if (option->count() == 0 || (kind != "file" && kind != "named files")) continue;
      for (const std::string& value : option->results()) {
        const std::string path = kind == "file" ? value : split_named(value).second;
        files.push_back({path, name + " " + value, is_output(*option), is_in_place(*option), name == "program"});
        if (name != "--weights") continue;
        for (const std::string& shard : tensor_files(path))
          if (shard != path) files.push_back({shard, files.back().named});
      }
    }
  return files;
}

void check_files(const CLI::App& verb, std::vector<FileUse> more) {
  std::vector<FileUse> files = files_of(verb);
  files.insert(files.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  // Two files that are read may be one, but for streams.
  const auto counts = [](const FileUse& file) { return file.written || is_descriptor(stream_of(file)); };
  for (size_t i = 0; i < files.size(); ++i)
    for (size_t j = 0; j < files.size() && counts(files[i]); ++j)
      if (j > i || !counts(files[j])) check_pair(files[std::min(i, j)], files[std::max(i, j)]);
  spare_standard_output(files);
}

}  // namespace npusim::cli
