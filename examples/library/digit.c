/* digit.cpp in C.
 *   digit_c examples/models/digits/ir.json examples/models/digits/model.safetensors DIGITS.npubin */
#include <stdio.h>

#include "npusim/npusim.h"

static const char* const picture[8] = {"    #   ", "   ##   ", "  ##    ", "  #  #  ",
                                       " ## ##  ", " #####  ", "    #   ", "    #   "};

static float image[32 * 32], scores[10];
static const int64_t image_shape[4] = {1, 1, 32, 32}, scores_shape[2] = {1, 10};

static npusim_status classify(const char* ir, const char* model, const char* out, npusim_error** error) {
  npusim_compile_options options = {0};
  npusim_method_source method = {"main", NULL, NULL};
  npusim_session_options with = {0};
  npusim_view in = {NPUSIM_FLOAT32, 4, image_shape, image};
  npusim_span result = {NPUSIM_FLOAT32, 2, scores_shape, scores};
  npusim_program *compiled = NULL, *program = NULL;
  npusim_tensors* weights = NULL;
  npusim_session* session = NULL;
  npusim_status status;
  options.size = sizeof options;
  options.dtype = "float32";
  method.path = ir;
  if (!(status = npusim_compile(&method, 1, &options, &compiled, error)) &&
      !(status = npusim_save_program(compiled, out, error)) && !(status = npusim_load_program(out, &program, error)) &&
      !(status = npusim_open_tensors(model, &weights, error))) {
    with.size = sizeof with;
    with.weights = weights;
    if (!(status = npusim_open_session(program, &with, &session, error)) &&
        !(status = npusim_bind_input(session, "main", "x", &in, error)) &&
        !(status = npusim_bind_output(session, "main", "linear", &result, error)))
      status = npusim_run(session, "main", 1, error);
  }
  npusim_session_free(session);
  npusim_tensors_free(weights);
  npusim_program_free(program);
  npusim_program_free(compiled);
  return status;
}

int main(int argc, char** argv) {
  npusim_error* error = NULL;
  int i, best = 0;
  if (argc != 4) return fprintf(stderr, "usage: digit_c IR.json MODEL.safetensors OUT.npubin\n"), 2;
  if (npusim_abi_version() != NPUSIM_ABI_VERSION) return fprintf(stderr, "another npusim is installed\n"), 1;
  for (i = 0; i < 32 * 32; ++i) image[i] = picture[i / 32 / 4][i % 32 / 4] == '#' ? 1.0f : -1.0f;
  if (classify(argv[1], argv[2], argv[3], &error)) {
    fprintf(stderr, "%s\n", npusim_error_text(error));
    npusim_error_free(error);
    return 1;
  }
  for (i = 1; i < 10; ++i)
    if (scores[i] > scores[best]) best = i;
  printf("%d\n", best);
  return 0;
}
