#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "comm/wire/step_plan.h"
#include "coordinator/api/requests/context_edits.h"
#include "coordinator/api/requests/served_adapter.h"
#include "coordinator/core/beam_search.h"
#include "coordinator/core/client_limits.h"
#include "coordinator/text/answers/answer_parser.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/templates/conversation.h"

namespace quire {

/// A prompt of /v1/completions: text, or token ids that are used unchanged.
using PromptInput = std::variant<std::string, std::vector<TokenId>>;

/// A validated request of any endpoint with a Dialect. Faulty requests are refused before a GenerateCall is made.
struct GenerateCall {
  bool chat = false;
  std::string model;                                         // empty: the served model
  std::vector<PromptInput> prompts;                          // prompts of requests other than chat
  Conversation conversation;                                 // messages of chat, Messages and Responses
  ToolUse tools;                                             // tools of chat, Messages and Responses
  std::vector<std::string> hints;                            // names of variables that the template may ignore
  ContextEdits context_edits;                                // edits made before the template renders the conversation
  bool include_reasoning = true;                             // the answer includes thoughts
  bool seals_thoughts = false;                               // thoughts are sent encoded (SealText)
  AnswerShape shape;                                         // set later (ChatFit)
  std::shared_ptr<const std::vector<TokenId>> shown_tokens;  // control tokens that stay in the text; set later
  int64_t tools_bytes = 0;                                   // bytes of tools that `shape` holds; set later
  bool continue_final_message = false;                       // the answer continues the last message
  bool framed = false;  // prompts are pairs of texts, framed as the model was trained (kBeforePair, kAfterPair)
  /// The second text of each prompt, for models that read pairs of texts together; empty for other models.
  std::vector<std::string> second_texts;
  /// For each prompt, the index of the first token of its second text (SamplingSpec::second_text); empty: 0 for all
  /// prompts. Tokenising sets this member.
  std::vector<int> second_starts;
  /// The number of tokens to which a prompt is truncated. -1: as many as fit; 0: no truncation. Decoders truncate a
  /// prompt at its beginning. Encoders truncate it at its end, before the last special tokens.
  int truncate_prompt_tokens = 0;

  int n = 1;        // returned choices per prompt
  int best_of = 1;  // sampled choices per prompt, or beams; at least n
  std::optional<BeamOptions> beams;
  std::optional<int> max_tokens;  // nullopt: default_max_tokens()
  bool cut_to_context = false;    // true: max_tokens may be lowered to what the context has left
  SamplingSpec sampling;          // `choice` and the bans of min_tokens are set later
  std::string grammar_field;      // the field that asked for sampling.grammar
  bool has_seed = false;
  ClientLimits client_limits;                           // limits of the caller's key, filled in later
  std::shared_ptr<std::atomic<int64_t>> client_tokens;  // counts the caller's tokens, filled in later; null: none
  bool background = false;                              // the request is part of a batch: other requests go first
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  std::vector<std::string> bad_words;  // words that must not appear; emptied when they are tokenised
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool add_special_tokens = true;
  bool include_stop = false;
  std::string prediction;  // the text that the client expects; emptied when it is tokenised
  std::shared_ptr<const std::vector<TokenId>> prediction_tokens;  // tokens of `prediction`; set later; null: none
  bool echo = false;
  bool detokenize = true;         // false: answers have no text
  bool return_token_ids = false;  // the answer lists ids of prompts and answers
  bool tokens_as_ids = false;     // log-probabilities name tokens "token_id:N"
  int num_prompt_logprobs = -1;   // alternatives per prompt token; -1: not reported

  std::string client;           // client's name, for fairness and caching
  std::shared_ptr<const ServedAdapter> adapter;  // the LoRA adapter that the request names; null: the base model
  std::string cache_salt;       // only requests with the same salt share cached prefixes
  int priority = 0;             // among the client's requests, the lower number runs first
  double deadline_seconds = 0;  // the request fails after so many seconds; 0: the server's limit
  std::optional<double> keep_alive;  // seconds that the model stays loaded afterwards; negative: forever

  bool stream = false, include_usage = false, continuous_usage = false;
  /// Alternatives per token of the answer; -1: no log-probabilities are reported.
  int num_top_logprobs = -1;

  /// Returns the number of alternatives that workers report for each prompt token; -1: no log-probabilities at all.
  int num_scored_top() const { return std::max(num_prompt_logprobs, echo ? num_top_logprobs : -1); }
  /// True when the client wants no generated text (max_tokens 0). One token is still sampled, and dropped.
  bool only_prompt() const { return max_tokens == 0; }
  /// Returns the most tokens of an answer when the request has no max_tokens. The context may allow fewer.
  int default_max_tokens() const { return chat ? 1024 : 16; }
  /// Returns the seconds added to the request's arrival time, by which the scheduler orders requests. A batch's request
  /// gets a large value, so that the client's other requests run first and the batch's request is preempted first.
  double seconds_behind() const { return background ? 1e7 : 0; }
  /// Returns the number of choices that the engine delivers per prompt.
  int num_delivered() const { return beams ? n : best_of; }
};

}  // namespace quire
