// The memories that the values of a graph are parts of, as eager PyTorch has them, and what they hold at the node that
// functionalize has come to.
//
// A memory's content is a value whose elements, row-major, are those at addresses 0, 1, 2, …: a write to a part makes a
// new content, and a part that is older than its memory is loaded from it again.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/placement.h"
#include "passes/pass.h"

namespace npusim {

class Memories {
 public:
  // Inputs, weights and constants get memory of their own, row-major. Nodes made here are appended to the graph's.
  Memories(Graph& graph, PassContext& context);

  void make_own(ValueId v, Residence residence);
  // v is a part of the memory of `of`.
  void share(ValueId v, ValueId of, Strides at);
  // v is another name of the tensor `as`.
  void name(ValueId v, ValueId as);
  // The memories of the two may be one: after a write to either the other must not be read.
  void may_share(ValueId a, ValueId b, std::string why);
  // The tensor v, by all its names, is from now on the part `at` of its memory, of the shape of `result`, which is one
  // more name and holds its elements.
  void change(ValueId v, ValueId result, Strides at);

  // A value's place, and whether it is known.
  Residence residence(ValueId v) const;
  int64_t elements(ValueId v) const { return memory_of(v).elements; }
  // Whether a node has written into v's memory.
  bool is_written(ValueId v) const { return memory_of(v).version > 0; }
  // The value that holds v's elements now.
  ValueId read(ValueId v, const std::string& reader);
  // v's elements are now those of `result`, which is one more name of it.
  void write(ValueId v, ValueId result, const std::string& writer);
  // Appends the node that computes `result` from what `at` addresses in v's memory.
  void load(ValueId v, const Strides& at, ValueId result, const std::string& name);
  // Makes `result` v as it is in a copy of its memory in which the elements `at` are those of `source`.
  void scatter(ValueId v, const Strides& at, ValueId source, ValueId result, const std::string& name);

 private:
  // A tensor of eager PyTorch: one object, whatever its names.
  struct Tensor {
    int32_t memory = -1;
    Strides at;
    Shape shape;
    ValueId current = no_value;  // holds its elements of this version of the memory
    int version = 0;
  };
  struct Block {
    int64_t elements = 0;
    bool known = true;
    // Holds all elements of this version, in the order of `order`.
    ValueId holder = no_value;
    Strides order;
    int version = 0;
    int32_t group = -1;  // of memories that may be one; -1: none
    std::string lost;    // why its content is not known
  };

  void add(ValueId v, Tensor tensor);
  Tensor& tensor(ValueId v) { return tensors_[static_cast<size_t>(names_[static_cast<size_t>(v)])]; }
  const Tensor& tensor(ValueId v) const { return tensors_[static_cast<size_t>(names_[static_cast<size_t>(v)])]; }
  Block& memory_of(ValueId v) { return memories_[static_cast<size_t>(tensor(v).memory)]; }
  const Block& memory_of(ValueId v) const { return memories_[static_cast<size_t>(tensor(v).memory)]; }
  const Shape& shape(ValueId v) const { return value_of(graph_, v).type.shape; }
  void refuse(const std::string& node, std::string reason);
  ValueId content(Block& memory, const std::string& name);
  Node store_node(const Strides& at, ValueId source, ValueId content, ValueId updated, const std::string& name);

  Graph& graph_;
  PassContext& context_;
  std::vector<int32_t> names_;  // by value: its tensor
  std::vector<Tensor> tensors_;
  std::vector<Block> memories_;
  std::vector<std::string> groups_;  // why each one's memories may be one
};

}  // namespace npusim
