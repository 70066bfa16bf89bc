// CUDA C++ texts to machine code, by NVRTC and what it compiled before.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "program/program.h"

namespace npusim::cuda {

// For each text in order: a cubin for each architecture, and PTX for the first. Compiled by all cores; what was
// compiled before with the same NVRTC and options is taken from the user's cache. Throws device where there is no
// NVRTC, internal where it does not take a text.
std::vector<Code> compile_texts(std::span<const std::string> texts, std::span<const std::string> architectures);

}  // namespace npusim::cuda
