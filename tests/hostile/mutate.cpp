// Changes of trees, and programs as trees.
#include "hostile/mutate.h"

#include <fmt/format.h>

#include <limits>

#include "base/hash.h"
#include "program/pack.h"
#include "program/program.h"

namespace npusim::hostile {
namespace {

size_t below(Random& random, size_t count) { return count ? random() % count : 0; }

struct Place {
  Tree* node;
  Tree* parent;  // null: the root
  size_t index;  // among the parent's elements
  std::string path;
};

void find_places(Tree& node, Tree* parent, size_t index, const std::string& path, std::vector<Place>& places) {
  places.push_back({&node, parent, index, path});
  if (places.size() > 200'000) return;
  size_t i = 0;
  if (node.is_object())
    for (auto& [key, value] : node.items()) find_places(value, &node, i++, path + "." + key, places);
  if (node.is_array())
    for (Tree& value : node) {
      find_places(value, &node, i, fmt::format("{}[{}]", path, i), places);
      ++i;
    }
}

// Of all depths alike: there are many more leaves than lists.
Place draw_place(Tree& tree, Random& random) {
  std::vector<Place> places;
  find_places(tree, nullptr, 0, "", places);
  for (int tries = 0; tries < 8; ++tries) {
    Place& place = places[below(random, places.size())];
    if (place.node->is_structured() || below(random, 3) == 0) return place;
  }
  return places[below(random, places.size())];
}

Tree other_type(Random& random) {
  static const std::vector<Tree> values = {nullptr,       true,           0,  -1,           1.5, "x",
                                           Tree::array(), Tree::object(), "", Tree({1, 2}), 2u,  std::string(300, 'y')};
  return values[below(random, values.size())];
}

Tree other_number(const Tree& from, Random& random) {
  if (from.is_number_float()) {
    constexpr double numbers[] = {0,
                                  -1,
                                  -0.0,
                                  1e308,
                                  5e-324,
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::quiet_NaN()};
    return numbers[below(random, std::size(numbers))];
  }
  const auto value = from.get<int64_t>();
  constexpr int64_t limits[] = {0,
                                1,
                                -1,
                                2,
                                63,
                                64,
                                255,
                                256,
                                65536,
                                INT32_MAX,
                                INT32_MIN,
                                INT64_MAX,
                                INT64_MIN,
                                int64_t{1} << 32,
                                int64_t{1} << 40,
                                int64_t{1} << 56,
                                -(int64_t{1} << 56)};
  switch (below(random, 5)) {
    case 0:
      return value < INT64_MAX ? value + 1 : value;
    case 1:
      return value > INT64_MIN ? value - 1 : value;
    case 2:
      return static_cast<int64_t>(static_cast<uint64_t>(value) * 2);
    case 3:
      return static_cast<int64_t>(-static_cast<uint64_t>(value));
    default:
      return limits[below(random, std::size(limits))];
  }
}

Tree other_text(const Tree& from, Random& random) {
  const std::string text = from.get<std::string>();
  const std::vector<Tree> texts = {
      "",          std::string(10'000, 'a'),        text + text,  "../" + text, "\x1b[31m\r\n", "\u202e",
      text + "\n", text.substr(0, text.size() / 2), "torch.int64"};
  return texts[below(random, texts.size())];
}

std::string change_list(Tree& list, Random& random) {
  const size_t count = list.size(), at = below(random, count), other = below(random, count);
  const auto position = [&](size_t n) { return list.begin() + static_cast<std::ptrdiff_t>(n); };
  switch (below(random, 6)) {
    case 0:
      list.push_back(count ? list[at] : other_type(random));
      return "one element more";
    case 1:
      if (count) list.erase(position(at));
      return "one element less";
    case 2:
      if (count) std::swap(list[at], list[other]);
      return "two elements swapped";
    case 3:
      if (count) list[at] = Tree(list[other]);
      return "an element twice";
    case 4:
      for (size_t n = 0; count && n < 300; ++n) list.push_back(Tree(list[at]));
      return "an element 300 times";
    default:
      list = Tree::array();
      return "no elements";
  }
}

std::string change_object(Tree& object, Random& random) {
  if (object.empty() || below(random, 4) == 0) {
    object["extra"] = other_type(random);
    return "a member more";
  }
  auto member = object.begin();
  std::advance(member, static_cast<std::ptrdiff_t>(below(random, object.size())));
  auto other = object.begin();
  std::advance(other, static_cast<std::ptrdiff_t>(below(random, object.size())));
  switch (below(random, 3)) {
    case 0:
      object.erase(member.key());
      return "a member less";
    case 1:
      std::swap(member.value(), other.value());
      return "two members swapped";
    default: {
      const Tree value = member.value();
      object["again_" + member.key()] = value;
      return "a member under another name";
    }
  }
}

void pack(PackWriter& out, const Tree& node) {
  if (node.is_null()) return out.nil();
  if (node.is_boolean()) return out.boolean(node.get<bool>());
  if (node.is_number_float()) return out.number(node.get<double>());
  if (node.is_number_unsigned()) return out.natural(node.get<uint64_t>());
  if (node.is_number()) return out.integer(node.get<int64_t>());
  if (node.is_string()) return out.text(node.get_ref<const std::string&>());
  if (node.is_binary()) return out.bytes(std::as_bytes(std::span(node.get_binary())));
  if (node.is_array()) {
    out.array(node.size());
    for (const Tree& element : node) pack(out, element);
    return;
  }
  out.map(node.size());
  for (const auto& [key, value] : node.items()) {
    out.text(key);
    pack(out, value);
  }
}

constexpr size_t header_size = 7 + 4 + 8;

void append_number(std::string& file, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) file.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

std::string mutate(Tree& tree, Random& random) {
  Place place = draw_place(tree, random);
  Tree& node = *place.node;
  const std::string before =
      node.is_primitive() && !node.is_binary() ? node.dump(-1, ' ', false, Tree::error_handler_t::replace) : "";
  std::string what;
  switch (below(random, 8)) {
    case 0:
      node = other_type(random);
      what = "another type";
      break;
    case 1: {  // what stands elsewhere
      const Tree copy = *draw_place(tree, random).node;
      node = copy;
      what = "another part of the file";
      break;
    }
    case 2: {
      const size_t depth = below(random, 2) ? 300 : 1;
      for (size_t i = 0; i < depth; ++i) node = Tree::array({std::move(node)});
      what = "in a list";
      break;
    }
    default:
      if (node.is_number())
        what = (node = other_number(node, random)).dump();
      else if (node.is_string())
        node = other_text(node, random), what = "another text";
      else if (node.is_boolean())
        node = !node.get<bool>(), what = "the other";
      else if (node.is_array())
        what = change_list(node, random);
      else if (node.is_object())
        what = change_object(node, random);
      else if (node.is_binary())
        node.get_binary().resize(below(random, 2 * node.get_binary().size() + 1)), what = "another size";
      else
        node = other_type(random), what = "something";
  }
  return fmt::format("{}: {} becomes {}", place.path, before.substr(0, 60), what.substr(0, 60));
}

void mutate_text(std::string& text, Random& random) {
  const size_t at = below(random, text.size()), count = std::min(below(random, 40), text.size() - at);
  switch (below(random, 4)) {
    case 0:
      text.erase(at, count);
      break;
    case 1:
      text.insert(at, text.substr(at, count));
      break;
    case 2:
      text.resize(at);
      break;
    default:
      for (size_t i = 0; i < count; i += 7) text[at + i] = static_cast<char>(random());
  }
}

Tree tree_of_program(const std::string& file) { return Tree::from_msgpack(file.begin() + header_size, file.end() - 8); }

std::string file_of_program(const Tree& tree) {
  PackWriter out;
  pack(out, tree);
  const std::string body = out.take();
  std::string file("NPUSIM\0", 7);
  append_number(file, program_version, 4);
  append_number(file, body.size(), 8);
  file += body;
  append_number(file, hash_bytes(file), 8);
  return file;
}

}  // namespace npusim::hostile
