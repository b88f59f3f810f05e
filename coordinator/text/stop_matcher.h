#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// Finds the first stop string in text that comes in pieces. Text that may turn out to be the beginning of one is held
/// back until that is decided. Takes time in proportion to the text and to the number of stop strings, whatever they
/// are. Copies share the strings.
class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stops, bool include_stop);

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
  struct Stop {
    std::string text;
    /// Of every beginning of the text, by its last byte's place: the length of its longest end that is a shorter
    /// beginning of the text (Knuth, Morris and Pratt's table).
    std::vector<uint32_t> borders;
  };
  static Stop Prepared(std::string text);
  static uint32_t Extended(const Stop& stop, uint32_t matched, char byte);

  std::shared_ptr<const std::vector<Stop>> stops_;
  bool include_stop_;              // leaves the stop string itself in the text
  std::vector<uint32_t> matched_;  // of each stop, the leading bytes that the text so far ends with
  std::string held_;
};

}  // namespace quire
