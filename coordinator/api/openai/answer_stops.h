#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "coordinator/text/answers/answer_parser.h"
#include "coordinator/text/stop_matcher.h"

namespace quire {

/// Finds a client's stop strings in the text of one choice. In an answer with thoughts or tool calls, only its content
/// can match: thoughts and arguments may contain stop strings, and no match spans a call.
class AnswerStops {
 public:
  static constexpr size_t kAll = SIZE_MAX;

  /// The object copies `stops`. If `has_stops` is false, no stop string is ever found. The tools of `shape` must
  /// outlive this object.
  AnswerStops(const StopMatcher& stops, bool has_stops, const AnswerShape& shape);

  struct Output {
    std::string text;     // text to send now
    size_t words = kAll;  // number of bytes of the choice's generated content that may be sent
    bool stopped = false;
    std::string stop = {};  // the stop string that was found, if stopped
  };
  /// Adds text of the choice and returns the text to send now. If may_stop is false, stop strings count as ordinary
  /// text. Do not call Push again after it has returned `stopped`.
  Output Push(const std::string& text, bool may_stop);
  /// Ends a choice that no stop string has ended, and returns its last text. `cut`: the length limit ended the choice.
  /// Text that was held back may still contain a stop string.
  Output Finish(bool cut);

 private:
  Output Take(const AnswerParts& parts);

  StopMatcher fresh_, stops_;
  bool may_stop_ = true;
  std::unique_ptr<AnswerParser> parser_;  // null: all text is content
  size_t words_ = 0;                      // content bytes that may be sent
};

}  // namespace quire
