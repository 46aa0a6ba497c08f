#include "npy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <map>

#include "atomic_file.h"
#include "failure.h"

namespace tc::perf {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are read and written as they lie in memory");

constexpr std::string_view kMagic = "\x93NUMPY";
// Far more than a two-dimensional array's header takes, and a bound on what a damaged length makes us allocate.
constexpr size_t kLongestHeader = size_t{1} << 20;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int Value() const { return value_; }

 private:
  int value_;
};

// The value of one entry of the header's dictionary, as it is written there.
using Entries = std::map<std::string, std::string, std::less<>>;

// Splits the header, the text of a Python dictionary of strings, booleans and a tuple, into its entries. A value that
// is neither a string nor a tuple nor a word (a list describes a structured type) is kept up to its closing bracket.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  // False: not such a dictionary.
  bool Parse(Entries* entries) {
    if (!Take('{')) return false;
    while (!Take('}')) {
      std::string key;
      std::string value;
      if (!TakeString(&key) || !Take(':') || !TakeValue(&value)) return false;
      if (!entries->emplace(key, value).second) return false;
      if (!Take(',') && Peek() != '}') return false;
    }
    return Peek() == '\0';
  }

 private:
  char Peek() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_.front()) != std::string_view::npos) {
      rest_.remove_prefix(1);
    }
    return rest_.empty() ? '\0' : rest_.front();
  }

  bool Take(char wanted) {
    if (Peek() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeString(std::string* text) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) return false;
    *text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }

  bool TakeValue(std::string* value) {
    const char first = Peek();
    if (first == '\'' || first == '"') return TakeString(value);
    if (first == '(' || first == '[') return TakeBracketed(value);
    const size_t end = rest_.find_first_of(",} \t\r\n");
    if (end == std::string_view::npos || end == 0) return false;
    *value = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return true;
  }

  bool TakeBracketed(std::string* value) {
    int depth = 0;
    for (size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '(' || rest_[i] == '[') ++depth;
      if (rest_[i] == ')' || rest_[i] == ']') --depth;
      if (depth > 0) continue;
      *value = rest_.substr(0, i + 1);
      rest_.remove_prefix(i + 1);
      return true;
    }
    return false;
  }

  std::string_view rest_;
};

// "(3, 4)" and "(3,)"; Python 2 wrote "(3L, 4L)". False: not a tuple of numbers, or one that no 64 bits hold.
bool ParseShape(std::string_view text, std::vector<size_t>* shape) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return false;
  std::string_view rest = text.substr(1, text.size() - 2);
  const auto skip_spaces = [&rest] {
    while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  };
  for (skip_spaces(); !rest.empty(); skip_spaces()) {
    size_t extent = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), extent);
    if (error != std::errc()) return false;
    rest.remove_prefix(static_cast<size_t>(stop - rest.data()));
    if (!rest.empty() && rest.front() == 'L') rest.remove_prefix(1);
    skip_spaces();
    shape->push_back(extent);
    if (rest.empty()) break;
    if (rest.front() != ',') return false;
    rest.remove_prefix(1);
  }
  return true;
}

class NpyReader {
 public:
  explicit NpyReader(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status;
    if (file_.Value() < 0 || fstat(file_.Value(), &status) != 0) Throw("cannot be opened: " + Errno());
    if (!S_ISREG(status.st_mode)) Throw("is not a regular file");
    left_ = static_cast<uint64_t>(status.st_size);
  }

  NpyMatrix Read() {
    const std::string header = ReadHeader();
    Entries entries;
    if (!HeaderParser(header).Parse(&entries) || entries.size() != 3 || !entries.contains("descr") ||
        !entries.contains("fortran_order") || !entries.contains("shape")) {
      Throw("has a damaged header: it should hold descr, fortran_order and shape");
    }
    NpyMatrix matrix;
    matrix.type = CheckedType(entries["descr"]);
    CheckOrder(entries["fortran_order"]);
    const std::vector<size_t> shape = CheckedShape(entries["shape"]);
    matrix.rows = shape[0];
    matrix.cols = shape[1];
    matrix.bytes.resize(CheckedDataBytes(matrix));
    ReadExactly(matrix.bytes.data(), matrix.bytes.size());
    return matrix;
  }

