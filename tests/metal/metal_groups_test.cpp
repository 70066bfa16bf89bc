// Every sample group printed as MSL: checked, executed in the emulator in three orders, compared with evaluate().
#include <gtest/gtest.h>

#include <algorithm>

#include "compile.h"
#include "print/groups.h"

namespace npusim {
namespace {

std::string group_source(const GroupSample& sample) {
  return with_helpers(print_group(sample.group, metal_dialect), metal_dialect);
}

// Runs in guarded buffers and leaves in `memory` what it finds there; returns the trap word.
int run_group(const GroupSample& sample, const mslx::Library& library, const mslx::Options& options,
              std::vector<HostTensor>& memory) {
  std::vector<std::unique_ptr<mslx::GuardedBuffer>> buffers;
  mslx::Bindings bindings;
  for (size_t m = 0; m < memory.size(); ++m) {
    if (sample.group.memories[m].shared) continue;
    buffers.push_back(std::make_unique<mslx::GuardedBuffer>(memory[m].data.size(), 4));
    std::copy(memory[m].data.begin(), memory[m].data.end(), buffers.back()->as<std::byte>());
    bindings.buffer(static_cast<int>(buffers.size()) - 1, buffers.back()->data());
  }
  mslx::GuardedBuffer trap(4, 4);
  *trap.as<int>() = 0;
  if (takes_trap(sample.group)) bindings.buffer(static_cast<int>(buffers.size()), trap.data());
  const mslx::Result result =
      mslx::dispatch_groups(library.find(group_name(sample.group)), {1, 1, 1},
                            {static_cast<unsigned>(sample.group.parts[0].schedule.threads), 1, 1}, bindings, options);
  EXPECT_TRUE(result.ok()) << sample.name << ": " << result.error;
  size_t next = 0;
  for (size_t m = 0; m < memory.size(); ++m)
    if (!sample.group.memories[m].shared)
      std::copy_n(buffers[next++]->as<std::byte>(), memory[m].data.size(), memory[m].data.begin());
  return *trap.as<int>();
}

mslx::Library compile_group(const GroupSample& sample) {
  mslx::Library library = mslx::compile_file(mslx::write_temporary(sample.name + ".metal", group_source(sample)));
  EXPECT_EQ(library.error, "");
  return library;
}

TEST(PrintedGroups, every_text_passes_the_check) {
  for (const GroupSample& sample : group_samples()) {
    const mslx::Outcome outcome = mslx::check_file(mslx::write_temporary(sample.name + ".metal", group_source(sample)));
    EXPECT_EQ(outcome.status, 0) << outcome.messages;
    EXPECT_EQ(outcome.messages, "") << sample.name;
  }
}

TEST(PrintedGroups, compute_what_their_kernels_do) {
  for (const GroupSample& sample : group_samples()) {
    const mslx::Library library = compile_group(sample);
    const std::vector<HostTensor> expected = group_reference(sample);
    std::vector<HostTensor> first;
    for (const mslx::Order order : {mslx::Order::forward, mslx::Order::reverse, mslx::Order::random}) {
      std::vector<HostTensor> found = group_memory(sample);
      EXPECT_EQ(run_group(sample, library, {.order = order}, found), 0) << sample.name;
      EXPECT_EQ(group_difference(sample, expected, found), "");
      if (first.empty()) first = found;
      for (int m : sample.outputs)
        EXPECT_TRUE(found[static_cast<size_t>(m)].data == first[static_cast<size_t>(m)].data)
            << sample.name << ": memory " << m << " depends on the order of threads";
    }
  }
}

TEST(PrintedGroups, trap_with_numbers_of_their_own) {
  const GroupSample sample = group_samples()[3];
  const mslx::Library library = compile_group(sample);
  const auto trap_of = [&](size_t memory, int64_t value) {
    std::vector<HostTensor> found = group_memory(sample);
    store_int(found[memory].data.data(), DType::i64, 3, value);
    return run_group(sample, library, {}, found);
  };
  EXPECT_EQ(trap_of(1, 4), 2);
  EXPECT_EQ(trap_of(3, 0), 3);
}

TEST(PrintedGroups, have_no_races) {
  for (const GroupSample& sample : group_samples()) {
    const std::string object =
        mslx::compile_for_races(mslx::write_temporary(sample.name + ".metal", group_source(sample)));
    ASSERT_NE(object, "");
    std::vector<size_t> bytes;
    for (const KernelGroup::Memory& m : sample.group.memories)
      if (!m.shared) bytes.push_back(static_cast<size_t>(m.elements) * dtype_size(m.dtype));
    if (takes_trap(sample.group)) bytes.push_back(4);
    const std::optional<int> races = mslx::count_races(
        object, group_name(sample.group), 1, static_cast<unsigned>(sample.group.parts[0].schedule.threads), bytes);
    if (!races) GTEST_SKIP() << "SKIP: ThreadSanitizer does not run here";
    EXPECT_EQ(*races, 0) << sample.name;
  }
}

}  // namespace
}  // namespace npusim
