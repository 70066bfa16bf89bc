// Work that is shared among threads is whole and the same whatever team comes.
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "base/error.h"
#include "base/threads.h"
#include "program/program.h"
#include "threads/programs.h"

namespace npusim {
namespace {

using test::outputs_of;
using test::threaded_programs;
using test::ThreadedProgram;

// What a host may have made of OpenMP before it calls npusim, each in a thread of its own: settings are a thread's.
struct Circumstance {
  const char* name;
  void (*within)(const std::function<void()>& work);
};
const Circumstance circumstances[] = {
    {"as it is", [](const std::function<void()>& work) { work(); }},
    {"teams of any size",
     [](const std::function<void()>& work) {
       omp_set_dynamic(1);
       work();
     }},
    {"one thread",
     [](const std::function<void()>& work) {
       omp_set_num_threads(1);
       work();
     }},
    {"no parallel regions",
     [](const std::function<void()>& work) {
       omp_set_max_active_levels(0);
       work();
     }},
    {"nested regions",
     [](const std::function<void()>& work) {
       omp_set_max_active_levels(3);
#pragma omp parallel num_threads(2)
#pragma omp single
       work();
     }},
    {"in a region of one",
     [](const std::function<void()>& work) {
#pragma omp parallel num_threads(1)
       work();
     }},
    {"in a region",
     [](const std::function<void()>& work) {
#pragma omp parallel num_threads(3)
#pragma omp single
       work();
     }},
    {"in a task of a region",
     [](const std::function<void()>& work) {
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp task
       work();
     }},
};

void in_own_thread(const Circumstance& circumstance, const std::function<void()>& work) {
  std::thread([&] { circumstance.within(work); }).join();
}

TEST(Teams, DoEveryShareOnce) {
  for (const Circumstance& circumstance : circumstances)
    for (const int threads : {1, 2, 3, 7, 64}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(threads));
      std::atomic<int64_t> covered = 0;
      in_own_thread(circumstance, [&] {
        const ThreadCount count(threads);
        on_threads(threads, [&](int share) { ++done[static_cast<size_t>(share)]; });
        parallel_for(1001, 10, [&](int64_t begin, int64_t end, int share) {
          EXPECT_LT(share, thread_count());
          covered += end - begin;
        });
      });
      for (const auto& times : done) EXPECT_EQ(times, 1) << circumstance.name << ", " << threads;
      EXPECT_EQ(covered, 1001) << circumstance.name << ", " << threads;
    }
}

TEST(Teams, ThrowTheFirstExceptionWhenAllIsDone) {
  for (const Circumstance& circumstance : circumstances) {
    std::atomic<int> done = 0;
    in_own_thread(circumstance, [&] {
      const ThreadCount count(4);
      EXPECT_THROW(on_threads(8,
                              [&](int share) {
                                ++done;
                                if (share % 2) fail(ErrorKind::bad_input, "share {}", share);
                              }),
                   Error);
    });
    EXPECT_EQ(done, 8) << circumstance.name;
  }
}

TEST(Teams, LeaveTheHostsSettings) {
  std::thread([] {
    omp_set_dynamic(1);
    omp_set_num_threads(3);
    omp_set_max_active_levels(0);
    { const ThreadCount count(2); }
    EXPECT_EQ(omp_get_dynamic(), 1);
    EXPECT_EQ(omp_get_max_threads(), 3);
    EXPECT_EQ(omp_get_max_active_levels(), 0);
  }).join();
}

// A library whose plans are for a team of some size has that size, or OpenMP's limit, wherever it is called.
TEST(Teams, HaveOneSizeWhereTheyMust) {
  const int expected = std::min(3, omp_get_thread_limit());
  for (const Circumstance& circumstance : circumstances)
    in_own_thread(circumstance, [&] {
      with_team(3, [&] {
        int found = 0;
#pragma omp parallel
#pragma omp single
        found = omp_get_num_threads();
        EXPECT_EQ(found, expected) << circumstance.name;
      });
      EXPECT_THROW(with_team(3, [] { fail(ErrorKind::bad_input, "no"); }), Error);
    });
}

TEST(Counts, AreBounded) {
  for (const int64_t count : {int64_t{-1}, int64_t{most_threads + 1}, int64_t{100000}, int64_t{1} << 40})
    EXPECT_THROW(checked_threads("threads", count), Error) << count;
  for (const int64_t count : {0, 1, most_threads}) EXPECT_EQ(checked_threads("threads", count), count);
  const ThreadedProgram p = threaded_programs(1)[0];
  for (const int count : {-1, most_threads + 1, 50000, 100000}) {
    try {
      test::open(p, count);
      ADD_FAILURE() << count;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_EQ(error.what(), fmt::format("threads: expected 1 to 4096, or 0 for npusim's choice, found {}", count));
    }
    EXPECT_THROW(probe_gflop_s(count), Error);
    EXPECT_FALSE(bind_team(count));
  }
  Session session = test::open(p, 1);
  EXPECT_THROW(session.run(0, -1), Error);
}

// Programs of every kind give the same bits in sessions that were opened and run in any circumstance. Those opened
// where all is as it is are the ones compared with.
class Programs : public testing::TestWithParam<unsigned> {};

TEST_P(Programs, GiveTheSameBitsInAnyTeam) {
  for (const ThreadedProgram& p : threaded_programs(GetParam()))
    for (const int threads : {2, 3}) {
      Session session = test::open(p, threads);
      const std::string expected = outputs_of(p, session);
      for (const Circumstance& circumstance : circumstances)
        in_own_thread(circumstance, [&] {
          EXPECT_TRUE(outputs_of(p, session) == expected) << circumstance.name << ", run: " << p.name;
          Session other = test::open(p, threads);
          EXPECT_TRUE(outputs_of(p, other) == expected) << circumstance.name << ", opened: " << p.name;
        });
      EXPECT_TRUE(outputs_of(p, session) == expected) << "afterwards: " << p.name;
    }
}

// Each thread of a caller's region has a session of its own.
TEST_P(Programs, RunOnEveryThreadOfARegion) {
  for (const ThreadedProgram& p : threaded_programs(GetParam())) {
    Session session = test::open(p, 2);
    const std::string expected = outputs_of(p, session);
    std::atomic<int> right = 0, all = 0;
#pragma omp parallel num_threads(3)
    {
      ++all;
      Session own = session.sibling();
      if (outputs_of(p, own) == expected) ++right;
    }
    EXPECT_EQ(right, all) << p.name;
  }
}

// NaN is found by flags of the threads that met it.
TEST(NaN, IsFoundInAnyTeam) {
  for (ThreadedProgram& p : threaded_programs(3)) {
    if (!p.name.starts_with("clamped convolution")) continue;
    for (const int threads : {1, 2, 4})
      for (const Circumstance& circumstance : circumstances)
        in_own_thread(circumstance, [&] {
          ThreadedProgram with_nan = p;
          const int64_t count = element_count(p.inputs[0].type.shape);
          Session session = test::open(p, threads);
          for (const int64_t at : {int64_t{0}, count / 2, count - 1}) {
            with_nan.inputs = p.inputs;
            store_double(with_nan.inputs[0].data.data(), DType::f32, at, std::numeric_limits<double>::quiet_NaN());
            const std::string found = outputs_of(with_nan, session);
            int64_t nans = 0;
            for (size_t i = 0; i < found.size(); i += 4) {
              float value = 0;
              std::memcpy(&value, found.data() + i, 4);
              nans += std::isnan(value);
            }
            const int64_t channels = p.program->methods[0].outputs[0].type.shape[1];
            EXPECT_GE(nans, 4 * channels) << circumstance.name << ", " << threads << " threads, element " << at;
          }
        });
  }
}

// A forked process runs the sessions of the one it came from, and its own.
TEST_P(Programs, RunAfterFork) {
  for (const ThreadedProgram& p : threaded_programs(GetParam())) {
    Session session = test::open(p, 3);
    const std::string expected = outputs_of(p, session);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // a child that waits for threads that are not there
      const bool right = outputs_of(p, session) == expected;
      Session sibling = session.sibling();
      Session own = test::open(p, 3);
      _exit(right && outputs_of(p, sibling) == expected && outputs_of(p, own) == expected ? 0 : 1);
    }
    EXPECT_TRUE(outputs_of(p, session) == expected) << "the parent: " << p.name;
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "the child hung: " << p.name;
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the child: " << p.name;
  }
}

