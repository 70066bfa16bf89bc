// Kernels without a product as the CUDA target makes them: rows and points in words of 16 bytes, executed (on the CPU
// where there is no GPU) and compared with the reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/codegen/choose/side_by_side.h"
#include "backends/cuda/harness/check.h"
#include "backends/cuda/harness/machine.h"
#include "backends/cuda/target.h"
#include "kernel/builder.h"
#include "kernel/evaluate.h"
#include "print/lanes.h"
#include "print/print.h"
#include "print/samples.h"

namespace npusim {
namespace {

using K = KernelBuilder;
constexpr DType f16 = DType::f16, bf16 = DType::bf16, f32 = DType::f32, i64 = DType::i64;

Ex at(K& k, int arg, const std::vector<Coord>& coordinates) { return k.load(arg, coordinates); }

Kernel layer_norm(int64_t rows, int64_t n) {
  K k({rows, n}, 1);
  const int a = k.input({f16, {rows, n}}), w = k.input({f16, {n}}), b = k.input({f16, {n}}),
            out = k.output({f16, {rows, n}}), mean_out = k.output({f32, {rows}});
  const Ex x = k.load_broadcast(a);
  const Ex mean = k.reduce(Reduction::sum, x) / static_cast<double>(n), d = x - mean;
  const Ex variance = k.reduce(Reduction::sum, d * d) / static_cast<double>(n);
  k.store(out, d * rsqrt(variance + 1e-5) * k.load_broadcast(w) + k.load_broadcast(b));
  const Coord of_row[] = {k.dim(0)};
  k.store(mean_out, of_row, mean);
  return k.finish("layer_norm");
}

Kernel rms_norm(int64_t rows, int64_t n, DType from) {
  K k({rows, n}, 1);
  const int w = k.input({bf16, {n}}), a = k.input({from, {rows, n}}), out = k.output({bf16, {rows, n}});
  const Ex x = k.load_broadcast(a);
  const Ex mean = k.reduce(Reduction::sum, x * x) / static_cast<double>(n);
  k.store(out, k.load_broadcast(w) * (x * rsqrt(mean + 1e-6)));
  return k.finish("rms_norm");
}

Kernel softmax(int64_t rows, int64_t n, DType from, DType to) {
  K k({rows, n}, 1);
  const int a = k.input({from, {rows, n}}), out = k.output({to, {rows, n}});
  const Ex x = k.load_broadcast(a);
  const Ex e = exp(x - k.reduce(Reduction::max, x));
  k.store(out, e / k.reduce(Reduction::sum, e));
  return k.finish("softmax");
}

// Rows of two tables, summed, and their norm.
Kernel embedding_norm(int64_t rows, int64_t n) {
  K k({rows, n}, 1);
  const int table = k.input({f16, {4, n}}), places = k.input({f16, {rows, n}}), ids = k.input({i64, {rows}}),
            out = k.output({f16, {rows, n}});
  const Ex x = at(k, table, {Coord(at(k, ids, {k.dim(0)})), k.dim(1)}) + k.load_broadcast(places);
  k.store(out, x / (k.reduce(Reduction::max, abs(x)) + 1.0));
  return k.finish("embedding_norm");
}

// x * cos + cat(-second half, first half) * sin of heads that lie side by side, to heads one behind the other.
Kernel rotary(int64_t heads, int64_t tokens, int64_t size) {
  K k({heads, tokens, size});
  const int sin = k.input({bf16, {tokens, size}}), x = k.input({bf16, {tokens, heads, size}}),
            cos = k.input({bf16, {tokens, size}}), out = k.output({bf16, {heads, tokens, size}});
  const Affine h = k.dim(0), t = k.dim(1), d = k.dim(2);
  const int64_t half = size / 2;
  const Ex rotated = select(k.index(2) < half, -at(k, x, {t, h, d + half}), at(k, x, {t, h, d + -half}));
  k.store(out, at(k, x, {t, h, d}) * at(k, cos, {t, d}) + rotated * at(k, sin, {t, d}));
  return k.finish("rotary");
}

Kernel embedding(int64_t rows, int64_t n) {
  K k({rows, n});
  const int table = k.input({bf16, {4, n}}), ids = k.input({i64, {rows}}), out = k.output({bf16, {rows, n}});
  k.store(out, at(k, table, {Coord(at(k, ids, {k.dim(0)})), k.dim(1)}));
  return k.finish("embedding");
}

Kernel index_copy(int64_t rows, int64_t n) {
  K k({2, rows, n});
  const int cache = k.input({f16, {2, 4, n}}), position = k.input({i64, {1}}), value = k.input({f16, {2, rows, n}}),
            out = k.output({f16, {2, 4, n}}, cache);
  const Coord to[] = {k.dim(0), Coord(at(k, position, {0})), k.dim(2)};
  k.store(out, to, k.load_broadcast(value));
  return k.finish("index_copy");
}

// A block of zeros around rows, along which they move by whole words.
Kernel pad(int64_t rows, int64_t n, int64_t by) {
  K k({rows, n + 2 * by});
  const int a = k.input({f32, {rows, n}}), out = k.output({f32, {rows, n + 2 * by}});
  const Affine x = k.dim(1) + -by;
  k.store(out, select(k.in_bounds(x, n), at(k, a, {k.dim(0), x}), k.number(0.5)));
  return k.finish("pad");
}

// What lies across is read element by element.
Kernel transposed_sum(int64_t rows, int64_t n) {
  K k({rows, n});
  const int a = k.input({f16, {rows, n}}), b = k.input({f32, {n, rows}}), out = k.output({f16, {rows, n}});
  k.store(out, k.load_broadcast(a) + at(k, b, {k.dim(1), k.dim(0)}));
  return k.finish("transposed_sum");
}

// Channels last.
Kernel max_pool(int64_t batch, int64_t size, int64_t channels) {
  const int64_t half = size / 2;
  K k({batch, channels, half, half, 3, 3}, 2);
  const int a = k.input({f16, {batch, size, size, channels}}), out = k.output({f16, {batch, half, half, channels}});
  const Affine y = k.dim(2) * 2 + k.dim(4) + -1, x = k.dim(3) * 2 + k.dim(5) + -1;
  const Ex inside = k.in_bounds(y, size) && k.in_bounds(x, size);
  const Ex value = select(inside, at(k, a, {k.dim(0), y, x, k.dim(1)}), k.number(-INFINITY));
  const Coord to[] = {k.dim(0), k.dim(2), k.dim(3), k.dim(1)};
  k.store(out, to, k.reduce(Reduction::max, value));
  return k.finish("max_pool");
}

Kernel mean_of_image(int64_t batch, int64_t pixels, int64_t channels) {
  K k({batch, channels, pixels}, 1);
  const int a = k.input({f16, {batch, pixels, channels}}), out = k.output({f16, {batch, channels}});
  const Ex sum = k.reduce(Reduction::sum, at(k, a, {k.dim(0), k.dim(2), k.dim(1)}));
  const Coord to[] = {k.dim(0), k.dim(1)};
  k.store(out, to, sum / static_cast<double>(pixels));
  return k.finish("mean");
}

// The pieces of a product and what follows it.
Kernel sum_of_pieces(int64_t rows, int64_t n, int64_t pieces) {
  K k({rows, n, pieces}, 1);
  const int bias = k.input({f16, {n}}), residual = k.input({f16, {rows, n}}), sums = k.input({f32, {pieces, rows, n}}),
            out = k.output({f16, {rows, n}});
  const Ex sum = k.reduce(Reduction::sum, at(k, sums, {k.dim(2), k.dim(0), k.dim(1)}));
  const Coord to[] = {k.dim(0), k.dim(1)};
  k.store(out, to, sum + at(k, bias, {k.dim(1)}) + at(k, residual, {k.dim(0), k.dim(1)}));
  return k.finish("pieces");
}

// As the target makes it, its first operand there ahead.
Case made(std::string name, Kernel kernel, const std::string& how) {
  kernel.name = name;
  std::vector<bool> ahead(kernel.args.size());
  ahead[0] = kernel.args[0].dtype != i64 && kernel.args.back().updates != 0;
  Case c{std::move(name), std::move(kernel), {}, std::move(ahead)};
  c.made = cuda::codegen::choose::make_kernel(c.kernel, any, c.ahead);
  EXPECT_EQ(c.made.how, how) << c.name << "\n" << c.made.functions;
  return c;
}

Case scheduled(std::string name, Kernel kernel, const Schedule& schedule) {
  kernel.name = name;
  EXPECT_EQ(cannot_print(kernel, cuda_dialect, schedule), std::nullopt) << name;
  Case c{std::move(name), std::move(kernel), {}, {}};
  c.ahead.resize(c.kernel.args.size());
  c.made = cuda::codegen::choose::make_rows(c.kernel, c.ahead, any, schedule);
  return c;
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t from = 0; (from = text.find(what, from)) != std::string::npos; from += what.size()) ++n;
  return n;
}

TEST(CudaRows, RowsAreReadOnceInWords) {
  std::vector<Case> cases;
  cases.push_back(made("norm_of_768", layer_norm(5, 768), "rows, 8 lanes"));
  cases.push_back(made("norm_of_384", layer_norm(5, 384), "rows, 8 lanes"));
  cases.push_back(made("rms_of_1536", rms_norm(1, 1536, bf16), "rows, 8 lanes"));
  cases.push_back(made("rms_of_floats", rms_norm(3, 1536, f32), "rows, 8 lanes"));
  cases.push_back(made("softmax_2048", softmax(3, 2048, f32, bf16), "rows, 8 lanes"));
  cases.push_back(
      made("softmax_floats", softmax(2, 1000, f32, f32), "rows, 4 lanes"));  // not whole words of all threads
  cases.push_back(made("embedding_768", embedding_norm(3, 768), "rows, 8 lanes"));
  for (const Case& c : cases) {
    const std::string& text = c.made.functions;
    for (size_t i = 0; i < c.kernel.args.size(); ++i)
      if (!c.kernel.args[i].written && c.kernel.args[i].dtype != i64) {
        EXPECT_EQ(count(text, fmt::format("&in{}[", i)), 1U) << text;
        EXPECT_EQ(count(text, fmt::format("in{}[", i)), 1U) << text;
      }
    EXPECT_EQ(count(text, "write_lanes("), 1U) << text;
  }
  check(cases);
}

// What is there ahead is asked for before the wait, by the threads that need it.
TEST(CudaRows, WeightsAreReadBeforeTheWait) {
  std::vector<Case> cases;
  cases.push_back(made("ahead_rms", rms_norm(2, 512, bf16), "rows, 8 lanes"));
  cases.push_back(made("ahead_pieces", sum_of_pieces(140, 768, 4), "rows, 8 lanes"));
  cases.push_back(made("ahead_alone", sum_of_pieces(3, 24, 4), "rows"));
  for (const Case& c : cases) {
    const std::string& text = c.made.functions;
    EXPECT_LT(text.find("in0["), text.find("follow();")) << text;
    EXPECT_GT(text.find("in1["), text.find("follow();")) << text;
    EXPECT_EQ(text.find("in0 = behind(in0)"), std::string::npos) << text;
  }
  check(cases);
}

// Every schedule of a row: rows of several words a thread, not of whole ones, of more than is kept.
TEST(CudaRows, EverySchedule) {
  std::vector<Case> cases;
  for (const Schedule s : {Schedule{RowLoop::warp, 32, 8},
                           {RowLoop::warp, 128, 8},
                           {RowLoop::block, 32, 8},
                           {RowLoop::block, 96, 8},
                           {RowLoop::block, 256, 8}}) {
    const std::string of = fmt::format("_{}_{}", static_cast<int>(s.row), s.threads);
    cases.push_back(scheduled("norm_968" + of, layer_norm(3, 968), s));
    cases.push_back(scheduled("rms_64" + of, rms_norm(9, 64, bf16), s));
    cases.push_back(scheduled("softmax_6000" + of, softmax(2, 6000, bf16, f32), s));
    cases.push_back(scheduled("embedding_264" + of, embedding_norm(5, 264), s));
  }
  cases.push_back(scheduled("sum_alone", sum_of_pieces(3, 24, 5), {RowLoop::thread, 64, 8}));
  cases.push_back(scheduled("sum_in_fours", sum_of_pieces(3, 24, 5), {RowLoop::thread, 64, 4}));
  size_t kept = 0;
  for (const Case& c : cases) kept += c.made.functions.find("word < ") != std::string::npos;
  EXPECT_GT(kept, 14U);
  EXPECT_LT(kept, cases.size() - 2);
  check(cases);
}

// Whatever can have lanes computes the same, of samples of every kind of kernel.
TEST(CudaRows, SamplesWithLanes) {
  std::vector<PrintSample> samples;
  std::vector<Case> cases;
  std::string functions;
  size_t words = 0;
  for (PrintSample sample : print_samples())
    for (const RowLoop row : {RowLoop::none, RowLoop::thread, RowLoop::warp, RowLoop::block})
      for (const int lanes : {4, 8}) {
        const Schedule s{row, 64, lanes};
        if (sample.traps || cannot_print(sample.kernel, cuda_dialect, s)) continue;
        cases.push_back(
            scheduled(fmt::format("{}_{}_{}", sample.name, static_cast<int>(row), lanes), sample.kernel, s));
        functions += cases.back().made.functions;
        words += cases.back().made.functions.find("_lanes(") != std::string::npos;
        samples.push_back(sample);
        samples.back().tolerance *= 4;  // sums of other lengths
      }
  EXPECT_GT(cases.size(), 60U);
  EXPECT_GT(words, 30U);
  check_nvrtc(functions);
  TextRunner machine(functions);
  ASSERT_EQ(machine.error(), "");
  for (size_t n = 0; n < cases.size(); ++n)
    EXPECT_EQ(sample_difference(samples[n], sample_reference(samples[n]),
                                execute(cases[n], machine, sample_memory(samples[n]), mslx::Order::random)),
              "")
        << cases[n].made.functions;
}

TEST(CudaRows, PointsAreWords) {
  std::vector<Case> cases;
  cases.push_back(made("rotary_words", rotary(3, 100, 128), "rows, 8 lanes"));
  EXPECT_EQ(count(cases.back().made.functions, "read_lanes("), 5U);
  EXPECT_LT(cases.back().made.functions.find("lt_"), cases.back().made.functions.find("lane = 0"));  // once in a word
  cases.push_back(made("embedding_words", embedding(50, 768), "rows, 8 lanes"));
  EXPECT_EQ(count(cases.back().made.functions, "_to_float"), 0U);  // what is copied is not converted
  cases.push_back(made("index_copy_words", index_copy(1, 20000), "rows, 8 lanes"));
  cases.push_back(made("pad_words", pad(60, 300, 4), "rows, 4 lanes"));
  cases.push_back(made("pad_elements", pad(60, 596, 3), "rows"));  // a word would have a beginning of its own
  cases.push_back(made("transposed_words", transposed_sum(170, 200), "rows, 8 lanes"));
  for (const Case& c : cases)
    EXPECT_EQ(count(c.made.functions, "write_lanes("), c.made.how == "rows" ? 0U : 1U) << c.made.functions;
  check(cases);
}

TEST(CudaRows, WindowsOfWords) {
  std::vector<Case> cases;
  cases.push_back(made("max_pool_words", max_pool(6, 34, 64), "rows, 8 lanes"));
  cases.push_back(made("mean_words", mean_of_image(60, 9, 1728), "rows, 8 lanes"));
  cases.push_back(made("mean_alone", mean_of_image(20, 20, 1728), "rows"));  // long rows want more threads
  cases.push_back(made("few_channels", max_pool(9, 34, 20), "rows"));
  check(cases);
}

// Three channels of a pixel that has room for eight are written as one word, whose rest is zeros.
TEST(CudaRows, RoomOfAPixelIsFilled) {
  const auto to_image = [](bool update) {
    Kernel kernel;
    kernel.name = update ? "into_room" : "to_image";
    kernel.space = {2, 3, 3000};
    kernel.args = {{f16, 18000, false, -1}, {f16, 48000, true, -1}};
    kernel.accesses = {{.arg = 0, .offset = 0, .strides = {9000, 3000, 1}, .guards = {}, .terms = {}}};
    kernel.exprs = {{.op = ExprOp::load}};
    kernel.stores = {
        {.access = {.arg = 1, .offset = 0, .strides = {24000, 1, 8}, .guards = {}, .terms = {}}, .expr = 0}};
    if (update) {
      kernel.args = {kernel.args[0], {f16, 48000, false, -1}, {f16, 48000, true, 1}};
      kernel.stores[0].access.arg = 2;
    }
    EXPECT_EQ(check_kernel(kernel), std::vector<std::string>{});
    return kernel;
  };
  const Schedule words{RowLoop::none, 128, 8};
  for (const bool update : {false, true}) {
    const Case c = scheduled(update ? "into_room" : "to_image", to_image(update), words);
    EXPECT_EQ(count(c.made.functions, "write_lanes("), update ? 0U : 1U) << c.made.functions;
    TextRunner machine(c.made.functions);
    ASSERT_EQ(machine.error(), "");
    std::vector<HostTensor> memory = random_memory(c.kernel, 1), expected = memory;
    std::vector<void*> args;
    for (HostTensor& t : expected) args.push_back(t.data.data());
    evaluate(c.kernel, args);
    HostTensor& image = expected.back();
    for (int64_t i = 0; i < image.type.shape[0] && !update; ++i)
      if (i % 8 >= 3) store_double(image.data.data(), f16, i, 0);
    EXPECT_EQ(difference(c, expected, execute(c, machine, memory, mslx::Order::random)), "");
  }
}

// Each kernel has blocks of its own, and traps of its own numbers.
TEST(CudaRows, KernelsSideBySide) {
  const std::vector<Kernel> kernels{rotary(3, 100, 128), index_copy(1, 200), embedding(3, 64), pad(5, 30, 3)};
  std::vector<const Kernel*> all;
  Case joined{"beside", {}, {}, {}};
  for (const Kernel& k : kernels) {
    EXPECT_EQ(cuda::codegen::choose::side_by_side_declines(k, any), "") << k.name;
    all.push_back(&k);
    const auto before = static_cast<int>(joined.kernel.args.size());
    for (KernelArg arg : k.args) {
      if (arg.updates >= 0) arg.updates += before;
      joined.kernel.args.push_back(arg);
    }
  }
  EXPECT_EQ(cuda::codegen::choose::side_by_side_declines(rms_norm(3, 256, bf16), any), "its points are rows");
  joined.made = cuda::codegen::choose::make_side_by_side(all, any);
  joined.ahead.resize(joined.kernel.args.size());
  EXPECT_EQ(joined.made.how, "4 kernels side by side");
  EXPECT_EQ(joined.made.trap_steps, (std::vector<size_t>{1, 1, 2, 2}));
  check_nvrtc(joined.made.functions);
  TextRunner machine(joined.made.functions);
  ASSERT_EQ(machine.error(), "");
  const std::vector<HostTensor> given = random_memory(joined.kernel, 1);
  std::vector<HostTensor> expected = given;
  size_t first = 0;
  for (const Kernel& k : kernels) {
    std::vector<void*> args;
    for (size_t i = 0; i < k.args.size(); ++i) args.push_back(expected[first + i].data.data());
    evaluate(k, args);
    first += k.args.size();
  }
  EXPECT_EQ(difference(joined, expected, execute(joined, machine, given, mslx::Order::random)), "");
  std::vector<HostTensor> wrong = given;
  const size_t ids = kernels[0].args.size() + kernels[1].args.size() + 1;
  store_int(wrong[ids].data.data(), i64, 2, 4);
  EXPECT_EQ(machine.run(joined.kernel, joined.made, wrong, mslx::Order::forward, joined.ahead), joined.made.traps[3]);
}

// Steps that follow each other and have nothing to do with each other, one of which may trap.
TEST(CudaRows, WhatIsSideBySide) {
  const Kernel turn = rotary(2, 4, 128), copy = index_copy(1, 200), rows = embedding(3, 64),
               norm = rms_norm(3, 256, bf16);
  const auto group = [](const std::vector<GroupStep>& steps) { return cuda::target().group(steps).count; };
  const GroupStep queries{&turn, {0, 1, 2, 3}}, keys{&turn, {0, 4, 2, 5}}, state{&copy, {6, 7, 8, 6}};
  EXPECT_EQ(group({queries, keys, state}), 3U);
  EXPECT_EQ(group({queries, {&turn, {0, 3, 2, 5}}}), 1U);         // reads what the first one writes
  EXPECT_EQ(group({{&turn, {0, 6, 2, 5}}, state}), 1U);           // reads what the second one overwrites
  EXPECT_EQ(group({queries, {&norm, {9, 10, 11}}, state}), 1U);   // a row is a block's
  EXPECT_EQ(group({state, queries, {&rows, {12, 13, 14}}}), 2U);  // both look something up
  EXPECT_EQ(group({queries, keys, {&turn, {0, 15, 2, 16}}, {&turn, {0, 17, 2, 18}}, {&turn, {0, 19, 2, 20}}}), 4U);
}

// One row, or a few, whose folds wait for each other: softmax, deviation, place of the largest.
Kernel long_rows(int64_t rows, int64_t n, int way) {
  K k({rows, n}, 1);
  const int a = k.input({f32, {rows, n}});
  const Ex x = k.load_broadcast(a);
  const Coord row[] = {k.dim(0)};
  const auto sum = [&](Ex of) { return k.reduce(Reduction::sum, of); };
  if (way == 0) {
    const Ex e = exp(x - k.reduce(Reduction::max, x));
    k.store(k.output({f32, {rows, n}}), e / sum(e));
  } else if (way == 1) {
    const Ex d = x - sum(x) / static_cast<double>(n);
    k.store(k.output({f32, {rows}}), row, sqrt(sum(d * d)));
  } else {
    const Ex top = k.reduce(Reduction::max, x);
    const Ex place = select(x == top, k.index(1), k.integer(n));
    k.store(k.output({i64, {rows}}), row, k.reduce(Reduction::min, place));
  }
  return k.finish("long_rows");
}

// Along rows that lie in order, or across.
Kernel scanned(int64_t rows, int64_t n, bool across, int way) {
  K k({rows, n}, 1);
  const Shape shape = across ? Shape{n, rows} : Shape{rows, n};
  const Coord at[] = {k.dim(across ? 1 : 0), k.dim(across ? 0 : 1)};
  const int a = k.input({f32, shape}), out = k.output({f32, shape});
  const Ex x = k.load(a, at);
  if (way == 0) {
    k.store(out, at, k.scan(Reduction::sum, abs(x)));
  } else {
    const Ex top = k.scan(Reduction::max, x);
    k.store(out, at, top);
    k.store(k.output({i64, shape}), at, k.scan(Reduction::max, select(x == top, k.index(1), k.integer(-1))));
  }
  return k.finish("scanned");
}

Kernel counted(int64_t n, int64_t places, int64_t own, DType type) {
  K k({n, own});
  const int before = k.input({type, {places, own}}), x = k.input({type, {n, own}}), to = k.input({i64, {n, own}}),
            out = k.output({type, {places, own}}, before);
  const Coord at[] = {Coord(bit_and(k.load_broadcast(to), k.integer(places - 1))), k.dim(1)};
  k.store(out, at, k.load_broadcast(x), Reduction::sum);
  return k.finish("counted");
}

TEST(CudaRows, FewLongRowsAreInPieces) {
  check_steps({{"softmax", long_rows(1, 140000, 0), 5, {"rows"}},
               {"softmax_of_two", long_rows(2, 131077, 0), 5},
               {"deviation", long_rows(3, 1 << 16, 1), 4},
               {"deviation_of_an_odd_row", long_rows(1, 131101, 1), 4},
               {"largest", long_rows(1, 151936, 2), 4},
               {"not_so_long", long_rows(2, 30000, 1), 0},
               {"rows_enough", long_rows(70, 2048, 1), 0}});
}

TEST(CudaRows, ScansAreInPieces) {
  std::vector<Steps> all;
  for (const int way : {0, 1})
    for (const bool across : {false, true}) {
      const std::string name = fmt::format("{}{}", way, across ? "_across" : "");
      all.push_back({"scanned" + name, scanned(3, 1000, across, way), !across ? 1u : way == 0 ? 3u : 5u});
      all.push_back({"scanned_long" + name, scanned(1, 70001, across, way), 0});
      all.push_back({"scanned_many" + name, scanned(300, 257, across, way), 0});
      all.push_back({"scanned_short" + name, scanned(300, 255, across, way), 1});
    }
  check_steps(all);
}

TEST(CudaRows, WhatCombinesIsInPieces) {
  check_steps({{"counted", counted(5000, 64, 1, i64), 3},
               {"summed", counted(3001, 8, 3, f32), 3},
               {"many_places", counted(1000, 1024, 40, f32), 3},
               {"few", counted(100, 8, 1, f32), 1}});
}

TEST(CudaRows, RefusesLanesThatCannotBe) {
  const auto reason = [](const Kernel& k, const Schedule& s) { return cannot_print(k, cuda_dialect, s).value_or(""); };
  EXPECT_EQ(reason(layer_norm(3, 100), {RowLoop::block, 32, 8}), "8 lanes along an extent of 100");
  EXPECT_EQ(reason(layer_norm(3, 104), {RowLoop::block, 32, 8}), "");
  EXPECT_EQ(reason(max_pool(1, 4, 8), {RowLoop::block, 32, 8}), "8 lanes along no dimension");
  EXPECT_EQ(cannot_print(layer_norm(3, 104), metal_dialect, {RowLoop::block, 32, 8}),
            "MSL has no words of several elements");
  K scan({4, 64}, 1);
  const int a = scan.input({f32, {4, 64}}), out = scan.output({f32, {4, 64}});
  scan.store(out, scan.scan(Reduction::sum, scan.load_broadcast(a)));
  EXPECT_EQ(reason(scan.finish("cumsum"), {RowLoop::thread, 32, 4}), "lanes do not wait for each other in a scan");
  K add({64, 8});
  const int self = add.input({f32, {8}}), source = add.input({f32, {64, 8}}), sum = add.output({f32, {8}}, self);
  const Coord to[] = {add.dim(1)};
  add.store(sum, to, add.load_broadcast(source), Reduction::sum);
  EXPECT_EQ(reason(add.finish("add_up"), {RowLoop::none, 32, 4}), "lanes do not wait for each other where they add up");
}

}  // namespace
}  // namespace npusim
