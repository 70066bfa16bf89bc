// What scripts rely on: reports, files and exit codes of every verb (docs/cli.md).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/invoke.h"
#include "runtime/safetensors.h"

namespace npusim {
namespace {

using Json = nlohmann::json;

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [key, value] : object.items()) names.push_back(key);
  return names;  // sorted, as nlohmann's objects are
}

TEST_F(CliTest, CompileReport) {
  write_model();
  const Invocation result = npusim({"compile", "model.json", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(keys(json), (std::vector<std::string>{"dtype", "methods", "notes", "program", "seconds", "target"}));
  EXPECT_EQ(json["program"], "model.npubin");
  EXPECT_EQ(json["dtype"], "float16");
  EXPECT_EQ(keys(json["seconds"]), (std::vector<std::string>{"codegen", "import", "passes", "plan", "total"}));
  EXPECT_EQ(keys(json["methods"]["main"]),
            (std::vector<std::string>{"arena_bytes", "arena_lower_bound_bytes", "fusions", "kernels", "materialized",
                                      "nodes", "steps", "weights_bytes"}));
  EXPECT_EQ(json["methods"]["main"]["nodes"], 2);
  EXPECT_EQ(json["methods"]["main"]["weights_bytes"], 12);
  EXPECT_EQ(result.err, "");
}

TEST_F(CliTest, PartitionReportPlanAndPicture) {
  write_model();
  const Json plain = Json::parse(npusim({"partition", "model.json", "--json"}).out);
  EXPECT_EQ(plain["devices"], Json::array({"cpu"}));
  EXPECT_EQ(plain["methods"]["main"]["segments"].size(), 1U);
  EXPECT_EQ(plain["methods"]["main"]["reasons"], Json::array());
  const std::string op =
      Json::parse(npusim({"describe", "--steps", "--json", "-"},
                         [&] {
                           EXPECT_EQ(npusim({"compile", "model.json", "-o", "whole.npubin"}).code, 0);
                           return path("whole.npubin");
                         }())
                      .out)["methods"]["main"]["steps"][0]["origins"][0]["op"];
  const Invocation result =
      npusim({"partition", "model.json", "--force-cpu", op, "-o", "plan.json", "--picture", "picture.svg", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(keys(json), (std::vector<std::string>{"devices", "methods"}));
  EXPECT_EQ(json["devices"], Json::array({"cpu", "cpu"}));
  const Json& method = json["methods"]["main"];
  EXPECT_EQ(keys(method),
            (std::vector<std::string>{"calls", "reasons", "seconds", "segments", "transfer_bytes", "transfers"}));
  EXPECT_EQ(method["segments"].size(), 2U);
  EXPECT_EQ(keys(method["segments"][1]),
            (std::vector<std::string>{"bytes", "device", "flops", "nodes", "seconds", "steps", "target", "transfers"}));
  EXPECT_EQ(method["reasons"][0]["reason"], "--force-cpu " + op);
  EXPECT_NE(read_file(path("picture.svg")).find("</svg>"), std::string::npos);
  ASSERT_EQ(npusim({"compile", "model.json", "--plan", "plan.json", "-o", "planned.npubin"}).code, 0);
  ASSERT_EQ(npusim({"compile", "model.json", "--force-cpu", op, "-o", "forced.npubin"}).code, 0);
  EXPECT_EQ(read_file(path("planned.npubin")), read_file(path("forced.npubin")));
  EXPECT_EQ(npusim({"partition", "model.json", "--force-cpu", op, "-o", "-"}).out, read_file(path("plan.json")));
  EXPECT_EQ(npusim({"partition", "model.json", "--picture", "-", "--json"}).code, 2);
  EXPECT_EQ(npusim({"partition", "model.json", "--picture", "-", "-o", "-"}).code, 2);
  const std::string text = npusim({"partition", "model.json", "--force-cpu", op}).out;
  EXPECT_NE(text.find("not on the first device, because"), std::string::npos) << text;
}

// A path may be any bytes; JSON is UTF-8.
TEST_F(CliTest, ReportsNameAnyPath) {
  write_model();
  const Invocation result = npusim({"compile", "model.json", "-o", "\xff.npubin", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out)["program"], "\ufffd.npubin");
}

TEST_F(CliTest, CompileIsByteIdenticalAndTakesStandardStreams) {
  write_model();
  ASSERT_EQ(npusim({"compile", "model.json", "-o", "a.npubin"}).code, 0);
  ASSERT_EQ(npusim({"compile", "model.json", "-o", "b.npubin"}).code, 0);
  const Invocation piped = npusim({"compile", "-", "-o", "-"}, path("model.json"));
  ASSERT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(read_file(path("a.npubin")), read_file(path("b.npubin")));
  EXPECT_EQ(read_file(path("a.npubin")), piped.out);
  const Invocation described = npusim({"describe", "-", "--json"}, path("a.npubin"));
  ASSERT_EQ(described.code, 0) << described.err;
  EXPECT_EQ(Json::parse(described.out)["model"], "small");
}

TEST_F(CliTest, RunWritesOutputsInOrder) {
  make_program();
  const Invocation result = npusim({"run", "model.npubin", "--weights", "w.safetensors", "--inputs", "x.safetensors",
                                    "-o", "out.safetensors", "--repeat", "3", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(keys(json), (std::vector<std::string>{"median_ms", "method", "min_ms", "output", "outputs", "p10_ms",
                                                  "p90_ms", "repeat"}));
  const TensorSet out = map_tensors(path("out.safetensors"));
  ASSERT_EQ(out.entries.size(), 2u);
  EXPECT_EQ(out.entries[0].name, "y");
  EXPECT_EQ(out.entries[1].name, "z");
  for (int i = 0; i < 6; ++i) {
    const double expected = -12 + i + 10 + i % 3;
    EXPECT_EQ(load_double(out.entries[0].tensor.data, DType::f32, i), expected);
    EXPECT_EQ(load_double(out.entries[1].tensor.data, DType::f32, i), std::max(expected, 0.0));
  }
}

// A state that nobody gives begins as the weights have it, in every verb that runs.
TEST_F(CliTest, StatesBeginAsTheWeightsHaveThem) {
  write("model.json", R"({"graph_inputs": [{"name": "n", "shape": [], "dtype": "float32"},
      {"name": "x", "shape": [2], "dtype": "float32"}],
    "graph_outputs": [{"name": "n_next", "shape": [], "dtype": "float32", "producer_node": "more"},
      {"name": "y", "shape": [2], "dtype": "float32"}],
    "weights": [], "states": {"n": "n_next"},
    "nodes": [{"name": "more", "op_type": "aten.add.Tensor", "attrs": {"other": 1},
        "inputs": [{"name": "n", "shape": [], "dtype": "float32"}],
        "outputs": [{"name": "more", "shape": [], "dtype": "float32"}]},
      {"name": "y", "op_type": "aten.mul.Tensor", "attrs": {},
        "inputs": [{"name": "x", "shape": [2], "dtype": "float32"}, {"name": "n", "shape": [], "dtype": "float32"}],
        "outputs": [{"name": "y", "shape": [2], "dtype": "float32"}]}]})");
  const HostTensor n = counting({DType::f32, {}}, 5), x = counting({DType::f32, {2}}, 1);
  write_safetensors(path("w.safetensors"), std::vector<NamedTensor>{{"n", view_of(n)}});
  write_npy(path("x.npy"), view_of(x));
  ASSERT_EQ(npusim({"compile", "model.json", "-o", "model.npubin", "--dtype", "float32"}).code, 0);
  const std::vector<std::string> given = {"--weights", "w.safetensors", "--input", "x=x.npy"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.end(), given.begin(), given.end());
    return npusim(words);
  };
  for (const std::string repeat : {"1", "3"}) {  // each begins anew
    const Invocation run = with({"run", "model.npubin", "-o", "out.safetensors", "--repeat", repeat});
    ASSERT_EQ(run.code, 0) << run.err;
    const TensorSet out = map_tensors(path("out.safetensors"));
    EXPECT_EQ(load_double(out.entries[0].tensor.data, DType::f32, 0), 6);
    EXPECT_EQ(load_double(out.entries[1].tensor.data, DType::f32, 1), 10);
  }
  EXPECT_EQ(with({"verify", "model.json", "--dtype", "float32"}).code, 0);
  EXPECT_EQ(with({"bisect", "model.json", "--dtype", "float32"}).code, 0);
  for (const std::string verb : {"bench", "profile"})
    EXPECT_EQ(with({verb, "model.npubin", "--seconds", "0.01"}).code, 0) << verb;
  const Invocation missing = npusim({"run", "model.npubin", "--input", "x=x.npy"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_NE(missing.err.find("state 'n' of float32[] is missing"), std::string::npos) << missing.err;
}

TEST_F(CliTest, RunTakesNpyAndPipes) {
  make_program();
  write_npy(path("x.npy"), view_of(counting({DType::f32, {2, 3}}, -12)));
  const std::vector<std::string> base = {"run", "model.npubin", "--weights", "w.safetensors"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  const Invocation file = npusim(with({"--input", "x=x.npy", "-o", "-"}));
  ASSERT_EQ(file.code, 0) << file.err;
  EXPECT_EQ(parse_safetensors(std::as_bytes(std::span(file.out)), "out").entries.size(), 2u);
  EXPECT_EQ(npusim(with({"--input", "x=-", "-o", "-"}), path("x.npy")).out, file.out);
  EXPECT_EQ(npusim(with({"--input", "x=-", "-o", "-"}), path("x.safetensors")).out, file.out);
  EXPECT_EQ(npusim(with({"--inputs", "-", "-o", "-"}), path("x.safetensors")).out, file.out);
  const Invocation text = npusim(with({"--input", "x=x.npy"}));
  EXPECT_NE(text.out.find("float32[2, 3]  min -2  mean 1.5  max 5"), std::string::npos) << text.out;
}

TEST_F(CliTest, NothingIsPrintedIntoAFile) {
  ASSERT_EQ(npusim({"compile", digits("ir.json"), "-o", "digits.npubin"}).code, 0);
  write_npy(path("x.npy"), view_of(counting({DType::f32, {1, 1, 32, 32}})));
  const std::vector<std::string> run = {"run",     "digits.npubin", "--weights", digits("model.safetensors"),
                                        "--input", "x=x.npy",       "-o",        "-"};
  const Invocation plain = npusim(run);
  ASSERT_EQ(plain.code, 0) << plain.err;
  environment_ = "DNNL_VERBOSE=1 ONEDNN_VERBOSE=1";
  EXPECT_TRUE(npusim(run).out == plain.out);
}

TEST_F(CliTest, VerifyAgainstReferenceAndGolden) {
  make_program();
  const std::vector<std::string> base = {"verify",   "model.json",    "--weights", "w.safetensors",
                                         "--inputs", "x.safetensors", "--json"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  const Invocation reference = npusim(base);
  ASSERT_EQ(reference.code, 0) << reference.err;
  const Json json = Json::parse(reference.out);
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(keys(json["outputs"][0]),
            (std::vector<std::string>{"argmax_equal", "cosine", "failed", "l0", "l1", "l2", "l_inf", "max_rel_l2",
                                      "name", "ok", "pearson_r", "rel_l2"}));

  // By position, flattened and cut, with the true shape.
  HostTensor shape = make_tensor({DType::i64, {2}});
  store_int(shape.data.data(), DType::i64, 0, 2);
  store_int(shape.data.data(), DType::i64, 1, 3);
  HostTensor start = make_tensor({DType::f32, {4}});
  for (int i = 0; i < 4; ++i) store_double(start.data.data(), DType::f32, i, -12 + i + 10 + i % 3);
  save("golden.safetensors", {{"out0", start}, {"shape0", shape}});
  const Invocation golden = npusim(with({"--golden", "golden.safetensors"}));
  EXPECT_EQ(golden.code, 0) << golden.err << golden.out;
  EXPECT_EQ(Json::parse(golden.out)["outputs"].size(), 1u);
  EXPECT_EQ(golden.err, "note: output 'z' has no golden tensor and is not compared\n");

  // By name, and wrong.
  HostTensor wrong = counting({DType::f32, {2, 3}});
  store_double(wrong.data.data(), DType::f32, 0, 50);
  save("wrong.safetensors", {{"y", wrong}});
  const Invocation failed = npusim(with({"--golden", "wrong.safetensors"}));
  EXPECT_EQ(failed.code, 1);
  const Json failure = Json::parse(failed.out);
  EXPECT_EQ(failure["ok"], false);
  EXPECT_EQ(failure["outputs"][0]["argmax_equal"], false);
  EXPECT_EQ(failure["outputs"][0]["l_inf"], 52);

  // Infinities are compared, not averaged.
  HostTensor infinite = start;
  store_double(infinite.data.data(), DType::f32, 1, INFINITY);
  save("infinite.safetensors", {{"out0", infinite}});
  const Invocation spoiled = npusim(with({"--golden", "infinite.safetensors"}));
  EXPECT_EQ(spoiled.code, 1);
  EXPECT_TRUE(Json::parse(spoiled.out)["outputs"][0]["l_inf"].is_null());
}

TEST_F(CliTest, VerifyTolerances) {
  make_program();
  HostTensor near = make_tensor({DType::f32, {2, 3}});
  for (int i = 0; i < 6; ++i) store_double(near.data.data(), DType::f32, i, -12 + i + 10 + i % 3 + 0.0003 * i);
  save("near.safetensors", {{"y", near}});
  const std::vector<std::string> base = {"verify",        "model.json", "--weights",        "w.safetensors", "--inputs",
                                         "x.safetensors", "--golden",   "near.safetensors", "--dtype",       "float32"};
  auto code = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return npusim(more).code;
  };
  EXPECT_EQ(code({}), 0);
  EXPECT_EQ(code({"--max-l-inf", "0.01"}), 0);
  EXPECT_EQ(code({"--max-l-inf", "0.001"}), 1);
  EXPECT_EQ(code({"--min-pearson", "1"}), 1);
}

// Warm-up, at least 20 runs of a small model, percentiles.
TEST_F(CliTest, BenchReport) {
  make_program();
  const Invocation result = npusim({"bench", "model.npubin", "--weights", "w.safetensors", "--seconds", "0.01",
                                    "--threads", "1", "--steps", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(keys(json), (std::vector<std::string>{"bytes_moved", "device", "flops", "gflop_s", "median_ms", "method",
                                                  "min_ms", "on_device", "p10_ms", "p90_ms", "probe_gflop_s",
                                                  "probe_read_gb_s", "read_gb_s", "runs", "slowest_steps", "threads"}));
  ASSERT_EQ(json["slowest_steps"].size(), 1);
  EXPECT_EQ(json["slowest_steps"][0]["how"], "loops");
  EXPECT_EQ(json["threads"], 1);
  EXPECT_EQ(json["device"].get<std::string>().find("threads"), std::string::npos) << json["device"];  // they are ours
  EXPECT_EQ(json["flops"], 0);
  EXPECT_EQ(json["bytes_moved"], 4 * (6 + 3 + 6) + 4 * (6 + 6));  // y is an output: the second step reads it again
  EXPECT_GE(json["runs"], 5);
  EXPECT_GT(json["probe_read_gb_s"], 0.1);
  EXPECT_GT(json["probe_gflop_s"], 0.1);
}

TEST_F(CliTest, BisectReport) {
  const std::string model = NPUSIM_SOURCE_DIR "/examples/models/digits/";
  const Invocation fine = npusim({"bisect", model + "ir.json", "--weights", model + "model.safetensors", "--json"});
  ASSERT_EQ(fine.code, 0) << fine.err << fine.out;
  const Json json = Json::parse(fine.out);
  EXPECT_EQ(keys(json), (std::vector<std::string>{"culprit", "first", "fusions", "launch", "node", "nodes", "ok",
                                                  "outputs", "parts", "tolerance"}));
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(keys(json["parts"][0]),
            (std::vector<std::string>{"carried", "executed", "how", "isolated", "nodes", "operators"}));
  // Half precision between the parts is too far for a bar of float32, and no part's fault.
  const Invocation half = npusim({"bisect", model + "ir.json", "--weights", model + "model.safetensors", "--dtype",
                                  "float16", "--max-rel-l2", "1e-4"});
  EXPECT_EQ(half.code, 1) << half.err;
  EXPECT_NE(half.out.find("every part on its own is right"), std::string::npos) << half.out;
}

// Sums by operator, by layer and by step are of the same time; the trace has a row for each device.
TEST_F(CliTest, ProfileReportAndTrace) {
  const std::string model = NPUSIM_SOURCE_DIR "/examples/models/digits/";
  ASSERT_EQ(npusim({"compile", model + "ir.json", "--force-cpu", "max_pool2d", "-o", "digits.npubin"}).code, 0);
  const Invocation result = npusim({"profile", "digits.npubin", "--weights", model + "model.safetensors", "--seconds",
                                    "0.05", "--trace", "trace.json", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(keys(json), (std::vector<std::string>{"layers", "limits", "median_ms", "method", "min_ms", "operators",
                                                  "steps", "steps_ms"}));
  for (const Json& device : json["limits"]) EXPECT_GT(device["read_gb_s"], 0.1) << device;
  const auto sum = [](const Json& list, const char* key) {
    double total = 0;
    for (const Json& entry : list) total += entry[key].get<double>();
    return total;
  };
  EXPECT_NEAR(sum(json["operators"], "ms"), json["steps_ms"].get<double>(), 1e-9);
  EXPECT_NEAR(sum(json["layers"], "ms"), json["steps_ms"].get<double>(), 1e-9);
  EXPECT_NEAR(sum(json["steps"], "min_ms"), json["steps_ms"].get<double>(), 1e-9);
  EXPECT_EQ(sum(json["operators"], "steps"), json["steps"].size());
  size_t transfers = 0;
  for (const Json& step : json["steps"]) transfers += step["kernel"] == "transfer";
  EXPECT_GT(transfers, 0U);
  const auto has = [](const Json& list, const std::string& name) {
    return std::any_of(list.begin(), list.end(), [&](const Json& entry) { return entry["name"] == name; });
  };
  EXPECT_TRUE(has(json["operators"], "max_pool2d")) << json["operators"];
  EXPECT_TRUE(has(json["operators"], "transfer")) << json["operators"];
  const Json trace = Json::parse(read_file(path("trace.json")))["traceEvents"];
  EXPECT_EQ(trace.size(), json["steps"].size() + 2);
  EXPECT_EQ(trace[1]["args"]["name"], "cpu");
  double end = 0;
  for (size_t i = 2; i < trace.size(); ++i) {
    EXPECT_NEAR(trace[i]["ts"].get<double>(), end, 1e-6);
    end = trace[i]["ts"].get<double>() + trace[i]["dur"].get<double>();
  }
  const std::string text =
      npusim({"profile", "digits.npubin", "--weights", model + "model.safetensors", "--seconds", "0.05", "--top", "2"})
          .out;
  for (const char* title : {"by operators", "by layer", "by step", "more"})
    EXPECT_NE(text.find(title), std::string::npos) << text;
}

// The page has every step, transfers with their ends and bytes, and names as text; nothing in it is loaded or run.
TEST_F(CliTest, ProfilePage) {
  make_program();
  std::string ir = read_file(path("model.json"));
  for (size_t at = 0; (at = ir.find("\"y\"", at)) != std::string::npos; at += 3) ir.replace(at, 3, R"("<b>'&y")");
  for (size_t at = 0; (at = ir.find("layer.w", at)) != std::string::npos; at += 8) ir.replace(at, 7, "<i>.'w\\\"");
  ir.replace(ir.find("\"small\""), 7, R"("</title><script>\"")");
  write("named.json", ir);
  save("named.safetensors", {{"<i>.'w\"", counting({DType::f32, {3}}, 10)}});
  ASSERT_EQ(npusim({"compile", "named.json", "--dtype", "float32", "--force-cpu", "relu", "-o", "named.npubin"}).code,
            0);
  const std::vector<std::string> base = {"profile",           "named.npubin", "--weights",
                                         "named.safetensors", "--seconds",    "0.02"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return npusim(more);
  };
  const Invocation result = with({"--html", "page.html", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  const std::string page = read_file(path("page.html"));
  EXPECT_TRUE(page.starts_with("<!doctype html>") && page.ends_with("</html>\n")) << page;
  for (const char* no : {"<b>'", "<script", "<i>.", "http:", "https:", "url(", "src=", "href="})
    EXPECT_EQ(page.find(no), std::string::npos) << no << "\n" << page;
  EXPECT_NE(page.find("<title>&lt;/title&gt;&lt;script&gt;&quot;: main</title>"), std::string::npos) << page;
  EXPECT_NE(page.find("<td class=w>&lt;b&gt;&#39;&amp;y<td"), std::string::npos) << page;
  EXPECT_NE(page.find("<td class=w>&lt;i&gt;"), std::string::npos) << page;  // the layer
  size_t bars = 0, transfers = 0;
  for (size_t at = 0; (at = page.find("<i class=", at)) != std::string::npos; ++at) ++bars;
  EXPECT_EQ(bars, json["steps"].size());
  for (const Json& step : json["steps"])
    if (step["kernel"] == "transfer") {
      EXPECT_EQ(step["bytes"], 24) << step;  // what is moved is told once
      ++transfers;
    }
  EXPECT_GT(transfers, 0U);
  EXPECT_NE(page.find("<h2>Transfers</h2>"), std::string::npos) << page;
  EXPECT_NE(page.find("<td>cpu (target)<td>cpu (fallback)<td class=n"), std::string::npos) << page;

  EXPECT_TRUE(with({"--html", "-"}).out.ends_with("</html>\n"));
  const Invocation both = with({"--html", "-", "--trace", "-"});
  EXPECT_EQ(both.code, 2) << both.err;
  EXPECT_EQ(with({"--trace", "-", "--json"}).code, 2);
  const std::vector<std::string> before = files();
  const Invocation nowhere = with({"--html", "no/page.html"});
  EXPECT_EQ(nowhere.code, 3) << nowhere.err;
  EXPECT_EQ(nowhere.out, "");
  EXPECT_NE(nowhere.err.find("cannot write no/page.html"), std::string::npos) << nowhere.err;
  EXPECT_EQ(files(), before);
}

// Every step says how it runs; whoever was asked before and declined says why.
TEST_F(CliTest, BenchSaysWhy) {
  const std::string model = NPUSIM_SOURCE_DIR "/examples/models/digits/";
  const Invocation compiled = npusim({"compile", model + "ir.json", "--dtype", "float32", "-o", "digits.npubin"});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  const std::vector<std::string> base = {"bench",     "digits.npubin", "--weights", model + "model.safetensors",
                                         "--seconds", "0.01",          "--steps",   "99"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return npusim(more);
  };
  const std::string declined = "filters that see more than one channel";  // depthwise of the first convolution
  const Invocation report = with({"--json"});
  ASSERT_EQ(report.code, 0) << report.err;
  const Json json = Json::parse(report.out);
  int convolutions = 0;
  for (const Json& step : json["slowest_steps"]) {
    EXPECT_EQ(keys(step), (std::vector<std::string>{"declined", "how", "min_ms", "node"}));
    if (step["how"] == "loops") {
      EXPECT_TRUE(step["declined"].empty());
    }
    if (step["how"].get<std::string>().starts_with("conv")) {
      ++convolutions;
      ASSERT_EQ(step["declined"].size(), 5u) << step;
      EXPECT_EQ(step["declined"][0], (Json{{"implementation", "depthwise"}, {"reason", declined}}));
      EXPECT_EQ(step["declined"][1]["implementation"], "few channels");
      EXPECT_EQ(step["declined"][2]["implementation"], "winograd");
      EXPECT_EQ(step["declined"][3]["implementation"], "planes");
    }
  }
  EXPECT_GT(convolutions, 0);
  EXPECT_NE(with({"--why"}).out.find("not depthwise: " + declined + "\n"), std::string::npos);
  EXPECT_EQ(with({}).out.find("depthwise"), std::string::npos);
  EXPECT_EQ(npusim({"bench", "digits.npubin", "--why"}).code, 2);  // of no steps
}

// A method that goes on by itself starts each run at the same position: more runs than its states have places.
TEST_F(CliTest, BenchRunsOfALoopAreTheSame) {
  const Invocation compiled =
      npusim({"compile", "--method", "decode=" + tinyqwen("decode_ir.json"), "--text", "-o", "lm.npubin"});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  // More runs than there are positions, however busy the machine is.
  int runs = 0;
  for (const char* seconds : {"1", "4", "20", "100"}) {
    if (runs > 256) break;
    const Invocation result = npusim({"bench", "lm.npubin", "--weights", tinyqwen("model.safetensors"), "--method",
                                      "greedy", "--seconds", seconds, "--steps", "3", "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    runs = Json::parse(result.out)["runs"];
  }
  EXPECT_GT(runs, 256);
}

TEST_F(CliTest, GenerateReport) {
  const Invocation compiled = npusim({"compile", "--method", "prefill=" + tinyqwen("prefill_ir.json"), "--method",
                                      "decode=" + tinyqwen("decode_ir.json"), "--kv-map", tinyqwen("kv_mapping.json"),
                                      "--dtype", "float32", "-o", "lm.npubin"});
  ASSERT_EQ(compiled.code, 0) << compiled.err;
  const std::vector<std::string> base = {
      "generate", "lm.npubin", "--weights", tinyqwen("model.safetensors"), "--tokenizer", tinyqwen("tokenizer.json"),
      "--prompt", "def main("};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return npusim(more);
  };
  const Invocation result = with({"--max-new-tokens", "16", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(keys(json),
            (std::vector<std::string>{"decode_ms_per_token", "prefill_ms", "prompt_tokens", "text", "tokens"}));
  EXPECT_EQ(json["prompt_tokens"], 4);
  const Json golden = Json::parse(read_file(tinyqwen("golden_greedy.json")))[0];
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(json["tokens"][i], golden["fp32"][i]) << i;
  EXPECT_EQ(with({"--max-new-tokens", "16"}).out, json["text"].get<std::string>() + "\n");

  // A prompt longer than the prefill's 64 tokens goes on through decode, and says what a shorter one says.
  const std::string longer =
      "def main(" + Json::parse(with({"--max-new-tokens", "100", "--json"}).out)["text"].get<std::string>();
  const Invocation rest = npusim({"generate", "lm.npubin", "--weights", tinyqwen("model.safetensors"), "--tokenizer",
                                  tinyqwen("tokenizer.json"), "--prompt", longer, "--max-new-tokens", "8", "--json"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_GT(Json::parse(rest.out)["prompt_tokens"], 64);
  // Sampling repeats itself with the same seed.
  const std::string sampled = with({"--seed", "3", "--top-p", "0.9", "--max-new-tokens", "12"}).out;
  EXPECT_EQ(with({"--seed", "3", "--top-p", "0.9", "--max-new-tokens", "12"}).out, sampled);
  // The states hold 256 positions, the last token needs none.
  EXPECT_LE(Json::parse(with({"--max-new-tokens", "1000", "--json"}).out)["tokens"].size(), 253u);
}

TEST_F(CliTest, InfoReport) {
  write_model();
  const Json json = Json::parse(npusim({"info", "model.json", "--json"}).out);
  EXPECT_EQ(keys(json), (std::vector<std::string>{"dtypes", "inputs", "model", "nodes", "ops", "outputs", "supported",
                                                  "unsupported", "weights", "weights_bytes"}));
  EXPECT_EQ(json["ops"]["aten.relu.default"], 1);
  EXPECT_EQ(json["supported"], true);
  std::string text = read_file(path("model.json"));
  text.replace(text.find("aten.relu.default"), 17, "aten.wonder.default");
  write("strange.json", text);
  const Invocation strange = npusim({"info", "strange.json", "--json"});
  EXPECT_EQ(strange.code, 0);
  EXPECT_EQ(Json::parse(strange.out)["unsupported"][0], "op aten.wonder.default is not supported (1 node: z)");
  EXPECT_NE(npusim({"info", "strange.json"}).out.find("not supported\n  op aten.wonder.default"), std::string::npos);
}

// What only a pass refuses: a write through a view that shows an element more than once, and a tensor beyond the
// target's rank.
TEST_F(CliTest, InfoSaysWhatCompileRefuses) {
  write("wide.json", R"({"graph_inputs": [{"name": "x", "shape": [1, 3], "dtype": "float32"}],
    "graph_outputs": [{"name": "a", "shape": [2, 3], "dtype": "float32"}, {"name": "b", "shape": [3, 3], "dtype": "float32"}],
    "weights": [], "nodes": [
      {"name": "two", "op_type": "aten.expand.default", "inputs": [{"name": "x", "shape": [1, 3], "dtype": "float32"}],
       "outputs": [{"name": "two", "shape": [2, 3], "dtype": "float32"}], "attrs": {"size": [2, 3]}},
      {"name": "a", "op_type": "aten.relu_.default", "inputs": [{"name": "two", "shape": [2, 3], "dtype": "float32"}],
       "outputs": [{"name": "a", "shape": [2, 3], "dtype": "float32"}], "attrs": {}},
      {"name": "three", "op_type": "aten.expand.default", "inputs": [{"name": "x", "shape": [1, 3], "dtype": "float32"}],
       "outputs": [{"name": "three", "shape": [3, 3], "dtype": "float32"}], "attrs": {"size": [3, 3]}},
      {"name": "b", "op_type": "aten.neg_.default", "inputs": [{"name": "three", "shape": [3, 3], "dtype": "float32"}],
       "outputs": [{"name": "b", "shape": [3, 3], "dtype": "float32"}], "attrs": {}}]})");
  const std::vector<std::string> reasons = {
      "node a: writes in place into 'two', which shows an element more than once",
      "node b: writes in place into 'three', which shows an element more than once"};
  const Invocation info = npusim({"info", "wide.json", "--json"});
  ASSERT_EQ(info.code, 0) << info.err;
  EXPECT_EQ(Json::parse(info.out)["supported"], false);
  EXPECT_EQ(Json::parse(info.out)["unsupported"], Json(reasons));
  const Invocation compiled = npusim({"compile", "wide.json"});
  EXPECT_EQ(compiled.code, 4);
  EXPECT_EQ(compiled.err, "error: " + reasons[0] + "\nerror: " + reasons[1] + "\n");
}

// A rotary embedding whose body is lost is told by the config.json beside the IR, and noted.
TEST_F(CliTest, RotaryBodies) {
  write("ir.json", read_file(NPUSIM_SOURCE_DIR "/tests/fuzz/seeds/ir/rotary.json"));
  const Invocation bare = npusim({"compile", "ir.json"});
  EXPECT_EQ(bare.code, 4);
  EXPECT_EQ(
      bare.err,
      "error: ir.json: node 'w' (wrap_with_set_grad_enabled): is a rotary embedding whose body the file has lost, "
      "which may scale cos and sin (YaRN does): export the model under torch.no_grad(), which keeps the body, or "
      "put the model's config.json beside the IR\n");
  for (const std::string config :
       {R"({"rope_theta": 1e6})", R"({"rope_scaling": null})", R"({"rope_parameters": {"rope_type": "default"}})",
        R"({"rope_scaling": {"type": "linear", "factor": 2.0}})", R"({"rope_scaling": {"rope_type": "llama3"}})"}) {
    write("config.json", config);
    const std::string note =
        "note: node 'w' (wrap_with_set_grad_enabled) is taken for a rotary embedding, cos and sin unscaled: its body "
        "is "
        "lost, and config.json says type ";
    for (const char* verb : {"compile", "verify"}) {
      const Invocation done = npusim({verb, "ir.json"});
      EXPECT_EQ(done.code, 0) << done.err;
      EXPECT_NE(done.err.find(note), std::string::npos) << done.err;
    }
  }
  for (const std::string config :
       {R"({"rope_scaling": {"type": "yarn", "factor": 4.0}})", R"({"rope_parameters": {"rope_type": "yarn"}})",
        R"({"text_config": {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}})"}) {
    write("config.json", config);
    for (const char* verb : {"compile", "verify"}) {
      const Invocation refused = npusim({verb, "ir.json"});
      EXPECT_EQ(refused.code, 4);
      EXPECT_EQ(refused.err,
                "error: ir.json: node 'w' (wrap_with_set_grad_enabled): is a rotary embedding whose body the file has "
                "lost, of type \"yarn\" by config.json, which may scale cos and sin: export the model under "
                "torch.no_grad(), which keeps the body\n");
    }
  }
}

TEST_F(CliTest, OpsAndDevices) {
  const Json ops = Json::parse(npusim({"ops", "--json"}).out);
  EXPECT_EQ(ops["target"], "cpu");
  const auto relu = std::find_if(ops["ops"].begin(), ops["ops"].end(),
                                 [](const Json& op) { return op["name"] == "aten.relu.default"; });
  ASSERT_NE(relu, ops["ops"].end());
  EXPECT_EQ(*relu, Json({{"name", "aten.relu.default"},
                         {"family", "formula"},
                         {"schema", "relu(Tensor self) -> Tensor"},
                         {"in_place", {"aten.relu_.default"}}}));
  EXPECT_NE(npusim({"ops"}).out.find("aten.relu.default"), std::string::npos);
  EXPECT_EQ(npusim({"ops", "--markdown", "--json"}).code, 2);
}

// NPUSIM_WRITE_DOCS=1 writes it anew.
TEST_F(CliTest, ThePageOfOperatorsIsUpToDate) {
  const std::string page = NPUSIM_SOURCE_DIR "/docs/operators.md", text = npusim({"ops", "--markdown"}).out;
  if (std::getenv("NPUSIM_WRITE_DOCS")) write_file(page, text);
  EXPECT_EQ(read_file(page), text);
  const Json devices = Json::parse(npusim({"devices", "--json"}).out);
  EXPECT_EQ(devices[0]["name"], "cpu");
  EXPECT_EQ(devices[0]["usable"], true);
}

#if defined(__x86_64__)
// NPUSIM_ISA takes away, and gives nothing the machine has not.
TEST_F(CliTest, InstructionSetInUse) {
  auto used = [&](const std::string& value) {
    environment_ = "NPUSIM_ISA=" + value;
    const std::string device = Json::parse(npusim({"devices", "--json"}).out)[0]["description"];
    return device.substr(device.rfind(", ") + 2);
  };
  const std::string machine = used("");
  EXPECT_EQ(used("sse4"), "SSE4");
  EXPECT_EQ(used("avx2"), machine == "SSE4" ? "SSE4" : "AVX2");
  EXPECT_EQ(used("avx512"), machine == "SSE4" || machine == "AVX2" ? machine : "AVX-512");
  EXPECT_EQ(used("amx"), machine);
}
#endif

TEST_F(CliTest, DumpGoesToTheReport) {
  write_model();
  const Invocation plain = npusim({"compile", "model.json", "--dump", "lower"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  const Invocation json = npusim({"compile", "model.json", "--dump", "lower", "--json"});
  EXPECT_EQ(json.code, 0);
  EXPECT_FALSE(json.err.empty());
  EXPECT_TRUE(plain.out.starts_with(json.err));
  EXPECT_TRUE(Json::accept(json.out));
}

}  // namespace
}  // namespace npusim
