// The search for the likeliest tokens as the CUDA target prints it: it takes those that the interpreter takes.
#include <gtest/gtest.h>

#include <random>

#include "backends/cuda/harness/check.h"
#include "compiler/nucleus_graph.h"
#include "kernel/evaluate.h"

namespace npusim {
namespace {

using Memory = std::vector<HostTensor>;  // by value

// Equal kernels are one function.
class Chain {
 public:
  explicit Chain(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes) {
      made_.push_back(
          cuda::codegen::choose::make_kernel(*node.kernel, any, std::vector<bool>(node.kernel->args.size())));
      if (symbols_.insert(made_.back().symbol).second) functions_ += made_.back().functions;
    }
    machine_ = std::make_unique<TextRunner>(functions_);
  }
  const std::string& functions() const { return functions_; }
  const std::string& error() const { return machine_->error(); }

  Memory run(Memory memory, mslx::Order order) {
    for (size_t n = 0; n < made_.size(); ++n) {
      const Node& node = graph_.nodes[n];
      Memory args;
      for (const auto* values : {&node.inputs, &node.outputs})
        for (const ValueId id : *values) args.push_back(memory[static_cast<size_t>(id)]);
      const std::vector<bool> ahead(args.size());
      EXPECT_EQ(machine_->run(*node.kernel, made_[n], args, order, ahead), "") << node.name;
      for (size_t i = 0; i < node.outputs.size(); ++i)
        memory[static_cast<size_t>(node.outputs[i])] = args[node.inputs.size() + i];
    }
    return memory;
  }
  Memory interpret(Memory memory) const {
    for (const Node& node : graph_.nodes) {
      std::vector<void*> args;
      for (const auto* values : {&node.inputs, &node.outputs})
        for (const ValueId id : *values) args.push_back(memory[static_cast<size_t>(id)].data.data());
      evaluate(*node.kernel, args);
    }
    return memory;
  }

 private:
  const Graph& graph_;
  std::vector<cuda::codegen::GeneratedKernel> made_;
  std::set<std::string> symbols_;
  std::string functions_;
  std::unique_ptr<TextRunner> machine_;
};

TEST(CudaNucleus, TakesWhatTheInterpreterTakes) {
  struct Size {
    int64_t vocabulary, parts;
    DType dtype;
  };
  for (const auto& [vocabulary, parts, dtype] :
       {Size{1, 1, DType::f32}, {151, 1, DType::bf16}, {2048, 256, DType::f32}}) {
    const Graph graph = nucleus_graph(vocabulary, parts, dtype);
    Chain chain(graph);
    ASSERT_EQ(chain.error(), "");
    check_nvrtc(chain.functions());
    const auto taken = static_cast<size_t>(graph.outputs[0].value);
    size_t least = static_cast<size_t>(vocabulary), most = 0;
    for (const float top_p : {0.0F, 0.5F, 0.9F, 1.0F}) {
      Memory memory;
      for (const Value& value : graph.values) memory.push_back(make_tensor(value.type));
      std::mt19937_64 random(static_cast<unsigned>(vocabulary));
      std::normal_distribution<double> normal(0, 2);
      for (int64_t i = 0; i < vocabulary; ++i) store_double(memory[0].data.data(), dtype, i, normal(random));
      store_double(memory[1].data.data(), DType::f32, 0, 0.8);
      store_double(memory[2].data.data(), DType::f32, 0, top_p);
      const Memory expected = chain.interpret(memory);
      size_t count = 0;
      for (int64_t i = 0; i < vocabulary; ++i) count += load_int(expected[taken].data.data(), DType::i64, i) != 0;
      least = std::min(least, count), most = std::max(most, count);
      for (const mslx::Order order : {mslx::Order::forward, mslx::Order::random})
        EXPECT_TRUE(chain.run(memory, order)[taken].data == expected[taken].data)
            << vocabulary << " " << top_p << " " << count;
    }
    EXPECT_EQ(least, 1U);
    EXPECT_EQ(most, static_cast<size_t>(vocabulary));
  }
}

}  // namespace
}  // namespace npusim
