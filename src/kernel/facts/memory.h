// What a kernel does to memory: which only move elements, and when a result may take the memory of what is read.
#pragma once
#include <string>
#include <vector>

#include "kernel/kernel.h"

namespace npusim {

// Whether the kernel only moves elements of one argument to another of the same dtype: a view made real.
bool is_copy(const Kernel& kernel);
// A copy that keeps every element at its address: the same value under another shape.
bool is_identity(const Kernel& kernel);

// By dimension of the space: whether points that differ along it could meet at one address.
std::vector<bool> colliding_dims(const Kernel& kernel, const Access& access);

// Why two stores of the kernel could reach one element without an order between them; empty when none can. What a
// kernel leaves in memory follows from it alone: points that differ store to different elements, but where what is
// there is added to, or where index terms choose the element: that happens in index order (and on a device that says so
// in any). Several stores of one argument reach the same element at each point, or each its own part of the argument.
// The kernel is sound otherwise.
std::vector<std::string> store_conflicts(const Kernel& kernel);

// By argument: how many elements its stores reach whatever is read, without index terms and with guards of positions in
// one dimension alone. Of a sound kernel, whose stores do not meet.
std::vector<int64_t> reached_elements(const Kernel& kernel);
// By argument: written ones of which the stores reach every element.
std::vector<bool> filled_arguments(const Kernel& kernel);

// Whether stores must happen in index order: they add to what is there, or may reach one element twice.
bool order_matters(const Kernel& kernel);

// What may_share() asks of a kernel, found once, in time linear in the kernel.
struct Sharing {
  std::vector<bool> reads;  // by argument: whether any part of the kernel reads it
  std::vector<bool> same;   // by argument: each point reads it only at the element that it stores
  int stored = -1;          // the argument to which that applies; -1: none
};
Sharing sharing_of(const Kernel& kernel);
bool may_share(const Sharing& sharing, int read, int written);

// Whether the memory of read argument `read` may be that of `written`: nothing reads it but each point of the space the
// very element it stores. A contraction may store before it has read all it adds, and of several stores one may come
// before another's loads, so those kernels may not read it at all.
bool may_share(const Kernel& kernel, int read, int written);
// Whether a memory plan may give both one buffer: an argument and its update, or of one size and type and may_share().
bool may_be_one(const Kernel& kernel, int read, int written);
// Whether every argument that is updated may share the memory of its update.
bool updates_in_place(const Kernel& kernel);

}  // namespace npusim
