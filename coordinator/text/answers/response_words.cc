#include "coordinator/text/answers/response_words.h"

#include <algorithm>
#include <string_view>

#include "coordinator/text/answers/json_scanner.h"

namespace quire {

std::string ResponseWords::Take(std::string& waiting, bool at_end) {
  const size_t found = waiting.find(close_);
  size_t length = std::min(found, waiting.size());
  if (found == std::string::npos && !at_end) {
    size_t keep = std::min(waiting.size(), close_.size() - 1);
    while (keep > 0 && !waiting.ends_with(std::string_view(close_).substr(0, keep))) --keep;
    length -= keep;
  }
  std::string_view text = std::string_view(waiting).substr(0, length);
  if (!worded_) text.remove_prefix(std::min(text.size(), text.find_first_not_of(kJsonSpace)));
  const size_t last = text.find_last_not_of(kJsonSpace);
  std::string words;
  if (last != std::string_view::npos) {
    worded_ = true;
    words = TakeBlanks() + std::string(text.substr(0, last + 1));
    text.remove_prefix(last + 1);
  }
  blanks_ += text;
  waiting.erase(0, length);
  if (found != std::string::npos) {
    waiting.erase(0, close_.size());
    blanks_.clear();
    is_over_ = true;
  }
  return words;
}

}  // namespace quire
