#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace quire {

/// A text that is made while it is sent, so that there is never more of it than a piece. Used by one thread at a time.
class PiecewiseText {
 public:
  virtual ~PiecewiseText() = default;

  /// The next `bytes` of it or a little more (texts of an answer stay whole); less only at its end.
  virtual std::string Next(size_t bytes) = 0;
  virtual bool done() const = 0;
  /// About how long it is; what is more work to make than to write counts for as much more.
  virtual size_t estimated_bytes() const = 0;
};

/// A text of a few parts, each made when it is its turn.
class PartedText : public PiecewiseText {
 public:
  using Part = std::function<std::string()>;
  PartedText(std::vector<Part> parts, size_t estimated_bytes)
      : parts_(std::move(parts)), estimated_bytes_(estimated_bytes) {}

  std::string Next(size_t bytes) override {
    std::string text;
    while (!done() && text.size() < bytes) text += parts_[next_++]();
    return text;
  }
  bool done() const override { return next_ == parts_.size(); }
  size_t estimated_bytes() const override { return estimated_bytes_; }

 private:
  std::vector<Part> parts_;
  size_t next_ = 0;
  size_t estimated_bytes_;
};

}  // namespace quire
