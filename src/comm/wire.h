// Bytes of a message between ranks of one node: plain values as they lie in memory, texts with their length before
// them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tc {

class WireWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> WireWriter& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  WireWriter& Put(std::string_view text) {
    Put(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Get is false, and the value untouched, where the message ends too early.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : left_(bytes) {}

  template <typename T>
  requires std::is_arithmetic_v<T>
  [[nodiscard]] bool Get(T* value) {
    if (left_.size() < sizeof(T)) return false;
    std::memcpy(value, left_.data(), sizeof(T));
    left_.remove_prefix(sizeof(T));
    return true;
  }
  [[nodiscard]] bool Get(std::string* text) {
    uint64_t size = 0;
    if (!Get(&size) || left_.size() < size) return false;
    text->assign(left_.substr(0, size));
    left_.remove_prefix(size);
    return true;
  }

 private:
  std::string_view left_;
};

}  // namespace tc
