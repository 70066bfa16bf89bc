// The harness's reader of MSL: preprocessed MSL in, C++14 for the shim and a table of callable kernels out.
//
// Works on tokens and keeps line numbers. It rewrites what is MSL but not C++ (threadgroup variables, vector
// constructors, unsuffixed float literals, attributes) and reports what a C++ compiler cannot know to be wrong
// (attributes, address spaces of program-scope variables and of kernel parameters).
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

namespace mslx {

struct Token {
  std::string text;
  size_t offset;
  int line;
  char kind;  // i identifier, n number, s string, p punctuation, E end
};

struct Edit {
  size_t offset, length;
  std::string replacement;
};

struct Attribute {
  std::string name, argument;
};

struct Parameter {
  std::string declaration, name;  // without attributes
  std::vector<Attribute> attributes;
  int line = 0;
};

struct Function {
  bool is_kernel = false;
  size_t begin = 0, end = 0;  // tokens of the body
  std::vector<Parameter> parameters;
};

// A kernel the host can call: a function or an instantiation of a template.
struct Instance {
  std::string host_name, expression, function;
  int line;
};

class Scan {
 public:
  explicit Scan(std::string source);
  // The C++ text; with `kernels`, followed by the table of kernels.
  std::string output(bool kernels);
  int errors() const { return errors_; }

 private:
  // tokens.cpp
  void lex();
  size_t lex_number(size_t at) const;
  bool is(size_t i, const char* text) const { return i < tokens_.size() && tokens_[i].text == text; }
  bool is_word(size_t i) const { return tokens_[i].kind == 'i'; }
  size_t match(size_t i) const;        // the closer of ( [ {
  size_t match_angle(size_t i) const;  // of <; 0 if it is a comparison
  bool attribute_at(size_t i) const;   // [[
  std::string text(size_t begin, size_t end) const;
  std::vector<Attribute> attributes_at(size_t i) const;
  std::string blank(size_t offset, size_t length) const;  // spaces and the same newlines
  void report(const char* severity, int line, const std::string& message);

  // declarations.cpp
  struct Declaration {
    size_t start = 0, first = 0, end = 0, body = 0, paren = 0;
    bool is_kernel = false, is_template = false, is_instance = false, has_record = false;
    std::string host_name;
    std::vector<Attribute> attributes;  // before the parameters
  };
  void declarations(size_t begin, size_t end);
  size_t skip_namespace(size_t i);  // past a namespace or extern "C" block; `i` if there is none
  Declaration declaration(size_t begin, size_t end) const;
  void instance(const Declaration& d);
  void function(const Declaration& d);
  void variable(const Declaration& d);
  std::vector<Parameter> parameters(size_t paren) const;
  void threadgroup_variables(size_t begin, size_t end);
  size_t threadgroup_variable(size_t at);

  // rewrite.cpp
  void rewrite();
  bool rewrite_literal(size_t i);
  size_t drop_address_space_twin(size_t i, size_t first_edit);
  size_t rewrite_vector(size_t i);
  void replace(size_t first, size_t last, std::string replacement);

  // kernels.cpp
  struct Bound {  // one parameter as the thunk passes it
    int kind = -1, index = -1;
    std::string attribute, condition, value;
  };
  bool synchronises(const std::string& function, std::set<std::string>& seen) const;
  void kernels();
  void kernel(const Instance& instance, const Function& function, const std::string& id);
  Bound bind(const Instance& instance, const Parameter& p, const std::string& type, std::string& grid_components);
  void bind_built_in(const Instance& instance, const Parameter& p, const Attribute& a, std::string& grid_components);

  std::string source_, file_ = "<msl>";
  std::vector<Token> tokens_;
  std::vector<Edit> edits_;
  std::map<std::string, Function> functions_;
  std::vector<Instance> instances_;
  std::string constants_;  // #defines of function constants
  std::string thunks_, table_;
  int errors_ = 0, sites_ = 0, overloads_ = 0;
  bool warned_about_index_ = false;
};

}  // namespace mslx
