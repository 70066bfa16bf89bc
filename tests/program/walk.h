// Walks the fields of a program file: their names, and every one that a program has.
#pragma once
#include <set>
#include <string>

#include "program/fields.h"

namespace npusim {

template <typename T>
std::string struct_name() {
  const std::string text = __PRETTY_FUNCTION__;  // "… [with T = npusim::Access; …]"
  size_t begin = text.find("T = ") + 4;
  const size_t end = text.find_first_of(";]", begin);
  if (const size_t colons = text.rfind("::", end); colons != std::string::npos && colons > begin) begin = colons + 2;
  return text.substr(begin, end - begin);
}

template <typename T>
void collect_fields(std::set<std::string>& names);

// Goes into what a field may hold, once for each type.
struct FieldCollector {
  std::set<std::string>& names;
  std::string of;
  template <typename T>
  void operator()(std::string_view name, T&) {
    names.insert(of + "." + std::string(name));
    enter(static_cast<T*>(nullptr));
  }
  bool has(const std::vector<Variant>&) const { return true; }

  void enter(std::string*) {}
  template <typename T>
  void enter(std::vector<T>*) {
    enter(static_cast<T*>(nullptr));
  }
  template <typename T, size_t N>
  void enter(std::array<T, N>*) {
    enter(static_cast<T*>(nullptr));
  }
  template <typename T>
  void enter(std::map<std::string, T>*) {
    enter(static_cast<T*>(nullptr));
  }
  template <typename T>
  void enter(std::shared_ptr<const T>*) {
    enter(static_cast<T*>(nullptr));
  }
  template <typename T>
  void enter(T*) {
    if constexpr (std::is_class_v<T>) collect_fields<T>(names);
  }
};

template <typename T>
void collect_fields(std::set<std::string>& names) {
  FieldCollector collector{names, struct_name<T>()};
  T value{};
  fields(collector, value);
}

// visit("Access.offset", value) for every field there is, outermost first.
template <typename Visit>
struct FieldWalker {
  Visit& visit;
  std::string of;
  template <typename T>
  void operator()(std::string_view name, T& value) {
    visit(of + "." + std::string(name), value);
    enter(value);
  }
  bool has(const std::vector<Variant>& variants) const { return !variants.empty(); }

  void enter(std::string&) {}
  template <typename T>
  void enter(std::vector<T>& values) {
    if constexpr (std::is_class_v<T>)
      for (T& value : values) enter(value);
  }
  template <typename T, size_t N>
  void enter(std::array<T, N>&) {}
  template <typename T>
  void enter(std::map<std::string, T>&) {}
  template <typename T>
  void enter(std::shared_ptr<const T>& value) {
    if (!value) return;
    auto own = std::make_shared<T>(*value);
    enter(*own);
    value = std::move(own);
  }
  template <typename T>
  void enter(T& value) {
    if constexpr (std::is_class_v<T>) {
      FieldWalker inner{visit, struct_name<T>()};
      fields(inner, value);
    }
  }
};

template <typename Visit>
void walk_fields(Program& program, Visit&& visit) {
  FieldWalker<Visit> walker{visit, ""};
  walker.enter(program);
}

}  // namespace npusim
