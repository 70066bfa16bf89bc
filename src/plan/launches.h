// From what a target makes of each launch to the launches of a program and the functions that they call, each once.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "print/print.h"
#include "program/program.h"

namespace npusim::plan {

// A function of the target's language that does the steps of a launch, and how it is launched. Functions of one name
// are one function.
struct GeneratedKernel {
  std::string symbol;
  std::string functions;  // without the helpers that they mention; the last one is the launch's
  LaunchShape shape;
  int64_t shared_bytes = 0;        // of a block, besides what the text declares
  int64_t own_bytes = 0;           // of memory of the launch's own
  std::vector<std::string> traps;  // what its trap word says, from 1 on; none: it takes none
  std::vector<size_t> trap_steps;  // whose each of them is, of several steps; none: the first one's
  bool early = false;              // it waits itself for what precedes it, where it must
  std::string how;                 // which implementation it is
  std::vector<Declined> declined;  // those asked before, for the first steps that it was made for
};
struct LaunchedBy {
  std::shared_ptr<const GeneratedKernel> made;
  std::vector<int32_t> args;  // buffers, in the order of its parameters; the trap word and its own memory are behind
  std::vector<Declined> declined = {};  // of these steps, among their neighbours; equal kernels have others
};

// What `made` says of a launch, all but its arguments and code.
void set_shape(Launch& launch, const GeneratedKernel& made);
std::span<const Step> steps_of(const Sequence& sequence, const Launch& launch);
// A launch of the sequence's steps, all but its code.
void fill_launch(const Program& program, const Sequence& sequence, const LaunchedBy& by, Launch& launch);

// Where a launch is: of the recipes (-1) or of a method, and its number there.
struct LaunchPosition {
  ptrdiff_t method = -1;
  size_t number = 0;
};
using MakeLaunch = std::function<LaunchedBy(const Sequence& sequence, const Launch& launch, LaunchPosition position)>;

// A function and the launches that call it. They stay where they are while the program's sequences do.
struct LaunchedFunction {
  std::shared_ptr<const GeneratedKernel> made;
  std::vector<Launch*> launches;
};
// Fills in the program's launches, of which only the steps are known, all but their code; recipes come first. The
// functions in the order in which they are first called.
std::vector<LaunchedFunction> fill_launches(Program& program, const MakeLaunch& make);

}  // namespace npusim::plan
