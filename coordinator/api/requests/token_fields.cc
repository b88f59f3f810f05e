#include "coordinator/api/requests/token_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace quire {

namespace {

constexpr size_t kMaxAllowed = 1024, kMaxStops = 64, kMaxBiases = 300;
constexpr size_t kMaxBadWords = 64, kMaxBadWordBytes = 256;

void ReadLogitBias(const JsonFields& fields, const RequestLimits& limits, SamplingSpec& sampling) {
  const Json* bias = fields.Find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object() || bias->size() > kMaxBiases)
    JsonFields::Refuse("logit_bias", fmt::format("must map at most {} token ids to numbers", kMaxBiases));
  for (const auto& [key, value] : bias->items()) {
    const bool digits = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || std::stoi(key) >= limits.vocab_size)
      JsonFields::Refuse("logit_bias", "has a key that is no token id; /tokenize gives the ids of a text");
    if (!value.is_number() || !(value >= -100.0 && value <= 100.0))
      JsonFields::Refuse("logit_bias", "values must lie from -100 to 100");
    sampling.logit_bias.emplace_back(std::stoi(key), value.get<float>());
  }
}

std::vector<TokenId> ReadIds(const JsonFields& fields, const char* name, size_t max_count, int vocab_size) {
  const Json* ids = fields.Find(name);
  if (ids == nullptr) return {};
  if (!ids->is_array()) JsonFields::Refuse(name, "must be a list of token ids");
  return ReadTokenIds(*ids, name, max_count, vocab_size);
}

}  // namespace

std::vector<TokenId> ReadTokenIds(const Json& list, const char* name, size_t max_count, int vocab_size) {
  if (list.size() > max_count) JsonFields::Refuse(name, fmt::format("takes at most {} token ids", max_count));
  std::vector<TokenId> ids;
  for (const Json& item : list) {
    const std::optional<int64_t> id = JsonFields::WholeNumber(item);
    if (!id || *id < 0 || *id >= vocab_size)
      JsonFields::Refuse(name, fmt::format("must be token ids from 0 to {}", vocab_size - 1));
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

void ReadTokenFields(const JsonFields& fields, const RequestLimits& limits, GenerateCall& call) {
  ReadLogitBias(fields, limits, call.sampling);
  call.stop_token_ids = ReadIds(fields, "stop_token_ids", kMaxStops, limits.vocab_size);
  call.sampling.allowed_tokens = ReadIds(fields, "allowed_token_ids", kMaxAllowed, limits.vocab_size);
  call.bad_words = fields.Texts("bad_words", kMaxBadWords, kMaxBadWordBytes);
}

void CheckSomeTokenIsLeft(const SamplingSpec& sampling, const std::vector<TokenId>& ends) {
  const auto& allowed = sampling.allowed_tokens;
  if (allowed.empty()) return;
  const bool some_left = std::ranges::any_of(allowed, [&](TokenId token) {
    const bool ends_too_early = sampling.min_tokens > 0 && std::ranges::find(ends, token) != ends.end();
    const bool is_bad = std::ranges::find(sampling.bad_words, std::vector<TokenId>{token}) != sampling.bad_words.end();
    return !ends_too_early && !is_bad;
  });
  if (!some_left) JsonFields::Refuse("allowed_token_ids", "leaves nothing to draw beside min_tokens and bad_words");
}

}  // namespace quire