std::vector<unsigned> seeds() {
  const char* more = std::getenv("NPUSIM_ENVIRONMENTS");
  std::vector<unsigned> list(more ? 20 : 1);
  for (size_t i = 0; i < list.size(); ++i) list[i] = 11 + static_cast<unsigned>(i);
  return list;
}
INSTANTIATE_TEST_SUITE_P(Seeds, Programs, testing::ValuesIn(seeds()));

TEST(Fork, FromAnyThreadAndAgain) {
  const ThreadedProgram p = threaded_programs(5)[0];
  Session session = test::open(p, 3);
  const std::string expected = outputs_of(p, session);
  const auto in_child = [&](const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      _exit(work() ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  const auto right = [&] { return outputs_of(p, session) == expected; };
  EXPECT_TRUE(in_child([&] { return right() && in_child(right) && right(); })) << "a child's child";
  bool found = false;
  std::thread([&] { found = in_child(right); }).join();
  EXPECT_TRUE(found) << "of a thread that has run nothing";
  std::thread([&] { found = right() && in_child(right) && right(); }).join();
  EXPECT_TRUE(found) << "of a thread that has";
#pragma omp parallel num_threads(2)
#pragma omp single
  found = in_child(right);
  EXPECT_TRUE(found) << "in a region";
  std::thread([&] {
    if (!bind_team(2)) return;
    cpu_set_t own;
    found = right() && in_child([&] {
              sched_getaffinity(0, sizeof own, &own);
              return right() && CPU_COUNT(&own) > 1;
            });
  }).join();
  EXPECT_TRUE(found) << "of a bound team: the child is free";
  EXPECT_TRUE(right());
}

// A session that another thread was at work with is not the child's.
TEST(Fork, RefusesASessionInTheMiddleOfARun) {
  const ThreadedProgram p = threaded_programs(5)[0];
  Session session = test::open(p, 1);
  std::atomic<bool> begun = false, stop = false;
  std::thread worker([&] {
    const Session::Task task(session);
    begun = true;
    while (!stop) std::this_thread::yield();
  });
  while (!begun) std::this_thread::yield();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    try {
      outputs_of(p, session);
    } catch (const Error& error) {
      _exit(error.kind() == ErrorKind::usage && std::string(error.what()).find("fork") != std::string::npos ? 0 : 2);
    }
    _exit(1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  stop = true;
  worker.join();
}

}  // namespace
}  // namespace npusim
