// Files that exist only while they are written.
#pragma once
#include <string>

namespace npusim {

struct TemporaryName;  // where a signal's handler finds it

// A file of this name, which is to be made after this, is removed when this goes, also when a signal ends the process
// (end_on_signals), unless it was kept.
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
  TemporaryName* name_;  // null: a name that is too long, or more writers at once than there is room for
};

// Removes those of all threads. May be called by a signal handler, of a process that then ends.
void remove_temporaries();

}  // namespace npusim
