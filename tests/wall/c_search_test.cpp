// Every function of the C interface with every argument that nobody should give: a status that npusim.h says, a message
// that is UTF-8, and results that are NULL.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "npusim/message.h"
#include "npusim/npusim.h"
#include "wall/models.h"

namespace npusim::test {
namespace {

const int64_t two_three[2] = {2, 3}, three[1] = {3};
const float numbers[6] = {1, 2, 3, 4, 5, 6};
float written[6];

// What is given for an argument of a type, beside what is right: a name for messages, and the value.
template <typename T>
std::vector<T> wrong_values() {
  if constexpr (std::is_pointer_v<T>) return {nullptr};
  return {};
}
template <>
std::vector<const char*> wrong_values() {
  static const std::string longest(100000, 'x');
  return {nullptr, "", "\xff\xfe", "no such", "a\x1b[31m\n", "-x", "../..", "/dev", longest.c_str()};
}
template <>
std::vector<int> wrong_values() {
  return {-1, std::numeric_limits<int>::min()};
}

// Tensors that are no float32[2, 3].
template <typename Tensor>
std::vector<Tensor> wrong_tensors() {
  static const int64_t negative[2] = {-2, -3}, huge[2] = {INT64_MAX, INT64_MAX}, small[2] = {INT64_MIN, 1},
                       none[1] = {0};
  const auto make = [](npusim_dtype dtype, size_t rank, const int64_t* shape, bool data = true) {
    return Tensor{dtype, rank, shape, data ? written : nullptr};
  };
  std::vector<Tensor> list = {make(NPUSIM_FLOAT32, 2, nullptr),
                              make(NPUSIM_FLOAT32, 2, two_three, false),
                              make(NPUSIM_FLOAT32, SIZE_MAX, two_three),
                              make(NPUSIM_FLOAT32, 65, two_three),
                              make(NPUSIM_FLOAT32, 2, negative),
                              make(NPUSIM_FLOAT32, 2, huge),
                              make(NPUSIM_FLOAT32, 2, small),
                              make(NPUSIM_FLOAT32, 1, none),
                              make(NPUSIM_FLOAT32, 0, nullptr),
                              make(NPUSIM_FLOAT64, 2, two_three),
                              make(NPUSIM_BOOL, 2, two_three)};
  for (const int number : {-1, 10, 15, 16, 1000, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()})
    // In memory only: C++ has no enumerator for these, and a value of the type must be one.
    list.push_back(make(NPUSIM_FLOAT32, 2, two_three)), std::memcpy(&list.back().dtype, &number, sizeof number);
  return list;
}

struct CSearch : testing::Test {
  void SetUp() override {
    const npusim_method_source method{"main", nullptr, add_ir.c_str()};
    npusim_compile_options options{};
    options.size = sizeof options;
    options.dtype = "float32";
    ASSERT_EQ(npusim_compile(&method, 1, &options, &program, nullptr), NPUSIM_OK);
    const char* const name = "w";
    const npusim_view view{NPUSIM_FLOAT32, 1, three, numbers};
    ASSERT_EQ(npusim_make_tensors(&name, &view, 1, &weights, nullptr), NPUSIM_OK);
    npusim_session_options with{};
    with.size = sizeof with;
    with.weights = weights;
    ASSERT_EQ(npusim_open_session(program, &with, &session, nullptr), NPUSIM_OK);
  }
  void TearDown() override {
    npusim_session_free(session);
    npusim_program_free(program);
    npusim_tensors_free(weights);
  }

