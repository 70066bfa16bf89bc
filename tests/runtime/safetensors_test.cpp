// Safetensors: round trips, sharded sets, and the message of every way in which a file can be malformed.
#include "runtime/safetensors.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "runtime/tensor_set.h"

namespace npusim {
namespace {

std::string file_of(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file.append(header).append(data);
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

template <typename Action>
std::string error_of(Action action, ErrorKind kind = ErrorKind::bad_input) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  return "no error";
}

std::string parse_error(const std::string& file) {
  return error_of([&] { parse_safetensors(bytes_of(file), "w.st"); });
}
// A message about text that is no JSON, up to the place; what follows depends on the JSON library's version.
std::string place_of(const std::string& message) {
  return message.substr(0, message.find(':', message.find(", column ")));
}

// Of a file with this header and `size` bytes of data.
std::string header_error(std::string_view header, size_t size = 0) {
  return parse_error(file_of(header, std::string(size, 'x')));
}
// Of a file with one tensor "a" of these fields.
std::string tensor_error(std::string_view fields, size_t size = 0) {
  return header_error(fmt::format(R"({{"a":{{{}}}}})", fields), size);
}

// A folder that is gone after the test.
struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "npusim_safetensors.XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(std::string_view name) const { return (path / name).string(); }
};

HostTensor tensor_of(DType dtype, Shape shape, int first) {
  HostTensor tensor = make_tensor({dtype, std::move(shape)});
  for (int64_t i = 0; i < element_count(tensor.type.shape); ++i)
    store_double(tensor.data.data(), dtype, i, static_cast<double>(first + i));
  return tensor;
}

TEST(Safetensors, ReadsEveryDtype) {
  const std::string_view names[] = {"BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64"};
  for (int i = 0; i < dtype_count; ++i) {
    const size_t size = dtype_size(static_cast<DType>(i));
    const std::string file =
        file_of(fmt::format(R"({{"a":{{"dtype":"{}","shape":[3],"data_offsets":[0,{}]}}}})", names[i], 3 * size),
                std::string(3 * size, '\1'));
    const Safetensors parsed = parse_safetensors(bytes_of(file), "w.st");
    ASSERT_EQ(parsed.entries.size(), 1u);
    EXPECT_EQ(parsed.entries[0].tensor.type, (TensorType{static_cast<DType>(i), {3}}));
    EXPECT_EQ(static_cast<const void*>(parsed.entries[0].tensor.data), file.data() + file.size() - 3 * size);
  }
}

TEST(Safetensors, ReadsMetadataScalarsZeroSizesAndAnyName) {
  const std::string file =
      file_of(R"({"__metadata__":{"format":"pt"},"z":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},)"
              R"("\u00e9\n":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
              R"("":{"dtype":"I8","shape":[0],"data_offsets":[0,0]}}  )",
              std::string("\0\0\x80\x3f", 4));
  const Safetensors parsed = parse_safetensors(bytes_of(file), "w.st");
  EXPECT_EQ(parsed.metadata.at("format"), "pt");
  ASSERT_EQ(parsed.entries.size(), 3u);  // in header order
  EXPECT_EQ(parsed.entries[0].name, "z");
  EXPECT_EQ(parsed.entries[0].tensor.type.shape, (Shape{0, 7}));
  EXPECT_EQ(parsed.entries[1].name, "é\n");
  EXPECT_EQ(load_double(parsed.entries[1].tensor.data, DType::f32, 0), 1.0);
  EXPECT_EQ(parsed.entries[2].name, "");
  EXPECT_TRUE(parse_safetensors(bytes_of(file_of("{}", "")), "w.st").entries.empty());
}

TEST(Safetensors, RoundTripKeepsOrderBitsAndMetadata) {
  const Folder folder;
  const std::string path = folder.file("out.safetensors");
  const HostTensor a = tensor_of(DType::boolean, {3}, 0), b = tensor_of(DType::bf16, {2, 2}, 7),
                   c = tensor_of(DType::f64, {}, 3), d = tensor_of(DType::i64, {0, 4}, 0);
  const std::vector<NamedTensor> tensors = {
      {"z.mask", view_of(a)}, {"a\"b\n", view_of(b)}, {"c", view_of(c)}, {"empty", view_of(d)}};
  write_safetensors(path, tensors, {{"by", "npusim"}});
  const std::string text = read_file(path);
  EXPECT_EQ(text.substr(8, text.find("   ") - 8),
            R"({"__metadata__":{"by":"npusim"},"z.mask":{"dtype":"BOOL","shape":[3],"data_offsets":[16,19]},)"
            R"("a\"b\n":{"dtype":"BF16","shape":[2,2],"data_offsets":[8,16]},)"
            R"("c":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
            R"("empty":{"dtype":"I64","shape":[0,4],"data_offsets":[8,8]}})");
  EXPECT_EQ(static_cast<unsigned char>(text[0]) % 8, 0);
  write_safetensors(path, tensors, {{"by", "npusim"}});
  EXPECT_EQ(read_file(path), text);

