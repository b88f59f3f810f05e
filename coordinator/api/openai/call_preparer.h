#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "coordinator/api/openai/chat_fit.h"
#include "coordinator/api/requests/dialect.h"
#include "coordinator/api/requests/openai_request.h"
#include "coordinator/api/requests/pooling_request.h"
#include "coordinator/api/requests/responses_request.h"
#include "coordinator/text/chat_template.h"
#include "coordinator/text/tokenizer.h"

namespace quire {

/// A call as the engine wants it.
struct PreparedCall {
  GenerateCall call;                          // without the texts that became `prompts`
  std::vector<std::vector<TokenId>> prompts;  // none: there was no room for so many choices, and nothing was tokenised
  size_t longest_prompt = 0, prompt_tokens = 0;
  std::vector<std::string>
      echo;  // of every prompt its text, when answers begin with it and its tokens are not reported
  std::optional<ResponseTerms> terms;   // of /v1/responses
  std::optional<PoolingTerms> pooling;  // of calls that generate nothing
  int64_t vector_bytes = 0;             // of one prompt; likewise
  OrderedJson applied_edits;            // of /v1/messages: what was done to the conversation; null: nobody asked

  /// Choices over all prompts.
  int num_sampled() const { return call.best_of * num_prompts; }
  int num_prompts = 1;
  int max_tokens = 0;  // of a choice, once it is known what there is room for
};

/// What the template makes of a chat request.
struct ChatPrompt {
  std::string text;
  std::vector<TokenId> tokens;  // no more than the context takes
  /// How many there would be without the edits that the request wants; nothing where it speaks of none.
  std::optional<size_t> unedited_tokens = {};
};

/// From the body of a generating request to its tokens: all of the work whose cost grows with what a client sent, but
/// its grammar, which GrammarTrials compile. Touches nothing but its arguments; may be used by several threads.
class CallPreparer {
 public:
  struct Options {
    std::string model_name;
    RequestLimits request;
    std::string no_chat_reason;  // why chat is refused; empty: it is not
    int most_choices = 0;        // that can ever wait and run at once
    AnswerFormat answer_format;  // of chats
    PoolingOptions pooling;
    std::vector<std::string> aliases;  // other names of the model
  };
  /// chat may be null. The references outlive this object.
  CallPreparer(Options options, const Tokenizer& tokenizer, const ChatTemplate* chat);

  /// room: choices that may wait or run now. find: what earlier answers to the client a request can go on from. Throws
  /// ApiError or Error for what cannot be served as it is asked, and Stopped.
  PreparedCall Prepare(const std::string& body, Dialect dialect, const FindKept& find, int room,
                       const std::stop_token& stop) const;

  /// The prompt of a request for chat, in OpenAI's words or in those of the Messages API; it need not say how long the
  /// answer may be. Throws as Prepare does.
  ChatPrompt Render(const RequestBody& body, Dialect dialect, const std::stop_token& stop) const;

  /// What the work on a body of that size may hold besides the body: its texts, then tokens.
  static int64_t WorkBytes(size_t body_bytes) { return 4 * static_cast<int64_t>(body_bytes); }

  const std::string& model_name() const { return options_.model_name; }

 private:
  void Read(const std::string& body, Dialect dialect, const FindKept& find, PreparedCall& prepared) const;
  void CheckModel(const GenerateCall& call) const;
  void CheckSize(std::string_view text, const char* field) const;
  OrderedJson EditContext(GenerateCall& call, const std::stop_token& stop) const;
  MarkedText RenderChat(GenerateCall& call, const std::stop_token& stop) const;
  ApiError PromptTooLong(const GenerateCall& call) const;
  bool Knows(const std::vector<TokenId>& tokens) const;
  void RefuseUnknown(const std::vector<TokenId>& prompt, const char* field) const;
  void FindBadWords(GenerateCall& call, const std::stop_token& stop) const;
  std::vector<TokenId> EncodePair(const std::string& pair, size_t most, const EncodeBounds& bounds) const;
  void EncodePrompts(PreparedCall& prepared, const MarkedText& chat, const std::stop_token& stop) const;

  Options options_;
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  std::optional<ChatFit> fit_;                     // as long as there is a chat template
  std::vector<TokenId> before_pair_, after_pair_;  // where pairs are scored by answer
};

}  // namespace quire
