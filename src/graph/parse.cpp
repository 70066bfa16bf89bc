// Parsing of graph text (graph/text.h).
#include <charconv>
#include <unordered_map>

#include "base/error.h"
#include "graph/attrs.h"
#include "graph/cursor.h"
#include "graph/text.h"

namespace npusim {
namespace {

bool parse_int(std::string_view word, int64_t& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size();
}

bool parse_real(std::string_view word, double& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size();
}

constexpr size_t number_kinds = 3;  // None, bool, int and real stand first in Attr

// An operand or attribute as written.
struct Item {
  std::string name;  // "name=…"
  std::vector<ValueId> values;
  bool is_value = false;  // one value
  bool is_list = false;   // values and Nones in brackets
  Attr attr;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Graph parse() {
    while (next_line()) parse_line();
    if (!line_.line) line_.expected("a graph");
    if (const auto problems = check_graph(graph_); !problems.empty())
      fail(ErrorKind::bad_input, "graph text: {}", problems[0]);
    return std::move(graph_);
  }

 private:
  bool next_line() {
    while (!rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = {rest_.substr(0, end), line_.line + 1, 0};
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      if (!line_.text.empty() && line_.text.back() == '\r') line_.text.remove_suffix(1);
      if (!line_.at_end()) return true;
    }
    return false;
  }

  void parse_line() {
    if (line_.peek('%')) return parse_node();
    const size_t begin = line_.at;
    const std::string_view word = line_.word();
    if (word == "graph")
      graph_.name = line_.quoted();
    else if (word == "input")
      parse_input();
    else if (word == "weight")
      parse_weight();
    else if (word == "constant")
      parse_constant();
    else if (word == "output")
      parse_output();
    else {
      line_.at = begin;
      return parse_node();
    }
    if (!line_.at_end()) line_.expected("the end of the line");
  }

  TensorType parse_type() {
    const size_t begin = line_.at;
    const auto dtype = parse_dtype(line_.word());
    if (!dtype) {
      line_.at = begin;
      line_.expected("a dtype");
    }
    TensorType type{*dtype, {}};
    line_.expect('[');
    while (!line_.accept(']')) {
      if (!type.shape.empty()) line_.expect(',');
      int64_t extent = -1;
      if (!parse_int(line_.word(), extent) || extent < 0) line_.expected("an extent");
      type.shape.push_back(extent);
    }
    element_count(type.shape);
    return type;
  }

  ValueId define(std::string name, TensorType type, ValueSource source) {
    if (ids_.count(name)) line_.expected(fmt::format("a new name, '{}' is taken,", name));
    const ValueId id = add_value(graph_, name, std::move(type));
    value_of(graph_, id).source = source;
    ids_.emplace(std::move(name), id);
    return id;
  }

  // "%name: type"
  ValueId parse_definition(ValueSource source) {
    line_.expect('%');
    std::string name = line_.name();
    line_.expect(':');
    return define(std::move(name), parse_type(), source);
  }

  ValueId parse_use() {
    line_.expect('%');
    const std::string name = line_.name();
    const auto it = ids_.find(name);
    if (it == ids_.end()) line_.expected(fmt::format("a value defined above, '{}' is not,", name));
    return it->second;
  }

  void parse_input() { graph_.inputs.push_back(parse_definition(ValueSource::input)); }

  void parse_weight() {
    const ValueId id = parse_definition(ValueSource::weight);
    line_.expect('=');
    value_of(graph_, id).fqn = line_.quoted();
  }

  void parse_constant() {
    const ValueId id = parse_definition(ValueSource::constant);
    line_.expect('=');
    HostTensor tensor{value_of(graph_, id).type, {}};
    const int64_t count = element_count(tensor.type.shape);
    if (line_.peek('['))
      parse_listed(tensor, count);
    else
      parse_hex(tensor);
    if (!line_.at_end()) {
      if (line_.word() != "as") line_.expected("as");
      value_of(graph_, id).fqn = line_.quoted();
    }
    value_of(graph_, id).data = std::make_shared<const HostTensor>(std::move(tensor));
  }

