#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/base/json.h"
#include "coordinator/api/openai/running_call.h"
#include "coordinator/api/openai/usage.h"
#include "coordinator/text/answers/answer_parser.h"

namespace quire {

/// Returns "stop" or "length"; clients know no other reasons.
const char* FinishReasonName(FinishReason reason);

/// A function call of a choice.
struct AnswerCall {
  std::string id, name, arguments;
};

/// The data that an answer reports about one prompt, shared by the prompt's choices.
struct AnswerPrompt {
  std::string text;                  // the prompt's text, with which each choice begins (echo)
  std::vector<TokenId> ids;          // the prompt's token ids, if requested
  std::deque<ReportedToken> tokens;  // set if their log-probabilities are requested
  int num_echoed_top = -1;  // alternatives per token, before a choice's own tokens; -1: not reported
  int num_listed_top = -1;  // alternatives per token in prompt_logprobs; -1: not reported
};

/// One choice of a whole answer.
struct AnswerChoice {
  std::shared_ptr<const AnswerPrompt> prompt = nullptr;  // null: the answer reports no data about the prompt
  std::string text, reasoning;
  std::vector<AnswerCall> calls;
  std::deque<ReportedToken> tokens;  // set if log-probabilities are requested
  std::optional<FinishReason> finished;
  double mean_logprob = 0;    // mean over the choice's tokens
  std::string stop_sequence;  // the stop string that was found, if any
  std::vector<float> pooled;  // the prompt's vector, for embeddings, rerank and score
};

/// Builds the JSON of one call's answer, for chat or text completions. The tokenizer must outlive this object.
class ResponseBuilder {
 public:
  ResponseBuilder(const Tokenizer& tokenizer, bool chat, std::string id, std::string model, int64_t created)
      : tokenizer_(&tokenizer), chat_(chat), id_(std::move(id)), model_(std::move(model)), created_(created) {}

  /// Sets how tokens are reported. token_ids: each choice lists the ids of its tokens. names_are_ids: log-probabilities
  /// name tokens "token_id:N".
  void ShowIds(bool token_ids, bool names_are_ids) {
    token_ids_ = token_ids;
    names_are_ids_ = names_are_ids;
  }

  /// Returns the members that a whole answer, or each chunk of a stream, has beside its choices.
  Json Envelope(bool chunk) const;
  /// Returns a choice of a whole answer, without its log-probabilities.
  Json WholeChoice(size_t index, const AnswerChoice& choice) const;
  /// Returns a chunk of a stream for choice `index`. `role`: this is the first chunk of a chat choice, which has the
  /// role.
  Json Chunk(int index, bool role, const std::string& text, const std::vector<ReportedToken>& tokens,
             bool with_logprobs, std::optional<FinishReason> finished) const;
  /// Returns a chunk with one part of chat choice `index`. `call_id`: the id of the tool call, if a call begins with
  /// this part.
  Json PartChunk(int index, const AnswerPart& part, const std::string& call_id,
                 const std::vector<ReportedToken>& tokens, bool with_logprobs) const;
  /// Returns the last chunk of choice `index`, which ends with tool calls.
  Json CallsEndChunk(int index) const;
  /// Returns the chunk with the usage, which ends a stream if the client asked for it.
  Json UsageChunk(const Usage& usage) const;

  /// Returns the names of the lists with which log-probabilities are reported, each with one entry per token. Chat has
  /// one list, completions have four.
  const std::vector<const char*>& LogprobLists() const;
  /// Returns a token's entry in list number `list`, with at most `most_top` alternatives (for chat, with all).
  Json LogprobEntry(size_t list, const ReportedToken& token, size_t most_top = SIZE_MAX) const;
  /// Returns an entry of prompt_logprobs, keyed by token id: the prompt's own token and at most most_top of the
  /// likeliest tokens.
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
