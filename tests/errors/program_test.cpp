// Damaged and hostile programs: each gives one bad_input error that says what, where, what was expected and found.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "program/pack.h"
#include "program/sample.h"

namespace npusim {
namespace {

constexpr size_t header = 7 + 4 + 8;

std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

// A file around a body, with a right checksum.
std::string sealed(const std::string& body) {
  std::string file =
      std::string("NPUSIM\0", 7) + little_endian(program_version, 4) + little_endian(body.size(), 8) + body;
  return file + little_endian(hash_bytes(file), 8);
}
std::string body_of(const std::string& file) { return file.substr(header, file.size() - header - 8); }

std::string load_error(const std::string& bytes) {
  try {
    deserialize(bytes, "p.npubin");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    return error.what();
  }
  return "none";
}

std::string check_error(const std::function<void(Program&)>& damage, Program program = sample_program()) {
  damage(program);
  const std::string error = load_error(serialize(program));
  EXPECT_TRUE(error.starts_with("p.npubin: ")) << error;
  return error.substr(std::min<size_t>(error.size(), 10));
}

// Magic, version, size and checksum, each with its message.
TEST(ProgramFile, Envelope) {
  const std::string good = serialize(sample_program());
  EXPECT_EQ(load_error(""), "p.npubin: expected a .npubin program, found another kind of file");
  EXPECT_EQ(load_error("some text"), "p.npubin: expected a .npubin program, found another kind of file");
  EXPECT_EQ(load_error("{\"model\": 1}"),
            "p.npubin: is JSON, not a .npubin program: `npusim compile` makes a program of IR JSON");
  EXPECT_EQ(load_error(good.substr(0, 20)), "p.npubin: the program file is cut short");
  EXPECT_EQ(load_error(good.substr(0, good.size() - 1)),
            fmt::format("p.npubin: expected a body of {} bytes, found {}", good.size() - 27, good.size() - 28));
  std::string other = good;
  other[7] = 9;
  EXPECT_EQ(load_error(other), "p.npubin: expected program version 7, found 9: compile the model again");
  other = good;
  other[100] ^= 1;
  EXPECT_NE(load_error(other).find("p.npubin: the program file is damaged: expected checksum "), std::string::npos);
}

// A variant is checked like a program, and has the program's methods for its callers.
TEST(ProgramFile, Variants) {
  const auto program = [] {
    Program made = sample_program();
    made.variants = {made, made};
    return made;
  };
  const std::string good = serialize(program());
  EXPECT_EQ(serialize(deserialize(good, "p")), good);
  EXPECT_EQ(serialize(with_variant(deserialize(good, "p"), 1)), serialize(sample_program()));
  EXPECT_EQ(check_error([](Program& p) { p.variants[1].methods.pop_back(); }, program()),
            "variant 1: expected the program's 2 methods, found 1");
  const std::string other = "variant 0: method 'prefill': expected the inputs and outputs of method 'prefill'";
  EXPECT_EQ(check_error([](Program& p) { p.variants[0].methods[0].inputs[0].name = "other"; }, program()), other);
  EXPECT_EQ(check_error([](Program& p) { p.variants[0].methods[0].outputs.pop_back(); }, program()), other);
  EXPECT_EQ(check_error([](Program& p) { p.variants[0].methods[0].outputs[0].type.dtype = DType::f64; }, program()),
            other);
  EXPECT_EQ(check_error([](Program& p) { p.variants[0].methods[0].inputs[0].buffer = -1; }, program()), other);
  EXPECT_EQ(check_error([](Program& p) { p.variants[0].methods[0].name = "fill"; }, program()),
            "variant 0: method 'fill': expected the inputs and outputs of method 'prefill'");
  EXPECT_EQ(check_error([](Program& p) { p.variants[1].methods[1].steps[0].kernel = 99; }, program()).substr(0, 11),
            "variant 1: ");
  // The field is there where it is not empty.
  std::string body = body_of(serialize(sample_program()));
  ASSERT_EQ(body[0], '\x8d');
  body[0] = '\x8e';
  EXPECT_EQ(load_error(sealed(body + "\xa8variants\x90")), "p.npubin: body: expected variants, found none");
  EXPECT_NE(load_error(sealed(body + "\xa7variant\x90")), "none");
  const std::string two = body_of(good);
  for (size_t size = body.size() - 1; size < two.size(); ++size)
    EXPECT_NE(load_error(sealed(two.substr(0, size))), "none") << size;
}

TEST(ProgramFile, EveryTruncationIsAnError) {
  const std::string body = body_of(serialize(sample_program()));
  for (size_t size = 0; size < body.size(); ++size) EXPECT_NE(load_error(sealed(body.substr(0, size))), "none") << size;
  EXPECT_EQ(load_error(sealed(body + "x")), "p.npubin: expected the end of the program, found more data");
}

// Nothing that loads differs from what is written for it.
TEST(ProgramFile, DamagedBytesNeverCrash) {
  const std::string body = body_of(serialize(sample_program()));
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = body;
    for (unsigned n = random() % 3 + 1; n > 0; --n) damaged[random() % damaged.size()] = static_cast<char>(random());
    try {
      EXPECT_EQ(serialize(deserialize(sealed(damaged), "p")), sealed(damaged));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    }
  }
}

// A call that its kernel's arguments do not bear out is refused before a plugin is asked.
TEST(ProgramFile, Calls) {
  const auto damaged = [](const std::function<void(Call&)>& damage) {
    return check_error(
        [&](Program& p) {
          Call call = *p.kernels[0].call;
          damage(call);
          p.kernels[0].call = std::make_shared<const Call>(call);
        },
        call_program());
  };
  const std::string good = serialize(call_program());
  EXPECT_EQ(serialize(deserialize(good, "p")), good);
  EXPECT_EQ(damaged([](Call& c) { c.arguments[0].tensors[2] = 2; }),
            "kernel 0 'aten.fake_join.out_of': call: there is no operand 2");
  EXPECT_EQ(damaged([](Call& c) {
              c.operands[0].shape = {1 << 30, 1 << 30, 1 << 30};
            }),
            "kernel 0 'aten.fake_join.out_of': call: %0 of 6 elements as [1073741824, 1073741824, 1073741824]");
  EXPECT_EQ(damaged([](Call& c) { c.results[0].arg = 0; }), "kernel 0 'aten.fake_join.out_of': call: %0 is no result");
  // Nor do results lie where operands do.
  EXPECT_EQ(check_error(
                [](Program& p) {
                  p.methods[0].steps[0].buffers = {1, 1};
                },
                call_program()),
            "method 'main': step 0 'join': argument 0: nothing writes buffer 'y' before");
  const auto arena = [](Program& p) {
    p.buffers.push_back(p.buffers[1]);
    p.buffers[2].kind = BufferKind::arena;
    p.methods[0].arenas[0] = {64, 0, 0};
    p.methods[0].steps = {{0, {0, 2}, 0, {0}}, {0, {2, 2}, 0, {0}}, {0, {2, 1}, 0, {0}}};
  };
  EXPECT_EQ(check_error(arena, call_program()),
            "method 'main': step 1 'join': argument 0: buffer 'y' is overwritten while it is read");
}

// Lists of steps print what each step is for: a number in the file is a text there.
TEST(ProgramFile, NamesAtManySteps) {
  Program p = call_program();
  p.origins[0].node = std::string(4096, 'n');
  p.methods[0].steps.assign(1000, p.methods[0].steps[0]);
  EXPECT_EQ(load_error(serialize(p)), "none");
  const std::string problem = "steps up to here name kernels and nodes of the IR with more than 67108864 bytes";
  const Program small = p;
  p.methods[0].steps.assign(20000, p.methods[0].steps[0]);
  EXPECT_NE(load_error(serialize(p)).find(problem), std::string::npos);
  p = small;
  p.variants.assign(20, p);
  EXPECT_NE(load_error(serialize(p)).find("variant 15: method 'main'"), std::string::npos);
  p = small;
  p.origins[0].node = std::string(4096, '\n');  // six letters each where JSON prints them
  p.methods[0].steps.resize(800);
  EXPECT_EQ(load_error(serialize(p)), "none");
  p.methods[0].steps.assign(3000, p.methods[0].steps[0]);
  EXPECT_NE(load_error(serialize(p)).find(problem), std::string::npos);
  p = call_program();
  p.kernels[0].name = std::string(4096, 'k');
  p.methods[0].steps.assign(20000, p.methods[0].steps[0]);
  EXPECT_NE(load_error(serialize(p)).find(problem), std::string::npos);
}

// The fuzzer starts from programs of the present format. NPUSIM_WRITE_SEEDS=1 writes them anew.
TEST(ProgramFile, FuzzSeedsAreUpToDate) {
  for (const auto& [name, program] : {std::pair<std::string, Program>{"sample", sample_program()},
                                      {"split", split_program()},
                                      {"call", call_program()},
                                      {"order", order_program()},
                                      {"text", text_program()}}) {
    const std::string path = NPUSIM_SOURCE_DIR "/tests/fuzz/seeds/program/" + name;
    if (std::getenv("NPUSIM_WRITE_SEEDS")) write_file(path, serialize(program));
    EXPECT_EQ(read_file(path), serialize(program)) << path;
  }
}

TEST(ProgramFile, Fields) {
  PackWriter w;
  w.array(1);
  w.nil();
  EXPECT_EQ(load_error(sealed(w.take())), "p.npubin: body: expected a map, found an array");
  w.map(2);
  EXPECT_EQ(load_error(sealed(w.take() + "xx")), "p.npubin: body: expected 13 fields, found 2");
  w.map(13);
  w.text("modal");
  EXPECT_EQ(load_error(sealed(w.take() + std::string(20, ' '))), "p.npubin: model: expected this field, found 'modal'");
  w.map(13);
  w.text("model");
  w.boolean(true);
  EXPECT_EQ(load_error(sealed(w.take() + std::string(20, ' '))), "p.npubin: model: expected text, found a boolean");
  w.map(13);
  w.text("model");
  w.text("\xff");
  EXPECT_EQ(load_error(sealed(w.take() + std::string(20, ' '))),
            "p.npubin: model: expected UTF-8 text, found other bytes");
  w.map(13);
  w.text("model");
  w.text("m");
  w.text("dtype");
  w.natural(10);
  EXPECT_EQ(load_error(sealed(w.take() + std::string(20, ' '))), "p.npubin: dtype: expected 0 to 9, found 10");
  // A count that only the bytes that are left can limit.
  std::string huge = "\x8d\xa5model\xdb\xff\xff\xff\xff";
  EXPECT_EQ(load_error(sealed(huge + "abc")),
            "p.npubin: model: expected at most 3 elements (the bytes left), found 4294967295");
}

TEST(ProgramCheck, Scores) {
  const auto change = [](auto edit) {
    return check_error([&](Program& p) {
      auto score = std::make_shared<Score>(*p.kernels[1].contraction->score);
      edit(*score);
      auto attention = std::make_shared<Contraction>(*p.kernels[1].contraction);
      attention->score = score;
      p.kernels[1].contraction = attention;
    });
  };
  EXPECT_EQ(change([](Score& s) {
              s.space = {2, 7};
            }),
            "kernel 1 'attention': attention's score is not over the queries and keys");
  EXPECT_EQ(change([](Score& s) { s.result = 1; }), "kernel 1 'attention': attention's score is no f32 expression");
  EXPECT_EQ(change([](Score& s) { s.a.arg = 3; }), "kernel 1 'attention': operand a: no argument %3");
  EXPECT_EQ(change([](Score& s) { s.b.offset = 1; }),
            "kernel 1 'attention': operand b: elements 1..32 of argument %1, which has 32");
}

// How many keys there are is a number that an expression of the score gives, the same for all keys. What it gives in a
// run may be anything: Sessions.ClaimedKeysAreThoseThereAre.
TEST(ProgramCheck, NumbersOfKeys) {
  const auto claim = [](const Expr& number, int32_t keys) {
    return check_error([&](Program& p) {
      auto attention = std::make_shared<Contraction>(*p.kernels[1].contraction);
      auto score = std::make_shared<Score>(*attention->score);
      score->exprs.push_back(number);
      score->keys = keys;
      attention->score = score;
      p.kernels[1].contraction = attention;
    });
  };
  const Expr five{.op = ExprOp::constant, .type = Scalar::i64, .integer = 5};
  const std::string none = "kernel 1 'attention': attention's number of keys is no i64 expression";
  EXPECT_EQ(claim(five, 2), none);
  EXPECT_EQ(claim(five, 1 << 30), none);
  EXPECT_EQ(claim(five, -2), none);
  EXPECT_EQ(claim(five, std::numeric_limits<int32_t>::min()), none);
  EXPECT_EQ(claim(five, 0), none);
  EXPECT_EQ(claim({.op = ExprOp::constant, .type = Scalar::f32, .number = 5}, 1), none);
  EXPECT_EQ(claim({.op = ExprOp::index, .type = Scalar::i64, .integer = 1}, 1),
            "kernel 1 'attention': attention's number of keys varies along the keys");
  EXPECT_EQ(claim({.op = ExprOp::load, .type = Scalar::i64, .integer = 0}, 1), "kernel 1 'attention': e1: no access 0");
}

TEST(ProgramCheck, Buffers) {
  EXPECT_EQ(check_error([](Program& p) {
              p.buffers[2].type.shape = {1, -4};
            }),
            "buffer 2: negative dimension in shape [1, -4]");
  EXPECT_EQ(check_error([](Program& p) {
              p.buffers[2].type.shape = {int64_t{1} << 40, int64_t{1} << 40};
            }),
            "buffer 2: shape [1099511627776, 1099511627776] has too many elements");
  EXPECT_EQ(check_error([](Program& p) { p.buffers[2].type.shape = {int64_t{1} << 50}; }),
            "buffer 2 'x': float32[1125899906842624] is too large");
  EXPECT_EQ(check_error([](Program& p) { p.buffers[5].constant = 1; }),
            "buffer 5 'q': expected a constant 0 to 1, found 1");
  EXPECT_EQ(check_error([](Program& p) { p.buffers[5].type.dtype = DType::i32; }),
            "buffer 5 'q': expected constant 0 of int32[2, 4], found float32[2, 4]");
  EXPECT_EQ(check_error([](Program& p) {
              p.buffers[2].stored = {4, 2};
            }),
            "buffer 2 'x': extents in memory [4, 2] do not hold float32[1, 4]");
  EXPECT_EQ(check_error([](Program& p) {
              p.buffers[6].stored = {2, 3};
            }),
            "buffer 6 'mixed': extents in memory [2, 3] do not hold float32[2, 4]");
  EXPECT_EQ(check_error([](Program& p) {
              p.buffers[6].stored = {int64_t{1} << 40, int64_t{1} << 40};
            }),
            "buffer 6 'mixed': extents in memory [1099511627776, 1099511627776] do not hold float32[2, 4]");
  EXPECT_EQ(check_error([](Program& p) { p.buffers[6].offset = 66; }),
            "buffer 6 'mixed': offset 66 is not aligned for float32[2, 4]");
  EXPECT_EQ(check_error([](Program& p) { p.buffers[3].finite_for = "conv_bn"; }),
            "buffer 3 'w': expected float32 or a 16-bit float that a recipe prepares where elements must be finite");
  EXPECT_EQ(check_error([](Program& p) { p.constants[0].data.pop_back(); }),
            "constant 0: expected 32 bytes for float32[2, 4], found 31");
}

TEST(ProgramCheck, Steps) {
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].steps[0].kernel = 5; }),
            "method 'decode': step 0 'index_copy': expected a kernel 0 to 5, found 5");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].steps[2].buffers.pop_back(); }),
            "method 'decode': step 2 'mul': expected 2 buffers for kernel 'scale', found 1");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].steps[2].buffers[1] = 10; }),
            "method 'decode': step 2 'mul': argument 1: expected a buffer 0 to 10, found 10");
  EXPECT_EQ(
      check_error([](Program& p) { p.methods[1].steps[2].buffers[0] = 2; }),
      "method 'decode': step 2 'mul': argument 0: expected 8 elements of float32, found buffer 'x' of float32[1, 4]");
  EXPECT_EQ(
      check_error([](Program& p) { p.methods[1].steps[0].buffers[3] = 4; }),
      "method 'decode': step 0 'index_copy': argument 3: expected the buffer of argument 0, which it updates, found "
      "'w_scaled'");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].steps[2].buffers[1] = 5; }),
            "method 'decode': step 2 'mul': argument 1: buffer 'q' must not be written here");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].steps[2].buffers[0] = 8; }),
            "method 'decode': step 2 'mul': argument 0: buffer 'given' is no input of the method");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].steps[2].buffers[1] = 9; }),
            "method 'decode': step 2 'mul': argument 1: buffer 'filled' is no output of the method");
  EXPECT_EQ(check_error([](Program& p) { p.recipes.steps.clear(); }),
            "method 'decode': step 1 'attention': argument 2: nothing writes buffer 'w_scaled' before");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].steps.erase(p.methods[1].steps.begin() + 1); }),
            "method 'decode': step 1 'mul': argument 0: nothing writes buffer 'mixed' before");
  // The one row that the step reads is a part of what it overwrites.
  EXPECT_EQ(check_error([](Program& p) {
              p.kernels[0].args[1] = p.kernels[0].args[0];
              p.methods[1].steps[0].buffers[1] = p.methods[1].steps[0].buffers[0];
            }),
            "method 'decode': step 0 'index_copy': argument 1: buffer 'cache' is overwritten while it is read");
  EXPECT_EQ(check_error([](Program& p) { p.recipes.steps[0].buffers[1] = 0; }),
            "recipes: step 0 'scale': argument 1: buffer 'cache' must not be written here");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].arenas[0].bytes = 95; }),
            "method 'decode': step 1 'attention': argument 3: buffer 'mixed' at 64 with 32 bytes is not within the "
            "arena of 95\n"
            "p.npubin: method 'decode': step 2 'mul': argument 0: buffer 'mixed' at 64 with 32 bytes is not within the "
            "arena of 95");
  EXPECT_EQ(check_error([](Program& p) {
              p.methods[0].arenas[0].bytes = 96;
              p.methods[0].steps[0].buffers[1] = p.methods[0].steps[1].buffers[1] = 6;
              p.methods[0].outputs.erase(p.methods[0].outputs.begin());
            }),
            "method 'decode': step 1 'attention': argument 3: arena buffer 'mixed' belongs to another method\n"
            "p.npubin: method 'decode': step 2 'mul': argument 0: arena buffer 'mixed' belongs to another method");
}

