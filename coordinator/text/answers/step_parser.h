#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/answers/answer_parser.h"
#include "coordinator/text/answers/json_scanner.h"

namespace quire {

/// What parsers of one format are made of: text that waits, steps that take from its front, and what calls have in
/// common. What a step cannot decide yet it leaves for when there is more text.
class StepParser : public AnswerParser {
 public:
  void Push(std::string_view text, AnswerParts& out) final;
  void Finish(bool cut, AnswerParts& out) final;
  size_t held_bytes() const override { return waiting_.capacity() + space_.capacity(); }

 protected:
  /// tools: those that may be called; null: none.
  explicit StepParser(std::shared_ptr<const ToolUse> tools) : tools_(std::move(tools)) {}

  /// Takes what can be taken from the front of rest(). False: there has to be more text, or, at the end, nothing is
  /// left to do.
  virtual bool Step() = 0;
  /// After a failed attempt at a call: what the text is from here on.
  virtual void BackToText() = 0;

  std::string_view rest() const { return std::string_view(waiting_).substr(at_); }
  bool at_end() const { return at_end_; }
  bool cut() const { return cut_; }
  void Skip(size_t bytes) {
    at_ += bytes;
    searched_ = 0;
  }
  /// Where the whitespace at rest()[from] ends; the end of rest() where nothing else is there yet.
  size_t EndOfSpace(size_t from = 0) const;
  /// False when all that waits is whitespace, of which nothing is left then.
  bool SkipSpace();

  enum class Match { kYes, kNo, kUnknown };
  /// Whether the text stands at rest()[offset].
  Match Peek(std::string_view text, size_t offset = 0) const;
  /// Whether rest() begins with the text; kYes: it is skipped.
  Match Take(std::string_view text);
  /// The same for what closes a call; an answer that was cut in it has it.
  Match TakeClosing(std::string_view text);
  /// The part of rest() before the mark, which is skipped with it; nothing while there is none.
  std::optional<std::string> TakeUntil(std::string_view mark);
  /// Hands out all before the first of the marks, less what may turn out to begin one. The mark's number when it is
  /// there; it is left at the front of rest().
  std::optional<size_t> PassUntil(const std::vector<std::string>& marks, AnswerPart::Kind kind);

  void Emit(AnswerPart::Kind kind, std::string_view text);

  // A call, from the first byte that may belong to one.
  void Attempt() { attempt_ = at_; }
  /// False: there is no such function, or there were too many calls.
  bool BeginCall(std::string_view name);
  void Arguments(std::string_view piece);
  /// The call is whole.
  void EndCall();
  /// What was taken since Attempt is no call, or has ceased to be one. Always true: what follows is text.
  bool Fail();
  /// What was taken since Attempt was about the text, and not of it.
  void DropAttempt() { attempt_.reset(); }
  const Tool* tool() const { return tool_; }
  const ToolUse* tools() const { return tools_.get(); }
  bool in_call() const { return tool_ != nullptr; }

  /// Before arguments that are the text of a JSON object.
  void BeginArguments() { arguments_ = JsonScanner(); }
  /// Begins the call at the object's brace and hands its text out, byte by byte. kYes: the call has ended; kNo: there
  /// is none.
  Match PassCall(std::string_view name);

 private:
  JsonScanner::Status PassArguments();
  void Run(AnswerParts& out);
  void EmitContent(std::string_view text);
  void Append(AnswerPart::Kind kind, std::string_view text, int call);

  std::shared_ptr<const ToolUse> tools_;
  std::string waiting_;
  size_t at_ = 0;                  // of waiting_ is taken
  size_t searched_ = 0;            // of rest() holds no mark that is looked for
  std::optional<size_t> attempt_;  // where in waiting_ the call began
  bool at_end_ = false, cut_ = false;
  const Tool* tool_ = nullptr;  // of the call that has begun
  int num_calls_ = 0;
  bool has_content_ = false;
  bool after_call_ = false;  // nothing but whitespace was content since
  std::string space_;        // content, if words follow it
  JsonScanner arguments_;
  AnswerParts* out_ = nullptr;
};

}  // namespace quire
