#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::fuzz {

/// Makes choices from the fuzzer's bytes. Once the bytes are used up, every choice is 0.
class ByteSource {
 public:
  ByteSource(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}

  bool empty() const { return data_ == end_; }
  uint8_t Byte() { return empty() ? 0 : *data_++; }
  bool Flag() { return (Byte() & 1) != 0; }
  /// Returns a number from 0 to bound - 1; bound is at most 65536.
  uint32_t Below(uint32_t bound) {
    uint32_t value = Byte();
    if (bound > 256) value = value << 8 | Byte();
    return value % bound;
  }
  /// Takes and returns the bytes before the next `separator`, and skips the separator; all bytes when there is none.
  std::string_view Until(char separator) {
    const std::string_view rest = Rest();
    const size_t at = rest.find(separator);
    if (at == std::string_view::npos) {
      data_ = end_;
      return rest;
    }
    data_ += at + 1;
    return rest.substr(0, at);
  }
  std::string_view Rest() const { return {reinterpret_cast<const char*>(data_), static_cast<size_t>(end_ - data_)}; }

 private:
  const uint8_t* data_;
  const uint8_t* end_;
};

}  // namespace quire::fuzz
