// Input: a byte, whose lowest bit chooses a chat or a completion request, and the request's body. Strict JSON must stay
// the same when it is written and parsed again. The values of an accepted request must be within the bounds of its
// fields.
#include <cmath>
#include <optional>

#include "comm/base/error.h"
#include "coordinator/api/requests/json_fields.h"
#include "coordinator/api/requests/openai_request.h"
#include "tests/fuzz/byte_source.h"

namespace quire {
namespace {

constexpr RequestLimits kLimits = {.vocab_size = 1000, .max_model_len = 4096, .max_choices = 128, .max_prompts = 16};

void CheckToken(TokenId token) { QUIRE_CHECK(token >= 0 && token < kLimits.vocab_size, "token {}", token); }

/// Aborts when a member is outside the bounds that later code assumes.
void CheckCall(const GenerateCall& call) {
  QUIRE_CHECK(call.n >= 1 && call.n <= call.best_of && call.best_of <= kLimits.max_choices, "n {} of {}", call.n,
              call.best_of);
  QUIRE_CHECK(!call.max_tokens || (*call.max_tokens >= 1 && *call.max_tokens <= kLimits.max_model_len), "max_tokens");
  QUIRE_CHECK(call.num_top_logprobs >= -1 && call.num_top_logprobs <= 20, "logprobs {}", call.num_top_logprobs);
  QUIRE_CHECK(call.prompts.size() <= static_cast<size_t>(kLimits.max_prompts), "{} prompts", call.prompts.size());
  QUIRE_CHECK(call.chat || !call.prompts.empty(), "no prompt");
  const SamplingSpec& s = call.sampling;
  for (const float value : {s.temperature, s.top_p, s.min_p, s.presence_penalty, s.frequency_penalty}) {
    QUIRE_CHECK(std::isfinite(value) && std::abs(value) <= 100, "a setting of {}", value);
  }
  QUIRE_CHECK(s.top_k >= 0 && s.top_p > 0 && s.repetition_penalty > 0 && s.min_tokens >= 0, "sampling");
  for (const auto& [token, bias] : s.logit_bias) {
    CheckToken(token);
    QUIRE_CHECK(std::abs(bias) <= 100, "bias {}", bias);
  }
  for (const TokenId token : call.stop_token_ids) CheckToken(token);
  for (const PromptInput& prompt : call.prompts) {
    if (const auto* tokens = std::get_if<std::vector<TokenId>>(&prompt)) {
      for (const TokenId token : *tokens) CheckToken(token);
    }
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire;
  fuzz::ByteSource bytes(data, size);
  const bool chat = bytes.Flag();
  const std::string text(bytes.Rest());
  Json body;
  std::optional<RequestBody> request;
  try {
    body = ParseJson(text, "body");
    request.emplace(text);
  } catch (const Error&) {
    return 0;
  }
  QUIRE_CHECK(ParseJson(DumpJson(body), "again") == body, "{}", DumpJson(body));
  try {
    CheckCall(chat ? ParseChatRequest(*request, kLimits) : ParseCompletionRequest(*request, kLimits));
  } catch (const ApiError& error) {
    QUIRE_CHECK(error.status >= 400 && error.status < 500, "status {}", error.status);
  }
  return 0;
}
