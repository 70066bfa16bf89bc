// Mutants of every kind of file: one thing changed at a time, the checksum right. Each is refused with an Error that is
// no internal one, or read, described, checked and run; none takes out of proportion to its size.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "compiler/read_config.h"
#include "fuzz/run_program.h"
#include "hostile/mutate.h"
#include "npusim/compiler.h"
#include "npusim/text.h"
#include "program/sample.h"
#include "program/walk.h"
#include "program/without_code.h"
#include "runtime/npy.h"
#include "runtime/safetensors.h"
#include "runtime/weights.h"
#include "text/tokenizer.h"

namespace npusim {
namespace {

using hostile::Random;
using hostile::Tree;

const std::string seeds = NPUSIM_SOURCE_DIR "/tests/fuzz/seeds/";

// Of all kinds together; NPUSIM_MUTANTS asks for more, NPUSIM_MUTANTS_SEED for others.
size_t mutants() {
  const char* asked = std::getenv("NPUSIM_MUTANTS");
  return asked ? std::strtoull(asked, nullptr, 10) : 1500;
}
uint64_t first_seed() {
  const char* asked = std::getenv("NPUSIM_MUTANTS_SEED");
  return asked ? std::strtoull(asked, nullptr, 10) : 1;
}

// A kind of file: `share` of all mutants in a hundred, what makes one, and what does with it all that npusim does.
struct Kind {
  std::string name;
  size_t share;
  std::function<std::string(Random&, std::string& what)> make;
  std::function<void(const std::string&)> use;
};

std::string text_of(const Tree& tree) { return tree.dump(-1, ' ', false, Tree::error_handler_t::replace); }

// Of one of these texts, as a tree or, one in eight times, as text.
std::string mutant_of(const std::vector<std::string>& texts, Random& random, std::string& what) {
  std::string text = texts[random() % texts.size()];
  if (random() % 8 == 0) {
    hostile::mutate_text(text, random);
    what = "bytes";
    return text;
  }
  Tree tree = Tree::parse(text);
  what = hostile::mutate(tree, random);
  if (random() % 4 == 0) what += ", " + hostile::mutate(tree, random);
  return text_of(tree);
}

void use_program(const std::string& file) {
  Program program = deserialize(file, "mutant");
  EXPECT_EQ(serialize(program), file);
  size_t fields = 0;
  walk_fields(program, [&](const std::string&, auto&) { ++fields; });
  EXPECT_GT(fields, 10u);
  for (const bool json : {false, true}) describe(program, json), describe_steps(program, json);
  describe_partition(program, false);
  partition_plan(program);
  partition_picture(program);
  for (const std::string& method : method_names(program)) method_work(program, method), method_steps(program, method);
  used_dtypes(program);
  if (hostile::is_small(program)) hostile::run_program(program);
  std::vector<std::string> notes;
  leave_out_code(program, notes);
  EXPECT_EQ(check_program(program), std::vector<std::string>{});
  if (hostile::is_small(program)) hostile::run_program(program);
  if (program.kernels.size() < 64) recompile(program, "cpu");
  try {
    check_text_model(program);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << error.what();
  }
}

std::string program_mutant(Random& random, std::string& what) {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> made = {serialize(sample_program()), serialize(split_program()), serialize(call_program()),
                                     serialize(text_program())};
    Program variant = split_program();
    variant.variants = {static_cast<const Variant&>(variant)};
    made.push_back(serialize(variant));
    for (const char* ir : {"transformer", "convolution", "mixed", "orders", "fourier"})
      for (const bool strict : {false, true}) {
        CompileOptions options;
        options.strict = strict;
        made.push_back(serialize(*compile({{"main", seeds + "ir/" + ir + ".json"}}, options).program));
      }
    return made;
  }();
  static const std::vector<Tree> trees = [] {
    std::vector<Tree> made;
    for (const std::string& file : files) made.push_back(hostile::tree_of_program(file));
    return made;
  }();
  Tree tree = trees[random() % trees.size()];
  what = hostile::mutate(tree, random);
  return hostile::file_of_program(tree);
}

void touch(const TensorView& tensor) {
  const size_t bytes = byte_size(tensor.type);
  if (bytes == 0) return;
  EXPECT_GE(static_cast<int>(tensor.data[0]) + static_cast<int>(tensor.data[bytes - 1]), 0);
}

void use_safetensors(const std::string& file) {
  for (const TensorEntry& entry : parse_safetensors(std::as_bytes(std::span(file)), "mutant").entries)
    if (entry.unknown_dtype.empty()) touch(entry.tensor);
}

std::string safetensors_mutant(Random& random, std::string& what) {
  static const std::string file = read_file(seeds + "safetensors/three.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  const std::string data = file.substr(8 + length), header = mutant_of({file.substr(8, length)}, random, what);
  length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

// A header of .npy is a dict of Python.
std::string python_of(const Tree& tree) {
  if (tree.is_boolean()) return tree.get<bool>() ? "True" : "False";
  if (tree.is_null()) return "None";
  if (tree.is_string()) return "'" + tree.get<std::string>() + "'";
  if (!tree.is_structured()) return text_of(tree);
  std::string text;
  for (const auto& [key, value] : tree.items())
    text += (tree.is_object() ? "'" + key + "': " : "") + python_of(value) + ", ";
  return tree.is_object() ? "{" + text + "}" : "(" + text + ")";
}

std::string npy_mutant(Random& random, std::string& what) {
  Tree header = {{"descr", "<f4"}, {"fortran_order", false}, {"shape", {2, 3}}};
  what = hostile::mutate(header, random);
  std::string text = python_of(header);
  text += "\n";
  text.resize(std::min<size_t>(text.size(), 60'000));
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(text.size() & 255);
  file += static_cast<char>(text.size() >> 8);
  return file + text + std::string(24, '\x3f');
}

void use_npy(const std::string& file) { touch(view_of(parse_npy(std::as_bytes(std::span(file)), "mutant"))); }

std::vector<std::string> ir_texts() {
  std::vector<std::string> texts;
  for (const char* name : {"transformer", "convolution", "mixed", "tuple", "rotary"}) {
    const std::string text = read_file(seeds + "ir/" + name + ".json");
    if (Tree::accept(text)) texts.push_back(text);
  }
  return texts;
}

void use_ir(const std::string& text) {
  const MethodSource source{"main", "mutant", text};
  describe_ir(source, true);
  const auto program = compile({source}, {}).program;
  describe(*program, false);
  if (hostile::is_small(*program)) hostile::run_program(*program);
}

void use_tokenizer(const std::string& text) {
  const Tokenizer tokenizer = parse_tokenizer(text, "mutant");
  for (const std::string& sample : {std::string("Hello, world!  It's 12 o'clock.\n\n"), std::string(4000, ' '),
                                    std::string(4000, 'a'), std::string("<|endoftext|> x <|endoftext|>")})
    decode(tokenizer, encode(tokenizer, sample, true), false);
}

// Files that stand beside others.
std::string in_folder(const std::string& name, const std::string& text) {
  const std::string folder = testing::TempDir() + "npusim_mutants/";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + name, std::ios::binary) << text;
  return folder;
}

void use_config(const std::string& text) {
  TensorSet weights;
  weights.path = in_folder("config.json", text) + "model.safetensors";
  Buffer buffer;
  buffer.fqn = "rotary.inv_freq";
  buffer.type = {DType::f32, {2}};
  const auto made = rotary_frequencies(weights, buffer);
  if (!made) return;
  for (const float f : std::span(reinterpret_cast<const float*>(made->data.data()), 2)) EXPECT_TRUE(f > 0 && f <= 1);
}

void use_stop_tokens(const std::string& text) {
  for (const int64_t id : read_stop_tokens(in_folder("generation_config.json", text) + "tokenizer.json"))
    EXPECT_GE(id, 0);
}

void use_target_config(const std::string& text) {
  TargetConfig config;
  read_config({"", text}, find_target("cuda")->own(), config);
  CompileOptions options;
  options.config = {"config", text};
  compile({{"main", seeds + "ir/convolution.json"}}, options);
}

const std::string target_config =
    R"({"channel_alignment_bytes": 64, "channel_tile": 0, "pad_channels": true, "buffer_alignment_bytes": 64,
        "max_rank": 8, "image_layout": "channels_last", "equal_operands": false, "name": "cpu",
        "machine": {"units": 4, "unit_bytes": 65536, "block_bytes": 1024, "memory_gb_s": 20, "gflop_s": 200,
                    "gflop_s_16_bit": 400, "link_gb_s": 16, "link_us": 10}, "own": {}})";
const std::string model_config =
    R"({"rope_theta": 10000.0, "head_dim": 4, "hidden_size": 16, "num_attention_heads": 4,
        "rope_scaling": {"rope_type": "default"}, "rope_parameters": {"full": {"rope_type": "default"}}})";

