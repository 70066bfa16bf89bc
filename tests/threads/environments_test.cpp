// The command line gives the same bits in every environment that a machine, a container or a user may have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "cli/invoke.h"
#include "npusim/cancel.h"
#include "npusim/program.h"
#include "runtime/safetensors.h"

namespace npusim {
namespace {

struct Environment {
  const char* variables;      // of OpenMP's
  const char* prefix = "";    // what the command is started by, in a shell
  const char* threads = "2";  // --threads
};

// The first few are run always, all with NPUSIM_ENVIRONMENTS=all.
const Environment environments[] = {
    {"OMP_THREAD_LIMIT=1"},
    {"OMP_DYNAMIC=true"},
    {"OMP_MAX_ACTIVE_LEVELS=0"},
    {"", "taskset -c 0"},
    {"OMP_NUM_THREADS=1"},
    {"OMP_THREAD_LIMIT=2"},
    {"OMP_THREAD_LIMIT=1 OMP_DYNAMIC=true OMP_PROC_BIND=spread"},
    {"OMP_NUM_THREADS=4,2"},
    {"OMP_NUM_THREADS=64"},
    {"OMP_NUM_THREADS=100000"},
    {"OMP_NUM_THREADS=0"},
    {"OMP_NUM_THREADS=many"},
    {"OMP_MAX_ACTIVE_LEVELS=1"},
    {"OMP_MAX_ACTIVE_LEVELS=4"},
    {"OMP_NESTED=true"},
    {"OMP_PROC_BIND=false"},
    {"OMP_PROC_BIND=true"},
    {"OMP_PROC_BIND=master"},
    {"OMP_PROC_BIND=spread OMP_PLACES=threads"},
    {"OMP_PROC_BIND=close OMP_PLACES=sockets"},
    {"OMP_PROC_BIND=close OMP_PLACES='{0}'"},
    {"OMP_PLACES=nonsense"},
    {"OMP_PLACES=''"},
    {"OMP_WAIT_POLICY=active"},
    {"OMP_WAIT_POLICY=passive"},
    {"GOMP_SPINCOUNT=0"},
    {"GOMP_SPINCOUNT=infinite"},
    {"GOMP_CPU_AFFINITY=0"},
    {"GOMP_CPU_AFFINITY='0 1'"},
    {"OMP_STACKSIZE=64K"},
    {"OMP_STACKSIZE=1G"},
    {"OMP_NUM_THREADS=1000000"},
    {"", "", "4096"},
    {"OMP_SCHEDULE=dynamic,1"},
    {"OMP_CANCELLATION=true"},
    {"OMP_DISPLAY_ENV=true"},
    {"NPUSIM_NO_BIND=1"},
    {"NPUSIM_NO_BIND=1 OMP_DYNAMIC=true"},
    {"NPUSIM_NO_BIND=1 OMP_THREAD_LIMIT=1"},
    {"", "ulimit -s 256;"},
    {"", "ulimit -s unlimited;"},
    {"", "ulimit -v 4000000;"},
    {"", "ulimit -u 4096;"},
    {"", "nice -n 19"},
    {"", "env -i"},
    {"", "nohup"},
};

class Environments : public CliTest {
 protected:
  // The bits that a command leaves in out.safetensors.
  std::string run(const std::string& command, const Environment& e) const {
    const std::string prefix = e.prefix;
    const bool limits = prefix.ends_with(";");
    const std::string line = "cd '" + path("") + "' && rm -f out.safetensors; " + (limits ? prefix : "") + e.variables +
                             (*e.variables ? " " : "") + (limits ? "" : prefix + " ") +
                             "timeout 120 '" NPUSIM_BINARY "' run " + command + " --threads " + e.threads +
                             " -o out.safetensors > .out 2> .err < /dev/null";
    const int code = std::system(("bash -c \"" + line + "\"").c_str());
    EXPECT_EQ(code, 0) << line << "\n" << read_file(path(".err"));
    return code == 0 ? read_file(path("out.safetensors")) : "";
  }