  // A call is refused, and what it says.
  std::string refused(const std::string& what, const std::function<npusim_status(npusim_error**)>& call) {
    npusim_error* error = nullptr;
    const npusim_status status = call(&error);
    EXPECT_TRUE(status == NPUSIM_USAGE || status == NPUSIM_BAD_INPUT || status == NPUSIM_UNSUPPORTED)
        << what << ": " << status;
    EXPECT_EQ(npusim_error_status(error), status) << what;
    const std::string text = npusim_error_text(error);
    EXPECT_NE(text, "") << what;
    EXPECT_EQ(valid_utf8(text), text) << what;
    EXPECT_GE(npusim_error_count(error), 1u) << what;
    for (size_t i = 0; i < npusim_error_count(error); ++i)
      for (const std::string part : {npusim_error_where(error, i), npusim_error_reason(error, i)})
        EXPECT_EQ(printable(part), part) << what;
    npusim_error_free(error);
    EXPECT_EQ(call(nullptr), status) << what;  // nobody asks for the text
    return text;
  }

  // A function that fails with an error object: each argument in turn gets each wrong value.
  template <typename... Args>
  void search(const std::string& name, npusim_status (*function)(Args...), auto... right) {
    tested.insert(name);
    search_from<0>(name, function, std::tuple<Args...>(right..., nullptr));
  }
  template <size_t N, typename... Args>
  void search_from(const std::string& name, npusim_status (*function)(Args...), const std::tuple<Args...>& right) {
    constexpr size_t last = sizeof...(Args) - 1;  // where the error goes
    if constexpr (N < last) {
      for (const auto value : wrong_values<std::tuple_element_t<N, std::tuple<Args...>>>()) {
        std::tuple<Args...> given = right;
        std::get<N>(given) = value;
        const std::string what = name + ", argument " + std::to_string(N);
        if (optional.contains(what) && !value) continue;
        refused(what, [&](npusim_error** error) {
          std::get<last>(given) = error;
          return std::apply(function, given);
        });
      }
      search_from<N + 1>(name, function, right);
    }
  }

