#include "coordinator/text/answers/xml_calls_parser.h"

#include <algorithm>

#include "coordinator/text/answers/cut_value.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/answers/typed_values.h"

namespace quire {

bool XmlCallsParser::Step() {
  switch (state_) {
    case State::kText:
      return Text();
    case State::kHead:
      return Head();
    case State::kBetween:
      return Between();
    case State::kKey:
      return Key();
    case State::kBeforeValue:
      return BeforeValue();
    case State::kValue:
      return Value();
    case State::kEnd:
      return End();
  }
  return false;
}

bool XmlCallsParser::Begin(std::string name) {
  const size_t first = name.find_first_not_of(kJsonSpace), last = name.find_last_not_of(kJsonSpace);
  name = first == std::string::npos ? "" : name.substr(first, last - first + 1);
  if (!BeginCall(name)) return Fail();
  given_.clear();
  key_.clear();
  Arguments("{");
  state_ = State::kBetween;
  return true;
}

bool XmlCallsParser::Close() {
  Arguments("}");
  EndCall();
  state_ = State::kEnd;
  return true;
}

/// Reads the text between two parameters. Accepts a missing closing tag at the answer's end, and before text that can
/// only follow calls.
bool XmlCallsParser::Between() {
  if (!SkipSpace()) return at_end() && !cut() && Close();
  const Match key = Take(tags_.key);
  if (key == Match::kYes) {
    state_ = State::kKey;
    return true;
  }
  const Match close = Take(tags_.close);
  if (close == Match::kYes) return Close();
  bool waits = key == Match::kUnknown || close == Match::kUnknown;
  for (const std::string_view tag : tags_.behind) {
    const Match behind = is_kept() ? Match::kNo : Peek(tag);
    if (behind == Match::kYes) return Close();
    waits |= behind == Match::kUnknown;
  }
  return waits || CutInTag({tags_.key, tags_.close}) ? false : Fail();
}

bool XmlCallsParser::Value() {
  const std::optional<ValueEnd> end = FindValueEnd();
  if (!end && !is_cut()) return false;
  // If the answer was cut inside the value, the beginning of a tag at the value's end does not belong to the value.
  const std::string_view value = Separated(rest().substr(0, end ? end->at : scanned_), end.has_value() && end->tag > 0);
  if (!end) {
    CutArgument(value);
    return false;
  }
  Argument(value);
  Skip(end->at + end->tag);
  return true;
}

std::string XmlCallsParser::Typed(std::string_view value) const { return TypedValue(*tool(), key_, value); }

std::string XmlCallsParser::TypedCut(std::string_view value) const { return CutValue(*tool(), key_, value); }

void XmlCallsParser::Argument(std::string_view value) {
  Arguments(BeginOfArgument(JsonString(key_) + ": ") + Typed(value));
  given_.push_back(key_);
  state_ = State::kBetween;
}

std::optional<std::string> XmlCallsParser::BoundedKey(std::initializer_list<std::string_view> marks, bool& failed) {
  size_t end = std::string_view::npos, longest = 0;
  for (const std::string_view mark : marks) {
    end = std::min(end, rest().find(mark));
    longest = std::max(longest, mark.size());
  }
  const bool is_there = end != std::string_view::npos;
  if (!is_there && is_cut()) {
    CutKey(marks);
    return std::nullopt;
  }
  failed = is_there ? end > kMaxParameterBytes : rest().size() > kMaxParameterBytes + longest || at_end();
  if (failed) Fail();
  if (failed || !is_there) return std::nullopt;
  std::string key(rest().substr(0, end));
  Skip(end);
  return key;
}

std::optional<XmlCallsParser::ValueEnd> XmlCallsParser::FindValueEnd() {
  while ((scanned_ = rest().find('<', scanned_)) != std::string_view::npos) {
    const Match closes = PeekTag(tags_.close_value, scanned_);
    if (closes == Match::kUnknown) return std::nullopt;
    if (closes == Match::kYes) return ValueEnd{scanned_, tags_.close_value.size()};
    const Match follows = is_kept() ? Match::kNo : FollowsValue(scanned_);
    if (follows == Match::kUnknown) return std::nullopt;
    if (follows == Match::kYes) return ValueEnd{scanned_, 0};
    ++scanned_;
  }
  scanned_ = rest().size();
  return std::nullopt;
}

StepParser::Match XmlCallsParser::PeekTag(std::string_view tag, size_t at) const {
  const std::string_view there = rest().substr(at);
  return is_cut() && there.size() < tag.size() && tag.starts_with(there) ? Match::kUnknown : Peek(tag, at);
}

StepParser::Match XmlCallsParser::NamesParameter(std::string_view open, std::string_view close, size_t at) const {
  const Match begins = PeekTag(open, at);
  if (begins != Match::kYes) return begins;
  const std::string_view text = rest().substr(at + open.size());
  const size_t end = text.find(close);
  if (end == std::string_view::npos)
    return (at_end() && !cut()) || text.size() > kMaxParameterBytes ? Match::kNo : Match::kUnknown;
  const std::string name(text.substr(0, end));
  const bool given = name == key_ || std::ranges::find(given_, name) != given_.end();
  const OrderedJson& schema = tool()->parameters;
  const bool lists = schema.is_object() && schema.contains("properties") && schema["properties"].is_object();
  const bool known = lists ? schema["properties"].contains(name) : at > 0 && rest()[at - 1] == '\n';
  return known && !given ? Match::kYes : Match::kNo;
}

StepParser::Match XmlCallsParser::StandsBefore(std::string_view tag, std::string_view next, size_t at) const {
  const Match begins = PeekTag(tag, at);
  if (begins != Match::kYes) return begins;
  const size_t after = EndOfSpace(at + tag.size());
  if (after < rest().size()) return PeekTag(next, after);
  return at_end() && !cut() ? Match::kYes : Match::kUnknown;
}

bool XmlCallsParser::is_kept() const {
  const ToolChoice::Mode mode = tools()->choice.mode;
  return tool()->strict || mode == ToolChoice::kRequired || mode == ToolChoice::kNamed;
}

/// Emits the part of a key that had come when the answer was cut inside the key.
void XmlCallsParser::CutKey(std::initializer_list<std::string_view> marks) {
  std::string_view begun = WithoutBegunTag(marks);
  while (begun.ends_with('\n')) begun.remove_suffix(1);  // a line break before the tag is not part of the key
  std::string key = JsonString(begun);
  key.pop_back();
  Arguments(BeginOfArgument(key));
  Skip(rest().size());
}

void XmlCallsParser::CutArgument(std::string_view value) {
  Arguments(BeginOfArgument(JsonString(key_) + ": ") + TypedCut(value));
  Skip(rest().size());
}

bool XmlCallsParser::CutInTag(std::initializer_list<std::string_view> tags) {
  const auto begins = [&](std::string_view tag) { return tag.size() > rest().size() && tag.starts_with(rest()); };
  if (!is_cut() || !std::ranges::any_of(tags, begins)) return false;
  Skip(rest().size());
  return true;
}

std::string_view XmlCallsParser::WithoutBegunTag(std::initializer_list<std::string_view> tags) const {
  size_t begun = 0;
  for (const std::string_view tag : tags) {
    size_t length = std::min(tag.size() - 1, rest().size());
    while (length > begun && !rest().ends_with(tag.substr(0, length))) --length;
    begun = std::max(begun, length);
  }
  return rest().substr(0, rest().size() - begun);
}

}  // namespace quire