std::string partition_text() {
  static const std::string text = [] {
    CompileOptions options;
    options.force_cpu = {"relu"};
    options.target = "null";
    return partition_plan(*compile({{"main", seeds + "ir/convolution.json"}}, options).program);
  }();
  return text;
}

void use_plan(const std::string& text) {
  CompileOptions options;
  options.target = "null";
  options.plan = {"plan", text};
  compile({{"main", seeds + "ir/convolution.json"}}, options);
}

std::function<std::string(Random&, std::string&)> of(std::vector<std::string> texts) {
  return [texts = std::move(texts)](Random& random, std::string& what) { return mutant_of(texts, random, what); };
}

std::vector<Kind> kinds() {
  return {
      {"program", 44, program_mutant, use_program},
      {"ir", 16, of(ir_texts()), use_ir},
      {"safetensors", 8, safetensors_mutant, use_safetensors},
      {"index", 4,
       of({R"({"metadata": {"total_size": 8}, "weight_map": {"a": "x.safetensors", "b": "y.safetensors"}})"}),
       [](const std::string& text) { parse_safetensors_index(text, "mutant"); }},
      {"npy", 5, npy_mutant, use_npy},
      {"tokenizer", 12, of({read_file(seeds + "tokenizer/gpt2"), read_file(seeds + "tokenizer/qwen2")}), use_tokenizer},
      {"config", 4, of({model_config}), use_config},
      {"generation_config", 2, of({R"({"eos_token_id": [1, 2], "temperature": 0.5})", R"({"eos_token_id": 3})"}),
       use_stop_tokens},
      {"target_config", 3, of({target_config}), use_target_config},
      {"plan", 2, of({partition_text()}), use_plan},
  };
}

TEST(Mutants, AreRefusedOrHarmless) {
  using Clock = std::chrono::steady_clock;
  for (const Kind& kind : kinds()) {
    size_t taken = 0;
    const size_t count = std::max<size_t>(mutants() * kind.share / 100, 1);
    for (size_t n = 0; n < count; ++n) {
      Random random(first_seed() + n);
      std::string what;
      const std::string file = kind.make(random, what);
      const auto start = Clock::now();
      try {
        kind.use(file);
        ++taken;
      } catch (const Error& error) {
        EXPECT_NE(error.kind(), ErrorKind::internal)
            << kind.name << " " << first_seed() + n << ": " << what << ": " << error.what();
      }
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      const double allowed = 20 + 20 * static_cast<double>(file.size()) / 1e6;  // generous: this is no measurement
      EXPECT_LT(seconds, allowed) << kind.name << " " << first_seed() + n << ": " << what;
      if (testing::Test::HasFailure()) return;
    }
    RecordProperty(kind.name, fmt::format("{} of {} taken", taken, count));
    EXPECT_GT(count, taken) << kind.name << ": every mutant is taken";
  }
}

}  // namespace
}  // namespace npusim
