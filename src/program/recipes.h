// Which recipes a method needs, found from what it reads: recipes that it has nothing to do with cost it nothing.
#pragma once
#include <optional>
#include <vector>

#include "program/program.h"

namespace npusim {

// By buffer: positions of the recipes that write it, ascending.
using RecipeWriters = std::vector<std::vector<size_t>>;
RecipeWriters recipe_writers(const Program& program);

// Positions of the recipes that the method's steps and outputs ask for, ascending. What a recipe reads and updates asks
// for recipes before it. The recipes' arguments are taken off `budget`; nothing where there are more of them.
std::optional<std::vector<size_t>> needed_recipes(const Program& program, const RecipeWriters& writers,
                                                  const Method& method, size_t& budget);

}  // namespace npusim
