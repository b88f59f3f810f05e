#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/openai/running_call.h"
#include "coordinator/text/answers/answer_parser.h"

namespace quire {

struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0;     // of the prompt tokens
  int reasoning_tokens = 0;  // of the completion tokens
  Json ToJson() const;
};

/// "stop" or "length"; clients know no other reasons.
const char* FinishReasonName(FinishReason reason);

/// A function that a choice calls.
struct AnswerCall {
  std::string id, name, arguments;
};

/// What an answer says of a prompt; its choices share it.
struct AnswerPrompt {
  std::string text;                  // that every choice begins with
  std::vector<TokenId> ids;          // where they were asked for
  std::deque<ReportedToken> tokens;  // where their log-probabilities were asked for
  int num_echoed_top = -1;  // alternatives with which they are reported before a choice's own; -1: they are not
  int num_listed_top = -1;  // the same in prompt_logprobs
};

/// One choice of a whole answer.
struct AnswerChoice {
  std::shared_ptr<const AnswerPrompt> prompt = nullptr;  // null: nothing is said of it
  std::string text, reasoning;
  std::vector<AnswerCall> calls;
  std::deque<ReportedToken> tokens;  // when log-probabilities were asked for
  std::optional<FinishReason> finished;
  double mean_logprob = 0;    // of its tokens
  std::string stop_sequence;  // that ended it, if one did
  std::vector<float> pooled;  // of its prompt, in calls that pool prompts
};

/// Builds the JSON of one call's answer: what all its chunks share, and the pieces of each. The tokenizer outlives it.
class ResponseBuilder {
 public:
  ResponseBuilder(const Tokenizer& tokenizer, bool chat, std::string id, std::string model, int64_t created)
      : tokenizer_(&tokenizer), chat_(chat), id_(std::move(id)), model_(std::move(model)), created_(created) {}

  /// token_ids: choices list the tokens that they report; names_are_ids: log-probabilities name tokens "token_id:N".
  void ShowIds(bool token_ids, bool names_are_ids) {
    token_ids_ = token_ids;
    names_are_ids_ = names_are_ids;
  }

  /// What all chunks of a stream have, or a whole answer; without choices.
  Json Envelope(bool chunk) const;
  /// A choice of a whole answer, without its log-probabilities.
  Json WholeChoice(size_t index, const AnswerChoice& choice) const;
  /// One chunk of a stream. `role` marks the first of a chat choice.
  Json Chunk(int index, bool role, const std::string& text, const std::vector<ReportedToken>& tokens,
             bool with_logprobs, std::optional<FinishReason> finished) const;
  /// One chunk of a stream: a piece of a chat choice. call_id: of the call that begins.
  Json PartChunk(int index, const AnswerPart& part, const std::string& call_id,
                 const std::vector<ReportedToken>& tokens, bool with_logprobs) const;
  /// The end of a choice that calls functions.
  Json CallsEndChunk(int index) const;
  /// The last chunk when usage was asked for.
  Json UsageChunk(const Usage& usage) const;

  /// Log-probabilities are an object of lists that have an entry for each token: one list for chat, four otherwise.
  const std::vector<const char*>& LogprobLists() const;
  /// With at most so many alternatives.
  Json LogprobEntry(size_t list, const ReportedToken& token, size_t most_top = SIZE_MAX) const;
  /// The entry of prompt_logprobs: the prompt's own token and the likeliest, by token id.
  Json PromptEntry(const ReportedToken& token, size_t most_top) const;
  bool chat() const { return chat_; }

 private:
  Json Logprobs(const std::vector<ReportedToken>& tokens) const;
  std::string NameOf(TokenId token) const;
  Json ChatToken(TokenId token, float logprob) const;
  Json TopOf(const ReportedToken& token, size_t most) const;

  const Tokenizer* tokenizer_;
  bool chat_;
  bool token_ids_ = false, names_are_ids_ = false;
  std::string id_, model_;
  int64_t created_;
};

}  // namespace quire
