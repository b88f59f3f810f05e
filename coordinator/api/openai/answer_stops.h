#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "coordinator/text/answers/answer_parser.h"
#include "coordinator/text/stop_matcher.h"

namespace quire {

/// Finds a client's stop strings in the text of one choice. In an answer with thoughts or calls they end the words
/// only: thoughts and arguments may hold them, and none begins before a call and ends behind it.
class AnswerStops {
 public:
  static constexpr size_t kAll = SIZE_MAX;

  /// stops: copied for each choice; without strings it finds nothing. shape: of the answer; its tools outlive this.
  AnswerStops(const StopMatcher& stops, bool has_stops, const AnswerShape& shape);

  struct Output {
    std::string text;     // goes on to whoever reads the answer
    size_t words = kAll;  // of the words in all text so far, this many bytes may be told
    bool stopped = false;
    std::string stop = {};  // the one that was found, when it stopped
  };
  /// may_stop: false while stop strings are text like other text. After it has stopped, nothing more may be pushed.
  Output Push(const std::string& text, bool may_stop);
  /// The end came for another reason. cut: by its length. In text that waited until then a stop string may be found.
  Output Finish(bool cut);

 private:
  Output Take(const AnswerParts& parts);

  StopMatcher fresh_, stops_;
  bool may_stop_ = true;
  std::unique_ptr<AnswerParser> parser_;  // null: all text is words
  size_t words_ = 0;                      // bytes that may be told
};

}  // namespace quire
