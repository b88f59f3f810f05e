#pragma once

#include <string_view>

#include "comm/base/exact_json.h"
#include "comm/base/json.h"
#include "coordinator/api/requests/generate_call.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/known_fields.h"

namespace quire {

/// The JSON of a request. The body is parsed once into members sorted by name, and on demand again into members in the
/// text's order.
class RequestBody {
 public:
  /// Throws Error for text that is not JSON or exceeds a bound. The text must outlive this object.
  explicit RequestBody(std::string_view text);

  const Json& fields() const { return fields_; }
  /// Parses again with ParseExactJson: members are in the order of the text, and integers may have any length.
  OrderedJson Exact() const { return ParseExactJson(text_); }

 private:
  std::string_view text_;
  Json fields_;
};

/// The sampling parameters of requests that do not set them.
struct SamplingDefaults {
  float temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
  int32_t top_k = 0;  // 0: all
  bool operator==(const SamplingDefaults&) const = default;
};

/// Returns the defaults as fields of a request, with the numbers as users write them: 0.8, not 0.800000011920929.
Json JsonOf(const SamplingDefaults& defaults);

/// The bounds of single fields, and the values of missing fields.
struct RequestLimits {
  int vocab_size = 0;
  int max_model_len = 0;
  int max_choices = 128;
  int max_prompts = 16;
  bool only_pools = false;  // the model answers nothing, so a prompt may be as long as max_model_len
  SamplingDefaults defaults;
  const UnknownFields* unknown = nullptr;  // must outlive this object; null: unknown fields are not checked
};

/// Parse and check a request. Both throw ApiError for bad or unsupported values. The functions refuse a field that
/// would change the answer and is not supported, so that no answer differs silently from its request.
GenerateCall ParseCompletionRequest(const RequestBody& body, const RequestLimits& limits);
GenerateCall ParseChatRequest(const RequestBody& body, const RequestLimits& limits);

// Parts of ParseCompletionRequest and ParseChatRequest, for other kinds of requests. All throw ApiError for bad values.

/// Reads model, cache_salt, priority, deadline_seconds, keep_alive, truncate_prompt_tokens and add_special_tokens.
void ReadCallFields(const JsonFields& fields, GenerateCall& call);
/// Reads a field with prompts: a text, token ids, or a list of these. truncated: prompts may exceed the context because
/// they will be truncated.
std::vector<PromptInput> ReadPrompts(const char* name, const Json* prompt, const RequestLimits& limits, bool truncated);

}  // namespace quire
