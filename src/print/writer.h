// Writes the body of one planned kernel: expressions become named temporaries, each defined once in the scope it needs.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "print/part.h"
#include "print/plan.h"
#include "print/term.h"

namespace npusim {

// The number of a trap: 1 is a division by zero, 2 + n the n-th index term of the live loads and then the stores.
int first_trap_code(const Kernel& kernel, size_t access_or_store, bool is_store);
int required_trap_code(const Kernel& kernel);

// Where a body stands: by itself in the function that is launched, or in one that this function calls.
struct BodyContext {
  std::string_view block, thread;         // position in the grid and in the block
  int first_trap = 0;                     // is added to the numbers of traps
  std::vector<SharedArray>* shared = {};  // the caller declares what is added here; none: the body does
  std::string_view leaf = {};             // of at_point(): the contraction's value
  std::string second_leaf = {};           // and its other one
  int lanes = 1, lane_dim = -1;           // of at_point(): neighbours along this dimension, `lane` counts them
  std::string_view wait = {};  // of body(): statements before what is not `ahead`, by argument; none: not yet
  std::vector<bool> ahead = {};
};

class KernelWriter {
 public:
  KernelWriter(const PrintPlan& plan, const Dialect& dialect, BodyContext context)
      : p_(plan),
        k_(plan.kernel),
        d_(dialect),
        context_(std::move(context)),
        lanes_(std::max(context_.lanes, plan.schedule.lanes)),
        lane_dim_(context_.lanes > 1 ? context_.lane_dim : plan.lane_dim),
        lane_count_(context_.lanes > 1 ? context_.lanes : plan.lane_count),
        lane_varies_(plan.lane_varies),
        word_loads_(plan.word_loads),
        word_stores_(plan.word_stores) {
    word_loads_.resize(k_.exprs.size());
    word_stores_.resize(k_.stores.size());
    scope_.defined.assign(k_.exprs.size(), false);
    scope_.read = scope_.defined;
  }
  std::string body();  // the statements of the function
  // The same for one point of a kernel that may hold a contraction, or for `lanes` points side by side, of which memory
  // is read and written at once where that is proven to lie on boundaries of 16 bytes. The caller defines the indices
  // that indices_of() names, of the first of them, and the words that `reads` reads, of the types of `words`.
  struct Words {
    std::string type, name;
  };
  std::string at_point(std::vector<Words>& words, std::string& reads);
  // i0, i1, … from the flat position `flat` over `dims`, the last one fastest.
  std::string indices_of(const Term& flat, const std::vector<size_t>& dims);
  std::string zero_index(size_t dim);

 private:
  struct Scope {
    std::vector<bool> defined;                       // by expression
    std::vector<bool> read;                          // by expression: the words of a load
    std::map<std::string, std::string> coordinates;  // text to the name that holds it
  };

  // writer.cpp: structure
  void line(const std::string& text) { out_ += std::string(static_cast<size_t>(indent_) * 2, ' ') + text + "\n"; }
  void open(const std::string& text);
  void close();
  void indices(const Term& flat, const std::vector<size_t>& dims);
  void positions();
  void along_row(const std::function<void()>& statements);
  void points();
  void rows();
  void declare_shared(const SharedArray& array);
  void reductions(int stage);
  void declare_scans(const std::vector<int32_t>& roots);
  void invariants(int stage);
  void store(size_t number);
  bool is_absent(int32_t id) const;
  void define(int32_t id);
  bool uses_dim(size_t d) const;
  bool row_constant(const Store& s) const;
  void store_all(const std::vector<size_t>& numbers, const std::vector<int32_t>& traps);

  // batch.cpp: a store that combines
  int batch_dim() const;
  void batch(const std::vector<int32_t>& traps);
  Term combined(const Store& s, const Term& old, const Term& value) const;

  // words.cpp: lanes
  bool is_word(const Access& a) const;  // of at_point()
  bool varies(int32_t id) const { return lanes_ > 1 && lane_varies_[static_cast<size_t>(id)]; }
  // Of the thread in its warp: `lane` counts a thread's own.
  std::string_view warp_lane() const { return lanes_ == 1 ? "lane" : "in_warp"; }
  std::string lanes_type(const Access& a) const;
  Term word_name(int32_t id) const;  // of a load
  Term word_element(int32_t id) const { return term("{}.at[lane]", word_name(id)); }
  void each_lane(const std::function<void()>& statements);
  void read_word(int32_t id);
  void before_lanes(const std::vector<int32_t>& roots);
  void keep_words(bool ahead);
  void early_reads(const std::vector<bool>& early);
  std::vector<bool> find_early() const;

  // expression.cpp: text of one expression
  Term name(int32_t id) const;  // how others refer to it
  Term literal(const Expr& e, bool narrow) const;
  std::string zero(Scalar type) const;
  std::string type_of(int32_t id) const;
  Term as_long(int32_t id) const;
  Term expression(int32_t id);
  Term near(int32_t id) const;
  Term unary(const Expr& e, const Term& a, bool narrow) const;
  Term binary(const Expr& e, bool narrow);
  Term rounded(const Expr& e) const;
  Term load(int32_t id);
  Term loaded(DType dtype, const Term& element) const;  // from memory, and the inverse
  Term stored(DType dtype, const Term& value) const;
  Term convert(const Term& value, Scalar from, Scalar to, bool narrow = false) const;
  Term combine(Reduction reduction, Scalar type, const Term& a, const Term& b) const;
  Term log_of_both(Scalar type, const Term& a, const Term& b) const;
  Term identity(Reduction reduction, Scalar type) const;
  Term affine(int64_t offset, const std::vector<int64_t>& coeffs) const;
  // Which element of its argument, and the condition under which memory may be touched ("" always).
  Term element_index(const Access& a, int first_code, std::string& condition);
  std::string pointer(int arg) const;
  Term element(const Access& a, int first_code, std::string& condition);
  std::string index_number(int64_t value) const;

  const PrintPlan& p_;
  const Kernel& k_;
  const Dialect& d_;
  const BodyContext context_;
  const int lanes_, lane_dim_, lane_count_;
  std::vector<bool> lane_varies_, word_loads_, word_stores_;  // as in the plan
  std::string out_;
  int indent_ = 1;
  Scope scope_;
  std::vector<Scope> outer_scopes_;
  bool quick_ = false, divided_ = false;  // quotients of lanes are checked together; there was one
  std::vector<bool> printed_ = std::vector<bool>(p_.kernel.exprs.size(), false);  // in any scope
  std::set<int32_t> scans_;                                                       // declared
  int coordinates_ = 0;
  int batch_ = 0;  // elements of a batch, 0: one by one
};

bool mentions(const std::string& text, const std::string& word);
// A name that any language takes.
std::string identifier(const std::string& text);
// Whether a memory plan may give the argument the memory of another one.
bool may_alias(const Kernel& kernel, size_t arg);
// "// name: [3, 4], the last 1 the row", and its arguments.
std::string kernel_comment(const PrintPlan& plan, const Kernel& kernel);

// Helpers every dialect shares, and the warp's reductions, in the order in which they may use each other.
std::vector<std::pair<std::string, std::string>> printed_helpers(const Dialect& dialect);
std::string warp_reduction_name(Reduction reduction, Scalar type);
// The infix operator; "" where there is none.
std::string_view operator_of(ExprOp op);
std::string_view find_call(const Dialect& dialect, ExprOp op, Scalar type);

}  // namespace npusim
