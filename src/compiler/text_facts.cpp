// One method decodes, others read prompts, and those made of the one that decodes loop on their own output.
#include "compiler/text_facts.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/check_text.h"

namespace npusim {
namespace {

class TextFinder {
 public:
  TextFinder(const Program& program, const std::vector<ClosedLoop>& loops) : program_(program), loops_(loops) {}

  TextFacts run() {
    sort_methods();
    if (text_.decode < 0) {
      lacks_.emplace(lacks_.begin(), "expected a method that takes one token");
      return without();
    }
    lacks_.clear();  // of methods for another use
    text_.batch = shape(text_.decode, Role::tokens)[0];
    text_.vocabulary = vocabulary(text_.decode);
    if (find_role(decode().inputs, Role::positions) < 0)
      lack("method '{}' has no cache_position or position_ids", decode().name);
    choose_prefills();
    choose_loops();
    find_states(program_, text_);
    if (text_.capacity < 1) lack("nothing tells how many positions the states of '{}' hold", decode().name);
    return lacks_.empty() ? std::move(text_) : without();
  }

 private:
  template <typename... Args>
  void lack(fmt::format_string<Args...> format, Args&&... args) {
    lacks_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  TextFacts without() {
    TextFacts none;
    if (lacks_.size() > most_lacks) {
      const size_t more = lacks_.size() - (most_lacks - 1);
      lacks_.resize(most_lacks - 1);
      lack("and {} things more", more);
    }
    none.lacks = std::move(lacks_);
    return none;
  }

  const Method& method(int32_t position) const { return program_.methods[static_cast<size_t>(position)]; }
  const Method& decode() const { return method(text_.decode); }
  const Shape& shape(int32_t position, Role role) const {
    const std::vector<TensorSpec>& specs = role == Role::logits ? method(position).outputs : method(position).inputs;
    return specs[static_cast<size_t>(find_role(specs, role))].type.shape;
  }
  int64_t length(int32_t position) const { return shape(position, Role::tokens)[1]; }
  int64_t vocabulary(int32_t position) const { return shape(position, Role::logits)[2]; }

  // The first for one token decodes, those for many are prefills; what the others lack is noted.
  void sort_methods() {
    for (int32_t i = 0; static_cast<size_t>(i) < program_.methods.size(); ++i) {
      const auto is_it = [&](const ClosedLoop& loop) { return loop.method == static_cast<size_t>(i); };
      if (std::any_of(loops_.begin(), loops_.end(), is_it)) continue;
      const std::vector<std::string> lacks = lacks_of_text(program_, method(i));
      for (const std::string& problem : lacks) lack("method '{}' {}", method(i).name, problem);
      if (!lacks.empty()) continue;
      if (length(i) > 1)
        text_.prefills.push_back(i);
      else if (text_.decode < 0)
        text_.decode = i;
    }
  }

  void choose_prefills() {
    std::vector<int32_t>& prefills = text_.prefills;
    // What takes many tokens and fills no states may be there for another use.
    const auto fills = [&](int32_t m) { return have_states(method(m).outputs, program_, decode()); };
    if (std::any_of(prefills.begin(), prefills.end(), fills))
      std::erase_if(prefills, [&](int32_t m) { return !fills(m); });
    for (const int32_t m : prefills) {
      if (!fills(m))
        lack("method '{}' does not fill every state of '{}': compile with --kv-map", method(m).name, decode().name);
      if (vocabulary(m) != text_.vocabulary)
        lack("the logits of '{}' and '{}' differ in size", method(m).name, decode().name);
    }
    // Of one length, the one that computes the logits of one token only.
    const auto key = [&](int32_t m) { return std::pair(length(m), find_role(method(m).inputs, Role::last) < 0); };
    std::stable_sort(prefills.begin(), prefills.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
    const auto same = [&](int32_t a, int32_t b) { return length(a) == length(b); };
    prefills.erase(std::unique(prefills.begin(), prefills.end(), same), prefills.end());
  }

  void choose_loops() {
    for (const ClosedLoop& loop : loops_) {
      if (loop.of != static_cast<size_t>(text_.decode)) continue;
      const auto position = static_cast<int32_t>(loop.method);
      switch (loop.next) {
        case NextToken::likeliest:
          text_.greedy = position;
          break;
        case NextToken::drawn:
          text_.sample = position;
          break;
        case NextToken::drawn_of_nucleus:
          text_.nucleus = position;
      }
    }
  }

  const Program& program_;
  const std::vector<ClosedLoop>& loops_;
  TextFacts text_;
  std::vector<std::string> lacks_;
};

}  // namespace

TextFacts find_text_facts(const Program& program, const std::vector<ClosedLoop>& loops) {
  return TextFinder(program, loops).run();
}

void find_states(const Program& program, TextFacts& text) {
  if (text.decode < 0) return;
  const auto decode = static_cast<size_t>(text.decode);
  const StateStores stores = state_stores(program, decode);
  text.capacity = capacity_of(program.methods[decode], stores);
  text.by_position = stores.by_position;
}

}  // namespace npusim
