// Recipes from the last that is needed to the first.
#include "program/recipes.h"

#include <algorithm>
#include <queue>
#include <unordered_set>

namespace npusim {

RecipeWriters recipe_writers(const Program& program) {
  RecipeWriters writers(program.buffers.size());
  const std::vector<Step>& recipes = program.recipes.steps;
  for (size_t r = 0; r < recipes.size(); ++r)
    for (size_t i = 0; i < recipes[r].buffers.size(); ++i)
      if (is_written(program, recipes[r], i)) writers[static_cast<size_t>(recipes[r].buffers[i])].push_back(r);
  return writers;
}

std::optional<std::vector<size_t>> needed_recipes(const Program& program, const RecipeWriters& writers,
                                                  const Method& method, size_t& budget) {
  std::unordered_set<int32_t> asked;  // buffers
  std::priority_queue<size_t> found;  // recipes, the last first; twice where two buffers ask for one
  const auto ask = [&](int32_t buffer, size_t before) {
    if (!asked.insert(buffer).second) return;
    for (const size_t recipe : writers[static_cast<size_t>(buffer)]) {
      if (recipe >= before) break;
      found.push(recipe);
    }
  };
  const std::vector<Step>& recipes = program.recipes.steps;
  for (const Step& step : method.steps)
    for (const int32_t buffer : step.buffers) ask(buffer, recipes.size());
  for (const TensorSpec& spec : method.outputs) ask(spec.buffer, recipes.size());
  std::vector<size_t> needed;
  while (!found.empty()) {
    const size_t recipe = found.top();
    found.pop();
    if (!needed.empty() && needed.back() == recipe) continue;
    const std::vector<int32_t>& buffers = recipes[recipe].buffers;
    if (buffers.size() > budget) return std::nullopt;
    budget -= buffers.size();
    needed.push_back(recipe);
    for (const int32_t buffer : buffers) ask(buffer, recipe);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

}  // namespace npusim
