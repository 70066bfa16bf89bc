// NVRTC in a process of its own: an NVRTC of the tests dies of kernels, or computes without end, and npusim goes on.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "cli/invoke.h"

namespace npusim {
namespace {

namespace fs = std::filesystem;

class CudaWorker : public CliTest {
 protected:
  void SetUp() override {
    setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
    setenv("NPUSIM_NVRTC", NPUSIM_FAKE_NVRTC, 1);
    for (const char* name : {"NPUSIM_NVRTC_HELPER", "NPUSIM_NVRTC_SECONDS", "NPUSIM_NVRTC_TEXTS", "FAKE_NVRTC_DIES_OF",
                             "FAKE_NVRTC_HANGS_OF", "FAKE_NVRTC_LESS_HELPS"})
      unsetenv(name);
  }
  Invocation compile(const std::string& target = "cuda:sm_80", const std::string& out = "out.npubin") {
    return npusim({"compile", digits("ir.json"), "--target", target, "-o", path(out)});
  }
  size_t entries() const {
    size_t count = 0;
    if (fs::exists(path("cache/npusim/cuda")))
      for (const auto& entry : fs::directory_iterator(path("cache/npusim/cuda"))) count += entry.is_regular_file();
    return count;
  }
};

// One kernel is compiled with less effort, and named; the others, of the same text too, are as they would be without
// it.
TEST_F(CudaWorker, AKernelThatNvrtcDiesOfIsCompiledWithLess) {
  const Invocation whole = compile("cuda:sm_80", "whole.npubin");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(whole.err.find("npusim-nvrtc"), std::string::npos) << whole.err;
  const size_t texts = entries();
  fs::remove_all(path("cache"));
  setenv("FAKE_NVRTC_DIES_OF", "max_pool2d", 1);
  setenv("FAKE_NVRTC_LESS_HELPS", "1", 1);
  const Invocation found = compile();
  ASSERT_EQ(found.code, 0) << found.err;
  EXPECT_NE(found.err.find("kernel '"), std::string::npos) << found.err;
  EXPECT_NE(found.err.find("NVRTC 99.7 for sm_80: it died: Segmentation fault; compiled with less effort"),
            std::string::npos)
      << found.err;
  const Invocation steps = npusim({"describe", path("out.npubin"), "--steps"});
  EXPECT_EQ(steps.code, 0) << steps.err;
  EXPECT_NE(steps.out.find("compiled with less effort"), std::string::npos) << steps.out;
  // Nothing is kept of what it died of: what is there is texts that were compiled.
  EXPECT_GE(entries(), texts);
  const std::string first = read_file(path("out.npubin"));
  const Invocation again = compile();
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(first == read_file(path("out.npubin")));
}

TEST_F(CudaWorker, AKernelThatNvrtcDiesOfAnyhowIsRefusedByName) {
  setenv("FAKE_NVRTC_DIES_OF", "max_pool2d", 1);
  const Invocation refused = compile();
  EXPECT_EQ(refused.code, 4) << refused.err;
  EXPECT_NE(refused.err.find("error: target cuda: kernel '"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("max_pool2d"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("NPUSIM_NVRTC_TEXTS=FOLDER keeps its text"), std::string::npos) << refused.err;
  EXPECT_FALSE(fs::exists(path("out.npubin")));
  EXPECT_GT(entries(), 0U) << "the others went on";
  fs::create_directories(path("texts"));
  setenv("NPUSIM_NVRTC_TEXTS", path("texts").c_str(), 1);
  const Invocation kept = compile();
  EXPECT_EQ(kept.code, 4);
  EXPECT_NE(kept.err.find("its text is in "), std::string::npos) << kept.err;
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(path("texts"))) {
    ++files;
    EXPECT_NE(read_file(entry.path().string()).find("__global__"), std::string::npos);
  }
  EXPECT_GE(files, 1U);
}

TEST_F(CudaWorker, AKernelThatTakesTooLongIsNamed) {
  setenv("FAKE_NVRTC_HANGS_OF", "max_pool2d", 1);
  setenv("NPUSIM_NVRTC_SECONDS", "1", 1);
  const Invocation refused = compile();
  EXPECT_EQ(refused.code, 4) << refused.err;
  EXPECT_NE(refused.err.find("it took more than 1 seconds (NPUSIM_NVRTC_SECONDS)"), std::string::npos) << refused.err;
  setenv("NPUSIM_NVRTC_SECONDS", "soon", 1);
  EXPECT_EQ(compile().code, 2);
}

TEST_F(CudaWorker, WithoutTheHelperItSaysSo) {
  const Invocation beside = compile();
  ASSERT_EQ(beside.code, 0) << beside.err;
  const std::string program = read_file(path("out.npubin"));
  fs::remove_all(path("cache"));
  setenv("NPUSIM_NVRTC_HELPER", "none", 1);
  const Invocation alone = compile();
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_NE(alone.err.find("NVRTC is called in this process"), std::string::npos) << alone.err;
  EXPECT_TRUE(program == read_file(path("out.npubin")));
  fs::remove_all(path("cache"));
  setenv("NPUSIM_NVRTC_HELPER", "/bin/false", 1);
  EXPECT_NE(compile().code, 0);
  setenv("NPUSIM_NVRTC_HELPER", path("nothing").c_str(), 1);
  const Invocation missing = compile();
  EXPECT_EQ(missing.code, 5) << missing.err;
  EXPECT_NE(missing.err.find("NPUSIM_NVRTC_HELPER may name it, or say none"), std::string::npos) << missing.err;
}

TEST_F(CudaWorker, ArchitecturesAreRefusedByName) {
  const auto refused = [&](const std::string& list) {
    const Invocation found = compile("cuda:" + list);
    return std::to_string(found.code) + " " + found.err;
  };
  for (const char* old : {"sm_75", "sm_70", "sm_80,sm_75", "sm_75,sm_75"}) {
    const std::string found = refused(old);
    EXPECT_EQ(found.substr(0, 2), "4 ") << found;
    EXPECT_NE(found.find("at least sm_80"), std::string::npos) << found;
  }
  for (const char* unknown : {"sm_999", "sm_80,sm_999"}) {
    const std::string found = refused(unknown);
    EXPECT_EQ(found.substr(0, 2), "4 ") << found;
    EXPECT_NE(found.find("does not compile for sm_999; it knows sm_75, sm_80, sm_90"), std::string::npos) << found;
  }
  for (const char* none : {"foo", "sm_80,foo", "sm_", "sm_9", "80", "sm_80,"}) {
    const std::string found = refused(none);
    EXPECT_EQ(found.substr(0, 2), "2 ") << found;
    EXPECT_NE(found.find("expected architectures such as sm_80,sm_90a, found '"), std::string::npos) << found;
  }
  // What is listed twice is compiled for once.
  const Invocation once = compile("cuda:sm_90,sm_80", "once.npubin"), twice = compile("cuda:sm_80,sm_90,sm_80");
  ASSERT_EQ(once.code + twice.code, 0) << once.err << twice.err;
  EXPECT_TRUE(read_file(path("once.npubin")) == read_file(path("out.npubin")));
}

}  // namespace
}  // namespace npusim
