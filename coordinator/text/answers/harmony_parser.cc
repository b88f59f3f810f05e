// Parser of gpt-oss's answers (Harmony), which consist of messages: <|channel|>name to=recipient
// <|constrain|>json<|message|>text<|end|>, followed by <|start|>assistant and the next message. The channel "analysis"
// holds thoughts, calls have the recipient functions.name, and all other text is for the client.
#include <algorithm>

#include "coordinator/text/answers/format_parsers.h"
#include "coordinator/text/answers/step_parser.h"
#include "coordinator/text/answers/tool.h"

namespace quire {

namespace {

constexpr std::string_view kStart = "<|start|>", kChannel = "<|channel|>", kMessage = "<|message|>", kEnd = "<|end|>",
                           kCall = "<|call|>", kReturn = "<|return|>", kRecipient = "to=", kFunctions = "functions.",
                           kRole = "assistant<|channel|>";  // a head that lacks its <|start|>
constexpr size_t kMaxHeadBytes = 512;

/// Returns the recipient that a message's head names; empty when it names none.
std::string RecipientOf(std::string_view head) {
  const size_t at = head.find(kRecipient);
  if (at == std::string_view::npos) return "";
  head.remove_prefix(at + kRecipient.size());
  return std::string(head.substr(0, head.find_first_of(" <\t\n")));
}

/// Removes abandoned channels from a message's head. A model sometimes begins a channel anew; then only the last
/// channel counts. If the last channel has the first channel's name but no recipient, the result has the first
/// channel's recipient.
std::string WithOneChannel(const std::string& head) {
  const size_t first = head.find(kChannel), last = head.rfind(kChannel);
  if (first == last) return head;
  const std::string left = head.substr(first, last - first), taken = head.substr(last);
  const auto name = [](const std::string& channel) {
    return channel.substr(0, channel.find_first_of(" <\t\n", kChannel.size()));
  };
  const bool repeats = RecipientOf(taken).empty() && name(taken) == name(left);
  return head.substr(0, first) + (repeats ? left : taken);
}

class HarmonyParser : public StepParser {
 public:
  explicit HarmonyParser(std::shared_ptr<const ToolUse> tools) : StepParser(std::move(tools)) {}

  bool in_reasoning() const override { return state_ == State::kThoughts; }

 private:
  enum class State { kFirst, kHead, kThoughts, kWords, kArguments, kBetween };

  bool Step() override {
    static const std::vector<std::string> kEnds = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};
    switch (state_) {
      case State::kFirst:
        return First();
      case State::kHead:
        return Head();
      case State::kThoughts:
      case State::kWords: {
        const auto kind = state_ == State::kThoughts ? AnswerPart::kReasoning : AnswerPart::kContent;
        if (!PassUntil(kEnds, kind)) return false;
        state_ = State::kBetween;
        return true;
      }
      case State::kArguments:
        return ArgumentsOfCall();
      case State::kBetween:
        return Between(kEnds);
    }
    return false;
  }

  void BackToText() override { state_ = State::kWords; }

  /// Decides how the answer begins. The prompt ends with "<|start|>assistant", so the answer should begin inside a
  /// message head, but some answers begin with words.
  bool First() {
    Attempt();
    for (const std::string_view begin : {kChannel, kStart, kMessage, std::string_view(" to="), kRole}) {
      if (rest().starts_with(begin)) {
        state_ = State::kHead;
        return true;
      }
      if (!at_end() && begin.starts_with(rest())) return false;
    }
    return Fail();
  }

  /// Reads a head up to its message. A head without a message is dropped, because models then start a new head.
  bool Head() {
    size_t end = rest().find(kMessage);
    for (const std::string_view other : {kEnd, kCall, kReturn, kStart}) end = std::min(end, rest().find(other, 1));
    const bool is_there = end != std::string_view::npos;
    if (!is_there && !at_end() && rest().size() < kMaxHeadBytes + kMessage.size()) return false;
    if (is_there ? end > kMaxHeadBytes : !at_end() || !BeginsWithMark()) {
      Skip(std::min(rest().size(), kMaxHeadBytes));
      return Fail();
    }
    const std::string head = WithOneChannel(std::string(rest().substr(0, end)));
    Skip(std::min(end, rest().size()));
    const bool has_message = Take(kMessage) == Match::kYes;
    if (has_message && BeginsCall(head)) return true;
    const size_t channel = head.find(kChannel);
    const bool thoughts = channel != std::string::npos && head.compare(channel + kChannel.size(), 8, "analysis") == 0;
    DropAttempt();
    state_ = !has_message ? State::kBetween : thoughts ? State::kThoughts : State::kWords;
    return true;
  }

  /// Begins a call if the head's message calls a function. A call of an unknown function becomes words. Returns false
  /// when the message is no call.
  bool BeginsCall(const std::string& head) {
    std::string to = tools() == nullptr ? "" : RecipientOf(head);
    const bool says_function = to.starts_with(kFunctions);
    if (says_function) to.erase(0, kFunctions.size());
    if (to.empty() || (tools()->Find(to) == nullptr && !says_function)) return false;
    if (tools()->Find(to) == nullptr) return Fail();
    name_ = to;
    BeginArguments();
    state_ = State::kArguments;
    return true;
  }

  bool BeginsWithMark() const {
    return rest().starts_with(kChannel) || rest().starts_with(kStart) || rest().starts_with(kMessage);
  }

  bool ArgumentsOfCall() {
    const Match whole = PassCall(name_);
    if (whole != Match::kYes) return whole == Match::kNo && Fail();
    state_ = State::kBetween;
    return true;
  }

  /// Parses the text after a message: its closing token, then the next head.
  bool Between(const std::vector<std::string>& ends) {
    if (!SkipSpace()) return false;
    for (const std::string& end : ends) {
      if (!rest().starts_with(end)) {
        if (!at_end() && end.starts_with(rest())) return false;
        continue;
      }
      if (end == kStart || end == kChannel) {
        Attempt();
        state_ = State::kHead;
      } else {
        Skip(end.size());
      }
      return true;
    }
    if (Peek(kRole) == Match::kUnknown) return false;
    if (Peek(kRole) == Match::kYes) Attempt();
    state_ = Peek(kRole) == Match::kYes ? State::kHead : State::kWords;
    return true;
  }

  State state_ = State::kFirst;
  std::string name_;
};

}  // namespace

std::unique_ptr<AnswerParser> MakeHarmonyParser(std::shared_ptr<const ToolUse> tools) {
  return std::make_unique<HarmonyParser>(std::move(tools));
}

}  // namespace quire
