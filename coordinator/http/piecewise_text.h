#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

/// The most bytes that one byte of a text takes in JSON, namely when it is escaped as \u0001.
inline constexpr size_t kEscapedBytes = 6;

/// Returns an upper bound of the bytes of a text in JSON, without its quotes.
inline size_t SpelledBytes(std::string_view text) {
  size_t bytes = text.size();
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) bytes += kEscapedBytes - 1;
    if (c == '"' || c == '\\') ++bytes;
  }
  return bytes;
}

/// A text that is made while it is sent, so that memory holds only one piece or one part of it at a time. Only one
/// thread may use it at a time.
class PiecewiseText {
 public:
  virtual ~PiecewiseText() = default;

  /// Returns the next `bytes` bytes, or more if a part of the text would otherwise be cut. Returns fewer only at the
  /// text's end.
  virtual std::string Next(size_t bytes) = 0;
  virtual bool done() const = 0;
  /// Returns an estimate of the text's length in bytes. Bytes that take longer to make count as several.
  virtual size_t estimated_bytes() const = 0;
  /// Returns the most bytes that Next() may allocate besides its result, for parts of the text that are made whole.
  virtual size_t most_bytes() const = 0;
  /// Returns the bytes that are made but not returned yet.
  virtual size_t made_bytes() const { return 0; }
};

/// A text of a few parts. Each part is made whole when its turn comes, and is returned piece by piece. Making a part
/// frees its sources.
class PartedText : public PiecewiseText {
 public:
  struct Part {
    std::function<std::string()> make;
    size_t most;  // upper bound of its bytes
  };
  PartedText(std::vector<Part> parts, size_t estimated_bytes)
      : parts_(std::move(parts)), estimated_bytes_(estimated_bytes) {}

  std::string Next(size_t bytes) override {
    std::string text;
    while (!done() && text.size() < bytes) {
      if (given_ == made_.size()) Make();
      const size_t count = std::min(bytes - text.size(), made_.size() - given_);
      text.append(made_, given_, count);
      given_ += count;
      if (given_ == made_.size()) std::string().swap(made_), given_ = 0;
    }
    return text;
  }
  bool done() const override { return next_ == parts_.size() && given_ == made_.size(); }
  size_t estimated_bytes() const override { return estimated_bytes_; }
  size_t most_bytes() const override { return std::max(made_.size(), next_ < parts_.size() ? parts_[next_].most : 0); }
  size_t made_bytes() const override { return made_.size(); }

 private:
  void Make() {
    made_ = parts_[next_].make();
    made_.shrink_to_fit();  // the buffer may live for long with a slow client
    given_ = 0;
    parts_[next_++].make = nullptr;
  }

  std::vector<Part> parts_;
  size_t next_ = 0;
  std::string made_;  // the current part, number next_ - 1
  size_t given_ = 0;  // bytes of made_ already returned
  size_t estimated_bytes_;
};

}  // namespace quire
