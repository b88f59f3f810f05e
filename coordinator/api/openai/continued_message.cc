#include "coordinator/api/openai/continued_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "comm/base/exact_json.h"
#include "coordinator/api/requests/json_fields.h"

namespace quire {

namespace {

constexpr std::string_view kMark = "THE_ANSWER_GOES_ON_";
constexpr const char* kSpaces = " \t\n\r\f\v";

std::string_view WithoutSpaces(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kSpaces), text.size());
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

/// Returns the smallest number that never follows kMark in the text. A client may write many marks with numbers, so the
/// text is searched only once, for all numbers.
uint64_t FreeNumber(std::string_view text) {
  std::set<uint64_t> taken;
  for (size_t at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark, at)) {
    at += kMark.size();
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error == std::errc()) taken.insert(number);
  }
  uint64_t free = 0;
  while (taken.contains(free)) ++free;
  return free;
}

}  // namespace

std::string MarkEndOfLastMessage(OrderedJson& messages) {
  OrderedJson& last = messages.back()["content"];
  std::string content = last.is_string() ? last.get<std::string>() : "";
  if (WithoutSpaces(content).empty())
    JsonFields::Refuse("continue_final_message", "needs a last message that says something");
  std::string mark = fmt::format("{}{}_", kMark, FreeNumber(DumpExactJson(messages)));
  last = content + mark + " ";  // the space shows whether the template strips spaces
  return mark;
}

MarkedText CutAtMark(const MarkedText& text, const std::string& mark) {
  const size_t at = text.text.rfind(mark);
  if (at == std::string::npos)
    JsonFields::Refuse("continue_final_message",
                       "cannot be kept to: the model's template changes the last message; leave it out, or use "
                       "/v1/completions with the text of /v1/chat/completions/render");
  if (text.text.compare(at + mark.size(), 1, " ") == 0) return text.Substring(0, at);
  return text.Substring(0, text.text.find_last_not_of(kSpaces, at - 1) + 1);
}

}  // namespace quire
