// einsum: the equation's labels say which indices are equal and which are summed.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "ops/contract.h"

namespace npusim {
namespace {

// Labels per dimension of each operand and of the result: letters, and ellipsis dimensions (counted from the right) as
// -1, -2, …
struct Equation {
  std::vector<std::vector<int>> operands;
  std::vector<int> result;
};

// One term: letters around at most one "...", which stands for `ellipsis` dimensions.
std::vector<int> parse_term(const OpCall& call, std::string_view term, size_t ellipsis) {
  std::vector<int> labels;
  bool dotted = false;
  for (size_t i = 0; i < term.size(); ++i) {
    const char c = term[i];
    if (c == '.' && !dotted && term.substr(i, 3) == "...") {
      for (size_t d = ellipsis; d > 0; --d) labels.push_back(-static_cast<int>(d));
      dotted = true;
      i += 2;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      labels.push_back(c);
    } else {
      fail(ErrorKind::bad_input, "{}: '{}' in the equation", call.op->name(), c);
    }
  }
  return labels;
}

bool has_ellipsis(std::string_view term) { return term.find("...") != std::string_view::npos; }
size_t letters(std::string_view term) { return term.size() - (has_ellipsis(term) ? 3 : 0); }

Equation parse(const OpCall& call) {
  std::string text = call.text("equation");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  std::vector<std::string> terms{""};
  for (char c : text.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != call.inputs.size())
    fail(ErrorKind::bad_input, "{}: equation '{}' has {} terms for {} operands", call.op->name(), text, terms.size(),
         call.inputs.size());
  Equation equation;
  size_t ellipsis = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t rank = call.inputs[i]->shape.size(), named = letters(terms[i]);
    if (rank < named || (rank != named && !has_ellipsis(terms[i])))
      fail(ErrorKind::bad_input, "{}: term '{}' does not fit operand {}", call.op->name(), terms[i],
           to_string(*call.inputs[i]));
    if (has_ellipsis(terms[i])) ellipsis = std::max(ellipsis, rank - named);
    equation.operands.push_back(parse_term(call, terms[i], rank - named));
  }
  if (arrow != std::string::npos) {
    equation.result = parse_term(call, text.substr(arrow + 2), ellipsis);
    return equation;
  }
  std::map<int, int> count;  // without an arrow: ellipsis dimensions, then letters that stand once, in order
  for (const auto& labels : equation.operands)
    for (int label : labels) ++count[label];
  for (size_t d = ellipsis; d > 0; --d) equation.result.push_back(-static_cast<int>(d));
  for (auto [label, times] : count)
    if (label > 0 && times == 1) equation.result.push_back(label);
  return equation;
}

std::map<int, int64_t> extents_of(const OpCall& call, const Equation& equation) {
  std::map<int, int64_t> extents;
  for (size_t i = 0; i < equation.operands.size(); ++i)
    for (size_t d = 0; d < equation.operands[i].size(); ++d) {
      const int64_t extent = call.inputs[i]->shape[d];
      int64_t& known = extents.try_emplace(equation.operands[i][d], 1).first->second;
      if (extent != 1 && known != 1 && known != extent)
        fail(ErrorKind::bad_input, "{}: '{}' is {} and {}", call.op->name(), call.text("equation"), known, extent);
      if (extent != 1) known = extent;
    }
  return extents;
}

std::vector<TensorType> infer_einsum(const OpCall& call) {
  const Equation equation = parse(call);
  const auto extents = extents_of(call, equation);
  TensorType type = *call.inputs[0];
  for (const TensorType* input : call.inputs) type.dtype = promote_types(type.dtype, input->dtype);
  type.shape.clear();
  for (int label : equation.result) {
    const auto found = extents.find(label);
    if (found == extents.end() || std::count(equation.result.begin(), equation.result.end(), label) != 1)
      fail(ErrorKind::bad_input, "{}: bad result in '{}'", call.op->name(), call.text("equation"));
    type.shape.push_back(found->second);
  }
  return {type};
}

// From left to right, keeping the labels that the result or a later operand names.
void lower_einsum(const OpCall& call, Lowering& lowering) {
  const Equation equation = parse(call);
  const size_t count = equation.operands.size();
  const Labelled result{lowering.output(0), equation.result};
  Labelled so_far{lowering.input(0), equation.operands[0]};
  if (count == 1) return lower_product(lowering, "einsum", so_far, {}, result);
  for (size_t i = 1; i < count; ++i) {
    const Labelled next{lowering.input(static_cast<int>(i)), equation.operands[i]};
    if (i + 1 == count) return lower_product(lowering, "einsum", so_far, next, result);
    auto needed = [&](int label) {
      auto in = [&](const std::vector<int>& labels) {
        return std::find(labels.begin(), labels.end(), label) != labels.end();
      };
      return in(equation.result) ||
             std::any_of(equation.operands.begin() + static_cast<std::ptrdiff_t>(i) + 1, equation.operands.end(), in);
    };
    Labelled partial;
    Shape shape;
    for (const Labelled* x : std::initializer_list<const Labelled*>{&so_far, &next})
      for (int label : x->labels) {
        if (!needed(label) || std::find(partial.labels.begin(), partial.labels.end(), label) != partial.labels.end())
          continue;
        partial.labels.push_back(label);
        int64_t extent = 1;  // among the first operands only: a later one may still broadcast it
        for (size_t j = 0; j <= i; ++j)
          for (size_t d = 0; d < equation.operands[j].size(); ++d)
            if (equation.operands[j][d] == label && call.inputs[j]->shape[d] != 1) extent = call.inputs[j]->shape[d];
        shape.push_back(extent);
      }
    partial.operand = lowering.temporary({compute_dtype(call.outputs[0].dtype), shape});
    lower_product(lowering, "einsum", so_far, next, partial);
    so_far = partial;
  }
}

constexpr OpRecord records[] = {
    in_memory(contraction("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", infer_einsum,
                          lower_einsum),
              Memory::arbitrary),
};

}  // namespace

std::span<const OpRecord> einsum_ops() { return records; }

}  // namespace npusim
