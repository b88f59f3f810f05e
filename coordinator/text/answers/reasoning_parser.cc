// Thoughts between marks, and what follows them.
#include <algorithm>
#include <utility>

#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/json_scanner.h"

namespace quire {

namespace {

class ReasoningParser : public AnswerParser {
 public:
  ReasoningParser(ReasoningFormat format, ReasoningStart start, std::unique_ptr<AnswerParser> rest)
      : format_(format), marks_(MarksOf(format)), rest_(std::move(rest)) {
    if (start == ReasoningStart::kInside) state_ = State::kInside;
    if (start == ReasoningStart::kNone) state_ = State::kAnswer;
  }

  void Push(std::string_view text, AnswerParts& out) override {
    if (state_ == State::kAnswer && !wrapped_) return Answer(text, out);
    waiting_ += text;
    while (Step(out)) {
    }
  }

  void Finish(bool cut, AnswerParts& out) override {
    at_end_ = true;
    while (Step(out)) {
    }
    if (state_ == State::kInside) Thoughts(waiting_, out);
    if (state_ != State::kInside && !waiting_.empty()) Answer(waiting_, out);
    waiting_.clear();
    if (rest_ != nullptr) rest_->Finish(cut, out);
  }

  bool in_reasoning() const override { return state_ == State::kInside; }
  size_t held_bytes() const override {
    return waiting_.capacity() + space_.capacity() + (rest_ == nullptr ? 0 : rest_->held_bytes());
  }

 private:
  enum class State { kBefore, kInside, kAfter, kAnswer };

  bool Step(AnswerParts& out) {
    switch (state_) {
      case State::kBefore:
        return Before();
      case State::kInside:
        return Inside(out);
      case State::kAfter:
        return After();
      case State::kAnswer:
        return Wrapped(out);
    }
    return false;
  }

  /// An answer that does not open its thoughts at once has none.
  bool Before() {
    const size_t first = std::min(waiting_.find_first_not_of(kJsonSpace), waiting_.size());
    if (first == waiting_.size() && first <= kMaxSpaceBytes) return false;
    const std::string_view text = std::string_view(waiting_).substr(first);
    if (first > kMaxSpaceBytes) {
      state_ = State::kAnswer;
      return true;
    }
    for (const std::string& mark : marks_.open) {
      if (text.starts_with(mark)) {
        waiting_.erase(0, first + mark.size());
        state_ = State::kInside;
        return true;
      }
      if (!at_end_ && mark.starts_with(text)) return false;
    }
    state_ = State::kAnswer;
    return true;
  }

  bool Inside(AnswerParts& out) {
    size_t first = std::string::npos, length = 0, keep = 0;
    for (const std::string& mark : marks_.close) {
      const size_t found = waiting_.find(mark);
      if (found < first) first = found, length = mark.size();
      keep = std::max(keep, Overlap(mark));
    }
    if (first != std::string::npos) {
      Thoughts(std::string_view(waiting_).substr(0, first), out);
      waiting_.erase(0, first + length);
      state_ = State::kAfter;
      return true;
    }
    if (at_end_) return false;
    Thoughts(std::string_view(waiting_).substr(0, waiting_.size() - keep), out);
    waiting_.erase(0, waiting_.size() - keep);
    return false;
  }

  /// What separates the answer from the thoughts is neither's.
  bool After() {
    const size_t first = waiting_.find_first_not_of(kJsonSpace);
    waiting_.erase(0, first == std::string::npos ? waiting_.size() : first);
    if (waiting_.empty()) return false;
    if (format_ == ReasoningFormat::kGranite) {
      if (!at_end_ && kWrap.starts_with(waiting_) && waiting_.size() < kWrap.size()) return false;
      wrapped_ = waiting_.starts_with(kWrap);
      if (wrapped_) waiting_.erase(0, kWrap.size());
    }
    state_ = State::kAnswer;
    return true;
  }

  /// The answer; a </response> that closes it is not its own.
  bool Wrapped(AnswerParts& out) {
    if (waiting_.empty()) return false;
    if (!wrapped_) {
      Answer(std::exchange(waiting_, {}), out);
      return false;
    }
    const size_t found = waiting_.find(kUnwrap);
    const size_t keep = found != std::string::npos || at_end_ ? 0 : Overlap(kUnwrap);
    const size_t length = found != std::string::npos ? found : waiting_.size() - keep;
    Answer(std::string_view(waiting_).substr(0, length), out);
    waiting_.erase(0, length);
    if (found == std::string::npos) return false;
    waiting_.erase(0, kUnwrap.size());
    wrapped_ = false;
    return true;
  }

  /// Bytes at the end of what waits that may be the beginning of the mark.
  size_t Overlap(std::string_view mark) const {
    for (size_t length = std::min(waiting_.size(), mark.size() - 1); length > 0; --length) {
      if (waiting_.ends_with(mark.substr(0, length))) return length;
    }
    return 0;
  }

  /// Whitespace around thoughts is left out.
  void Thoughts(std::string_view text, AnswerParts& out) {
    if (!thought_) text.remove_prefix(std::min(text.size(), text.find_first_not_of(kJsonSpace)));
    if (text.empty()) return;
    thought_ = true;
    const size_t last = text.find_last_not_of(kJsonSpace);
    if (last == std::string_view::npos) {
      space_ += text;
      return;
    }
    out.push_back({AnswerPart::kReasoning, std::exchange(space_, {}) + std::string(text.substr(0, last + 1)), -1});
    space_ = text.substr(last + 1);
  }

  void Answer(std::string_view text, AnswerParts& out) {
    if (text.empty()) return;
    if (rest_ != nullptr) {
      rest_->Push(text, out);
    } else {
      out.push_back({AnswerPart::kContent, std::string(text), -1});
    }
  }

  static constexpr std::string_view kWrap = "<response>", kUnwrap = "</response>";

  ReasoningFormat format_;
  ReasoningMarks marks_;
  std::unique_ptr<AnswerParser> rest_;
  State state_ = State::kBefore;
  std::string waiting_, space_;
  bool at_end_ = false;
  bool thought_ = false;  // something of the thoughts was handed out
  bool wrapped_ = false;  // the answer stands between <response> and </response>
};

}  // namespace

std::unique_ptr<AnswerParser> MakeReasoningParser(ReasoningFormat format, ReasoningStart start,
                                                  std::unique_ptr<AnswerParser> rest) {
  return std::make_unique<ReasoningParser>(format, start, std::move(rest));
}

}  // namespace quire