  const TensorSet weights = map_tensors(path);
  ASSERT_EQ(weights.entries.size(), 4u);
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(weights.entries[i].name, tensors[i].name);
    const TensorView& view = get_tensor(weights, tensors[i].name);
    EXPECT_EQ(view.type, tensors[i].tensor.type);
    EXPECT_EQ(copy_tensor(view).data, copy_tensor(tensors[i].tensor).data);
  }
  EXPECT_TRUE(weights.held.empty());
}

TEST(Safetensors, WriterRefusesNamesThatCannotBeRead) {
  const HostTensor a = tensor_of(DType::f32, {1}, 0);
  const auto write_error = [&](std::string x, std::string y) {
    const std::vector<NamedTensor> tensors = {{std::move(x), view_of(a)}, {std::move(y), view_of(a)}};
    return error_of([&] { write_safetensors("/nowhere/out.st", tensors); });
  };
  EXPECT_EQ(write_error("x", "x"), "cannot write /nowhere/out.st: duplicate tensor name \"x\"");
  EXPECT_EQ(write_error("__metadata__", "x"), "cannot write /nowhere/out.st: reserved tensor name \"__metadata__\"");
  EXPECT_EQ(write_error("\xff", "x"), "cannot write /nowhere/out.st: a tensor name or metadata text is not UTF-8");
  EXPECT_EQ(write_error("x", "y"), "cannot write /nowhere/out.st: No such file or directory");
}

TEST(Safetensors, MisalignedTensorsAreCopied) {
  const Folder folder;
  const std::string path = folder.file("odd.safetensors");
  write_file(path, file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                           std::string("\1\0\0\x80\x3f", 5)));
  TensorSet weights = map_tensors(path);
  const TensorSet moved = std::move(weights);
  const TensorView& b = get_tensor(moved, "b");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data) % 4, 0u);
  EXPECT_EQ(load_double(b.data, DType::f32, 0), 1.0);
}

TEST(Safetensors, UnknownDtypeIsAnErrorOnlyWhenAsked) {
  const Folder folder;
  const std::string path = folder.file("f8.safetensors");
  write_file(path, file_of(R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                           R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                           "xyz"));
  const TensorSet weights = map_tensors(path);
  EXPECT_EQ(*reinterpret_cast<const char*>(get_tensor(weights, "b").data), 'z');
  EXPECT_EQ(weights.entries[0].unknown_dtype, "F8_E4M3");
  EXPECT_EQ(error_of([&] { find_tensor(weights, "a"); }, ErrorKind::unsupported),
            path + ": tensor \"a\": dtype \"F8_E4M3\" is not supported");
  EXPECT_EQ(find_tensor(weights, "c"), nullptr);
  EXPECT_EQ(error_of([&] { get_tensor(weights, "c\n\xff"); }), path + ": no tensor \"c\\n\uFFFD\" among its 2 tensors");
}

