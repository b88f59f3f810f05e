#include "coordinator/api/openai/whole_answer.h"

namespace quire {

namespace {

constexpr size_t kAboutPerToken = 60, kAboutPerAlternative = 30;  // usual bytes of JSON

/// Returns the text of an object without its closing brace, so that members can follow.
std::string OpenObject(const Json& object) {
  std::string text = DumpJson(object);
  text.pop_back();
  return text;
}

}  // namespace

WholeAnswer::WholeAnswer(ResponseBuilder builder, std::vector<AnswerChoice> choices, bool with_logprobs,
                         const Usage& usage)
    : builder_(std::move(builder)), choices_(std::move(choices)), with_logprobs_(with_logprobs) {
  Json envelope = builder_.Envelope(false);
  envelope["usage"] = usage.ToJson();
  const auto& prompt = choices_.front().prompt;
  if (builder_.chat() && prompt != nullptr && !prompt->ids.empty()) envelope["prompt_token_ids"] = prompt->ids;
  envelope_ = DumpJson(envelope).substr(1);
}

size_t WholeAnswer::estimated_bytes() const {
  size_t bytes = envelope_.size();
  for (const AnswerChoice& choice : choices_) {
    const size_t top = choice.tokens.empty() ? 0 : choice.tokens.front().top.size();
    for (const AnswerCall& call : choice.calls) bytes += kAboutPerToken + call.name.size() + call.arguments.size();
    bytes += choice.text.size() + 2 * choice.reasoning.size() +
             choice.tokens.size() * (kAboutPerToken + top * kAboutPerAlternative);
    if (choice.prompt == nullptr) continue;
    const AnswerPrompt& prompt = *choice.prompt;
    const int most = std::max(prompt.num_echoed_top, 0) + 2 * (prompt.num_listed_top + 1);
    bytes +=
        prompt.text.size() + prompt.tokens.size() * (kAboutPerToken + static_cast<size_t>(most) * kAboutPerAlternative);
  }
  return bytes;
}

/// Returns the most bytes that making the next piece takes. The texts of a choice exist twice: in a JSON tree and in
/// the tree's text.
size_t WholeAnswer::most_bytes() const {
  if (choice_ == choices_.size()) return envelope_.size();
  const AnswerChoice& choice = choices_[choice_];
  size_t bytes = choice.text.size() + 2 * choice.reasoning.size();
  for (const AnswerCall& call : choice.calls) bytes += call.name.size() + call.arguments.size();
  if (choice.prompt != nullptr) bytes += choice.prompt->text.size();
  return (1 + kEscapedBytes) * bytes + envelope_.size();
}

std::string WholeAnswer::Next(size_t bytes) {
  std::string out;
  while (out.size() < bytes && stage_ != Stage::kDone) {
    if (stage_ == Stage::kOpening) {
      out += R"({"choices":[)";
      stage_ = Stage::kChoice;
    } else if (stage_ == Stage::kList) {
      Continue(out);
    } else if (stage_ == Stage::kPrompt) {
      ContinuePrompt(out);
    } else if (choice_ < choices_.size()) {
      BeginChoice(out);
    } else {
      End(out);
    }
  }
  return out;
}

void WholeAnswer::BeginChoice(std::string& out) {
  if (choice_ > 0) out += ',';
  prompt_ = choices_[choice_].prompt;
  out += OpenObject(builder_.WholeChoice(choice_, choices_[choice_])) + R"(,"logprobs":)";
  stage_ = Stage::kList;
  list_ = token_ = 0;
  if (!with_logprobs_) {
    out += "null";
    EndChoice(out);
  }
}

/// Appends one entry of a list of log-probabilities, with the punctuation around it.
void WholeAnswer::Continue(std::string& out) {
  const auto& tokens = choices_[choice_].tokens;
  const size_t echoed = prompt_ != nullptr && prompt_->num_echoed_top >= 0 ? prompt_->tokens.size() : 0;
  const auto& lists = builder_.LogprobLists();
  if (token_ == 0) out += std::string(list_ == 0 ? "{" : ",") + "\"" + lists[list_] + "\":[";
  if (token_ < echoed + tokens.size()) {
    if (token_ > 0) out += ',';
    out += DumpJson(token_ < echoed ? builder_.LogprobEntry(list_, prompt_->tokens[token_],
                                                            static_cast<size_t>(prompt_->num_echoed_top))
                                    : builder_.LogprobEntry(list_, tokens[token_ - echoed]));
    ++token_;
  }
  if (token_ < echoed + tokens.size()) return;
  out += ']';
  token_ = 0;
  if (++list_ < lists.size()) return;
  out += '}';
  EndChoice(out);
}

/// Ends a choice, after its prompt_logprobs if the client asked for them. prompt_logprobs have vLLM's form: completions
/// have a list in each choice, a chat has one list for all choices.
void WholeAnswer::EndChoice(std::string& out) {
  if (builder_.chat() || !ListsPrompt()) return CloseChoice(out);
  out += R"(,"prompt_logprobs":[)";
  stage_ = Stage::kPrompt;
  token_ = 0;
}

void WholeAnswer::End(std::string& out) {
  out += "],";
  if (builder_.chat() && ListsPrompt()) {
    out += R"("prompt_logprobs":[)";
    stage_ = Stage::kPrompt;
    token_ = 0;
    return;
  }
  out += envelope_;
  stage_ = Stage::kDone;
}

void WholeAnswer::ContinuePrompt(std::string& out) {
  if (token_ > 0) out += ',';
  const auto most = static_cast<size_t>(prompt_->num_listed_top);
  out += DumpJson(builder_.PromptEntry(prompt_->tokens[token_], most));
  if (++token_ < prompt_->tokens.size()) return;
  out += ']';
  if (!builder_.chat()) return CloseChoice(out);
  out += ',' + envelope_;
  stage_ = Stage::kDone;
}

void WholeAnswer::CloseChoice(std::string& out) {
  out += '}';
  choices_[choice_] = AnswerChoice();
  ++choice_;
  stage_ = Stage::kChoice;
}

}  // namespace quire
