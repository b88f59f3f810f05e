#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "coordinator/api/models/adapter_shelf.h"
#include "coordinator/api/openai/chat_fit.h"
#include "coordinator/api/requests/dialect.h"
#include "coordinator/api/requests/openai_request.h"
#include "coordinator/api/requests/pooling_request.h"
#include "coordinator/api/requests/responses/responses_request.h"
#include "coordinator/text/templates/chat_template.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace quire {

/// One call, parsed and tokenised, ready for the engine.
struct PreparedCall {
  GenerateCall call;                          // the prompts' texts have moved to `prompts`
  std::vector<std::vector<TokenId>> prompts;  // empty: the choices exceed a limit, so nothing was tokenised
  size_t longest_prompt = 0, prompt_tokens = 0;
  std::vector<std::string> echo;        // prompts' texts, when answers begin with them and report no tokens
  std::optional<ResponseTerms> terms;   // terms of a /v1/responses call
  std::optional<PoolingTerms> pooling;  // terms of calls that pool prompts
  int64_t vector_bytes = 0;             // bytes of all prompts' vectors; only for calls that pool prompts
  OrderedJson applied_edits;            // edits made for /v1/messages; null: the request asks for none

  /// Returns the number of choices that the engine samples, over all prompts.
  int num_sampled() const { return call.best_of * num_prompts; }
  int num_prompts = 1;
  int max_tokens = 0;  // the most tokens of one choice; set once the prompts are tokens
};

/// A chat request's prompt, as the chat template renders it.
struct ChatPrompt {
  std::string text;
  std::vector<TokenId> tokens;                 // the prompt's tokens, at most max_model_len
  std::optional<size_t> unedited_tokens = {};  // prompt tokens without the context edits; nullopt: none asked for
};

/// Turns the body of a generating request into tokens. The preparer does all work that grows with the request, except
/// the compilation of the request's grammar (GrammarTrials). Thread-safe, because no method changes the object.
class CallPreparer {
 public:
  struct Options {
    std::string model_name;
    RequestLimits request;
    std::string no_chat_reason;  // the reason why chat is refused; empty: chat works
    int most_choices = 0;        // the most choices that can ever wait and run together
    AnswerFormat answer_format;  // the format of chat answers
    PoolingOptions pooling;
    std::vector<std::string> aliases;        // other names of the model
    const AdapterShelf* adapters = nullptr;  // the model's LoRA adapters; null: none
  };
  /// `chat` may be null. The references must outlive this object.
  CallPreparer(Options options, const Tokenizer& tokenizer, const ChatTemplate* chat);

  /// Reads and checks a body, and tokenises it if it asks for at most `room` choices. `find`: looks up earlier answers
  /// that the request continues. Throws ApiError or Error for a bad request, and Stopped on a stop.
  PreparedCall Prepare(const std::string& body, Dialect dialect, const FindKept& find, int room,
                       const std::stop_token& stop) const;

  /// Renders the prompt of a chat or Messages request, which need not have max_tokens. Throws as Prepare does.
  ChatPrompt Render(const RequestBody& body, Dialect dialect, const std::stop_token& stop) const;
  /// Returns the most bytes that preparing a body of `body_bytes` bytes takes besides the body: texts, then tokens.
  static int64_t WorkBytes(size_t body_bytes) { return 4 * static_cast<int64_t>(body_bytes); }
  const std::string& model_name() const { return options_.model_name; }
  /// Returns the model's name in this call's answer: the adapter's name, or the base model's.
  const std::string& ModelOf(const GenerateCall& call) const {
    return call.adapter != nullptr ? call.adapter->name : options_.model_name;
  }

 private:
  void Read(const std::string& body, Dialect dialect, const FindKept& find, PreparedCall& prepared) const;
  void FindModel(GenerateCall& call) const;  // sets call.adapter
  void CheckSize(std::string_view text, const char* field) const;
  OrderedJson EditContext(GenerateCall& call, const std::stop_token& stop) const;
  MarkedText RenderChat(GenerateCall& call, const std::stop_token& stop) const;
  static const char* FieldOf(const GenerateCall& call);
  ApiError PromptTooLong(const GenerateCall& call) const;
  bool Knows(const std::vector<TokenId>& tokens) const;
  void RefuseUnknown(const std::vector<TokenId>& prompt, const char* field) const;
  void FindBadWords(GenerateCall& call, const std::stop_token& stop) const;
  void EncodePrediction(GenerateCall& call, const std::stop_token& stop) const;
  std::vector<TokenId> EncodePair(const std::string& pair, size_t most, const EncodeBounds& bounds) const;
  std::vector<TokenId> EncodeText(const GenerateCall& call, const std::string& text, size_t most,
                                  const EncodeBounds& bounds) const;
  void EncodeJoinedPairs(PreparedCall& prepared, size_t most, const EncodeBounds& bounds) const;
  void EncodePrompts(PreparedCall& prepared, const MarkedText& chat, const std::stop_token& stop) const;

  Options options_;
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  std::optional<ChatFit> fit_;                     // nullopt without a chat template
  std::vector<TokenId> before_pair_, after_pair_;  // tokens around a pair that is scored by a yes/no answer
};

}  // namespace quire
