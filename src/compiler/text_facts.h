// What a program is to whoever generates text with it.
#pragma once
#include "compiler/close_loop.h"

namespace npusim {

// A method of a program that close_loop made of another.
struct ClosedLoop {
  size_t method, of;
  NextToken next;
};

// Of a sound program with all its variants, by the roles of its methods' tensors and what decode stores. Where it is no
// text's it says what it lacks.
TextFacts find_text_facts(const Program& program, const std::vector<ClosedLoop>& loops);

// The part of them that depends on steps, for a program whose steps were made anew.
void find_states(const Program& program, TextFacts& text);

}  // namespace npusim