TEST(ProgramCheck, Kernels) {
  EXPECT_EQ(check_error([](Program& p) { p.kernels[2].accesses[0].offset = 1; }),
            "kernel 2 'scale': e0: elements 1..8 of argument %0, which has 8");
}

TEST(ProgramCheck, Methods) {
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].name = "prefill"; }).substr(0, 43),
            "method 'prefill': expected a name of its ow");
  EXPECT_EQ(check_error([](Program& p) { p.methods.clear(); }), "expected at least one method, found none");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].inputs[0].buffer = 3; }).substr(0, 62),
            "method 'decode': input 'x': expected a buffer of float32[1, 4]");
  EXPECT_EQ(check_error([](Program& p) { p.methods[0].inputs[0].buffer = 5; }),
            "method 'prefill': input 'given': buffer 'q' is not the caller's");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].outputs[0].buffer = 6; }),
            "method 'decode': output 'y': buffer 'mixed' does not outlive the run");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].inputs[1].name = "x"; }),
            "method 'decode': input 'x': expected a name and a buffer of its own");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].arenas[0].lower_bound_bytes = 97; }),
            "method 'decode': the arena has 96 bytes, below its lower bound of 97");
}

// What generation writes into an input it knows by its role: never more than its role has.
TEST(ProgramCheck, Roles) {
  const auto role_error = [](const std::function<void(Program&)>& damage) {
    return check_error([&](Program& p) {
      Method& decode = p.methods[1];
      decode.inputs[1].role = Role::positions;
      decode.outputs[0].role = Role::data;
      damage(p);
    });
  };
  EXPECT_EQ(role_error([](Program&) {}),
            "method 'decode': input 'position' of int64[1]: expected no positions of 0 tokens");
  EXPECT_EQ(role_error([](Program& p) { p.methods[1].inputs[0].role = Role::tokens; }),
            "method 'decode': input 'x' of float32[1, 4]: expected no tokens of 4 tokens\n"
            "p.npubin: method 'decode': input 'position' of int64[1]: expected no positions of 4 tokens");
  EXPECT_EQ(role_error([](Program& p) {
              p.methods[1].inputs[1].role = Role::data;
              p.methods[1].inputs[0].role = Role::mask;
              p.methods[1].inputs[2].role = Role::mask;
            }),
            "method 'decode': input 'cache' of float32[8, 4]: expected no mask of 0 tokens\n"
            "p.npubin: method 'decode': input 'cache': expected one with the mask");
  EXPECT_EQ(role_error([](Program& p) {
              p.methods[1].inputs[1].role = Role::data;
              p.methods[1].outputs[0].role = Role::logits;
            }),
            "method 'decode': output 'y' of float32[2, 4]: expected no logits of 0 tokens");
}

