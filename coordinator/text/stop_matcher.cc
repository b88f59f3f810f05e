#include "coordinator/text/stop_matcher.h"

#include <algorithm>

namespace quire {

namespace {

/// Length of the longest end of `text` that is a beginning of `stop`.
size_t OverlapAtEnd(const std::string& text, const std::string& stop) {
  for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
    if (text.compare(text.size() - length, length, stop, 0, length) == 0) return length;
  }
  return 0;
}

}  // namespace

StopMatcher::Output StopMatcher::Push(const std::string& text) {
  held_ += text;
  size_t first = std::string::npos;
  const std::string* found = nullptr;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at < first) first = at, found = &stop;
  }
  if (found != nullptr) {
    Output out{held_.substr(0, first + (include_stop_ ? found->size() : 0)), true, *found};
    held_.clear();
    return out;
  }
  size_t keep = 0;
  for (const std::string& stop : stops_) keep = std::max(keep, OverlapAtEnd(held_, stop));
  Output out{held_.substr(0, held_.size() - keep), false};
  held_.erase(0, held_.size() - keep);
  return out;
}

}  // namespace quire
