// .npy: the bytes that NumPy writes, both orders, every version and type, and the message of every malformation.
#include "runtime/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace npusim {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string file_of(std::string_view header, std::string_view data, int major = 1, int minor = 0) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += static_cast<char>(minor);
  const uint32_t length = static_cast<uint32_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), major == 1 ? 2 : 4);
  return file.append(header).append(data);
}

std::string array_of(std::string_view descr, std::string_view shape, std::string_view data, bool fortran = false) {
  return file_of(
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n", descr, fortran ? "True" : "False", shape),
      data);
}

HostTensor parse(const std::string& file, std::optional<DType> void16 = std::nullopt) {
  return parse_npy(bytes_of(file), "x.npy", void16);
}

std::string parse_error(const std::string& file, ErrorKind kind = ErrorKind::bad_input) {
  try {
    parse(file);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(Npy, ReadsEveryType) {
  const std::pair<const char*, DType> types[] = {{"|b1", DType::boolean}, {"|u1", DType::u8},  {"|i1", DType::i8},
                                                 {"<i2", DType::i16},     {"<i4", DType::i32}, {"<i8", DType::i64},
                                                 {"<f2", DType::f16},     {"<f4", DType::f32}, {"<f8", DType::f64},
                                                 {"|V2", DType::bf16},    {"<V2", DType::bf16}};
  for (const auto& [descr, dtype] : types) {
    HostTensor expected = make_tensor({dtype, {2}});
    store_double(expected.data.data(), dtype, 1, 1.0);
    const std::string data(reinterpret_cast<const char*>(expected.data.data()), expected.data.size());
    const HostTensor read = parse(array_of(descr, "(2,)", data), DType::bf16);
    EXPECT_EQ(read.type, expected.type);
    EXPECT_EQ(read.data, expected.data);
  }
}

TEST(Npy, ReadsVersionsAndSpellings) {
  for (int major : {1, 2, 3}) {
    const HostTensor scalar =
        parse(file_of("{\"shape\":(),\"descr\":\"|u1\",\"fortran_order\":False}   \n", "\7", major));
    EXPECT_EQ(scalar.type, (TensorType{DType::u8, {}}));
    EXPECT_EQ(scalar.data[0], std::byte{7});
  }
  EXPECT_EQ(parse(array_of("<f4", "(3, 0, 2)", "")).type.shape, (Shape{3, 0, 2}));
  EXPECT_EQ(parse(array_of("<f4", "(0, 4,)", "")).type.shape, (Shape{0, 4}));
}

TEST(Npy, ConvertsFortranOrder) {
  // numpy.asfortranarray(numpy.arange(24, dtype='i1').reshape(2, 3, 4))
  std::string data;
  for (int k = 0; k < 4; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) data += static_cast<char>(i * 12 + j * 4 + k);
  const HostTensor tensor = parse(array_of("|i1", "(2, 3, 4)", data, true));
  for (int i = 0; i < 24; ++i) EXPECT_EQ(load_int(tensor.data.data(), DType::i8, i), i);
  EXPECT_EQ(parse(array_of("<f4", "(3, 0)", "", true)).type.shape, (Shape{3, 0}));
  EXPECT_EQ(parse(array_of("|u1", "()", "\5", true)).data[0], std::byte{5});
}

TEST(Npy, WritesWhatNumPyWrites) {
  std::string path = (std::filesystem::temp_directory_path() / "npusim_npy.XXXXXX").string();
  ::close(mkstemp(path.data()));
  HostTensor tensor = make_tensor({DType::f32, {3}});
  store_double(tensor.data.data(), DType::f32, 2, 1.0);
  write_npy(path, view_of(tensor));
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  const std::string expected = std::string("\x93NUMPY\x01\0\x76\0", 10) + header +
                               std::string(117 - header.size(), ' ') + "\n" +
                               std::string("\0\0\0\0\0\0\0\0\0\0\x80\x3f", 12);
  EXPECT_EQ(read_file(path), expected);
  for (const TensorType& type : {TensorType{DType::boolean, {}}, TensorType{DType::bf16, {2, 3}},
                                 TensorType{DType::i64, {1, 1, 1, 1, 1, 1, 1, 1, 1, 5}}, TensorType{DType::f16, {0}}}) {
    write_npy(path, view_of(make_tensor(type)));
    EXPECT_EQ(read_file(path).find('\n') % 64, 63u);
    EXPECT_EQ(read_npy(path, DType::bf16).type, type);
  }
  std::remove(path.c_str());
}

TEST(Npy, CutFiles) {
  EXPECT_EQ(parse_error(""), "x.npy: not a .npy file: expected \\x93NUMPY at its start");
  EXPECT_EQ(parse_error("PK"), "x.npy: not a .npy file: expected \\x93NUMPY at its start");
  EXPECT_EQ(parse_error("PK\3\4"),
            "x.npy: is a zip archive (what PyTorch saves is one), not .npy: docs/ir_format.md section 9 says how to "
            "convert it");
  EXPECT_EQ(parse_error("\x93NUMPY\1"), "x.npy: the file is cut: no .npy version");
  EXPECT_EQ(parse_error(std::string("\x93NUMPY\1\0\5", 9)), "x.npy: the file is cut: no .npy header length");
  EXPECT_EQ(parse_error(std::string("\x93NUMPY\2\0\5\0", 10)), "x.npy: the file is cut: no .npy header length");
  const std::string whole = array_of("<f4", "(2,)", "12345678");
  EXPECT_EQ(parse_error(whole), "no error");
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_NE(parse_error(whole.substr(0, size)), "no error") << size;
  EXPECT_EQ(parse_error(whole.substr(0, 40)), "x.npy: the file is cut: npy header length 58, but 30 bytes follow");
  EXPECT_EQ(parse_error(whole.substr(0, whole.size() - 1)), "x.npy: float32[2] needs 8 bytes of data, found 7");
  EXPECT_EQ(parse_error(whole + "9"), "x.npy: float32[2] needs 8 bytes of data, found 9");
}

TEST(Npy, HostileHeaders) {
  const auto header_error = [](std::string_view header) { return parse_error(file_of(header, "")); };
  EXPECT_EQ(parse_error(file_of("{}", "", 4), ErrorKind::unsupported),
            "x.npy: .npy version 4.0 is not supported (supported: 1.0, 2.0, 3.0)");
  EXPECT_EQ(parse_error(file_of("{}", "", 1, 9), ErrorKind::unsupported),
            "x.npy: .npy version 1.9 is not supported (supported: 1.0, 2.0, 3.0)");
  EXPECT_EQ(parse_error(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)),
            "x.npy: npy header length 4294967295 is over the limit of 1048576");
  EXPECT_EQ(header_error(""), "x.npy: npy header: expected '{' at byte 0, found the end of the header");
  EXPECT_EQ(header_error("{}"), "x.npy: npy header: missing key 'descr'");
  EXPECT_EQ(header_error("{'descr': '<f4', 'shape': ()}"), "x.npy: npy header: missing key 'fortran_order'");
  EXPECT_EQ(header_error("{'descr': '<f4', 'fortran_order': False}"), "x.npy: npy header: missing key 'shape'");
  EXPECT_EQ(header_error("{'ev\nil': 1}"), "x.npy: npy header: unknown key 'ev\\x0ail'");
  EXPECT_EQ(header_error("{'shape': (), 'shape': ()}"), "x.npy: npy header: duplicate key 'shape'");
  EXPECT_EQ(header_error("{'shape' ()}"), "x.npy: npy header: expected ':' at byte 9, found '('");
  EXPECT_EQ(header_error("{'shape': () 'descr'}"), "x.npy: npy header: expected ',' at byte 13, found '''");
  EXPECT_EQ(header_error("{'shape"), "x.npy: npy header: expected a string without escapes at byte 1, found '''");
  EXPECT_EQ(header_error("{'a\\x00': 1}"), "x.npy: npy header: expected a string without escapes at byte 1, found '''");
  EXPECT_EQ(header_error("{3: 1}"), "x.npy: npy header: expected a string at byte 1, found '3'");
  EXPECT_EQ(header_error("{'fortran_order': 0}"), "x.npy: npy header: expected True or False at byte 18, found '0'");
  EXPECT_EQ(header_error("{'shape': 3}"), "x.npy: npy header: expected '(' at byte 10, found '3'");
  EXPECT_EQ(header_error("{'shape': (3)}"), "x.npy: npy header: expected ',' at byte 12, found ')'");
  EXPECT_EQ(header_error("{'shape': (3, 4"), "x.npy: npy header: expected ')' at byte 15, found the end of the header");
  EXPECT_EQ(header_error("{'shape': (-1,)}"),
            "x.npy: npy header: expected a non-negative integer at byte 11, found '-'");
  EXPECT_EQ(header_error("{'shape': (9223372036854775808,)}"),
            "x.npy: npy header: expected an integer below 2^63 at byte 29, found '8'");
  std::string many;
  for (int i = 0; i < 65; ++i) many += "1,";
  EXPECT_EQ(header_error("{'shape': (" + many + ")}"),
            "x.npy: npy header: expected at most 64 dimensions at byte 139, found '1'");
  EXPECT_EQ(parse_error(file_of("{'descr': '|u1', 'fortran_order': False, 'shape': ()} x", "\1")),
            "x.npy: npy header: expected the end of the header at byte 54, found 'x'");
}

TEST(Npy, HostileTypesAndShapes) {
  const std::string supported =
      " is not supported (supported: |b1 |u1 |i1 <i2 <i4 <i8 <f2 <f4 <f8, and |V2 declared as bfloat16)";
  for (const char* descr : {">f4", "|f4", "<u2", "<c8", "|O", "<U3", "", "f4", "<f16"})
    EXPECT_EQ(parse_error(array_of(descr, "(2,)", "12345678"), ErrorKind::unsupported),
              fmt::format("x.npy: npy element type '{}'{}", descr, supported));
  EXPECT_EQ(parse_error(file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", ""),
                        ErrorKind::unsupported),
            "x.npy: npy arrays of records are not supported");
  EXPECT_EQ(parse_error(array_of("|V2", "(1,)", "12")),
            "x.npy: npy element type '|V2' is 2 raw bytes, which only a bfloat16 input takes");
  EXPECT_EQ(parse_error(array_of("<f8", "(4294967296, 4294967296)", "")),
            "x.npy: npy header: shape [4294967296, 4294967296] has too many elements");
  EXPECT_EQ(parse_error(array_of("<f8", "(72057594037927936,)", "")),
            "x.npy: float64[72057594037927936] needs 576460752303423488 bytes of data, found 0");
}

}  // namespace
}  // namespace npusim