// What one method fills, another must have: else nobody could read it.
TEST(ProgramCheck, FilledStates) {
  EXPECT_EQ(check_error([](Program& p) {
              p.methods[1].inputs.pop_back(), p.methods[1].outputs.pop_back();
              p.methods[1].steps.erase(p.methods[1].steps.begin());
              p.methods[1].steps[0].buffers[1] = 4;
            }),
            "no method has buffer 'cache', a state, as an input");
  EXPECT_EQ(check_error([](Program& p) { p.methods[0].outputs.pop_back(); }),
            "method 'prefill': step 1 'given': argument 0: buffer 'cache' is no input of the method");
}

// A program of the version before is refused with one line.
TEST(ProgramFile, VersionOneIsRefused) {
  std::string old = serialize(sample_program());
  old[7] = 1;
  EXPECT_EQ(load_error(old), "p.npubin: expected program version 7, found 1: compile the model again");
}

// What a program says of itself as a text's is what its methods are: one message each, at the field.
TEST(ProgramCheck, TextFacts) {
  const auto error = [](const std::function<void(TextFacts&)>& damage) {
    return check_error([&](Program& p) { damage(p.text); }, text_program());
  };
  EXPECT_EQ(load_error(serialize(text_program())), "none");
  EXPECT_EQ(error([](TextFacts& t) { t.decode = 3; }), "text: decode: expected a method 0 to 3, found 3");
  EXPECT_EQ(error([](TextFacts& t) { t.decode = -1; }), "text: expected nothing without a method that decodes");
  EXPECT_EQ(error([](TextFacts& t) { t.decode = 0; }),
            "text: decode: method 'read' takes 2 tokens of a text: expected one");
  EXPECT_EQ(error([](TextFacts& t) {
              t.prefills = {0, 0};
            }),
            "text: prefill: method 'read' takes 2 tokens of a text: expected more than 2");
  EXPECT_EQ(error([](TextFacts& t) { t.sample = 2; }), "text: sample: method 'greedy': expected a generator");
  EXPECT_EQ(error([](TextFacts& t) { t.greedy = 1; }),
            "text: greedy: method 'decode': expected one input with the tokens, which it keeps");
  EXPECT_EQ(error([](TextFacts& t) { t.batch = 2; }),
            "text: decode: method 'decode' takes 1 texts and gives logits of 1: expected 2");
  EXPECT_EQ(error([](TextFacts& t) { t.vocabulary = 5; }),
            "text: decode: method 'decode' has a vocabulary of 4: expected 5");
  EXPECT_EQ(error([](TextFacts& t) { t.capacity = 9; }),
            "text: expected 8 positions, as many as method 'decode' has, found 9");
  EXPECT_EQ(error([](TextFacts& t) { t.lacks = {"nothing"}; }),
            "text: expected nothing that it lacks, found 1 reasons");
  EXPECT_EQ(error([](TextFacts& t) {
              t = {};
              t.lacks.assign(most_lacks + 1, "x");
            }),
            "text: expected at most 20 things that it lacks, found 21");
  const auto program_error = [](const std::function<void(Program&)>& damage) {
    return check_error(damage, text_program());
  };
  EXPECT_EQ(program_error([](Program& p) { p.methods[1].inputs[1].role = Role::data; }),
            "text: decode: method 'decode' has an input that is not understood: 'cache_position' of int64[1]");
  EXPECT_EQ(program_error([](Program& p) { p.methods[1].outputs[0].role = Role::data; }),
            "text: decode: method 'decode' has no output of logits [1, 1 or 1, vocabulary]");
  // At the place that the token names; whoever knows no positions may say so.
  const auto elsewhere = [](Program& p) { p.methods[1].steps[0].buffers[2] = 3; };
  EXPECT_EQ(program_error(elsewhere),
            "text: expected states by position, found that method 'decode' stores not all of them so");
  Program p = text_program();
  elsewhere(p), p.text.by_position = false;
  EXPECT_EQ(load_error(serialize(p)), "none");
}

