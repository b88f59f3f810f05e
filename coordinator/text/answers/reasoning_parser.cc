// Separates thoughts between marks from the rest of the answer.
#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/json_scanner.h"

namespace quire {

namespace {

class ReasoningParser : public AnswerParser {
 public:
  ReasoningParser(const AnswerFormat& format, ReasoningStart start,
                  std::function<std::unique_ptr<AnswerParser>()> make_rest)
      : format_(format.reasoning), marks_(MarksOf(format_)), make_rest_(std::move(make_rest)), rest_(make_rest_()) {
    if (const auto calls = MarkersOf({format.tools, ReasoningFormat::kNone}); !calls.empty())
      call_mark_ = calls.front();
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
    // Unclosed thoughts may end with calls; but if the answer was cut, the thoughts might have continued.
    if (state_ == State::kInside && call_ == Call::kBegun && !cut && EndsWithCalls(out)) return;
    if (state_ == State::kInside) Thoughts(waiting_, out);
    if (state_ != State::kInside) Answer(std::exchange(blanks_, {}) + waiting_, out);
    waiting_.clear();
    if (rest_ != nullptr) rest_->Finish(cut, out);
  }

  bool in_reasoning() const override { return state_ == State::kInside; }
  size_t held_bytes() const override {
    const auto held_by = [](const auto& parser) { return parser == nullptr ? 0 : parser->held_bytes(); };
    return waiting_.capacity() + space_.capacity() + blanks_.capacity() + held_by(rest_) + held_by(trial_);
  }

 private:
  enum class State { kBefore, kInside, kAfter, kAnswer };
  enum class Call { kNone, kTried, kBegun };

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

  /// An answer that does not begin with an opening mark has no thoughts.
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
    if (!thought_ && OpensAgain()) return true;
    if (!thought_ && MayOpenAgain()) return false;
    size_t first = std::string::npos, length = 0, keep = 0;
    for (const std::string& mark : marks_.close) {
      const size_t found = waiting_.find(mark, searched_);
      if (found < first) first = found, length = mark.size();
      keep = std::max(keep, Overlap(mark));
    }
    if (first != std::string::npos) {
      TakeThoughts(first, out);
      waiting_.erase(0, length);
      state_ = State::kAfter;
      return true;
    }
    searched_ = waiting_.size() - keep;
    if (call_ != Call::kNone) return GoesOnWithoutCall(out);
    const size_t calls = call_mark_.empty() ? std::string::npos : waiting_.find(call_mark_);
    if (calls != std::string::npos) {
      TakeThoughts(calls, out);
      call_ = Call::kTried;
      trial_ = make_rest_();
      tried_ = 0;
      return true;
    }
    if (at_end_) return false;
    TakeThoughts(waiting_.size() - std::max(keep, call_mark_.empty() ? 0 : Overlap(call_mark_)), out);
    return false;
  }

  /// If the prompt has opened the thoughts, the answer may repeat the opening mark once.
  bool OpensAgain() {
    if (opened_again_) return false;
    waiting_.erase(0, waiting_.find_first_not_of(kJsonSpace));
    for (const std::string& mark : marks_.open) {
      if (!waiting_.starts_with(mark)) continue;
      waiting_.erase(0, mark.size());
      opened_again_ = true;
      return true;
    }
    return false;
  }
  bool MayOpenAgain() const {
    return !at_end_ && !opened_again_ &&
           std::ranges::any_of(marks_.open, [&](const std::string& mark) { return mark.starts_with(waiting_); });
  }

  /// Handles the opening mark of calls inside unclosed thoughts. If a call of a known function follows, all text waits
  /// for the end or for the closing mark of the thoughts. Otherwise the mark belongs to the thoughts. False: waits for
  /// more text.
  bool GoesOnWithoutCall(AnswerParts& out) {
    constexpr size_t kBytesAtOnce = 64, kMostTried = 4096;
    AnswerParts parts;
    while (call_ == Call::kTried && parts.empty() && tried_ < std::min(waiting_.size(), kMostTried)) {
      const std::string_view next = std::string_view(waiting_).substr(tried_, kBytesAtOnce);
      trial_->Push(next.substr(0, kMostTried - tried_), parts);
      tried_ += next.size();
    }
    if (!parts.empty() && parts.front().kind == AnswerPart::kCall) call_ = Call::kBegun;
    if (call_ == Call::kBegun) trial_.reset();
    if (call_ == Call::kBegun || (parts.empty() && tried_ < kMostTried)) return false;
    trial_.reset();
    TakeThoughts(call_mark_.size(), out);
    return true;
  }