 private:
  // Leaves the file at the first byte of the data.
  std::string ReadHeader() {
    char start[8];
    if (left_ < sizeof(start)) Throw("is too short to be a .npy file");
    ReadExactly(start, sizeof(start));
    if (std::string_view(start, kMagic.size()) != kMagic)
      Throw("is not a .npy file: it does not start with \\x93NUMPY");
    const int major = static_cast<unsigned char>(start[6]);
    const int minor = static_cast<unsigned char>(start[7]);
    if (major < 1 || major > 3 || minor != 0) {
      Throw("has .npy format " + std::to_string(major) + "." + std::to_string(minor) + "; 1.0, 2.0 and 3.0 are known");
    }
    unsigned char length_bytes[4] = {};
    const size_t length_size = major == 1 ? 2 : 4;
    if (left_ < length_size) Throw("ends inside its header");
    ReadExactly(length_bytes, length_size);
    uint32_t length;
    std::memcpy(&length, length_bytes, sizeof(length));
    if (length > left_) Throw("ends inside its header");
    if (length > kLongestHeader) Throw("has a damaged header: " + std::to_string(length) + " bytes long");
    std::string header(length, '\0');
    ReadExactly(header.data(), header.size());
    return header;
  }

  const ElementType* CheckedType(const std::string& descr) const {
    const ElementType* type = FindNpyType(descr);
    if (type != nullptr) return type;
    if (descr.starts_with('>')) {
      Throw("has the big-endian type '" + descr + "'; convert it with a.astype(a.dtype.newbyteorder('<'))");
    }
    Throw("has the type '" + descr + "'; supported are '<f4' (float), '<f2' (half) and '<u2' (the bits of bfloat16)");
  }

  void CheckOrder(const std::string& fortran_order) const {
    if (fortran_order == "False") return;
    if (fortran_order == "True") Throw("is in Fortran order; save np.ascontiguousarray(a) instead");
    Throw("has a damaged header: fortran_order is '" + fortran_order + "'");
  }

  std::vector<size_t> CheckedShape(const std::string& text) const {
    std::vector<size_t> shape;
    if (!ParseShape(text, &shape)) Throw("has the impossible shape " + text);
    if (shape.size() != 2) {
      Throw("has the shape " + text + ", which has " + std::to_string(shape.size()) + " dimension" +
            (shape.size() == 1 ? "" : "s") + "; a matrix has 2");
    }
    return shape;
  }

  size_t CheckedDataBytes(const NpyMatrix& matrix) const {
    size_t bytes;
    if (__builtin_mul_overflow(matrix.rows, matrix.cols, &bytes) ||
        __builtin_mul_overflow(bytes, matrix.type->bytes, &bytes)) {
      Throw("has an impossible shape: (" + std::to_string(matrix.rows) + ", " + std::to_string(matrix.cols) +
            ") is more than memory can hold");
    }
    const std::string sizes =
        ": its header promises " + std::to_string(bytes) + " bytes of data, and there are " + std::to_string(left_);
    if (bytes > left_) Throw("is cut short" + sizes);
    if (bytes < left_) Throw("has bytes after its end" + sizes);
    return bytes;
  }

  void ReadExactly(void* target, size_t bytes) {
    auto* position = static_cast<char*>(target);
    for (size_t missing = bytes; missing > 0;) {
      const ssize_t got = read(file_.Value(), position, missing);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) Throw("cannot be read: " + Errno());
      if (got == 0) Throw("became shorter while it was read");
      position += got;
      missing -= static_cast<size_t>(got);
    }
    left_ -= bytes;
  }

  static std::string Errno() { return std::strerror(errno); }
  [[noreturn]] void Throw(const std::string& what) const { throw Failure(path_ + " " + what + "."); }

  std::string path_;
  Descriptor file_;
  uint64_t left_ = 0;  // bytes not read yet
};

}  // namespace

NpyMatrix ReadNpy(const std::string& path) { return NpyReader(path).Read(); }

void WriteNpy(const std::string& path, const ElementType& type, size_t rows, size_t cols, const void* elements) {
  std::string header = "{'descr': '" + std::string(type.npy) + "', 'fortran_order': False, 'shape': (" +
                       std::to_string(rows) + ", " + std::to_string(cols) + "), }";
  // The data start at a multiple of 64 bytes, the header ends in a line feed: the format asks for both.
  const size_t before = kMagic.size() + 4;
  header.append((64 - (before + header.size() + 1) % 64) % 64, ' ');
  header.push_back('\n');
  const auto length = static_cast<uint16_t>(header.size());
  std::string start(kMagic);
  start += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  WriteFileAtomically(path, {start, header, {static_cast<const char*>(elements), rows * cols * type.bytes}});
}

}  // namespace tc::perf
