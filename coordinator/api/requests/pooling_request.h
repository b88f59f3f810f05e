#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// The function that turns a classifier's logits into the numbers of the answer.
enum class ClassScale {
  kSoftmax,  // classes exclude each other
  kSigmoid,  // each class for itself
  kNone      // the numbers stay: a regression
};

/// A model's settings for embeddings, rankings, scores and classes, which are made by pooling the hidden states of a
/// prompt's tokens.
struct PoolingOptions {
  Pooling pooling = Pooling::kNone;
  bool normalize = true;   // the default of a request's `normalize`
  std::string no_pooling;  // why the model gives no embeddings; empty: the model gives them
  std::string no_answers;  // why the model cannot generate text; empty: the model can
  int hidden = 0;          // length of a vector
  bool encoder = false;    // the model is an encoder (ModelSpec::bidirectional)
  bool by_answer = false;  // pairs are scored by the model's yes or no
  bool by_pair = false;    // pairs are read together, and the model answers with a score
  bool sigmoid = false;    // with by_pair: the score is the sigmoid of the model's number
  std::string no_scores;   // why the model cannot score pairs; empty: the model can
  /// The names of the classes, one for each number that the model answers with; null: the model is no classifier.
  std::shared_ptr<const std::vector<std::string>> labels;
  ClassScale class_scale = ClassScale::kSoftmax;
  // The members below, up to `closing`, are for answers with numbers for every token (/pooling).
  std::string no_tokens;           // why the model gives no vectors of tokens; empty: the model gives them
  int row = 0;                     // length of a token's vector
  bool sparse = false;             // the model weighs tokens (PooledHead::sparse)
  bool colbert = false;            // vectors of tokens are those of PooledHead::colbert, not the rows
  std::optional<TokenId> opening;  // token before each text, for which the answer has no weight and no ColBERT vector
  std::optional<TokenId> closing;  // token after each text, for which the answer has no weight
  std::vector<TokenId> answers;    // token ids of no and yes; only with by_answer
  std::map<std::string, std::string> prompts;  // texts that go before inputs of embeddings, by their names
  std::string default_prompt;                  // the name of the prompt for requests that name none; empty: none
};

/// The settings of one call. They say how the pooled vectors of its prompts become its answer.
struct PoolingTerms {
  enum class Kind { kEmbeddings, kRerank, kScore, kClasses, kPooling };
  Kind kind = Kind::kEmbeddings;
  int dimensions = 0;  // number of leading components that the answer has; 0: all
  bool normalize = true;
  bool base64 = false;
  // The members below, up to `documents`, are for rerank and score. With by_answer each prompt is a pair, and its
  // vector has the log-probabilities of "no" and "yes". With by_pair each prompt is a pair, and its vector is the
  // model's score. Otherwise the first num_queries prompts are queries (one for all documents, or one per document),
  // and the other prompts are documents.
  bool by_answer = false, by_pair = false;
  bool sigmoid = false;  // by_pair only: scores are sigmoids of the model's numbers
  size_t num_queries = 0;
  size_t top_n = 0;                    // number of best results to return; 0: all
  std::vector<std::string> documents;  // repeated in the answer with their scores; empty: not repeated
  // Used by answers with classes (/classify and /pooling).
  std::shared_ptr<const std::vector<std::string>> labels;  // null: the numbers are no classes
  ClassScale class_scale = ClassScale::kNone;
  // Used by answers with numbers for every token (PoolsEachToken).
  int row = 0;                     // numbers of a token; 0: the vector belongs to the whole prompt
  bool weights = false;            // the numbers are weights of tokens: one list, with the tokens' ids
  std::optional<TokenId> opening;  // left out where a prompt begins with this token (`closing`: ends with it)
  std::optional<TokenId> closing;
  std::vector<std::vector<TokenId>> prompts;  // the prompts' tokens, if `opening` or `closing` is set; set later
};

// Parse bodies of /v1/embeddings, /v1/rerank, /v1/score, /classify and /pooling into calls whose answers have no
// generated text, and set `terms`. All throw ApiError for bad values and for models that the endpoint cannot use.
GenerateCall ParseEmbeddingRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                   PoolingTerms& terms);
GenerateCall ParseRerankRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                PoolingTerms& terms);
GenerateCall ParseScoreRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                               PoolingTerms& terms);
GenerateCall ParseClassifyRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                  PoolingTerms& terms);
GenerateCall ParsePoolingRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                 PoolingTerms& terms);

// The text of a prompt before and after the instruction, the query and the document, for by_answer (PoolingTerms). It
// is from the model card of Qwen3-Reranker.
inline constexpr const char* kBeforePair =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
inline constexpr const char* kAfterPair = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

}  // namespace quire