  // Inputs for a method, made of small numbers.
  void write_inputs(const std::string& program, const std::string& method) const {
    const auto loaded = load_program(path(program));
    std::vector<HostTensor> tensors;
    std::vector<NamedTensor> named;
    const std::vector<TensorInfo> infos = method_inputs(*loaded, method);
    for (const TensorInfo& info : infos) {
      tensors.push_back(make_tensor(info.type));
      for (int64_t i = 0; i < element_count(info.type.shape); ++i) {
        if (is_float(info.type.dtype))
          store_double(tensors.back().data.data(), info.type.dtype, i,
                       info.state ? 0 : 0.01 * static_cast<double>(i % 97));
        else
          store_int(tensors.back().data.data(), info.type.dtype, i, i % 2);
      }
    }
    for (size_t i = 0; i < infos.size(); ++i) named.push_back({infos[i].name, view_of(tensors[i])});
    write_safetensors(path(method + ".safetensors"), named);
  }
};

TEST_F(Environments, GiveTheSameBits) {
  const char* asked = std::getenv("NPUSIM_ENVIRONMENTS");
  const size_t count = asked && std::string(asked) == "all" ? std::size(environments) : 5;
  ASSERT_EQ(npusim({"compile", digits("ir.json"), "-o", "digits.npubin"}).code, 0);
  ASSERT_EQ(npusim({"compile", "--method", "prefill=" + tinyqwen("prefill_ir.json"), "--method",
                    "decode=" + tinyqwen("decode_ir.json"), "--kv-map", tinyqwen("kv_mapping.json"), "-o", "lm.npubin"})
                .code,
            0);
  write_inputs("digits.npubin", "main");
  for (const char* method : {"prefill", "decode"}) write_inputs("lm.npubin", method);
  const std::string with_qwen = " --weights '" + tinyqwen("model.safetensors") + "'";
  const std::string commands[] = {
      "digits.npubin --inputs main.safetensors --weights '" + digits("model.safetensors") + "'",
      "lm.npubin --method prefill --inputs prefill.safetensors" + with_qwen,
      "lm.npubin --method decode --inputs decode.safetensors" + with_qwen};
  for (const std::string& command : commands) {
    const std::string expected = run(command, {""});
    for (size_t n = 0; n < count; ++n) {
      const Environment& e = environments[n];
      EXPECT_TRUE(run(command, e) == expected) << e.variables << " " << e.prefix << ": " << command;
    }
    if (count > 5)
      for (int threads = 1; threads <= 64; threads += threads < 8 ? 1 : 7) {
        const std::string number = std::to_string(threads);
        EXPECT_TRUE(run(command, {"", "", number.c_str()}) == expected) << number << " threads: " << command;
      }
  }
}

// OpenMP would end the process where it gets no thread.
TEST_F(Environments, StacksThatTheMachineDoesNotGiveAreAnError) {
  ASSERT_EQ(npusim({"compile", digits("ir.json"), "-o", "digits.npubin"}).code, 0);
  write_inputs("digits.npubin", "main");
  const std::string line = "cd '" + path("") +
                           "' && OMP_STACKSIZE=100000G '" NPUSIM_BINARY
                           "' run digits.npubin --inputs main.safetensors --threads 2 --weights '" +
                           digits("model.safetensors") + "' 2> .err < /dev/null";
  const int status = std::system(("bash -c \"" + line + "\"").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 5) << read_file(path(".err"));
  EXPECT_THAT(read_file(path(".err")), testing::HasSubstr("the machine gives 1 of 2 threads"));
}

// Ctrl-C, and its kin: at once, with nothing left behind.
TEST_F(Environments, SignalsEndTheCommand) {
  ASSERT_EQ(npusim({"compile", digits("ir.json"), "-o", "digits.npubin"}).code, 0);
  const auto interrupted = [&](const std::string& verb, const char* signal) {
    const std::string line = "cd '" + path("") +
                             "' && env --default-signal=INT,TERM,HUP timeout --preserve-status -s " + signal +
                             " 0.4 '" NPUSIM_BINARY + "' " + verb + " > .out 2> .err < /dev/null";
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const std::string bench = "bench digits.npubin --seconds 100 --weights '" + digits("model.safetensors") + "'";
  EXPECT_EQ(interrupted(bench, "INT"), 130);
  EXPECT_EQ(interrupted(bench, "TERM"), 143);
  EXPECT_EQ(interrupted(bench, "HUP"), 129);
  EXPECT_EQ(files(), std::vector<std::string>{"digits.npubin"});
}

// A writer that is ended in the middle: nothing of the file is there but what was before.
TEST_F(Environments, SignalsLeaveNoHalfFile) {
  const std::string large(64 << 20, 'x');
  const pid_t child = fork();
  if (child == 0) {
    end_on_signals();
    while (true) write_file(path("large"), large);
  }
  for (int i = 0; i < 10000 && std::filesystem::is_empty(folder_); ++i) usleep(1000);
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) EXPECT_EQ(entry.path().filename(), "large");
}

}  // namespace
}  // namespace npusim
