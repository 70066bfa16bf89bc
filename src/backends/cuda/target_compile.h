// CUDA C++ texts to machine code, by NVRTC and what it compiled before.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "program/program.h"

namespace npusim::cuda {

// A kernel's function and those that it calls, without the helpers that all have.
struct Source {
  std::string symbol, text;
};

struct CompiledTexts {
  // Of each text, or of each of its functions where NVRTC died of the text: a cubin for each architecture, and PTX for
  // the first.
  std::vector<CodeSet> sets;
  std::map<std::string, int32_t> set_of;       // by symbol
  std::map<std::string, std::string> remarks;  // by symbol: what NVRTC died of, and how it was compiled then
};

// Functions of one text are compiled together. By all cores, each with a process for NVRTC (target_worker.h); what was
// compiled before with the same NVRTC and options is taken from the user's cache. A function that NVRTC dies of is
// compiled with less effort. Throws unsupported for one that it dies of anyhow, and for an architecture that it does
// not know, device where there is no NVRTC, internal where it does not take a text.
CompiledTexts compile_texts(std::span<const std::vector<Source>> texts, std::span<const std::string> architectures);

}  // namespace npusim::cuda
