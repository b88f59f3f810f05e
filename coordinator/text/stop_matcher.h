#pragma once

#include <string>
#include <vector>

namespace quire {

/// Finds the first stop string in text that comes in pieces. Text that may turn out to be the beginning of one is held
/// back until that is decided.
class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stops, bool include_stop)
      : stops_(std::move(stops)), include_stop_(include_stop) {}

  struct Output {
    std::string text;  // safe to show
    bool stopped = false;
    std::string stop = {};  // the one that was found, when it stopped
  };
  /// After it has stopped, nothing more may be pushed.
  Output Push(const std::string& text);
  /// The text still held back, when the end came for another reason.
  std::string Finish() { return std::move(held_); }

 private:
  std::vector<std::string> stops_;
  bool include_stop_;  // leaves the stop string itself in the text
  std::string held_;
};

}  // namespace quire
