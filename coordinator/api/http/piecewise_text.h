#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

/// What a byte of a text may take in JSON, as \u0001.
inline constexpr size_t kEscapedBytes = 6;

/// What a text takes in JSON at the most.
inline size_t SpelledBytes(std::string_view text) {
  size_t bytes = text.size();
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) bytes += kEscapedBytes - 1;
    if (c == '"' || c == '\\') ++bytes;
  }
  return bytes;
}

/// A text that is made while it is sent, so that there is never more of it than a piece, or than one of its parts. Used
/// by one thread at a time.
class PiecewiseText {
 public:
  virtual ~PiecewiseText() = default;

  /// The next `bytes` of it or a little more (texts of an answer stay whole); less only at its end.
  virtual std::string Next(size_t bytes) = 0;
  virtual bool done() const = 0;
  /// About how long it is; what is more work to make than to write counts for as much more.
  virtual size_t estimated_bytes() const = 0;
  /// The most that making the next piece may come to hold, besides what the text is made of and a usual piece.
  virtual size_t most_bytes() const = 0;
  /// What it has made and not given yet.
  virtual size_t made_bytes() const { return 0; }
};

/// A text of a few parts, each made as a whole when it is its turn, and given piece by piece. What a part was made of
/// goes with it.
class PartedText : public PiecewiseText {
 public:
  struct Part {
    std::function<std::string()> make;
    size_t most;  // bytes that it may have
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
    made_.shrink_to_fit();  // it may wait for long
    given_ = 0;
    parts_[next_++].make = nullptr;
  }

  std::vector<Part> parts_;
  size_t next_ = 0;
  std::string made_;  // of the part before next_
  size_t given_ = 0;  // of made_
  size_t estimated_bytes_;
};

}  // namespace quire