TEST(ProgramCheck, KeptStates) {
  const std::string problem = "buffer 3 'input_ids': expected a state of what is kept";
  EXPECT_EQ(check_error([](Program& p) { p.buffers[3].kept = true; }, text_program()), problem);
  Program p = text_program();
  p.variants = {static_cast<const Variant&>(p)};
  EXPECT_EQ(load_error(serialize(p)), "none");
  p.variants[0].buffers[0].kept = false;
  EXPECT_NE(load_error(serialize(p)).find("variant 0: method 'decode': expected the inputs"), std::string::npos);
}

// The first problem: others may follow from it.
std::string split_error(const std::function<void(Program&)>& damage) {
  const std::string error = check_error(damage, split_program());
  return error.substr(0, error.find('\n'));
}

TEST(ProgramCheck, Devices) {
  EXPECT_EQ(check_error([](Program& p) { p.devices.clear(); }).substr(0, 35), "expected 1 to 64 devices, found 0\np");
  EXPECT_EQ(split_error([](Program& p) { p.devices[1].target.clear(); }),
            "expected the name of a device's target, found none");
  EXPECT_EQ(split_error([](Program& p) { p.buffers[2].device = 2; }),
            "buffer 2 'x': expected a device 0 to 2, found 2");
  EXPECT_EQ(split_error([](Program& p) { p.methods[1].arenas.pop_back(); }),
            "method 'decode': expected an arena for each of the 2 devices, found 1");
  EXPECT_EQ(split_error([](Program& p) { p.methods[1].steps[3].device = 0; }),
            "method 'decode': step 3 'mul': argument 0: buffer 'moved' is on device 1, the step on 0");
  EXPECT_EQ(split_error([](Program& p) { p.methods[1].steps[3].device = -1; }),
            "method 'decode': step 3 'mul': expected a device 0 to 2, found -1");
  EXPECT_EQ(split_error([](Program& p) { p.buffers[9].device = 1; }),
            "method 'prefill': step 0 'given': argument 1: buffer 'filled' is on device 1, the step on 0");
}

