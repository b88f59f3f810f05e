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
#include "coordinator/core/beam_search.h"
#include "coordinator/core/client_limits.h"
#include "coordinator/text/answers/answer_parser.h"
#include "coordinator/text/answers/tool.h"
#include "coordinator/text/conversation.h"

namespace quire {

/// A prompt of /v1/completions: text, or token ids that are taken as they are.
using PromptInput = std::variant<std::string, std::vector<TokenId>>;

/// A validated request of either generating endpoint. Everything a client may get wrong is found before this exists.
struct GenerateCall {
  bool chat = false;
  std::string model;                                         // empty: whatever is served
  std::vector<PromptInput> prompts;                          // /v1/completions
  Conversation conversation;                                 // /v1/chat/completions
  ToolUse tools;                                             // likewise
  std::vector<std::string> hints;                            // variables that a template need not read
  ContextEdits context_edits;                                // what is done to the conversation before it is shown
  bool include_reasoning = true;                             // thoughts are a part of the answer
  AnswerShape shape;                                         // filled in later
  std::shared_ptr<const std::vector<TokenId>> shown_tokens;  // control tokens that stay in the text; likewise
  int64_t tools_bytes = 0;                                   // that the shape keeps of the tools; likewise
  bool continue_final_message = false;                       // the answer goes on where the last message ends
  bool framed = false;  // prompts are pairs of texts, and stand between what the model was trained with around pairs
  int truncate_prompt_tokens = 0;  // so many of a prompt's last tokens are kept; -1: what there is room for; 0: all

  int n = 1;        // choices per prompt that are returned
  int best_of = 1;  // choices per prompt that are sampled, or beams; at least n
  std::optional<BeamOptions> beams;
  std::optional<int> max_tokens;  // absent: the endpoint's default
  bool cut_to_context = false;    // max_tokens are the most: fewer where the context has no room for them
  SamplingSpec sampling;          // choice and min-token bans are filled in later
  std::string grammar_field;      // that asked for sampling.grammar
  bool has_seed = false;
  ClientLimits client_limits;                           // of the caller's key, filled in later
  std::shared_ptr<std::atomic<int64_t>> client_tokens;  // where its tokens are counted, likewise; null: nowhere
  bool background = false;                              // a batch's: others go first
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  std::vector<std::string> bad_words;  // until their tokens are found
  bool ignore_eos = false;
  bool skip_special_tokens = true;
  bool add_special_tokens = true;
  bool include_stop = false;
  bool echo = false;
  bool detokenize = true;         // false: answers have no text
  bool return_token_ids = false;  // of prompts and answers
  bool tokens_as_ids = false;     // log-probabilities name tokens "token_id:N"
  int num_prompt_logprobs = -1;   // prompt_logprobs: with so many alternatives; -1: not reported

  std::string client;           // who asks: fairness and caching go by it
  std::string cache_salt;       // shares cached prefixes only with the same salt
  int priority = 0;             // lower goes first among the client's own
  double deadline_seconds = 0;  // the answer is of no use later; 0: the server's limit

  bool stream = false, include_usage = false, continuous_usage = false;
  /// Log-probabilities: reported when num_top >= 0, with that many alternatives.
  int num_top_logprobs = -1;

  /// Alternatives that the workers report with each token of the prompt; -1: not even its log-probability.
  int num_scored_top() const { return std::max(num_prompt_logprobs, echo ? num_top_logprobs : -1); }
  /// Only the prompt is of interest: what is drawn after it is dropped.
  bool only_prompt() const { return max_tokens == 0; }
  /// The length of an answer to which nobody gave one, if there is room for so much.
  int default_max_tokens() const { return chat ? 1024 : 16; }
  /// A batch's request counts as one that comes so much later: others of its client go first, it has what they leave
  /// of a step, and gives its blocks back before they do. The time that it may take is its batch's.
  double seconds_behind() const { return background ? 1e7 : 0; }
  /// Choices that the engine delivers per prompt.
  int num_delivered() const { return beams ? n : best_of; }
};

}  // namespace quire
