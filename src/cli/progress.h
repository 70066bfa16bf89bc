// Progress on standard error, for people only: shown on a terminal once the work has taken two seconds.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace npusim::cli {

class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void stage(const std::string& name);

 private:
  void show();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string stage_;
  bool late_ = false;  // two seconds have passed
  bool done_ = false;
  std::thread thread_;
};

}  // namespace npusim::cli
