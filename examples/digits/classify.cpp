// Classifies the digits test images with a compiled program: how many labels are right, and whether every answer is
// PyTorch's. It only runs programs, and links the library that cannot compile.
//   classify DIGITS.npubin MODEL.safetensors TEST.safetensors
#include <chrono>
#include <cinttypes>
#include <cstdio>

#include "npusim/session.h"

namespace {

using namespace npusim;

int64_t largest(const TensorView& tensor, int64_t begin, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i)
    if (load_double(tensor.data, tensor.type.dtype, begin + i) >
        load_double(tensor.data, tensor.type.dtype, begin + best))
      best = i;
  return best;
}

int classify(const char* program_path, const char* weights_path, const char* test_path) {
  const std::shared_ptr<const Program> program = load_program(program_path);
  const std::shared_ptr<const TensorSet> test = open_tensors(test_path);
  // An image is little work: one thread.
  Session session(program, {.weights = open_tensors(weights_path), .threads = 1});
  HostTensor image = make_tensor(method_inputs(*program, "main").at(0).type);  // [1, 1, 32, 32]
  session.bind_input("main", 0, view_of(image));
  const TensorView& images = get_tensor(*test, "images");
  const TensorView& labels = get_tensor(*test, "labels");
  const TensorView& logits = get_tensor(*test, "logits");  // PyTorch's, in float32

  const int64_t count = images.type.shape.at(0), pixels = element_count(image.type.shape);
  const int64_t classes = logits.type.shape.at(1);
  int64_t right = 0, same = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t i = 0; i < pixels; ++i)
      store_double(image.data.data(), image.type.dtype, i, load_double(images.data, images.type.dtype, n * pixels + i));
    session.run("main");
    const int64_t digit = largest(session.output_view("main", 0), 0, classes);
    right += digit == load_int(labels.data, labels.type.dtype, n);
    same += digit == largest(logits, n * classes, classes);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%" PRId64 " of %" PRId64 " images right (%.2f %%), %" PRId64
              " answers equal to PyTorch's, %.0f images/s\n",
              right, count, 100.0 * static_cast<double>(right) / static_cast<double>(count), same,
              static_cast<double>(count) / seconds);
  return right * 100 >= count * 99 && same == count ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: classify DIGITS.npubin MODEL.safetensors TEST.safetensors\n"), 2;
  try {
    return classify(argv[1], argv[2], argv[3]);
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
