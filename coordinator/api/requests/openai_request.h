#pragma once

#include <string_view>

#include "comm/base/json.h"
#include "coordinator/api/requests/generate_call.h"

namespace quire {

/// A request's JSON. What a schema lists is read in the order that it was written in.
class RequestBody {
 public:
  /// Throws Error for what is no JSON or goes beyond a bound. The text outlives this object.
  explicit RequestBody(std::string_view text);

  const Json& fields() const { return fields_; }
  /// Parses again: for those who need the order.
  OrderedJson InOrder() const { return OrderedJson::parse(text_); }

 private:
  std::string_view text_;
  Json fields_;
};

/// Bounds of single fields.
struct RequestLimits {
  int vocab_size = 0;
  int max_model_len = 0;
  int max_choices = 128;
  int max_prompts = 16;
};

/// Both throw ApiError. Fields nobody knows are ignored; fields that would change the answer and are not supported are
/// refused, so that nothing is silently different from what was asked.
GenerateCall ParseCompletionRequest(const RequestBody& body, const RequestLimits& limits);
GenerateCall ParseChatRequest(const RequestBody& body, const RequestLimits& limits);

}  // namespace quire
