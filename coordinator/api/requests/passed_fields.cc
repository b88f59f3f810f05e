#include "coordinator/api/requests/passed_fields.h"

#include <algorithm>

namespace quire {

namespace {

/// The first four fields (and top_k of Messages) belong to the Messages and Responses APIs. The other fields are
/// extensions of this server.
constexpr const char* kPassedOn[] = {"model",
                                     "temperature",
                                     "top_p",
                                     "stream",
                                     "top_k",
                                     "min_p",
                                     "repetition_penalty",
                                     "presence_penalty",
                                     "frequency_penalty",
                                     "seed",
                                     "logit_bias",
                                     "min_tokens",
                                     "ignore_eos",
                                     "stop_token_ids",
                                     "priority",
                                     "deadline_seconds",
                                     "keep_alive",
                                     "cache_salt",
                                     "structured_outputs"};

}  // namespace

bool IsPassedOn(std::string_view name) { return IsIn(name, kPassedOn); }

std::vector<std::string_view> PassedOnNames() { return {std::begin(kPassedOn), std::end(kPassedOn)}; }

void RefuseNoTokens(const JsonObject& body, const char* name) {
  const OrderedJson* most = body.Find(name);
  if (most != nullptr && most->is_number() && *most < 1) body.Refuse(name, "must be an integer of at least 1");
}

void PassOn(const JsonObject& body, OrderedJson& chat) {
  for (const char* name : kPassedOn) {
    if (const OrderedJson* value = body.Find(name)) chat[name] = *value;
  }
}

}  // namespace quire
