// docs/library.md shows the examples as they are.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace npusim::test {
namespace {

std::string read_text(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Wall, TheDocumentShowsTheExamples) {
  const std::string root = NPUSIM_SOURCE_DIR, document = read_text(root + "/docs/library.md");
  for (const char* name : {"digit.cpp", "digit.c"}) {
    const std::string example = read_text(root + "/examples/library/" + name);
    ASSERT_FALSE(example.empty());
    EXPECT_NE(document.find(example), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace npusim::test
