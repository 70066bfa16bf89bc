// Progress: on a terminal, of work that takes more than two seconds, and nowhere else.
#include <fcntl.h>

#include <array>

#include "cli/invoke.h"

namespace npusim {
namespace {

const std::vector<std::string> bench = {"bench",    "model.npubin",  "--weights", "w.safetensors",
                                        "--inputs", "x.safetensors", "--seconds", "2.5"};

TEST_F(CliTest, ProgressOnATerminal) {
  make_program();
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  if (terminal < 0) GTEST_SKIP() << "this system gives no pseudo-terminal";
  ASSERT_EQ(grantpt(terminal), 0);
  ASSERT_EQ(unlockpt(terminal), 0);
  const std::string name = ptsname(terminal);
  const int kept = open(name.c_str(), O_RDWR | O_NOCTTY);  // what was said stays there
  ASSERT_EQ(npusim(bench, "/dev/null", name).code, 0);
  std::array<char, 4096> text;
  const ssize_t count = read(terminal, text.data(), text.size());
  close(kept), close(terminal);
  ASSERT_GT(count, 0);
  EXPECT_EQ(std::string(text.data(), static_cast<size_t>(count)), "\r\033[Kmeasure runs…\r\033[K");
}

TEST_F(CliTest, NoProgressInAFile) {
  make_program();
  const Invocation done = npusim(bench);
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.err, "");
}

}  // namespace
}  // namespace npusim