TEST(ProgramCheck, Transfers) {
  const auto transfer = [](int32_t from, int32_t to) {
    return split_error([=](Program& p) { p.methods[1].steps[2].buffers = {from, to}; });
  };
  EXPECT_EQ(transfer(6, 7),
            "method 'decode': step 2 'mul': expected a transfer to device 1 from another, found 0 to 0");
  EXPECT_EQ(transfer(0, 10), "method 'decode': step 2 'mul': a transfer of float32[8, 4] to float32[2, 4]");
  EXPECT_EQ(transfer(7, 10), "method 'decode': step 2 'mul': nothing writes buffer 'y' before");
  EXPECT_EQ(transfer(8, 10), "method 'decode': step 2 'mul': buffer 'given' is no input of the method");
  EXPECT_EQ(transfer(6, 11), "method 'decode': step 2 'mul': buffer 'mixed' must not be transferred to 'moved' here");
  EXPECT_EQ(transfer(6, 13), "method 'decode': step 2 'mul': expected a buffer 0 to 13, found 13");
  EXPECT_EQ(split_error([](Program& p) { p.methods[1].steps[2].buffers.push_back(6); }),
            "method 'decode': step 2 'mul': expected a kernel, or two buffers to transfer, found 3");
  EXPECT_EQ(split_error([](Program& p) { p.methods[1].steps.erase(p.methods[1].steps.begin() + 2); }),
            "method 'decode': step 2 'mul': argument 0: nothing writes buffer 'moved' before");
  EXPECT_EQ(split_error([](Program& p) { p.methods[1].steps.pop_back(); }),
            "method 'decode': output 'y': nothing writes buffer 'y'");
}

