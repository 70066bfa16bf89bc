// What a run that fails or is stopped leaves of a session: states as they were, or a session that says they are not.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/error.h"
#include "kernel/builder.h"
#include "npusim/cancel.h"
#include "npusim/program.h"
#include "npusim/session.h"
#include "program/program.h"

namespace npusim {
namespace {

constexpr int64_t width = 4, rows = 3;

// state[i] += table[index][i], or, without a state, out[i] = table[index][i]: a wrong index ends the run.
Kernel step_kernel(bool updates) {
  KernelBuilder b({width});
  const int state = updates ? b.input({DType::f32, {width}}) : -1;
  const int table = b.input({DType::f32, {rows, width}}), index = b.input({DType::i64, {1}});
  const Coord first[] = {Coord(int64_t{0})};
  const Coord at[] = {Coord(b.load(index, first)), b.dim(0)};
  Ex x = b.load(table, at);
  if (updates) x = x + b.load_flat(state);
  b.store_flat(b.output({DType::f32, {width}}, updates ? 0 : -1), x);
  return b.finish(updates ? "update" : "pick");
}

// Steps in an order drawn at random, each with an index of its own; which state each updates, or none.
struct Chain {
  std::shared_ptr<const Program> program;
  std::vector<int> updated;  // by step; -1: it gives an output
  int states = 0;
};

Chain draw_chain(std::mt19937& random) {
  Program p;
  p.devices.resize(1);
  p.devices[0].target = p.devices[0].config.name = "cpu";
  p.kernels = {step_kernel(true), step_kernel(false)};
  p.methods.resize(1);
  Method& m = p.methods[0];
  m.name = "main";
  m.arenas.resize(1);
  const auto buffer = [&](const std::string& name, BufferKind kind, const TensorType& type) {
    p.buffers.push_back({.name = name, .kind = kind, .type = type, .stored = {}, .fqn = {}, .tied = {}});
    const TensorSpec spec{name, type, static_cast<int32_t>(p.buffers.size()) - 1};
    if (kind != BufferKind::output) m.inputs.push_back(spec);
    if (kind != BufferKind::input) m.outputs.push_back(spec);
    return spec.buffer;
  };
  Chain chain;
  const int32_t table = buffer("table", BufferKind::input, {DType::f32, {rows, width}});
  chain.states = 1 + static_cast<int>(random() % 3);
  std::vector<int32_t> states;
  for (int s = 0; s < chain.states; ++s)
    states.push_back(buffer("state" + std::to_string(s), BufferKind::state, {DType::f32, {width}}));
  const int steps = chain.states + 1 + static_cast<int>(random() % 5);
  for (int k = 0; k < steps; ++k) chain.updated.push_back(k < chain.states ? k : static_cast<int>(random() % 4) - 1);
  for (int& s : chain.updated) s = s < chain.states ? s : -1;
  std::shuffle(chain.updated.begin(), chain.updated.end(), random);
  for (int k = 0; k < steps; ++k) {
    const std::string number = std::to_string(k);
    const int32_t index = buffer("index" + number, BufferKind::input, {DType::i64, {1}});
    const int s = chain.updated[static_cast<size_t>(k)];
    if (s < 0)
      m.steps.push_back({1, {table, index, buffer("out" + number, BufferKind::output, {DType::f32, {width}})}, 0, {k}});
    else
      m.steps.push_back({0, {states[static_cast<size_t>(s)], table, index, states[static_cast<size_t>(s)]}, 0, {k}});
    p.origins.push_back({"step" + number, "aten.index_select.default"});
  }
  m.nodes = steps;
  EXPECT_EQ(check_program(p), std::vector<std::string>{});
  chain.program = std::make_shared<const Program>(std::move(p));
  return chain;
}

void set_index(Session& session, size_t step, int64_t index) {
  session.set_input("main", "index" + std::to_string(step), std::as_bytes(std::span(&index, 1)));
}
void begin(const Chain& chain, Session& session) {
  std::vector<float> table(rows * width);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i + 1);
  session.set_input("main", "table", std::as_bytes(std::span(table)));
  for (size_t k = 0; k < chain.updated.size(); ++k) set_index(session, k, static_cast<int64_t>(k % rows));
}
std::string state_of(Session& session, int s) {
  const auto bytes = session.output("main", "state" + std::to_string(s));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::vector<std::string> states_of(const Chain& chain, Session& session) {
  std::vector<std::string> all;
  for (int s = 0; s < chain.states; ++s) all.push_back(state_of(session, s));
  return all;
}
std::vector<std::string> states_after(const Chain& chain, int runs) {
  Session session(chain.program, {.threads = 1});
  begin(chain, session);
  session.run("main", runs);
  return states_of(chain, session);
}

// What a run that was ended at step k, and whose steps from `last` on were not begun, has left.
void expect_whole_or_refused(const Chain& chain, Session& session, size_t last, const std::string& why) {
  std::vector<bool> torn(static_cast<size_t>(chain.states));
  for (size_t k = 0; k < last; ++k)
    if (chain.updated[k] >= 0) torn[static_cast<size_t>(chain.updated[k])] = true;
  const bool any = std::find(torn.begin(), torn.end(), true) != torn.end();
  EXPECT_EQ(session.states_are_torn(), any);
  const std::vector<std::string> before = states_after(chain, 2), zeros(before.size(), std::string(width * 4, '\0'));
  const auto refused = [&](const std::function<void()>& work) {
    try {
      work();
      ADD_FAILURE() << "a torn state is used";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(std::string(error.what()).find("partly updated"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  for (int s = 0; s < chain.states; ++s) {
    if (torn[static_cast<size_t>(s)])
      refused([&] { state_of(session, s); });
    else
      EXPECT_EQ(state_of(session, s), before[static_cast<size_t>(s)]);
  }
  if (any) {
    for (int repeat = 0; repeat < 2; ++repeat) refused([&] { session.run("main"); });
    refused([&] { session.run_on_device("main"); });
    // Setting the torn ones is one way on.
    for (int s = 0; s < chain.states; ++s)
      if (torn[static_cast<size_t>(s)])
        session.set_input("main", "state" + std::to_string(s),
                          std::as_bytes(std::span(before[static_cast<size_t>(s)].data(), width * 4)));
  }
  EXPECT_FALSE(session.states_are_torn());
  session.run("main");
  EXPECT_EQ(states_of(chain, session), states_after(chain, 3));
}

TEST(FailedRuns, LeaveStatesOrSayThatTheyDoNot) {
  std::mt19937 random(7);
  for (int n = 0; n < 30; ++n) {
    const Chain chain = draw_chain(random);
    for (size_t k = 0; k < chain.updated.size(); ++k)
      for (const int threads : {1, 2}) {
        Session session(chain.program, {.threads = threads});
        begin(chain, session);
        session.run("main", 2);
        set_index(session, k, rows);
        try {
          session.run("main");
          ADD_FAILURE() << "index " << rows << " of " << rows << " is taken";
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::bad_input);
        }
        set_index(session, k, static_cast<int64_t>(k % rows));
        expect_whole_or_refused(chain, session, k + 1, "step" + std::to_string(k));
        // Resetting all states is the other way on.
        set_index(session, k, -1);
        EXPECT_THROW(session.run("main"), Error);
        set_index(session, k, static_cast<int64_t>(k % rows));
        session.reset_states();
        session.run("main");
        EXPECT_EQ(states_of(chain, session), states_after(chain, 1));
      }
  }
}

// Between any two steps.
TEST(CancelledRuns, LeaveStatesOrSayThatTheyDoNot) {
  std::mt19937 random(8);
  for (int n = 0; n < 20; ++n) {
    const Chain chain = draw_chain(random);
    const size_t steps = chain.updated.size();
    for (size_t k = 0; k < steps; ++k) {
      Session session(chain.program, {.threads = 1});
      begin(chain, session);
      session.run("main", 2);
      // Asked once before the steps of one device, and before each of them.
      size_t asked = 0;
      const CancelScope scope([&] { return asked++ == k + 1; });
      try {
        session.run("main");
        ADD_FAILURE() << "not cancelled";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::cancelled);
      }
      expect_whole_or_refused(chain, session, k, "cancelled");
    }
    Session session(chain.program, {.threads = 1});
    begin(chain, session);
    struct Own : std::runtime_error {
      using std::runtime_error::runtime_error;
    };
    const CancelScope scope([&]() -> bool { throw Own("own"); });
    EXPECT_THROW(session.run("main"), Own);
    EXPECT_FALSE(session.states_are_torn());
  }
}

// A load asks too, as often as it has steps at least, and whatever is said no to is no program.
TEST(CancelledLoads, AtEachStep) {
  std::mt19937 random(10);
  const Chain chain = draw_chain(random);
  const std::string bytes = serialize(*chain.program);
  int asked = 0;
  {
    const CancelScope count([&] { return ++asked < 0; });
    parse_program(bytes, "the program");
  }
  EXPECT_GE(asked, static_cast<int>(chain.updated.size()));
  for (int k = 0; k < asked; ++k) {
    int now = 0;
    const CancelScope scope([&] { return now++ == k; });
    try {
      parse_program(bytes, "the program");
      ADD_FAILURE() << "not cancelled at " << k;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::cancelled);
    }
  }
}

TEST(CancelledRuns, FromAnotherThread) {
  std::mt19937 random(9);
  const Chain chain = draw_chain(random);
  Session session(chain.program, {.threads = 1});
  begin(chain, session);
  EXPECT_FALSE(session.cancel()) << "nothing is under way";
  for (int repeat = 0; repeat < 3; ++repeat) {
    ErrorKind kind = ErrorKind::internal;
    std::atomic<bool> ended = false;
    std::thread worker([&] {
      try {
        session.run("main", std::numeric_limits<int>::max());
      } catch (const Error& error) {
        kind = error.kind();
      }
      ended = true;
    });
    while (!session.cancel()) std::this_thread::yield();
    worker.join();
    EXPECT_EQ(kind, ErrorKind::cancelled);
    EXPECT_FALSE(session.cancel());
    session.reset_states();
    session.run("main");  // a cancel is for what was under way
    EXPECT_EQ(states_of(chain, session), states_after(chain, 1));
    session.reset_states();
  }
  // Of several runs, also where it comes between two of them.
  const Session::Task task(session);
  session.run("main");
  EXPECT_TRUE(session.cancel());
  EXPECT_THROW(session.run("main"), Error);
}

TEST(CancelledRuns, OneThreadAtATime) {
  std::mt19937 random(10);
  const Chain chain = draw_chain(random);
  Session session(chain.program, {.threads = 1});
  begin(chain, session);
  const Session::Task task(session);
  std::thread([&] {
    try {
      session.run("main");
      ADD_FAILURE() << "two threads at once";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
    }
  }).join();
  session.run("main");
}

}  // namespace
}  // namespace npusim