  bool EndsWithCalls(AnswerParts& out) {
    AnswerParts parts;
    rest_->Push(waiting_, parts);
    rest_->Finish(false, parts);
    const auto is_broken = [](const AnswerPart& part) { return part.kind == AnswerPart::kBroken; };
    if (std::ranges::any_of(parts, is_broken)) {
      rest_ = make_rest_();
      return false;
    }
    std::ranges::move(parts, std::back_inserter(out));
    waiting_.clear();
    return true;
  }

  void TakeThoughts(size_t length, AnswerParts& out) {
    Thoughts(std::string_view(waiting_).substr(0, length), out);
    waiting_.erase(0, length);
    searched_ = 0;
    call_ = Call::kNone;
  }

  /// Drops whitespace and further closing marks between thoughts and answer.
  bool After() {
    const size_t first = waiting_.find_first_not_of(kJsonSpace);
    waiting_.erase(0, first == std::string::npos ? waiting_.size() : first);
    if (waiting_.empty()) return false;
    for (const std::string& mark : marks_.close) {
      if (!at_end_ && waiting_.size() < mark.size() && mark.starts_with(waiting_)) return false;
      if (!waiting_.starts_with(mark)) continue;
      waiting_.erase(0, mark.size());
      return true;
    }
    if (format_ == ReasoningFormat::kGranite) {
      if (!at_end_ && kWrap.starts_with(waiting_) && waiting_.size() < kWrap.size()) return false;
      wrapped_ = waiting_.starts_with(kWrap);
      if (wrapped_) waiting_.erase(0, kWrap.size());
    }
    state_ = State::kAnswer;
    return true;
  }

  /// Emits the answer without the </response> that closes it, and without the blanks inside next to either tag.
  bool Wrapped(AnswerParts& out) {
    if (waiting_.empty()) return false;
    if (!wrapped_) {
      Answer(std::exchange(waiting_, {}), out);
      return false;
    }
    const size_t found = waiting_.find(kUnwrap);
    const size_t keep = found != std::string::npos || at_end_ ? 0 : Overlap(kUnwrap);
    const size_t length = found != std::string::npos ? found : waiting_.size() - keep;
    WrappedWords(std::string_view(waiting_).substr(0, length), out);
    waiting_.erase(0, length);
    if (found == std::string::npos) return false;
    waiting_.erase(0, kUnwrap.size());
    blanks_.clear();
    wrapped_ = false;
    return true;
  }

  void WrappedWords(std::string_view text, AnswerParts& out) {
    if (!worded_) text.remove_prefix(std::min(text.size(), text.find_first_not_of(kJsonSpace)));
    const size_t last = text.find_last_not_of(kJsonSpace);
    if (last != std::string_view::npos) {
      worded_ = true;
      Answer(std::exchange(blanks_, {}) + std::string(text.substr(0, last + 1)), out);
      text.remove_prefix(last + 1);
    }
    blanks_ += text;
  }

  /// Length of the end of waiting_ that may begin the mark.
  size_t Overlap(std::string_view mark) const {
    for (size_t length = std::min(waiting_.size(), mark.size() - 1); length > 0; --length) {
      if (waiting_.ends_with(mark.substr(0, length))) return length;
    }
    return 0;
  }

  /// Emits thoughts without surrounding whitespace.
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
  std::string call_mark_;  // opening mark of calls; empty: calls in thoughts are not searched
  std::function<std::unique_ptr<AnswerParser>()> make_rest_;
  std::unique_ptr<AnswerParser> rest_;
  std::unique_ptr<AnswerParser> trial_;  // parses the text after that mark while call_ is kTried
  Call call_ = Call::kNone;
  size_t tried_ = 0, searched_ = 0;  // bytes of waiting_ given to trial_; bytes known to hold no closing mark
  State state_ = State::kBefore;
  std::string waiting_, space_;
  bool at_end_ = false;
  bool opened_again_ = false;
  bool thought_ = false;  // part of the thoughts was emitted
  bool wrapped_ = false;  // the answer stands in <response>...</response>
  bool worded_ = false;   // words came after <response>
  std::string blanks_;    // after these words
};

}  // namespace

std::unique_ptr<AnswerParser> MakeReasoningParser(const AnswerFormat& format, ReasoningStart start,
                                                  std::function<std::unique_ptr<AnswerParser>()> make_rest) {
  return std::make_unique<ReasoningParser>(format, start, std::move(make_rest));
}

}  // namespace quire
