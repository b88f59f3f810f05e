#pragma once

#include <string_view>

#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "coordinator/api/requests/generate_call.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/known_fields.h"

namespace quire {

/// A request's JSON. What a schema lists is read in the order that it was written in.
class RequestBody {
 public:
  /// Throws Error for what is no JSON or goes beyond a bound. The text outlives this object.
  explicit RequestBody(std::string_view text);

  const Json& fields() const { return fields_; }
  /// Parses again, members in the order of the text and integers of any length, as ParseExactJson has them.
  OrderedJson Exact() const { return ParseExactJson(text_); }

 private:
  std::string_view text_;
  Json fields_;
};

/// How tokens are drawn where a request does not say.
struct SamplingDefaults {
  float temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
  int32_t top_k = 0;  // 0: all
  bool operator==(const SamplingDefaults&) const = default;
};

/// The defaults as fields of a request, with the numbers as users write them: 0.8, not 0.800000011920929.
Json JsonOf(const SamplingDefaults& defaults);

/// Bounds of single fields, and what holds without them.
struct RequestLimits {
  int vocab_size = 0;
  int max_model_len = 0;
  int max_choices = 128;
  int max_prompts = 16;
  SamplingDefaults defaults;
  const UnknownFields* unknown = nullptr;  // outlives it; null: nobody looks for such
};

/// Both throw ApiError. Fields that would change the answer and are not supported are refused, so that nothing is
/// silently different from what was asked.
GenerateCall ParseCompletionRequest(const RequestBody& body, const RequestLimits& limits);
GenerateCall ParseChatRequest(const RequestBody& body, const RequestLimits& limits);

// Parts of those, for requests of other kinds; they throw likewise.

/// Whose request it is to be and what becomes of its prompts: model, priority, cache_salt and the like.
void ReadCallFields(const JsonFields& fields, GenerateCall& call);
/// The field's prompts: a text, token ids, or a list of either. truncated: they may be longer than the context.
std::vector<PromptInput> ReadPrompts(const char* name, const Json* prompt, const RequestLimits& limits, bool truncated);

}  // namespace quire
