#include "coordinator/api/whole_answer.h"

namespace quire {

namespace {

constexpr size_t kAboutPerToken = 60, kAboutPerAlternative = 30;  // bytes of JSON

/// The text of an object without its closing brace: more members follow.
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
  envelope_ = DumpJson(envelope).substr(1);
}

size_t WholeAnswer::estimated_bytes() const {
  size_t bytes = envelope_.size();
  for (const AnswerChoice& choice : choices_) {
    const size_t top = choice.tokens.empty() ? 0 : choice.tokens.front().top.size();
    for (const AnswerCall& call : choice.calls) bytes += kAboutPerToken + call.name.size() + call.arguments.size();
    bytes += choice.text.size() + 2 * choice.reasoning.size() +
             choice.tokens.size() * (kAboutPerToken + top * kAboutPerAlternative);
  }
  return bytes;
}

std::string WholeAnswer::Next(size_t bytes) {
  std::string out;
  while (out.size() < bytes && stage_ != Stage::kDone) {
    if (stage_ == Stage::kOpening) {
      out += R"({"choices":[)";
      stage_ = Stage::kChoice;
    } else if (stage_ == Stage::kList) {
      Continue(out);
    } else if (choice_ < choices_.size()) {
      BeginChoice(out);
    } else {
      out += "]," + envelope_;
      stage_ = Stage::kDone;
    }
  }
  return out;
}

void WholeAnswer::BeginChoice(std::string& out) {
  if (choice_ > 0) out += ',';
  out += OpenObject(builder_.WholeChoice(choice_, choices_[choice_])) + R"(,"logprobs":)";
  stage_ = Stage::kList;
  list_ = token_ = 0;
  if (!with_logprobs_) {
    out += "null";
    EndChoice(out);
  }
}

/// One entry of one list of log-probabilities, and what is around it.
void WholeAnswer::Continue(std::string& out) {
  const auto& tokens = choices_[choice_].tokens;
  const auto& lists = builder_.LogprobLists();
  if (token_ == 0) out += std::string(list_ == 0 ? "{" : ",") + "\"" + lists[list_] + "\":[";
  if (token_ < tokens.size()) {
    if (token_ > 0) out += ',';
    out += DumpJson(builder_.LogprobEntry(list_, tokens[token_]));
    ++token_;
  }
  if (token_ < tokens.size()) return;
  out += ']';
  token_ = 0;
  if (++list_ < lists.size()) return;
  out += '}';
  EndChoice(out);
}

void WholeAnswer::EndChoice(std::string& out) {
  out += '}';
  choices_[choice_] = AnswerChoice();
  ++choice_;
  stage_ = Stage::kChoice;
}

}  // namespace quire
