// Names of one file: by what is there, or else by the folder and the name in it.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "base/file.h"
#include "npusim/files.h"

namespace npusim {
namespace {

namespace fs = std::filesystem;

std::optional<struct stat> status_of(const std::string& path) {
  struct stat found {};
  const int fd = descriptor_named(path);
  if ((fd >= 0 ? ::fstat(fd, &found) : ::stat(path.c_str(), &found)) != 0) return std::nullopt;
  return found;
}

bool is_one(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

std::string lower(std::string text) {
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  std::transform(text.begin(), text.end(), text.begin(),
                 [&](char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

// The folder of a name, by which it is reached.
std::string folder_of(const fs::path& path) { return path.parent_path().empty() ? "." : path.parent_path().string(); }

// Of two names that are not there.
bool will_be_one(const std::string& a, const std::string& b) {
  const std::optional<std::string> at_a = end_of_links(a), at_b = end_of_links(b);
  if (!at_a || !at_b) return false;
  const fs::path x = *at_a, y = *at_b;
  const auto folder_x = status_of(folder_of(x)), folder_y = status_of(folder_of(y));
  if (folder_x && folder_y)
    return is_one(*folder_x, *folder_y) && lower(x.filename().string()) == lower(y.filename().string());
  std::error_code ignored;  // where the working folder is gone
  const auto normal = [&](const fs::path& path) {
    return lower(fs::absolute(path, ignored).lexically_normal().string());
  };
  return !folder_x && !folder_y && normal(x) == normal(y);
}

}  // namespace

bool is_same_file(const std::string& a, const std::string& b) {
  const int fd_a = descriptor_named(a), fd_b = descriptor_named(b);
  if (fd_a >= 0 && fd_b >= 0) return fd_a == fd_b;
  for (const std::string& name : {a, b})
    if (name.empty() || name.find('\0') != std::string::npos) return false;
  const auto found_a = status_of(a), found_b = status_of(b);
  if (!found_a && !found_b) return will_be_one(a, b);
  if (!found_a || !found_b || !is_one(*found_a, *found_b)) return false;
  return !S_ISCHR(found_a->st_mode) && !S_ISBLK(found_a->st_mode);
}

}  // namespace npusim
