// How the text of a whole method is printed: what its files share.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/codegen/stream/table.h"
#include "backends/cuda/codegen/stream/text.h"
#include "backends/cuda/codegen/text.h"
#include "print/print.h"
#include "print/term.h"

namespace npusim::cuda::codegen::stream {

inline constexpr int published_entries = 3;  // of a row: the memory of the words, the block's elements, its words

class StreamPrinter {
 public:
  StreamPrinter(const WholeMethod& method, const StreamPlan& plan, const StreamCandidate& candidate)
      : m_(method), plan_(plan), candidate_(candidate), rows_(method, plan) {}

  std::optional<StreamText> run(std::string& why);

 private:
  using Kind = StreamStage::Kind;

  // Chains of stages (text.cpp).
  bool are_apart(const StreamStage& stage) const;
  void add(std::span<const StreamStage> chain);
  std::string print(std::span<const StreamStage> chain);
  std::string constants() const;
  // A chain: stages up to the next one that waits for other blocks. What is printed of it is there once.
  static bool begins(const StreamStage& stage) { return stage.after_all || stage.kind == Kind::exchange; }

  // Stages and their entries of a row (text_stages.cpp).
  int64_t rounds_of(const StreamExchange& e) const;
  std::string arguments(const StreamStage& stage) const;
  int entries_of(const StreamStage& stage) const;
  void publish(const StreamStage& stage, size_t made, Lines& c, std::string& to_publish);
  int threads_of(const StreamStage& stage) const;
  void print(const StreamStage& stage, Lines& c, int first);
  void exchange(const StreamStage& stage, Lines& c);
  const StreamSlice* slice_of_rows(const StreamStage& stage) const;
  std::string shares_of(const StreamSlice& slice) const;
  Term owned(const StreamSlice& slice) const;
  void attention(const StreamStage& stage, const std::string& name);
  bool uses_ring(const StreamStage& stage) const {
    return stage.kind == Kind::attention && plan_.attentions[stage.step]->ring.has_value();
  }
  void begin_ring(const StreamStage& stage, Lines& declared, Lines& begun);
  void part(const StreamStage& stage, const std::string& name, int first, Lines& c);
  std::optional<size_t> published(const StreamStage& stage) const { return stream::published(m_, plan_, stage); }
  Term row(int at) const { return term("row[{}]", row_ + at); }
  // A pointer into the block's memory, as the compiler would not know.
  static Term in_block(const Term& pointer) { return term("own + (int)((char*){} - own)", pointer); }
  // Two numbers of the block's own in the row: they are read before the first stage, which waits.
  Term numbers(int at) {
    numbers_.insert(at);
    return term("numbers_{}", at);
  }
  // From the first argument of the stage to its words.
  int publish_back(const StreamStage& stage) const {
    return static_cast<int>(plan_.kernels[stage.step].args.size()) + (stage.kind == Kind::merge ? 3 : 1);
  }
  std::string name_of(const StreamStage& stage) const {
    const bool ring = plan_.attentions[stage.step] && plan_.attentions[stage.step]->ring;
    return kernel_name(plan_.kernels[stage.step]) + (are_apart(stage) ? "" : "_within") + (ring ? "_ring" : "");
  }
  // By which the words of different attentions differ that are in the same memory.
  size_t attention_count() const {
    return static_cast<size_t>(
        std::count_if(plan_.attentions.begin(), plan_.attentions.end(), [](const auto& a) { return a.has_value(); }));
  }

  // Products that are multiplied together (text_products.cpp).
  Term lines_of(std::span<const StreamStage> chain, std::span<const StreamStage> run);
  void print_products(std::span<const StreamStage> run, Lines& c, std::string& to_publish);
  std::span<const StreamStage> first_products(std::span<const StreamStage> chain, std::span<const char> meets) const;
  bool goes_with(std::span<const StreamStage> run, const StreamStage& next) const;
  std::string products(std::span<const StreamStage> run);

  std::string_view type(DType dtype) const { return d_.elements[static_cast<size_t>(dtype)].type; }
  int64_t bytes_of(int32_t value) const { return plan_.bytes[static_cast<size_t>(value)]; }
  static std::string pointer_type(const StreamExchange& e) {
    return part_bytes(e) == 4 ? "(unsigned*)" : "(unsigned short*)";
  }

  const WholeMethod& m_;
  const StreamPlan& plan_;
  const StreamCandidate& candidate_;
  const Dialect& d_ = stream_dialect();
  TableWriter rows_;
  const StreamTable& table_ = rows_.table;
  std::map<std::string, int> kinds_;  // texts of chains, as numbered in the table
  int row_ = 0;                       // where the stage that is printed begins in the row of its chain
  bool begun_ = false;                // the first piece of the next products is taken
  bool ring_begun_ = false;       // attentions through the ring begin with their chain, not behind an inspection of it
  std::string overlapped_;        // text between the request of an exchange's words and the wait for them
  std::map<size_t, int> row_of_;  // of that chain, where rows begin that every block computes, by step
  std::set<int> numbers_;         // entries of two numbers in the row that is printed
  std::set<std::string> parts_;
  std::string functions_, cases_;
  int64_t scratch_ = 0;
};

}  // namespace npusim::cuda::codegen::stream
