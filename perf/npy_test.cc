#include "npy.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "failure.h"

namespace tc::perf {
namespace {

class NpyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "npy_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = std::filesystem::absolute(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name = "a.npy") const { return folder_ / name; }

  static std::string Npy(const std::string& dictionary, const std::string& data, int major = 1) {
    std::string file = "\x93NUMPY";
    file += static_cast<char>(major);
    file += '\0';
    for (int byte = 0; byte < (major == 1 ? 2 : 4); ++byte) file += static_cast<char>(dictionary.size() >> (8 * byte));
    return file + dictionary + data;
  }

  void Write(const std::string& contents) const { std::ofstream(Path(), std::ios::binary) << contents; }

  // The sentence with which reading `contents` fails.
  std::string Complaint(const std::string& contents) const {
    Write(contents);
    try {
      ReadNpy(Path());
    } catch (const Failure& failure) {
      EXPECT_EQ(std::string(failure.what()).find(Path()), 0u) << "the sentence starts with the file's name";
      return failure.what();
    }
    return "";
  }

  std::filesystem::path folder_;
};

#define EXPECT_SAYS(sentence, part) EXPECT_NE((sentence).find(part), std::string::npos) << (sentence)

std::string Dictionary(const std::string& descr, const std::string& fortran, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

TEST_F(NpyTest, ReadsAllThreeFormats) {
  const float values[6] = {1, -2, 3, 4, 5, 6.5};
  const std::string data(reinterpret_cast<const char*>(values), sizeof(values));
  for (const int major : {1, 2, 3}) {
    Write(Npy(Dictionary("<f4", "False", "(2, 3)"), data, major));
    const NpyMatrix matrix = ReadNpy(Path());
    EXPECT_EQ(matrix.type->code, tcFloat32);
    EXPECT_EQ(matrix.rows, 2u);
    EXPECT_EQ(matrix.cols, 3u);
    ASSERT_EQ(matrix.bytes.size(), sizeof(values));
    EXPECT_EQ(std::memcmp(matrix.bytes.data(), values, sizeof(values)), 0);
  }
}

TEST_F(NpyTest, ReadsAnyOrderOfKeysAndOldNumbers) {
  Write(Npy("{\"shape\":(2L,1L),\"fortran_order\":False,\"descr\":\"<u2\"}", "abcd"));
  const NpyMatrix matrix = ReadNpy(Path());
  EXPECT_EQ(matrix.type->code, tcBfloat16);
  EXPECT_EQ(matrix.rows, 2u);
  EXPECT_EQ(matrix.cols, 1u);
}

TEST_F(NpyTest, ReadsAnEmptyMatrix) {
  Write(Npy(Dictionary("<f2", "False", "(0, 5)"), ""));
  const NpyMatrix matrix = ReadNpy(Path());
  EXPECT_EQ(matrix.rows, 0u);
  EXPECT_EQ(matrix.cols, 5u);
}

TEST_F(NpyTest, WritesWhatItReads) {
  for (const ElementType& type : ElementTypes()) {
    std::string data(7 * 5 * type.bytes, '\0');
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 37);
    WriteNpy(Path(), type, 7, 5, data.data());
    const NpyMatrix matrix = ReadNpy(Path());
    EXPECT_EQ(matrix.type, &type);
    EXPECT_EQ(matrix.rows, 7u);
    EXPECT_EQ(matrix.cols, 5u);
    ASSERT_EQ(matrix.bytes.size(), data.size());
    EXPECT_EQ(std::memcmp(matrix.bytes.data(), data.data(), data.size()), 0);
  }
}

TEST_F(NpyTest, WritesTheFormatsAlignment) {
  WriteNpy(Path(), ElementTypeOf(tcFloat32), 1, 1, "abcd");
  std::ifstream stream(Path(), std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  EXPECT_EQ((file.size() - 4) % 64, 0u);
  EXPECT_EQ(file.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(file[file.size() - 5], '\n');
}

TEST_F(NpyTest, FailedWriteLeavesTheOldFileAndNoOther) {
  Write("old");
  EXPECT_THROW(WriteNpy(folder_ / "none" / "c.npy", ElementTypeOf(tcFloat32), 1, 1, "abcd"), Failure);
  std::filesystem::create_directory(folder_ / "folder");
  EXPECT_THROW(WriteNpy(Path("folder"), ElementTypeOf(tcFloat32), 1, 1, "abcd"), Failure);
  WriteNpy(Path("c.npy"), ElementTypeOf(tcFloat32), 1, 1, "abcd");
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 2u);
}

TEST_F(NpyTest, SaysWhatIsWrongWithTheFile) {
  EXPECT_SAYS(Complaint(""), "too short");
  EXPECT_SAYS(Complaint("PK\x03\x04 a zip archive"), "not a .npy file");
  EXPECT_SAYS(Complaint(Npy("{}", "", 4)), "format 4.0");
  EXPECT_SAYS(Complaint(std::string("\x93NUMPY\x01\x00\x76", 9)), "ends inside its header");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(2, 3)"), "").substr(0, 30)), "ends inside its header");
  EXPECT_SAYS(Complaint(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)), "ends inside its header");
  try {
    ReadNpy(Path("missing.npy"));
    FAIL() << "a file that is not there was read";
  } catch (const Failure& failure) {
    EXPECT_SAYS(std::string(failure.what()), "No such file");
  }
  try {
    ReadNpy(folder_);
    FAIL() << "a folder was read";
  } catch (const Failure& failure) {
    EXPECT_SAYS(std::string(failure.what()), "not a regular file");
  }
}

TEST_F(NpyTest, SaysWhatIsWrongWithTheHeader) {
  for (const std::string broken :
       {"", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)} x", "{'descr: 3}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1}"}) {
    EXPECT_SAYS(Complaint(Npy(broken, "abcd")), "damaged header");
  }
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "True", "(1, 1)"), "abcd")), "np.ascontiguousarray");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "Maybe", "(1, 1)"), "abcd")), "damaged header");
  EXPECT_SAYS(Complaint(Npy(Dictionary(">f4", "False", "(1, 1)"), "abcd")), "big-endian");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f8", "False", "(1, 1)"), "abcdefgh")), "'<f8'");
  EXPECT_SAYS(Complaint(Npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1, 1)}", "abcd")),
              "the type '[");
}

TEST_F(NpyTest, SaysWhatIsWrongWithTheShape) {
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(1,)"), "abcd")), "has 1 dimension;");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "()"), "abcd")), "has 0 dimensions");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(1, 1, 1)"), "abcd")), "has 3 dimensions");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(-1, 1)"), "abcd")), "impossible shape");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(1 1)"), "abcd")), "impossible shape");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(99999999999999999999, 1)"), "abcd")), "impossible shape");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(4294967296, 4294967296)"), "abcd")), "impossible shape");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(4611686018427387904, 1)"), "abcd")), "impossible shape");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(1099511627776, 1)"), "abcd")), "cut short");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(1, 2)"), "abcd")), "cut short");
  EXPECT_SAYS(Complaint(Npy(Dictionary("<f4", "False", "(1, 1)"), "abcde")), "bytes after its end");
}

}  // namespace
}  // namespace tc::perf
