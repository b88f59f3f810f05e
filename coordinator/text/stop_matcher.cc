#include "coordinator/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace quire {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : include_stop_(include_stop), matched_(stops.size(), 0) {
  std::vector<Stop> prepared;
  for (std::string& stop : stops) prepared.push_back(Prepared(std::move(stop)));
  stops_ = std::make_shared<const std::vector<Stop>>(std::move(prepared));
}

StopMatcher::Stop StopMatcher::Prepared(std::string text) {
  Stop stop{std::move(text), {}};
  stop.borders.assign(stop.text.size(), 0);
  for (size_t i = 1; i < stop.text.size(); ++i) stop.borders[i] = Extended(stop, stop.borders[i - 1], stop.text[i]);
  return stop;
}

/// Extends a partial match by one byte. The text before `byte` ends with the first `matched` bytes of the stop string,
/// but not with all of its bytes. Returns how many of the stop string's first bytes the text ends with after `byte`.
uint32_t StopMatcher::Extended(const Stop& stop, uint32_t matched, char byte) {
  while (matched > 0 && stop.text[matched] != byte) matched = stop.borders[matched - 1];
  return stop.text[matched] == byte ? matched + 1 : 0;
}

StopMatcher::Output StopMatcher::Push(const std::string& text) {
  const size_t before = held_.size();
  held_ += text;
  size_t first = std::string::npos, keep = 0;
  const Stop* found = nullptr;
  for (size_t i = 0; i < stops_->size(); ++i) {
    const Stop& stop = (*stops_)[i];
    uint32_t& matched = matched_[i];
    for (size_t at = before; at < held_.size() && matched < stop.text.size(); ++at) {
      matched = Extended(stop, matched, held_[at]);
      if (matched < stop.text.size()) continue;
      const size_t begin = at + 1 - matched;
      if (begin < first) first = begin, found = &stop;
    }
    keep = std::max<size_t>(keep, matched);
  }
  if (found != nullptr) {
    Output out{held_.substr(0, first + (include_stop_ ? found->text.size() : 0)), true, found->text};
    held_.clear();
    return out;
  }
  Output out{held_.substr(0, held_.size() - keep), false};
  held_.erase(0, held_.size() - keep);
  return out;
}

}  // namespace quire
