// Splitting methods between the target's device and another that takes what it refuses: where each node is, in which
// order, and what is transferred.
#pragma once
#include <string>
#include <vector>

#include "codegen/build_program.h"
#include "npusim/compiler.h"

namespace npusim {

inline constexpr int32_t fallback_device = 1;

// What the user wants of the fallback: operators for it, or a plan. Gives nodes of the IR their reasons; throws usage
// or bad_input for an operator, a method or a node that is not there.
void choose_fallbacks(std::vector<MethodGraph>& methods, const CompileOptions& options);

// Kernels of the program, built of these methods, that the first device refuses: their nodes of the IR get that as a
// reason. False: there are none that could be elsewhere.
bool send_refused(const Program& program, const PassContext& context, std::vector<MethodGraph>& methods);
// Throws unsupported for kernels that their device refuses, naming each.
void raise_refused(const Program& program, const PassContext& context);

// What the fallback does and why, a line for each reason.
std::vector<std::string> fallback_notes(const Program& program);

// Whether any node of the IR was given a reason to be done elsewhere than on the first device.
bool has_fallbacks(const std::vector<MethodGraph>& methods);

// Gives every node of kernels its device: the fallback, where a node of the IR that it does the work of has a reason,
// else the first. Copies that only move elements, and what is known at load, have no device of their own: they go where
// their readers are, or stay with what they read where less is transferred that way. All that updates a state is on one
// device, in all methods. Called before fusion, which merges nodes of one device.
void assign_devices(std::vector<MethodGraph>& methods);

// Orders the nodes and adds transfers: what a graph with nodes on two devices needs to become steps.
void divide(Graph& graph);
// Orders the nodes so that a run changes device as seldom as the data flow allows, and otherwise as they were.
void order_by_device(Graph& graph);

// Gives every input, weight and constant a device, and puts a transfer before the segment that reads what another
// device has, once for each value; transfers of one segment stand together. A transfer is a node with one operand,
// which is on another device than the node.
void add_transfers(Graph& graph);

}  // namespace npusim
