// Classifies the digits test images with a compiled program: how many labels are right, and whether every answer is
// PyTorch's. An example of the public interface: a program, its weights, a device, run().
//   classify DIGITS.npubin MODEL.safetensors TEST.safetensors
#include <fmt/core.h>

#include <chrono>

#include "npusim/runtime.h"

namespace {

using namespace npusim;

int64_t largest(const std::byte* data, DType dtype, int64_t begin, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i)
    if (load_double(data, dtype, begin + i) > load_double(data, dtype, begin + best)) best = i;
  return best;
}

int classify(const std::string& program_path, const std::string& weights_path, const std::string& test_path) {
  const std::shared_ptr<const Program> program = load_program(program_path);
  const WeightFiles test = open_weights(test_path);
  SessionOptions options;
  options.weights = std::make_shared<const WeightFiles>(open_weights(weights_path));
  options.threads = 1;  // an image is little work
  Session session(program, std::move(options));
  const TensorType input = method_inputs(*program, "main").at(0).type;    // [1, 1, 32, 32]
  const TensorType output = method_outputs(*program, "main").at(0).type;  // [1, 10]
  const TensorView& images = get_weight(test, "images");
  const TensorView& labels = get_weight(test, "labels");
  const TensorView& logits = get_weight(test, "logits");  // PyTorch's, in float32

  const int64_t count = images.type.shape.at(0), pixels = element_count(input.shape), classes = output.shape.at(1);
  int64_t right = 0, same = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int64_t image = 0; image < count; ++image) {
    const std::span<std::byte> in = session.input(0, 0);
    for (int64_t i = 0; i < pixels; ++i)
      store_double(in.data(), input.dtype, i, load_double(images.data, images.type.dtype, image * pixels + i));
    session.run(0);
    const int64_t digit = largest(session.output(0, 0).data(), output.dtype, 0, classes);
    right += digit == load_int(labels.data, labels.type.dtype, image);
    same += digit == largest(logits.data, logits.type.dtype, image * classes, classes);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} of {} images right ({:.2f} %), {} answers equal to PyTorch's, {:.0f} images/s\n", right, count,
             100.0 * static_cast<double>(right) / static_cast<double>(count), same,
             static_cast<double>(count) / seconds);
  return right * 100 >= count * 99 && same == count ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: classify DIGITS.npubin MODEL.safetensors TEST.safetensors\n");
    return 2;
  }
  try {
    return classify(argv[1], argv[2], argv[3]);
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return exit_code(error.kind());
  }
}
