#pragma once

#include <map>
#include <string>

#include "coordinator/api/requests/openai_request.h"
#include "coordinator/api/requests/text_growth.h"
#include "coordinator/text/templates/chat_template.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// The model-dependent part of chat requests: which parts of a request the template shows, how answers mark calls and
/// thoughts, and the grammar that calls must match. The class is immutable and thread-safe.
class ChatFit {
 public:
  ChatFit(const ChatTemplate& chat, const Tokenizer& tokenizer, AnswerFormat format);

  /// Changes the conversation before it is rendered. Throws ApiError for parts that this template would not read,
  /// except for reasoning_effort and the variables in call.hints, which may be ignored. If the template shows no tools
  /// and the format writes calls as JSON, or if the format is kGeneric, the system message describes the tools, and
  /// earlier calls and their results become content. Counts the made texts in `growth`, which may throw.
  void FitConversation(GenerateCall& call, TextGrowth& growth) const;

  /// Sets the answer's shape and grammar from the rendered prompt. Throws ApiError for a constraint that cannot be
  /// enforced.
  void ShapeAnswer(std::string_view prompt, GenerateCall& call) const;

 private:
  bool is_generic() const { return format_.tools == ToolFormat::kGeneric; }
  void FitVariables(GenerateCall& call) const;
  void FitTools(GenerateCall& call) const;
  void FitCalls(Conversation& conversation, TextGrowth& growth) const;
  void Constrain(GenerateCall& call) const;
  void LimitThoughts(GenerateCall& call) const;

  const ChatTemplate& chat_;
  AnswerFormat format_;
  bool reads_thinking_;
  std::map<std::string, TokenId> control_tokens_;  // the control tokens that the format's parsers look for
  std::shared_ptr<const std::vector<TokenId>> shown_tokens_;
  ThoughtLimit thought_limit_;  // tokens that open and close thoughts; empty where there are none
};

}  // namespace quire
