#pragma once

#include <map>
#include <string>

#include "coordinator/api/requests/openai_request.h"
#include "coordinator/text/chat_template.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// What of chat requests depends on the model: whether its template shows what they bring, in which form its answers
/// call functions and hold thoughts, and the grammar that calls are kept to. Immutable; safe to share.
class ChatFit {
 public:
  /// chosen_format: somebody said so, and it was not read from the template.
  ChatFit(const ChatTemplate& chat, const Tokenizer& tokenizer, AnswerFormat format, bool chosen_format);

  /// Before the conversation is rendered. Throws ApiError for what this template would not read, so that nothing is
  /// silently ignored. A format that was chosen stands in for a template that shows no tools, if it writes calls as
  /// JSON: the tools are described in the system message, and earlier calls are content.
  void FitConversation(GenerateCall& call) const;

  /// Once the prompt's text is known: what the answer will look like, and what it is kept to. Throws ApiError for what
  /// it cannot be kept to.
  void ShapeAnswer(std::string_view prompt, GenerateCall& call) const;

 private:
  void FitVariables(GenerateCall& call) const;
  void FitTools(GenerateCall& call) const;
  void FitCalls(Conversation& conversation) const;
  void Constrain(GenerateCall& call) const;
  void LimitThoughts(GenerateCall& call) const;

  const ChatTemplate& chat_;
  AnswerFormat format_;
  bool chosen_format_, reads_thinking_;
  std::map<std::string, TokenId> control_tokens_;  // that the format's parsers look for
  std::shared_ptr<const std::vector<TokenId>> shown_tokens_;
  ThoughtLimit thought_limit_;  // what opens and closes thoughts; nothing where that is not for tokens to say
};

}  // namespace quire
