// How much a method does, counted from its kernels: memory it must touch and arithmetic of its contractions. Of keys
// whose number is known only when it runs, as if all were there.
#pragma once
#include <cstdint>
#include <unordered_map>

#include "program/program.h"

namespace npusim {

Work kernel_work(const Kernel& kernel);

// That of a program's kernels, each counted when it is first asked for.
class KernelWorks {
 public:
  explicit KernelWorks(const Program& program) : program_(program) {}
  const Work& of(const Step& step);  // that is no transfer

 private:
  const Program& program_;
  std::unordered_map<int32_t, Work> known_;
};
Work method_work(KernelWorks& works, const Method& method);

}  // namespace npusim