TEST(Safetensors, CutFiles) {
  EXPECT_EQ(parse_error(""), "w.st: not a safetensors file: expected 8 bytes of header length, found 0 bytes");
  EXPECT_EQ(parse_error("1234567"), "w.st: not a safetensors file: expected 8 bytes of header length, found 7 bytes");
  const std::string whole = file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd");
  EXPECT_NO_THROW(parse_safetensors(bytes_of(whole), "w.st"));
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(parse_error(whole.substr(0, size)), "no error") << size;
  EXPECT_EQ(parse_error(whole.substr(0, 20)), "w.st: the file is cut: header length 54, but 12 bytes follow");
  EXPECT_EQ(parse_error(whole.substr(0, whole.size() - 1)),
            "w.st: tensor \"a\": data_offsets [0, 4] are beyond the file's 3 bytes of data");
  EXPECT_EQ(parse_error(whole + "e"), "w.st: the tensors end at byte 4 of 5 bytes of data");
}

TEST(Safetensors, HostileHeaders) {
  EXPECT_EQ(parse_error(std::string(8, '\xff') + "{}"),
            "w.st: not a safetensors file: header length 18446744073709551615 is over the limit of 100000000");
  EXPECT_EQ(place_of(header_error("")), "w.st: safetensors header: not JSON: parse error at line 1, column 1");
  EXPECT_EQ(place_of(header_error("{\"a\":}")), "w.st: safetensors header: not JSON: parse error at line 1, column 6");
  EXPECT_EQ(place_of(header_error("{\"\xff\":{}}")),
            "w.st: safetensors header: not JSON: parse error at line 1, column 3");
  EXPECT_EQ(header_error("{\"a\":1e999}"), "w.st: safetensors header: not JSON: number overflow parsing '1e999'");
  EXPECT_EQ(header_error("[]"), "w.st: safetensors header: expected a JSON object, found array");
  EXPECT_EQ(place_of(header_error(std::string(1'000'000, '['))),
            "w.st: safetensors header: nested deeper than 100 levels");
  EXPECT_EQ(header_error(std::string(500'000, '[') + std::string(500'000, ']')),
            "w.st: safetensors header: nested deeper than 100 levels");
  EXPECT_EQ(header_error(R"({"a":1})"), "w.st: tensor \"a\": expected an object, found 1");
  EXPECT_EQ(header_error(R"({"__metadata__":[]})"), "w.st: __metadata__: expected an object, found array");
  EXPECT_EQ(header_error(R"({"__metadata__":{"k":1}})"), "w.st: __metadata__: \"k\": expected a string, found 1");
  EXPECT_EQ(header_error(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"x":{}})"),
            "w.st: safetensors header: duplicate name \"x\"");
  EXPECT_EQ(header_error(R"({"x":{"dtype":"U8","dtype":"I8"}})"),
            "w.st: safetensors header: \"x\": duplicate name \"dtype\"");
}

