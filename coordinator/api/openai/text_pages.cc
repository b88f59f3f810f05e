#include "coordinator/api/openai/text_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "coordinator/api/requests/json_fields.h"
#include "coordinator/text/tokenizer/detokenizer.h"

namespace quire {

namespace {

constexpr size_t kMostTokens = 200'000;  // most ids in a body of /detokenize

}  // namespace

int64_t TextPages::TokenizeBytes(size_t body_bytes) const {
  // These constants are bytes per token. A body has at most one token per byte. kSpelled is for the token's id as text
  // in the answer.
  constexpr int64_t kText = 1, kTokenBytes = 4, kSpelled = 7;
  return static_cast<int64_t>(body_bytes) * (1 + kText + kTokenBytes + kSpelled);
}

int64_t TextPages::DetokenizeBytes(size_t body_bytes) const {
  const auto tokens = static_cast<int64_t>(std::min(body_bytes / 2, kMostTokens));  // at least two bytes per token
  constexpr int64_t kTokenBytes = 4, kCopies = 2;                                   // kCopies: the text and the answer
  return static_cast<int64_t>(body_bytes) +
         tokens * (kTokenBytes + kCopies * static_cast<int64_t>(tokenizer_.longest_token()));
}

std::string TextPages::Tokenize(const Json& json, const std::stop_token& stop) const {
  const JsonFields fields(json);
  const std::optional<std::string> prompt = fields.Text("prompt");
  if (!prompt) JsonFields::Refuse("prompt", "is missing; or give messages");
  const bool add_special_tokens = fields.Flag("add_special_tokens", true);
  const auto tokens = tokenizer_.EncodePrompt(*prompt, add_special_tokens, {.stop = stop});
  return fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}]}})", tokens.size(), max_model_len_,
                     fmt::join(tokens, ","));
}

std::string TextPages::Detokenize(const std::string& body, const std::stop_token& stop) const {
  std::vector<TokenId> tokens;
  {
    const Json json = ParseJson(body, "body", {.max_depth = 4, .max_nodes = kMostTokens});
    const JsonFields fields(json);
    const Json* list = fields.Find("tokens");
    if (list == nullptr || !list->is_array()) JsonFields::Refuse("tokens", "must be a list of token ids");
    for (const Json& token : *list) {
      if (!token.is_number_integer() || token < 0 || token >= vocab_size_)
        JsonFields::Refuse("tokens", "must be token ids of this model");
      tokens.push_back(token.get<TokenId>());
    }
  }
  CheckStop(stop);
  return DumpJson({{"prompt", Decode(tokenizer_, tokens, false)}});
}

}  // namespace quire
