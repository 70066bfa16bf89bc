// An NVRTC that compiles nothing: machine code and PTX are the text. It dies of a text, or computes without end, that
// mentions what the environment's FAKE_NVRTC_DIES_OF or FAKE_NVRTC_HANGS_OF says; with FAKE_NVRTC_LESS_HELPS only as
// long as it may do all that it can.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Text {
  std::string text;
};

// As NVRTC does, whatever a sanitizer has in the signal's place.
void die() {
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}

bool mentions(const Text& t, const char* variable) {
  const char* word = std::getenv(variable);
  return word && *word && t.text.find(word) != std::string::npos;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 99, *minor = 7;
  return 0;
}
const char* nvrtcGetErrorString(int) { return "an error"; }
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return 0;
}
int nvrtcGetSupportedArchs(int* numbers) {
  numbers[0] = 75, numbers[1] = 80, numbers[2] = 90;
  return 0;
}
int nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*, const char* const*) {
  *program = new Text{text};
  return 0;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  const Text& t = *static_cast<Text*>(program);
  bool less = false;
  for (int i = 0; i < count; ++i) less = less || std::strncmp(options[i], "--Ofast-compile", 15) == 0;
  if (less && std::getenv("FAKE_NVRTC_LESS_HELPS")) return 0;
  if (mentions(t, "FAKE_NVRTC_DIES_OF")) die();
  if (mentions(t, "FAKE_NVRTC_HANGS_OF"))
    for (std::atomic<unsigned> n = 0;;) ++n;
  return 0;
}
int nvrtcGetProgramLogSize(void*, size_t* size) {
  *size = 0;
  return 0;
}
int nvrtcGetProgramLog(void*, char*) { return 0; }
int nvrtcGetCUBINSize(void* program, size_t* size) {
  *size = static_cast<Text*>(program)->text.size();
  return 0;
}
int nvrtcGetCUBIN(void* program, char* to) {
  const Text& t = *static_cast<Text*>(program);
  std::memcpy(to, t.text.data(), t.text.size());
  return 0;
}
int nvrtcGetPTXSize(void* program, size_t* size) { return nvrtcGetCUBINSize(program, size); }
int nvrtcGetPTX(void* program, char* to) { return nvrtcGetCUBIN(program, to); }
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Text*>(*program);
  *program = nullptr;
  return 0;
}

}  // extern "C"
