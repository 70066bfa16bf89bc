// Files that exist only while they are written.
#pragma once
#include <string>

namespace npusim {

// A file of this name is removed when this goes, also when a signal ends the process (end_on_signals), unless it was
// kept.
class Temporary {
 public:
  explicit Temporary(std::string path);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  const std::string& path() const { return path_; }
  void keep();  // under another name, or removed by others

 private:
  std::string path_;
  int slot_;
};

}  // namespace npusim