TEST(Safetensors, MalformedTensors) {
  EXPECT_EQ(tensor_error(R"("shape":[],"data_offsets":[0,1])"), "w.st: tensor \"a\": missing \"dtype\"");
  EXPECT_EQ(tensor_error(R"("dtype":"U8","data_offsets":[0,1])"), "w.st: tensor \"a\": missing \"shape\"");
  EXPECT_EQ(tensor_error(R"("dtype":"U8","shape":[])"), "w.st: tensor \"a\": missing \"data_offsets\"");
  EXPECT_EQ(tensor_error(R"("dtype":8,"shape":[],"data_offsets":[0,1])"),
            "w.st: tensor \"a\": dtype: expected a string, found 8");
  EXPECT_EQ(tensor_error(R"("dtype":"","shape":[],"data_offsets":[0,4])"),
            "w.st: tensor \"a\": dtype: expected a name, found an empty one");
  EXPECT_EQ(tensor_error(R"("dtype":"U8","shape":"3","data_offsets":[0,1])"),
            "w.st: tensor \"a\": shape: expected an array, found string");
  for (const char* extent : {"-1", "1.5", "null", "18446744073709551615", "9223372036854775808", "1e3", "\"1\""}) {
    const std::string found = extent[0] == '"' ? "string" : std::string(extent) == "1e3" ? "1000.0" : extent;
    EXPECT_EQ(tensor_error(fmt::format(R"("dtype":"U8","shape":[2,{}],"data_offsets":[0,1])", extent)),
              "w.st: tensor \"a\": shape[1]: expected an integer from 0 to 2^63-1, found " + found);
  }
  EXPECT_EQ(tensor_error(R"("dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0])"),
            "w.st: tensor \"a\": shape [4294967296, 4294967296] has too many elements");
  EXPECT_EQ(tensor_error(R"("dtype":"F64","shape":[9223372036854775807],"data_offsets":[0,0])"),
            "w.st: tensor \"a\": shape [9223372036854775807] has too many elements");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[2,1],"data_offsets":[0,4])", 4),
            "w.st: tensor \"a\": float32[2, 1] needs 8 bytes, data_offsets [0, 4] give 4");
  EXPECT_EQ(tensor_error(R"("dtype":"F32","shape":[0],"data_offsets":[0,4])", 4),
            "w.st: tensor \"a\": float32[0] needs 0 bytes, data_offsets [0, 4] give 4");
}

