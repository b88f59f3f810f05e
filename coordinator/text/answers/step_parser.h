#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/answers/answer_parser.h"
#include "coordinator/text/answers/json_scanner.h"

namespace quire {

/// Base class of the parsers of single formats. Steps consume waiting text from its front; a step that cannot decide
/// waits for more text. The class also has the functions that calls of all formats need.
class StepParser : public AnswerParser {
 public:
  void Push(std::string_view text, AnswerParts& out) final;
  void Finish(bool cut, AnswerParts& out) final;
  bool in_attempt() const final { return attempt_ || in_call() || !rest().empty(); }
  size_t held_bytes() const override { return waiting_.capacity() + space_.capacity(); }

 protected:
  /// tools: the callable tools; null: none.
  explicit StepParser(std::shared_ptr<const ToolUse> tools) : tools_(std::move(tools)) {}

  /// Consumes text from the front of rest(). Returns false when it needs more text, or when no text is left at the end.
  virtual bool Step() = 0;
  /// Makes the parser treat the following text as plain text. Called after a failed attempt at a call.
  virtual void BackToText() = 0;

  std::string_view rest() const { return std::string_view(waiting_).substr(at_); }
  bool at_end() const { return at_end_; }
  bool cut() const { return cut_; }
  void Skip(size_t bytes) {
    at_ += bytes;
    searched_ = 0;
  }
  /// Returns the position after the whitespace at rest()[from]; the end of rest() if only whitespace follows.
  size_t EndOfSpace(size_t from = 0) const;
  /// Skips whitespace. Returns false when nothing but whitespace was waiting.
  bool SkipSpace();

  enum class Match { kYes, kNo, kUnknown };
  /// Returns whether `text` is at rest()[offset]; kUnknown: more text is needed.
  Match Peek(std::string_view text, size_t offset = 0) const;
  /// Returns whether rest() begins with `text`. Skips `text` for kYes. kUnknown: more text is needed.
  Match Take(std::string_view text);
  /// Does what Take does, for a call's closing text. If the answer was cut inside that text, it counts as complete.
  Match TakeClosing(std::string_view text);
  /// Consumes the text before the mark and the mark itself. Returns the text; nullopt while the mark is missing.
  std::optional<std::string> TakeUntil(std::string_view mark);
  /// Emits all text before the first of the marks, except an end that may be the beginning of a mark. Returns the index
  /// of the mark, which stays at the front of rest(); nullopt: no mark has come.
  std::optional<size_t> PassUntil(const std::vector<std::string>& marks, AnswerPart::Kind kind);

  void Emit(AnswerPart::Kind kind, std::string_view text);

  // Functions for parsing one call. Attempt marks the first byte that may belong to the call.
  void Attempt() { attempt_ = at_; }
  /// Begins a call of the function. Returns false when the function does not exist, or when there are too many calls.
  bool BeginCall(std::string_view name);
  void Arguments(std::string_view piece);
  /// Completes the call that is being parsed.
  void EndCall();
  /// Emits the text since Attempt, which is no call after all, as content or as kBroken. Returns true.
  bool Fail();
  /// Drops the text since Attempt, which was a mark and no content.
  void DropAttempt() { attempt_.reset(); }
  const Tool* tool() const { return tool_; }
  const ToolUse* tools() const { return tools_.get(); }
  bool in_call() const { return tool_ != nullptr; }

  /// Prepares for PassCall: the arguments are a JSON object.
  void BeginArguments() { arguments_ = JsonScanner(); }
  /// Begins the call at the object's opening brace, and emits the object's text as it arrives. Returns kYes when the
  /// call has ended, kNo when the text is no call, kUnknown otherwise.
  Match PassCall(std::string_view name);

 private:
  JsonScanner::Status PassArguments();
  void Run(AnswerParts& out);
  void EmitContent(std::string_view text);
  void Append(AnswerPart::Kind kind, std::string_view text, int call);

  std::shared_ptr<const ToolUse> tools_;
  std::string waiting_;
  size_t at_ = 0;                  // bytes of waiting_ consumed
  size_t searched_ = 0;            // leading bytes of rest() that hold no mark
  std::optional<size_t> attempt_;  // offset in waiting_ where the call began
  bool at_end_ = false, cut_ = false;
  const Tool* tool_ = nullptr;  // tool of the current call; null: none
  int num_calls_ = 0;
  bool has_content_ = false;
  bool after_call_ = false;  // true: only whitespace has come since the last call
  std::string space_;        // whitespace that is content only if words follow
  JsonScanner arguments_;
  AnswerParts* out_ = nullptr;
};

}  // namespace quire
