#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// Finds the first stop string in text that arrives in pieces. Holds back text that may be the beginning of a stop
/// string. The time is proportional to the length of the text times the number of stop strings. Copies share the
/// strings.
class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stops, bool include_stop);

  struct Output {
    std::string text;  // text that may be sent to the client
    bool stopped = false;
    std::string stop = {};  // the stop string found, if stopped
  };
  /// Adds text of the answer. Returns the text that can no longer become part of a stop string. Do not call Push again
  /// after a stop string was found.
  Output Push(const std::string& text);
  /// Returns the text that is still held back when the answer ends without a stop string.
  std::string Finish() { return std::move(held_); }

 private:
  struct Stop {
    std::string text;
    /// The Knuth-Morris-Pratt table: for each prefix of the stop string, indexed by its last byte, the length of its
    /// longest proper suffix that is also a prefix.
    std::vector<uint32_t> borders;
  };
  static Stop Prepared(std::string text);
  static uint32_t Extended(const Stop& stop, uint32_t matched, char byte);

  std::shared_ptr<const std::vector<Stop>> stops_;
  bool include_stop_;              // the stop string stays in the text
  std::vector<uint32_t> matched_;  // per stop string: the number of its leading bytes at the end of the text
  std::string held_;
};

}  // namespace quire
