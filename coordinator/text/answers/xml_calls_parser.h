#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/text/answers/step_parser.h"

namespace quire {

/// Base class of parsers for calls that are written with tags: a function's name, then keys and values. The tool's
/// schema gives the types of values. If a model forgot a closing tag, the next tag ends the value.
class XmlCallsParser : public StepParser {
 protected:
  /// The tags with which a format writes its calls.
  struct Tags {
    std::string_view key, close_value, close;  // key: text before a parameter's name; close: text that closes the call
    std::vector<std::string_view> behind;      // texts that may follow a call; they end a call without `close`
  };
  XmlCallsParser(std::shared_ptr<const ToolUse> tools, const Tags& tags) : StepParser(std::move(tools)), tags_(tags) {}

  enum class State { kText, kHead, kBetween, kKey, kBeforeValue, kValue, kEnd };
  static constexpr size_t kMaxParameterBytes = 256;

  bool Step() override;
  void BackToText() override { state_ = State::kText; }

  virtual bool Text() = 0;
  virtual bool Head() = 0;
  virtual bool Key() = 0;
  virtual bool BeforeValue() = 0;
  virtual bool End() = 0;
  /// Returns a value without the separators next to its tags. closed: the value has its closing tag.
  virtual std::string_view Separated(std::string_view value, bool closed) const = 0;

  bool Begin(std::string name);
  void BeginValue() {
    scanned_ = 0;
    state_ = State::kValue;
  }

  /// Returns the key before the first of these marks, which stays in rest(). Returns nullopt when no mark has come yet,
  /// or when the text is no call; in the latter case sets `failed`.
  std::optional<std::string> BoundedKey(std::initializer_list<std::string_view> marks, bool& failed);

  /// Returns a value as JSON, typed by the tool's schema.
  virtual std::string Typed(std::string_view value) const;
  /// Returns the beginning of a value's JSON, for a value inside which the answer was cut.
  virtual std::string TypedCut(std::string_view value) const;

  /// Returns whether the text at rest()[at] is one that can only follow a value. Called for values without a closing
  /// tag.
  virtual Match FollowsValue(size_t at) const = 0;
  /// Returns whether rest()[at] begins with `open`, the name of a parameter without a value, and `close`. If the
  /// function's schema lists no parameters, any name counts at the beginning of a line.
  Match NamesParameter(std::string_view open, std::string_view close, size_t at) const;
  /// Returns whether `tag` is at rest()[at], followed by whitespace and then by `next` or the end.
  Match StandsBefore(std::string_view tag, std::string_view next, size_t at) const;

  bool is_cut() const { return at_end() && cut(); }
  /// Called when the answer was cut inside or before a value. Emits the argument with `value`, the part of the value
  /// that has come.
  void CutArgument(std::string_view value);
  /// If the answer was cut inside one of these tags, skips the tag's beginning, which is no content, and returns true.
  bool CutInTag(std::initializer_list<std::string_view> tags);

  State state_ = State::kText;
  std::string key_;

 private:
  bool Between();
  bool Value();
  bool Close();
  void Argument(std::string_view value);
  /// True when a grammar constrains the call. Then all tags of the call are present, and values may contain text like
  /// tags.
  bool is_kept() const;
  /// The end of a value: its offset in rest(), and the bytes of the closing tag at this offset (0: no closing tag).
  struct ValueEnd {
    size_t at, tag;
  };
  /// Returns the end of the value that is being read; nullopt when the value has no end yet.
  std::optional<ValueEnd> FindValueEnd();
  /// Returns whether `tag` is at rest()[at]; kUnknown: more text is needed, or the answer was cut in the tag.
  Match PeekTag(std::string_view tag, size_t at) const;
  /// Returns rest(). If rest() ends with the beginning of one of these tags, leaves this unfinished tag out.
  std::string_view WithoutBegunTag(std::initializer_list<std::string_view> tags) const;
  void CutKey(std::initializer_list<std::string_view> marks);
  std::string BeginOfArgument(const std::string& member) const { return (given_.empty() ? "" : ", ") + member; }

  const Tags tags_;
  std::vector<std::string> given_;  // parameters of the call that have values
  size_t scanned_ = 0;              // number of bytes of rest() that do not end the value
};

}  // namespace quire
