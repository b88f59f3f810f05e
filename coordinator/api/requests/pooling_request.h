#pragma once

#include <string>
#include <vector>

#include "coordinator/api/requests/openai_request.h"

namespace quire {

/// What this server makes of prompts besides texts.
struct PoolingOptions {
  Pooling pooling = Pooling::kNone;
  bool normalize = true;         // where a request does not say
  std::string no_pooling;        // why there are no embeddings; empty: there are
  std::string no_answers;        // why nothing can be generated; empty: it can
  int hidden = 0;                // numbers of a vector
  bool by_answer = false;        // pairs are scored by whether the model answers yes or no, else by their vectors
  std::string no_scores;         // why no pairs are scored; empty: they are
  std::vector<TokenId> answers;  // no and yes; where by_answer
};

/// What becomes of the vectors of a call's prompts.
struct PoolingTerms {
  enum class Kind { kEmbeddings, kRerank, kScore };
  Kind kind = Kind::kEmbeddings;
  int dimensions = 0;  // leading ones that are kept; 0: all
  bool normalize = true;
  bool base64 = false;
  // Of pairs. By answer a prompt is a pair and its vector the log-probabilities of no and yes; else the first
  // num_queries prompts are queries, one for all or one for each, and the others documents.
  bool by_answer = false;
  size_t num_queries = 0;
  size_t top_n = 0;                    // the best so many are told; 0: all
  std::vector<std::string> documents;  // to be told again with their scores; none: they are not
};

// Bodies of /v1/embeddings, of /v1/rerank and of /v1/score as calls that generate nothing. All throw ApiError.
GenerateCall ParseEmbeddingRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                   PoolingTerms& terms);
GenerateCall ParseRerankRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                                PoolingTerms& terms);
GenerateCall ParseScoreRequest(const RequestBody& body, const RequestLimits& limits, const PoolingOptions& options,
                               PoolingTerms& terms);

// What stands around a pair where pairs are scored by answer, as Qwen3-Reranker was trained on it (the model's card).
inline constexpr const char* kBeforePair =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n";
inline constexpr const char* kAfterPair = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

}  // namespace quire
