// One change to a tree of JSON, at a place and of a kind that are drawn: what every reader of files must bear.
#pragma once
#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace npusim::hostile {

using Tree = nlohmann::ordered_json;
using Random = std::mt19937_64;

// Says what it did: "kernels[3].space[0]: 4 becomes -1".
std::string mutate(Tree& tree, Random& random);
// A few bytes of a text changed, left out or repeated.
void mutate_text(std::string& text, Random& random);

// A .npubin and the tree of its body. What a file cannot hold (a list where a field's name belongs) is left out.
Tree tree_of_program(const std::string& file);
std::string file_of_program(const Tree& tree);

}  // namespace npusim::hostile