  // NULL has a meaning there.
  const std::set<std::string> optional = {"npusim_bind_input, argument 3", "npusim_bind_output, argument 3",
                                          "npusim_open_session, argument 1"};
  std::set<std::string> tested;
  npusim_program* program = nullptr;
  npusim_tensors* weights = nullptr;
  npusim_session* session = nullptr;
};

TEST_F(CSearch, EveryArgument) {
  npusim_tensors* tensors = nullptr;
  npusim_program* other = nullptr;
  npusim_session* opened = nullptr;
  npusim_tensor_info info{};
  npusim_view view{NPUSIM_FLOAT32, 2, two_three, numbers};
  npusim_span span{NPUSIM_FLOAT32, 2, two_three, written};
  const npusim_session_options* no_options = nullptr;
  search("npusim_open_tensors", npusim_open_tensors, "no such", &tensors);
  search("npusim_read_tensors", npusim_read_tensors, "no such", &tensors);
  search("npusim_find_tensor", npusim_find_tensor, weights, "w", &view);
  view = {NPUSIM_FLOAT32, 2, two_three, numbers};
  search("npusim_load_program", npusim_load_program, "no such", &other);
  search("npusim_load_program_without_code", npusim_load_program_without_code, "no such", &other);
  refused("save", [&](auto** e) { return npusim_save_program(nullptr, "/dev/null", e); });
  for (const char* path : wrong_values<const char*>())
    if (const std::string folder = path ? path : ""; folder.empty() || folder[0] == '/' || folder.size() > 10)
      refused("save", [&](auto** e) { return npusim_save_program(program, path, e); });
  tested.insert("npusim_save_program");
  search("npusim_input_at", npusim_input_at, program, "main", size_t{0}, &info);
  search("npusim_output_at", npusim_output_at, program, "main", size_t{0}, &info);
  search("npusim_find_input", npusim_find_input, program, "main", "x", &info);
  search("npusim_find_output", npusim_find_output, program, "main", "y", &info);
  search("npusim_open_session", npusim_open_session, program, no_options, &opened);
  search("npusim_open_sibling", npusim_open_sibling, session, &opened);
  search("npusim_set_input", npusim_set_input, session, "main", "x", &view);
  search("npusim_bind_input", npusim_bind_input, session, "main", "x", &view);
  search("npusim_bind_output", npusim_bind_output, session, "main", "y", &span);
  search("npusim_bind_device_input", npusim_bind_device_input, session, "main", "x", "cpu", &view);
  search("npusim_bind_device_output", npusim_bind_device_output, session, "main", "y", "cpu", &span);
  search("npusim_get_output", npusim_get_output, session, "main", "y", &view);
  search("npusim_run", npusim_run, session, "main", 1);
  search("npusim_enqueue", npusim_enqueue, session, "main", 1);
  search("npusim_wait", npusim_wait, session);
  search("npusim_seed", npusim_seed, session, uint64_t{1});
  search("npusim_reset_states", npusim_reset_states, session);
  for (const size_t position : {size_t{1}, SIZE_MAX}) {
    refused("position", [&](auto** e) { return npusim_input_at(program, "main", position, &info, e); });
    refused("position", [&](auto** e) { return npusim_output_at(program, "main", position, &info, e); });
    EXPECT_EQ(npusim_method_name(program, position), nullptr);
  }
  EXPECT_EQ(npusim_method_name(nullptr, 0), nullptr);
  EXPECT_EQ(npusim_method_count(nullptr), 0u);
  for (const char* name : wrong_values<const char*>()) {
    EXPECT_EQ(npusim_input_count(program, name), 0u);
    EXPECT_EQ(npusim_output_count(program, name), 0u);
  }
  EXPECT_EQ(npusim_input_count(nullptr, "main"), 0u);
  EXPECT_EQ(npusim_output_count(nullptr, "main"), 0u);
  EXPECT_EQ(npusim_cancel(nullptr), 0);
  EXPECT_EQ(npusim_error_status(nullptr), NPUSIM_OK);
  EXPECT_STREQ(npusim_error_text(nullptr), "");
  EXPECT_EQ(npusim_error_count(nullptr), 0u);
  EXPECT_STREQ(npusim_error_where(nullptr, SIZE_MAX), "");
  EXPECT_STREQ(npusim_error_reason(nullptr, SIZE_MAX), "");
  npusim_error_free(nullptr);
  npusim_tensors_free(nullptr);
  npusim_program_free(nullptr);
  npusim_session_free(nullptr);
  tested.insert({"npusim_method_name", "npusim_method_count", "npusim_input_count", "npusim_output_count",
                 "npusim_cancel", "npusim_error_status", "npusim_error_text", "npusim_error_count",
                 "npusim_error_where", "npusim_error_reason", "npusim_error_free", "npusim_tensors_free",
                 "npusim_program_free", "npusim_session_free"});
  // Those of the tests below, and two that take nothing.
  tested.insert({"npusim_make_tensors", "npusim_parse_program", "npusim_parse_program_without_code", "npusim_compile",
                 "npusim_use_aten_plugin", "npusim_version", "npusim_abi_version"});
  std::ifstream header(NPUSIM_SOURCE_DIR "/include/npusim/npusim.h");
  const std::string text{std::istreambuf_iterator<char>(header), {}};
  const std::regex function(R"(NPUSIM_API[^;(]*\b(npusim_\w+)\()");
  std::set<std::string> there;
  for (std::sregex_iterator at(text.begin(), text.end(), function), end; at != end; ++at) there.insert((*at)[1]);
  EXPECT_GT(there.size(), 40u);
  EXPECT_EQ(there, tested);  // a function that is added is tested
}

TEST_F(CSearch, EveryTensor) {
  const char* const name = "t";
  npusim_tensors* tensors = nullptr;
  for (const npusim_view& view : wrong_tensors<npusim_view>()) {
    refused("set_input", [&](auto** e) { return npusim_set_input(session, "main", "x", &view, e); });
    refused("bind_input", [&](auto** e) { return npusim_bind_input(session, "main", "x", &view, e); });
    refused("bind_device_input",
            [&](auto** e) { return npusim_bind_device_input(session, "main", "x", "cpu", &view, e); });
    npusim_error* error = nullptr;
    const npusim_status status = npusim_make_tensors(&name, &view, 1, &tensors, &error);
    EXPECT_TRUE(status == NPUSIM_OK || status == NPUSIM_USAGE) << npusim_error_text(error);
    EXPECT_EQ(tensors != nullptr, status == NPUSIM_OK);
    npusim_error_free(error);
    npusim_tensors_free(tensors);
  }
  for (const npusim_span& span : wrong_tensors<npusim_span>()) {
    refused("bind_output", [&](auto** e) { return npusim_bind_output(session, "main", "y", &span, e); });
    refused("bind_device_output",
            [&](auto** e) { return npusim_bind_device_output(session, "main", "y", "cpu", &span, e); });
  }
  const npusim_view view{NPUSIM_FLOAT32, 1, three, numbers};
  const char* const names[] = {nullptr, "\xff"};
  for (const char* wrong : names)
    refused("a name", [&](auto** e) { return npusim_make_tensors(&wrong, &view, 1, &tensors, e); });
  const char* const twice[] = {"a", "a"};
  const npusim_view views[] = {view, view};
  refused("twice", [&](auto** e) { return npusim_make_tensors(twice, views, 2, &tensors, e); });
  for (const size_t count : {SIZE_MAX, SIZE_MAX / 2, size_t{1} << 40}) {
    refused("count", [&](auto** e) { return npusim_make_tensors(&name, &view, count, &tensors, e); });
    refused("names", [&](auto** e) { return npusim_make_tensors(nullptr, &view, count, &tensors, e); });
    refused("views", [&](auto** e) { return npusim_make_tensors(&name, nullptr, count, &tensors, e); });
  }
  refused("tensors", [&](auto** e) { return npusim_make_tensors(&name, &view, 1, nullptr, e); });
}

TEST_F(CSearch, EveryOption) {
  const npusim_method_source right{"main", nullptr, add_ir.c_str()};
  npusim_program* other = program;
  const auto compiled = [&](const npusim_method_source* methods, size_t count, const npusim_compile_options* options) {
    refused("compile", [&](auto** e) { return npusim_compile(methods, count, options, &other, e); });
    EXPECT_EQ(other, nullptr);
  };
  compiled(nullptr, 1, nullptr);
  compiled(&right, 0, nullptr);
  for (const size_t count : {SIZE_MAX, size_t{1} << 40}) compiled(&right, count, nullptr);
  refused("program", [&](auto** e) { return npusim_compile(&right, 1, nullptr, nullptr, e); });
  for (const char* text : wrong_values<const char*>()) {
    const npusim_method_source json{"main", nullptr, text}, path{"main", text, nullptr};
    compiled(&json, 1, nullptr);
    compiled(&path, 1, nullptr);
    const auto with = [&](auto set) {
      npusim_compile_options options{};
      options.size = sizeof options;
      set(options);
      if (text) compiled(&right, 1, &options);  // NULL: the default
    };
    with([&](auto& o) { o.target = text; });
    with([&](auto& o) { o.dtype = text; });
    with([&](auto& o) { o.config_path = text; });
    with([&](auto& o) { o.config_json = text; });
    with([&](auto& o) { o.kv_map_path = text; });
    with([&](auto& o) { o.kv_map_json = text; });
    with([&](auto& o) { o.plan_path = text; });
    with([&](auto& o) { o.plan_json = text; });
    if (text && *text) with([&](auto& o) { o.disabled_fusions = text; });
    if (text && *text) with([&](auto& o) { o.force_cpu = text; });
  }
  const npusim_method_source names[] = {{"", nullptr, add_ir.c_str()}, {"\xff", nullptr, add_ir.c_str()}};
  for (const npusim_method_source& name : names) compiled(&name, 1, nullptr);
  npusim_session* opened = session;
  const auto refuse_session = [&](auto set) {
    npusim_session_options options{};
    options.size = sizeof options;
    options.weights = weights;
    set(options);
    refused("open_session", [&](auto** e) { return npusim_open_session(program, &options, &opened, e); });
    EXPECT_EQ(opened, nullptr);
  };
  for (const char* text : wrong_values<const char*>())
    refuse_session([&](auto& o) { o.devices = &text, o.device_count = 1; });
  const char* const devices[] = {"cpu", "cpu"};
  for (const size_t count : {size_t{2}, size_t{65}, SIZE_MAX})
    refuse_session([&](auto& o) { o.devices = devices, o.device_count = count; });
  refuse_session([&](auto& o) { o.device_count = 1; });
  for (const int threads : {-1, 4097, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()})
    refuse_session([&](auto& o) { o.threads = threads; });
  refuse_session([&](auto& o) { o.size = 0; });
  refuse_session([&](auto& o) { o.size = sizeof o.size - 1; });
  for (const auto parse : {npusim_parse_program, npusim_parse_program_without_code}) {
    refused("bytes", [&](auto** e) { return parse(nullptr, SIZE_MAX, &other, e); });
    refused("bytes", [&](auto** e) { return parse("NPUSIM", 0, &other, e); });
    refused("bytes", [&](auto** e) { return parse("NPUSIM", 6, &other, e); });
    refused("program", [&](auto** e) { return parse("NPUSIM", 6, nullptr, e); });
  }
  for (const char* path : wrong_values<const char*>()) EXPECT_EQ(npusim_use_aten_plugin(path, nullptr), NPUSIM_OK);
  EXPECT_EQ(npusim_use_aten_plugin(nullptr, nullptr), NPUSIM_OK);
}

// In every order of three: nothing that a caller does in the wrong order ends the process.
TEST_F(CSearch, EveryOrder) {
  npusim_view out{}, in{NPUSIM_FLOAT32, 2, two_three, numbers};
  const npusim_span to{NPUSIM_FLOAT32, 2, two_three, written};
  using Call = std::function<npusim_status(npusim_session*, npusim_error**)>;
  const std::vector<Call> calls = {
      [&](auto* s, auto** e) { return npusim_set_input(s, "main", "x", &in, e); },
      [&](auto* s, auto** e) { return npusim_bind_input(s, "main", "x", &in, e); },
      [&](auto* s, auto** e) { return npusim_bind_output(s, "main", "y", &to, e); },
      [&](auto* s, auto** e) { return npusim_bind_device_input(s, "main", "x", "cpu", &in, e); },
      [&](auto* s, auto** e) { return npusim_bind_output(s, "main", "y", nullptr, e); },
      [&](auto* s, auto** e) { return npusim_get_output(s, "main", "y", &out, e); },
      [&](auto* s, auto** e) { return npusim_enqueue(s, "main", 2, e); },
      [&](auto* s, auto** e) { return npusim_wait(s, e); },
      [&](auto* s, auto** e) { return npusim_run(s, "main", 0, e); },
      [&](auto* s, auto** e) { return npusim_seed(s, 1, e); },
      [&](auto* s, auto** e) { return npusim_reset_states(s, e); },
      [&](auto* s, auto**) { return npusim_cancel(s) >= 0 ? NPUSIM_OK : NPUSIM_INTERNAL; }};
  for (size_t order = 0; order < calls.size() * calls.size() * calls.size(); ++order) {
    npusim_session* one = nullptr;
    ASSERT_EQ(npusim_open_sibling(session, &one, nullptr), NPUSIM_OK);
    for (size_t rest = order, i = 0; i < 3; ++i, rest /= calls.size()) {
      npusim_error* error = nullptr;
      EXPECT_EQ(calls[rest % calls.size()](one, &error), NPUSIM_OK) << order << npusim_error_text(error);
      npusim_error_free(error);
    }
    npusim_session_free(one);  // whatever is enqueued
  }
}

}  // namespace
}  // namespace npusim::test
