// Which digit is this? Compiles a model, saves and loads the program, and runs it on buffers of its own.
//   digit_cpp examples/models/digits/ir.json examples/models/digits/model.safetensors DIGITS.npubin
#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "npusim/compiler.h"
#include "npusim/session.h"

constexpr const char* picture[8] = {"    #   ",  //
                                    "   ##   ",  //
                                    "  ##    ",  //
                                    "  #  #  ",  //
                                    " ## ##  ",  //
                                    " #####  ",  //
                                    "    #   ",  //
                                    "    #   "};

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: digit_cpp IR.json MODEL.safetensors OUT.npubin\n"), 2;
  try {
    npusim::CompileOptions options;
    options.dtype = "float32";
    npusim::save_program(*npusim::compile({{.path = argv[1]}}, options).program, argv[3]);

    npusim::Session session(npusim::load_program(argv[3]), {.weights = npusim::open_tensors(argv[2])});
    std::vector<float> image(32 * 32);
    std::array<float, 10> scores;
    session.bind_input("main", "x", npusim::view_of(image, {1, 1, 32, 32}));
    session.bind_output("main", "linear", npusim::span_of(scores, {1, 10}));
    for (size_t i = 0; i < image.size(); ++i) image[i] = picture[i / 32 / 4][i % 32 / 4] == '#' ? 1.0f : -1.0f;
    session.run("main");
    std::printf("%d\n", static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin()));
    return 0;
  } catch (const npusim::Error& error) {
    for (const npusim::Problem& problem : error.problems())
      std::fprintf(stderr, "%s: %s\n", problem.where.c_str(), problem.reason.c_str());
    return 1;
  }
}
