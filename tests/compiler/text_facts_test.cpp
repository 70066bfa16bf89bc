// What a program says of itself as a text's: found by the compiler, kept in the file, proven when it is loaded.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "compiler/ir.h"
#include "program/program.h"
#include "program/walk.h"
#include "text/generate.h"

namespace npusim {
namespace {

constexpr int64_t capacity = 16;

std::shared_ptr<const Program> compile_text(const std::vector<MethodSource>& sources, bool text = true) {
  CompileOptions options;
  options.dtype = "float32";
  options.text = text;
  return compile(sources, options).program;
}

std::shared_ptr<const Program> compile_text(Mask mask, bool sum = false) {
  return compile_text({text_ir(mask, 8, 0, sum).finish("read_8"), text_ir(mask, 4, 0, sum).finish("read_4"),
                       text_ir(mask, 1, capacity, sum).finish("decode")});
}

// With what each way of choosing tokens writes, from a prompt that no prefill takes whole and one that none fills.
std::vector<std::vector<int64_t>> written(const std::shared_ptr<const Program>& program) {
  Session session(program, {.weights = text_weights(), .devices = {}, .threads = 1});
  std::vector<std::vector<int64_t>> texts;
  for (const auto& [temperature, top_p] : {std::pair(0.0, 1.0), {0.8, 1.0}, {0.8, 0.7}})
    for (const std::vector<int64_t>& prompt : {std::vector<int64_t>{3, 10, 17}, {1, 2, 3, 4, 5, 6, 7, 8, 9}})
      texts.push_back(generate(session, prompt, {20, temperature, top_p, 7, {}}, {}).tokens);
  return texts;
}

TextFacts facts_of(const Program& program) { return program.text; }

TEST(TextFacts, AreFoundWhateverTheMask) {
  for (const Mask mask : {Mask::added, Mask::booleans, Mask::ones, Mask::none})
    for (const bool sum : {false, true}) {
      const auto program = compile_text(mask, sum);
      const TextFacts text = facts_of(*program);
      const auto name = [&](int32_t method) { return program->methods[static_cast<size_t>(method)].name; };
      EXPECT_EQ(name(text.decode), "decode");
      ASSERT_EQ(text.prefills.size(), 2U);
      EXPECT_EQ(name(text.prefills[0]), "read_4_prompt");
      EXPECT_EQ(name(text.prefills[1]), "prompt");
      EXPECT_EQ(name(text.greedy), "greedy");
      EXPECT_EQ(name(text.sample), "sample");
      EXPECT_EQ(name(text.nucleus), "nucleus");
      EXPECT_EQ(text.batch, 1);
      EXPECT_EQ(text.vocabulary, vocabulary);
      EXPECT_EQ(text.capacity, capacity);
      EXPECT_EQ(text.by_position, !sum);
      EXPECT_EQ(text.lacks, std::vector<std::string>{});
    }
  const auto alone = compile_text({text_ir(Mask::none, 1, capacity).finish("decode")}, false);
  const TextFacts text = facts_of(*alone);
  EXPECT_EQ(text.decode, 0);
  EXPECT_EQ(text.greedy, -1);
  EXPECT_EQ(text.prefills, std::vector<int32_t>{});
}

// The methods that feed themselves are those of the method that decodes, of several that could.
TEST(TextFacts, AreOfTheFirstThatDecodes) {
  const auto program =
      compile_text({text_ir(Mask::none, 1, 8).finish("short"), text_ir(Mask::none, 1, capacity).finish("long")});
  EXPECT_EQ(program->text.decode, 0);
  EXPECT_EQ(program->text.capacity, 8);
  EXPECT_EQ(program->methods[static_cast<size_t>(program->text.greedy)].name, "greedy");
}

// It has one state of random numbers, which are its own: the host draws its tokens.
TEST(TextFacts, OfAModelThatDraws) {
  IrBuilder ir = text_ir(Mask::none, 1, capacity);
  ir.node("noise", "rand.default", {}, {2}, {{"size", {2}}});
  ir.output("noise");
  const auto program = compile_text({ir.finish("decode")});
  EXPECT_EQ(method_names(*program), (std::vector<std::string>{"decode", "greedy"}));
  EXPECT_EQ(program->text.greedy, 1);
  EXPECT_EQ(program->text.sample, -1);
  EXPECT_FALSE(program->text.by_position);  // nor are its numbers
  EXPECT_EQ(check_program(*program), std::vector<std::string>{});
  EXPECT_EQ(written(program)[0].size(), static_cast<size_t>(capacity + 1 - 3));
}

std::vector<std::string> lacks_of(const std::vector<MethodSource>& sources) {
  const auto program = compile_text(sources);
  std::vector<std::string> problems;
  try {
    check_text_model(*program);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    for (const Problem& problem : error.problems()) {
      EXPECT_EQ(problem.where, "this is no program that generates text");
      problems.push_back(problem.reason);
    }
  }
  EXPECT_EQ(problems, program->text.lacks);
  EXPECT_EQ(check_program(*program), std::vector<std::string>{});
  return problems;
}

MethodSource edited(MethodSource source, const std::function<void(nlohmann::json&)>& edit) {
  nlohmann::json ir = nlohmann::json::parse(source.json);
  edit(ir);
  source.json = ir.dump();
  return source;
}

TEST(TextFacts, WhatAProgramLacks) {
  const MethodSource decode = text_ir(Mask::none, 1, capacity).finish("decode"),
                     read = text_ir(Mask::none, 4).finish("read");
  EXPECT_EQ(lacks_of({decode}), std::vector<std::string>{});
  EXPECT_EQ(lacks_of({read}), std::vector<std::string>{"expected a method that takes one token"});
  const auto rename = [](nlohmann::json& ir) {
    std::string text = ir.dump();
    for (size_t at = 0; (at = text.find("cache_position", at)) != std::string::npos;)
      text.replace(at, std::string("cache_position").size(), "where");
    ir = nlohmann::json::parse(text);
  };
  EXPECT_EQ(lacks_of({edited(decode, rename)}),
            (std::vector<std::string>{"expected a method that takes one token",
                                      "method 'decode' has an input that is not understood: 'where' of int64[1]",
                                      "method 'decode' has no output of logits [1, 1 or 1, vocabulary]"}));
  const auto without_logits = [](nlohmann::json& ir) { ir["graph_outputs"].erase(0); };
  EXPECT_EQ(lacks_of({edited(decode, without_logits)}),
            (std::vector<std::string>{"expected a method that takes one token",
                                      "method 'decode' has no output of logits [1, 1 or 1, vocabulary]"}));
  IrBuilder plain;
  plain.node("y", "relu.default", {plain.input("x", {2, 3})}, {2, 3});
  plain.output("y");
  EXPECT_EQ(lacks_of({plain.finish("main")}),
            (std::vector<std::string>{"expected a method that takes one token",
                                      "method 'main' has an input that is not understood: 'x' of float32[2, 3]",
                                      "method 'main' has no input input_ids of int64 [1, length]"}));
  // A method for another use is none that it lacks.
  EXPECT_EQ(lacks_of({decode, plain.finish("other")}), std::vector<std::string>{});
  IrBuilder stateless;
  stateless.input("input_ids", {1, 1}, "int64");
  stateless.node("logits", "embedding.default", {stateless.weight("wte", {vocabulary, 8}), "input_ids"}, {1, 1, 8});
  stateless.output("logits");
  EXPECT_EQ(lacks_of({stateless.finish("decode")}),
            (std::vector<std::string>{"method 'decode' has no cache_position or position_ids",
                                      "nothing tells how many positions the states of 'decode' hold"}));
}

// Of many things the first are named.
TEST(TextFacts, LacksAreFew) {
  IrBuilder wide;
  std::string sum = wide.input("x", {2});
  for (int i = 0; i < 40; ++i) {
    const std::string other = wide.input("x" + std::to_string(i), {2});
    sum = wide.node("sum" + std::to_string(i), "add.Tensor", {sum, other}, {2});
  }
  wide.output(sum);
  const std::vector<std::string> lacks = lacks_of({wide.finish("main")});
  ASSERT_EQ(lacks.size(), most_lacks);
  EXPECT_EQ(lacks.back(), "and 24 things more");
}

TEST(TextFacts, AreAllThatGenerationNeeds) {
  for (const bool sum : {false, true}) {
    const auto program = compile_text(Mask::added, sum);
    const auto loaded = parse_program(serialize(*program), "p");
    EXPECT_EQ(serialize(*loaded), serialize(*program));
    EXPECT_EQ(written(loaded), written(program));
    EXPECT_EQ(serialize(*recompile(*program)), serialize(*program));
  }
}

// Each number of the facts, and each list, as others: refused with one message that says where, or the same text.
TEST(TextFacts, AnyOthersAreRefusedOrSayTheSame) {
  for (const bool sum : {false, true})
    for (const Mask mask : {Mask::added, Mask::none}) {
      const Program program = *compile_text(mask, sum);
      const auto expected = written(std::make_shared<const Program>(program));
      size_t refused = 0, same = 0;
      const auto check = [&](const TextFacts& facts, const std::string& what) {
        auto changed = std::make_shared<Program>(program);
        changed->text = facts;
        try {
          const auto loaded = parse_program(serialize(*changed), "p");
          EXPECT_EQ(written(loaded), expected) << what;
          ++same;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::bad_input) << what;
          EXPECT_EQ(error.problems().at(0).reason.substr(0, 6), "text: ") << what << ": " << error.what();
          ++refused;
        }
      };
      size_t fields_seen = 0;
      Program walked = program;
      walk_fields(walked, [&]<typename T>(const std::string& name, T& value) {
        if (!name.starts_with("TextFacts.")) return;
        ++fields_seen;
        const T before = value;
        if constexpr (std::is_same_v<T, bool>) {
          value = !value;
          check(walked.text, name);
        } else if constexpr (std::is_integral_v<T>) {
          for (int other = -2; other < 12; ++other)
            if (static_cast<T>(other) != before)
              value = static_cast<T>(other), check(walked.text, name + " " + std::to_string(other));
          for (const T other : {before + 1, before - 1, before * 2})
            if (other != before) value = other, check(walked.text, name);
        } else if constexpr (std::is_same_v<T, std::vector<int32_t>>) {
          for (const T& other : {T{}, T{before[0]}, T{before[1]}, T{before[1], before[0]}, T{before[0], before[0]},
                                 T{0, 1}, T{1, 0}, T{-1}, T{program.text.decode}, T{program.text.greedy}, T{99}})
            value = other, check(walked.text, name);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          value.emplace_back();
          check(walked.text, name);
        }
        value = before;
      });
      EXPECT_EQ(fields_seen, 10U);
      EXPECT_GT(refused, 80U);
      EXPECT_GE(same, 7U);
    }
}

// Nor may methods be others than the facts say.
TEST(TextFacts, RolesThatAreNoLongerThere) {
  const Program program = *compile_text(Mask::added);
  for (const int32_t method : {program.text.decode, program.text.greedy, program.text.sample, program.text.nucleus,
                               program.text.prefills[0], program.text.prefills[1]})
    for (const bool outputs : {false, true}) {
      const Method& m = program.methods[static_cast<size_t>(method)];
      for (size_t i = 0; i < (outputs ? m.outputs : m.inputs).size(); ++i) {
        Program changed = program;
        Method& at = changed.methods[static_cast<size_t>(method)];
        Role& role = (outputs ? at.outputs : at.inputs)[i].role;
        // Of what a method keeps for its draws only the input counts.
        if (role == Role::data || (outputs && (role == Role::temperature || role == Role::top_p))) continue;
        role = Role::data;
        EXPECT_THROW(parse_program(serialize(changed), "p"), Error) << m.name << " " << i;
      }
    }
}

TEST(TextFacts, AreDescribed) {
  const auto program = compile_text(Mask::added);
  const auto json = nlohmann::json::parse(describe(*program, true))["text"];
  EXPECT_EQ(json, nlohmann::json::parse(R"({"decode": "decode", "prefills": ["read_4_prompt", "prompt"],
      "greedy": "greedy", "sample": "sample", "nucleus": "nucleus", "batch": 1, "vocabulary": 24, "capacity": 16,
      "by_position": true})"));
  EXPECT_NE(describe(*program, false)
                .find("text       decode: decode; prefill: read_4_prompt, prompt; greedy: greedy; sample: sample; "
                      "nucleus: nucleus\n           1 text, vocabulary of 24, 16 positions, all states by position\n"),
            std::string::npos);
  const auto none = compile_text({text_ir(Mask::none, 4).finish("read")});
  EXPECT_EQ(nlohmann::json::parse(describe(*none, true))["text"],
            nlohmann::json::parse(R"({"lacks": ["expected a method that takes one token"]})"));
  EXPECT_NE(describe(*none, false).find("no text    expected a method that takes one token\n"), std::string::npos);
}

}  // namespace
}  // namespace npusim
