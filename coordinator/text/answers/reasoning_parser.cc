// The parser in this file separates thoughts, which are between marks, from the other text of an answer.
#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/json_scanner.h"
#include "coordinator/text/answers/response_words.h"

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
    if (start == ReasoningStart::kNone) state_ = has_response() ? State::kAfter : State::kAnswer;
  }

  void Push(std::string_view text, AnswerParts& out) override {
    if (state_ == State::kAnswer && !response_ && !may_think_again()) return Answer(text, out);
    waiting_ += text;
    while (Step(out)) {
    }
  }

  void Finish(bool cut, AnswerParts& out) override {
    at_end_ = true;
    while (Step(out)) {
    }
    // Thoughts without a closing mark may end with calls. If the answer was cut, the thoughts might have gone on, so
    // they do not end with calls.
    if (state_ == State::kInside && call_ == Call::kBegun && !cut && EndsWithCalls(out)) return;
    if (state_ == State::kInside) Thoughts(waiting_, out);
    if (state_ != State::kInside) Answer((response_ ? response_->TakeBlanks() : "") + waiting_, out);
    waiting_.clear();
    if (rest_ != nullptr) rest_->Finish(cut, out);
  }

  bool in_reasoning() const override { return state_ == State::kInside; }
  size_t held_bytes() const override {
    const auto held_by = [](const auto& parser) { return parser == nullptr ? 0 : parser->held_bytes(); };
    const size_t blanks = response_ ? response_->held_bytes() : 0;
    return waiting_.capacity() + space_.capacity() + blanks + held_by(rest_) + held_by(trial_);
  }

 private:
  enum class State { kBefore, kInside, kAfter, kAnswer };
  enum class Call { kNone, kTried, kBegun };

  /// True when the words of every answer are between marks, even without thoughts.
  bool has_response() const { return format_ == ReasoningFormat::kCommand3; }
  bool may_think_again() const { return format_ == ReasoningFormat::kInterleaved; }

  bool Step(AnswerParts& out) {
    switch (state_) {
      case State::kBefore:
        return Before();
      case State::kInside:
        return Inside(out);
      case State::kAfter:
        return After();
      case State::kAnswer:
        return AnswerStep(out);
    }
    return false;
  }

  /// Decides whether the answer begins with the mark of thoughts. Returns false when more text is needed.
  bool Before() {
    const size_t first = std::min(waiting_.find_first_not_of(kJsonSpace), waiting_.size());
    if (first == waiting_.size() && first <= kMaxSpaceBytes) return false;
    const std::string_view text = std::string_view(waiting_).substr(first);
    if (first > kMaxSpaceBytes) return BeginAnswer(first);
    for (const std::string& mark : marks_.open) {
      if (text.starts_with(mark)) {
        waiting_.erase(0, first + mark.size());
        state_ = State::kInside;
        return true;
      }
      if (!at_end_ && mark.starts_with(text)) return false;
    }
    return BeginAnswer(first);
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

  /// Skips an opening mark at the beginning of thoughts that the prompt has opened. An answer may repeat the mark once.
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

  /// Handles the opening mark of calls inside thoughts that are not closed. If a call of a known function follows,
  /// holds all text until the answer ends or the thoughts are closed. Otherwise the mark belongs to the thoughts.
  /// Returns false when more text is needed.
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
    return BeginAnswer(0, true);
  }

  /// Begins the words after `blanks` bytes of whitespace. thought: after thoughts. Returns false if it needs more text.
  bool BeginAnswer(size_t blanks, bool thought = false) {
    const std::string& mark = marks_.response;
    if (!mark.empty() && (thought || has_response())) {
      const std::string_view text = std::string_view(waiting_).substr(blanks);
      const bool may_open = blanks <= kMaxSpaceBytes;
      if (may_open && !at_end_ && text.size() < mark.size() && mark.starts_with(text)) return false;
      const bool opens = may_open && text.starts_with(mark);
      if (opens) waiting_.erase(0, blanks + mark.size());
      // If the answer does not begin with a mark, the prompt may have ended with it, so the closing mark is searched.
      if (opens || has_response()) response_.emplace(marks_.response_end, opens);
    }
    state_ = State::kAnswer;
    return true;
  }

  /// Passes the answer on, up to a mark that opens thoughts again, or that closes the answer's words.
  bool AnswerStep(AnswerParts& out) {
    if (waiting_.empty()) return false;
    if (may_think_again()) return UntilThoughts(out);
    if (!response_) {
      Answer(std::exchange(waiting_, {}), out);
      return false;
    }
    Answer(response_->Take(waiting_, at_end_), out);
    if (!response_->is_over()) return false;
    response_.reset();
    return true;
  }

  /// Passes the answer on up to a mark that opens thoughts. A mark inside a call belongs to the call.
  bool UntilThoughts(AnswerParts& out) {
    const std::string& mark = marks_.open.front();
    const size_t found = waiting_.find(mark);
    const bool is_there = found != std::string::npos;
    const size_t length = is_there ? found : waiting_.size() - (at_end_ ? 0 : Overlap(mark));
    Answer(std::string_view(waiting_).substr(0, length), out);
    waiting_.erase(0, length);
    if (!is_there) return false;
    if (rest_ != nullptr && rest_->in_attempt()) {
      Answer(mark, out);
    } else {
      state_ = State::kInside;
      opened_again_ = true;
      thought_before_ |= std::exchange(thought_, false);
      space_ = thought_before_ ? "\n\n" : "";
    }
    waiting_.erase(0, mark.size());
    return true;
  }

  /// Returns the length of the longest end of waiting_ that may be the beginning of the mark; 0: none.
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

  ReasoningFormat format_;
  ReasoningMarks marks_;
  std::string call_mark_;  // opening mark of calls; empty: calls in thoughts are not searched
  std::function<std::unique_ptr<AnswerParser>()> make_rest_;
  std::unique_ptr<AnswerParser> rest_;
  std::unique_ptr<AnswerParser> trial_;  // parses the text from call_mark_ on while call_ is kTried
  Call call_ = Call::kNone;
  size_t tried_ = 0, searched_ = 0;  // bytes of waiting_ given to trial_; bytes known to hold no closing mark
  State state_ = State::kBefore;
  std::string waiting_, space_;
  bool at_end_ = false;
  bool opened_again_ = false;
  bool thought_ = false;                   // part of these thoughts was emitted
  bool thought_before_ = false;            // part of earlier thoughts was emitted
  std::optional<ResponseWords> response_;  // set when the answer's words may have marks around them
};

}  // namespace

std::unique_ptr<AnswerParser> MakeReasoningParser(const AnswerFormat& format, ReasoningStart start,
                                                  std::function<std::unique_ptr<AnswerParser>()> make_rest) {
  return std::make_unique<ReasoningParser>(format, start, std::move(make_rest));
}

}  // namespace quire