  void parse_listed(HostTensor& tensor, int64_t count) {
    // One element takes at least a digit: a short line cannot ask for much memory.
    if (static_cast<size_t>(count) > line_.text.size()) line_.expected(fmt::format("{} elements", count));
    tensor = make_tensor(tensor.type);
    line_.expect('[');
    for (int64_t i = 0; i < count; ++i) {
      if (i) line_.expect(',');
      const std::string_view word = line_.word();
      int64_t integer = 0;
      double real = 0;
      const bool is_real = is_float(tensor.type.dtype);
      if (is_real ? !parse_real(word, real) : !parse_int(word, integer)) line_.expected("a number before this");
      if (is_real)
        store_double(tensor.data.data(), tensor.type.dtype, i, real);
      else if (wrap_through(tensor.type.dtype, integer) != integer)
        line_.expected(fmt::format("a number that {} holds before this", dtype_name(tensor.type.dtype)));
      else
        store_int(tensor.data.data(), tensor.type.dtype, i, integer);
    }
    line_.expect(']');
  }

  void parse_hex(HostTensor& tensor) {
    if (line_.word() != "hex") line_.expected("[ or hex");
    const size_t bytes = byte_size(tensor.type);
    const std::string_view digits = bytes ? line_.word() : std::string_view{};
    if (digits.size() != 2 * bytes) line_.expected(fmt::format("{} hexadecimal digits before this", 2 * bytes));
    for (size_t i = 0; i < bytes; ++i) {
      unsigned byte = 0;
      if (std::from_chars(&digits[2 * i], &digits[2 * i] + 2, byte, 16).ptr != &digits[2 * i] + 2)
        line_.expected("hexadecimal digits before this");
      tensor.data.push_back(static_cast<std::byte>(byte));
    }
  }

  void parse_output() {
    GraphOutput output;
    const bool named = line_.peek('"');
    if (named) {
      output.name = line_.quoted();
      line_.expect('=');
    }
    output.value = parse_use();
    if (!named) output.name = value_of(graph_, output.value).name;
    graph_.outputs.push_back(std::move(output));
  }

  void parse_node() {
    Node node;
    std::vector<std::pair<std::string, TensorType>> results;
    while (line_.accept('%')) {
      std::string name = line_.name();
      line_.expect(':');
      results.emplace_back(std::move(name), parse_type());
      if (!line_.accept(',')) line_.expect('=');
    }
    const size_t begin = line_.at;
    const std::string_view op = line_.word();
    if (op == "kernel") fail(ErrorKind::bad_input, "graph text, line {}: kernels are printed, not parsed", line_.line);
    node.op = find_op(op);
    if (!node.op) {
      line_.at = begin;
      line_.expected("a line's keyword or a known op");
    }
    node.in_place = is_in_place(op);
    fill_call(node, parse_items());
    // Only now do the results exist: a node cannot read itself.
    for (auto& [name, type] : results)
      node.outputs.push_back(define(std::move(name), std::move(type), ValueSource::node));
    if (line_.accept('@'))
      node.name = line_.name();
    else if (!node.outputs.empty())
      node.name = value_of(graph_, node.outputs[0]).name;
    else
      line_.expected("@ and the node's name");
    if (!line_.at_end()) line_.expected("the end of the line");
    add_node(graph_, std::move(node));
  }

  std::vector<Item> parse_items() {
    std::vector<Item> items;
    line_.expect('(');
    while (!line_.accept(')')) {
      if (!items.empty()) line_.expect(',');
      items.push_back(parse_item());
    }
    return items;
  }

  Item parse_item() {
    Item item;
    if (line_.peek('%')) {
      item.values.push_back(parse_use());
      item.is_value = true;
      return item;
    }
    if (line_.peek('[')) {
      parse_list(item);
      return item;
    }
    if (!line_.peek('"')) {
      const size_t begin = line_.at;
      const std::string_view word = line_.word();
      if (line_.accept('=')) {
        item.name = std::string(word);
        if (line_.peek('['))
          parse_list(item);
        else
          item.attr = parse_atom();
        return item;
      }
      line_.at = begin;
    }
    item.attr = parse_atom();
    return item;
  }