TEST(ProgramCheck, Launches) {
  const auto launch = [](const std::function<void(Launch&)>& damage) {
    return split_error([&](Program& p) { damage(p.methods[1].launches[0]); });
  };
  EXPECT_EQ(launch([](Launch& l) { l.count = 3; }), "method 'decode': launch 0 'f': expected kernels of one device");
  EXPECT_EQ(launch([](Launch& l) { l.count = 4; }),
            "method 'decode': launch 0 'f': expected steps from 0 on of 6, found 4 from 3");
  EXPECT_EQ(launch([](Launch& l) { l.count = 1, l.args.back() = trap_word, l.args[1] = l.args[0]; }),
            "method 'decode': step 4 'mul': no launch executes it");
  EXPECT_EQ(launch([](Launch& l) { l.code = 1; }), "method 'decode': launch 0 'f': expected code 0 to 1, found 1");
  EXPECT_EQ(launch([](Launch& l) { l.symbol.clear(); }),
            "method 'decode': launch 0 '': expected the name of a function, found none");
  EXPECT_EQ(launch([](Launch& l) {
              l.block = {64, 64, 1};
            }),
            "method 'decode': launch 0 'f': expected 1 to 1024 threads in a block, found 1025 in each of 1 blocks");
  EXPECT_EQ(launch([](Launch& l) { l.shared_bytes = (1 << 20) + 1; }),
            "method 'decode': launch 0 'f': expected up to 1048576 bytes shared in a block, found 1048577");
  EXPECT_EQ(launch([](Launch& l) { l.args.pop_back(); }),
            "method 'decode': launch 0 'f': expected one trap word if it has traps to report, and else none");
  EXPECT_EQ(launch([](Launch& l) { l.own_bytes = (uint64_t{1} << 40) + 1, l.args.push_back(own_memory); }),
            "method 'decode': launch 0 'f': expected up to 1099511627776 bytes of its own, found 1099511627777");
  EXPECT_EQ(
      launch([](Launch& l) { l.own_bytes = 8; }),
      "method 'decode': launch 0 'f': expected memory of its own among the arguments if it has some, and else not");
  EXPECT_EQ(
      launch([](Launch& l) { l.args.push_back(own_memory); }),
      "method 'decode': launch 0 'f': expected memory of its own among the arguments if it has some, and else not");
  EXPECT_EQ(launch([](Launch& l) { l.args[0] = 6; }),
            "method 'decode': launch 0 'f': its steps do not touch argument 6");
  EXPECT_EQ(launch([](Launch& l) { l.args.erase(l.args.begin()); }),
            "method 'decode': launch 0 'f': buffer 'moved' of its steps is no argument");
  EXPECT_EQ(split_error([](Program& p) { p.methods[1].launches.clear(); }),
            "method 'decode': step 3 'mul': buffer 'moved' lives within a launch, and there is none");
  EXPECT_EQ(split_error([](Program& p) {
              Launch second = p.methods[1].launches[0];
              second.first = 4, second.count = 1, second.args = {12, trap_word};
              p.methods[1].launches[0].count = 1;
              p.methods[1].launches[0].args = {10, trap_word};
              p.methods[1].launches.push_back(second);
            }),
            "method 'decode': launch 1 'f': buffer 'moved' lives within launch 0");
  EXPECT_EQ(split_error([](Program& p) { p.methods[1].arenas[1].workspace_bytes = 31; }),
            "method 'decode': step 3 'mul': argument 1: buffer 'moved' at 0 with 32 bytes is not within the workspace "
            "of 31");
}

TEST(ProgramCheck, Origins) {
  EXPECT_EQ(check_error([](Program& p) {
              p.methods[1].steps[1].origins = {4, 3};
            }),
            "method 'decode': step 1 'expand': expected nodes of the IR below 6 in order, found 3");
  EXPECT_EQ(check_error([](Program& p) { p.methods[1].steps[1].origins = {6}; }),
            "method 'decode': step 1 '': expected nodes of the IR below 6 in order, found 6");
  EXPECT_EQ(check_error([](Program& p) { p.methods[0].nodes = 2; }),
            "expected 7 nodes of the IR, as many as the methods have, found 6");
}

TEST(ProgramCheck, Config) {
  EXPECT_EQ(check_error([](Program& p) { p.devices[0].config.buffer_alignment_bytes = 48; }),
            "config: buffer_alignment_bytes: expected a power of two from 1 to 65536, found 48");
}

}  // namespace
}  // namespace npusim