TEST(Safetensors, HostileOffsets) {
  const auto offsets_error = [](std::string_view offsets) {
    return tensor_error(fmt::format(R"("dtype":"U8","shape":[2],"data_offsets":{})", offsets), 2);
  };
  EXPECT_EQ(offsets_error("2"), "w.st: tensor \"a\": data_offsets: expected [begin, end], found 2");
  EXPECT_EQ(offsets_error("[0,1,2]"), "w.st: tensor \"a\": data_offsets: expected [begin, end], found 3 elements");
  EXPECT_EQ(offsets_error("[-2,0]"),
            "w.st: tensor \"a\": data_offsets[0]: expected an integer from 0 to 2^63-1, found -2");
  EXPECT_EQ(offsets_error("[0,18446744073709551615]"),
            "w.st: tensor \"a\": data_offsets[1]: expected an integer from 0 to 2^63-1, found 18446744073709551615");
  EXPECT_EQ(offsets_error("[2,0]"), "w.st: tensor \"a\": data_offsets [2, 0]: begin is beyond end");
  EXPECT_EQ(offsets_error("[9223372036854775805,9223372036854775807]"),
            "w.st: tensor \"a\": data_offsets [9223372036854775805, 9223372036854775807] are beyond the file's 2 bytes "
            "of data");
  const auto pair_error = [](int a, int b, int c, int d) {
    return header_error(fmt::format(R"({{"p":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                                    R"("q":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                                    b - a, a, b, d - c, c, d),
                        8);
  };
  EXPECT_EQ(pair_error(0, 4, 4, 8), "no error");
  EXPECT_EQ(pair_error(4, 8, 0, 4), "no error");
  EXPECT_EQ(pair_error(0, 5, 4, 8), "w.st: tensor \"q\" at [4, 8] overlaps tensor \"p\", which ends at 5");
  EXPECT_EQ(pair_error(0, 8, 0, 8), "w.st: tensor \"q\" at [0, 8] overlaps tensor \"p\", which ends at 8");
  EXPECT_EQ(pair_error(0, 8, 4, 4), "w.st: tensor \"q\" at [4, 4] overlaps tensor \"p\", which ends at 8");
  EXPECT_EQ(pair_error(0, 3, 4, 8), "w.st: bytes [3, 4] before tensor \"q\" belong to no tensor");
  EXPECT_EQ(pair_error(0, 3, 3, 7), "w.st: the tensors end at byte 7 of 8 bytes of data");
}

TEST(TensorSet, ShardedSet) {
  const Folder folder;
  const HostTensor a = tensor_of(DType::f32, {2}, 1), b = tensor_of(DType::bf16, {3}, 5);
  write_safetensors(folder.file("m-1.safetensors"),
                    std::vector<NamedTensor>{{"a", view_of(a)}, {"unused", view_of(b)}});
  write_safetensors(folder.file("m-2.safetensors"), std::vector<NamedTensor>{{"b", view_of(b)}});
  const std::string index = folder.file("model.safetensors.index.json");
  write_file(index, R"({"metadata":{"total_size":14},"weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"}})");
  const TensorSet weights = map_tensors(index);
  EXPECT_EQ(weights.files.size(), 2u);
  EXPECT_EQ(copy_tensor(get_tensor(weights, "a")).data, a.data);
  EXPECT_EQ(get_tensor(weights, "b").type, b.type);
  EXPECT_EQ(find_tensor(weights, "unused"), nullptr);

  // The same, read: it does not follow the files.
  const auto read = read_tensors(index);
  EXPECT_TRUE(read->files.empty());
  write_file(folder.file("m-1.safetensors"), "");
  EXPECT_EQ(copy_tensor(get_tensor(*read, "a")).data, a.data);

  write_file(index, R"({"weight_map":{"a":"m-2.safetensors"}})");
  EXPECT_EQ(error_of([&] { map_tensors(index); }),
            fmt::format("{}: weight_map places tensor \"a\" in {}, which does not have it", index,
                        folder.file("m-2.safetensors")));
  write_file(index, R"({"weight_map":{"a":"m-3.safetensors"}})");
  EXPECT_EQ(error_of([&] { map_tensors(index); }),
            "cannot open " + folder.file("m-3.safetensors") + ": No such file or directory");
}

TEST(TensorSet, MalformedIndex) {
  const auto index_error = [](std::string_view text) {
    return error_of([&] { parse_safetensors_index(text, "i.json"); });
  };
  EXPECT_EQ(place_of(index_error("{")), "i.json: not JSON: parse error at line 1, column 2");
  EXPECT_EQ(index_error("3"), "i.json: expected a JSON object, found 3");
  EXPECT_EQ(index_error(R"([{"a":1,"b":2}])"), "i.json: expected a JSON object, found array");
  EXPECT_EQ(index_error("{}"), "i.json: missing \"weight_map\"");
  EXPECT_EQ(index_error(R"({"weight_map":[]})"), "i.json: weight_map: expected an object, found array");
  EXPECT_EQ(index_error(R"({"weight_map":{"a":1}})"),
            "i.json: weight_map: tensor \"a\": expected a file name, found 1");
  EXPECT_EQ(index_error(R"({"weight_map":{"a":"x","a":"y"}})"), "i.json: \"weight_map\": duplicate name \"a\"");
  for (const char* name : {"", "..", ".", "../x", "/etc/passwd", "a\\\\b"})
    EXPECT_EQ(index_error(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", name)),
              fmt::format("i.json: weight_map: tensor \"a\": expected a plain file name, found \"{}\"", name));
}

TEST(TensorSet, MissingFile) {
  EXPECT_EQ(error_of([] { map_tensors("/nowhere/w.safetensors"); }),
            "cannot open /nowhere/w.safetensors: No such file or directory");
  EXPECT_EQ(error_of([] { map_tensors("/tmp"); }), "/tmp is a folder: expected a regular file");
  EXPECT_EQ(error_of([] { read_tensors("/dev/zero"); }), "/dev/zero is a device: expected a regular file");
  const Folder folder;
  const std::string fifo = folder.file("fifo");  // that nobody writes to
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { map_tensors(fifo); }), fifo + " is a pipe: expected a regular file");
}

}  // namespace
}  // namespace npusim