  Attr parse_atom() {
    if (line_.peek('"')) return line_.quoted();
    const std::string_view word = line_.word();
    if (word == "None") return std::monostate{};
    if (word == "true" || word == "false") return word == "true";
    if (const auto dtype = parse_dtype(word)) return *dtype;
    int64_t integer = 0;
    if (parse_int(word, integer)) return integer;
    double real = 0;
    if (parse_real(word, real)) return real;
    line_.expected("a value before this");
  }

  // Values and Nones, or one kind of numbers.
  void parse_list(Item& item) {
    line_.expect('[');
    std::vector<Attr> atoms;
    for (bool first = true; !line_.accept(']'); first = false) {
      if (!first) line_.expect(',');
      if (line_.peek('%')) {
        item.values.push_back(parse_use());
      } else if (Attr atom = parse_atom(); std::holds_alternative<std::monostate>(atom)) {
        item.values.push_back(no_value);
      } else {
        atoms.push_back(std::move(atom));
      }
    }
    item.is_list = atoms.empty();
    if (item.is_list) return;
    if (!item.values.empty()) line_.expected("only values or only numbers in the list before this");
    item.attr = std::holds_alternative<bool>(atoms[0])     ? list_of<bool>(atoms)
                : std::holds_alternative<double>(atoms[0]) ? list_of<double>(atoms)
                                                           : list_of<int64_t>(atoms);
  }

  template <typename T>
  Attr list_of(const std::vector<Attr>& atoms) {
    std::vector<T> list;
    for (const Attr& atom : atoms) {
      const T* element = std::get_if<T>(&atom);
      if (!element) line_.expected("a list of one kind before this");
      list.push_back(*element);
    }
    return list;
  }

  // Puts operands and attributes to their arguments; attributes not written have their defaults.
  void fill_call(Node& node, std::vector<Item> items) {
    const std::vector<SchemaArg>& args = node.op->schema.args;
    node.attrs.resize(args.size());
    size_t next = 0;
    for (size_t i = 0; i < args.size(); ++i) {
      if (!is_operand(args[i])) {
        node.attrs[i] = default_attr(args[i]);
        continue;
      }
      if (next == items.size() || !items[next].name.empty())
        line_.expected(fmt::format("operand '{}' before this", args[i].name));
      fill_operand(node, args[i], i, std::move(items[next++]));
    }
    for (; next < items.size(); ++next) {
      Item& item = items[next];
      const int position = node.op->schema.find(item.name);
      if (position < 0 || is_operand(args[static_cast<size_t>(position)]) || !item.values.empty())
        line_.expected(fmt::format("an attribute of {}, not '{}', before this", node.op->name(), item.name));
      node.attrs[static_cast<size_t>(position)] =
          item.is_list ? empty_list(args[static_cast<size_t>(position)]) : std::move(item.attr);
    }
  }

  static Attr empty_list(const SchemaArg& arg) {
    if (arg.kind == ArgKind::real_list) return std::vector<double>{};
    if (arg.kind == ArgKind::bool_list) return std::vector<bool>{};
    return std::vector<int64_t>{};
  }

  void fill_operand(Node& node, const SchemaArg& arg, size_t position, Item item) {
    if (arg.kind == ArgKind::tensor_list) {
      if (!item.is_list) line_.expected(fmt::format("a list of values for '{}' before this", arg.name));
      node.list_sizes.push_back(static_cast<int>(item.values.size()));
      node.inputs.insert(node.inputs.end(), item.values.begin(), item.values.end());
      return;
    }
    if (item.is_list) line_.expected(fmt::format("one value for '{}' before this", arg.name));
    if (item.attr.index() > number_kinds)
      line_.expected(fmt::format("a value or number for '{}' before this", arg.name));
    node.inputs.push_back(item.is_value ? item.values[0] : no_value);
    node.attrs[position] = std::move(item.attr);
  }

  std::string_view rest_;
  Cursor line_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

Graph parse_graph(std::string_view text) {
  Graph graph = Parser(text).parse();
  set_origins(graph);
  return graph;
}

}  // namespace npusim
