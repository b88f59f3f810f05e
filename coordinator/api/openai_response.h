#pragma once

#include <string>
#include <vector>

#include "comm/json.h"
#include "coordinator/api/generation.h"

namespace quire {

struct Usage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0;  // of the prompt tokens
  Json ToJson() const;
};

/// "stop" or "length"; clients know no other reasons.
const char* FinishReasonName(FinishReason reason);

/// Builds the JSON of one call's answer: what all its chunks share, and the pieces of each.
class ResponseBuilder {
 public:
  ResponseBuilder(bool chat, std::string id, std::string model, int64_t created)
      : chat_(chat), id_(std::move(id)), model_(std::move(model)), created_(created) {}

  /// A whole answer.
  struct Choice {
    std::string text;
    std::vector<ReportedToken> tokens;
    std::optional<FinishReason> finished;
    double mean_logprob = 0;  // of its tokens
  };
  Json Full(const std::vector<Choice>& choices, bool with_logprobs, const Usage& usage) const;

  /// One chunk of a stream. `role` marks the first of a chat choice.
  Json Chunk(int index, bool role, const std::string& text, const std::vector<ReportedToken>& tokens,
             bool with_logprobs, std::optional<FinishReason> finished) const;
  /// The last chunk when usage was asked for.
  Json UsageChunk(const Usage& usage) const;

 private:
  Json Envelope(bool chunk) const;
  Json Logprobs(const std::vector<ReportedToken>& tokens) const;

  bool chat_;
  std::string id_, model_;
  int64_t created_;
};

}  // namespace quire
